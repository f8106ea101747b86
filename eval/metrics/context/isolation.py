"""Isolation: nothing of another resource is ever shown."""

from eval.metrics.context.base import OWN, ContextMetric, Curve, Seen


def leaked_messages(seen: Seen) -> float:
    """Messages of other resources in the context; any is a failure."""
    return float(len(seen.context & seen.strangers))


METRICS = (
    ContextMetric(
        "leaked_messages",
        "leaked messages",
        "Messages in the context that belong to another resource; anything but 0 is a failure.",
        "never",
        OWN,
        high=None,
        higher_is_better=False,
        of_query=leaked_messages,
        curve=lambda prefixes: Curve(prefixes.strangers),
    ),
)
