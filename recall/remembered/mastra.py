"""The block as the reference writes it, to the character, with two faults left out.

Months are UTC and English wherever it runs, and a text cannot open or close the block. Everything else is kept: no
line break between messages, no labels, and neighbouring messages of one role that are lists of parts run together.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from recall.parts import decode_parts, has_content
from recall.schema import Message

HEADER = "The following messages were remembered from a different conversation:"
OPENING = "<remembered_from_other_conversation>"
CLOSING = "<end_remembered_from_other_conversation>"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ROLE_ORDER = {"system": 0, "user": 1, "assistant": 2, "tool": 3}
LAST_ROLE = 99
UNSEEN_TOOL = "updateWorkingMemory"
"""The reference's own tool, whose calls it leaves out."""
_DELIMITER = re.compile(r"<(?=[\s/]*(?:end_)?remembered_from_other_conversation)", re.IGNORECASE)


class _Entry(NamedTuple):
    """One line to be: a string, or a list of parts that may grow by the next entry's."""

    role: str
    created_at: datetime
    is_elsewhere: bool
    content: str | list[Mapping[str, Any]]


def mastra_block(messages: Iterable[Message], *, current_thread_id: str | None) -> str:
    """The messages as one block, ordered by (created_at, thread_id, role, id); without messages an empty block.

    Raises:
        MessageError: Parts that cannot be read.
    """
    ordered = sorted(messages, key=_block_order)
    entries = _merged(entry for message in ordered for entry in _entries(message, current_thread_id))
    return f"{HEADER}\n{OPENING}\n{''.join(_lines(entries))}\n{CLOSING}"


def _block_order(message: Message) -> tuple[datetime, bytes, int, bytes]:
    rank = ROLE_ORDER.get(message.role, LAST_ROLE)
    return message.created_at, _code_units(message.thread_id), rank, _code_units(message.message_id)


def _code_units(text: str) -> bytes:
    # JavaScript compares UTF-16 code units, which order differently beyond the BMP.
    return text.encode("utf-16-be", "surrogatepass")


def _entries(message: Message, current_thread_id: str | None) -> Iterator[_Entry]:
    parts = decode_parts(message)
    contents = _blocks(parts) if message.role == "assistant" else [(message.role, _spoken(message, parts))]
    for role, content in contents:
        yield _Entry(role, message.created_at, message.thread_id != current_thread_id, content)


def _spoken(message: Message, parts: Sequence[Mapping[str, Any]]) -> str | list[Mapping[str, Any]]:
    """A user's content: its content string where that came with one text part and no file, else its text parts."""
    texts = [part for part in parts if part.get("type") == "text"]
    has_file = any(part.get("type") == "file" for part in parts)
    if has_content(message, parts) and len(texts) == 1 and not has_file:
        return message.text
    return list(texts)


def _blocks(parts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str | list[Mapping[str, Any]]]]:
    """An assistant's parts, cut where a tool call or the text after one begins; finished calls add a tool's entry."""
    block: list[Mapping[str, Any]] = []
    closed = 0
    for part in parts:
        kind = part.get("type")
        if kind == "tool-invocation":
            call = _invocation(part)
            if call.get("toolName") == UNSEEN_TOOL:
                continue
            step = call.get("step") or 0
            is_cut = any(each.get("type") != "tool-invocation" for each in block) or step != closed
        elif kind in ("text", "file", "reasoning"):
            is_cut = kind == "text" and any(each.get("type") == "tool-invocation" for each in block)
        else:
            continue
        if is_cut:
            yield from _closed(block)
            block, closed = [], closed + 1
        block.append(part)
    yield from _closed(block)


def _closed(block: list[Mapping[str, Any]]) -> Iterator[tuple[str, str | list[Mapping[str, Any]]]]:
    is_text = len(block) == 1 and block[0].get("type") == "text"
    yield "assistant", str(block[0].get("text", "")) if is_text else block
    if any(_invocation(part).get("state") == "result" for part in block):
        yield "tool", []


def _invocation(part: Mapping[str, Any]) -> Mapping[str, Any]:
    call = part.get("toolInvocation")
    return call if isinstance(call, Mapping) else {}


def _merged(entries: Iterable[_Entry]) -> list[_Entry]:
    """Entries, each list of parts run together with the list before it where both are of one role."""
    merged: list[_Entry] = []
    for entry in entries:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.role == entry.role
            and isinstance(last.content, list)
            and isinstance(entry.content, list)
            and not (entry.role == "assistant" and entry.content and _invocation(entry.content[-1]))
        ):
            merged[-1] = last._replace(content=[*last.content, *entry.content])
        else:
            merged.append(entry)
    return merged


def _lines(entries: Iterable[_Entry]) -> Iterator[str]:
    day = None
    for role, moment, is_elsewhere, content in entries:
        if moment.date() != day:
            day = moment.date()
            yield f"\nthe following messages are from {day.year}, {MONTHS[day.month - 1]}, {day.day}\n"
        origin = "from previous conversation" if is_elsewhere else ""
        clock = f"{moment.hour % 12 or 12}:{moment.minute:02} {'AM' if moment.hour < 12 else 'PM'}"
        text = _DELIMITER.sub("&lt;", _text(content))
        yield f"Message {origin} at {clock}: {role[:1].upper()}{role[1:]}: {text}"


def _text(content: str | list[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
