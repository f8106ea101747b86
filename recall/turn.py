"""The list of messages of one turn: the question in it, what of it is stored, and how stored messages join it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import takewhile

from recall.parts import is_question, query_text
from recall.schema import Message, RequestContext


def question_of(messages: Sequence[Message]) -> str | None:
    """Text of the last input message of a user that has any; None where there is none.

    Blanks count as text, as in the reference.
    """
    for message in reversed(messages):
        if message.source == "input" and is_question(message):
            text = query_text(message)
            if text:
                return text
    return None


def spoken_in(messages: Sequence[Message], context: RequestContext) -> list[Message]:
    """What a turn adds to its thread: input and response, as the context's resource; no system messages."""
    return [
        replace(message, resource_id=context.resource_id or message.resource_id)
        for message in messages
        if message.source in {"input", "response"} and message.role != "system"
    ]


def join_stored(messages: Sequence[Message], stored: Iterable[Message]) -> list[Message]:
    """The turn's messages and the stored messages of its thread that are not in it yet, by time.

    Stored messages get source "memory"; system messages among them stay out. At equal times the turn's own
    messages come first, in their order, then the stored ones by position, so that it does not matter who
    joined what first. System messages at the head of the list stay there. Nothing to add: nothing moves.
    """
    present = {message.message_id for message in messages}
    new = [
        replace(message, source="memory")
        for message in stored
        if message.message_id not in present and message.role != "system"
    ]
    if not new:
        return list(messages)
    head = list(takewhile(lambda message: message.role == "system", messages))
    return [*head, *sorted([*messages[len(head) :], *new], key=_turn_order)]


def _turn_order(message: Message) -> tuple[datetime, int]:
    return message.created_at, message.position if message.source == "memory" else -1
