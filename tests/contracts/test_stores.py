"""What every MessageStore of configs/store does; the oracle sorts everything anew after every operation."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from recall.errors import MessageError
from recall.protocols import MessageStore
from recall.schema import Message, SearchScope, utc

CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "store").glob("*.yaml"))
START = utc(2024, 3, 5, 9)
END = 1_000


def say(message_id: str, at: int = 0, *, thread: str = "t", resource: str = "ann", text: str = "안녕 👋") -> Message:
    return Message(message_id, thread, resource, "user", text, START + timedelta(seconds=at))


def ids(messages: list[Message]) -> list[str]:
    return [message.message_id for message in messages]


@pytest.fixture(params=CONFIGS, ids=lambda path: path.stem)
def config(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def store(config: Path) -> Iterator[MessageStore]:
    yield instantiate(OmegaConf.load(config))


THREAD = SearchScope("ann", "t")


def test_there_is_a_store_to_test():
    assert CONFIGS


def test_messages_come_back_as_they_were_given_with_their_position(store):
    message = Message("m", "t", "ann", "user", "é́ 한국어 👩‍👩‍👧 \x00", START, name="민아", parts='[{"type": "file"}]')
    assert store.add([message]) == [message]
    assert store.get(["m"]) == {"m": message}
    assert store.span(THREAD, 0, 1) == [message]


def test_positions_follow_time_and_then_arrival(store):
    stored = store.add([say("late", 9), say("tie-b", 5), say("tie-a", 5), say("early", 1)])
    assert [message.position for message in stored] == [3, 1, 2, 0]
    assert ids(store.span(THREAD, 0, END)) == ["early", "tie-b", "tie-a", "late"]


def test_the_position_a_caller_gives_is_not_believed(store):
    given_position = Message("m", "t", "ann", "user", "hi", START, position=7)
    assert store.add([given_position])[0].position == 0


def test_a_late_message_moves_those_after_it(store):
    store.add([say("a", 1), say("c", 3)])
    assert store.add([say("b", 2)])[0].position == 1
    assert store.get(["c"])["c"].position == 2


def test_the_same_id_again_replaces_and_keeps_its_arrival(store):
    store.add([say("a"), say("b")])
    store.add([say("a", text="edited")])
    assert len(store) == 2
    assert [(m.message_id, m.text) for m in store.span(THREAD, 0, END)] == [("a", "edited"), ("b", "안녕 👋")]


def test_the_same_id_twice_in_one_call_keeps_the_last(store):
    assert [m.text for m in store.add([say("a", text="one"), say("a", text="two")])] == ["two", "two"]
    assert len(store) == 1


def test_an_edited_time_moves_the_message(store):
    store.add([say("a", 1), say("b", 2), say("c", 3)])
    store.add([say("a", 9)])
    assert ids(store.span(THREAD, 0, END)) == ["b", "c", "a"]
    assert [message.position for message in store.span(THREAD, 0, END)] == [0, 1, 2]


def test_positions_close_up_after_a_removal(store):
    store.add([say("a", 1), say("b", 2), say("c", 3)])
    store.remove(["b", "unknown"])
    assert [(m.message_id, m.position) for m in store.span(THREAD, 0, END)] == [("a", 0), ("c", 1)]
    assert len(store) == 2


def test_a_removed_message_that_comes_back_arrives_anew(store):
    store.add([say("a"), say("b")])
    store.remove(["a"])
    store.add([say("a")])
    assert ids(store.span(THREAD, 0, END)) == ["b", "a"]


def test_an_emptied_thread_has_no_messages(store):
    store.add([say("a")])
    store.remove(["a"])
    assert (len(store), store.span(THREAD, 0, END), store.get(["a"])) == (0, [], {})


@pytest.mark.parametrize("home", [{"thread": "other"}, {"resource": "bob"}])
def test_an_id_of_another_thread_or_resource_is_refused_without_naming_it(store, home):
    secret = {key: f"secret-{value}" for key, value in home.items()}
    store.add([say("m", **secret)])
    with pytest.raises(MessageError) as refusal:
        store.add([say("new"), say("m")])
    assert "'m'" in str(refusal.value)
    assert "secret" not in str(refusal.value)
    assert len(store) == 1, "a refused call stores nothing"


def test_one_id_in_two_threads_of_one_call_is_refused(store):
    with pytest.raises(MessageError):
        store.add([say("m"), say("m", thread="other")])
    assert len(store) == 0


def test_a_thread_of_another_resource_has_no_messages_here(store):
    store.add([say("a", resource="ann"), say("b", resource="bob")])
    assert ids(store.span(SearchScope("bob", "t"), 0, END)) == ["b"]


def test_equal_thread_ids_of_two_resources_keep_their_own_positions(store):
    stored = store.add([say("a", 1, resource="ann"), say("b", 2, resource="bob")])
    assert [message.position for message in stored] == [0, 0]


def test_a_span_needs_a_thread(store):
    with pytest.raises(MessageError, match="thread_id"):
        store.span(SearchScope("ann"), 0, END)


def test_ids_that_look_like_paths_or_queries_are_only_ids(store):
    hostile = ["../../x", "'; DROP TABLE messages; --", "a\x1fb", "%", "💥"]
    store.add([say(name, at, thread=name, resource=name) for at, name in enumerate(hostile)])
    assert [ids(store.span(SearchScope(name, name), 0, END)) for name in hostile] == [[name] for name in hostile]


OPERATIONS = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), max_size=6).map(lambda batch: ("add", batch)),
        st.lists(st.integers(0, 11), max_size=3).map(lambda numbers: ("remove", numbers)),
    ),
    max_size=8,
)


def sorted_anew(operations) -> dict[str, list[str]]:
    """The literal definition: sort each thread by (created_at, arrival)."""
    times: dict[int, int] = {}
    arrivals: dict[int, int] = {}
    clock = 0
    for kind, arguments in operations:
        if kind == "add":
            for number, at in arguments:
                times[number] = at
                clock += 1
                arrivals.setdefault(number, clock)
        else:
            for number in arguments:
                times.pop(number, None)
                arrivals.pop(number, None)
    order = sorted(times, key=lambda number: (times[number], arrivals[number]))
    return {f"t{thread}": [str(number) for number in order if number % 3 == thread] for thread in range(3)}


@settings(max_examples=200, deadline=None)
@given(operations=OPERATIONS, start=st.integers(-5, 12), stop=st.integers(-5, 12))
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_any_history_of_operations_equals_sorting_anew(path, operations, start, stop):
    store = instantiate(OmegaConf.load(path))
    for kind, arguments in operations:
        if kind == "add":
            store.add([say(str(number), at, thread=f"t{number % 3}") for number, at in arguments])
        else:
            store.remove([str(number) for number in arguments])
    expected = sorted_anew(operations)
    assert len(store) == sum(map(len, expected.values()))
    for thread, order in expected.items():
        stored = store.span(SearchScope("ann", thread), 0, END)
        assert [(m.message_id, m.position) for m in stored] == [(name, p) for p, name in enumerate(order)]
        assert ids(store.span(SearchScope("ann", thread), start, stop)) == order[start:stop]


def test_twenty_thousand_messages_in_reverse_are_one_call(store):
    count = 20_000  # sorting per message would take minutes
    stored = store.add([say(str(number), -number) for number in range(count)])
    assert [message.position for message in stored] == list(range(count - 1, -1, -1))
    assert ids(store.span(THREAD, count - 2, count)) == ["1", "0"]
