"""What message ranges buy: evidence that no hit found and a neighbour brought."""

from eval.metrics.context.base import NO_RELEVANT, OWN, ContextMetric, Seen, share_of_relevant


def rescue_rate(seen: Seen) -> float | None:
    """Share of the relevant messages in the context that are neither hits nor history; None without any."""
    return len((seen.added - seen.hits) & seen.relevant) / len(seen.relevant) if seen.relevant else None


METRICS = (
    ContextMetric(
        "rescue_rate",
        "rescue rate",
        "Share of the query's relevant messages that are in the context only as neighbours of hits.",
        NO_RELEVANT,
        OWN,
        of_query=rescue_rate,
        curve=share_of_relevant(lambda prefixes: prefixes.rescued),
    ),
)
