"""How messages, threads and vectors are written in the columns of a message file, and read back."""

import json
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from recall.protocols import IndexInfo, IndexKey, VectorSpace
from recall.schema import Message, Thread, Vector

BLOB_DTYPE = np.dtype("<f4")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Cell = str | bytes
"""Text as it is stored: as TEXT, or as UTF-8 bytes with surrogates where it has lone ones."""

MESSAGE_COLUMNS = (
    "m.message_id, t.thread_id, t.resource_id, m.role, m.text, m.created_us, m.name, m.parts, m.position,"
    " m.message_key, m.thread_key"
)
"""What `stored_message` reads, of messages m joined with their threads t."""


class StoredMessage(NamedTuple):
    """A message with the keys of its row and of its thread's."""

    message: Message
    message_key: int
    thread_key: int


def stored_message(values: Sequence[Any]) -> StoredMessage:
    """A row of `MESSAGE_COLUMNS`, read."""
    message_id, thread_id, resource_id, role, text, created_us, name, parts, position, message_key, thread_key = values
    message = Message(
        text_of(message_id),
        text_of(thread_id),
        text_of(resource_id),
        text_of(role),
        text_of(text),
        EPOCH + created_us * MICROSECOND,
        optional_text(name),
        optional_text(parts),
        position,
    )
    return StoredMessage(message, message_key, thread_key)


def content_cells(message: Message) -> tuple[int, Cell, Cell | None, Cell, Cell | None]:
    """created_us, role, name, text and parts: what an edit can change."""
    return (
        microseconds(message.created_at),
        cell(message.role),
        None if message.name is None else cell(message.name),
        cell(message.text),
        None if message.parts is None else cell(message.parts),
    )


def thread_of(thread_id: Cell, resource_id: Cell, metadata: str) -> Thread:
    """A row of threads, read."""
    return Thread(text_of(thread_id), text_of(resource_id), json.loads(metadata))


def index_info(name: Cell, model_id: Cell, identity: Cell, dim: int, rows: int) -> IndexInfo:
    """A row of indexes, read, with how many vectors it holds."""
    return IndexInfo(IndexKey(text_of(name), VectorSpace(text_of(model_id), text_of(identity))), dim, rows)


def vector_cells(message_id: str, vector: Vector) -> tuple[bytes, int]:
    """A vector of shape (dim,) as little-endian float32, and its checksum."""
    blob = vector.astype(BLOB_DTYPE).tobytes()
    return blob, _checksum(message_id, blob)


def vector_of(message_id: str, blob: Any, crc: int, dim: int) -> Vector | None:
    """The vector of a row, float32 of shape (dim,); None where it is damaged."""
    is_whole = isinstance(blob, bytes) and len(blob) == dim * BLOB_DTYPE.itemsize
    if not is_whole or crc != _checksum(message_id, blob):
        return None
    return np.frombuffer(blob, dtype=BLOB_DTYPE)


def microseconds(moment: datetime) -> int:
    """Since 1970, UTC."""
    return (moment - EPOCH) // MICROSECOND


def cell(text: str) -> Cell:
    """A text as it is stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def text_of(stored: Cell) -> str:
    """A text as it was before it was stored."""
    return stored.decode("utf-8", "surrogatepass") if isinstance(stored, bytes) else stored


def optional_text(stored: Cell | None) -> str | None:
    """A text that may be missing, as it was before it was stored."""
    return None if stored is None else text_of(stored)


def _checksum(message_id: str, blob: bytes) -> int:
    # The id is part of the sum, so that a vector under another message is found out.
    return zlib.crc32(blob, zlib.crc32(message_id.encode("utf-8", "surrogatepass")))
