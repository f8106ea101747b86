"""Every cheap configuration, exactly, from one run.

The hits of a configuration are a prefix of the run: min(top_k, number of scores at or above the threshold). Whatever
the context is scored by is therefore a curve over prefixes (`eval.prefixes`), one for each message range and history.
Its mean under every threshold and top_k at once is the cumulative sum of its steps: the step at rank r counts under a
threshold exactly where the score at rank r reaches it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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

QUERIES_AT_ONCE = 256
LEAST_COUNT = 1e-6
"""Counts are whole numbers but for rounding."""


class OnePass:
    """One run, ready to be scored under any configuration of the cheap axes.

    Queries are taken some hundred at a time, so that what is worked on stays in the processor's cache.
    """

    def __init__(self, judged: Judged, run: Run, grid: Grid, *, queries_at_once: int = QUERIES_AT_ONCE) -> None:
        """Lay out the cells that the grid can reach.

        Args:
            judged: The collection the run answers.
            run: Every query's hits, without the faults of `eval.run_check`.
            grid: Every configuration that will be asked for.
            queries_at_once: How many; it changes no figure but for the last bits.

        Raises:
            ConfigError: The run is shallower than the largest top_k.
        """
        deepest = max(grid.top_ks)
        if deepest > run.depth:
            raise ConfigError(
                f"the run holds {run.depth} hits per query and the grid asks for top_k {deepest}; "
                f"set depth={deepest} or more (retriever.run_depth, where a saved run was asked for so many)"
            )
        self._scope = run.scope
        hits = run.hits
        cell = judged.cells(hits["query_id"], hits["message_id"])
        order = np.argsort(cell // max(judged.rows, 1), kind="stable")
        cell = cell[order]
        rank = hits["rank"].to_numpy().astype(np.int64)[order]
        score = hits["score"].to_numpy().astype(np.float32)[order]
        starts = range(0, judged.queries, queries_at_once)
        bounds = np.searchsorted(cell, [start * judged.rows for start in [*starts, judged.queries]])
        self._parts = [
            _Part(
                judged.part(start, min(start + queries_at_once, judged.queries)),
                cell[first:last] - start * judged.rows,
                rank[first:last],
                score[first:last],
                run.depth,
                grid,
            )
            for start, first, last in zip(starts, bounds[:-1], bounds[1:], strict=True)
        ]

    def per_query(self, knobs: Configuration) -> pl.DataFrame:
        """PER_QUERY rows of every context metric under one configuration; null where not defined."""
        return pl.concat([frame for part in self._parts for frame in part.per_query(knobs)])

    def contexts(self, knobs: Configuration) -> dict[str, set[str]]:
        """query_id to the message_ids of its context."""
        return {query_id: ids for part in self._parts for query_id, ids in part.contexts(knobs).items()}

    def table(self, grid: Grid, metrics: Sequence[str] | None = None) -> pl.DataFrame:
        """One row per configuration: the axes and the mean of every metric, null where nothing is defined.

        Means run over the queries with at least one relevant message, of them over those that have a value;
        `turn_tokens` runs over all queries, `false_recall` over those without an answer.

        Args:
            grid: The configurations.
            metrics: Names of the columns wanted; None is every one.
        """
        blocks = [(pair, last) for last in grid.last_messages for pair in grid.ranges]
        sums: list[dict[str, Sums]] = [{} for _ in blocks]
        for part in self._parts:
            totals = Totals(part.scores, grid)
            for number, (pair, last) in enumerate(blocks):
                for name, found in part.sums(pair, last, totals, metrics):
                    sums[number][name] = found.plus(sums[number].get(name))
        return pl.concat(
            [self._block(pair, last, grid, found) for (pair, last), found in zip(blocks, sums, strict=True)]
        )

    def _block(self, pair: tuple[int, int], last: int, grid: Grid, sums: Mapping[str, "Sums"]) -> pl.DataFrame:
        """Table rows of one message range and history."""
        thresholds = np.repeat(np.arange(len(grid.thresholds)), len(grid.top_ks))
        columns = {
            "scope": pl.Series([self._scope] * thresholds.size, dtype=pl.String),
            "top_k": pl.Series(list(grid.top_ks) * len(grid.thresholds), dtype=pl.Int32),
            "before": pl.Series([pair[0]] * thresholds.size, dtype=pl.Int32),
            "after": pl.Series([pair[1]] * thresholds.size, dtype=pl.Int32),
            "threshold": pl.Series([grid.thresholds[number] for number in thresholds.tolist()], dtype=pl.Float64),
            "last_messages": pl.Series([last] * thresholds.size, dtype=pl.Int32),
        }
        for name, found in sums.items():
            columns[name] = pl.Series(found.mean().ravel(), dtype=pl.Float64).fill_nan(None)
        return pl.DataFrame(columns)


class _Part:
    """Some of the queries of a run."""

    def __init__(
        self, judged: Judged, cell: Ints, rank: Ints, score: npt.NDArray[np.float32], depth: int, grid: Grid
    ) -> None:
        self._judged = judged
        self.scores = np.full((judged.queries, depth + 1), -np.inf, dtype=np.float32)
        self.scores[cell // max(judged.rows, 1), rank] = score
        self._cells = Cells(judged, cell, rank, depth, ranges=grid.ranges, last_messages=grid.last_messages)
        self._ranking: dict[str, Curve] = {}

    def per_query(self, knobs: Configuration) -> Iterator[pl.DataFrame]:
        prefixes = self._prefixes((knobs.before, knobs.after), knobs.last_messages)
        prefix = self._prefix(knobs)
        for metric in context_metrics().values():
            value = pl.Series(_at(metric.curve(prefixes), prefix), dtype=pl.Float64).fill_nan(None)
            names = [metric.name] * prefix.size
            yield pl.DataFrame({"query_id": self._judged.query_ids, "metric": names, "value": value})

    def contexts(self, knobs: Configuration) -> dict[str, set[str]]:
        judged, cells = self._judged, self._cells
        first = cells.first_rank(knobs.before, knobs.after, knobs.last_messages)
        inside = first <= self._prefix(knobs)[cells.query]
        found: dict[str, set[str]] = {query_id: set() for query_id in judged.query_ids}
        for query, row in zip(cells.query[inside].tolist(), cells.row[inside].tolist(), strict=True):
            found[judged.query_ids[query]].add(judged.message_ids[row])
        return found

    def sums(
        self, pair: tuple[int, int], last: int, totals: "Totals", metrics: Sequence[str] | None
    ) -> Iterator[tuple[str, "Sums"]]:
        """Every metric that is wanted, under one message range and history."""
        judged, prefixes = self._judged, self._prefixes(pair, last)

        def is_wanted(name: str) -> bool:
            return metrics is None or name in metrics

        for name, metric in context_metrics().items():
            if is_wanted(name):
                yield name, totals.of(metric.curve(prefixes), judged.scored)
        if is_wanted(TOKENS_PER_EVIDENCE):
            tokens, found = (
                totals.of(Curve(values), judged.scored).sums for values in (prefixes.tokens, prefixes.found)
            )
            yield TOKENS_PER_EVIDENCE, Sums(tokens, found)
        if is_wanted(TURN_TOKENS):
            yield TURN_TOKENS, totals.of(Curve(prefixes.tokens), np.ones(judged.queries, dtype=bool))
        if is_wanted(FALSE_RECALL):
            has_hits = (self.scores > -np.inf).cumsum(axis=1).clip(0, 1).astype(np.float64)
            yield FALSE_RECALL, totals.of(Curve(has_hits), ~judged.answerable)
        for name, curve in self._ranking_curves().items():
            if is_wanted(name):
                yield name, totals.of(curve, judged.scored)

    def _ranking_curves(self) -> Mapping[str, Curve]:
        if not self._ranking:
            self._ranking = dict(ranking_curves(self._judged, self._cells))
        return self._ranking

    def _prefixes(self, pair: tuple[int, int], last_messages: int) -> Prefixes:
        return Prefixes(self._judged, self._cells, before=pair[0], after=pair[1], last_messages=last_messages)

    def _prefix(self, knobs: Configuration) -> Ints:
        """Hits that each query keeps; scores never increase with rank, so they are a prefix."""
        least = -np.inf if knobs.threshold is None else np.float32(knobs.threshold)
        kept: Ints = np.count_nonzero((self.scores >= least) & (self.scores > -np.inf), axis=1)
        return np.minimum(kept, knobs.top_k)


class Sums(NamedTuple):
    """Sums over queries, and what they are divided by, under every threshold and top_k.

    Attributes:
        sums: Shape (thresholds, top_ks), in the grid's order.
        counts: The same shape.
    """

    sums: Floats
    counts: Floats

    def plus(self, other: "Sums | None") -> "Sums":
        """Both together."""
        return self if other is None else Sums(self.sums + other.sums, self.counts + other.counts)

    def mean(self) -> Floats:
        """Quotients; NaN where there is nothing to divide by but rounding."""
        means: Floats = np.divide(
            self.sums, self.counts, out=np.full(self.sums.shape, np.nan), where=self.counts > LEAST_COUNT
        )
        return means


class Totals:
    """Sums of curves over queries, under every threshold and top_k at once."""

    def __init__(self, scores: npt.NDArray[np.float32], grid: Grid) -> None:
        """Sort every rank of every query by how many of the grid's thresholds its score reaches.

        Args:
            scores: Shape (queries, depth + 1), by rank; -inf at rank 0 and where there is no hit.
            grid: The thresholds and top_ks.
        """
        given = np.asarray([-np.inf if level is None else level for level in grid.thresholds], dtype=np.float32)
        self._levels = np.unique(given)
        self._level_of = np.searchsorted(self._levels, given)
        self._top_ks = np.asarray(grid.top_ks)
        self._width = scores.shape[1]
        reached = np.searchsorted(self._levels, scores, side="right")
        reached[:, 0] = self._levels.size  # before any hit there is nothing to reach
        self._slot = reached * self._width + np.arange(self._width)

    def of(self, curve: Curve, queries: npt.NDArray[np.bool_]) -> Sums:
        """The curve's sum over some queries, of them those that have a value, and how many those are."""
        shape = (self._level_of.size, self._top_ks.size)
        if curve.defined is None or curve.defined.shape[1] == 1:
            counted = queries if curve.defined is None else queries & curve.defined[:, 0]
            return Sums(self._sums(curve.values[counted], counted), np.full(shape, float(np.count_nonzero(counted))))
        counted = queries & curve.defined.any(axis=1)
        defined = curve.defined[counted].astype(np.float64)
        return Sums(
            self._sums(np.where(defined > 0, curve.values[counted], 0.0), counted), self._sums(defined, counted)
        )

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
