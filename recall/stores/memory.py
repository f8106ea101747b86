"""Messages in memory, in order, by thread, with their vectors."""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import count

from recall.errors import MessageError
from recall.index_name import check_index
from recall.metadata import checked_metadata
from recall.protocols import ChangedMessage, Changes, Embeddings, IndexInfo, IndexKey
from recall.schema import Message, SearchScope, Thread, Vector

ThreadKey = tuple[str, str]


class InMemoryStore:
    """A store that lives as long as its process. Safe to share between threads of execution.

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
        self._metadata: dict[ThreadKey, Mapping[str, object]] = {}
        self._vectors: dict[str, dict[str, tuple[Vector, str]]] = {}
        self._spaces: dict[str, tuple[IndexKey, int]] = {}
        # By resource, every id and the revision of its last change, the latest last; ids that are gone included.
        self._log: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._revision = 0
        self._lock = threading.RLock()

    def add(self, messages: Sequence[Message], embeddings: Embeddings | None = None) -> list[Message]:
        """Store messages with their vectors and return them, in the order given, with their positions.

        Raises:
            MessageError: An id is held by another resource or thread; nothing is stored.
            IdentityError: The index holds vectors of another space or dimension; nothing is stored.
            OptionsError: The index has a name that cannot be used; nothing is stored.
        """
        with self._lock:
            self._refuse_moves(messages)
            if embeddings is not None:
                self._check(embeddings)
            self._revision += 1
            batches: defaultdict[ThreadKey, list[Message]] = defaultdict(list)
            for message in messages:
                batches[_home(message)].append(replace(message, source="input"))
            for home, batch in batches.items():
                self._merge(home, batch)
            if embeddings is not None:
                self._keep(embeddings)
            return [self._messages[message.message_id] for message in messages]

    def get(self, message_ids: Sequence[str]) -> dict[str, Message]:
        """Stored messages by id; unknown ids are absent."""
        with self._lock:
            return {wanted: self._messages[wanted] for wanted in message_ids if wanted in self._messages}

    def span(self, scope: SearchScope, start: int, stop: int) -> list[Message]:
        """Messages of one thread at positions start <= p < stop, in order; ends work as in a slice.

        Raises:
            MessageError: The scope names no thread.
        """
        if scope.thread_id is None:
            raise MessageError("thread_id of the scope is None, expected the thread whose messages are wanted")
        with self._lock:
            ids = self._threads.get((scope.resource_id, scope.thread_id), [])
            return [self._messages[message_id] for message_id in ids[start:stop]]

    def remove(self, message_ids: Sequence[str]) -> None:
        """Delete messages and their vectors; unknown ids are ignored; later positions of the thread close up."""
        with self._lock:
            gone = self.get(message_ids)
            if not gone:
                return
            self._revision += 1
            first_gone: dict[ThreadKey, int] = {}
            for message in gone.values():
                home = _home(message)
                first_gone[home] = min(message.position, first_gone.get(home, message.position))
            for home, first in first_gone.items():
                left = [message_id for message_id in self._threads[home][first:] if message_id not in gone]
                self._set_tail(home, first, left)
            for message in gone.values():
                self._forget_vectors(message.message_id)
                self._touch(message)
                del self._messages[message.message_id], self._arrivals[message.message_id]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Nobody writes meanwhile."""
        with self._lock:
            yield

    def close(self) -> None:
        """Nothing to let go of: what is held lives as long as the store."""

    def threads(self, *, resource_id: str | None = None, thread_id: str | None = None) -> list[Thread]:
        """Threads with this owner, with this id, with both, or all of them; by (resource_id, thread_id)."""
        with self._lock:
            return [
                Thread(name, owner, self._metadata.get((owner, name), {}))
                for owner, name in sorted(self._threads)
                if resource_id in (None, owner) and thread_id in (None, name)
            ]

    def put_thread(self, thread: Thread) -> None:
        """Make a thread, or replace its metadata.

        Raises:
            MessageError: Metadata that is not JSON.
        """
        metadata = checked_metadata(thread)
        with self._lock:
            home = (thread.resource_id, thread.thread_id)
            self._threads.setdefault(home, [])
            self._metadata[home] = metadata

    def remove_thread(self, resource_id: str, thread_id: str) -> None:
        """Delete a thread with its messages and their vectors; an unknown one is ignored."""
        with self._lock:
            home = (resource_id, thread_id)
            self.remove(self._threads.get(home, []))
            self._threads.pop(home, None)
            self._metadata.pop(home, None)

    def changes(self, resource_id: str, since: int, index: IndexKey | None) -> Changes:
        """What happened to a resource's messages after revision `since`; 0 is everything there is.

        Raises:
            IdentityError: The index holds vectors of another space.
            OptionsError: The index has a name that cannot be used.
        """
        with self._lock:
            if index is not None:
                check_index(self._held(index.name), index)
            vectors = {} if index is None else self._vectors.get(index.name, {})
            changed, removed = [], []
            for message_id, revision in reversed(self._log.get(resource_id, {}).items()):
                if revision <= since:
                    break
                message = self._messages.get(message_id)
                if message is None:
                    removed.append(message_id)
                else:
                    changed.append(ChangedMessage(message, *vectors.get(message_id, (None, message.thread_id))))
            return Changes(self._revision, changed, removed)

    def embedded(self, index_name: str, message_ids: Sequence[str]) -> set[str]:
        """Which of these messages have a vector in an index."""
        with self._lock:
            return set(message_ids) & self._vectors.get(index_name, {}).keys()

    def indexes(self) -> list[IndexInfo]:
        """The indexes that hold vectors, by name."""
        with self._lock:
            held = (self._held(name) for name in sorted(self._spaces))
            return [info for info in held if info is not None]

    def drop_index(self, index_name: str) -> None:
        """Delete an index's vectors; the messages stay. An unknown name is ignored."""
        with self._lock:
            self._revision += 1
            for message_id in self._vectors.pop(index_name, {}):
                self._touch(self._messages[message_id])

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

    def _check(self, embeddings: Embeddings) -> None:
        held = self._held(embeddings.index.name)
        check_index(held, embeddings.index)
        for vector in embeddings.vectors.values():
            held = held or IndexInfo(embeddings.index, vector.size, 0)
            check_index(held, embeddings.index, vector.size)

    def _held(self, index_name: str) -> IndexInfo | None:
        rows = len(self._vectors.get(index_name, {}))
        return IndexInfo(*self._spaces[index_name], rows) if rows else None

    def _keep(self, embeddings: Embeddings) -> None:
        for message_id, vector in embeddings.vectors.items():
            message = self._messages[message_id]
            held = self._vectors.setdefault(embeddings.index.name, {})
            held[message_id] = (vector.copy(), embeddings.thread_id or message.thread_id)
            self._spaces[embeddings.index.name] = (embeddings.index, vector.size)
            self._touch(message)

    def _merge(self, home: ThreadKey, batch: list[Message]) -> None:
        ids = self._threads.get(home, [])
        replaced = self.get([message.message_id for message in batch])
        earliest = min(message.created_at for message in (*batch, *replaced.values()))
        # What is earlier than everything given or replaced stays where it is.
        settled = bisect_left(ids, earliest, key=self._created_at)
        incoming = {message.message_id: message for message in batch}
        arrived = [message_id for message_id in incoming if message_id not in replaced]
        self._arrivals.update(zip(arrived, self._clock, strict=False))
        for message in incoming.values():
            old = replaced.get(message.message_id)
            position = -1 if old is None else old.position
            self._messages[message.message_id] = replace(message, position=position)
            if old is not None and self._messages[message.message_id] != old:
                self._forget_vectors(message.message_id)
                self._touch(message)
        self._set_tail(home, settled, sorted([*ids[settled:], *arrived], key=self._order))

    def _set_tail(self, home: ThreadKey, first: int, tail: Iterable[str]) -> None:
        ids = self._threads.setdefault(home, [])
        ids[first:] = tail
        for position in range(first, len(ids)):
            message = self._messages[ids[position]]
            if message.position != position:
                self._messages[message.message_id] = replace(message, position=position)
                self._touch(message)

    def _touch(self, message: Message) -> None:
        log = self._log[message.resource_id]
        log.pop(message.message_id, None)
        log[message.message_id] = self._revision

    def _forget_vectors(self, message_id: str) -> None:
        for vectors in self._vectors.values():
            vectors.pop(message_id, None)

    def _created_at(self, message_id: str) -> datetime:
        return self._messages[message_id].created_at

    def _order(self, message_id: str) -> tuple[datetime, int]:
        return self._messages[message_id].created_at, self._arrivals[message_id]


def _home(message: Message) -> ThreadKey:
    return message.resource_id, message.thread_id
