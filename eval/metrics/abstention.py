"""Abstention scored at retrieval: can a threshold on the top score tell what has an answer from what has none?

The score of a query is that of its best hit. Each class of queries without an answer (a query type) is told apart from
all queries with evidence, on its own: a class that no threshold separates hides among others that are easy.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from eval.schema import Run, TestCollection

Floats = npt.NDArray[np.float64]

KEPT_SHARE = 0.9
"""Of the queries with evidence, how many the threshold of the verdict keeps."""
SEPARATED, HARDLY = 0.9, 0.65
"""AUROC from which a class is called separated, and under which no threshold is said to help."""
CURVE_POINTS = 50
FEW_CLUSTERS = 5
FEW_QUERIES = 10
CONFIDENCE = 0.95


def abstention(run: Run, collection: TestCollection, found: dict[str, bool], *, has_scale: bool) -> dict[str, Any]:
    """What thresholds on the top score do, for each class of queries without an answer.

    Args:
        run: The ranked hits.
        collection: Which queries have an answer, and their clusters.
        found: query_id to whether its evidence is found when it is answered, for queries with evidence.
        has_scale: Whether scores of different queries can be compared at all.

    Returns:
        By class, in alphabetical order: queries, auroc (value, low, high, positives, negatives, clusters), threshold
        and false_recall_rate where 90 % of the queries with evidence are kept, curve (threshold, coverage, risk) and
        verdict.
        A class under 10 queries has null for every figure.
    """
    asked = collection.queries.select("query_id", "type", "cluster_id", "answerable")
    tops = run.hits.filter(pl.col("rank") == 1).select("query_id", pl.col("score").cast(pl.Float64))
    scored = asked.join(tops, on="query_id", how="left").with_columns(pl.col("score").fill_null(-np.inf))
    positives = scored.filter(pl.col("query_id").is_in(list(found)))
    negatives = scored.filter(~pl.col("answerable"))
    return {
        kind: _of_class(positives, negatives.filter(pl.col("type") == kind), found, has_scale=has_scale)
        for kind in negatives["type"].unique().sort()
    }


def _of_class(
    positives: pl.DataFrame, negatives: pl.DataFrame, found: dict[str, bool], *, has_scale: bool
) -> dict[str, Any]:
    enough = min(positives.height, negatives.height) >= FEW_QUERIES
    body: dict[str, Any] = {"queries": negatives.height}
    if not has_scale or not enough:
        why = (
            "scores of different queries cannot be compared, so there is no threshold"
            if not has_scale
            else f"fewer than {FEW_QUERIES} queries, so nothing can be said"
        )
        return body | {"auroc": None, "threshold": None, "false_recall_rate": None, "curve": None, "verdict": why}
    high, low = positives["score"].to_numpy(), negatives["score"].to_numpy()
    threshold = float(np.quantile(high, 1 - KEPT_SHARE, method="lower"))
    rate = float(np.mean(low >= threshold))
    interval = _interval(positives, negatives)
    area = {
        "value": auroc(high, low),
        "low": interval[0],
        "high": interval[1],
        "positives": high.size,
        "negatives": low.size,
        "clusters": pl.concat([positives, negatives])["cluster_id"].n_unique(),
    }
    return body | {
        "auroc": area,
        "threshold": threshold if np.isfinite(threshold) else None,
        "false_recall_rate": rate,
        "curve": list(_curve(high, np.array([found[query_id] for query_id in positives["query_id"]]), low)),
        "verdict": _verdict(float(area["value"] or 0), threshold, rate),
    }


def auroc(positives: Floats, negatives: Floats) -> float | None:
    """The chance that a positive scores above a negative, ties half; None without either.

    Source: Hanley & McNeil, Radiology 1982: the Mann-Whitney statistic over all pairs.
    """
    if not positives.size or not negatives.size:
        return None
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left")
    not_above = np.searchsorted(ordered, positives, side="right")
    return float((below + not_above).sum() / 2 / positives.size / negatives.size)


def _interval(positives: pl.DataFrame, negatives: pl.DataFrame) -> tuple[float | None, float | None]:
    """95 %, by leaving out one cluster at a time, t with clusters - 1 degrees of freedom; null under 5 clusters."""
    clusters = pl.concat([positives, negatives])["cluster_id"].unique().sort().to_list()
    if len(clusters) < FEW_CLUSTERS:
        return None, None
    from scipy.stats import t

    areas = []
    for cluster in clusters:
        left = (frame.filter(pl.col("cluster_id") != cluster)["score"].to_numpy() for frame in (positives, negatives))
        area = auroc(*left)
        if area is None:
            return None, None
        areas.append(area)
    count = len(areas)
    whole = auroc(positives["score"].to_numpy(), negatives["score"].to_numpy()) or 0.0
    spread = float(np.sqrt((count - 1) / count * np.sum((np.array(areas) - np.mean(areas)) ** 2)))
    reach = float(t.ppf((1 + CONFIDENCE) / 2, count - 1)) * spread
    return max(0.0, whole - reach), min(1.0, whole + reach)


def _curve(high: Floats, is_found: npt.NDArray[np.bool_], low: Floats) -> Iterator[dict[str, float]]:
    """Of all queries the share that recall answers at a threshold, and of those the share it answers wrongly.

    An answer is wrong where there is none to give, or where the evidence is not in the context. Source: El-Yaniv &
    Wiener, JMLR 2010.
    """
    every = np.concatenate([high, low])
    levels = np.unique(np.quantile(every[np.isfinite(every)], np.linspace(0, 1, CURVE_POINTS), method="lower"))
    for level in levels.tolist():
        answered = float(np.count_nonzero(every >= level))
        right = float(np.count_nonzero(is_found[high >= level]))
        yield {"threshold": level, "coverage": answered / every.size, "risk": 1 - right / answered}


def _verdict(area: float, threshold: float, rate: float) -> str:
    where = f"at {threshold:.3g}, which keeps {KEPT_SHARE:.0%} of the queries with evidence, {rate:.0%} of these recall"
    if area >= SEPARATED:
        return f"a threshold separates them: {where} something"
    if area < HARDLY:
        return f"no threshold separates them: {where} something all the same"
    return f"a threshold helps a little: {where} something all the same"
