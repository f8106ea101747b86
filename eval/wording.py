"""How counts, ids and other foreign text are shown inside a sentence."""

from collections.abc import Iterable, Sequence

LONGEST = 60
"""Characters of one value that are shown."""
SHOWN = 3
"""Values of a list that are shown."""


def quoted(text: str, *, longest: int = LONGEST) -> str:
    """The text in quotes on one line, control and direction characters escaped, cut after `longest` characters."""
    return repr(text if len(text) <= longest else text[:longest] + "…")


def key_text(key: Sequence[str | None]) -> str:
    """One id quoted, or several as in ('q1', 'm1'); a missing id is null."""
    shown = ["null" if value is None else quoted(value) for value in key]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def tally(count: int, noun: str, shown: Iterable[str], total: int | None = None) -> str:
    """A count and its first examples, as in 5 rows: 'a', 'b', 'c' and 2 more.

    Args:
        count: How many there are.
        noun: In the singular.
        shown: Examples, ready to be printed; the first three are.
        total: How many examples there could be, where that is not `count`.
    """
    examples = list(shown)[:SHOWN]
    more = (count if total is None else total) - len(examples)
    rest = f" and {more} more" if more > 0 else ""
    return f"{counted(count, noun)}: {', '.join(examples)}{rest}"


def counted(count: int, noun: str) -> str:
    """The count with its noun, in the plural where it is not 1."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"
