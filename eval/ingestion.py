"""Messages of a file into a store that lasts, whole turns at a time."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from eval.errors import CollectionError
from recall.chat_format import message_of
from recall.engine import RecallEngine
from recall.errors import IndexingError, MessageError
from recall.schema import Message, RequestContext

CHUNK_MESSAGES = 64
"""A transaction takes whole turns until it has at least these."""
MICROSECOND = datetime.resolution

Progress = Callable[[int, int], None]


class Line(NamedTuple):
    """One message of a file.

    Attributes:
        message: As read; without a time of its own it has a place holder, a microsecond after the line before.
        has_time: False for a place holder.
    """

    message: Message
    has_time: bool


@dataclass
class Ingested:
    """What became of a file's messages.

    Attributes:
        new: Ids that the store did not have.
        changed: Ids it had with other content.
        unchanged: Ids it had just so.
        failures: message_id to the reason it has no vector.
    """

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    failures: dict[str, str] = field(default_factory=dict)


def read_lines(name: str, lines: Iterable[str], context: RequestContext) -> list[Line]:
    """The messages of a JSON Lines file, in any form `message_of` takes; blank lines are skipped.

    A line without an id gets one from its resource, thread, number and content, so that reading the file again, or a
    longer version of it, gives the same ids.

    Args:
        name: Of the file, for errors.
        lines: Its text.
        context: Thread and resource of lines that name none.

    Raises:
        CollectionError: Lines that cannot be read, all of them.
    """
    read: list[Line] = []
    faults: list[str] = []
    seen: dict[str, int] = {}
    moment = datetime.now(UTC)
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            line = _line(text, number, context, moment)
        except MessageError as error:
            faults.append(f"line {number}: {error}")
            continue
        first = seen.setdefault(line.message.message_id, number)
        if first != number:
            faults.append(f"line {number}: message_id {line.message.message_id!r} is that of line {first} too")
        moment = max(moment, line.message.created_at) + MICROSECOND if not line.has_time else moment
        read.append(line)
    if faults:
        raise CollectionError(name, faults)
    if not read:
        raise CollectionError(name, ["no messages, expected one JSON object a line"])
    return read


def ingest_lines(engine: RecallEngine, lines: Sequence[Line], progress: Progress | None = None) -> Ingested:
    """Put messages into the engine's store, thread by thread; what is there already is not embedded again.

    A line without a time keeps the time it was first stored with.

    Args:
        engine: Over the store.
        lines: In the order of their arrival.
        progress: Told (done, total) in messages, after each transaction.
    """
    outcome = Ingested()
    done = 0
    for chunk in _chunks(lines):
        known = engine.store.get([line.message.message_id for line in chunk])
        messages = [_dated(line, known.get(line.message.message_id)) for line in chunk]
        for message in messages:
            old = known.get(message.message_id)
            outcome.new += old is None
            outcome.unchanged += old is not None and replace(message, position=old.position) == old
            outcome.changed += old is not None and replace(message, position=old.position) != old
        try:
            engine.ingest(messages)
        except IndexingError as error:
            outcome.failures.update(error.failures)
        done += len(chunk)
        if progress is not None:
            progress(done, len(lines))
    return outcome


def _line(text: str, number: int, context: RequestContext, moment: datetime) -> Line:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"not JSON ({error}), expected one object a line") from error
    if not isinstance(value, dict):
        raise MessageError(f"is {text.strip()[:40]!r}, expected a JSON object")
    message = message_of(value, context=context, created_at=moment, message_id="-")
    has_time = any(value.get(name) is not None for name in ("created_at", "createdAt"))
    if message.message_id == "-":
        facts = [message.resource_id, message.thread_id, number, message.role, message.text, message.parts]
        message = replace(message, message_id=hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32])
    return Line(message, has_time)


def _dated(line: Line, known: Message | None) -> Message:
    return line.message if line.has_time or known is None else replace(line.message, created_at=known.created_at)


def _chunks(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Whole turns of one thread after another: a turn begins with what a user says."""
    threads: dict[Any, list[Line]] = {}
    for line in lines:
        threads.setdefault((line.message.resource_id, line.message.thread_id), []).append(line)
    chunk: list[Line] = []
    for thread in threads.values():
        for number, line in enumerate(thread):
            if len(chunk) >= CHUNK_MESSAGES and (number == 0 or line.message.role == "user"):
                yield chunk
                chunk = []
            chunk.append(line)
    yield chunk
