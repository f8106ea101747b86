"""Every cheap configuration, exactly, from one run.

The hits of a configuration are a prefix of the run: min(top_k, number of scores at or above the threshold). Whatever
the context is scored by is therefore a curve over prefixes (`eval.prefixes`), one for each message range and history.
Its mean under every threshold and top_k at once is the cumulative sum of its steps: the step at rank r counts under a
threshold exactly where the score at rank r reaches it.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from eval.cells import Cells
from eval.errors import ConfigError
from eval.grid import Configuration, Grid
from eval.judged import Ints, Judged
from eval.metrics.catalogue import context_metrics
from eval.metrics.context.base import Curve, Floats
from eval.prefixes import Prefixes
from eval.ranking_curves import ranking_curves
from eval.schema import Run

TURN_TOKENS = "turn_tokens"
"""Mean tokens of the context over all queries, those without evidence included: what a turn costs."""
TOKENS_PER_EVIDENCE = "tokens_per_evidence"
"""Tokens of all contexts by the relevant messages in them, over the queries with evidence."""
FALSE_RECALL = "false_recall"
"""Share of the queries without an answer that recall shows something for."""


class OnePass:
    """One run, ready to be scored under any configuration of the cheap axes."""

    def __init__(self, judged: Judged, run: Run, grid: Grid) -> None:
        """Lay out the cells that the grid can reach.

        Args:
            judged: The collection the run answers.
            run: Every query's hits, fit for it; see `eval.foreign_run`.
            grid: Every configuration that will be asked for.

        Raises:
            ConfigError: The run is shallower than the largest top_k.
        """
        deepest = max(grid.top_ks)
        if deepest > run.depth:
            raise ConfigError(
                f"the run holds {run.depth} hits per query and the grid asks for top_k {deepest}; "
                f"set depth={deepest} or more (retriever.run_depth, where a saved run was asked for so many)"
            )
        self.judged = judged
        self.run = run
        hits = run.hits
        cell = judged.cells(hits["query_id"], hits["message_id"])
        rank = hits["rank"].to_numpy().astype(np.int64)
        self._query = cell // max(judged.rows, 1)
        self._scores = np.full((judged.queries, run.depth + 1), -np.inf, dtype=np.float32)
        self._scores[self._query, rank] = hits["score"].to_numpy()
        self._cells = Cells(judged, cell, rank, run.depth, ranges=grid.ranges, last_messages=grid.last_messages)
        self._ranking: dict[str, Curve] = {}

    def per_query(self, knobs: Configuration) -> pl.DataFrame:
        """PER_QUERY rows of every context metric under one configuration; null where not defined."""
        prefixes = self._prefixes((knobs.before, knobs.after), knobs.last_messages)
        prefix = np.minimum(self._passing(knobs.threshold), knobs.top_k)
        frames = [
            pl.DataFrame(
                {
                    "query_id": self.judged.query_ids,
                    "metric": [metric.name] * prefix.size,
                    "value": pl.Series(_at(metric.curve(prefixes), prefix), dtype=pl.Float64).fill_nan(None),
                }
            )
            for metric in context_metrics().values()
        ]
        return pl.concat(frames)

    def contexts(self, knobs: Configuration) -> dict[str, set[str]]:
        """query_id to the message_ids of its context."""
        first = self._cells.first_rank(knobs.before, knobs.after, knobs.last_messages)
        prefix = np.minimum(self._passing(knobs.threshold), knobs.top_k)
        inside = first <= prefix[self._cells.query]
        found: dict[str, set[str]] = {query_id: set() for query_id in self.judged.query_ids}
        for query, row in zip(self._cells.query[inside].tolist(), self._cells.row[inside].tolist(), strict=True):
            found[self.judged.query_ids[query]].add(self.judged.message_ids[row])
        return found

    def table(self, grid: Grid, metrics: Sequence[str] | None = None) -> pl.DataFrame:
        """One row per configuration: the axes and the mean of every metric, null where nothing is defined.

        Means run over the queries with at least one relevant message, of them over those that have a value;
        `turn_tokens` runs over all queries, `false_recall` over those without an answer.

        Args:
            grid: The configurations.
            metrics: Names of the columns wanted; None is every context and ranking metric.
        """
        totals = Totals(self.judged, self._scores, grid)
        blocks = [self._block(pair, last, grid, totals, metrics) for last in grid.last_messages for pair in grid.ranges]
        return pl.concat(blocks)

    def _block(
        self, pair: tuple[int, int], last: int, grid: Grid, totals: "Totals", metrics: Sequence[str] | None
    ) -> pl.DataFrame:
        """Table rows of one message range and history."""
        prefixes = self._prefixes(pair, last)
        thresholds = np.repeat(np.arange(len(grid.thresholds)), len(grid.top_ks))
        columns = {
            "scope": pl.Series([self.run.scope] * thresholds.size, dtype=pl.String),
            "top_k": pl.Series(list(grid.top_ks) * len(grid.thresholds), dtype=pl.Int32),
            "before": pl.Series([pair[0]] * thresholds.size, dtype=pl.Int32),
            "after": pl.Series([pair[1]] * thresholds.size, dtype=pl.Int32),
            "threshold": pl.Series([grid.thresholds[number] for number in thresholds.tolist()], dtype=pl.Float64),
            "last_messages": pl.Series([last] * thresholds.size, dtype=pl.Int32),
        }
        for name, means in self._means(prefixes, totals, metrics):
            columns[name] = pl.Series(means.ravel(), dtype=pl.Float64).fill_nan(None)
        return pl.DataFrame(columns)

    def _means(
        self, prefixes: Prefixes, totals: "Totals", metrics: Sequence[str] | None
    ) -> Iterator[tuple[str, Floats]]:
        for name, metric in context_metrics().items():
            if metrics is None or name in metrics:
                yield name, totals.means(metric.curve(prefixes), self.judged.scored)
        if metrics is None or TOKENS_PER_EVIDENCE in metrics:
            tokens, found = (
                totals.means(Curve(values), self.judged.scored) for values in (prefixes.tokens, prefixes.found)
            )
            yield TOKENS_PER_EVIDENCE, _divided(tokens, found, least=0.0)
        if metrics is None or TURN_TOKENS in metrics:
            yield TURN_TOKENS, totals.means(Curve(prefixes.tokens), np.ones(self.judged.queries, dtype=bool))
        if metrics is None or FALSE_RECALL in metrics:
            has_hits = np.arange(self.run.depth + 1) > 0
            recalled = Curve((has_hits & (self._scores > -np.inf)).cumsum(axis=1).clip(0, 1).astype(np.float64))
            yield FALSE_RECALL, totals.means(recalled, ~self.judged.answerable)
        for name, curve in self._ranking_curves().items():
            if metrics is None or name in metrics:
                yield name, totals.means(curve, self.judged.scored)

    def _ranking_curves(self) -> Mapping[str, Curve]:
        if not self._ranking:
            self._ranking = dict(ranking_curves(self.judged, self._cells))
        return self._ranking

    def _prefixes(self, pair: tuple[int, int], last_messages: int) -> Prefixes:
        return Prefixes(self.judged, self._cells, before=pair[0], after=pair[1], last_messages=last_messages)

    def _passing(self, threshold: float | None) -> Ints:
        """Hits of each query at or above the threshold; scores never increase with rank, so they are a prefix."""
        least = -np.inf if threshold is None else np.float32(threshold)
        kept: Ints = np.count_nonzero((self._scores >= least) & (self._scores > -np.inf), axis=1)
        return kept


class Totals:
    """Sums of curves over queries, under every threshold and top_k at once."""

    def __init__(self, judged: Judged, scores: npt.NDArray[np.float32], grid: Grid) -> None:
        """Sort every rank of every query by how many of the grid's thresholds its score reaches.

        Args:
            judged: The collection.
            scores: Shape (queries, depth + 1), by rank; -inf at rank 0 and where there is no hit.
            grid: The thresholds and top_ks.
        """
        levels = [-np.inf if level is None else float(level) for level in grid.thresholds]
        self._levels = np.unique(np.asarray(levels, dtype=np.float32))
        self._level_of = np.searchsorted(self._levels, np.asarray(levels, dtype=np.float32))
        self._top_ks = np.asarray(grid.top_ks)
        self._width = scores.shape[1]
        reached = np.searchsorted(self._levels, scores, side="right")
        reached[:, 0] = self._levels.size  # before any hit there is nothing to reach
        self._slot = reached * self._width + np.arange(self._width)

    def means(self, curve: Curve, queries: npt.NDArray[np.bool_]) -> Floats:
        """The curve's mean over some queries, of them those that have a value; NaN where none has.

        Returns:
            Shape (thresholds, top_ks), in the grid's order.
        """
        if curve.defined is None or curve.defined.shape[1] == 1:
            counted = queries if curve.defined is None else queries & curve.defined[:, 0]
            return _divided(self._sums(curve.values[counted], counted), float(np.count_nonzero(counted)))
        counted = queries & curve.defined.any(axis=1)
        defined = curve.defined[counted].astype(np.float64)
        sums = self._sums(np.where(defined > 0, curve.values[counted], 0.0), counted)
        return _divided(sums, self._sums(defined, counted))

    def _sums(self, values: Floats, counted: npt.NDArray[np.bool_]) -> Floats:
        if values.shape[1] == 1:
            return np.full((self._level_of.size, self._top_ks.size), values.sum())
        steps = np.diff(values, axis=1, prepend=0.0)
        size = (self._levels.size + 1) * self._width
        by_reach = np.bincount(self._slot[counted].ravel(), weights=steps.ravel(), minlength=size)
        # A level counts what reaches it or a higher one.
        at_level = np.cumsum(by_reach.reshape(-1, self._width)[::-1], axis=0)[::-1][1:]
        sums: Floats = np.cumsum(at_level, axis=1)[np.ix_(self._level_of, self._top_ks)]
        return sums


def _at(curve: Curve, prefix: Ints) -> Floats:
    """A curve's value of each query after so many hits; NaN where it has none."""
    query = np.arange(prefix.size)
    values = np.broadcast_to(curve.values, (prefix.size, max(curve.values.shape[1], int(prefix.max(initial=0)) + 1)))
    if curve.defined is None:
        return values[query, prefix]
    defined = np.broadcast_to(curve.defined, values.shape)
    return np.where(defined[query, prefix], values[query, prefix], np.nan)


def _divided(sums: Floats, counts: Floats | float, *, least: float = 0.5) -> Floats:
    """Quotients; NaN where the divisor, a number of queries but for rounding, is not above `least`."""
    counts = np.broadcast_to(counts, sums.shape)
    means: Floats = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > least)
    return means
