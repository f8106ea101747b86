"""A turn of a chat: input processors, the model, output processors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, Protocol

from recall.chat_format import message_of, messages_of, to_openai
from recall.schema import Message, RequestContext
from recall.tracing import span

Model = Callable[[list[dict[str, Any]]], str | Mapping[str, Any]]
"""Anything that answers OpenAI-style messages with a text or with one such message."""
MICROSECOND = timedelta(microseconds=1)


class InputProcessor(Protocol):
    """Sees the list before the model, and gives the list the model sees."""

    def process_input(self, messages: Sequence[Message], context: RequestContext) -> list[Message]:
        """The list to go on with."""
        ...


class OutputProcessor(Protocol):
    """Sees the list with the model's response, and gives the list that is returned."""

    def process_output(self, messages: Sequence[Message], context: RequestContext) -> list[Message]:
        """The list to go on with."""
        ...


class Aborted(Exception):  # noqa: N818  (not an error: a processor's decision)
    """A processor stopped the turn.

    Attributes:
        reason: Why, in its words.
    """

    def __init__(self, reason: str) -> None:
        """Stop with this reason."""
        super().__init__(reason)
        self.reason = reason


def abort(reason: str) -> NoReturn:
    """Stop the turn from inside a processor: nothing after it runs, and the pipeline returns the reason."""
    raise Aborted(reason)


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What became of one turn.

    Attributes:
        messages: The list as the last processor that ran left it; with the response where there is one.
        response: What the model answered, as the output processors left it; None where the turn was stopped.
        aborted: The reason of the processor that stopped the turn; None where none did.
    """

    messages: tuple[Message, ...]
    response: Message | None = None
    aborted: str | None = None

    @property
    def text(self) -> str:
        """Text of the response; "" where there is none."""
        return "" if self.response is None else self.response.text


class Pipeline:
    """Runs turns through processors and a model."""

    def __init__(
        self, model: Model, *, inputs: Sequence[InputProcessor] = (), outputs: Sequence[OutputProcessor] = ()
    ) -> None:
        """Join them; processors run in the order given.

        Args:
            model: Called once a turn with the list as OpenAI-style dicts.
            inputs: Run before the model.
            outputs: Run after it, memory last, so that what an earlier one stops is not remembered.
        """
        self._model = model
        self._inputs = inputs
        self._outputs = outputs

    def run(
        self,
        turn: str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]],
        context: RequestContext | Mapping[str, Any],
    ) -> TurnResult:
        """One turn: what the user says, as a text, a message or a list of them, and what comes of it.

        Raises:
            MessageError: A message or a context that cannot be used; a context without a thread is one.
            RecallError: A processor failed.
        """
        where = RequestContext.of(context)
        messages = messages_of(_listed(turn), context=where)
        with span("recall.turn") as told:
            try:
                for processor in self._inputs:
                    with span(f"recall.input.{type(processor).__name__}"):
                        messages = processor.process_input(messages, where)
                response = self._answer(messages, where)
                messages = [*messages, response]
                for output in self._outputs:
                    with span(f"recall.output.{type(output).__name__}"):
                        messages = output.process_output(messages, where)
            except Aborted as stopped:
                told.set_attribute("recall.aborted", True)
                return TurnResult(tuple(messages), aborted=stopped.reason)
        said = next((message for message in messages if message.message_id == response.message_id), None)
        return TurnResult(tuple(messages), said)

    def _answer(self, messages: Sequence[Message], context: RequestContext) -> Message:
        with span("recall.model"):
            answer = self._model(to_openai(messages))
        said = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
        # On a coarse clock an answer would seem as old as its question.
        asked = max((message.created_at for message in messages if message.source == "input"), default=None)
        now = datetime.now(UTC)
        moment = now if asked is None or asked < now else asked + MICROSECOND
        return message_of(said, context=context, created_at=moment, source="response")


def _listed(turn: Any) -> list[Any]:
    if isinstance(turn, str):
        return [{"role": "user", "content": turn}]
    return [turn] if isinstance(turn, Message | Mapping) else list(turn)
