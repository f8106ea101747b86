"""How much of the exact answer an approximate index found; never called just "recall"."""

import math
from collections.abc import Sequence, Set

import numpy as np
import numpy.typing as npt
import polars as pl

from eval.metrics.base import Metric
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


def _best(scores: ScoreList, k: int) -> npt.NDArray[np.float32]:
    descending: npt.NDArray[np.float32] = np.sort(np.asarray(scores, dtype=np.float32))[::-1]
    return descending[:k]


def gold_loss(found: Sequence[str], exact: Sequence[str], relevant: Set[str]) -> float | None:
    """Recall of the relevant messages that the exact hits have and the approximate ones have not; None without any.

    Negative where the approximate index happens to find more.
    """
    if not relevant:
        return None
    return (len(relevant & set(exact)) - len(relevant & set(found))) / len(relevant)


def ann_body(ann: pl.DataFrame) -> dict[str, float | None]:
    """Over the queries that a graph answered: mean and 5th percentile of ANN recall, and the loss in gold recall."""
    recall, loss = (
        ann.filter(pl.col("metric") == f"{name}_at_{DEFAULT_CUTOFF}")["value"].drop_nulls()
        for name in ("ann_recall", "ann_gold_loss")
    )
    return {
        "recall_at_10_mean": _exact_mean(recall),
        "recall_at_10_p5": None if recall.is_empty() else float(np.percentile(recall.to_numpy(), 5)),
        "gold_recall_loss_at_10": _exact_mean(loss),
    }


def _exact_mean(values: pl.Series) -> float | None:
    return math.fsum(values) / values.len() if values.len() else None


METRICS = (
    Metric(
        f"ann_recall_at_{DEFAULT_CUTOFF}",
        f"ANN recall@{DEFAULT_CUTOFF}",
        f"Share of the {DEFAULT_CUTOFF} best exact scores in scope that the approximate index reached; "
        f"the number of messages in scope stands for {DEFAULT_CUTOFF} where it is smaller.",
        "nothing is in scope, or an exact scan answered; then the query has no row at all",
        "ann-benchmarks, recall by distance threshold",
    ),
    Metric(
        f"ann_gold_loss_at_{DEFAULT_CUTOFF}",
        f"ANN loss of recall@{DEFAULT_CUTOFF}",
        f"Recall@{DEFAULT_CUTOFF} of the exact hits minus that of the approximate ones, of relevant messages.",
        "the query has no relevant message, or an exact scan answered",
        "this project",
        low=-1.0,
        higher_is_better=False,
    ),
)
