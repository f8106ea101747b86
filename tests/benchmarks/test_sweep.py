"""Sweep: 25,000 configurations in one pass, against plain sets for one configuration of it."""

import itertools
import resource
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from eval.grid import Configuration, Grid
from eval.judged import Judged
from eval.onepass import OnePass
from eval.schema import Run

SweepCase = Callable[[int, int], tuple[Judged, Run]]
RANGES = list(itertools.product(range(5), range(5)))
THRESHOLDS = [None, *(round(number / 20 - 0.05, 2) for number in range(19))]
DENSE = Grid(range(1, 51), RANGES, THRESHOLDS)
COMPARED = ("evidence_recall", "context_messages", "context_tokens")
SAMPLE = [
    Configuration("resource", 10, 1, 2, 0.3),
    Configuration("resource", 50, 4, 4, None),
    Configuration("resource", 1, 0, 0, 0.85),
]
QUERIES, DEPTH = 2000, 100


def swept(judged: Judged, run: Run, grid: Grid, metrics: tuple[str, ...] | None = COMPARED):
    return OnePass(judged, run, grid).table(grid, metrics)


def test_one_pass_over_25000_configurations(benchmark: BenchmarkFixture, sweep_case: SweepCase) -> None:
    benchmark.group = "sweep, 2,000 queries at depth 100: 25,000 configurations in one pass, one with plain sets"
    judged, run = sweep_case(QUERIES, DEPTH)
    table = benchmark.pedantic(lambda: swept(judged, run, DENSE), rounds=3)
    assert table.height == len(DENSE) == 25_000
    benchmark.extra_info["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize("knobs", SAMPLE, ids=str)
def test_plain_sets_for_one_configuration(
    benchmark: BenchmarkFixture, sweep_case: SweepCase, knobs: Configuration
) -> None:
    benchmark.group = "sweep, 2,000 queries at depth 100: 25,000 configurations in one pass, one with plain sets"
    judged, run = sweep_case(QUERIES, DEPTH)
    expected = benchmark.pedantic(lambda: by_sets(judged, run, knobs), rounds=3)
    row = swept(judged, run, Grid.of(knobs)).row(0, named=True)
    assert [row[name] for name in COMPARED] == pytest.approx(expected)


def test_one_pass_with_every_metric(benchmark: BenchmarkFixture, sweep_case: SweepCase) -> None:
    benchmark.group = "sweep, 25,000 configurations, every metric"
    judged, run = sweep_case(QUERIES, DEPTH)
    table = benchmark.pedantic(lambda: swept(judged, run, DENSE, None), rounds=2)
    assert table.height == 25_000


@pytest.mark.parametrize(("queries", "depth"), [(1000, 50), (1000, 100), (2000, 50), (2000, 100), (4000, 100)])
def test_growth_with_queries_and_depth(
    benchmark: BenchmarkFixture, sweep_case: SweepCase, queries: int, depth: int
) -> None:
    benchmark.group = "sweep, 25,000 configurations by queries and depth"
    judged, run = sweep_case(queries, depth)
    benchmark.pedantic(lambda: swept(judged, run, DENSE), rounds=2)


@pytest.mark.parametrize("times", [1, 4])
def test_growth_with_thresholds(benchmark: BenchmarkFixture, sweep_case: SweepCase, times: int) -> None:
    benchmark.group = "sweep, 20 and 80 thresholds"
    judged, run = sweep_case(QUERIES, DEPTH)
    levels = np.linspace(-0.05, 0.9, 20 * times).tolist()
    grid = Grid(DENSE.top_ks, RANGES, levels)
    benchmark.pedantic(lambda: swept(judged, run, grid), rounds=2)


def by_sets(judged: Judged, run: Run, knobs: Configuration) -> list[float]:
    """Mean evidence recall, messages and tokens of one configuration with sets of rows, query by query."""
    cells = judged.cells(run.hits["query_id"], run.hits["message_id"])
    relevant: defaultdict[int, set[int]] = defaultdict(set)
    for query, row in zip(*np.divmod(judged.relevant, judged.rows), strict=True):
        relevant[int(query)].add(int(row))
    contexts: defaultdict[int, set[int]] = defaultdict(set)
    level = -np.inf if knobs.threshold is None else np.float32(knobs.threshold)
    starts, ends, tokens = judged.thread_start.tolist(), judged.thread_end.tolist(), judged.tokens.tolist()
    pairs = zip(cells.tolist(), run.hits["rank"].to_list(), run.hits["score"].to_list(), strict=True)
    for cell, rank, score in pairs:
        if rank > knobs.top_k or score < level:
            continue
        query, row = divmod(cell, judged.rows)
        first, stop = max(starts[row], row - knobs.before), min(ends[row], row + knobs.after + 1)
        contexts[query].update(range(first, stop))
    shares = [len(contexts[query] & rows) / len(rows) for query, rows in relevant.items()]
    messages = [len(contexts[query]) for query in relevant]
    costs = [sum(tokens[row] for row in contexts[query]) for query in relevant]
    return [sum(values) / len(values) for values in (shares, messages, costs)]
