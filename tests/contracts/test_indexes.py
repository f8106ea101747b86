"""What every index does, whatever structure it has; the truth is the definition, row by row."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall.errors import OptionsError, VectorError
from recall.protocols import IndexEntry
from recall.schema import SearchScope, utc
from recall.scoring import score

START = utc(2024, 3, 1)
ANA, BEN = SearchScope("ana"), SearchScope("ben")


@pytest.fixture(scope="module")
def make_index(index_config, instantiate):
    return partial(instantiate, index_config)


@pytest.fixture
def index(make_index):
    return make_index()


def unit(*numbers):
    vector = np.array(numbers, dtype=np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def random_units(count, dim=32, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def entry(message_id, *, resource="ana", thread="t1", at=0, position=0):
    return IndexEntry(message_id, resource, thread, START + timedelta(seconds=at), position)


def entries(count, *, resource="ana", threads=3):
    return [
        entry(f"{resource}-{n}", resource=resource, thread=f"{resource}-t{n % threads}", at=n, position=n // threads)
        for n in range(count)
    ]


def definition(rows, query, scope, depth, before=None):
    """The best of `rows` (entry, vector) by the definition: every row scored alone, one total order."""
    visible = [
        (-float(score(query, vector[np.newaxis])[0]), e.created_at, e.position, e.message_id)
        for e, vector in rows
        if e.resource_id == scope.resource_id
        and scope.thread_id in (None, e.thread_id)
        and (before is None or e.created_at < before)
    ]
    return [(message_id, -negative) for negative, _, _, message_id in sorted(visible)[:depth]]


def found(ranking):
    return list(zip(ranking.message_ids, ranking.scores.tolist(), strict=True))


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


# Few directions, so that equal vectors and equal scores are common.
DIRECTIONS = [unit(a, b, c) for a in (-1, 1) for b in (-1, 0, 1) for c in (0, 2)]
IDS = ["a", "b", "가", "나", "🙂", "z\0", "z", "é"]
ENTRIES = st.builds(
    entry,
    st.sampled_from(IDS),
    resource=st.sampled_from(["ana", "ben"]),
    thread=st.sampled_from(["t1", "t2"]),
    at=st.integers(0, 3),
    position=st.integers(0, 2),
)
ROWS = st.lists(st.tuples(ENTRIES, st.sampled_from(DIRECTIONS)), max_size=24)
SCOPES = st.builds(SearchScope, st.sampled_from(["ana", "ben", "nobody"]), st.sampled_from([None, "t1", "t2", "t9"]))
TIMES = st.none() | st.integers(-1, 5).map(lambda at: START + timedelta(seconds=at))


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(st.tuples(ROWS, st.lists(st.sampled_from(IDS), max_size=3)), min_size=1, max_size=3),
    query=st.sampled_from(DIRECTIONS),
    scope=SCOPES,
    depth=st.integers(1, 12),
    before=TIMES,
)
def test_small_data_gives_the_definition_after_any_additions_and_removals(
    make_index, steps, query, scope, depth, before
):
    index, held = make_index(), {}
    for rows, removed in steps:
        index.add([e for e, _ in rows], np.array([v for _, v in rows]).reshape(-1, 3))
        held.update((e.message_id, (e, v)) for e, v in rows)
        index.search(query, ANA, 3)
        index.remove(removed)
        held = {message_id: row for message_id, row in held.items() if message_id not in removed}
    expected = definition(held.values(), query, scope, depth, before)
    assert found(index.search(query, scope, depth, before=before)) == expected
    assert len(index) == len(held)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 80), depth=st.integers(1, 90), dim=st.integers(2, 40))
def test_an_exact_search_gives_the_definition_on_random_vectors(make_index, seed, count, depth, dim):
    index, rows, query = make_index(), entries(count), random_units(count + 1, dim, seed)
    index.add(rows, query[1:])
    pairs = list(zip(rows, query[1:], strict=True))
    assert found(index.search(query[0], ANA, depth, exact=True)) == definition(pairs, query[0], ANA, depth)


def test_nearly_all_exact_neighbours_are_found_in_two_thousand_rows(index):
    # 40 clusters of 50, as conversations have topics.
    centres = np.repeat(random_units(40, seed=1), 50, axis=0)
    noisy = centres + 0.5 * random_units(2000, seed=2)
    vectors = (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)
    index.add(entries(2000), vectors)
    queries = vectors[::40]
    shares = [
        len(set(index.search(q, ANA, 10).message_ids) & set(index.search(q, ANA, 10, exact=True).message_ids)) / 10
        for q in queries
    ]
    assert np.mean(shares) >= 0.98


def test_equal_calls_give_equal_rankings(make_index):
    vectors, queries = random_units(1500, seed=3), random_units(20, seed=4)
    rankings = []
    for index in (make_index(), make_index()):
        index.add(entries(1500), vectors)
        rankings.append([found(index.search(query, ANA, 20)) for query in queries])
    assert rankings[0] == rankings[1]


def test_nothing_of_another_resource_is_found(index):
    # pgvector#751: a thousand near vectors of one owner must not hide five far ones of another.
    near = unit(1, 0.01, 0) + 0.01 * random_units(1000, 3)
    near = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
    index.add(entries(1000, resource="ben"), near)
    index.add(entries(5), np.tile(unit(-1, 0, 1), (5, 1)))
    assert index.search(unit(1, 0, 0), ANA, 5).message_ids == tuple(f"ana-{n}" for n in range(5))


def test_a_thread_of_the_same_name_in_another_resource_is_not_found(index):
    index.add([entry("a"), entry("b", resource="ben")], np.array([unit(1, 0), unit(1, 0)]))
    assert index.search(unit(1, 0), SearchScope("ana", "t1"), 5).message_ids == ("a",)


@pytest.mark.parametrize("scope", [SearchScope("nobody"), SearchScope("ana", "no thread")])
def test_an_unknown_scope_holds_nothing(index, scope):
    index.add(entries(3), random_units(3))
    ranking = index.search(random_units(1)[0], scope, 5)
    assert (ranking.message_ids, ranking.scores.dtype, ranking.searched_by) == ((), np.float32, "exact")


def test_an_empty_index_finds_nothing(index):
    assert index.search(unit(1, 0), ANA, 5).message_ids == ()


def test_fewer_rows_than_asked_for_are_all_found(index):
    index.add(entries(3), random_units(3))
    assert len(index.search(random_units(1)[0], ANA, 5).message_ids) == 3


def test_one_row_is_found(index):
    index.add([entry("only")], random_units(1))
    assert found(index.search(random_units(1)[0], ANA, 5)) == [("only", 1.0)]


def test_removals_only_shorten_the_answer(index):
    # hnswlib#608: delete 3 of 5, ask for 5.
    index.add(entries(5), random_units(5))
    index.search(random_units(1)[0], ANA, 5)
    index.remove(["ana-0", "ana-2", "ana-4", "unknown"])
    assert sorted(index.search(random_units(1)[0], ANA, 5).message_ids) == ["ana-1", "ana-3"]
    assert len(index) == 2


def test_everything_can_be_removed_and_added_again(index):
    for seed in (0, 1):
        index.add(entries(30), random_units(30, seed=seed))
        assert found(index.search(random_units(30, seed=seed)[7], ANA, 1)) == [("ana-7", 1.0)]
        index.remove([f"ana-{n}" for n in range(30)])
        assert index.search(random_units(1)[0], ANA, 5).message_ids == ()


def test_a_message_added_again_is_replaced(index):
    index.add([entry("a"), entry("b", at=1)], np.array([unit(1, 0), unit(0, 1)]))
    index.search(unit(1, 0), ANA, 2)
    index.add([entry("a", at=5)], np.array([unit(-1, 0)]))
    assert found(index.search(unit(1, 0), ANA, 2)) == [("b", 0.0), ("a", -1.0)]
    assert len(index) == 2


def test_a_message_added_again_for_another_resource_leaves_the_first(index):
    index.add([entry("a"), entry("b")], np.array([unit(1, 0), unit(0, 1)]))
    index.search(unit(1, 0), ANA, 2)
    index.add([entry("a", resource="ben")], np.array([unit(1, 0)]))
    assert index.search(unit(1, 0), ANA, 2).message_ids == ("b",)
    assert index.search(unit(1, 0), BEN, 2).message_ids == ("a",)


def test_half_of_the_rows_being_duplicates_hides_none(index):
    # measured: with a node for each duplicate, self-recall@1 of a graph falls to .786.
    vectors = np.repeat(random_units(300, seed=5), 2, axis=0)
    index.add(entries(600), vectors)
    pairs = [index.search(vectors[2 * n], ANA, 2).message_ids for n in range(300)]
    assert pairs == [(f"ana-{2 * n}", f"ana-{2 * n + 1}") for n in range(300)]


def test_equal_vectors_come_in_the_order_of_time_position_and_id(index):
    rows = [entry("나", at=1), entry("가", at=1), entry("late", at=9), entry("p1", at=1, position=1), entry("first")]
    index.add(rows, np.tile(unit(1, 1), (5, 1)))
    assert index.search(unit(1, 0), ANA, 4).message_ids == ("first", "가", "나", "p1")


def test_equal_times_and_positions_in_two_threads_come_in_the_order_of_their_ids(index):
    rows = [entry("b", thread="t1"), entry("a", thread="t2"), entry("c", thread="t0")]
    index.add(rows, np.tile(unit(1, 1), (3, 1)))
    assert index.search(unit(1, 0), ANA, 3).message_ids == ("a", "b", "c")


def test_different_vectors_of_equal_rounded_score_are_cut_by_the_tie_rule(index):
    # Both cosines are .900000 at six decimals; the farther row is the older.
    near, farther = unit(0.9000004, 0.4358891), unit(0.9000001, 0.4358897)
    assert near @ unit(1, 0) > farther @ unit(1, 0)
    index.add([entry("near", at=1), entry("old")], np.array([near, farther]))
    assert index.search(unit(1, 0), ANA, 1).message_ids == ("old",)


def test_a_thousand_equal_vectors_are_cut_by_the_tie_rule(index):
    index.add(entries(1000)[::-1], np.tile(unit(1, 1), (1000, 1)))
    assert index.search(unit(1, 0), ANA, 5).message_ids == tuple(f"ana-{n}" for n in range(5))


@pytest.mark.parametrize("at", [0, 1, 2, 150, 298, 300])
def test_only_strictly_earlier_messages_are_seen(index, at):
    # hnswlib#444: a filter that leaves two of many, asked for five.
    rows, vectors, query = entries(300), random_units(300, seed=6), random_units(1, seed=7)[0]
    index.add(rows, vectors)
    before = START + timedelta(seconds=at)
    expected = definition(zip(rows, vectors, strict=True), query, ANA, 5, before)
    assert found(index.search(query, ANA, 5, before=before)) == expected


@pytest.mark.parametrize("scope", [ANA, SearchScope("ana", "ana-t1")])
@pytest.mark.parametrize("depth", [1, 7, 100, 150, 299, 300, 5000])
def test_every_depth_gives_as_many_as_there_are(index, scope, depth):
    index.add(entries(300), random_units(300, seed=8))
    there = 300 if scope.thread_id is None else 100
    ids = index.search(random_units(1)[0], scope, depth).message_ids
    assert len(ids) == len(set(ids)) == min(depth, there)


def test_a_deeper_search_begins_with_the_shallower_one(index):
    index.add(entries(1000), random_units(1000, seed=9))
    query = random_units(1, seed=10)[0]
    assert index.search(query, ANA, 50).message_ids[:10] == index.search(query, ANA, 10).message_ids


def test_an_index_grows_after_it_was_searched(index):
    vectors = random_units(400, seed=11)
    for start in range(0, 400, 50):
        index.add(entries(400)[start : start + 50], vectors[start : start + 50])
        assert found(index.search(vectors[start + 49], ANA, 1)) == [(f"ana-{start + 49}", 1.0)]


def test_the_caller_s_array_can_change_afterwards(index):
    vectors = random_units(3)
    index.add(entries(3), vectors)
    vectors[:] = 0.0
    assert found(index.search(random_units(3)[1], ANA, 1)) == [("ana-1", 1.0)]


def test_searching_while_another_thread_adds_gives_whole_answers(index):
    # hnswlib#562: a graph that grows while it is searched breaks.
    vectors, rows = random_units(600, seed=16), entries(600)
    index.add(rows[:100], vectors[:100])

    def answer(number):
        return found(index.search(vectors[number], ANA, 3))

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(answer, number % 100) for number in range(200)]
        for start in range(100, 600, 50):
            index.add(rows[start : start + 50], vectors[start : start + 50])
        assert [a.result()[0] for a in answers] == [(f"ana-{number % 100}", 1.0) for number in range(200)]


BAD_VECTORS = {
    "another dim": (random_units(2, 16), r"dim 16, expected dim 32"),
    "a row too few": (random_units(1), r"shape \(1, 32\), expected \(2, 32\)"),
    "one dimension": (random_units(1)[0], r"shape \(32,\), expected \(2, 32\)"),
    "NaN": (np.vstack([random_units(1), np.full((1, 32), np.nan)]), "1 of 2 .* NaN"),
    "infinity": (np.vstack([random_units(1), np.full((1, 32), np.inf)]), "1 of 2 .* infinity"),
    "zero": (np.zeros((2, 32)), "2 of 2 .* all zero"),
    "not normalised": (random_units(2) * 3.0, "unit length"),
    "no numbers": ([["a"] * 32, ["b"] * 32], "float32"),
}


@pytest.mark.parametrize(("vectors", "message"), BAD_VECTORS.values(), ids=BAD_VECTORS)
def test_rows_that_cannot_be_used_are_refused_and_nothing_is_added(index, vectors, message):
    index.add([entry("a"), entry("b")], random_units(2, seed=12))
    with pytest.raises(VectorError, match=message):
        index.add([entry("a"), entry("new", resource="ben")], vectors)
    assert len(index) == 2
    assert found(index.search(random_units(2, seed=12)[0], ANA, 1)) == [("a", 1.0)]


def test_a_time_without_a_zone_is_refused_and_nothing_is_added(index):
    naive = IndexEntry("new", "ben", "t1", START.replace(tzinfo=None), 0)
    with pytest.raises(ValueError, match="aware"):
        index.add([entry("a"), naive], random_units(2))
    assert len(index) == 0


BAD_QUERIES = {
    "another dim": (random_units(1, 48)[0], "dim 48, expected dim 32"),
    "two dimensions": (random_units(1), r"expected \(1, 32\)"),
    "NaN": (np.full(32, np.nan), "NaN"),
    "zero": (np.zeros(32), "all zero"),
    "not normalised": (np.ones(32), "unit length"),
}


@pytest.mark.parametrize(("query", "message"), BAD_QUERIES.values(), ids=BAD_QUERIES)
def test_a_query_that_cannot_be_used_is_refused(index, query, message):
    index.add(entries(3), random_units(3))
    with pytest.raises(VectorError, match=message):
        index.search(query, ANA, 5)


@pytest.mark.parametrize("depth", [0, -1, 1.5, True, None])
def test_a_depth_that_is_no_positive_integer_is_refused(index, depth):
    with pytest.raises(OptionsError, match="depth"):
        index.search(unit(1, 0), ANA, depth)


def test_adding_nothing_is_allowed(index):
    index.add([], np.empty((0, 32), dtype=np.float32))
    index.add(entries(2), random_units(2))
    index.add([], np.empty((0, 0), dtype=np.float32))
    assert len(index) == 2


def test_an_exact_search_is_exact(index):
    index.add(entries(50), random_units(50))
    assert index.search(random_units(1)[0], ANA, 5, exact=True).searched_by == "exact"


def test_a_thread_is_always_an_exact_slice(index):
    index.add(entries(50), random_units(50))
    assert index.search(random_units(1)[0], SearchScope("ana", "ana-t0"), 5).searched_by == "exact"


class TestWhichStructureAnswers:
    """Only a graph index has a choice; each says honestly what it did."""

    @pytest.fixture
    def hnsw(self):
        from recall.indexes.hnsw import HnswIndex

        return HnswIndex

    @pytest.mark.parametrize("count", [1, 2, 40, 1000])
    def test_without_a_switch_a_graph_answers_for_a_resource_of_any_size(self, hnsw, count):
        index = hnsw()
        index.add(entries(count), random_units(count))
        assert index.search(random_units(1)[0], ANA, 50).searched_by == "graph"

    def test_a_graph_answers_only_above_the_switch(self, hnsw):
        index = hnsw(switch_rows=40)
        index.add(entries(40), random_units(40))
        assert index.search(random_units(1)[0], ANA, 5).searched_by == "exact"
        index.add([entry("one more")], random_units(1, seed=1))
        assert index.search(random_units(1)[0], ANA, 5).searched_by == "graph"

    def test_a_graph_answers_where_half_of_the_rows_are_visible(self, hnsw):
        index = hnsw()
        index.add(entries(1000), random_units(1000))
        before = START + timedelta(seconds=500)
        assert index.search(random_units(1)[0], ANA, 10, before=before).searched_by == "graph"

    def test_a_scan_answers_where_two_rows_of_a_thousand_are_visible(self, hnsw):
        index = hnsw()
        index.add(entries(1000), random_units(1000))
        before = START + timedelta(seconds=2)
        assert index.search(random_units(1)[0], ANA, 5, before=before).searched_by == "exact"

    def test_a_scan_answers_where_the_visible_rows_are_not_near(self, hnsw):
        # Row 0 is the query, the visible half is on the other side of the sphere.
        query, rows = unit(1, 0, 0), random_units(2000, 3, seed=13)
        order = np.argsort(rows @ query)
        index = hnsw()
        index.add(entries(2000), rows[order])
        ranking = index.search(query, ANA, 5, before=START + timedelta(seconds=400))
        assert ranking.searched_by == "exact"
        assert ranking.message_ids == tuple(f"ana-{n}" for n in range(399, 394, -1))

    def test_nodes_that_cannot_be_reached_leave_the_search_to_a_scan(self, hnsw, monkeypatch):
        # hnswlib#465: it raises where it reaches fewer nodes than were asked for.
        import hnswlib

        class Unreachable(hnswlib.Index):
            def knn_query(self, *args, **kwargs):
                raise RuntimeError("Cannot return the results in a contiguous 2D array. Probably ef or M is too small")

        monkeypatch.setattr(hnswlib, "Index", Unreachable)
        index = hnsw()
        index.add(entries(30), random_units(30))
        ranking = index.search(random_units(30)[4], ANA, 3)
        assert (ranking.message_ids[0], ranking.searched_by) == ("ana-4", "exact")

    def test_an_interrupted_build_leaves_no_half_built_graph(self, hnsw, monkeypatch):
        import hnswlib

        index, vectors = hnsw(), random_units(400)
        index.add(entries(200), vectors[:200])
        index.search(vectors[0], ANA, 1)
        index.add(entries(400)[200:], vectors[200:])
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(hnswlib.Index, "add_items", interrupt)
            index.search(vectors[0], ANA, 1)
        assert [index.search(v, ANA, 1).message_ids[0] for v in vectors] == [f"ana-{n}" for n in range(400)]
        assert index.search(vectors[0], ANA, 1).searched_by == "graph"

    def test_another_failure_of_hnswlib_is_not_swallowed(self, hnsw, monkeypatch):
        import hnswlib

        class Broken(hnswlib.Index):
            def knn_query(self, *args, **kwargs):
                raise RuntimeError("something else")

        monkeypatch.setattr(hnswlib, "Index", Broken)
        index = hnsw()
        index.add(entries(30), random_units(30))
        with pytest.raises(RuntimeError, match="something else"):
            index.search(random_units(1)[0], ANA, 3)

    def test_a_graph_still_answers_after_all_of_its_vectors_were_replaced(self, hnsw):
        query = random_units(1)[0]
        index = hnsw()
        for seed in range(1, 6):
            noisy = query + 0.1 * random_units(1000, seed=seed)
            near = (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)
            for vectors in (near, -near):
                index.add(entries(1000), vectors)
                index.search(query, ANA, 10)
        ranking = index.search(query, ANA, 10)
        assert (len(ranking.message_ids), ranking.searched_by) == (10, "graph")

    def test_a_graph_is_the_same_for_the_same_seed_and_another_for_another(self, hnsw):
        vectors, queries = random_units(2000, seed=14), random_units(50, seed=15)
        answers = []
        for seed in (1, 1, 2):
            index = hnsw(m=3, ef_construction=8, ef_search=1, seed=seed)
            index.add(entries(2000), vectors)
            answers.append([index.search(query, ANA, 10).message_ids for query in queries])
        assert answers[0] == answers[1] != answers[2]

    def test_ef_is_the_depth_where_that_is_larger(self, hnsw, monkeypatch):
        import hnswlib

        seen = []

        class Watched(hnswlib.Index):
            def set_ef(self, ef):
                seen.append(ef)
                super().set_ef(ef)

        monkeypatch.setattr(hnswlib, "Index", Watched)
        index = hnsw(ef_search=20)
        index.add(entries(300), random_units(300))
        index.search(random_units(1)[0], ANA, 5)
        index.search(random_units(1)[0], ANA, 200)
        assert seen[0] == 20
        assert seen[1] >= 200

    @pytest.mark.parametrize(
        ("setting", "value"),
        [("m", 1), ("ef_construction", 0), ("ef_search", 0), ("switch_rows", -1), ("seed", -1), ("threads", 0)],
    )
    def test_a_setting_out_of_range_is_refused_by_name(self, hnsw, setting, value):
        with pytest.raises(OptionsError, match=f"^{setting} is {value}"):
            hnsw(**{setting: value})

    def test_a_missing_hnswlib_names_the_line_that_installs_it(self, hnsw, monkeypatch):
        import sys

        monkeypatch.setitem(sys.modules, "hnswlib", None)
        index = hnsw()
        index.add(entries(3), random_units(3))
        with pytest.raises(ImportError, match="pip install hnswlib"):
            index.search(random_units(1)[0], ANA, 3)
