"""Choosing among configurations: the Pareto front, and the best within a budget.

Higher quality and lower cost are better. Among rows that agree in both, the simplest stands for all:
smallest top_k, fewest neighbours (before + after), then fewest before, then fewest after, no threshold
before any and a lower before a higher, then the remaining columns in the frame's order, ascending. Axes
the frame has not are skipped. Rows whose quality or cost is null or not finite take no part.
"""

import math
from typing import Any

import polars as pl

from recall.errors import InputError

_AXES = ("top_k", "before", "after", "threshold")


def pareto_front(
    frame: pl.DataFrame, *, quality: str = "evidence_recall", cost: str = "context_tokens"
) -> pl.DataFrame:
    """The rows no other row beats: none is as good and cheaper, or better and as cheap.

    Args:
        frame: One row per configuration.
        quality: Column to maximise.
        cost: Column to minimise.

    Returns:
        Same columns, ordered by cost ascending, so by quality ascending too; both strictly.

    Raises:
        InputError: A column is missing.
    """
    usable = _usable(frame, quality, cost)
    simplicity = _simplicity(usable.drop(quality, cost))
    order = [pl.col(cost), pl.col(quality), *simplicity]
    descending = [False, True, *(False for _ in simplicity)]
    by_cost = usable.sort(order, descending=descending, nulls_last=False, maintain_order=True)
    best_so_far = pl.col(quality).cum_max().shift(1)
    return by_cost.filter(best_so_far.is_null() | (pl.col(quality) > best_so_far))


def best_within(
    frame: pl.DataFrame, budget: float, *, quality: str = "evidence_recall", cost: str = "context_tokens"
) -> dict[str, Any] | None:
    """The row of the highest quality whose cost is at most the budget; the cheaper one where two agree.

    Args:
        frame: One row per configuration.
        budget: Largest cost allowed, in the unit of the cost column.
        quality: Column to maximise.
        cost: Column to hold under the budget.

    Returns:
        The row by column; None where no row has both a quality and a cost.

    Raises:
        InputError: A column is missing, the budget is not a number, or nothing is that cheap; the
            sentence then names the cheapest configuration.
    """
    if math.isnan(budget):
        raise InputError(f"the budget for {cost} is nan, expected a number")
    front = pareto_front(frame, quality=quality, cost=cost)
    if front.is_empty():
        return None
    affordable = front.filter(pl.col(cost) <= budget)
    if affordable.is_empty():
        cheapest = front.row(0, named=True)
        raise InputError(
            f"no configuration costs {budget:g} {cost} or less; the cheapest is {_describe(cheapest)} "
            f"with {cheapest[cost]:.6g}; allow at least that much, or try smaller top_k and ranges"
        )
    return affordable.row(-1, named=True)


def _usable(frame: pl.DataFrame, quality: str, cost: str) -> pl.DataFrame:
    missing = [name for name in (quality, cost) if name not in frame.columns]
    if missing:
        raise InputError(f"no column {', '.join(missing)} to choose by; the table has {', '.join(frame.columns)}")
    return frame.filter(pl.all_horizontal(pl.col(quality, cost).cast(pl.Float64).is_finite()))


def _simplicity(axes: pl.DataFrame) -> list[pl.Expr]:
    """What to sort by, ascending and null first, so that the simplest of equal rows comes first."""
    expressions = [pl.col(name) for name in _AXES if name in axes.columns]
    if {"before", "after"} <= set(axes.columns):
        expressions.insert(int("top_k" in axes.columns), pl.col("before") + pl.col("after"))
    others = [name for name, kind in axes.schema.items() if name not in _AXES and not kind.is_nested()]
    return [*expressions, *map(pl.col, others)]


def _describe(row: dict[str, Any]) -> str:
    """A configuration as its axes and its names, such as "scope=thread, top_k=1, threshold=null"."""
    shown = {name: value for name, value in row.items() if name in _AXES or isinstance(value, str)}
    return ", ".join(f"{name}={'null' if value is None else value}" for name, value in shown.items())
