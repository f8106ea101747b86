"""What every retriever does, whatever it ranks by."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.config import build, compose
from recall.embedders.hashing import HashingEmbedder
from recall.indexes.exact import ExactIndex
from recall.protocols import ChangedMessage, Changes, Retriever
from recall.retrievers.narrowed import NarrowedRetriever
from recall.retrievers.recency_weighted import RecencyWeightedRetriever
from recall.schema import Message, SearchScope, utc

START = utc(2024, 3, 1)
TEXTS = ("blue whale", "a whale sings", "파란 고래", "고래가 노래한다", "green tea", "", "whale whale", "…", "42")
QUERIES = ("whale", "고래", "tea and whales", "nothing shared", "the", "…")
NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "configs" / "retriever").glob("*.yaml"))
WRAPPERS: dict[str, Callable[[Retriever], Retriever]] = {
    "as it is": lambda inner: inner,
    "users only": lambda inner: NarrowedRetriever(inner, roles=["user"]),
    "weighted by age": lambda inner: RecencyWeightedRetriever(inner, half_life_days=1),
}


@cache
def settings_of(name: str) -> Any:
    """Composed once: composing takes longer than everything a retriever does here."""
    needed = ["retriever.path=nowhere.parquet"] if name == "saved" else []
    return compose([f"retriever={name}", *needed])


def made(name: str, around: str) -> Retriever:
    inner = build(settings_of(name), "retriever", embedder=HashingEmbedder(dim=32), index=ExactIndex())
    return WRAPPERS[around](inner)


@pytest.fixture(params=[(name, around) for name in NAMES for around in WRAPPERS], ids=" ".join)
def make(request: pytest.FixtureRequest) -> Callable[[], Retriever]:
    return partial(made, *request.param)


def message(number: int, text: str, *, resource: str = "ana", thread: str = "t0", at: float = 0, role: str = "user"):
    moment = START + timedelta(hours=at)
    return Message(f"m{number}", thread, resource, role, text, moment, position=number)


def follow(retriever: Retriever, messages: Sequence[Message], removed: Sequence[str] = ()) -> None:
    vectors = retriever.embed(messages).vectors
    changed = [ChangedMessage(each, vectors.get(each.message_id), each.thread_id) for each in messages]
    retriever.follow(Changes(1, changed, list(removed)))


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    return [
        message(
            number,
            draw(st.sampled_from(TEXTS)),
            resource=draw(st.sampled_from(["ana", "ben"])),
            thread=draw(st.sampled_from(["t0", "t1"])),
            at=draw(st.integers(0, 3)),
            role=draw(st.sampled_from(["user", "assistant"])),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


few = settings(deadline=None, max_examples=15)


@few
@given(messages=histories(), query=st.sampled_from(QUERIES), thread=st.sampled_from([None, "t0"]))
@pytest.mark.parametrize("around", WRAPPERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_ranking_is_of_the_scope_old_enough_and_in_order(name, around, messages, query, thread):
    retriever = made(name, around)
    follow(retriever, messages)
    by_id = {each.message_id: each for each in messages}
    for before, only in ((None, None), (START + timedelta(hours=2), frozenset({"t1"}))):
        scope = SearchScope("ana", thread, only)
        found = retriever.rank(retriever.encode(query), scope, 50, before=before)
        hits = [by_id[message_id] for message_id in found.message_ids]
        assert len(set(found.message_ids)) == len(hits)
        assert all(scope.admits(hit.resource_id, hit.thread_id) for hit in hits)
        assert all(before is None or hit.created_at < before for hit in hits)
        assert found.scores.dtype == np.float32
        assert (found.scores == np.round(found.scores.astype(np.float64), 6).astype(np.float32)).all()
        keys = [
            (-float(value), hit.created_at, hit.position, hit.message_id)
            for value, hit in zip(found.scores, hits, strict=True)
        ]
        assert keys == sorted(keys)
        if around == "users only":
            assert all(hit.role == "user" for hit in hits)


@few
@given(messages=histories(), query=st.sampled_from(QUERIES), depth=st.integers(1, 5))
@pytest.mark.parametrize("around", WRAPPERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_shallow_ranking_is_the_beginning_of_a_deep_one(name, around, messages, query, depth):
    retriever = made(name, around)
    follow(retriever, messages)
    form = retriever.encode(query)
    shallow, deep = (retriever.rank(form, SearchScope("ana"), number) for number in (depth, 50))
    assert shallow.message_ids == deep.message_ids[:depth]
    assert (shallow.scores == deep.scores[:depth]).all()


@few
@given(messages=histories(), later=histories(), gone=st.sets(st.integers(0, 12)), query=st.sampled_from(QUERIES))
@pytest.mark.parametrize("around", WRAPPERS)
@pytest.mark.parametrize("name", NAMES)
def test_what_followed_changes_ranks_like_what_has_known_no_other(name, around, messages, later, gone, query):
    changing, fresh = made(name, around), made(name, around)
    follow(changing, messages)
    form = changing.encode(query)
    changing.rank(form, SearchScope("ana"), 50)  # what is built at a search must follow too
    # An id stays with its resource and thread.
    home = {each.message_id: (each.resource_id, each.thread_id) for each in messages}
    edits = [each for each in later if home.get(each.message_id, (each.resource_id, each.thread_id))
             == (each.resource_id, each.thread_id)]  # fmt: skip
    removed = [f"m{number}" for number in gone]
    follow(changing, edits)
    follow(changing, [], removed)
    now = {each.message_id: each for each in [*messages, *edits] if each.message_id not in removed}
    follow(fresh, list(now.values()))
    for scope in (SearchScope("ana"), SearchScope("ben", "t1")):
        old, new = changing.rank(form, scope, 50), fresh.rank(form, scope, 50)
        assert old.message_ids == new.message_ids
        assert (old.scores == new.scores).all()


def test_nothing_held_finds_nothing(make):
    retriever = make()
    found = retriever.rank(retriever.encode("whale"), SearchScope("ana"), 5)
    assert (found.message_ids, found.scores.tolist()) == ((), [])


def test_a_scale_is_declared(make):
    low, high = make().score_range
    assert low < high or (low, high) == (np.inf, -np.inf)


def test_scores_lie_on_the_scale(make):
    retriever = make()
    follow(retriever, [message(number, text) for number, text in enumerate(TEXTS)])
    low, high = retriever.score_range
    for query in QUERIES:
        scores = retriever.rank(retriever.encode(query), SearchScope("ana"), 50).scores
        assert low > high or all(low <= value <= high for value in scores.tolist())
