"""Metrics of a ranking before windows, computed by ir-measures through its pytrec_eval provider.

The provider is fixed: it is trec_eval's own code, and another provider may define a metric differently.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from eval.metrics.base import Metric
from eval.schema import PER_QUERY
from recall.errors import InputError

DEFAULT_CUTOFFS = (1, 3, 5, 10, 20, 50)
NDCG_CUTOFF = 10

_NULL_WHEN = "the query has no relevant message; then it has no row at all"
_TREC_EVAL = "trec_eval"


def ranking_scores(
    run_hits: pl.DataFrame, qrels: pl.DataFrame, *, cutoffs: Sequence[int] = DEFAULT_CUTOFFS
) -> pl.DataFrame:
    """Every ranking metric of every query that has a relevant message.

    Hits are ordered by `rank` alone: scores are not looked at, so trec_eval's tie rule never applies.
    A query without hits scores 0; hits of queries without a relevant message are ignored.

    Args:
        run_hits: Schema RUN, any row order; ranks may have gaps.
        qrels: Schema QRELS; relevance of 1 or more is relevant, and is the gain of nDCG.
        cutoffs: The K of recall, hit, all and precision; each 1 or more.

    Returns:
        Schema PER_QUERY, ordered by (query_id, metric), no null value.

    Raises:
        InputError: A cut-off under 1; a query with a message or a rank twice; a pair judged twice.
    """
    _check_cutoffs(cutoffs)
    _check_unique(run_hits, ["query_id", "message_id"], "the run")
    _check_unique(run_hits, ["query_id", "rank"], "the run")
    _check_unique(qrels, ["query_id", "message_id"], "the qrels")
    relevant = qrels.filter(pl.col("relevance") >= 1)
    if relevant.is_empty():
        return PER_QUERY.to_frame()
    # Numbers for names: ids of any shape stay out of pytrec_eval's C strings, where a NUL aborts the process.
    numbered = relevant.select("query_id").unique().sort("query_id").with_row_index("query")
    relevant = relevant.join(numbered, on="query_id")
    hits = run_hits.join(numbered, on="query_id").select(
        "query", "message_id", place=pl.col("rank").rank("ordinal").over("query")
    )
    rows = list(_scored(_places(hits), _judgements(relevant, hits), cutoffs))
    scores = pl.DataFrame(rows, schema={"query": pl.UInt32, "metric": pl.String, "value": pl.Float64}, orient="row")
    every = pl.concat([scores, _all_at(scores)]).join(numbered, on="query")
    return every.select(PER_QUERY.names()).sort("query_id", "metric")


def _places(hits: pl.DataFrame) -> dict[str, dict[str, float]]:
    """The run as pytrec_eval takes it: per query, name to score; a message is named by its place.

    All queries with equally many hits share one dict, which makes the conversion cheap.
    """
    depths = hits.group_by("query").len().rows()
    by_depth = {
        depth: {str(place): -float(place) for place in range(1, depth + 1)} for depth in {depth for _, depth in depths}
    }
    return {str(query): by_depth[depth] for query, depth in depths}


def _judgements(relevant: pl.DataFrame, hits: pl.DataFrame) -> dict[str, dict[str, int]]:
    """The relevant messages as pytrec_eval takes them, named like the run; what was not found has a name of its own."""
    named = relevant.join(hits, on=["query", "message_id"], how="left").with_row_index()
    judgements: dict[str, dict[str, int]] = {}
    for index, query, place, relevance in named.select("index", "query", "place", "relevance").iter_rows():
        name = f"absent {index}" if place is None else str(place)
        judgements.setdefault(str(query), {})[name] = relevance
    return judgements


def _scored(
    run: dict[str, dict[str, float]], judgements: dict[str, dict[str, int]], cutoffs: Sequence[int]
) -> Iterator[tuple[int, str, float]]:
    import ir_measures

    names = _measures(cutoffs)
    for query, measure, value in ir_measures.pytrec_eval.evaluator(list(names), judgements).iter_calc(run):
        yield int(query), names[measure], float(value)


def _measures(cutoffs: Sequence[int]) -> dict[Any, str]:
    """Our name by measure of ir-measures."""
    from ir_measures import AP, RR, P, R, Success, nDCG

    named = {nDCG @ NDCG_CUTOFF: f"ndcg_at_{NDCG_CUTOFF}", RR: "mrr", AP: "map"}
    for prefix, measure in (("recall", R), ("hit", Success), ("precision", P)):
        named |= {measure @ k: f"{prefix}_at_{k}" for k in cutoffs}
    return named


def _all_at(scores: pl.DataFrame) -> pl.DataFrame:
    """all_at_K from recall_at_K: trec_eval has no such metric, and the quotient n / n is exactly 1."""
    return scores.filter(pl.col("metric").str.starts_with("recall_at_")).with_columns(
        pl.col("metric").str.replace("recall_at_", "all_at_", literal=True), (pl.col("value") == 1.0).cast(pl.Float64)
    )


def _check_cutoffs(cutoffs: Sequence[int]) -> None:
    for k in cutoffs:
        if k < 1:
            raise InputError(f"cut-off is {k}, expected 1 or more")


def _check_unique(table: pl.DataFrame, key: list[str], what: str) -> None:
    repeated = table.filter(table.select(key).is_duplicated())
    if not repeated.is_empty():
        first = repeated.select(key).row(0, named=True)
        raise InputError(f"{first} stands more than once in {what}, expected every ({', '.join(key)}) once")


def _described_at(k: int) -> tuple[Metric, ...]:
    return (
        Metric(
            f"recall_at_{k}",
            f"recall@{k}",
            f"Share of the query's relevant messages among its first {k} hits.",
            _NULL_WHEN,
            f"{_TREC_EVAL} recall_{k}",
        ),
        Metric(
            f"hit_at_{k}",
            f"hit@{k}",
            f"1 if at least one of the first {k} hits is relevant, else 0.",
            _NULL_WHEN,
            f"{_TREC_EVAL} success_{k}",
        ),
        Metric(
            f"all_at_{k}",
            f"all@{k}",
            f"1 if every relevant message is among the first {k} hits, else 0.",
            _NULL_WHEN,
            f"recall_at_{k} = 1",
        ),
        Metric(
            f"precision_at_{k}",
            f"precision@{k}",
            f"Relevant messages among the first {k} hits, divided by {k}, also where there are fewer hits.",
            _NULL_WHEN,
            f"{_TREC_EVAL} P_{k}",
        ),
    )


METRICS = (
    *(metric for k in DEFAULT_CUTOFFS for metric in _described_at(k)),
    Metric(
        f"ndcg_at_{NDCG_CUTOFF}",
        f"nDCG@{NDCG_CUTOFF}",
        f"Sum of relevance / log2(rank + 1) over the first {NDCG_CUTOFF} hits, divided by that of the best order.",
        _NULL_WHEN,
        f"Järvelin & Kekäläinen, TOIS 2002; {_TREC_EVAL} ndcg_cut_{NDCG_CUTOFF}",
    ),
    Metric(
        "mrr",
        "MRR",
        "1 / rank of the first relevant hit within the run's depth, 0 if there is none.",
        _NULL_WHEN,
        f"{_TREC_EVAL} recip_rank",
    ),
    Metric(
        "map",
        "MAP",
        "Sum of precision at the rank of each relevant hit within the run's depth, divided by the number of "
        "relevant messages.",
        _NULL_WHEN,
        f"{_TREC_EVAL} map",
    ),
)
