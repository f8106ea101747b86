"""How much of the exact answer an approximate index found; never called just "recall"."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

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


METRICS = (
    Metric(
        f"ann_recall_at_{DEFAULT_CUTOFF}",
        f"ANN recall@{DEFAULT_CUTOFF}",
        f"Share of the {DEFAULT_CUTOFF} best exact scores in scope that the approximate index reached; "
        f"the number of messages in scope stands for {DEFAULT_CUTOFF} where it is smaller.",
        "nothing is in scope, or an exact scan answered; then the query has no row at all",
        "ann-benchmarks, recall by distance threshold",
    ),
)
