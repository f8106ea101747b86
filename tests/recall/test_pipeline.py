"""A turn: processors in order, the model between them, and what stops it."""

from datetime import UTC, datetime, timedelta

import pytest

from recall.errors import MessageError
from recall.history import MessageHistory
from recall.options import RecallOptions
from recall.pipeline import Pipeline, abort
from recall.processor import SemanticRecall
from recall.schema import Message, RequestContext

HERE = RequestContext("t", "ann")


class Spy:
    """A processor that writes down what it saw and gives it on."""

    def __init__(self, log, name="spy"):
        self.log, self.name = log, name

    def process_input(self, messages, context):
        self.log.append((self.name, "input", [message.text for message in messages]))
        return list(messages)

    def process_output(self, messages, context):
        self.log.append((self.name, "output", [message.text for message in messages]))
        return list(messages)


class Stopper(Spy):
    """Stops the turn on a word."""

    def process_input(self, messages, context):
        if any("forbidden" in message.text for message in messages):
            abort("not this")
        return list(messages)

    def process_output(self, messages, context):
        if any("secret" in message.text for message in messages):
            abort("not that")
        return list(messages)


def parrot(messages):
    return f"you said {messages[-1]['content']}"


def test_processors_run_in_order_around_the_model():
    log = []
    a, b = Spy(log, "a"), Spy(log, "b")
    result = Pipeline(parrot, inputs=[a, b], outputs=[b, a]).run("안녕 🌊", HERE)
    both = ["안녕 🌊", "you said 안녕 🌊"]
    assert log == [("a", "input", both[:1]), ("b", "input", both[:1]), ("b", "output", both), ("a", "output", both)]
    assert (result.text, result.aborted) == ("you said 안녕 🌊", None)


def test_the_model_sees_openai_messages_and_the_answer_is_a_response():
    seen = []
    result = Pipeline(lambda messages: seen.append(messages) or {"role": "assistant", "content": "fine"}).run(
        "hi", HERE
    )
    assert seen == [[{"role": "user", "content": "hi"}]]
    assert (result.response.role, result.response.source) == ("assistant", "response")
    assert (result.response.thread_id, result.response.resource_id) == ("t", "ann")


def test_an_answer_is_never_as_old_as_its_question():
    later = datetime.now(UTC) + timedelta(hours=1)
    asked = Message("q", "t", "ann", "user", "hi", later)
    assert Pipeline(parrot).run(asked, HERE).response.created_at > later


def test_a_turn_may_be_a_message_a_dict_or_a_list():
    asked = {"role": "user", "content": "hi"}
    pipeline = Pipeline(parrot)
    assert pipeline.run(asked, HERE).text == pipeline.run([asked], HERE).text == pipeline.run("hi", HERE).text


@pytest.mark.parametrize(("said", "reason"), [("forbidden", "not this"), ("secret", "not that")])
def test_what_is_aborted_is_told_and_not_remembered(engine, store, said, reason):
    memory = SemanticRecall(engine)
    result = Pipeline(parrot, inputs=[Stopper([]), memory], outputs=[Stopper([]), memory]).run(said, HERE)
    assert (result.aborted, result.response, result.text) == (reason, None, "")
    assert len(store) == 0


def test_an_abort_before_the_model_does_not_call_it():
    called = []
    Pipeline(lambda messages: called.append(1) or "x", inputs=[Stopper([])]).run("forbidden", HERE)
    assert called == []


def test_a_processor_s_error_is_not_taken_for_an_abort():
    class Broken(Spy):
        def process_input(self, messages, context):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Pipeline(parrot, inputs=[Broken([])]).run("hi", HERE)


def test_a_context_without_a_thread_is_told():
    with pytest.raises(MessageError, match="thread"):
        Pipeline(parrot).run("hi", {})


@pytest.mark.parametrize("history_first", [True, False])
def test_recall_and_history_work_together_in_either_order(engine, store, history_first):
    recall, history = SemanticRecall(engine, RecallOptions(1, message_range=0)), MessageHistory(store, 2)
    both = [history, recall] if history_first else [recall, history]
    seen = []
    chat = Pipeline(lambda messages: seen.append([m["content"] for m in messages]) or "ok", inputs=both, outputs=both)
    chat.run("제주 ferry at noon", RequestContext("trip", "ann"))
    for said in ("one", "two", "three"):
        chat.run(said, HERE)
    chat.run("when is the 제주 ferry at noon", HERE)
    reminder, *rest = seen[-1]
    assert "제주 ferry at noon" in reminder
    assert rest == ["three", "ok", "when is the 제주 ferry at noon"]
    assert len(store) == 10
    assert store.embedded("mastra_memory_words", [m.message_id for m in store.span(_thread("t"), 0, 99)])


def _thread(thread_id):
    from recall.schema import SearchScope

    return SearchScope("ann", thread_id)
