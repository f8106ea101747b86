"""The messages a retriever has been told of: for those that rank without vectors, or reorder what others rank."""

from datetime import datetime

import numpy as np
import numpy.typing as npt

from recall.protocols import Changes
from recall.rows import microseconds
from recall.schema import Message, Ranking, SearchScope
from recall.scoring import best_first, rounded


class HeldMessages:
    """Follows a store's changes; nothing is kept but the messages and where they are searched."""

    def __init__(self) -> None:
        """Start empty."""
        self._held: dict[str, tuple[Message, str]] = {}

    def follow(self, changes: Changes) -> None:
        """Take over a store's changes."""
        for message_id in changes.removed:
            self._held.pop(message_id, None)
        for message, _, searched_in in changes.changed:
            self._held[message.message_id] = (message, searched_in)

    def seen(self, scope: SearchScope, before: datetime | None) -> list[Message]:
        """The messages of a scope that are old enough, by (created_at, position, id)."""
        found = [
            message
            for message, searched_in in self._held.values()
            if scope.admits(message.resource_id, searched_in) and (before is None or message.created_at < before)
        ]
        return sorted(found, key=_tie_key)

    def created_us(self, message_ids: list[str]) -> npt.NDArray[np.int64]:
        """When messages were written, in microseconds since 1970."""
        return np.array([microseconds(self._held[each][0].created_at) for each in message_ids], dtype=np.int64)

    def ranking(self, scores: dict[str, float], depth: int) -> Ranking:
        """The best `depth` by score, rounded as every score is; ties by (created_at, position, id)."""
        ids = sorted(scores, key=lambda message_id: _tie_key(self._held[message_id][0]))
        values = rounded(np.array([scores[message_id] for message_id in ids], dtype=np.float64))
        best = best_first(values, np.arange(len(ids)))[:depth]
        return Ranking(tuple(ids[number] for number in best.tolist()), values[best])

    def __len__(self) -> int:
        return len(self._held)


def _tie_key(message: Message) -> tuple[datetime, int, str]:
    return message.created_at, message.position, message.message_id
