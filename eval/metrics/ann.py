"""How much of the exact answer an approximate index found; never called just "recall"."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from eval.metrics.base import Metric
from eval.schema import PER_QUERY
from recall.errors import InputError

DEFAULT_CUTOFF = 10

ScoreList = Sequence[float] | npt.NDArray[np.float32]


def ann_recall(found_scores: ScoreList, exact_scores: ScoreList, k: int = DEFAULT_CUTOFF) -> float | None:
    """Share of the k best possible hits that were found, in [0, 1]; None where nothing can be found.

    Compared by score, so that ties are fair: of the k best found, each counts whose score is at least
    that of the k-th exact hit. Where fewer than k messages exist, k is their number.
    Source: ann-benchmarks, recall by distance threshold; no epsilon, because both sides have the
    scores of one kernel at six decimals.

    Args:
        found_scores: Scores of the approximate hits, any order, higher is better.
        exact_scores: Scores of the exact hits, any order, to at least depth k.
        k: 1 or more.

    Raises:
        InputError: k is under 1.
    """
    if k < 1:
        raise InputError(f"k is {k}, expected 1 or more")
    reachable = _best(exact_scores, k)
    if reachable.size == 0:
        return None
    found = _best(found_scores, reachable.size)
    return int(np.count_nonzero(found >= reachable[-1])) / reachable.size


def ann_recall_scores(found: pl.DataFrame, exact: pl.DataFrame, *, k: int = DEFAULT_CUTOFF) -> pl.DataFrame:
    """`ann_recall` of every query of the exact run, as the metric `ann_recall_at_K`.

    Args:
        found: Schema RUN, of the approximate index; a query that is not there found nothing and scores 0.
        exact: Schema RUN, same queries and scope, every row scanned, to at least depth k.
        k: 1 or more.

    Returns:
        Schema PER_QUERY, ordered by query_id, no null: a query with nothing to find has no row.

    Raises:
        InputError: k is under 1, or `found` has a query that `exact` has not.
    """
    _check_same_queries(found, exact)
    found_by_query, exact_by_query = _scores_by_query(found), _scores_by_query(exact)
    metric = f"ann_recall_at_{k}"

    def rows() -> Iterator[tuple[str, str, float | None]]:
        for query_id, scores in exact_by_query.items():
            yield query_id, metric, ann_recall(found_by_query.get(query_id, []), scores, k)

    return pl.DataFrame(list(rows()), schema=PER_QUERY, orient="row").sort("query_id")


def _best(scores: ScoreList, k: int) -> npt.NDArray[np.float32]:
    descending: npt.NDArray[np.float32] = np.sort(np.asarray(scores, dtype=np.float32))[::-1]
    return descending[:k]


def _scores_by_query(run: pl.DataFrame) -> dict[str, list[float]]:
    grouped = run.group_by("query_id").agg("score")
    return dict(zip(grouped["query_id"].to_list(), grouped["score"].to_list(), strict=True))


def _check_same_queries(found: pl.DataFrame, exact: pl.DataFrame) -> None:
    strange = found.join(exact, on="query_id", how="anti").get_column("query_id").unique().sort()
    if not strange.is_empty():
        raise InputError(
            f"queries of the approximate run that the exact run lacks: {len(strange)}, first {strange[0]!r}; "
            "retrieve both from the same collection in the same scope"
        )


METRICS = (
    Metric(
        f"ann_recall_at_{DEFAULT_CUTOFF}",
        f"ANN recall@{DEFAULT_CUTOFF}",
        f"Share of the {DEFAULT_CUTOFF} best exact scores in scope that the approximate index reached; "
        f"the number of messages in scope stands for {DEFAULT_CUTOFF} where it is smaller.",
        "nothing is in scope; then the query has no row at all",
        "ann-benchmarks, recall by distance threshold",
    ),
)
