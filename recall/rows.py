"""Rows of one resource as one contiguous block, and the exact search over it.

A block is ordered by (thread, position), so that a thread is a slice and the resource is the whole block: scattered
rows cost several times what contiguous ones do. A block is built at the first search after a change.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from recall.errors import InputError
from recall.protocols import IndexEntry
from recall.schema import Ranking, Scores, Vector, Vectors
from recall.scoring import SCORE_DECIMALS, best_first, score

Integers = npt.NDArray[np.int64]
RowNumbers = npt.NDArray[np.intp]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FLOAT32_UNIT = 2.0**-24
"""Largest relative error of one float32 rounding."""


class RowBatch(NamedTuple):
    """Columns of rows in the order they were given; serials tell which addition of a message is the current one."""

    message_ids: list[str]
    thread_ids: list[str]
    created_us: Integers
    positions: Integers
    vectors: Vectors
    serials: Integers


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """The rows of one resource at one moment, ordered by (thread, position, message_id).

    Attributes:
        message_ids: By row.
        vectors: Shape (n, dim), float32, C-contiguous.
        created_us: Shape (n,), microseconds since 1970.
        tie_order: Shape (n,), rank by (created_at, position, message_id).
        threads: thread_id to its rows.
    """

    message_ids: list[str]
    vectors: Vectors
    created_us: Integers
    tie_order: Integers
    threads: dict[str, slice]

    def scan(
        self,
        query: Vector,
        depth: int,
        *,
        thread_id: str | None = None,
        thread_ids: Collection[str] | None = None,
        before: datetime | None = None,
    ) -> Ranking:
        """The best `depth` rows of one thread, or of all, exactly as if the kernel had scored every row.

        Args:
            query: Shape (dim,), float32, unit length.
            depth: 1 or more.
            thread_id: The one thread searched; None for all.
            thread_ids: Of these, the only ones searched; None for no such filter.
            before: Only rows created strictly earlier are seen.
        """
        span = slice(0, len(self)) if thread_id is None else self.threads.get(thread_id, slice(0, 0))
        estimates = np.clip(self.vectors[span] @ query, -1.0, 1.0)
        is_visible = self.visible(thread_ids, before)
        if is_visible is not None:
            estimates[~is_visible[span]] = -np.inf
        return self.rank(query, span.start + _contenders(estimates, depth, _margin(query.size)), depth)

    def rank(self, query: Vector, rows: RowNumbers, depth: int) -> Ranking:
        """The best `depth` of these rows by the kernel's score, ties by `tie_order`."""
        scores = score(query, self.vectors[rows])
        best = best_first(scores, self.tie_order[rows])[:depth]
        return Ranking(tuple(self.message_ids[row] for row in rows[best].tolist()), scores[best])

    def visible(self, thread_ids: Collection[str] | None, before: datetime | None) -> npt.NDArray[np.bool_] | None:
        """Shape (n,), True where a row is in one of the threads and strictly older; None where nothing is hidden."""
        if thread_ids is None and before is None:
            return None
        is_visible = np.ones(len(self), dtype=np.bool_)
        if before is not None:
            is_visible &= self.created_us < microseconds(before)
        if thread_ids is not None:
            is_inside = np.zeros(len(self), dtype=np.bool_)
            for thread_id in thread_ids:
                is_inside[self.threads.get(thread_id, slice(0, 0))] = True
            is_visible &= is_inside
        return is_visible

    def __len__(self) -> int:
        return len(self.message_ids)


class ResourceRows:
    """The rows of one resource: takes additions and removals, gives a block."""

    def __init__(self) -> None:
        """Start without rows."""
        self._serial_of: dict[str, int] = {}
        self._batches: list[RowBatch] = []
        self._block: RowBlock | None = None

    def put(self, batch: RowBatch) -> None:
        """Add rows of distinct messages; a message that is there already is replaced."""
        self._serial_of.update(zip(batch.message_ids, batch.serials.tolist(), strict=True))
        self._batches.append(batch)
        self._block = None

    def drop(self, message_ids: Collection[str]) -> None:
        """Forget messages; unknown ids are ignored."""
        for message_id in message_ids:
            if self._serial_of.pop(message_id, None) is not None:
                self._block = None

    def block(self) -> RowBlock:
        """The rows as they are now; the same object until something changes."""
        if self._block is None:
            batch = _in_thread_order(_joined(self._batches), self._serial_of)
            self._batches = [batch]
            self._block = RowBlock(
                message_ids=batch.message_ids,
                vectors=batch.vectors,
                created_us=batch.created_us,
                tie_order=_tie_order(batch),
                threads=_slices(batch.thread_ids),
            )
        return self._block

    def __len__(self) -> int:
        return len(self._serial_of)


def row_batch(entries: Sequence[IndexEntry], vectors: Vectors, first_serial: int) -> RowBatch:
    """Entries and their vectors as columns, numbered from `first_serial`.

    Raises:
        InputError: A time without a zone.
    """
    count = len(entries)
    return RowBatch(
        message_ids=[entry.message_id for entry in entries],
        thread_ids=[entry.thread_id for entry in entries],
        created_us=np.fromiter((microseconds(entry.created_at) for entry in entries), np.int64, count),
        positions=np.fromiter((entry.position for entry in entries), np.int64, count),
        vectors=vectors,
        serials=np.arange(first_serial, first_serial + count, dtype=np.int64),
    )


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly.

    Raises:
        InputError: The time has no zone.
    """
    if moment.utcoffset() is None:
        raise InputError(f"time is {moment!r}, expected an aware time; use datetime.replace(tzinfo=datetime.UTC)")
    return (moment - EPOCH) // MICROSECOND


def _joined(batches: list[RowBatch]) -> RowBatch:
    if len(batches) == 1:
        return batches[0]
    return RowBatch(
        message_ids=[message_id for batch in batches for message_id in batch.message_ids],
        thread_ids=[thread_id for batch in batches for thread_id in batch.thread_ids],
        created_us=np.concatenate([batch.created_us for batch in batches]),
        positions=np.concatenate([batch.positions for batch in batches]),
        vectors=np.concatenate([batch.vectors for batch in batches]),
        serials=np.concatenate([batch.serials for batch in batches]),
    )


def _in_thread_order(batch: RowBatch, serial_of: dict[str, int]) -> RowBatch:
    order = np.lexsort((_ranks(batch.message_ids), batch.positions, _ranks(batch.thread_ids)))
    pairs = zip(batch.message_ids, batch.serials.tolist(), strict=True)
    # A row whose serial is not its message's current one was replaced or removed.
    is_live = np.fromiter((serial_of.get(i) == serial for i, serial in pairs), np.bool_, len(order))
    order = order[is_live[order]]
    picks = order.tolist()
    return RowBatch(
        message_ids=[batch.message_ids[row] for row in picks],
        thread_ids=[batch.thread_ids[row] for row in picks],
        created_us=batch.created_us[order],
        positions=batch.positions[order],
        vectors=batch.vectors[order],
        serials=batch.serials[order],
    )


def _ranks(ids: list[str]) -> Integers:
    # Python compares strings exactly; numpy's own string type would drop trailing NULs.
    rank = {value: number for number, value in enumerate(sorted(set(ids)))}
    return np.fromiter((rank[value] for value in ids), np.int64, len(ids))


def _tie_order(batch: RowBatch) -> Integers:
    order = np.lexsort((_ranks(batch.message_ids), batch.positions, batch.created_us))
    tie_order = np.empty(len(order), dtype=np.int64)
    tie_order[order] = np.arange(len(order))
    return tie_order


def _slices(thread_ids: list[str]) -> dict[str, slice]:
    starts: dict[str, int] = {}
    for row, thread_id in enumerate(thread_ids):
        starts.setdefault(thread_id, row)
    stops = [*list(starts.values())[1:], len(thread_ids)]
    return {thread_id: slice(start, stop) for (thread_id, start), stop in zip(starts.items(), stops, strict=True)}


def _margin(dim: int) -> float:
    # What a float32 product of unit rows and the kernel's rounding can differ by at most, with 1 % to spare.
    return 1.01 * (dim + 2) * FLOAT32_UNIT + 10.0**-SCORE_DECIMALS


def _contenders(estimates: Scores, depth: int, margin: float) -> RowNumbers:
    """Rows that can be among the best `depth` by the kernel, ties at the cut included; -inf is out of sight."""
    is_visible = estimates > -np.inf
    if np.count_nonzero(is_visible) <= depth:
        return np.flatnonzero(is_visible)
    cut = np.partition(estimates, len(estimates) - depth)[len(estimates) - depth]
    return np.flatnonzero(estimates >= cut - 2.0 * margin)
