"""What the model sees anyway, and what recall adds to it."""

from eval.metrics.context.base import (
    NO_RELEVANT,
    OWN,
    ContextMetric,
    Curve,
    Prefixes,
    Seen,
    share_of_relevant,
)


def history_recall(seen: Seen) -> float | None:
    """Share of the relevant messages that are in the history; None without a relevant message."""
    return len(seen.history & seen.relevant) / len(seen.relevant) if seen.relevant else None


def added_recall(seen: Seen) -> float | None:
    """Share of the relevant messages that recall adds to the history; None without a relevant message."""
    return len(seen.added & seen.relevant) / len(seen.relevant) if seen.relevant else None


def added_messages(seen: Seen) -> float:
    """Messages that recall adds to the history."""
    return float(len(seen.added))


def added_tokens(seen: Seen) -> float:
    """Tokens that recall adds to the history."""
    return float(seen.cost(seen.added))


def _added_messages(prefixes: Prefixes) -> Curve:
    return Curve(prefixes.messages - prefixes.messages[:, :1])


def _added_tokens(prefixes: Prefixes) -> Curve:
    return Curve(prefixes.tokens - prefixes.tokens[:, :1])


METRICS = (
    ContextMetric(
        "history_recall",
        "history recall",
        "Share of the query's relevant messages among the last messages of its thread, which the model sees anyway.",
        NO_RELEVANT,
        OWN,
        of_query=history_recall,
        curve=share_of_relevant(lambda prefixes: prefixes.found[:, :1]),
    ),
    ContextMetric(
        "added_recall",
        "added recall",
        "Share of the query's relevant messages that recall adds to the history.",
        NO_RELEVANT,
        f"{OWN}: evidence_recall - history_recall",
        of_query=added_recall,
        curve=share_of_relevant(lambda prefixes: prefixes.found - prefixes.found[:, :1]),
    ),
    ContextMetric(
        "added_messages",
        "added messages",
        "Messages that recall adds to the history.",
        "never",
        OWN,
        high=None,
        higher_is_better=False,
        of_query=added_messages,
        curve=_added_messages,
    ),
    ContextMetric(
        "added_tokens",
        "added tokens",
        "Tokens that recall adds to the history.",
        "never",
        OWN,
        high=None,
        higher_is_better=False,
        of_query=added_tokens,
        curve=_added_tokens,
    ),
)
