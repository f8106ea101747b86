"""Messages in memory, in order, by thread."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count

from recall.errors import MessageError
from recall.schema import Message, SearchScope

ThreadKey = tuple[str, str]


class InMemoryStore:
    """A MessageStore that lives as long as its process; one writer at a time.

    Order in a thread is (created_at, arrival). A message that replaces another keeps its arrival; one that
    was removed and comes back arrives anew. An `add` costs what it moves: the part of each thread that is
    not earlier than the earliest message given.
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._messages: dict[str, Message] = {}
        self._arrivals: dict[str, int] = {}
        self._clock = count()
        self._threads: dict[ThreadKey, list[str]] = {}

    def add(self, messages: Sequence[Message]) -> list[Message]:
        """Store messages and return them, in the order given, with their positions.

        Raises:
            MessageError: An id is held by another resource or thread; nothing is stored.
        """
        self._refuse_moves(messages)
        batches: defaultdict[ThreadKey, list[Message]] = defaultdict(list)
        for message in messages:
            batches[_home(message)].append(message)
        for home, batch in batches.items():
            self._merge(home, batch)
        return [self._messages[message.message_id] for message in messages]

    def get(self, message_ids: Sequence[str]) -> dict[str, Message]:
        """Stored messages by id; unknown ids are absent."""
        return {wanted: self._messages[wanted] for wanted in message_ids if wanted in self._messages}

    def span(self, scope: SearchScope, start: int, stop: int) -> list[Message]:
        """Messages of one thread at positions start <= p < stop, in order; ends work as in a slice.

        Raises:
            MessageError: The scope names no thread.
        """
        if scope.thread_id is None:
            raise MessageError("thread_id of the scope is None, expected the thread whose messages are wanted")
        ids = self._threads.get((scope.resource_id, scope.thread_id), [])
        return [self._messages[message_id] for message_id in ids[start:stop]]

    def remove(self, message_ids: Sequence[str]) -> None:
        """Delete messages; unknown ids are ignored; later positions of the thread close up."""
        gone = self.get(message_ids)
        first_gone: dict[ThreadKey, int] = {}
        for message in gone.values():
            home = _home(message)
            first_gone[home] = min(message.position, first_gone.get(home, message.position))
        for home, first in first_gone.items():
            left = [message_id for message_id in self._threads[home][first:] if message_id not in gone]
            self._set_tail(home, first, left)
        for message_id in gone:
            del self._messages[message_id], self._arrivals[message_id]

    def __len__(self) -> int:
        """Messages held."""
        return len(self._messages)

    def _refuse_moves(self, messages: Sequence[Message]) -> None:
        homes: dict[str, ThreadKey] = {}
        for message in messages:
            held = self._messages.get(message.message_id, message)
            if homes.setdefault(message.message_id, _home(held)) != _home(message):
                raise MessageError(
                    f"message_id {message.message_id!r} is in use, expected an id that is new or of this same thread; "
                    "give the message an id of its own"
                )

    def _merge(self, home: ThreadKey, batch: list[Message]) -> None:
        ids = self._threads.get(home, [])
        replaced = self.get([message.message_id for message in batch])
        earliest = min(message.created_at for message in (*batch, *replaced.values()))
        # What is earlier than everything given or replaced stays where it is.
        settled = bisect_left(ids, earliest, key=self._created_at)
        incoming = {message.message_id: message for message in batch}
        arrived = [message_id for message_id in incoming if message_id not in replaced]
        self._arrivals.update(zip(arrived, self._clock, strict=False))
        self._messages.update(incoming)
        self._set_tail(home, settled, sorted([*ids[settled:], *arrived], key=self._order))

    def _set_tail(self, home: ThreadKey, first: int, tail: Iterable[str]) -> None:
        ids = self._threads.setdefault(home, [])
        ids[first:] = tail
        if not ids:
            del self._threads[home]
        for position in range(first, len(ids)):
            message = self._messages[ids[position]]
            if message.position != position:
                self._messages[message.message_id] = replace(message, position=position)

    def _created_at(self, message_id: str) -> datetime:
        return self._messages[message_id].created_at

    def _order(self, message_id: str) -> tuple[datetime, int]:
        return self._messages[message_id].created_at, self._arrivals[message_id]


def _home(message: Message) -> ThreadKey:
    return message.resource_id, message.thread_id
