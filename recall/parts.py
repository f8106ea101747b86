"""The parts of a message that is more than text: tool calls, reasoning, files, in their order.

`Message.parts` is a JSON array of objects with a `type`, in the form of the AI SDK: text, reasoning, tool-invocation,
file, or whatever else an application keeps. A message that is nothing but a text has none.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recall.errors import MessageError
from recall.schema import Message

Part = Mapping[str, Any]

USER_SIGNALS = ("user", "user-message")
"""Types of the reference's role "signal" that stand for something a user said."""


def decode_parts(message: Message) -> list[dict[str, Any]]:
    """The message's parts, in order; its text as the only part where it has no others.

    Raises:
        MessageError: Not a JSON array of objects.
    """
    if message.parts is None:
        return [{"type": "text", "text": message.text}]
    try:
        parts = json.loads(message.parts)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"parts of {message.message_id!r}: {error}; expected a JSON array of objects") from error
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise MessageError(f"parts of {message.message_id!r} are {message.parts[:40]!r}, expected an array of objects")
    return parts


def encode_parts(parts: Sequence[Any]) -> str:
    """Parts as they are stored.

    Raises:
        MessageError: A part that is not an object, or holds what JSON cannot.
    """
    if not all(isinstance(part, Mapping) for part in parts):
        raise MessageError(f"parts are {_shown(parts)}, expected objects with a type")
    try:
        return json.dumps([dict(part) for part in parts], ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"parts cannot be written as JSON: {error}; expected objects of JSON values") from error


def text_of(parts: Iterable[Part], joiner: str) -> str:
    """The texts of the text parts that have any, joined."""
    return joiner.join(text for text in map(_text, parts) if text)


def as_stored(content: str | None, parts: Sequence[Any]) -> tuple[str, str | None]:
    """`text` and `parts` of a message that came with a content string, with parts, or with both.

    The text is the content where there is any, else the text parts joined with a newline, as the reference indexes
    it. A content string with at most itself as its one text part is a plain text. Otherwise the parts are kept; then
    text that differs from what they say tells that there was a content string.

    Raises:
        MessageError: Parts that cannot be kept.
    """
    encoded = encode_parts(parts)
    if content is not None and list(parts) in ([], [{"type": "text", "text": content}]):
        return content, None
    return content or text_of(parts, "\n"), encoded


def query_text(message: Message) -> str:
    """What is searched when the message asks: its content string, or its text parts joined with one space."""
    if message.parts is None:
        return message.text
    parts = decode_parts(message)
    return message.text if has_content(message, parts) else text_of(parts, " ")


def has_content(message: Message, parts: Sequence[Part]) -> bool:
    """True where the message came with a content string besides or instead of its parts."""
    return message.parts is None or message.text != text_of(parts, "\n")


def is_question(message: Message) -> bool:
    """True for what a user said: the role user, or a signal that stands for one."""
    if message.role != "signal" or message.parts is None:
        return message.role == "user"
    signals = (part.get("signal") for part in decode_parts(message) if part.get("type") == "signal")
    return any(isinstance(signal, Mapping) and signal.get("type") in USER_SIGNALS for signal in signals)


def _text(part: Part) -> str:
    text = part.get("text") if part.get("type") == "text" else None
    return text if isinstance(text, str) else ""


def _shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"
