"""Which threads a recall may search, by what the application knows of them."""

from collections.abc import Mapping
from typing import Any

from recall.errors import OptionsError
from recall.schema import Thread

OPERATORS = ("$eq", "$ne", "$in")


class ThreadFilter:
    """Conditions on a thread's metadata, all of which must hold.

    A condition is a value that must be equal, or one operator with its value: `{"$eq": v}`, `{"$ne": v}` or
    `{"$in": [...]}`. A thread without the name equals nothing. True and 1 are different values, as in JSON.
    """

    def __init__(self, conditions: Mapping[str, Any]) -> None:
        """Validate the conditions.

        Raises:
            OptionsError: An operator that does not exist, or "$in" without a list.
        """
        if not isinstance(conditions, Mapping):
            raise OptionsError("where", conditions, "a mapping of metadata names to values")
        self._conditions = {name: _condition(name, value) for name, value in conditions.items()}

    def admits(self, thread: Thread) -> bool:
        """True where the thread's metadata meets every condition."""
        return all(
            _holds(operator, wanted, name in thread.metadata, thread.metadata.get(name))
            for name, (operator, wanted) in self._conditions.items()
        )


def _condition(name: object, value: Any) -> tuple[str, Any]:
    if not isinstance(name, str):
        raise OptionsError("where", name, "names of metadata as text")
    if not isinstance(value, Mapping):
        return "$eq", value
    if len(value) != 1 or next(iter(value)) not in OPERATORS:
        raise OptionsError(f"where.{name}", dict(value), f"a value, or one of {', '.join(OPERATORS)} with its value")
    operator, wanted = next(iter(value.items()))
    if operator == "$in" and not isinstance(wanted, list | tuple):
        raise OptionsError(f"where.{name}.$in", wanted, "a list of values")
    return operator, wanted


def _holds(operator: str, wanted: Any, is_known: bool, value: Any) -> bool:
    if operator == "$in":
        return is_known and any(_equal(value, one) for one in wanted)
    is_equal = is_known and _equal(value, wanted)
    return is_equal if operator == "$eq" else not is_equal


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
