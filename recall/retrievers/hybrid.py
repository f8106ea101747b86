"""Two rankings as one: by weighted scores, or by ranks alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Literal, get_args

import numpy as np

from recall.errors import OptionsError
from recall.held_messages import HeldMessages
from recall.options import MAX_TOP_K
from recall.protocols import Changes, Embedded, EncodedQuery, Retriever, VectorSpace
from recall.schema import Message, Ranking, SearchScope

Fusion = Literal["min_max", "rrf"]
WITHOUT_SCALE = (inf, -inf)


@dataclass(frozen=True)
class _Query:
    """One query in the form of either side."""

    dense: EncodedQuery
    lexical: EncodedQuery


class HybridRetriever:
    """Fuses a dense and a lexical retriever. Fused scores say nothing on their own, so there is no threshold on them.

    min_max: each side's scores are stretched so that its candidates in scope reach from 0 to 1, then weighted; what a
    side does not find counts as its smallest score. rrf: the sum of 1 / (rrf_k + rank) over the sides' first
    candidates, a fixed number, weighted (Cormack, Clarke & Buettcher, SIGIR 2009).
    """

    score_range = WITHOUT_SCALE

    def __init__(
        self,
        dense: Retriever,
        lexical: Retriever,
        *,
        fusion: Fusion = "min_max",
        weight: float = 0.5,
        rrf_k: float = 60.0,
        candidates: int = 100,
    ) -> None:
        """Join two retrievers.

        Args:
            dense: One side.
            lexical: The other side.
            fusion: "min_max" or "rrf".
            weight: Of the dense side, 0 to 1; the lexical side has the rest.
            rrf_k: How little the first ranks stand out, above 0.
            candidates: Of each side for rrf, whatever `top_k`.

        Raises:
            OptionsError: A setting outside what is allowed.
        """
        if fusion not in get_args(Fusion):
            raise OptionsError("fusion", fusion, " or ".join(map(repr, get_args(Fusion))))
        if not 0 <= weight <= 1:
            raise OptionsError("weight", weight, "a number from 0 to 1")
        if not 0 < rrf_k < inf:
            raise OptionsError("rrf_k", rrf_k, "a finite number above 0")
        if isinstance(candidates, bool) or not 1 <= candidates <= MAX_TOP_K:
            raise OptionsError("candidates", candidates, f"an integer from 1 to {MAX_TOP_K}")
        self._dense, self._lexical = dense, lexical
        self._fusion = fusion
        self._weights = (weight, 1 - weight)
        self._rrf_k = rrf_k
        self._candidates = candidates
        self._held = HeldMessages()

    @property
    def space(self) -> VectorSpace | None:
        """That of the dense side."""
        return self._dense.space

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """What the dense side wants kept."""
        return self._dense.embed(messages)

    def follow(self, changes: Changes) -> None:
        """Let both sides take over a store's changes."""
        self._dense.follow(changes)
        self._lexical.follow(changes)
        self._held.follow(changes)

    def encode(self, text: str) -> EncodedQuery:
        """The query in the form of both sides."""
        dense = self._dense.encode(text)
        return EncodedQuery(_Query(dense, self._lexical.encode(text)), dense.ms)

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """The best `depth` messages of the scope by both sides together; min_max scans everything in scope."""
        every = self._fusion == "min_max"
        count = max(len(self._held), 1) if every else self._candidates
        sides = (
            self._dense.rank(query.value.dense, scope, count, before=before, exact=exact or every),
            self._lexical.rank(query.value.lexical, scope, count, before=before, exact=exact),
        )
        fused: dict[str, float] = {}
        for side, weight in zip(sides, self._weights, strict=True):
            for message_id, part in zip(side.message_ids, self._parts(side, len(sides[0].message_ids)), strict=True):
                fused[message_id] = fused.get(message_id, 0.0) + weight * part
        return replace(self._held.ranking(fused, depth), searched_by=sides[0].searched_by)

    def _parts(self, side: Ranking, in_scope: int) -> list[float]:
        """What each hit of one side is worth before its weight."""
        if self._fusion == "rrf":
            return [1 / (self._rrf_k + rank) for rank in range(1, len(side.message_ids) + 1)]
        scores = side.scores.astype(np.float64)
        # A lexical search leaves out what scores 0, so its smallest score is 0 unless everything is found.
        least = min(scores.min(initial=inf), 0.0 if len(scores) < in_scope else inf)
        width = scores.max(initial=-inf) - least
        stretched = (scores - least) / width if width > 0 else np.zeros(scores.shape)
        return [float(part) for part in stretched]
