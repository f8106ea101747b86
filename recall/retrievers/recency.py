"""Ranks messages by their time alone, the newest first: what a retriever that understands nothing finds."""

from collections.abc import Sequence
from datetime import datetime
from math import inf

import numpy as np

from recall.held_messages import HeldMessages
from recall.protocols import Changes, Embedded, EncodedQuery
from recall.schema import Message, Ranking, SearchScope
from recall.scoring import rounded


class RecencyRetriever:
    """The newest messages of the scope; a score is 1 / rank and says nothing on its own."""

    score_range = (inf, -inf)
    space = None

    def __init__(self) -> None:
        """Start empty."""
        self._held = HeldMessages()

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """Nothing has to be kept with messages."""
        return Embedded()

    def follow(self, changes: Changes) -> None:
        """Take over a store's changes."""
        self._held.follow(changes)

    def encode(self, text: str) -> EncodedQuery:
        """Nothing of the query is used."""
        return EncodedQuery(text, None)

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """The newest `depth` messages of the scope; later places in a thread first where times are equal."""
        newest = self._held.seen(scope, before)[::-1][:depth]
        ids = tuple(message.message_id for message in newest)
        return Ranking(ids, rounded(1 / np.arange(1, len(ids) + 1, dtype=np.float64)))
