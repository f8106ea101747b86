"""Hits to windows to context: which messages the model would see, and in which order."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from recall.options import MessageRange
from recall.protocols import MessageReader
from recall.schema import ContextMessage, Hit, Message, SearchScope, message_order


class Span(NamedTuple):
    """Positions start <= p < stop of one thread."""

    start: int
    stop: int


def merge_spans(positions: Iterable[int], message_range: MessageRange) -> list[Span]:
    """The windows around these positions of one thread, as disjoint spans in ascending order.

    Windows that overlap or touch become one. The start is clipped at 0; the end is not clipped, as the
    length of the thread is the store's to know.
    """
    merged: list[Span] = []
    for position in sorted(positions):
        window = Span(max(0, position - message_range.before), position + message_range.after + 1)
        if merged and window.start <= merged[-1].stop:
            merged[-1] = Span(merged[-1].start, window.stop)
        else:
            merged.append(window)
    return merged


def build_context(
    hits: Sequence[Hit],
    store: MessageReader,
    *,
    message_range: MessageRange,
    scope: SearchScope,
    before: datetime | None = None,
) -> tuple[ContextMessage, ...]:
    """Each hit with its neighbours: every message once, ordered by (created_at, position, id).

    A window is the positions p - range.before to p + range.after of the hit's own thread, clipped to the
    thread. A hit that the store does not have, that is outside the scope or not earlier than `before`
    contributes nothing, so every other hit is in the context.

    Args:
        hits: Distinct messages, in any order.
        store: Where the messages and their neighbours are.
        message_range: How many neighbours on each side.
        scope: Nothing outside it is returned.
        before: Only messages created strictly earlier are seen.
    """
    hit_of = {hit.message_id: hit for hit in hits}
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for message in store.get(list(hit_of)).values():
        if scope.admits(message.resource_id, message.thread_id) and _is_seen(message, before):
            positions[message.thread_id].append(message.position)
    context = [
        ContextMessage(replace(message, source="memory"), hit_of.get(message.message_id))
        for thread_id, found in positions.items()
        for span in merge_spans(found, message_range)
        for message in store.span(SearchScope(scope.resource_id, thread_id), span.start, span.stop)
        if _is_seen(message, before)
    ]
    return tuple(sorted(context, key=lambda entry: message_order(entry.message)))


def _is_seen(message: Message, before: datetime | None) -> bool:
    return before is None or message.created_at < before
