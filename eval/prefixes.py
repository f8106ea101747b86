"""What the contexts of one run hold after every number of hits, under one message range and one history."""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from eval.cells import Cells
from eval.judged import Ints, Judged

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Prefixes:
    """The context of every query after every number of hits.

    Arrays have shape (queries, depth + 1): column n is the context of the first n hits, column 0 the history alone.
    Those of a query as such have shape (queries, 1). What nobody asks for is not computed.
    """

    def __init__(self, judged: Judged, cells: Cells, *, before: int, after: int, last_messages: int) -> None:
        """Look at one message range and one history of the cells of a run."""
        self.judged = judged
        self._cells = cells
        self._range = (before, after)
        self._last_messages = last_messages
        # One more column takes what is never reached, and is cut off.
        self._width = cells.depth + 2
        self._first: Ints = cells.first_rank(before, after, last_messages).astype(np.int64)
        self._place: Ints = cells.query * self._width + self._first

    @cached_property
    def messages(self) -> Floats:
        """Messages in the context."""
        return self._accumulated(self._place)

    @cached_property
    def tokens(self) -> Floats:
        """Their tokens."""
        return self._accumulated(self._place, self._cells.tokens)

    @cached_property
    def found(self) -> Floats:
        """Relevant messages in the context."""
        return self._accumulated(self._place[self._cells.relevant])

    @property
    def relevant(self) -> Floats:
        """Relevant messages of each query."""
        return self.judged.relevant_count[:, None].astype(np.float64)

    @property
    def has_evidence(self) -> Flags:
        """Which queries have a relevant message."""
        return self.judged.scored[:, None]

    @cached_property
    def rescued(self) -> Floats:
        """Relevant messages that are in the context as neighbours only: neither hits so far nor history."""
        of_query = self._cells.query[self._cells.relevant] * self._width
        first, hit = self._first[self._cells.relevant], self._cells.hit_rank[self._cells.relevant]
        is_new = first > 0
        return self._accumulated((of_query + first)[is_new]) - self._accumulated((of_query + hit)[is_new])

    @cached_property
    def window_messages(self) -> Floats:
        """Messages of all windows, each as often as a window holds it."""
        sizes = self._cells.window_sizes(*self._range).astype(np.float64)
        return self._accumulated(self._cells.hit_query * self._width + self._cells.hit_ranks, sizes)

    @cached_property
    def windowed(self) -> Floats:
        """Messages that at least one window holds, whether they are in the history or not."""
        if not self._last_messages:
            return self.messages
        first: Ints = self._cells.first_rank(*self._range, 0).astype(np.int64)
        return self._accumulated(self._cells.query * self._width + first)

    @cached_property
    def said(self) -> Floats:
        """Different things said in the context: copies of one count once."""
        repeated, starts = self._cells.repeated
        if not repeated.size:
            return self.messages
        place = self._place[repeated]
        # Copies of one thing for one query lie together, so the smallest place is the first rank.
        firsts: Ints = np.minimum.reduceat(place, starts)
        return self.messages - self._accumulated(place) + self._accumulated(firsts)

    @cached_property
    def strangers(self) -> Floats:
        """Messages of other resources in the context."""
        return self._accumulated(self._place[self._cells.strange])

    def _accumulated(self, place: Ints, weights: Floats | None = None) -> Floats:
        queries = self.judged.queries
        counts = np.bincount(place, weights=weights, minlength=queries * self._width).reshape(queries, self._width)
        total: Floats = np.cumsum(counts[:, :-1], axis=1, dtype=np.float64)
        return total
