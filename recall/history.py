"""MessageHistory: the last messages of the current thread, whatever they say."""

import sys
from collections.abc import Sequence

from recall.errors import OptionsError
from recall.protocols import MessageStore
from recall.options import MAX_RANGE
from recall.schema import Message, RequestContext, SearchScope
from recall.turn import join_stored


class MessageHistory:
    """An input processor that works before or after SemanticRecall, with the same result."""

    def __init__(self, store: MessageStore, last_messages: int = 10) -> None:
        """Take the last `last_messages` (0 to 10,000) messages of a thread from this store.

        Raises:
            OptionsError: `last_messages` is not such a number.
        """
        is_count = isinstance(last_messages, int) and not isinstance(last_messages, bool)
        if not is_count or not 0 <= last_messages <= MAX_RANGE:
            raise OptionsError("last_messages", last_messages, f"an integer from 0 to {MAX_RANGE}")
        self._store = store
        self._last_messages = last_messages

    def process_input(self, messages: Sequence[Message], context: RequestContext) -> list[Message]:
        """The list with the thread's last messages in it, by (created_at, arrival), source "memory".

        Those in the list already and system messages take up their place among the last, and are not added.

        Raises:
            StoreError: The store could not read.
        """
        # A slice from -0 would be the whole thread.
        if not context.thread_id or not context.resource_id or not self._last_messages:
            return list(messages)
        thread = SearchScope(context.resource_id, context.thread_id)
        return join_stored(messages, self._store.span(thread, -self._last_messages, sys.maxsize))
