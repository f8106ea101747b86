"""MessageHistory: the last messages, once, in the order they were said."""

import pytest

from recall.errors import OptionsError
from recall.history import MessageHistory
from recall.schema import RequestContext

HERE = RequestContext("t", "ann")


def ids(messages) -> list[str]:
    return [message.message_id for message in messages]


@pytest.fixture
def asked(say):
    return [say("now", "그때 뭐라고 했지?", at=99)]


def test_the_last_messages_come_before_the_question(store, say, asked):
    store.add([say(f"m{number}", at=number) for number in range(5)])
    listed = MessageHistory(store, 2).process_input(asked, HERE)
    assert ids(listed) == ["m3", "m4", "now"]
    assert [message.source for message in listed] == ["memory", "memory", "input"]


def test_equal_times_keep_their_arrival(store, say, asked):
    # The reference turns these round: the answer comes before the question.
    store.add([say("question"), say("answer", role="assistant"), say("thanks")])
    assert ids(MessageHistory(store).process_input(asked, HERE)) == ["question", "answer", "thanks", "now"]


def test_a_message_in_the_list_is_not_added_again(store, say, asked):
    store.add([say("m0"), *asked])
    listed = MessageHistory(store).process_input(asked, HERE)
    assert ids(listed) == ["m0", "now"]
    assert listed[1] is asked[0]


def test_system_rows_are_not_added(store, say, asked):
    store.add([say("rule", role="system"), say("m0", at=1)])
    assert ids(MessageHistory(store).process_input(asked, HERE)) == ["m0", "now"]


def test_other_threads_and_resources_are_not_looked_at(store, say, asked):
    store.add([say("a", thread="other"), say("b", resource_id="bob")])
    assert MessageHistory(store).process_input(asked, HERE) == asked


@pytest.mark.parametrize("context", [RequestContext(None, "ann"), RequestContext("", "ann"), None])
def test_without_a_thread_the_list_stays_as_it_is(store, say, asked, context):
    store.add([say("m0")])
    assert MessageHistory(store).process_input(asked, context) == asked


def test_without_a_resource_the_thread_s_owner_is_known(store, say, asked):
    store.add([say("m0"), say("b", thread="other", resource_id="bob")])
    assert ids(MessageHistory(store).process_input(asked, RequestContext("t"))) == ["m0", "now"]


def test_a_turn_is_stored_without_vectors(store, say, asked):
    turn = [say("rules", role="system"), say("old", source="memory"), *asked]
    assert MessageHistory(store).process_output(turn, HERE) == turn
    assert (len(store), store.indexes(), store.get(["now"])["now"]) == (1, [], asked[0])


def test_a_turn_read_only_is_not_stored(store, asked):
    MessageHistory(store).process_output(asked, RequestContext("t", "ann", read_only=True))
    assert len(store) == 0


def test_none_of_the_last_messages_is_none(store, say, asked):
    store.add([say("m0")])
    assert MessageHistory(store, 0).process_input(asked, HERE) == asked


def test_system_messages_at_the_head_stay_at_the_head(store, say, asked):
    store.add([say("m0")])
    listed = MessageHistory(store).process_input([say("rules", at=50, role="system"), *asked], HERE)
    assert ids(listed) == ["rules", "m0", "now"]


@pytest.mark.parametrize("count", [-1, 1.5, True, "3", 10_001])
def test_a_count_that_is_none_is_refused(store, count):
    with pytest.raises(OptionsError, match=r"last_messages is .*expected an integer from 0 to 10000"):
        MessageHistory(store, count)
