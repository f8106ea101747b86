"""The border: messages as other programs write them, and as a model takes them.

Understood are our own field names, OpenAI's chat messages, and the reference's stored messages; a message may mix them.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from json import dumps
from typing import Any

from recall.errors import MessageError
from recall.parts import as_stored, decode_parts, encode_parts
from recall.schema import Message, RequestContext, Source

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MOMENT = datetime(9999, 12, 31, tzinfo=UTC)
LEAST_MILLISECONDS = 1e11
"""Numbers beyond this are milliseconds since 1970: as seconds they would be in the year 5138."""
SYSTEM_ROLES = ("system", "developer")
_MODEL_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
"""What OpenAI takes as the name of a speaker."""


def message_of(
    value: Message | Mapping[str, Any],
    *,
    context: RequestContext,
    created_at: datetime | None = None,
    message_id: str | None = None,
    source: Source = "input",
) -> Message:
    """One message as a record; a record is given back as it is.

    Args:
        value: `message_id` or `id`, `thread_id` or `threadId`, `resource_id` or `resourceId`, `created_at` or
            `createdAt`, `role`, `name`, and what was said: `text` and `parts`, or `content` as a text, as a list of
            parts, or as the reference's object; also `tool_calls` and `tool_call_id`. Times are aware datetimes,
            ISO 8601 with a zone, or seconds or milliseconds since 1970.
        context: Thread and resource of a message that names none.
        created_at: Of a message that has no time; now by default.
        message_id: Of a message that has none; a new one by default.
        source: How the message came into the list.

    Raises:
        MessageError: The message cannot be read.
    """
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise MessageError(f"message is {_shown(value)}, expected a Message or a mapping with role and content")
    role = value.get("role")
    if not isinstance(role, str) or not role:
        raise MessageError(f"role is {_shown(role)}, expected a text such as user or assistant")
    text, parts = _said(value)
    moment = _first(value, "created_at", "createdAt")
    return Message(
        message_id=_known(value, "message_id", "id") or message_id or str(uuid.uuid4()),
        thread_id=_place(value, "thread_id", "threadId", context.thread_id),
        resource_id=_known(value, "resource_id", "resourceId", may_be_empty=True) or context.resource_id or "",
        role="system" if role in SYSTEM_ROLES else role,
        text=text,
        created_at=(created_at or datetime.now(UTC)) if moment is None else _time(moment),
        name=value.get("name"),
        parts=parts,
        source=source,
    )


def messages_of(
    values: Sequence[Message | Mapping[str, Any]], *, context: RequestContext, source: Source = "input"
) -> list[Message]:
    """Messages as records; those without a time are a microsecond apart, in the order given, and not before the others.

    Raises:
        MessageError: A message that cannot be read.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
        raise MessageError(f"messages are {_shown(values)}, expected a list of messages")
    messages: list[Message] = []
    latest: datetime | None = None
    for value in values:
        now = datetime.now(UTC)
        moment = now if latest is None or latest < now else min(latest, LAST_MOMENT) + MICROSECOND
        message = message_of(value, context=context, created_at=moment, source=source)
        latest = message.created_at if latest is None else max(latest, message.created_at)
        messages.append(message)
    return messages


def to_openai(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages for a model: role and content, tool calls and their results, a name where the format allows it.

    A tool result kept in the assistant's message becomes a message of role "tool" after it. Reasoning and files stay
    out, but for parts that came in OpenAI's own form.

    Raises:
        MessageError: Parts that cannot be read.
    """
    return [said for message in messages for said in _for_model(message)]


def _said(value: Mapping[str, Any]) -> tuple[str, str | None]:
    """Text and parts, whichever of the forms they come in."""
    content: Any = value.get("content")
    parts: Any = value.get("parts")
    if "text" in value:
        # Our own record: both are as they were stored.
        if not isinstance(value["text"], str):
            raise MessageError(f"text is {_shown(value['text'])}, expected a text")
        return value["text"], None if parts is None else encode_parts(_parts(parts))
    extra = _tool_parts(value)
    if isinstance(content, Mapping):
        extra = [*_signals(content), *extra]
        content, parts = content.get("content"), content.get("parts")
    elif isinstance(content, Sequence) and not isinstance(content, str | bytes | bytearray):
        content, parts = None, content
    if content is not None and not isinstance(content, str):
        raise MessageError(f"content is {_shown(content)}, expected a text, a list of parts, or an object with parts")
    if parts is None and content is None:
        content = ""
    return as_stored(content, [*_parts(parts), *extra])


def _parts(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, str):
        return decode_parts(Message("parts", "-", "", "-", "", EPOCH, parts=value))
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray):
        raise MessageError(f"parts are {_shown(value)}, expected a list of objects with a type")
    return value


def _signals(content: Mapping[str, Any]) -> list[Any]:
    metadata = content.get("metadata")
    signal = metadata.get("signal") if isinstance(metadata, Mapping) else None
    return [{"type": "signal", "signal": signal}] if isinstance(signal, Mapping) else []


def _tool_parts(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """OpenAI's tool calls and the id a tool's answer belongs to, as parts."""
    calls = value.get("tool_calls")
    if calls is not None and (not isinstance(calls, Sequence) or isinstance(calls, str | bytes)):
        raise MessageError(f"tool_calls are {_shown(calls)}, expected a list of calls")
    parts: list[dict[str, Any]] = []
    for call in calls or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise MessageError(f"tool call is {_shown(call)}, expected an object with an id and a function")
        invocation = {
            "state": "call",
            "toolCallId": call.get("id"),
            "toolName": function.get("name"),
            "args": function.get("arguments"),
        }
        parts.append({"type": "tool-invocation", "toolInvocation": invocation})
    if value.get("tool_call_id") is not None:
        parts.append({"type": "tool-result", "toolCallId": value["tool_call_id"]})
    return parts


def _for_model(message: Message) -> list[dict[str, Any]]:
    parts = [] if message.parts is None else decode_parts(message)
    said: dict[str, Any] = {"role": "user" if message.role == "signal" else message.role, "content": message.text}
    if message.name is not None and _MODEL_NAME.fullmatch(message.name):
        said["name"] = message.name
    native = [part for part in parts if part.get("type") in {"image_url", "input_audio"}]
    if native:
        said["content"] = [part for part in parts if part in native or part.get("type") == "text"]
    for part in parts:
        if part.get("type") == "tool-result":
            said["tool_call_id"] = part.get("toolCallId")
    invocations = [part["toolInvocation"] for part in parts if isinstance(part.get("toolInvocation"), dict)]
    if not invocations:
        return [said]
    said["content"] = message.text or None
    said["tool_calls"] = [_call(invocation) for invocation in invocations]
    results = [
        {"role": "tool", "tool_call_id": each.get("toolCallId"), "content": _as_text(each.get("result"))}
        for each in invocations
        if each.get("state") == "result"
    ]
    return [said, *results]


def _call(invocation: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": invocation.get("toolName"), "arguments": _as_text(invocation.get("args"))}
    return {"id": invocation.get("toolCallId"), "type": "function", "function": function}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)


def _first(value: Mapping[str, Any], *names: str) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _known(value: Mapping[str, Any], name: str, other: str, *, may_be_empty: bool = False) -> str | None:
    """An id under either name; None where there is none. One that is there must be usable."""
    given = _first(value, name, other)
    if given is None or (isinstance(given, str) and (given or may_be_empty)):
        return given
    raise MessageError(f"{name} is {_shown(given)}, expected a non-empty text")


def _place(value: Mapping[str, Any], name: str, other: str, default: str | None) -> str:
    given = _known(value, name, other) or default
    if not given:
        raise MessageError(f"message has no {name} and the request context has none either; give one of them")
    return given


def _time(value: Any) -> datetime:
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            value = datetime.fromtimestamp(value / 1000 if abs(value) > LEAST_MILLISECONDS else value, UTC)
        if isinstance(value, datetime) and value.utcoffset() is not None:
            return value.astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise MessageError(f"created_at is {_shown(value)}: {error}; expected a time with a zone") from error
    raise MessageError(
        f"created_at is {_shown(value)}, expected an aware datetime, ISO 8601 with a zone such as "
        "2024-03-05T09:00:00Z, or seconds or milliseconds since 1970"
    )


def _shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"
