"""The SQLite file under a store: opening, schema and migrations, and transactions across threads and processes."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from recall.errors import StoreError

APPLICATION_ID = 0x5265636C
"""Marks the file as ours: "Recl"."""
BUSY_SECONDS = 30.0
RETRY_SECONDS = 0.02

T = TypeVar("T")

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # arrivals: the next message's place in the order of arrival.
        "CREATE TABLE state (revision INTEGER NOT NULL, arrivals INTEGER NOT NULL)",
        "INSERT INTO state VALUES (0, 0)",
        # Columns of text have no type: what UTF-8 cannot hold is kept as a BLOB.
        "CREATE TABLE threads (thread_key INTEGER PRIMARY KEY, resource_id NOT NULL, thread_id NOT NULL,"
        " metadata TEXT NOT NULL DEFAULT '{}', UNIQUE (resource_id, thread_id))",
        "CREATE INDEX threads_by_id ON threads (thread_id)",
        "CREATE TABLE messages (message_key INTEGER PRIMARY KEY, message_id NOT NULL UNIQUE,"
        " thread_key INTEGER NOT NULL REFERENCES threads, position INTEGER NOT NULL, created_us INTEGER NOT NULL,"
        " role NOT NULL, name, text NOT NULL, parts, revision INTEGER NOT NULL)",
        "CREATE INDEX messages_by_position ON messages (thread_key, position)",
        "CREATE INDEX messages_by_time ON messages (thread_key, created_us, position)",
        "CREATE INDEX messages_by_revision ON messages (revision)",
        "CREATE TABLE removals (message_id PRIMARY KEY, resource_id NOT NULL, revision INTEGER NOT NULL)",
        "CREATE INDEX removals_by_revision ON removals (revision)",
        "CREATE TABLE indexes (index_key INTEGER PRIMARY KEY, name NOT NULL UNIQUE, model_id NOT NULL,"
        " identity NOT NULL, dim INTEGER NOT NULL)",
        # searched_in: the thread of the turn that brought the message, where it is not the message's own.
        "CREATE TABLE embeddings (message_key INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,"
        " index_key INTEGER NOT NULL REFERENCES indexes, searched_in, vector BLOB NOT NULL, crc INTEGER NOT NULL,"
        " PRIMARY KEY (message_key, index_key))",
        "CREATE INDEX embeddings_by_index ON embeddings (index_key)",
    ),
)
"""What makes a file of one version into one of the next; a file's version is how many of these it has seen."""


class MessageFile:
    """Transactions on one SQLite file: any number of readers, one writer at a time, each on a connection of its own.

    A connection belongs to a thread of execution of one process; it is opened at the first use.
    """

    def __init__(self, path: Path) -> None:
        """Name the file; nothing is opened yet."""
        self.path = path
        self._local = threading.local()
        self._opened: list[tuple[int, sqlite3.Connection]] = []
        self._lock = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one moment of the file; inside another transaction, that one's.

        Raises:
            StoreError: The file cannot be opened or read.
        """
        if self._depth():
            yield self._connection()
            return
        with self._transaction("BEGIN") as connection:
            # A deferred transaction has its moment at its first read.
            connection.execute("SELECT revision FROM state").fetchone()
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are kept together when the block ends, and dropped together when it fails.

        Raises:
            StoreError: The file cannot be opened or written, or this thread of execution is reading a moment.
        """
        if self._depth():
            raise StoreError(f"message store {self.path} was to be written inside `reading()`; write outside it")
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def close(self) -> None:
        """Close every connection of this process; the next use opens one again."""
        with self._lock:
            for pid, connection in self._opened:
                if pid == os.getpid():
                    connection.close()
            self._opened.clear()
            self._local = threading.local()

    def _depth(self) -> int:
        return getattr(self._local, "depth", 0) if getattr(self._local, "pid", None) == os.getpid() else 0

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._told():
            connection = self._connection()
            connection.execute(begin)
        self._local.depth = 1
        try:
            with self._told():
                yield connection
                connection.execute("COMMIT")
        finally:
            self._local.depth = 0
            if connection.in_transaction:
                with self._told():
                    connection.execute("ROLLBACK")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:
            raise StoreError(f"message store {self.path} cannot be used: {error}; {_advice(error)}") from error

    def _connection(self) -> sqlite3.Connection:
        # A connection must not cross a fork; the parent's is left alone and not closed.
        if getattr(self._local, "pid", None) != os.getpid():
            self._local.connection = self._open()
            self._local.pid = os.getpid()
            self._local.depth = 0
        connection: sqlite3.Connection = self._local.connection
        return connection

    def _open(self) -> sqlite3.Connection:
        if not self.path.parent.is_dir():
            raise StoreError(f"message store {self.path}: no folder {self.path.parent}; make it, or give another path")
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._check_kind(connection)
            connection.execute("PRAGMA foreign_keys = ON")
            # An acknowledged turn survives a power cut.
            connection.execute("PRAGMA synchronous = FULL")
            _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            _patiently(lambda: _migrate(connection))
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._opened.append((os.getpid(), connection))
        return connection

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not ours, before anything in it is changed."""
        kind, version, tables = _patiently(lambda: _facts(connection))
        if kind != APPLICATION_ID and (kind or tables):
            raise StoreError(
                f"{self.path} is another application's database, expected a message store of recall or no file; "
                "give another path"
            )
        if version > len(MIGRATIONS):
            raise StoreError(
                f"message store {self.path} has schema version {version}, expected at most {len(MIGRATIONS)}; "
                "a newer version of recall wrote it, so use that one"
            )


def _facts(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Application, version and number of tables, of one moment: another process may be making the file."""
    connection.execute("BEGIN")
    try:
        (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        (kind,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    finally:
        connection.execute("ROLLBACK")
    return int(kind), int(version), int(tables)


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been here since the check.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _patiently(work: Callable[[], T]) -> T:
    """Try while others hold the file: SQLite does not wait by itself where a file is being made or changes its mode."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not is_busy or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)


def _advice(error: BaseException) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return {
        sqlite3.SQLITE_BUSY: f"another process has held it for {BUSY_SECONDS:g} s; try again when it is done",
        sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
        sqlite3.SQLITE_READONLY: "it cannot be written; give a file and a folder that can",
        sqlite3.SQLITE_CANTOPEN: "give a file in a folder that can be read and written",
        sqlite3.SQLITE_NOTADB: "expected an SQLite file or no file; give another path",
        sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a copy, or recover it with `sqlite3 FILE .recover`",
    }.get(code, "expected a file that can be read and written")
