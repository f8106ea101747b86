"""Windows: four hits and their neighbours, in a short history and in a long one."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from recall.options import MessageRange
from recall.schema import Hit, SearchScope
from recall.stores.memory import InMemoryStore
from recall.windows import build_context

SPREAD, MIDDLE = 100, 12  # hits in the middle of threads of 25


@pytest.mark.parametrize("rows", [1_000, 50_000])
@pytest.mark.parametrize("reach", [0, 1, 5])
def test_window(benchmark: BenchmarkFixture, bench_data, rows: int, reach: int) -> None:
    benchmark.group = f"window, 4 hits, range {reach}"
    store = InMemoryStore()
    store.add(bench_data.stored_messages(rows))
    hits = [Hit(f"m{SPREAD * number + MIDDLE}", 0.5, number) for number in range(1, 5)]
    window = MessageRange(reach, reach)
    context = benchmark(lambda: build_context(hits, store, message_range=window, scope=SearchScope("r")))
    assert len(context) == 4 * (1 + 2 * reach)
