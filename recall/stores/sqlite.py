"""Messages, threads and vectors in one SQLite file, which lasts and which several processes may share."""

import logging
import shutil
import sqlite3
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from recall.errors import MessageError
from recall.index_name import check_index
from recall.message_file import MessageFile
from recall.message_rows import (
    MESSAGE_COLUMNS,
    Cell,
    StoredMessage,
    cell,
    content_cells,
    index_info,
    microseconds,
    optional_text,
    stored_message,
    text_of,
    thread_of,
    vector_cells,
    vector_of,
)
from recall.metadata import metadata_json
from recall.protocols import ChangedMessage, Changes, Embeddings, IndexInfo, IndexKey
from recall.schema import Message, SearchScope, Thread

log = logging.getLogger(__name__)

IDS_PER_SELECT = 500
"""SQLite builds before 3.32 take at most 999 parameters."""
JOINED = "messages m JOIN threads t USING (thread_key)"


class SQLiteStore:
    """A store in a file. Every write is one transaction; readers see whole ones, whoever writes.

    Order in a thread is (created_at, arrival); a message that replaces another keeps its arrival. Appending to a thread
    costs what is appended, a late message what it moves. A vector's checksum is verified when it is read; a damaged
    one counts as missing, and is made again when the message is ingested or reindexed.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Name the file, made at its first use where it is missing; nothing is opened yet.

        Args:
            path: Of the file, in a folder that exists. None is a private file that goes with the store.
        """
        if path is None:
            folder = tempfile.mkdtemp(prefix="recall-store-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = Path(folder) / "messages.db"
        self._file = MessageFile(Path(path))

    def add(self, messages: Sequence[Message], embeddings: Embeddings | None = None) -> list[Message]:
        """Store messages with their vectors and return them, in the order given, with their positions.

        Raises:
            MessageError: An id is held by another resource or thread; nothing is stored.
            IdentityError: The index holds vectors of another space or dimension; nothing is stored.
            OptionsError: The index has a name that cannot be used; nothing is stored.
        """
        with self._file.writing() as connection:
            held = _rows_by_id(connection, [message.message_id for message in messages])
            _refuse_moves(messages, held)
            index_key = None if embeddings is None else _checked_index(connection, embeddings)
            revision = _next_revision(connection)
            incoming = {message.message_id: replace(message, source="input") for message in messages}
            batches: defaultdict[tuple[str, str], list[Message]] = defaultdict(list)
            for message in incoming.values():
                batches[message.resource_id, message.thread_id].append(message)
            keys = {message_id: row.message_key for message_id, row in held.items()}
            for home, batch in batches.items():
                keys.update(_merge(connection, _thread_key(connection, *home), batch, held, revision))
            if embeddings is not None and index_key is not None:
                _put_vectors(connection, index_key, embeddings, incoming, keys, revision)
            positions = _positions(connection, list(keys.values()))
            return [
                replace(incoming[message.message_id], position=positions[keys[message.message_id]])
                for message in messages
            ]

    def get(self, message_ids: Sequence[str]) -> dict[str, Message]:
        """Stored messages by id; unknown ids are absent."""
        with self._file.reading() as connection:
            held = _rows_by_id(connection, message_ids)
            return {wanted: held[wanted].message for wanted in message_ids if wanted in held}

    def span(self, scope: SearchScope, start: int, stop: int) -> list[Message]:
        """Messages of one thread at positions start <= p < stop, in order; ends work as in a slice.

        Raises:
            MessageError: The scope names no thread.
        """
        if scope.thread_id is None:
            raise MessageError("thread_id of the scope is None, expected the thread whose messages are wanted")
        with self._file.reading() as connection:
            found = connection.execute(
                "SELECT thread_key FROM threads WHERE resource_id = ? AND thread_id = ?",
                (cell(scope.resource_id), cell(scope.thread_id)),
            ).fetchone()
            if found is None:
                return []
            first, last, _ = slice(start, stop).indices(_length(connection, found[0]))
            rows = connection.execute(
                f"SELECT {MESSAGE_COLUMNS} FROM {JOINED} WHERE m.thread_key = ? AND m.position >= ? AND m.position < ?"
                " ORDER BY m.position",
                (found[0], first, last),
            )
            return [stored_message(values).message for values in rows]

    def remove(self, message_ids: Sequence[str]) -> None:
        """Delete messages and their vectors; unknown ids are ignored; later positions of the thread close up."""
        with self._file.writing() as connection:
            _remove(connection, list(_rows_by_id(connection, message_ids).values()))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One moment of the file; writing inside is refused.

        Raises:
            StoreError: The file cannot be read.
        """
        with self._file.reading():
            yield

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    def threads(self, *, resource_id: str | None = None, thread_id: str | None = None) -> list[Thread]:
        """Threads with this owner, with this id, with both, or all of them; by (resource_id, thread_id)."""
        wanted = {"resource_id": resource_id, "thread_id": thread_id}
        given = {name: cell(value) for name, value in wanted.items() if value is not None}
        conditions = " AND ".join(f"{name} = ?" for name in given) or "TRUE"
        with self._file.reading() as connection:
            rows = connection.execute(
                f"SELECT thread_id, resource_id, metadata FROM threads WHERE {conditions}", list(given.values())
            ).fetchall()
        found = [thread_of(*row) for row in rows]
        return sorted(found, key=lambda thread: (thread.resource_id, thread.thread_id))

    def put_thread(self, thread: Thread) -> None:
        """Make a thread, or replace its metadata.

        Raises:
            MessageError: Metadata that is not JSON.
        """
        metadata = metadata_json(thread)
        with self._file.writing() as connection:
            key = _thread_key(connection, thread.resource_id, thread.thread_id)
            connection.execute("UPDATE threads SET metadata = ? WHERE thread_key = ?", (metadata, key))

    def remove_thread(self, resource_id: str, thread_id: str) -> None:
        """Delete a thread with its messages and their vectors; an unknown one is ignored."""
        with self._file.writing() as connection:
            where = (cell(resource_id), cell(thread_id))
            rows = connection.execute(
                f"SELECT {MESSAGE_COLUMNS} FROM {JOINED} WHERE t.resource_id = ? AND t.thread_id = ?", where
            ).fetchall()
            _remove(connection, [stored_message(values) for values in rows])
            connection.execute("DELETE FROM threads WHERE resource_id = ? AND thread_id = ?", where)

    def changes(self, resource_id: str, since: int, index: IndexKey | None) -> Changes:
        """What happened to a resource's messages after revision `since`; 0 is everything there is.

        Raises:
            IdentityError: The index holds vectors of another space.
            OptionsError: The index has a name that cannot be used.
        """
        with self._file.reading() as connection:
            index_key, dim = -1, 0
            if index is not None:
                found = _held_index(connection, index.name)
                check_index(None if found is None else found[1], index)
                index_key, dim = (-1, 0) if found is None else (found[0], found[1].dim)
            revision = _revision(connection)
            if revision == since:
                return Changes(revision)
            changed = _changed(connection, cell(resource_id), since, index_key)
            damaged = 0
            entries = []
            for values in changed:
                *message_values, searched_in, blob, crc = values
                message = stored_message(message_values).message
                vector = None if blob is None else vector_of(message.message_id, blob, crc, dim)
                damaged += vector is None and blob is not None
                entries.append(ChangedMessage(message, vector, optional_text(searched_in) or message.thread_id))
            removed = connection.execute(
                "SELECT message_id FROM removals WHERE revision > ? AND resource_id = ?", (since, cell(resource_id))
            ).fetchall()
        if damaged:
            log.warning("%s: %d damaged vector(s); ingest their messages again, or reindex", self._file.path, damaged)
        return Changes(revision, entries, [text_of(message_id) for (message_id,) in removed])

    def embedded(self, index_name: str, message_ids: Sequence[str]) -> set[str]:
        """Which of these messages have a vector in an index, and an undamaged one."""
        with self._file.reading() as connection:
            found = _held_index(connection, index_name)
            if found is None:
                return set()
            index_key, info = found
            rows = _in_chunks(
                connection,
                "SELECT m.message_id, e.vector, e.crc FROM messages m JOIN embeddings e USING (message_key)"
                f" WHERE e.index_key = {index_key} AND m.message_id IN",
                [cell(message_id) for message_id in message_ids],
            )
            read = ((text_of(message_id), blob, crc) for message_id, blob, crc in rows)
            return {name for name, blob, crc in read if vector_of(name, blob, crc, info.dim) is not None}

    def indexes(self) -> list[IndexInfo]:
        """The indexes that hold vectors, by name."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT name, model_id, identity, dim, COUNT(*) FROM indexes JOIN embeddings USING (index_key)"
                " GROUP BY index_key"
            ).fetchall()
        return sorted((index_info(*row) for row in rows), key=lambda info: info.key.name)

    def drop_index(self, index_name: str) -> None:
        """Delete an index's vectors; the messages stay. An unknown name is ignored."""
        with self._file.writing() as connection:
            found = _held_index(connection, index_name)
            if found is None:
                return
            revision = _next_revision(connection)
            connection.execute(
                "UPDATE messages SET revision = ? WHERE message_key IN"
                " (SELECT message_key FROM embeddings WHERE index_key = ?)",
                (revision, found[0]),
            )
            connection.execute("DELETE FROM embeddings WHERE index_key = ?", (found[0],))

    def __len__(self) -> int:
        """Messages held."""
        with self._file.reading() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM messages").fetchone()[0])


def _merge(
    connection: sqlite3.Connection,
    thread_key: int,
    batch: Sequence[Message],
    held: Mapping[str, StoredMessage],
    revision: int,
) -> dict[str, int]:
    """Put one thread's messages in their order, and give the keys of those that are new."""
    replaced = [held[message.message_id].message for message in batch if message.message_id in held]
    earliest = min(microseconds(message.created_at) for message in (*batch, *replaced))
    # What is earlier than everything given or replaced stays where it is.
    tail: list[tuple[int, int, int]] = connection.execute(
        "SELECT created_us, message_key, position FROM messages WHERE thread_key = ? AND created_us >= ?",
        (thread_key, earliest),
    ).fetchall()
    settled = min((position for *_, position in tail), default=_length(connection, thread_key))
    place = {key: (created_us, key, position) for created_us, key, position in tail}
    new = [message for message in batch if message.message_id not in held]
    arrivals = _take_arrivals(connection, len(new))
    keys = {message.message_id: arrival for arrival, message in enumerate(new, start=arrivals)}
    for message in batch:
        key = keys.get(message.message_id)
        if key is None:
            row = held[message.message_id]
            key = row.message_key
            if replace(message, position=row.message.position) != row.message:
                _update(connection, key, message, revision)
            place[key] = (microseconds(message.created_at), key, row.message.position)
        else:
            place[key] = (microseconds(message.created_at), key, -1)
    order = {key: at for at, (_, key, _) in enumerate(sorted(place.values()), start=settled)}
    connection.executemany(
        "INSERT INTO messages (message_key, message_id, thread_key, position, created_us, role, name, text, parts,"
        " revision) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (keys[m.message_id], cell(m.message_id), thread_key, order[keys[m.message_id]], *content_cells(m), revision)
            for m in new
        ],
    )
    connection.executemany("DELETE FROM removals WHERE message_id = ?", [(cell(m.message_id),) for m in new])
    connection.executemany(
        "UPDATE messages SET position = ?, revision = ? WHERE message_key = ?",
        [(order[key], revision, key) for _, key, position in place.values() if position not in (-1, order[key])],
    )
    return keys


def _update(connection: sqlite3.Connection, key: int, message: Message, revision: int) -> None:
    connection.execute(
        "UPDATE messages SET created_us = ?, role = ?, name = ?, text = ?, parts = ?, revision = ?"
        " WHERE message_key = ?",
        (*content_cells(message), revision, key),
    )
    # Vectors of the old content are nobody's any more, in any index.
    connection.execute("DELETE FROM embeddings WHERE message_key = ?", (key,))


def _remove(connection: sqlite3.Connection, rows: Sequence[StoredMessage]) -> None:
    if not rows:
        return
    revision = _next_revision(connection)
    connection.executemany("DELETE FROM messages WHERE message_key = ?", [(row.message_key,) for row in rows])
    connection.executemany(
        "INSERT OR REPLACE INTO removals VALUES (?, ?, ?)",
        [(cell(row.message.message_id), cell(row.message.resource_id), revision) for row in rows],
    )
    first_gone: dict[int, int] = {}
    for row in rows:
        first_gone[row.thread_key] = min(row.message.position, first_gone.get(row.thread_key, row.message.position))
    for thread_key, first in first_gone.items():
        later = connection.execute(
            "SELECT message_key FROM messages WHERE thread_key = ? AND position > ? ORDER BY position",
            (thread_key, first),
        ).fetchall()
        connection.executemany(
            "UPDATE messages SET position = ?, revision = ? WHERE message_key = ?",
            [(position, revision, key) for position, (key,) in enumerate(later, start=first)],
        )


def _put_vectors(
    connection: sqlite3.Connection,
    index_key: int,
    embeddings: Embeddings,
    incoming: Mapping[str, Message],
    keys: Mapping[str, int],
    revision: int,
) -> None:
    rows = []
    for message_id, vector in embeddings.vectors.items():
        own = incoming[message_id].thread_id
        searched_in = None if embeddings.thread_id in (None, own) else cell(embeddings.thread_id)
        rows.append((keys[message_id], index_key, searched_in, *vector_cells(message_id, vector)))
    connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?, ?)", rows)
    connection.executemany(
        "UPDATE messages SET revision = ? WHERE message_key = ?", [(revision, key) for key, *_ in rows]
    )


def _checked_index(connection: sqlite3.Connection, embeddings: Embeddings) -> int | None:
    """The key of the index, made or taken over where it holds nothing; None where nothing is to be kept."""
    index = embeddings.index
    found = _held_index(connection, index.name)
    held = None if found is None else found[1]
    check_index(held, index)
    for vector in embeddings.vectors.values():
        held = held or IndexInfo(index, vector.size, 0)
        check_index(held, index, vector.size)
    if found is not None or held is None:
        return None if found is None else found[0]
    values = (cell(index.space.model_id), cell(index.space.identity), held.dim, cell(index.name))
    (key,) = connection.execute(
        "INSERT INTO indexes (model_id, identity, dim, name) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
        " model_id = excluded.model_id, identity = excluded.identity, dim = excluded.dim RETURNING index_key",
        values,
    ).fetchone()
    return int(key)


def _held_index(connection: sqlite3.Connection, name: str) -> tuple[int, IndexInfo] | None:
    """An index that holds vectors; how many is left out."""
    row = connection.execute(
        "SELECT index_key, name, model_id, identity, dim FROM indexes i WHERE name = ?"
        " AND EXISTS (SELECT 1 FROM embeddings e WHERE e.index_key = i.index_key)",
        (cell(name),),
    ).fetchone()
    return None if row is None else (row[0], index_info(row[1], row[2], row[3], row[4], 0))


def _changed(connection: sqlite3.Connection, resource: Cell, since: int, index_key: int) -> list[tuple[Any, ...]]:
    vectors = f"LEFT JOIN embeddings e ON e.message_key = m.message_key AND e.index_key = {index_key}"
    columns = f"{MESSAGE_COLUMNS}, e.searched_in, e.vector, e.crc"
    if since == 0:
        rows = connection.execute(f"SELECT {columns} FROM {JOINED} {vectors} WHERE t.resource_id = ?", (resource,))
    else:
        rows = connection.execute(
            f"SELECT {columns} FROM messages m INDEXED BY messages_by_revision CROSS JOIN threads t USING (thread_key)"
            f" {vectors} WHERE m.revision > ? AND t.resource_id = ?",
            (since, resource),
        )
    return rows.fetchall()


def _refuse_moves(messages: Sequence[Message], held: Mapping[str, StoredMessage]) -> None:
    homes: dict[str, tuple[str, str]] = {}
    for message in messages:
        row = held.get(message.message_id)
        known = message if row is None else row.message
        home = homes.setdefault(message.message_id, (known.resource_id, known.thread_id))
        if home != (message.resource_id, message.thread_id):
            raise MessageError(
                f"message_id {message.message_id!r} is in use, expected an id that is new or of this same thread; "
                "give the message an id of its own"
            )


def _rows_by_id(connection: sqlite3.Connection, message_ids: Sequence[str]) -> dict[str, StoredMessage]:
    cells = [cell(message_id) for message_id in dict.fromkeys(message_ids)]
    rows = _in_chunks(connection, f"SELECT {MESSAGE_COLUMNS} FROM {JOINED} WHERE m.message_id IN", cells)
    return {row.message.message_id: row for row in map(stored_message, rows)}


def _positions(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, int]:
    return dict(_in_chunks(connection, "SELECT message_key, position FROM messages WHERE message_key IN", keys))


def _in_chunks(connection: sqlite3.Connection, select: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(values), IDS_PER_SELECT):
        part = values[start : start + IDS_PER_SELECT]
        yield from connection.execute(f"{select} ({','.join('?' * len(part))})", part)


def _thread_key(connection: sqlite3.Connection, resource_id: str, thread_id: str) -> int:
    where = (cell(resource_id), cell(thread_id))
    connection.execute("INSERT INTO threads (resource_id, thread_id) VALUES (?, ?) ON CONFLICT DO NOTHING", where)
    (key,) = connection.execute(
        "SELECT thread_key FROM threads WHERE resource_id = ? AND thread_id = ?", where
    ).fetchone()
    return int(key)


def _length(connection: sqlite3.Connection, thread_key: int) -> int:
    (last,) = connection.execute("SELECT MAX(position) FROM messages WHERE thread_key = ?", (thread_key,)).fetchone()
    return 0 if last is None else int(last) + 1


def _take_arrivals(connection: sqlite3.Connection, count: int) -> int:
    (first,) = connection.execute("SELECT arrivals FROM state").fetchone()
    connection.execute("UPDATE state SET arrivals = arrivals + ?", (count,))
    return int(first)


def _next_revision(connection: sqlite3.Connection) -> int:
    connection.execute("UPDATE state SET revision = revision + 1")
    return _revision(connection)


def _revision(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT revision FROM state").fetchone()[0])
