"""Search: exact scan against graph by size, and a thread's slice against its whole resource."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from recall.indexes.exact import ExactIndex
from recall.indexes.hnsw import HnswIndex
from recall.schema import SearchScope

DEPTH = 10
INDEXES = {"exact": ExactIndex, "hnsw": HnswIndex}


@pytest.mark.parametrize("rows", [1_000, 10_000])
@pytest.mark.parametrize("kind", INDEXES)
def test_resource_scope(benchmark: BenchmarkFixture, bench_data, kind: str, rows: int) -> None:
    benchmark.group = f"search, resource scope, {rows} rows, depth {DEPTH}"
    index = INDEXES[kind]()
    index.add(bench_data.index_entries(rows), bench_data.unit_rows(rows))
    queries = bench_data.unit_rows(64, seed=1)
    scope = SearchScope("r")
    index.search(queries[0], scope, DEPTH)
    found = benchmark(lambda: [index.search(query, scope, DEPTH) for query in queries])
    assert all(ranking.searched_by == ("graph" if kind == "hnsw" else "exact") for ranking in found)


@pytest.mark.parametrize("kind", INDEXES)
def test_thread_scope(benchmark: BenchmarkFixture, bench_data, kind: str) -> None:
    benchmark.group = f"search, thread scope in 10000 rows, depth {DEPTH}"
    index = INDEXES[kind]()
    index.add(bench_data.index_entries(10_000), bench_data.unit_rows(10_000))
    queries = bench_data.unit_rows(64, seed=1)
    scope = SearchScope("r", "t7")
    found = benchmark(lambda: [index.search(query, scope, DEPTH) for query in queries])
    assert all(len(ranking.message_ids) == DEPTH for ranking in found)
