"""Evidence in the context: how much of what answers the query reaches the model."""

from eval.metrics.context.base import NO_RELEVANT, OWN, ContextMetric, Curve, Prefixes, Seen, share_of_relevant


def evidence_recall(seen: Seen) -> float | None:
    """Share of the relevant messages that are in the context; None without a relevant message."""
    return len(seen.context & seen.relevant) / len(seen.relevant) if seen.relevant else None


def evidence_all(seen: Seen) -> float | None:
    """1 if every relevant message is in the context, else 0; None without a relevant message."""
    return float(seen.relevant <= seen.context) if seen.relevant else None


def evidence_any(seen: Seen) -> float | None:
    """1 if a relevant message is in the context, else 0; None without a relevant message."""
    return float(not seen.relevant.isdisjoint(seen.context)) if seen.relevant else None


def _all(prefixes: Prefixes) -> Curve:
    return Curve((prefixes.found == prefixes.relevant).astype(float), prefixes.has_evidence)


def _any(prefixes: Prefixes) -> Curve:
    return Curve((prefixes.found > 0).astype(float), prefixes.has_evidence)


METRICS = (
    ContextMetric(
        "evidence_recall",
        "evidence recall",
        "Share of the query's relevant messages that are in the context.",
        NO_RELEVANT,
        f"{OWN}: set recall of the context",
        of_query=evidence_recall,
        curve=share_of_relevant(lambda prefixes: prefixes.found),
    ),
    ContextMetric(
        "evidence_all",
        "all evidence",
        "1 if every relevant message is in the context, else 0.",
        NO_RELEVANT,
        f"{OWN}: evidence_recall = 1",
        of_query=evidence_all,
        curve=_all,
    ),
    ContextMetric(
        "evidence_any",
        "any evidence",
        "1 if at least one relevant message is in the context, else 0.",
        NO_RELEVANT,
        f"{OWN}: evidence_recall > 0",
        of_query=evidence_any,
        curve=_any,
    ),
)
