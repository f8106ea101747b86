"""SemanticRecall: recall before the model is called, ingest after it."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from recall.chat_format import message_of, messages_of
from recall.engine import RecallEngine
from recall.errors import MessageError, OptionsError, RecallError
from recall.options import RecallOptions
from recall.remembered import BlockStyle, remembered_block
from recall.schema import ContextMessage, Message, RecallResult, RequestContext, message_order
from recall.thread_filter import ThreadFilter
from recall.turn import join_stored, question_of, spoken_in

OnError = Literal["raise", "log"]
DEFAULT_OPTIONS = RecallOptions()

Turn = Sequence[Message | Mapping[str, Any]]
"""Messages as records, or as chat dicts; see `recall.chat_format`."""
Context = RequestContext | Mapping[str, Any] | None


class SemanticRecall:
    """An input and output processor around one engine."""

    def __init__(
        self,
        engine: RecallEngine,
        options: RecallOptions = DEFAULT_OPTIONS,
        *,
        where: Mapping[str, Any] | None = None,
        block_style: BlockStyle = "labelled",
        show_thread_ids: bool = False,
        distinct: bool = False,
        on_error: OnError = "raise",
        logger: logging.Logger | None = None,
    ) -> None:
        """Recall with these options.

        Args:
            engine: Where messages are kept and found.
            options: The four knobs.
            where: Conditions on the metadata of threads; only those that meet them are searched. See `ThreadFilter`.
            block_style: How messages of other threads are written: "labelled", or "mastra" as the reference does.
            show_thread_ids: Name each remembered message's thread in the labelled block, beside its letter.
            distinct: Of recalled messages with equal role, text and time, show only the first.
            on_error: "raise" lets a RecallError reach the caller; "log" logs it, puts it in the result and
                goes on without memory.
            logger: Where "log" writes; this module's logger by default.

        Raises:
            OptionsError: A setting outside what is allowed, or a threshold outside the engine's `score_range`.
        """
        for name, value, allowed in (("on_error", on_error, OnError), ("block_style", block_style, BlockStyle)):
            if value not in get_args(allowed):
                raise OptionsError(name, value, " or ".join(map(repr, get_args(allowed))))
        if show_thread_ids and block_style == "mastra":
            raise OptionsError("show_thread_ids", show_thread_ids, "False with block_style 'mastra', which shows none")
        self._engine = engine
        self._options = options.check_threshold(engine.score_range)
        self._where = None if where is None else ThreadFilter(where)
        self._block_style = block_style
        self._show_thread_ids = show_thread_ids
        self._distinct = distinct
        self._on_error = on_error
        self._logger = logger or logging.getLogger(__name__)

    def recall(self, messages: Turn, context: Context) -> RecallResult:
        """What the list's question brings to mind, without the messages that are in the list already.

        They still take their slots of `top_k` and still bring their neighbours. Empty without a thread or
        a question.

        Raises:
            MessageError: A message or a context that cannot be used, whatever `on_error` says.
            RecallError: Anything else that failed, if `on_error` is "raise".
        """
        where = RequestContext.of(context)
        if not where.thread_id:
            return RecallResult("")
        turn = messages_of(messages, context=where)
        question = question_of(turn)
        if question is None:
            return RecallResult("", thread_id=where.thread_id)
        try:
            result = self._engine.recall(question, self._options, where, where=self._where)
        except RecallError as error:
            return RecallResult(question, thread_id=where.thread_id, errors=(self._report(error),))
        result = _without(result, {message.message_id for message in turn})
        if self._distinct:
            result = replace(result, context=_distinct(result.context))
        return replace(result, block=self._block(result))

    def process_input(self, messages: Turn, context: Context) -> list[Message]:
        """The list with what it brings to mind; the list as it is where that is nothing, or without a thread.

        Raises:
            MessageError: A message or a context that cannot be used, whatever `on_error` says.
            RecallError: Anything else that failed, if `on_error` is "raise".
        """
        where = RequestContext.of(context)
        if not where.thread_id:
            return _as_given(messages)
        turn = messages_of(messages, context=where)
        return self.add_recalled(turn, self.recall(turn, where))

    def add_recalled(self, messages: Sequence[Message], result: RecallResult) -> list[Message]:
        """The list with a result in it, whose context the caller may have filtered.

        Messages of the thread it was asked in join by time with source "memory"; those of other threads become one
        system message at the head, unless that very message is in the list. System messages stay out.
        """
        here = [entry.message for entry in result.context if entry.message.thread_id == result.thread_id]
        joined = join_stored(messages, here)
        reminder = _reminder(result, self._block(result))
        if reminder is None or any(message.message_id == reminder.message_id for message in messages):
            return joined
        return [reminder, *joined]

    def process_output(self, messages: Turn, context: Context) -> list[Message]:
        """Ingest the turn's input and response, and give the list back.

        Each message is stored in its own thread, as the context's resource, and searched as part of the context's
        thread. Recalled, context and system messages stay out; nothing is written without a thread or with `read_only`.

        Raises:
            RecallError: Anything that failed, if `on_error` is "raise"; the other messages are stored.
        """
        try:
            where = RequestContext.of(context)
        except MessageError as error:
            self._report(error)
            return _as_given(messages)
        if not where.thread_id:
            return _as_given(messages)
        turn, refused = _usable(messages, where)
        try:
            if not where.read_only:
                self._engine.ingest(spoken_in(turn, where), thread_id=where.thread_id)
            if refused:
                raise refused[0]
        except RecallError as error:
            self._report(error)
        return turn

    def _block(self, result: RecallResult) -> str:
        elsewhere = [entry.message for entry in result.context if entry.message.thread_id != result.thread_id]
        if not elsewhere:
            return ""
        spoken = [message for message in elsewhere if message.role != "system"]
        return remembered_block(
            spoken,
            current_thread_id=result.thread_id,
            style=self._block_style,
            show_thread_ids=self._show_thread_ids,
        )

    def _report(self, error: RecallError) -> str:
        if self._on_error == "raise":
            raise error
        text = f"{type(error).__name__}: {error}"
        self._logger.error("semantic recall failed: %s", text)
        return text


def _as_given(messages: Turn) -> list[Any]:
    """The list untouched: without a thread, chat dicts cannot become records."""
    return list(messages)


def _usable(messages: Turn, context: RequestContext) -> tuple[list[Message], list[MessageError]]:
    """The messages that can be read, and why the others cannot."""
    turn: list[Message] = []
    refused: list[MessageError] = []
    for message in messages:
        try:
            turn.append(message if isinstance(message, Message) else message_of(message, context=context))
        except MessageError as error:
            refused.append(error)
    return turn, refused


def _without(result: RecallResult, message_ids: set[str]) -> RecallResult:
    return replace(
        result,
        hits=tuple(hit for hit in result.hits if hit.message_id not in message_ids),
        context=tuple(entry for entry in result.context if entry.message.message_id not in message_ids),
    )


def _distinct(context: Sequence[ContextMessage]) -> tuple[ContextMessage, ...]:
    seen: dict[tuple[object, ...], ContextMessage] = {}
    for entry in context:
        seen.setdefault((entry.message.role, entry.message.text, entry.message.created_at), entry)
    return tuple(seen.values())


def _reminder(result: RecallResult, block: str) -> Message | None:
    """The system message for other threads; equal content has an equal id."""
    if not block:
        return None
    newest = max((entry.message for entry in result.context), key=message_order)
    return replace(
        newest,
        message_id="remembered-" + hashlib.sha256(block.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        thread_id=result.thread_id or newest.thread_id,
        role="system",
        text=block,
        name=None,
        parts=None,
        position=0,
        source="memory",
    )
