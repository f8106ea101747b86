import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.collection import build_collection
from eval.collection.description import describe
from eval.schema import MESSAGES, QRELS, QUERIES

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
MANIFEST = {"name": "c", "version": "1", "licence": "CC0", "language": "ko", "source": "this test", "notes": ["수리됨"]}


def message(message_id, minute, **other):
    row = {"message_id": message_id, "resource_id": "r1", "thread_id": "t1", "position": minute, "role": "user"}
    return row | {"text": message_id, "created_at": NOON + timedelta(minutes=minute)} | other


def query(query_id, **other):
    row = {"query_id": query_id, "resource_id": "r1", "text": "?", "type": "fact", "answerable": True}
    return row | {"cluster_id": "r1", "split": "dev"} | other


def build(messages, queries, qrels):
    judgements = [{"query_id": query_id, "message_id": message_id, "relevance": 1} for query_id, message_id in qrels]
    frames = (pl.DataFrame(messages, schema=MESSAGES), pl.DataFrame(queries, schema=QUERIES))
    return build_collection(*frames, pl.DataFrame(judgements, schema=QRELS), MANIFEST)


@pytest.fixture
def description():
    messages = [
        message("m0", 0, text="안녕 나의 친구 😀"),
        message("m1", 1, text="hello", role="assistant"),
        message("m2", 2, thread_id="t2", position=0, text="hello"),
        message("m3", 3, position=2, text=" "),
        message("m4", 0, resource_id="r2", thread_id="t3", text="hello"),
    ]
    queries = [
        query("q1", thread_id="t1", asked_at=NOON + timedelta(minutes=3)),
        query("q2", type="other"),
        query("q3", type="other", answerable=False, split="test"),
    ]
    return describe(build(messages, queries, [("q1", "m0"), ("q1", "m2"), ("q2", "m3")]))


def test_a_description_is_plain_json(description):
    assert json.loads(json.dumps(description, allow_nan=False)) == description


def test_the_manifest_is_repeated(description):
    assert (description["name"], description["language"], description["notes"]) == ("c", "ko", ["수리됨"])
    assert description["counts"]["messages"] == 5


def test_threads_and_their_messages_are_counted(description):
    # r1 has the threads t1 (3 messages) and t2 (1), r2 has t3 (1).
    assert description["threads_per_resource"]["mean"] == 1.5
    sizes = description["messages_per_thread"]
    assert (sizes["min"], sizes["p50"], sizes["max"], sizes["mean"]) == (1, 1, 3, 1.6667)


def test_lengths_are_in_characters_and_words(description):
    # "안녕 나의 친구 😀" has 10 characters and 4 words, "hello" 5 and 1, " " 1 and 0.
    assert (description["message_characters"]["max"], description["message_characters"]["min"]) == (10, 1)
    assert (description["message_words"]["max"], description["message_words"]["min"]) == (4, 0)


def test_roles_and_splits_are_counted(description):
    assert description["roles"] == {"assistant": 1, "user": 4}
    assert description["queries"]["by_split"] == {"dev": 2, "test": 1}


def test_queries_are_counted_by_type_and_whether_they_have_an_answer(description):
    assert description["queries"]["by_type"] == {
        "fact": {"answerable": 1, "unanswerable": 0},
        "other": {"answerable": 1, "unanswerable": 1},
    }


def test_queries_that_scoring_treats_apart_are_counted(description):
    queries = description["queries"]
    assert (queries["without_judgements"], queries["in_a_new_thread"], queries["after_everything"]) == (1, 2, 2)


def test_a_text_is_a_duplicate_only_in_its_own_resource(description):
    assert description["duplicate_texts"] == {"messages": 1, "share": 0.2}


def test_evidence_is_elsewhere_when_it_is_not_in_the_thread_of_the_query(description):
    # q1 is asked in t1: m0 is there, m2 is not; q2 is asked in a new thread, so m3 is elsewhere.
    assert description["evidence"]["share_in_another_thread"] == 0.6667


def test_the_distance_is_the_number_of_later_messages_that_are_seen(description):
    # q1 sees m0, m1, m2: m0 is 2 before the last of them, m2 is the last; q2 sees all four, and m3 is the last.
    distances = description["evidence"]["distance_in_messages"]
    assert (distances["max"], distances["min"], distances["mean"]) == (2, 0, 0.6667)


def test_what_cannot_be_computed_is_null():
    evidence = describe(build([message("m0", 0)], [query("q1")], []))["evidence"]
    assert evidence["share_in_another_thread"] is None
    assert set(evidence["distance_in_messages"].values()) == {None}


@settings(max_examples=30, deadline=None)
@given(minutes=st.lists(st.integers(0, 5), min_size=1, max_size=8).map(sorted), asked=st.none() | st.integers(1, 7))
def test_the_distance_equals_its_definition(minutes, asked):
    messages = [message(f"m{n}", n, created_at=NOON + timedelta(minutes=at)) for n, at in enumerate(minutes)]
    seen = [n for n, at in enumerate(minutes) if asked is None or at < asked]
    asked_at = None if asked is None else NOON + timedelta(minutes=asked)
    collection = build(messages, [query("q", asked_at=asked_at)], [("q", f"m{n}") for n in seen])
    distances = describe(collection)["evidence"]["distance_in_messages"]
    later = [len([other for other in seen if other > n]) for n in seen]
    expected = (min(later), max(later), round(sum(later) / len(later), 4)) if later else (None, None, None)
    assert (distances["min"], distances["max"], distances["mean"]) == expected
