"""SemanticRecall: recall before the model is called, ingest after it."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from recall.engine import RecallEngine
from recall.errors import OptionsError, RecallError
from recall.remembered import remembered_block
from recall.options import RecallOptions
from recall.schema import Message, RecallResult, RequestContext, message_order
from recall.turn import join_stored, question_of

OnError = Literal["raise", "log"]
DEFAULT_OPTIONS = RecallOptions()


class SemanticRecall:
    """An input and output processor around one engine."""

    def __init__(
        self,
        engine: RecallEngine,
        options: RecallOptions = DEFAULT_OPTIONS,
        *,
        on_error: OnError = "raise",
        logger: logging.Logger | None = None,
    ) -> None:
        """Recall with these options.

        Args:
            engine: Where messages are kept and found.
            options: The four knobs.
            on_error: "raise" lets a RecallError reach the caller; "log" logs it, puts it in the result and
                goes on without memory.
            logger: Where "log" writes; this module's logger by default.

        Raises:
            OptionsError: `on_error` is neither, or the threshold is outside the engine's `score_range`.
        """
        if on_error not in get_args(OnError):
            raise OptionsError("on_error", on_error, "'raise' or 'log'")
        self._engine = engine
        self._options = options.check_threshold(engine.score_range)
        self._on_error = on_error
        self._logger = logger or logging.getLogger(__name__)

    def recall(self, messages: Sequence[Message], context: RequestContext) -> RecallResult:
        """What the list's question brings to mind, without the messages that are in the list already.

        They still take their slots of `top_k` and still bring their neighbours. Empty without a thread or
        a question.

        Raises:
            RecallError: Anything that failed, if `on_error` is "raise".
        """
        question = question_of(messages)
        if question is None or not context.thread_id:
            return RecallResult(question or "")
        try:
            result = self._engine.recall(question, self._options, context)
        except RecallError as error:
            return RecallResult(question, errors=(self._report(error),))
        present = {message.message_id for message in messages}
        return replace(
            result,
            hits=tuple(hit for hit in result.hits if hit.message_id not in present),
            context=tuple(entry for entry in result.context if entry.message.message_id not in present),
        )

    def process_input(self, messages: Sequence[Message], context: RequestContext) -> list[Message]:
        """The list with what it brings to mind; the list as it is where that is nothing.

        Raises:
            RecallError: Anything that failed, if `on_error` is "raise".
        """
        return self.add_recalled(messages, self.recall(messages, context), context)

    def add_recalled(self, messages: Sequence[Message], result: RecallResult, context: RequestContext) -> list[Message]:
        """The list with a result in it, which the caller may have filtered.

        Messages of the current thread join by time with source "memory"; those of other threads become one
        system message at the head, unless that very message is in the list. System messages stay out.
        """
        recalled = [entry.message for entry in result.context if entry.message.role != "system"]
        here = [message for message in recalled if message.thread_id == context.thread_id]
        elsewhere = [message for message in recalled if message.thread_id != context.thread_id]
        joined = join_stored(messages, here)
        if not elsewhere:
            return joined
        reminder = _reminder(elsewhere, context)
        is_present = any(message.message_id == reminder.message_id for message in messages)
        return joined if is_present else [reminder, *joined]

    def process_output(self, messages: Sequence[Message], context: RequestContext) -> None:
        """Ingest the turn's input and response messages into the context's thread and resource.

        Recalled and system messages stay out; nothing is written without a thread or with `read_only`.

        Raises:
            RecallError: Anything that failed, if `on_error` is "raise".
        """
        if context.read_only or not context.thread_id:
            return
        turn = [
            # The context says where the turn happens, as in the reference.
            replace(message, thread_id=context.thread_id, resource_id=context.resource_id or message.resource_id)
            for message in messages
            if message.source != "memory" and message.role != "system"
        ]
        try:
            self._engine.ingest(turn)
        except RecallError as error:
            self._report(error)

    def _report(self, error: RecallError) -> str:
        if self._on_error == "raise":
            raise error
        text = f"{type(error).__name__}: {error}"
        self._logger.error("semantic recall failed: %s", text)
        return text


def _reminder(messages: Sequence[Message], context: RequestContext) -> Message:
    """The system message for other threads; equal content has an equal id."""
    newest = max(messages, key=message_order)
    block = remembered_block(messages, current_thread_id=context.thread_id)
    return replace(
        newest,
        message_id="remembered-" + hashlib.sha256(block.encode()).hexdigest()[:32],
        thread_id=context.thread_id or newest.thread_id,
        role="system",
        text=block,
        name=None,
        parts=None,
        position=0,
        source="memory",
    )
