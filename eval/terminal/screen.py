"""What every view is made of: the console, safe text, plain tables, numbers."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

MIN_WIDTH = 100
AXES = ("top_k", "range", "scope", "threshold", "last")


def console() -> Console:
    """stdout, at least 100 columns wide where it is not a terminal, so that tables are not cut."""
    screen = Console(highlight=False)
    if not screen.is_terminal:
        screen.width = max(screen.width, MIN_WIDTH)
    return screen


def printable(text: str) -> str:
    """Text without control, bidi and surrogate characters: each becomes its escape."""
    return "".join(
        char if not unicodedata.category(char).startswith("C") else char.encode("unicode_escape").decode()
        for char in text
    )


def printable_lines(text: str) -> str:
    """`printable`, line by line."""
    return "\n".join(printable(line) for line in text.split("\n"))


def title(text: str) -> Text:
    """The line above a table."""
    return Text(f"\n{text}", style="bold")


def note(sentence: str) -> Text:
    """A sentence the reader should not miss."""
    return Text(f"Note: {printable(sentence)}", style="yellow")


def figures_table(*, left: Sequence[str], right: Sequence[str]) -> Table:
    """An empty table that fits 80 columns: text on the left, figures on the right."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for heading in left:
        table.add_column(heading)
    for heading in right:
        table.add_column(heading, justify="right")
    return table


def key_values(heading: str, pairs: Iterable[tuple[str, Any]]) -> list[RenderableType]:
    """Two columns: what, and how much."""
    table = figures_table(left=("what",), right=("value",))
    table.show_header = False
    table.columns[1].overflow = "fold"
    for key, value in pairs:
        table.add_row(Text(printable(key)), Text(printable(_value(value))))
    return [title(printable(heading)), table]


def axes(configuration: Mapping[str, Any]) -> tuple[str, ...]:
    """The knobs as cells, in the order of AXES."""
    window, threshold = configuration["message_range"], configuration["threshold"]
    return (
        str(configuration["top_k"]),
        f"{window['before']}/{window['after']}",
        configuration["scope"],
        "off" if threshold is None else f"{threshold:g}",
        str(configuration["last_messages"]),
    )


def knobs(configuration: Mapping[str, Any]) -> str:
    """The knobs in a line."""
    top_k, window, scope, threshold, last = axes(configuration)
    history = "" if last == "0" else f", last {last} messages"
    return f"top_k {top_k}, range {window}, {scope} scope, threshold {threshold}{history}"


def figure(value: float | None) -> str:
    """Three decimals under 10, one under 1,000, none above; a dash for null."""
    if value is None:
        return "–"
    if abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def _is_control(char: str) -> bool:
    # The zero-width joiner holds emoji and Persian together and hides nothing.
    return unicodedata.category(char).startswith("C") and char not in "\u200c\u200d"


def _value(value: Any) -> str:
    if value is None or isinstance(value, float):
        return figure(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
