"""Embeddings of one embedder on disk: an SQLite file that several processes may use at once.

A derived file: every row carries a checksum, the file carries the embedder's identity, and both are checked before use.
A file that is damaged, or another embedder's, is moved aside and begun anew.
"""

import fcntl
import logging
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np

from recall.errors import StoreError
from recall.protocols import TimedVector
from recall.schema import Vector

SCHEMA_VERSION = "1"
BUSY_SECONDS = 30.0
KEYS_PER_SELECT = 500
"""SQLite builds before 3.32 take at most 999 parameters."""
DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
BLOB_DTYPE = np.dtype("<f4")

CREATE_ABOUT = "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
CREATE_VECTORS = "CREATE TABLE vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, crc INTEGER NOT NULL, ms REAL)"
# The first vector of a text stays, so that it never changes; a time that was missing is filled in.
INSERT_VECTOR = "INSERT INTO vectors VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET ms = COALESCE(ms, excluded.ms)"

log = logging.getLogger(__name__)
T = TypeVar("T")


class _UnusableFileError(Exception):
    """The file is readable and not what it should be."""


class VectorFile:
    """Vectors by 32-byte key, with the milliseconds a query took where they are known."""

    def __init__(self, path: Path, identity: str) -> None:
        """Name the file and the embedder it belongs to; nothing is opened before the first use."""
        self._path = path
        self._about = {"schema": SCHEMA_VERSION, "identity": identity}
        self._connection: sqlite3.Connection | None = None

    def read(self, keys: Sequence[bytes]) -> dict[bytes, TimedVector]:
        """The vectors held, by key; a row whose checksum is wrong is deleted and absent.

        Raises:
            StoreError: The file cannot be read or made.
        """
        return self._run(lambda connection: _read(connection, keys))

    def keep(self, vectors: Mapping[bytes, TimedVector]) -> None:
        """Store vectors in one transaction; a vector that is there stays, and gets the time it had not.

        Raises:
            StoreError: The file cannot be written.
        """
        self._run(lambda connection: _keep(connection, vectors))

    def dim(self) -> int | None:
        """Length of the vectors held; None where there are none."""
        return self._run(_dim)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            try:
                return work(self._opened())
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self.close()
                return work(self._opened(is_suspect=True))
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"embedding cache {self._path} cannot be used: {error}; expected a folder that can be written and has "
                "room; name another (RECALL_HOME for the commands, `directory` in code)"
            ) from error

    def _opened(self, *, is_suspect: bool = False) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with _only_one_process(self._path):
                self._connection = self._verified(is_suspect)
        return self._connection

    def _verified(self, is_suspect: bool) -> sqlite3.Connection:
        try:
            return self._connect(is_suspect)
        except (sqlite3.DatabaseError, _UnusableFileError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not _is_damage(error):
                raise
            damaged = _set_aside(self._path)
            log.warning("embedding cache %s: %s; moved to %s, embeddings are made anew", self._path, error, damaged)
            return self._connect(is_suspect=False)

    def _connect(self, is_suspect: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            if is_suspect:
                _check_pages(connection)
            _check_about(connection, self._about)
        except (sqlite3.Error, _UnusableFileError):
            connection.close()
            raise
        return connection


def _read(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, TimedVector]:
    found: dict[bytes, TimedVector] = {}
    wrong: list[tuple[bytes]] = []
    for start in range(0, len(keys), KEYS_PER_SELECT):
        part = keys[start : start + KEYS_PER_SELECT]
        marks = ",".join("?" * len(part))
        rows = connection.execute(f"SELECT key, vector, crc, ms FROM vectors WHERE key IN ({marks})", part)
        for key, blob, crc, ms in rows:
            if crc == _checksum(key, blob):
                found[key] = TimedVector(np.frombuffer(blob, dtype=BLOB_DTYPE), ms)
            else:
                wrong.append((key,))
    if wrong:
        log.warning("embedding cache: %d row(s) with a wrong checksum; embeddings are made anew", len(wrong))
        connection.executemany("DELETE FROM vectors WHERE key = ?", wrong)
    return found


def _dim(connection: sqlite3.Connection) -> int | None:
    row = connection.execute("SELECT length(vector) FROM vectors LIMIT 1").fetchone()
    return None if row is None else int(row[0]) // np.dtype(BLOB_DTYPE).itemsize


def _keep(connection: sqlite3.Connection, vectors: Mapping[bytes, TimedVector]) -> None:
    rows = [(key, *_row(key, vector), ms) for key, (vector, ms) in vectors.items()]
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT_VECTOR, rows)


def _row(key: bytes, vector: Vector) -> tuple[bytes, int]:
    blob = vector.astype(BLOB_DTYPE).tobytes()
    return blob, _checksum(key, blob)


def _checksum(key: bytes, blob: bytes) -> int:
    # The key is part of the sum, so that a vector under another text's key is found out.
    return zlib.crc32(blob, zlib.crc32(key)) if isinstance(blob, bytes) and len(blob) % BLOB_DTYPE.itemsize == 0 else -1


def _check_about(connection: sqlite3.Connection, about: Mapping[str, str]) -> None:
    (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if not tables:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(CREATE_ABOUT)
            connection.execute(CREATE_VECTORS)
            connection.executemany("INSERT INTO about VALUES (?, ?)", list(about.items()))
        return
    try:
        held = dict(connection.execute("SELECT name, value FROM about").fetchall())
        connection.execute("SELECT key, vector, crc, ms FROM vectors LIMIT 0")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise _UnusableFileError(f"other tables than expected ({error})") from error
    for name, expected in about.items():
        if held.get(name) != expected:
            raise _UnusableFileError(f"{name} is {held.get(name)!r}, expected {expected!r}")


def _check_pages(connection: sqlite3.Connection) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _UnusableFileError(str(verdict))


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # The low byte is the kind of error, the rest its variety; a misuse of the module has no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE_CODES


def _set_aside(path: Path) -> Path:
    damaged = path.with_name(path.name + ".damaged")
    path.replace(damaged)
    for suffix in ("-wal", "-shm"):
        # SQLite would replay an old journal into the new file.
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return damaged


@contextmanager
def _only_one_process(path: Path) -> Iterator[None]:
    with path.with_name(path.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
