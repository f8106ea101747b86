"""Metrics of the context: what the model would see after windows.

Plain definitions over sets, one query at a time. `eval.onepass` computes the same for every cheap
configuration at once and is tested against these.
"""

from collections.abc import Collection, Iterator, Mapping, Set

import polars as pl

from eval.metrics.base import Metric
from eval.schema import PER_QUERY
from recall.errors import InputError


def evidence_recall(context: Set[str], relevant: Set[str]) -> float | None:
    """Share of the relevant messages that are in the context; None without a relevant message."""
    return len(context & relevant) / len(relevant) if relevant else None


def evidence_all(context: Set[str], relevant: Set[str]) -> float | None:
    """1 if every relevant message is in the context, else 0; None without a relevant message."""
    return float(relevant <= context) if relevant else None


def evidence_any(context: Set[str], relevant: Set[str]) -> float | None:
    """1 if a relevant message is in the context, else 0; None without a relevant message."""
    return float(not relevant.isdisjoint(context)) if relevant else None


def context_precision(context: Set[str], relevant: Set[str]) -> float | None:
    """Share of the context that is relevant; None for an empty context or without a relevant message."""
    return len(context & relevant) / len(context) if context and relevant else None


def context_messages(context: Set[str]) -> float:
    """Messages in the context."""
    return float(len(context))


def context_tokens(context: Set[str], tokens: Mapping[str, int]) -> float:
    """Tokens of the context's messages together; the wording around them is not counted.

    Raises:
        InputError: A message of the context has no token count.
    """
    unknown = sorted(context - tokens.keys())
    if unknown:
        raise InputError(
            f"messages of the context without a token count: {len(unknown)}, first {unknown[0]!r}; "
            "count the tokens of every message of the collection"
        )
    return float(sum(tokens[message_id] for message_id in context))


def score_context(
    context: Collection[str], relevant: Collection[str], tokens: Mapping[str, int]
) -> dict[str, float | None]:
    """Every context metric of one query, by name; a message given twice counts once."""
    seen, wanted = frozenset(context), frozenset(relevant)
    return {
        "evidence_recall": evidence_recall(seen, wanted),
        "evidence_all": evidence_all(seen, wanted),
        "evidence_any": evidence_any(seen, wanted),
        "context_precision": context_precision(seen, wanted),
        "context_messages": context_messages(seen),
        "context_tokens": context_tokens(seen, tokens),
    }


def context_scores(
    contexts: Mapping[str, Collection[str]], relevant: Mapping[str, Collection[str]], tokens: Mapping[str, int]
) -> pl.DataFrame:
    """Every context metric of every query of `contexts` and `relevant`.

    Args:
        contexts: query_id to the message_ids of its context; a query that is not there has an empty one.
        relevant: query_id to its relevant message_ids; a query that is not there has none.
        tokens: message_id to its number of tokens.

    Returns:
        Schema PER_QUERY, ordered by (query_id, metric), one row per query and metric, null where undefined.

    Raises:
        InputError: A message of a context has no token count.
    """

    def rows() -> Iterator[tuple[str, str, float | None]]:
        for query_id in contexts.keys() | relevant.keys():
            scores = score_context(contexts.get(query_id, ()), relevant.get(query_id, ()), tokens)
            for metric, value in scores.items():
                yield query_id, metric, value

    return pl.DataFrame(list(rows()), schema=PER_QUERY, orient="row").sort("query_id", "metric")


_NO_RELEVANT = "the query has no relevant message"
_OWN = "this project"

METRICS = (
    Metric(
        "evidence_recall",
        "evidence recall",
        "Share of the query's relevant messages that are in the context.",
        _NO_RELEVANT,
        f"{_OWN}: set recall of the context",
    ),
    Metric(
        "evidence_all",
        "all evidence",
        "1 if every relevant message is in the context, else 0.",
        _NO_RELEVANT,
        f"{_OWN}: evidence_recall = 1",
    ),
    Metric(
        "evidence_any",
        "any evidence",
        "1 if at least one relevant message is in the context, else 0.",
        _NO_RELEVANT,
        f"{_OWN}: evidence_recall > 0",
    ),
    Metric(
        "context_precision",
        "context precision",
        "Share of the context's messages that are relevant.",
        "the context is empty, or the query has no relevant message",
        f"{_OWN}: set precision of the context",
    ),
    Metric(
        "context_messages",
        "messages",
        "Messages in the context, hits and neighbours, each once.",
        "never",
        _OWN,
        high=None,
        higher_is_better=False,
    ),
    Metric(
        "context_tokens",
        "tokens",
        "Tokens of the context's messages, speaker's name included, the wording around them not.",
        "never",
        f"{_OWN}: eval.tokens",
        high=None,
        higher_is_better=False,
    ),
)
