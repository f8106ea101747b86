"""The engine over a retriever that hashes words: what is found, what is never found, what it cost."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall.engine import RecallEngine
from recall.errors import IdentityError, IndexingError, MessageError, OptionsError
from recall.options import RecallOptions
from recall.protocols import VectorSpace
from recall.schema import RequestContext, SearchScope, Thread, utc
from recall.thread_filter import ThreadFilter

START = utc(2024, 3, 5, 9)
ANN = RequestContext("t", "ann")


def hit_ids(result) -> list[str]:
    return [hit.message_id for hit in result.hits]


def context_ids(result) -> list[str]:
    return [entry.message.message_id for entry in result.context]


@pytest.fixture
def trip(engine, say):
    """Two threads of ann and one of bob, all about the same trip."""
    engine.ingest(
        [
            say("a0", "where shall we go", at=0),
            say("a1", "let us go to 부산 🌊 in may", at=1),
            say("a2", "fine", at=2),
            say("b0", "the train to 부산 leaves at nine", at=3, thread="other"),
            say("x0", "부산 부산 부산", at=4, thread="t", resource_id="bob"),
        ]
    )
    return engine


def test_the_best_hits_come_first_with_their_windows(trip):
    result = trip.recall("go to 부산", RecallOptions(1), ANN)
    assert hit_ids(result) == ["a1"]
    assert context_ids(result) == ["a0", "a1", "a2"]
    # Words shared by question (3) and message (8), each once: 3 / sqrt(3 * 8) = .612372, if no hashes collide.
    assert result.hits[0].score == 0.612372
    assert (result.query, result.hits[0].rank, result.errors) == ("go to 부산", 1, ())


def test_thread_scope_stays_in_the_thread(trip):
    result = trip.recall("부산", RecallOptions(10, scope="thread", message_range=0), ANN)
    assert hit_ids(result)[0] == "a1"
    assert {entry.message.thread_id for entry in result.context} == {"t"}


def test_resource_scope_never_leaves_the_resource(trip):
    result = trip.recall("부산", RecallOptions(100, message_range=100), ANN)
    assert {entry.message.resource_id for entry in result.context} == {"ann"}
    assert "x0" not in hit_ids(result)


@pytest.mark.parametrize(
    ("scope", "context"),
    [
        ("thread", RequestContext(None, "ann")),
        ("thread", RequestContext("", "ann")),
        ("thread", RequestContext("other", "bob")),
        ("thread", RequestContext("unheard-of", "ann")),
        ("thread", RequestContext("unheard-of", None)),
        ("resource", RequestContext("unheard-of", "")),
        ("resource", RequestContext(None, None)),
    ],
)
def test_nothing_is_searched_without_a_place_to_search(trip, scope, context):
    result = trip.recall("부산", RecallOptions(scope=scope), context)
    assert (result.hits, result.context) == ((), ())


@pytest.mark.parametrize("scope", ["thread", "resource"])
@pytest.mark.parametrize("nobody", [None, ""])
def test_without_a_resource_only_the_current_thread_is_searched(trip, scope, nobody):
    result = trip.recall("부산", RecallOptions(9, scope=scope, message_range=9), RequestContext("other", nobody))
    assert context_ids(result) == ["b0"]


def test_without_a_resource_a_thread_of_several_is_refused(trip):
    with pytest.raises(MessageError, match="belongs to 2 resources") as refusal:
        trip.recall("부산", RecallOptions(), RequestContext("t"))
    assert "bob" not in str(refusal.value)


def test_messages_without_an_owner_are_found_from_their_thread_only(engine, say):
    engine.ingest([say("a", "부산", resource_id=""), say("b", "부산", thread="u", resource_id="")])
    assert context_ids(engine.recall("부산", RecallOptions(9), RequestContext("t", ""))) == ["a"]
    assert context_ids(engine.recall("부산", RecallOptions(9), RequestContext("t", "ann"))) == []


def test_resource_scope_needs_no_thread(trip):
    assert trip.recall("부산", RecallOptions(), RequestContext(None, "ann")).hits


def test_no_text_finds_nothing(trip):
    assert trip.recall("", RecallOptions(), ANN).hits == ()


def test_the_threshold_is_inclusive_and_not_refilled(trip):
    options = RecallOptions(2, threshold=0.612372, message_range=0)
    # The second of the two best is under it; the third is not asked.
    assert hit_ids(trip.recall("go to 부산", options, ANN)) == ["a1"]
    assert hit_ids(trip.recall("go to 부산", RecallOptions(2, threshold=0.612373), ANN)) == []


def test_a_deeper_search_is_cut_at_top_k(trip, retriever, store):
    deep = RecallEngine(retriever, store, depth=50)
    deep.catch_up("ann")
    for top_k in (1, 2, 60):
        assert deep.recall("부산", RecallOptions(top_k), ANN) == trip.recall("부산", RecallOptions(top_k), ANN)
    assert retriever.depths == [50, 1, 50, 2, 60, 60]


@pytest.mark.parametrize("depth", [0, -1, 1.5, True, 100_001])
def test_a_depth_that_is_none_is_refused(retriever, store, depth):
    with pytest.raises(OptionsError, match=r"depth is .*expected an integer from 1 to 100000"):
        RecallEngine(retriever, store, depth=depth)


def test_a_threshold_off_the_scale_is_refused(trip):
    with pytest.raises(OptionsError, match=r"threshold is 1\.5, expected .* -1 to 1"):
        trip.recall("부산", RecallOptions(threshold=1.5), ANN)


def test_before_hides_hits_and_neighbours(trip):
    result = trip.recall("부산", RecallOptions(10), ANN, before=START + timedelta(seconds=2))
    assert context_ids(result) == ["a0", "a1"]


def test_before_must_know_its_zone(trip):
    with pytest.raises(MessageError, match="before"):
        trip.recall("부산", RecallOptions(), ANN, before=datetime(2024, 3, 5))  # noqa: DTZ001


def test_a_hit_the_store_has_lost_is_not_in_the_result(trip, retriever, store, monkeypatch):
    trip.catch_up("ann")
    store.remove(["a1"])
    monkeypatch.setattr(retriever, "follow", lambda changes: None)
    result = trip.recall("go to 부산", RecallOptions(), ANN)
    assert "a1" not in hit_ids(result)
    assert [hit.message_id for hit in result.hits] == [
        entry.message.message_id for entry in sorted((e for e in result.context if e.hit), key=lambda e: e.hit.rank)
    ]


def test_every_stage_is_timed(trip):
    timings = trip.recall("부산", RecallOptions(), ANN).timings_ms
    assert list(timings) == ["embed", "search", "window"]
    assert all(ms > 0 for ms in timings.values())


def test_a_recorded_embedding_time_is_reported_as_it_was(build, say):
    engine, *_ = build(ms=12.5)
    engine.ingest([say("m", "부산")])
    assert engine.recall("부산", RecallOptions(), ANN).timings_ms["embed"] == 12.5


def test_ingesting_twice_changes_nothing(trip, say):
    before = trip.recall("부산", RecallOptions(), ANN)
    trip.ingest([say("a1", "let us go to 부산 🌊 in may", at=1)])
    assert trip.recall("부산", RecallOptions(), ANN) == before


def test_an_edited_message_is_found_by_its_new_text_only(trip, say):
    trip.ingest([say("a1", "제주 🍊", at=1)])
    assert trip.recall("제주", RecallOptions(1), ANN).hits[0].message_id == "a1"
    assert "a1" not in hit_ids(trip.recall("부산", RecallOptions(threshold=0.01), ANN))


@pytest.mark.parametrize("text", ["", "💥"])
def test_an_edit_that_cannot_be_indexed_is_not_found_by_its_old_text(trip, retriever, say, text):
    trip.catch_up("ann")
    try:
        trip.ingest([say("a1", text, at=1)])
    except IndexingError as error:
        assert list(error.failures) == ["a1"]
    trip.catch_up("ann")
    assert "a1" not in retriever.held


def test_one_bad_message_does_not_lose_the_batch_and_can_be_retried(engine, store, say):
    with pytest.raises(IndexingError, match="'bad'") as failure:
        engine.ingest([say("bad", "부산 💥"), say("good", "부산", at=1)])
    assert list(failure.value.failures) == ["bad"]
    assert len(store) == 2
    assert hit_ids(engine.recall("부산", RecallOptions(), ANN)) == ["good"]
    engine.ingest([say("bad", "부산")])
    assert set(hit_ids(engine.recall("부산", RecallOptions(), ANN))) == {"bad", "good"}


def test_an_id_of_another_resource_stores_nothing(trip, store, say):
    with pytest.raises(MessageError) as refusal:
        trip.ingest([say("new", "부산"), say("x0", "mine now")])
    assert "bob" not in str(refusal.value)
    assert store.get(["new"]) == {}
    assert store.get(["x0"])["x0"].text == "부산 부산 부산"


def test_a_forgotten_message_takes_no_slot(trip):
    trip.forget(["a1", "unknown"])
    result = trip.recall("go to 부산", RecallOptions(2, message_range=5), ANN)
    assert len(result.hits) == 2
    assert "a1" not in context_ids(result)


def test_a_forgotten_thread_is_gone_and_its_name_is_free_again(trip, store, say):
    trip.forget_thread("ann", "t")
    trip.forget_thread("ann", "unknown")
    assert context_ids(trip.recall("부산", RecallOptions(9, message_range=9), ANN)) == ["b0"]
    assert store.get(["x0"]), "the thread of that name of another resource stays"
    trip.ingest([say("a9", "부산 again")])
    assert store.get(["a9"])["a9"].position == 0


def test_ingesting_embeds_only_what_is_new_or_changed(trip, retriever, say):
    trip.ingest([say("a2", "fine", at=2), say("a0", "where to", at=0), say("a3", "see you there", at=9)])
    assert retriever.embedded[-1] == ["a0", "a3"]


def test_a_late_message_moves_others_and_embeds_none_of_them(trip, retriever, say):
    trip.catch_up("ann")
    trip.ingest([say("late", "by bus", at=0.5)])
    trip.catch_up("ann")
    assert retriever.embedded[-1] == ["late"]
    assert sorted(retriever.followed[-1]) == ["a1", "a2", "late"]


def test_a_search_without_changes_follows_nothing(trip, retriever):
    trip.recall("부산", RecallOptions(), ANN)
    followed = len(retriever.followed)
    trip.recall("부산", RecallOptions(), ANN)
    assert len(retriever.followed) == followed


def test_nothing_to_do_asks_nothing_of_the_retriever(engine, retriever):
    engine.ingest([])
    engine.forget(["unknown"])
    assert (retriever.embedded, retriever.followed) == ([], [])


def test_engines_over_one_store_see_what_the_others_do(build, trip, store, say):
    other = RecallEngine(build()[1], store)
    assert context_ids(other.recall("go to 부산", RecallOptions(1), ANN)) == ["a0", "a1", "a2"]
    trip.forget(["a1"])
    trip.ingest([say("a3", "go to 부산", at=9)])
    assert context_ids(other.recall("go to 부산", RecallOptions(1), ANN)) == ["a2", "a3"]


def test_only_threads_that_meet_the_conditions_are_searched(trip, store):
    store.put_thread(Thread("other", "ann", {"project": "beta"}))
    beta = ThreadFilter({"project": "beta"})
    assert context_ids(trip.recall("부산", RecallOptions(9, message_range=9), ANN, where=beta)) == ["b0"]
    assert trip.recall("부산", RecallOptions(9, scope="thread"), ANN, where=beta).hits == ()


def test_vectors_of_another_embedder_are_refused_with_both_names(trip, retriever, store):
    class OtherWords(type(retriever)):
        space = VectorSpace("others", "another crc")

    same_name = RecallEngine(OtherWords(), store, index_name=trip.index.name)
    with pytest.raises(IdentityError, match=r"'words' \(crc32 of words\) of dim 256, got .*'others' \(another crc\)"):
        same_name.recall("부산", RecallOptions(), ANN)
    own_name = RecallEngine(OtherWords(), store)
    with pytest.raises(IdentityError, match=r"'mastra_memory_others' .* is empty, the vectors are in .*_words"):
        own_name.recall("부산", RecallOptions(), ANN)


def test_reindexing_embeds_everything_again_for_another_embedder(trip, retriever, store):
    class OtherWords(type(retriever)):
        space = VectorSpace("others", "another crc")

    seen = []
    other = RecallEngine(OtherWords(), store, index_name=trip.index.name)
    assert other.reindex(lambda done, total: seen.append((done, total))) == 5
    assert seen[-1] == (5, 5)
    assert hit_ids(other.recall("go to 부산", RecallOptions(1), ANN)) == ["a1"]
    assert other.reindex() == 0


STEPS = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=5)
    | st.lists(st.integers(0, 9), min_size=1, max_size=3),
    max_size=8,
)


@settings(deadline=None)
@given(steps=STEPS)
def test_what_is_indexed_is_what_is_stored_after_any_history(build, say, steps):
    engine, retriever, store = build()
    for step in steps:
        if isinstance(step[0], tuple):
            engine.ingest([say(str(n), f"말 {n}", at=at, thread=f"t{n % 2}") for n, at in step])
        else:
            engine.forget([str(n) for n in step])
    engine.catch_up("ann")
    stored = [m for t in ("t0", "t1") for m in store.span(SearchScope("ann", t), 0, 99)]
    assert retriever.held == {message.message_id: message for message in stored}
