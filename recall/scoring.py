"""The one kernel every score comes from, and the one order of hits.

A batched and a single float32 product differ in their last bits, and ties would flip with them. Scores are
therefore computed in float64, row by row, rounded to six decimals, and kept as float32: equal inputs give
equal bytes whatever was scored beside them.
"""

import numpy as np
import numpy.typing as npt

from recall.schema import Scores, Vector, Vectors

SCORE_DECIMALS = 6


def score(query: Vector, rows: Vectors) -> Scores:
    """Cosine of a unit query, shape (dim,), with unit rows, shape (n, dim); float32 in [-1, 1]."""
    # einsum without BLAS reduces each row alone, so a row's score does not depend on its neighbours.
    exact = np.einsum("ij,j->i", rows.astype(np.float64), query.astype(np.float64))
    return rounded(np.clip(exact, -1.0, 1.0))


def rounded(values: npt.NDArray[np.float64]) -> Scores:
    """Scores at six decimals as float32; negative zero becomes zero."""
    return (np.round(values, SCORE_DECIMALS) + 0.0).astype(np.float32)


def best_first(scores: Scores, tie_order: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Indices that sort by score descending, then by `tie_order` ascending."""
    return np.lexsort((tie_order, -scores))


def passes(scores: Scores, threshold: float | None) -> npt.NDArray[np.bool_]:
    """Which scores are at or above the threshold, both compared as float32."""
    if threshold is None:
        return np.ones(scores.shape, dtype=np.bool_)
    return np.asarray(scores >= np.float32(threshold))


def display(value: np.float32 | float) -> float:
    """A score as the decimal it was rounded to: .7, not 0.699999988."""
    return round(float(value), SCORE_DECIMALS)
