"""Ranks messages by chance: the floor of every comparison."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from math import inf

import numpy as np

from recall.held_messages import HeldMessages
from recall.protocols import Changes, Embedded, EncodedQuery
from recall.schema import Message, Ranking, SearchScope


class RandomRetriever:
    """Every message of the scope is as likely as any other; the same seed and query give the same order."""

    score_range = (inf, -inf)
    space = None

    def __init__(self, seed: int = 0) -> None:
        """Choose the seed."""
        self._seed = seed
        self._held = HeldMessages()

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """Nothing has to be kept with messages."""
        return Embedded()

    def follow(self, changes: Changes) -> None:
        """Take over a store's changes."""
        self._held.follow(changes)

    def encode(self, text: str) -> EncodedQuery:
        """The seed of the query's own order."""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, salt=str(self._seed).encode())
        return EncodedQuery(int.from_bytes(digest.digest()), None)

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """`depth` messages of the scope, drawn without replacement."""
        ids = sorted(message.message_id for message in self._held.seen(scope, before))
        drawn = np.random.default_rng(query.value).random(len(ids))
        return self._held.ranking(dict(zip(ids, drawn.tolist(), strict=True)), depth)
