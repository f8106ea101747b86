"""The rows of every resource behind one door: what all indexes hold, checked before it is held."""

import threading
from collections.abc import Collection, Sequence
from datetime import datetime

import numpy as np

from recall.errors import OptionsError, VectorError
from recall.protocols import IndexEntry
from recall.rows import ResourceRows, RowBatch, RowBlock, row_batch
from recall.schema import Ranking, SearchScope, Vector, Vectors

UNIT_TOLERANCE = 1e-3
"""How far from 1 the length of a row may be; float32 and half precision stay well inside."""


class RowTable:
    """Rows by resource, so that nothing outside a resource can be found. Safe to share between threads."""

    def __init__(self) -> None:
        """Start empty; the first rows decide the dimension."""
        self._resource_of: dict[str, str] = {}
        self._rows: dict[str, ResourceRows] = {}
        self._dim: int | None = None
        self._next_serial = 0
        self._lock = threading.RLock()

    def add(self, entries: Sequence[IndexEntry], vectors: Vectors) -> None:
        """Add rows; a message_id that is there already is replaced, and of a repeated one the last counts.

        Raises:
            VectorError: Wrong shape or dimension, NaN, infinity, or a row that is not of unit length; nothing is added.
            InputError: A time without a zone; nothing is added.
        """
        with self._lock:
            rows = _unit_rows(vectors, count=len(entries), dim=self._dim, what="vectors")
            if not len(entries):
                return
            batches = self._batches(entries, rows)
            self._dim = rows.shape[1]
            self._next_serial += len(entries)
            for resource_id, batch in batches.items():
                self.remove([i for i in batch.message_ids if self._resource_of.get(i, resource_id) != resource_id])
                self._rows.setdefault(resource_id, ResourceRows()).put(batch)
                self._resource_of.update(dict.fromkeys(batch.message_ids, resource_id))

    def remove(self, message_ids: Collection[str]) -> None:
        """Forget messages; unknown ids are ignored."""
        with self._lock:
            for message_id in message_ids:
                resource_id = self._resource_of.pop(message_id, None)
                if resource_id is None:
                    continue
                self._rows[resource_id].drop([message_id])
                if not len(self._rows[resource_id]):
                    del self._rows[resource_id]

    def holds(self, resource_id: str) -> bool:
        """True where the resource has rows."""
        return resource_id in self._rows

    def block(self, resource_id: str) -> RowBlock | None:
        """The rows of a resource as they are now; None where it has none."""
        with self._lock:
            rows = self._rows.get(resource_id)
            return None if rows is None else rows.block()

    def scan(self, query: Vector, scope: SearchScope, depth: int, before: datetime | None) -> Ranking:
        """The exact answer to a checked query; empty for a resource or a thread without rows."""
        block = self.block(scope.resource_id)
        if block is None:
            return Ranking((), np.empty(0, dtype=np.float32))
        return block.scan(query, depth, thread_id=scope.thread_id, thread_ids=scope.thread_ids, before=before)

    def checked_query(self, query: Vector, depth: int) -> Vector:
        """The query as a float32 vector that fits the rows.

        Raises:
            VectorError: Wrong shape or dimension, NaN, infinity, or not of unit length.
            OptionsError: A depth under 1.
        """
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise OptionsError("depth", depth, "an integer of 1 or more")
        rows = _unit_rows([query], count=1, dim=self._dim, what="the query as one row")
        return rows.reshape(-1)

    @property
    def nbytes(self) -> int:
        """Memory of the vectors."""
        return len(self) * (self._dim or 0) * np.dtype(np.float32).itemsize

    def __len__(self) -> int:
        return len(self._resource_of)

    def _batches(self, entries: Sequence[IndexEntry], rows: Vectors) -> dict[str, RowBatch]:
        last = {entry.message_id: number for number, entry in enumerate(entries)}
        numbers_of: dict[str, list[int]] = {}
        for number in last.values():
            numbers_of.setdefault(entries[number].resource_id, []).append(number)
        batches: dict[str, RowBatch] = {}
        serial = self._next_serial
        for resource_id, numbers in numbers_of.items():
            batches[resource_id] = row_batch([entries[number] for number in numbers], rows[numbers], serial)
            serial += len(numbers)
        return batches


def _unit_rows(vectors: Vectors | list[Vector], *, count: int, dim: int | None, what: str) -> Vectors:
    try:
        rows = np.asarray(vectors, dtype=np.float32, order="C")
    except (TypeError, ValueError) as error:
        raise VectorError(f"{what}: {error}; expected a float32 array of shape ({count}, {dim or 'dim'})") from error
    if count == 0 and rows.size == 0:
        return rows
    if rows.ndim != 2 or len(rows) != count or not rows.shape[1]:
        raise VectorError(f"{what}: got shape {rows.shape}, expected ({count}, {dim or 'dim'}), one row for each")
    if dim is not None and rows.shape[1] != dim:
        raise VectorError(
            f"{what}: got dim {rows.shape[1]}, expected dim {dim} like the rows held; "
            "use the embedder the index was built with, or index every message again"
        )
    _check_lengths(rows, what)
    return rows


def _check_lengths(rows: Vectors, what: str) -> None:
    # einsum in float32: a cast of every row would copy it at twice its size.
    with np.errstate(over="ignore", invalid="ignore"):
        is_off = ~(np.abs(np.sqrt(np.einsum("ij,ij->i", rows, rows)) - 1.0) <= UNIT_TOLERANCE)
    if not is_off.any():
        return
    first = int(is_off.argmax())
    fault = f"not of unit length within {UNIT_TOLERANCE}"
    if not np.isfinite(rows[first]).all():
        fault = "with NaN or infinity"
    elif not rows[first].any():
        fault = "all zero"
    raise VectorError(
        f"{what}: got {np.count_nonzero(is_off)} of {len(rows)} that cannot be searched, the first (number {first}) "
        f"{fault}; expected finite rows of unit length, so check or normalise what the embedder gave"
    )
