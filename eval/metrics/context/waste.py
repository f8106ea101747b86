"""What message ranges waste: places taken by what the context holds already."""

import numpy as np

from eval.metrics.context.base import OWN, ContextMetric, Curve, Prefixes, Seen


def window_overlap(seen: Seen) -> float | None:
    """Share of the windows' places that repeat a message of another window; None without hits."""
    places = sum(map(len, seen.windows.values()))
    return 1 - len(set().union(*seen.windows.values())) / places if places else None


def copy_waste(seen: Seen) -> float | None:
    """Share of the context's messages that say what another one says already; None for an empty context."""
    context = seen.context
    return 1 - len({seen.copies[message_id] for message_id in context}) / len(context) if context else None


def _overlap(prefixes: Prefixes) -> Curve:
    places = prefixes.window_messages
    return Curve(1 - prefixes.windowed / np.maximum(places, 1), places > 0)


def _copies(prefixes: Prefixes) -> Curve:
    return Curve(1 - prefixes.said / np.maximum(prefixes.messages, 1), prefixes.messages > 0)


METRICS = (
    ContextMetric(
        "window_overlap",
        "window overlap",
        "Share of the places in the windows of the hits that repeat a message of another window.",
        "there are no hits",
        OWN,
        higher_is_better=False,
        of_query=window_overlap,
        curve=_overlap,
    ),
    ContextMetric(
        "copy_waste",
        "copies",
        "Share of the context's messages whose letters and digits, whatever the case, are those of another one in it.",
        "the context is empty",
        OWN,
        higher_is_better=False,
        of_query=copy_waste,
        curve=_copies,
    ),
)
