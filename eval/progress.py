"""Progress of long work: a bar on a terminal, plain lines elsewhere, always on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

LINE_EVERY_SECONDS = 10.0


@contextmanager
def progress(label: str, *, quiet_below: float = 0) -> Iterator[Callable[[int, int], None]]:
    """A callback for (done, total) under a label.

    Args:
        label: What is being done, as in "embedding messages".
        quiet_below: Say nothing when the total is smaller.
    """
    if sys.stderr.isatty():
        with _bar(label, quiet_below) as advance:
            yield advance
    else:
        yield _lines(label, quiet_below)


@contextmanager
def _bar(label: str, quiet_below: float) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, visible=False)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=total >= quiet_below)

        yield advance


def _lines(label: str, quiet_below: float) -> Callable[[int, int], None]:
    started = said = monotonic()

    def advance(done: int, total: int) -> None:
        nonlocal said
        now = monotonic()
        if total < quiet_below or (done < total and now - said < LINE_EVERY_SECONDS):
            return
        if done >= total and now - started < LINE_EVERY_SECONDS:
            return
        said = now
        left = (now - started) / max(done, 1) * (total - done)
        sys.stderr.write(f"{label}: {done:,} of {total:,}, about {left:.0f} s left\n")

    return advance
