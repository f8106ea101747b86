"""Every cheap configuration, exactly, from one run.

The hits of a configuration are a prefix of the run: min(top_k, number of scores at or above the threshold). A
message is in the context as soon as the prefix reaches the first rank whose window covers it, so for each
(before, after) one array of first ranks answers every top_k and every threshold through cumulative sums.

First ranks are running minima of shifted rank arrays. Only messages near a hit matter, so each query gets its
own cells: the union of the widest windows of its hits. Runs of neighbouring messages lie side by side, with
padding between them that no shift can cross.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from eval.errors import ConfigError
from eval.schema import Run, ScopeName, TestCollection

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CONTEXT_METRICS = (
    "evidence_recall",
    "evidence_all",
    "evidence_any",
    "context_precision",
    "context_messages",
    "context_tokens",
)


class Configuration(NamedTuple):
    """One point of the cheap axes."""

    scope: ScopeName
    top_k: int
    before: int
    after: int
    threshold: float | None


@dataclass(frozen=True)
class Grid:
    """The cheap axes of one sweep; every combination is a configuration.

    Attributes:
        top_ks: Each 1 or more.
        ranges: (before, after), each 0 or more.
        thresholds: None is off.
    """

    top_ks: Sequence[int]
    ranges: Sequence[tuple[int, int]]
    thresholds: Sequence[float | None]


class Judged:
    """A collection and its token counts as arrays, shared by every run that is scored on it."""

    def __init__(self, collection: TestCollection, tokens: npt.NDArray[np.integer]) -> None:
        """Take a collection and the tokens of each of its messages, in the order of its rows."""
        messages = collection.messages.select("message_id", "thread_id", "created_at")
        self.query_ids = collection.queries["query_id"].to_list()
        self.tokens = np.asarray(tokens, dtype=np.int64)
        self._row_of = dict(zip(messages["message_id"].to_list(), range(messages.height), strict=True))
        self._query_of = {query_id: number for number, query_id in enumerate(self.query_ids)}
        self.created = messages["created_at"].to_physical().to_numpy()
        thread = messages["thread_id"].rle_id().to_numpy().astype(np.int64)
        self.thread_start = np.searchsorted(thread, thread, side="left")
        self.thread_end = np.searchsorted(thread, thread, side="right")
        latest = np.iinfo(np.int64).max
        self.asked = collection.queries["asked_at"].to_physical().fill_null(latest).to_numpy()
        relevant = collection.qrels.filter(pl.col("relevance") >= 1)
        self.relevant = np.unique(self.cells(relevant["query_id"], relevant["message_id"]))
        self.relevant_count = np.bincount(self.relevant // self.rows, minlength=len(self.query_ids))

    @property
    def rows(self) -> int:
        """Messages in the collection."""
        return int(self.tokens.size)

    def cells(self, query_ids: pl.Series, message_ids: pl.Series) -> Ints:
        """One number per (query, message): query index times rows, plus the message's row."""
        query = _look_up(query_ids, self._query_of)
        row = _look_up(message_ids, self._row_of)
        return query * self.rows + row


class Curves:
    """What one run's contexts hold, for one message range, after every number of hits.

    Each array has shape (queries, depth + 1): column n is the context of the first n hits.
    """

    def __init__(self, judged: Judged, cell: Ints, first_rank: Ints, depth: int) -> None:
        """Accumulate cells by the rank at which they enter the context."""
        shape = (len(judged.query_ids), depth + 1)
        slot = (cell // judged.rows) * (depth + 1) + first_rank

        def accumulated(weights: npt.NDArray[np.integer] | None) -> Floats:
            counts = np.bincount(slot, weights=weights, minlength=shape[0] * shape[1])
            return np.cumsum(counts.reshape(shape), axis=1, dtype=np.float64)

        self.messages = accumulated(None)
        self.tokens = accumulated(judged.tokens[cell % judged.rows])
        self.found = accumulated(np.isin(cell, judged.relevant).astype(np.int64))
        self._relevant = judged.relevant_count[:, None].astype(np.float64)

    def metric(self, name: str) -> Floats:
        """One context metric, shape (queries, depth + 1); NaN where it is not defined.

        Definitions are those of `eval.metrics.context`.
        """
        has_evidence = self._relevant > 0
        match name:
            case "evidence_recall":
                return np.divide(self.found, self._relevant, out=_nans(self.found), where=has_evidence)
            case "evidence_all":
                return np.where(has_evidence, self.found == self._relevant, np.nan)
            case "evidence_any":
                return np.where(has_evidence, self.found > 0, np.nan)
            case "context_precision":
                defined = has_evidence & (self.messages > 0)
                return np.divide(self.found, self.messages, out=_nans(self.found), where=defined)
            case "context_messages":
                return self.messages
            case "context_tokens":
                return self.tokens
        raise ConfigError(f"unknown context metric {name!r}, expected one of {', '.join(CONTEXT_METRICS)}")


class OnePass:
    """One run, ready to be scored under any configuration of the cheap axes."""

    def __init__(self, judged: Judged, run: Run, ranges: Iterable[tuple[int, int]]) -> None:
        """Lay out the cells that the widest of `ranges` can reach.

        Args:
            judged: The collection the run answers.
            run: Every query's hits, to a depth of at least the largest top_k that will be asked for.
            ranges: Every (before, after) that will be asked for.
        """
        self.judged = judged
        self.run = run
        wanted = list(ranges)
        self._before = max((before for before, _ in wanted), default=0)
        self._after = max((after for _, after in wanted), default=0)
        hits = run.hits
        self._hit_cell = judged.cells(hits["query_id"], hits["message_id"])
        self._hit_rank = hits["rank"].to_numpy().astype(np.int64)
        self._hit_query = self._hit_cell // judged.rows
        self._scores = hits["score"].to_numpy().astype(np.float32)
        self._cell, self._slot, self._ranks = self._layout()

    def per_query(self, configuration: Configuration) -> pl.DataFrame:
        """PER_QUERY rows of every context metric under one configuration; null where not defined."""
        curves = self.curves(configuration.before, configuration.after)
        prefix = self._prefix(configuration.top_k, configuration.threshold)
        query = np.arange(prefix.size)
        frames = [
            pl.DataFrame(
                {
                    "query_id": self.judged.query_ids,
                    "metric": [name] * prefix.size,
                    "value": pl.Series(curves.metric(name)[query, prefix], dtype=pl.Float64).fill_nan(None),
                }
            )
            for name in CONTEXT_METRICS
        ]
        return pl.concat(frames)

    def table(self, grid: Grid) -> pl.DataFrame:
        """One row per configuration: the axes and the mean of every context metric.

        Means run over the queries with at least one relevant message; `context_precision` over those of
        them whose context is not empty, null where there is none.
        """
        self._check(grid)
        rows = [row for pair in grid.ranges for row in self._rows(pair, grid)]
        frame = pl.DataFrame(rows, schema=_TABLE, orient="row")
        return frame.with_columns(pl.col(pl.Float64).fill_nan(None))

    def curves(self, before: int, after: int) -> Curves:
        """The context of every prefix of every query's hits, under one message range."""
        first = self._first_ranks(before, after)
        covered = first <= self.run.depth
        return Curves(self.judged, self._cell[covered], first[covered], self.run.depth)

    def _rows(self, pair: tuple[int, int], grid: Grid) -> Iterator[tuple[object, ...]]:
        """Table rows of one message range."""
        before, after = pair
        curves = self.curves(before, after)
        scored = np.flatnonzero(self.judged.relevant_count > 0)
        metrics = [curves.metric(name)[scored] for name in CONTEXT_METRICS]
        query = np.arange(scored.size)
        for threshold in grid.thresholds:
            passing = self._passing(threshold)[scored]
            for top_k in grid.top_ks:
                prefix = np.minimum(passing, top_k)
                means = [_mean(values[query, prefix]) for values in metrics]
                yield (self.run.scope, top_k, before, after, threshold, *means)

    def _prefix(self, top_k: int, threshold: float | None) -> Ints:
        """How many hits each query keeps."""
        return np.minimum(self._passing(threshold), top_k)

    def _passing(self, threshold: float | None) -> Ints:
        """Hits of each query at or above the threshold; scores never increase with rank, so they are a prefix."""
        kept = self._hit_query
        if threshold is not None:
            kept = kept[self._scores >= np.float32(threshold)]
        return np.bincount(kept, minlength=len(self.judged.query_ids))

    def _layout(self) -> tuple[Ints, Ints, Ints]:
        """Cells near a hit, their slots in the padded line, and the line of hit ranks."""
        cell = np.unique(np.concatenate(list(self._window_cells())))
        query, row = cell // self.judged.rows, cell % self.judged.rows
        thread = self.judged.thread_start[row]
        new_segment = np.ones(cell.size, dtype=bool)
        new_segment[1:] = (np.diff(cell) != 1) | (np.diff(thread) != 0) | (np.diff(query) != 0)
        padding = max(self._before, self._after)
        slot = np.arange(cell.size) + (np.cumsum(new_segment) * padding)
        ranks = np.full(int(slot[-1]) + padding + 1 if cell.size else 0, self.run.depth + 1, dtype=np.int64)
        ranks[slot[np.searchsorted(cell, self._hit_cell)]] = self._hit_rank
        return cell, slot, ranks

    def _window_cells(self) -> Iterator[Ints]:
        """Visible cells of the widest window, one offset at a time."""
        judged = self.judged
        row = self._hit_cell % judged.rows
        asked = judged.asked[self._hit_query]
        for offset in range(-self._before, self._after + 1):
            near = np.clip(row + offset, 0, judged.rows - 1)
            inside = (row + offset >= judged.thread_start[row]) & (row + offset < judged.thread_end[row])
            visible = (inside & (judged.created[near] < asked)) | (offset == 0)
            yield self._hit_cell[visible] + offset

    def _first_ranks(self, before: int, after: int) -> Ints:
        """For each cell the first rank whose window covers it; depth + 1 where none does."""
        best = self._ranks.copy()
        for step in range(1, before + 1):  # a message `step` before a hit
            np.minimum(best[:-step], self._ranks[step:], out=best[:-step])
        for step in range(1, after + 1):  # a message `step` after a hit
            np.minimum(best[step:], self._ranks[:-step], out=best[step:])
        return best[self._slot]

    def _check(self, grid: Grid) -> None:
        deepest = max(grid.top_ks)
        if deepest > self.run.depth:
            raise ConfigError(
                f"the run holds {self.run.depth} hits per query and the grid asks for top_k {deepest}; "
                f"set depth={deepest} or more"
            )


_TABLE = pl.Schema(
    {
        "scope": pl.String,
        "top_k": pl.Int32,
        "before": pl.Int32,
        "after": pl.Int32,
        "threshold": pl.Float64,
        **dict.fromkeys(CONTEXT_METRICS, pl.Float64),
    }
)


def _look_up(keys: pl.Series, number_of: Mapping[str, int]) -> Ints:
    return np.fromiter((number_of[key] for key in keys), dtype=np.int64, count=len(keys))


def _nans(like: Floats) -> Floats:
    return np.full(like.shape, np.nan)


def _mean(values: Floats) -> float:
    """Mean of what is defined; NaN where nothing is."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else np.nan
