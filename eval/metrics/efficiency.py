"""Latency by stage."""

import numpy as np
import polars as pl

PERCENTILES = (50, 95, 99)


def latency(timings: pl.DataFrame) -> dict[str, dict[str, float | None]]:
    """Percentiles of the milliseconds of each stage: {stage: {"p50": …, "p95": …, "p99": …}}.

    A percentile between two measurements is interpolated linearly (Hyndman & Fan, The American
    Statistician 1996, type 7; numpy's "linear"). With few measurements a high percentile is therefore
    near the slowest one and says little.

    Args:
        timings: Schema TIMINGS; null and NaN are no measurement and are left out.

    Returns:
        Stages in alphabetical order; a stage that was never measured has None, not 0.
    """
    by_stage = timings.select("stage", pl.col("ms").fill_nan(None)).group_by("stage").agg(pl.col("ms").drop_nulls())
    return {stage: _percentiles(measured) for stage, measured in by_stage.sort("stage").iter_rows()}


def _percentiles(measured: list[float]) -> dict[str, float | None]:
    if not measured:
        return {f"p{percent}": None for percent in PERCENTILES}
    values = np.percentile(measured, PERCENTILES, method="linear")
    return {f"p{percent}": float(value) for percent, value in zip(PERCENTILES, values, strict=True)}
