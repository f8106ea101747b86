"""Blocks of rows: their order, their slices, and a search that equals the definition to the last bit."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall.errors import InputError
from recall.protocols import IndexEntry
from recall.rows import EPOCH, ResourceRows, microseconds, row_batch
from recall.schema import utc
from recall.scoring import score

START = utc(2024, 3, 1)
QUERY = np.array([1.0, 0.0], dtype=np.float32)


def entry(message_id, *, thread="t1", at=0, position=0):
    return IndexEntry(message_id, "ana", thread, START + timedelta(seconds=at), position)


def rows_of(entries, vectors):
    rows = ResourceRows()
    rows.put(row_batch(entries, np.asarray(vectors, dtype=np.float32), 0))
    return rows


def random_units(count, dim, seed):
    rows = np.random.default_rng(seed).standard_normal((count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def definition(vectors, query, depth):
    """Rows in the order of the kernel's score, each scored alone; ties by row, as rows are made in the tie order."""
    scores = [float(score(query, vector[np.newaxis])[0]) for vector in vectors]
    return sorted(range(len(vectors)), key=lambda row: (-scores[row], row))[:depth]


def test_a_block_is_ordered_by_thread_and_position_and_a_thread_is_a_slice():
    given_order = [entry("b", thread="t2", position=1), entry("a", thread="t1"), entry("c", thread="t2", at=9)]
    block = rows_of(given_order, np.eye(3)).block()
    assert block.message_ids == ["a", "c", "b"]
    assert block.vectors.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert block.threads == {"t1": slice(0, 1), "t2": slice(1, 3)}
    assert block.vectors.flags.c_contiguous


def test_ties_are_ordered_by_time_then_position_then_id():
    rows = [entry("나", at=1), entry("z", at=1, position=1), entry("가", at=1, thread="t9"), entry("x", thread="t9")]
    block = rows_of(rows, np.tile(QUERY, (4, 1))).block()
    by_tie = [block.message_ids[row] for row in np.argsort(block.tie_order)]
    assert by_tie == ["x", "가", "나", "z"]


def test_ids_that_differ_in_a_trailing_nul_are_two_ids():
    block = rows_of([entry("a\0"), entry("a")], [[0, 1], [1, 0]]).block()
    assert block.message_ids == ["a", "a\0"]
    assert block.scan(QUERY, 1).message_ids == ("a",)


def test_a_block_stays_the_same_object_until_something_changes():
    rows = rows_of([entry("a"), entry("b")], np.eye(2))
    first = rows.block()
    rows.drop(["unknown"])
    assert rows.block() is first
    rows.drop(["a"])
    assert rows.block().message_ids == ["b"]
    assert first.message_ids == ["a", "b"]


def test_a_message_put_again_has_only_its_last_row():
    rows = rows_of([entry("a"), entry("b", position=1)], np.eye(2))
    rows.put(row_batch([entry("a", thread="t2")], np.array([[0.0, 1.0]], dtype=np.float32), 2))
    block = rows.block()
    assert (block.message_ids, block.vectors.tolist()) == (["b", "a"], [[0, 1], [0, 1]])
    assert len(rows) == len(block) == 2


def test_a_message_dropped_and_put_again_is_there_once():
    rows = rows_of([entry("a")], [[1, 0]])
    rows.drop(["a"])
    rows.put(row_batch([entry("a")], np.array([[0.0, 1.0]], dtype=np.float32), 1))
    assert rows.block().vectors.tolist() == [[0, 1]]


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 300),
    depth=st.integers(1, 310),
    dim=st.sampled_from([2, 16, 384]),
    spread=st.sampled_from([1.0, 1e-3, 3e-6, 1e-7]),
)
def test_a_scan_equals_the_definition_however_close_the_scores_are(seed, count, depth, dim, spread):
    # Small spreads put hundreds of rows within the last digits of the rounding at the cut.
    drawn = random_units(2, dim, seed)
    noisy = drawn[0] + spread * random_units(count, dim, seed + 1).astype(np.float64)
    vectors = (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)
    block = rows_of([entry(f"{n:03}", at=n, position=n) for n in range(count)], vectors).block()
    ranking = block.scan(drawn[1], depth)
    assert [int(i) for i in ranking.message_ids] == definition(vectors, drawn[1], depth)


def test_scores_are_the_kernels_whatever_was_scored_beside_them():
    vectors = random_units(200, 384, 1)
    block = rows_of([entry(f"{n:03}", at=n, position=n) for n in range(200)], vectors).block()
    deep = block.scan(vectors[0], 200)
    alone = [score(vectors[0], vectors[int(i)][np.newaxis])[0] for i in deep.message_ids]
    assert deep.scores.tobytes() == np.array(alone, dtype=np.float32).tobytes()


def test_rows_a_little_longer_than_one_tie_at_one():
    # Lengths 1.0009 and 1.0001 both have a cosine over 1 with the query, which the kernel cuts to 1.
    block = rows_of([entry("old"), entry("new", at=1, position=1)], [[1.0001, 0.0], [1.0009, 0.0]]).block()
    assert block.scan(QUERY, 1).message_ids == ("old",)


@pytest.mark.parametrize(("at", "seen"), [(0, ()), (1, ("a",)), (2, ("a", "b")), (9, ("a", "b", "c"))])
def test_before_sees_only_what_is_strictly_older(at, seen):
    block = rows_of([entry(i, at=n, position=n) for n, i in enumerate("abc")], np.tile(QUERY, (3, 1))).block()
    assert block.scan(QUERY, 5, before=START + timedelta(seconds=at)).message_ids == seen


def test_before_and_thread_hold_together():
    rows = [entry("a"), entry("b", thread="t2"), entry("c", thread="t2", at=5, position=1)]
    block = rows_of(rows, np.tile(QUERY, (3, 1))).block()
    assert block.scan(QUERY, 5, thread_id="t2", before=START + timedelta(seconds=5)).message_ids == ("b",)


@pytest.mark.parametrize("moment", [EPOCH, datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)])
def test_microseconds_are_exact_for_any_time(moment):
    assert EPOCH + timedelta(microseconds=microseconds(moment)) == moment


def test_a_time_in_another_zone_is_the_same_moment():
    seoul = datetime.fromisoformat("2024-03-01T09:00:00.000001+09:00")
    assert microseconds(seoul) == microseconds(START) + 1


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(InputError, match="aware"):
        microseconds(START.replace(tzinfo=None))
