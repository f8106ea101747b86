"""What the context costs: messages and tokens."""

from eval.metrics.context.base import OWN, ContextMetric, Curve, Seen


def context_messages(seen: Seen) -> float:
    """Messages in the context."""
    return float(len(seen.context))


def context_tokens(seen: Seen) -> float:
    """Tokens of the context's messages together; the wording around them is not counted."""
    return float(seen.cost(seen.context))


METRICS = (
    ContextMetric(
        "context_messages",
        "messages",
        "Messages in the context, hits, neighbours and history, each once.",
        "never",
        OWN,
        high=None,
        higher_is_better=False,
        of_query=context_messages,
        curve=lambda prefixes: Curve(prefixes.messages),
    ),
    ContextMetric(
        "context_tokens",
        "tokens",
        "Tokens of the context's messages, speaker's name included, the wording around them not.",
        "never",
        f"{OWN}: eval.tokens",
        high=None,
        higher_is_better=False,
        of_query=context_tokens,
        curve=lambda prefixes: Curve(prefixes.tokens),
    ),
)
