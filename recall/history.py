"""MessageHistory: the last messages of the current thread, whatever they say."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from recall.chat_format import messages_of
from recall.errors import OptionsError
from recall.options import MAX_RANGE
from recall.ownership import owner_of
from recall.protocols import Store
from recall.schema import Message, RequestContext, SearchScope
from recall.turn import join_stored, spoken_in


def checked_last_messages(value: Any) -> int:
    """The number of a history's messages, 0 to 10,000.

    Raises:
        OptionsError: It is not such a number.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_RANGE:
        raise OptionsError("last_messages", value, f"an integer from 0 to {MAX_RANGE}")
    return value


class MessageHistory:
    """An input and output processor that works before or after SemanticRecall, with the same result."""

    def __init__(self, store: Store, last_messages: int = 10) -> None:
        """Take the last `last_messages` (0 to 10,000) messages of a thread from this store.

        Raises:
            OptionsError: `last_messages` is not such a number.
        """
        self._store = store
        self._last_messages = checked_last_messages(last_messages)

    def process_input(
        self, messages: Sequence[Message | Mapping[str, Any]], context: RequestContext | Mapping[str, Any] | None
    ) -> list[Message]:
        """The list with the thread's last messages in it, by (created_at, arrival), source "memory".

        Those in the list already and system messages take up their place among the last, and are not added.

        Raises:
            MessageError: A message or a context that cannot be used.
            StoreError: The store could not read.
        """
        where = RequestContext.of(context)
        if not where.thread_id:
            return list[Any](messages)
        turn = messages_of(messages, context=where)
        # A slice from -0 would be the whole thread.
        if not self._last_messages:
            return turn
        with self._store.reading():
            owner = owner_of(self._store, where)
            if owner is None:
                return turn
            thread = SearchScope(owner, where.thread_id)
            return join_stored(turn, self._store.span(thread, -self._last_messages, sys.maxsize))

    def process_output(
        self, messages: Sequence[Message | Mapping[str, Any]], context: RequestContext | Mapping[str, Any] | None
    ) -> list[Message]:
        """Store the turn's input and response, and give the list back.

        What SemanticRecall has stored already stays as it is; nothing is written without a thread or with `read_only`.

        Raises:
            MessageError: A message or a context that cannot be used.
            StoreError: The store could not write.
        """
        where = RequestContext.of(context)
        if not where.thread_id:
            return list[Any](messages)
        turn = messages_of(messages, context=where)
        if not where.read_only:
            self._store.add(spoken_in(turn, where))
        return turn
