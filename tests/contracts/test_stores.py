"""What every store of configs/store does; the oracle sorts everything anew after every operation."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from recall.errors import IdentityError, MessageError, OptionsError
from recall.protocols import Embeddings, IndexKey, Store, VectorSpace
from recall.schema import Message, SearchScope, Thread, utc

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
def store(config: Path) -> Iterator[Store]:
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


KEY = IndexKey("index_a", VectorSpace("a", "a v1"))
OTHER = IndexKey("index_b", VectorSpace("b", "b v1"))


def row(number: int, dim: int = 4) -> np.ndarray:
    """A unit vector that says which it is."""
    vector = np.array([number, *[1] * (dim - 1)], np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def embedded(*names: str, key: IndexKey = KEY, thread_id: str | None = None, dim: int = 4) -> Embeddings:
    return Embeddings(key, {name: row(int(name[1:]), dim) for name in names}, thread_id)


def followed(store, resource: str = "ann", since: int = 0, key: IndexKey | None = KEY) -> dict[str, tuple]:
    changes = store.changes(resource, since, key)
    return {m.message_id: (m, None if v is None else v.tolist(), where) for m, v, where in changes.changed}


def test_vectors_are_kept_with_their_messages(store):
    store.add([say("m1"), say("m2", 1)], embedded("m1"))
    found = followed(store)
    assert found["m1"][1:] == (row(1).tolist(), "t")
    assert found["m2"][1:] == (None, "t")
    assert store.embedded(KEY.name, ["m1", "m2", "m3"]) == {"m1"}
    (info,) = store.indexes()
    assert (info.key, info.dim, info.rows) == (KEY, 4, 1)


def test_a_message_may_be_searched_as_part_of_another_thread(store):
    store.add([say("m1")], embedded("m1", thread_id="u"))
    assert followed(store)["m1"][2] == "u"


def test_changed_content_takes_every_vector_along(store):
    store.add([say("m1")], embedded("m1"))
    store.add([say("m1")], embedded("m1", key=OTHER))
    store.add([say("m1")])
    assert {info.key.name for info in store.indexes()} == {"index_a", "index_b"}, "the same content keeps them"
    store.add([say("m1", text="edited")], embedded("m1"))
    assert [info.key.name for info in store.indexes()] == ["index_a"]


@pytest.mark.parametrize("change", [{"at": 5}, {"text": ""}])
def test_any_change_of_content_counts(store, change):
    store.add([say("m1")], embedded("m1"))
    store.add([say("m1", **change)])
    assert store.indexes() == []


def test_vectors_of_another_space_or_length_store_nothing(store):
    store.add([say("m1")], embedded("m1"))
    same_name = IndexKey(KEY.name, OTHER.space)
    for wrong in (embedded("m2", key=same_name), embedded("m2", dim=5)):
        with pytest.raises(IdentityError):
            store.add([say("m2")], wrong)
    with pytest.raises(OptionsError):
        store.add([say("m2")], embedded("m2", key=IndexKey("no-hyphens", KEY.space)))
    with pytest.raises(IdentityError):
        store.changes("ann", 0, same_name)
    assert len(store) == 1


def test_a_dropped_index_leaves_the_messages_and_its_name(store):
    store.add([say("m1")], embedded("m1"))
    since = store.changes("ann", 0, KEY).revision
    store.drop_index(KEY.name)
    store.drop_index("unknown")
    assert (len(store), store.indexes()) == (1, [])
    assert followed(store, since=since)["m1"][1] is None
    store.add([say("m1")], embedded("m1", key=IndexKey(KEY.name, OTHER.space), dim=6))
    assert store.indexes()[0].dim == 6


def test_threads_know_their_owner_and_what_is_known_of_them(store):
    store.add([say("a"), say("b", resource="bob"), say("c", thread="u")])
    store.put_thread(Thread("u", "ann", {"project": "베타", "n": [1, None, True]}))
    store.put_thread(Thread("v", "ann", {"x": 1}))
    assert store.threads(thread_id="t") == [Thread("t", "ann"), Thread("t", "bob")]
    assert store.threads(resource_id="ann") == [
        Thread("t", "ann"),
        Thread("u", "ann", {"project": "베타", "n": [1, None, True]}),
        Thread("v", "ann", {"x": 1}),
    ]
    assert len(store.threads()) == 4
    store.put_thread(Thread("v", "ann", {"y": 2}))
    assert store.threads(thread_id="v")[0].metadata == {"y": 2}


@pytest.mark.parametrize("metadata", [{"x": float("nan")}, {"x": object()}, {"x": {1, 2}}, [1]])
def test_metadata_that_is_not_json_is_refused(store, metadata):
    with pytest.raises(MessageError, match="metadata"):
        store.put_thread(Thread("t", "ann", metadata))
    assert store.threads() == []


def test_a_removed_thread_takes_everything_along(store):
    store.add([say("m1"), say("m2", 1), say("m3", thread="u"), say("m4", resource="bob")], embedded("m1", "m3", "m4"))
    since = store.changes("ann", 0, KEY).revision
    store.remove_thread("ann", "t")
    store.remove_thread("ann", "unknown")
    changes = store.changes("ann", since, KEY)
    assert set(changes.removed) == {"m1", "m2"}
    assert store.embedded(KEY.name, ["m1", "m3", "m4"]) == {"m3", "m4"}
    assert [(thread.resource_id, thread.thread_id) for thread in store.threads()] == [("ann", "u"), ("bob", "t")]


def test_nothing_new_is_no_change(store):
    store.add([say("m1")], embedded("m1"))
    revision = store.changes("ann", 0, KEY).revision
    changes = store.changes("ann", revision, KEY)
    assert (changes.revision, list(changes.changed), list(changes.removed)) == (revision, [], [])


def test_a_message_that_comes_back_is_not_removed(store):
    store.add([say("m1")])
    since = store.changes("ann", 0, None).revision
    store.remove(["m1"])
    store.add([say("m1")])
    changes = store.changes("ann", since, None)
    assert ([entry.message.message_id for entry in changes.changed], list(changes.removed)) == (["m1"], [])


HISTORY = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2), st.sampled_from("xy")), min_size=1, max_size=4),
            st.booleans(),
        ),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 8), max_size=3), st.just(False)),
        st.tuples(st.just("remove_thread"), st.integers(0, 2), st.just(False)),
        st.tuples(st.just("drop"), st.none(), st.just(False)),
    ),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(history=HISTORY, looks=st.sets(st.integers(0, 8)))
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_following_changes_gives_the_present_state(path, history, looks):
    """Whenever one looks, and however seldom: what was followed equals what a newcomer is told."""
    store = instantiate(OmegaConf.load(path))
    mirror: dict[str, tuple] = {}
    revision = 0
    for number, (kind, argument, has_vectors) in enumerate(history):
        if kind == "add":
            batch = [say(f"m{n}", at, thread=f"t{n % 3}", text=text) for n, at, text in argument]
            store.add(batch, embedded(*{m.message_id for m in batch}) if has_vectors else None)
        elif kind == "remove":
            store.remove([f"m{n}" for n in argument])
        elif kind == "remove_thread":
            store.remove_thread("ann", f"t{argument}")
        else:
            store.drop_index(KEY.name)
        if number in looks or number == len(history) - 1:
            changes = store.changes("ann", revision, KEY)
            for gone in changes.removed:
                mirror.pop(gone, None)
            mirror.update(followed(store, since=revision))
            revision = changes.revision
    assert mirror == followed(store)
    assert len(mirror) == len(store)
