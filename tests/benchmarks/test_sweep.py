"""Sweep: the one pass over a grid, against plain sets for one configuration of it."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from eval.onepass import Configuration, Grid, Judged, OnePass
from eval.schema import Run

GRID = Grid(range(1, 51), list(itertools.product(range(4), range(4))), [None, 0.1, 0.3, 0.5, 0.7])
CONFIGURATIONS = 50 * 16 * 5


def test_one_pass_over_4000_configurations(benchmark: BenchmarkFixture, sweep_case: tuple[Judged, Run]) -> None:
    benchmark.group = "sweep, 500 queries at depth 100"
    judged, run = sweep_case
    table = benchmark.pedantic(lambda: OnePass(judged, run, GRID.ranges).table(GRID), rounds=3)
    assert table.height == CONFIGURATIONS


def test_plain_sets_for_one_configuration(benchmark: BenchmarkFixture, sweep_case: tuple[Judged, Run]) -> None:
    benchmark.group = "sweep, 500 queries at depth 100"
    judged, run = sweep_case
    knobs = Configuration("resource", 10, 1, 2, 0.3)
    recall = benchmark.pedantic(lambda: by_sets(judged, run, knobs), rounds=3)
    one = Grid([knobs.top_k], [(knobs.before, knobs.after)], [knobs.threshold])
    assert recall == pytest.approx(OnePass(judged, run, one.ranges).table(one)["evidence_recall"][0])


def by_sets(judged: Judged, run: Run, knobs: Configuration) -> float:
    """Mean evidence recall of one configuration with sets of rows, query by query."""
    cells = judged.cells(run.hits["query_id"], run.hits["message_id"])
    relevant: defaultdict[int, set[int]] = defaultdict(set)
    for query, row in zip(*np.divmod(judged.relevant, judged.rows), strict=True):
        relevant[int(query)].add(int(row))
    contexts: defaultdict[int, set[int]] = defaultdict(set)
    pairs = zip(cells.tolist(), run.hits["rank"], run.hits["score"], strict=True)
    for cell, rank, score in pairs:
        if rank > knobs.top_k or score < np.float32(knobs.threshold):
            continue
        query, row = divmod(cell, judged.rows)
        first = max(int(judged.thread_start[row]), row - knobs.before)
        stop = min(int(judged.thread_end[row]), row + knobs.after + 1)
        contexts[query].update(range(first, stop))
    shares = [len(contexts[query] & rows) / len(rows) for query, rows in relevant.items()]
    return sum(shares) / len(shares)
