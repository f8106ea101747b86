"""Every ranking metric of every query after every number of hits; `eval.metrics.ranking` says what they are.

A configuration's hits are a prefix of the run, and a metric at cut-off k of n hits is that of the first min(k, n). The
values are those that ir-measures gives for the run cut after n hits, which a test compares.
"""

from collections.abc import Iterator

import numpy as np

from eval.cells import Cells
from eval.judged import Judged
from eval.metrics.context.base import Curve, Floats
from eval.metrics.ranking import DEFAULT_CUTOFFS, NDCG_CUTOFF


def ranking_curves(judged: Judged, cells: Cells) -> Iterator[tuple[str, Curve]]:
    """Name and curve of every metric; defined for queries with a relevant message."""
    gain = _gains(judged, cells)
    relevant = (gain > 0).astype(np.float64)
    found = np.cumsum(relevant, axis=1)
    total = judged.relevant_count[:, None].clip(1).astype(np.float64)
    rank = np.arange(gain.shape[1])
    defined = judged.scored[:, None]
    for k in DEFAULT_CUTOFFS:
        at = found[:, np.minimum(rank, k)]
        yield f"recall_at_{k}", Curve(at / total, defined)
        yield f"hit_at_{k}", Curve((at > 0).astype(np.float64), defined)
        yield f"all_at_{k}", Curve((at == total).astype(np.float64), defined)
        yield f"precision_at_{k}", Curve(at / k, defined)
    discounted = np.cumsum(gain * _discounts(rank), axis=1)[:, np.minimum(rank, NDCG_CUTOFF)]
    yield f"ndcg_at_{NDCG_CUTOFF}", Curve(discounted / _ideal(judged), defined)
    first = np.where(found > 0, np.argmax(relevant, axis=1)[:, None], 0)
    yield "mrr", Curve(np.divide(1, first, out=np.zeros(first.shape), where=first > 0), defined)
    precision = np.divide(found, rank, out=np.zeros(found.shape), where=rank > 0)
    yield "map", Curve(np.cumsum(relevant * precision, axis=1) / total, defined)


def _gains(judged: Judged, cells: Cells) -> Floats:
    """Relevance of the hit at each rank, shape (queries, depth + 1); 0 at rank 0 and where there is no hit."""
    gains = np.zeros((judged.queries, cells.depth + 2))
    gains[cells.query[cells.relevant], cells.hit_rank[cells.relevant]] = cells.gains
    return gains[:, :-1]


def _discounts(rank: np.ndarray) -> Floats:
    return np.where(rank > 0, 1 / np.log2(np.maximum(rank, 1) + 1), 0.0)


def _ideal(judged: Judged) -> Floats:
    """The discounted gain of the best order, shape (queries, 1); 1 where nothing is relevant."""
    ideal = np.ones((judged.queries, 1))
    query = judged.relevant // max(judged.rows, 1)
    order = np.lexsort((-judged.gains, query))
    query, gains = query[order], judged.gains[order]
    place = np.arange(query.size) - np.searchsorted(query, query, side="left")
    kept = place < NDCG_CUTOFF
    sums = np.bincount(query[kept], weights=gains[kept] * _discounts(place[kept] + 1), minlength=judged.queries)
    ideal[:, 0] = np.where(sums > 0, sums, 1)
    return ideal
