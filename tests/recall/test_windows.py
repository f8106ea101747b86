"""Windows against their definition: every position within reach of a hit, once, in order."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.options import MessageRange
from recall.schema import Hit, Message, SearchScope, utc
from recall.stores.memory import InMemoryStore
from recall.windows import Span, build_context, merge_spans

START = utc(2024, 3, 5, 9)
ANN = SearchScope("ann")
RANGES = st.builds(MessageRange, st.integers(0, 4), st.integers(0, 4))


def hits(*message_ids: str) -> list[Hit]:
    return [Hit(message_id, 1 - rank / 100, rank) for rank, message_id in enumerate(message_ids, start=1)]


def thread_of(say, count: int, **fields) -> list[Message]:
    return [say(f"m{number}", at=number, **fields) for number in range(count)]


def found(context) -> list[str]:
    return [entry.message.message_id for entry in context]


@given(positions=st.lists(st.integers(0, 40), max_size=12), message_range=RANGES)
def test_spans_cover_what_the_windows_cover_and_nothing_else(positions, message_range):
    spans = merge_spans(positions, message_range)
    covered = [position for span in spans for position in range(*span)]
    reached = {q for p in positions for q in range(p - message_range.before, p + message_range.after + 1) if q >= 0}
    assert covered == sorted(reached)


@given(positions=st.lists(st.integers(0, 40), max_size=12), message_range=RANGES)
def test_spans_never_touch(positions, message_range):
    spans = merge_spans(positions, message_range)
    assert all(left.stop < right.start for left, right in pairwise(spans))


def test_windows_that_touch_are_fetched_at_once():
    # 3 reaches 2..4, 6 reaches 5..7: one span 2..7; 20 reaches 19..21.
    assert merge_spans([6, 20, 3], MessageRange(1, 1)) == [Span(2, 8), Span(19, 22)]


def test_a_window_reaches_before_and_after_its_hit(store, say):
    store.add(thread_of(say, 9))
    context = build_context(hits("m4"), store, message_range=MessageRange(2, 1), scope=ANN)
    assert found(context) == ["m2", "m3", "m4", "m5"]


@pytest.mark.parametrize(("hit", "expected"), [("m0", ["m0", "m1", "m2"]), ("m3", ["m1", "m2", "m3"])])
def test_a_window_ends_where_its_thread_ends(store, say, hit, expected):
    store.add(thread_of(say, 4))
    assert found(build_context(hits(hit), store, message_range=MessageRange(2, 2), scope=ANN)) == expected


def test_the_hit_is_in_its_own_window_when_everything_has_one_time(store, say):
    # The reference returns m5 for a hit on m3 here.
    store.add([say(f"m{number}") for number in range(3, 6)])
    assert found(build_context(hits("m3"), store, message_range=MessageRange(0, 0), scope=ANN)) == ["m3"]
    assert found(build_context(hits("m3"), store, message_range=MessageRange(1, 1), scope=ANN)) == ["m3", "m4"]


def test_hits_carry_their_hit_and_neighbours_none(store, say):
    store.add(thread_of(say, 3))
    context = build_context(hits("m1"), store, message_range=MessageRange(1, 1), scope=ANN)
    assert [entry.is_hit for entry in context] == [False, True, False]
    assert context[1].hit == hits("m1")[0]


def test_neighbours_that_are_hits_themselves_stay_hits(store, say):
    store.add(thread_of(say, 3))
    context = build_context(hits("m2", "m1"), store, message_range=MessageRange(1, 1), scope=ANN)
    assert [entry.hit and entry.hit.rank for entry in context] == [None, 2, 1]


def test_threads_interleave_by_time(store, say):
    store.add([say("a0", at=0, thread="a"), say("b0", at=1, thread="b"), say("a1", at=2, thread="a")])
    context = build_context(hits("b0", "a1"), store, message_range=MessageRange(1, 1), scope=ANN)
    assert found(context) == ["a0", "b0", "a1"]


def test_a_hit_that_is_gone_contributes_nothing(store, say):
    store.add(thread_of(say, 3))
    assert found(build_context(hits("gone", "m0"), store, message_range=MessageRange(0, 0), scope=ANN)) == ["m0"]


@pytest.mark.parametrize("scope", [SearchScope("bob"), SearchScope("ann", "other")])
def test_a_hit_outside_the_scope_contributes_nothing(store, say, scope):
    store.add(thread_of(say, 3))
    assert build_context(hits("m1"), store, message_range=MessageRange(1, 1), scope=scope) == ()


def test_only_what_was_there_before_is_seen(store, say):
    store.add(thread_of(say, 5))
    context = build_context(
        hits("m1", "m4"), store, message_range=MessageRange(1, 3), scope=ANN, before=START + timedelta(seconds=3)
    )
    assert found(context) == ["m0", "m1", "m2"], "m3 is not before, and neither is the hit m4"


def test_a_hit_that_is_not_seen_brings_no_neighbours(store, say):
    store.add(thread_of(say, 5))
    time = START + timedelta(seconds=3)
    assert build_context(hits("m3"), store, message_range=MessageRange(3, 3), scope=ANN, before=time) == ()


MESSAGES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["ann", "bob"]), st.integers(0, 4)), max_size=25)


@st.composite
def histories(draw) -> tuple[list[Message], list[str]]:
    """Stored messages of several threads and resources, with many ties, and the ids of some as hits."""
    store = InMemoryStore()
    for number, (thread, resource, at) in enumerate(draw(MESSAGES)):
        store.add([Message(f"m{number}", f"t{thread}", resource, "user", "…", START + timedelta(seconds=at))])
    everything = list(store.get([f"m{number}" for number in range(25)]).values())
    chosen = draw(st.lists(st.sampled_from([*(m.message_id for m in everything), "gone"]), unique=True, max_size=8))
    return everything, chosen


@given(history=histories(), message_range=RANGES, before=st.none() | st.integers(0, 5))
def test_the_context_is_every_seen_message_within_reach_of_a_hit(history, message_range, before):
    everything, chosen = history
    store = InMemoryStore()
    store.add(everything)
    time = None if before is None else START + timedelta(seconds=before)
    seen = [m for m in everything if m.resource_id == "ann" and (time is None or m.created_at < time)]
    expected = [
        message.message_id
        for message in sorted(seen, key=lambda m: (m.created_at, m.position, m.message_id))
        if any(
            hit.message_id in chosen
            and hit.thread_id == message.thread_id
            and -message_range.before <= message.position - hit.position <= message_range.after
            for hit in seen
        )
    ]
    context = build_context(hits(*chosen), store, message_range=message_range, scope=ANN, before=time)
    assert found(context) == expected
    assert {e.message.message_id for e in context if e.is_hit} == {m.message_id for m in seen} & set(chosen)


class CountingStore(InMemoryStore):
    spans = 0

    def span(self, scope, start, stop):
        self.spans += 1
        return super().span(scope, start, stop)


def test_overlapping_windows_cost_one_read(say):
    store = CountingStore()
    store.add(thread_of(say, 30))
    build_context(hits("m3", "m4", "m5", "m20"), store, message_range=MessageRange(2, 2), scope=ANN)
    assert store.spans == 2
