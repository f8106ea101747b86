"""How much of the context is evidence."""

import numpy as np

from eval.metrics.context.base import OWN, ContextMetric, Curve, Prefixes, Seen


def context_precision(seen: Seen) -> float | None:
    """Share of the context that is relevant; None for an empty context or without a relevant message."""
    return len(seen.context & seen.relevant) / len(seen.context) if seen.context and seen.relevant else None


def _precision(prefixes: Prefixes) -> Curve:
    return Curve(prefixes.found / np.maximum(prefixes.messages, 1), prefixes.has_evidence & (prefixes.messages > 0))


METRICS = (
    ContextMetric(
        "context_precision",
        "context precision",
        "Share of the context's messages that are relevant.",
        "the context is empty, or the query has no relevant message",
        f"{OWN}: set precision of the context",
        of_query=context_precision,
        curve=_precision,
    ),
)
