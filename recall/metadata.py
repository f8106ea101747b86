"""What an application knows of a thread, as every store keeps it: JSON values by name."""

import json
from typing import Any

from recall.errors import MessageError
from recall.schema import Thread


def checked_metadata(thread: Thread) -> dict[str, Any]:
    """A copy of the thread's metadata, through JSON.

    Raises:
        MessageError: An id that is no text, or metadata that is not a JSON object.
    """
    read: dict[str, Any] = json.loads(metadata_json(thread))
    return read


def metadata_json(thread: Thread) -> str:
    """The thread's metadata as JSON text, ASCII.

    Raises:
        MessageError: An id that is no text, or metadata that is not a JSON object.
    """
    if not isinstance(thread.thread_id, str) or not thread.thread_id or not isinstance(thread.resource_id, str):
        raise MessageError(f"thread is {thread.thread_id!r}, expected a non-empty id, and a resource_id that is a text")
    try:
        written = json.dumps(dict(thread.metadata), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(
            f"metadata of thread {thread.thread_id!r} cannot be written as JSON: {error}; expected JSON values by name"
        ) from error
    return written
