"""Halves another retriever's scores with age."""

from collections.abc import Sequence
from datetime import datetime
from math import inf

import numpy as np

from recall.errors import OptionsError
from recall.held_messages import HeldMessages
from recall.protocols import Changes, Embedded, EncodedQuery, Retriever, VectorSpace
from recall.rows import microseconds
from recall.schema import Message, Ranking, SearchScope

DAY_US = 86_400_000_000


class RecencyWeightedRetriever:
    """Another retriever, each positive score halved for every half-life of the message's age; others stay.

    Age is counted from the time of the query, or from the newest message in scope where it has none. Everything in
    scope is scored, so an approximate index answers exactly.
    """

    def __init__(self, inner: Retriever, *, half_life_days: float) -> None:
        """Choose how fast scores fall.

        Args:
            inner: What ranks.
            half_life_days: In days, above 0.

        Raises:
            OptionsError: It is not such a number.
        """
        is_number = isinstance(half_life_days, int | float) and not isinstance(half_life_days, bool)
        if not is_number or not 0 < half_life_days < inf:
            raise OptionsError("half_life_days", half_life_days, "a finite number above 0")
        self._inner = inner
        self._half_life_us = half_life_days * DAY_US
        self._held = HeldMessages()

    @property
    def score_range(self) -> tuple[float, float]:
        """The inner one's."""
        return self._inner.score_range

    @property
    def space(self) -> VectorSpace | None:
        """The inner one's."""
        return self._inner.space

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """What the inner one wants kept."""
        return self._inner.embed(messages)

    def follow(self, changes: Changes) -> None:
        """Let the inner one take over a store's changes, and remember the times."""
        self._inner.follow(changes)
        self._held.follow(changes)

    def encode(self, text: str) -> EncodedQuery:
        """The query in the inner one's form."""
        return self._inner.encode(text)

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """The best `depth` messages of the scope by the weighted score."""
        found = self._inner.rank(query, scope, max(len(self._held), 1), before=before, exact=True)
        ids = list(found.message_ids)
        if not ids:
            return found
        created = self._held.created_us(ids)
        now = created.max() if before is None else microseconds(before)
        scores = found.scores.astype(np.float64)
        weighted = np.where(scores > 0, scores * np.exp2(-(now - created) / self._half_life_us), scores)
        return self._held.ranking(dict(zip(ids, weighted.tolist(), strict=True)), depth)
