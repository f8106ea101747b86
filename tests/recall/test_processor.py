"""SemanticRecall in a turn: what joins the list, where, and what is written afterwards."""

import logging
from dataclasses import replace

import pytest

from recall.errors import EmbedderError, IndexingError, MessageError, OptionsError
from recall.history import MessageHistory
from recall.options import RecallOptions
from recall.processor import SemanticRecall
from recall.remembered import parse_remembered
from recall.schema import RequestContext

HERE = RequestContext("t", "ann")


def ids(messages) -> list[str]:
    return [message.message_id for message in messages]


@pytest.fixture
def recall(engine, say):
    """A processor over this thread and another of ann's, and one of bob's."""
    engine.ingest(
        [
            say("m0", "부산 or 제주?", at=0),
            say("m1", "부산 please 🌊", at=1, role="assistant"),
            say("m2", "fine", at=2),
            say("o0", "my cat is called 나비", at=3, thread="elsewhere", name="민아"),
            say("o1", "a good name", at=4, thread="elsewhere", role="assistant"),
            say("x0", "부산 나비", at=5, thread="bobs", resource_id="bob"),
        ]
    )
    return SemanticRecall(engine, RecallOptions(1))


@pytest.fixture
def asked(say):
    return [say("now", "부산 please", at=99)]


def test_what_is_recalled_from_this_thread_joins_by_time_as_memory(recall, asked):
    listed = recall.process_input(asked, HERE)
    assert ids(listed) == ["m0", "m1", "m2", "now"]
    assert [message.source for message in listed] == ["memory"] * 3 + ["input"]


def test_what_is_recalled_from_another_thread_is_one_system_message_at_the_head(recall, say):
    reminder, question = recall.process_input([say("now", "what is 나비", at=99)], HERE)
    assert (reminder.role, reminder.source, reminder.thread_id) == ("system", "memory", "t")
    lines = parse_remembered(reminder.text)
    assert [(line.role, line.name, line.text) for line in lines] == [
        ("user", "민아", "my cat is called 나비"),
        ("assistant", None, "a good name"),
    ]
    assert question.message_id == "now"


def test_the_system_message_shows_no_thread_and_nothing_of_another_resource(engine, recall, say):
    everything = SemanticRecall(engine, RecallOptions(100, message_range=100))
    reminder, *_ = everything.process_input([say("now", "나비 부산", at=99)], HERE)
    assert all(secret not in reminder.text for secret in ("elsewhere", "bob", "x0", "o0"))


def test_what_is_newer_than_the_question_lands_after_it(recall, say):
    assert ids(recall.process_input([say("now", "부산 please", at=1)], HERE)) == ["m0", "now", "m1", "m2"]


def test_nothing_recalled_leaves_the_list_as_it_is(engine, say):
    messages = [say("late", at=9), say("now", "부산", at=3)]
    assert SemanticRecall(engine).process_input(messages, HERE) == messages


@pytest.mark.parametrize(
    "context", [RequestContext(None, "ann"), RequestContext("", "ann"), RequestContext(), None, {}]
)
def test_without_a_thread_the_list_stays_as_it_is(recall, asked, context):
    assert recall.process_input(asked, context) == asked


def test_reading_only_still_recalls(recall, asked):
    assert len(recall.process_input(asked, RequestContext("t", "ann", read_only=True))) == 4


def test_the_question_is_the_last_user_input_that_has_text(recall, say):
    messages = [
        say("q1", "first"),
        say("q2", "second"),
        say("file", ""),
        say("answer", "third", role="assistant"),
        say("recalled", "fourth", source="memory"),
        say("reply", "fifth", source="response"),
    ]
    assert recall.recall(messages, HERE).query == "second"


def test_without_a_question_there_is_nothing(recall, say):
    result = recall.recall([say("a", "부산", role="assistant"), say("b", "")], HERE)
    assert (result.query, result.hits, result.context) == ("", (), ())


def test_a_question_is_not_its_own_answer_but_brings_its_neighbours(recall, engine, asked):
    engine.ingest(asked)
    result = recall.recall(asked, HERE)
    assert result.hits == (), "the one slot was taken by the question itself"
    assert ids(entry.message for entry in result.context) == ["m2"]


def test_messages_in_the_list_are_not_added_again(recall, asked, say):
    listed = recall.process_input([say("m1", "부산 please 🌊", at=1, role="assistant"), *asked], HERE)
    assert sorted(ids(listed)) == ["m0", "m1", "m2", "now"]


def test_recalling_twice_adds_nothing(engine, recall, say):
    wide = SemanticRecall(engine, RecallOptions(4))
    once = wide.process_input([say("now", "나비 부산", at=99)], HERE)
    assert once[0].role == "system"
    assert wide.process_input(once, HERE) == once


def test_stored_system_messages_are_not_recalled(engine, recall, asked, say):
    engine.ingest([say("rule", "부산 please", at=1.5, role="system")])
    assert "rule" not in ids(recall.process_input(asked, HERE))


def test_stored_system_messages_of_other_threads_are_not_quoted(engine, recall, say):
    engine.ingest([say("rule", "purr on command", at=3.5, thread="elsewhere", role="system")])
    reminder, *_ = recall.process_input([say("now", "what is 나비", at=99)], HERE)
    assert [line.text for line in parse_remembered(reminder.text)] == ["my cat is called 나비"]


def test_a_caller_can_filter_the_result_before_it_is_added(recall, asked):
    result = recall.recall(asked, HERE)
    hits_only = replace(result, context=tuple(entry for entry in result.context if entry.is_hit))
    assert ids(recall.add_recalled(asked, hits_only)) == ["m1", "now"]


def test_history_before_or_after_gives_the_same_list(engine, store, recall, say):
    engine.ingest([say(f"tie{number}", f"부산 {number}", at=99) for number in range(6)])
    both = [SemanticRecall(engine, RecallOptions(3)), MessageHistory(store, 4)]
    lists = []
    for processors in (both, both[::-1]):
        messages = [say("rules", "be kind", role="system"), say("now", "나비 부산 2", at=99)]
        for processor in processors:
            messages = processor.process_input(messages, HERE)
        lists.append([(message.message_id, message.text, message.source) for message in messages])
    assert lists[0] == lists[1]
    assert len({message_id for message_id, *_ in lists[0]}) == len(lists[0])


def test_input_and_response_are_ingested_and_nothing_else(recall, store, say):
    before = len(store)
    turn = [
        say("rules", "be kind", role="system"),
        say("m2", "fine, but changed", at=2, source="memory"),
        say("now", "제주 🍊", at=99),
        say("reply", "good", at=100, role="assistant", source="response"),
    ]
    recall.process_output(turn, HERE)
    assert len(store) == before + 2
    assert store.get(["m2"])["m2"].text == "fine"
    assert recall.recall([say("next", "제주", at=101)], HERE).hits[0].message_id == "now"


@pytest.mark.parametrize("context", [RequestContext("t", "ann", read_only=True), RequestContext(None, "ann")])
def test_nothing_is_written_when_reading_only_or_without_a_thread(recall, store, asked, context):
    recall.process_output(asked, context)
    assert store.get(["now"]) == {}


def test_a_turn_belongs_to_the_context_s_resource(recall, store, say):
    recall.process_output([say("now", resource_id="nobody")], HERE)
    assert store.get(["now"])["now"].resource_id == "ann"


def test_a_message_of_another_thread_stays_there_and_is_searched_where_it_was_said(recall, engine, store, say):
    """As in the reference, which stores under the message's thread and indexes under the context's."""
    recall.process_output([say("now", "제주 🍊", thread="draft")], HERE)
    assert store.get(["now"])["now"].thread_id == "draft"
    reminder, _ = recall.process_input([say("next", "제주 🍊", at=99)], HERE)
    assert [line.text for line in parse_remembered(reminder.text)] == ["제주 🍊"]
    in_thread = RecallOptions(9, scope="thread", threshold=0.5)
    assert engine.recall("제주 🍊", in_thread, HERE).hits == (), "its window would lie outside the scope"


def test_a_context_without_resource_keeps_the_message_in_its_own(recall, store, asked):
    recall.process_output(asked, RequestContext("t"))
    assert store.get(["now"])["now"].resource_id == "ann"


class BrokenEncoder:
    """A retriever's `encode` whose model has gone."""

    def __call__(self, text: str) -> None:
        raise EmbedderError("the model is gone")


def test_a_failed_recall_reaches_the_caller(recall, retriever, asked, monkeypatch):
    monkeypatch.setattr(retriever, "encode", BrokenEncoder())
    with pytest.raises(EmbedderError, match="the model is gone"):
        recall.process_input(asked, HERE)


def test_a_logged_failure_is_in_the_log_and_in_the_result(engine, retriever, asked, monkeypatch, caplog):
    monkeypatch.setattr(retriever, "encode", BrokenEncoder())
    lenient = SemanticRecall(engine, on_error="log")
    assert lenient.recall(asked, HERE).errors == ("EmbedderError: the model is gone",)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "EmbedderError: the model is gone" in caplog.text
    assert lenient.process_input(asked, HERE) == asked


def test_failures_are_logged_where_the_caller_wants_them(engine, retriever, asked, monkeypatch, caplog):
    monkeypatch.setattr(retriever, "encode", BrokenEncoder())
    SemanticRecall(engine, on_error="log", logger=logging.getLogger("mine")).recall(asked, HERE)
    assert [record.name for record in caplog.records] == ["mine"]


def test_what_is_not_ours_is_never_swallowed(engine, retriever, asked, monkeypatch):
    monkeypatch.setattr(retriever, "encode", lambda text: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        SemanticRecall(engine, on_error="log").recall(asked, HERE)


def test_a_failed_ingest_reaches_the_caller_and_is_logged_on_demand(engine, recall, say, caplog):
    turn = [say("bad", "💥", at=9), say("good", "제주", at=10)]
    with pytest.raises(IndexingError):
        recall.process_output(turn, HERE)
    SemanticRecall(engine, on_error="log").process_output(turn, HERE)
    assert "IndexingError: 1 message(s) not indexed" in caplog.text
    assert recall.recall([say("next", "제주", at=11)], HERE).hits[0].message_id == "good"


def test_an_id_of_another_resource_is_not_overwritten(recall, store, say):
    with pytest.raises(MessageError) as refusal:
        recall.process_output([say("x0", "mine now")], HERE)
    assert "bob" not in str(refusal.value)
    assert store.get(["x0"])["x0"].text == "부산 나비"


def test_wrong_options_are_refused_when_the_processor_is_built(engine):
    with pytest.raises(OptionsError, match="threshold"):
        SemanticRecall(engine, RecallOptions(threshold=2))
    with pytest.raises(OptionsError, match="on_error is 'ignore', expected 'raise' or 'log'"):
        SemanticRecall(engine, on_error="ignore")
