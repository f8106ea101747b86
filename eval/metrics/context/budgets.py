"""Evidence at token budgets: windows are taken whole, in the order of ranks, while they fit."""

from collections.abc import Callable
from functools import partial

import numpy as np

from eval.metrics.context.base import NO_RELEVANT, OWN, ContextMetric, Curve, Prefixes, Seen

BUDGETS = (250, 500, 1000, 2000)


def evidence_recall_within(seen: Seen, budget: int) -> float | None:
    """Evidence recall of the history and of as many first windows as fit; None without a relevant message."""
    if not seen.relevant:
        return None
    fitting = [count for count in range(len(seen.windows) + 1) if seen.cost(seen.first(count)) <= budget]
    return len(seen.first(max(fitting, default=0)) & seen.relevant) / len(seen.relevant)


def _within(prefixes: Prefixes, budget: int) -> Curve:
    # Tokens never fall with more hits, so what fits is a prefix.
    fitting = np.maximum((prefixes.tokens <= budget).sum(axis=1, keepdims=True) - 1, 0)
    column = np.minimum(np.arange(prefixes.tokens.shape[1]), fitting)
    found = np.take_along_axis(prefixes.found, column, axis=1)
    return Curve(found / prefixes.relevant.clip(1), prefixes.has_evidence)


def _metric(budget: int) -> ContextMetric:
    of_query: Callable[[Seen], float | None] = partial(evidence_recall_within, budget=budget)
    return ContextMetric(
        f"evidence_recall_within_{budget}",
        f"evidence recall within {budget} tokens",
        f"Evidence recall of the history and of as many windows as fit into {budget} tokens, taken whole by rank.",
        NO_RELEVANT,
        OWN,
        of_query=of_query,
        curve=partial(_within, budget=budget),
    )


METRICS = tuple(map(_metric, BUDGETS))
