"""Which messages each query could be shown, and after how many of its hits each one is.

The first rank whose window covers a message is a running minimum of shifted rank arrays. Only messages near a hit, or
at the end of the query's own thread, matter, so each query gets its own cells: the union of the widest windows of its
hits and of its longest history. Runs of neighbouring messages lie side by side in one line, with padding between them
that no shift can cross.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eval.judged import Ints, Judged

Ranks = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


class Cells:
    """The cells of one run, laid out once for every message range and history of a grid.

    Attributes:
        cell: Sorted, distinct, shape (cells,).
        query: The query of each.
        row: The message of each.
        hit_query: The query of each hit, shape (hits,).
        hit_ranks: The rank of each hit, 1 first.
        depth: Hits asked for per query.
    """

    def __init__(
        self,
        judged: Judged,
        hit_cell: Ints,
        hit_ranks: Ints,
        depth: int,
        *,
        ranges: Sequence[tuple[int, int]],
        last_messages: Sequence[int],
    ) -> None:
        """Lay out what the widest of `ranges` and the longest of `last_messages` can reach."""
        self.depth = depth
        self._judged = judged
        self._hit_cell = hit_cell
        self.hit_query: Ints = hit_cell // max(judged.rows, 1)
        self.hit_ranks = hit_ranks
        self._before = max((before for before, _ in ranges), default=0)
        self._after = max((after for _, after in ranges), default=0)
        longest = max(last_messages, default=0)
        self.cell = np.unique(np.concatenate([*self._window_cells(), self._history_cells(longest)]))
        self.query: Ints = self.cell // max(judged.rows, 1)
        self.row: Ints = self.cell % max(judged.rows, 1)
        self._line, self._slot = self._laid_out()
        self._shifted: dict[tuple[int, int], Ranks] = {}

    def first_rank(self, before: int, after: int, last_messages: int) -> Ranks:
        """For each cell the first rank whose window covers it; 0 in the history, depth + 1 where none does."""
        first = np.minimum(self._earliest(1, before), self._earliest(-1, after))
        if last_messages:
            first[self.in_history(last_messages)] = 0
        return first

    def in_history(self, last_messages: int) -> Flags:
        """Which cells are among the last messages of their query's own thread."""
        _, stop = self._judged.history_span
        is_own = self.row >= np.maximum(stop[self.query] - last_messages, self._judged.history_span[0][self.query])
        return is_own & (self.row < stop[self.query])

    def window_sizes(self, before: int, after: int) -> Ints:
        """Messages in each hit's own window, the hit included, shape (hits,)."""
        row = self._hit_cell % max(self._judged.rows, 1)
        first = np.maximum(row - before, self._judged.thread_start[row])
        # What a query may see of a thread is its beginning.
        return np.minimum(row + after + 1, self._judged.seen_until(self.hit_query, row)) - first

    @cached_property
    def relevant(self) -> Ints:
        """Indices of the relevant cells."""
        return self._indices_of(self._judged.relevant)[0]

    @cached_property
    def gains(self) -> Ints:
        """Relevance of each of them."""
        return self._judged.gains[self._indices_of(self._judged.relevant)[1]]

    @cached_property
    def strange(self) -> Ints:
        """Indices of cells whose message is another resource's than the query."""
        return np.flatnonzero(self._judged.owner[self.row] != self._judged.asker[self.query])

    @cached_property
    def tokens(self) -> npt.NDArray[np.float64]:
        """Tokens of each cell's message."""
        return self._judged.tokens[self.row].astype(np.float64)

    @cached_property
    def hit_rank(self) -> Ints:
        """The rank of each cell as a hit; depth + 1 where it is none."""
        ranks = np.full(self.cell.size, self.depth + 1, dtype=np.int64)
        ranks[np.searchsorted(self.cell, self._hit_cell)] = self.hit_ranks
        return ranks

    @cached_property
    def repeated(self) -> tuple[Ints, Ints]:
        """Indices of cells whose message has copies, copies for one query together; and where each group starts."""
        copies = self._judged.copies
        has_copies = np.bincount(copies)[copies] > 1
        found = np.flatnonzero(has_copies[self.row])
        order = np.lexsort((copies[self.row[found]], self.query[found]))
        found = found[order]
        group = np.stack([self.query[found], copies[self.row[found]]])
        starts = np.flatnonzero(np.any(np.diff(group, axis=1, prepend=-1) != 0, axis=0))
        return found, starts

    def _indices_of(self, cells: Ints) -> tuple[Ints, Ints]:
        """Of some sorted cells those that are here: where they are here, and where they are there."""
        place = np.minimum(np.searchsorted(self.cell, cells), max(self.cell.size - 1, 0))
        present = np.flatnonzero(self.cell[place] == cells) if self.cell.size else np.empty(0, dtype=np.int64)
        return place[present], present

    def _window_cells(self) -> Iterator[Ints]:
        """Visible cells of the widest window, one offset at a time."""
        judged = self._judged
        row = self._hit_cell % max(judged.rows, 1)
        asked = judged.asked[self.hit_query]
        for offset in range(-self._before, self._after + 1):
            near = np.clip(row + offset, 0, judged.rows - 1)
            inside = (row + offset >= judged.thread_start[row]) & (row + offset < judged.thread_end[row])
            visible = (inside & (judged.created[near] < asked)) | (offset == 0)
            yield self._hit_cell[visible] + offset

    def _history_cells(self, longest: int) -> Ints:
        """Cells of the longest history of every query."""
        start, stop = self._judged.history_span
        length = np.minimum(stop - start, longest)
        query = np.repeat(np.arange(length.size), length)
        place = np.arange(query.size) - np.repeat(np.cumsum(length) - length, length)
        cells: Ints = query * self._judged.rows + (stop - length)[query] + place
        return cells

    def _laid_out(self) -> tuple[Ranks, Ints]:
        """The line of hit ranks with padding, and each cell's slot in it."""
        thread = self._judged.thread_start[self.row]
        starts = np.ones(self.cell.size, dtype=bool)
        starts[1:] = (np.diff(self.cell) != 1) | (np.diff(thread) != 0) | (np.diff(self.query) != 0)
        padding = max(self._before, self._after)
        slot = np.arange(self.cell.size) + np.cumsum(starts) * padding
        length = int(slot[-1]) + padding + 1 if slot.size else 0
        line = np.full(length, self.depth + 1, dtype=np.int32)
        line[slot[np.searchsorted(self.cell, self._hit_cell)]] = self.hit_ranks
        return line, slot

    def _earliest(self, direction: int, steps: int) -> Ranks:
        """The smallest rank within `steps` messages: after each cell where direction is 1, before it where it is -1."""
        key = (direction, steps)
        if key not in self._shifted:
            best = self._line.copy()
            for step in range(1, steps + 1):
                if direction > 0:  # a hit `step` later has the cell among its neighbours before
                    np.minimum(best[:-step], self._line[step:], out=best[:-step])
                else:
                    np.minimum(best[step:], self._line[:-step], out=best[step:])
            self._shifted[key] = best[self._slot]
        return self._shifted[key]
