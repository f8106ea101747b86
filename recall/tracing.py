"""OpenTelemetry spans around the stages of a recall, where the application traces; nothing at all where it does not."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Span(Protocol):
    """What a stage tells: counts and scores, never text or ids."""

    def set_attribute(self, key: str, value: Any) -> Any:
        """Attach one value."""
        ...


class _NoSpan:
    def set_attribute(self, key: str, value: Any) -> None:
        """Tell nobody."""


_NO_SPAN = _NoSpan()


@contextmanager
def span(name: str) -> Iterator[Span]:
    """A span under the current one; exceptions that leave it are recorded in it."""
    # An application that traces has imported the API; importing it here would cost those that do not.
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        yield _NO_SPAN
        return
    with api.get_tracer("recall").start_as_current_span(name) as current:
        yield current
