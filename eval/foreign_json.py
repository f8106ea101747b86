"""Reading another project's JSON file: every problem found at once, each with its path in the file.

A loader walks the file through `Node`s. A value of the wrong shape records a fault and reads as an empty one, so
that the walk goes on; the loader raises in the end if there are faults.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.errors import CollectionError
from eval.wording import quoted


@dataclass(frozen=True)
class Node:
    """One value of a JSON file.

    Attributes:
        value: As parsed; None where it is null or missing.
        path: Where it is, such as [3].conversation.session_2[0].text; empty for the whole file.
        faults: Shared by every node of the file; grows as the file is walked.
        is_there: False where the object has no such key.
    """

    value: Any
    path: str
    faults: list[str]
    is_there: bool = True

    def fault(self, problem: str) -> None:
        """Record what is wrong with this value; the sentence begins with its path."""
        self.faults.append(f"{self.path or 'the file'} {problem}")

    def unexpected(self, expected: str) -> None:
        """Record that this value should have been something else."""
        self.fault(f"is {_shown(self.value) if self.is_there else 'missing'}, expected {expected}")

    def get(self, key: str) -> "Node":
        """The value of a key of an object; a missing one where there is no such key."""
        members = self.value if isinstance(self.value, dict) else {}
        path = f"{self.path}.{key}" if self.path else key
        return Node(members.get(key), path, self.faults, key in members)

    def is_object(self) -> bool:
        """True for an object; anything else is a fault."""
        if not isinstance(self.value, dict):
            self.unexpected("an object")
        return isinstance(self.value, dict)

    def elements(self) -> Iterator["Node"]:
        """The elements of a list; anything else is a fault and has none."""
        if not isinstance(self.value, list):
            self.unexpected("a list")
            return
        for number, value in enumerate(self.value):
            yield Node(value, f"{self.path}[{number}]", self.faults)

    def objects(self) -> Iterator["Node"]:
        """The objects in a list; every other element is a fault."""
        return (node for node in self.elements() if node.is_object())

    def text(self) -> str:
        """The text, exactly; anything else, or half of a surrogate pair, is a fault and reads as empty."""
        if not isinstance(self.value, str):
            self.unexpected("a text")
            return ""
        for place, character in enumerate(self.value):
            # UTF-8 has no bytes for it; JSON's \\ud83d without its other half produces it.
            if "\ud800" <= character <= "\udfff":
                self.fault(f"has half a surrogate pair at character {place}, such as a cut emoji; remove or replace it")
                return ""
        return self.value

    def name(self) -> str:
        """A text that is not blank; a blank one is a fault."""
        text = self.text()
        if isinstance(self.value, str) and not self.value.strip():
            self.unexpected("a text that is not blank")
        return text

    def whole_number(self) -> int:
        """The whole number; anything else is a fault and reads as 0."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.unexpected("a whole number")
            return 0
        return self.value


def read_json(path: Path) -> Node:
    """The root node of a JSON file in UTF-8.

    Raises:
        CollectionError: There is no such file, it is a folder, or it is not one whole JSON document.
    """
    try:
        content = path.read_bytes()
    # ValueError: a NUL character in the path.
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(path, f"cannot be read: {reason}; expected the path of a JSON file") from error
    try:
        return Node(json.loads(content.decode("utf-8-sig"), parse_constant=_refuse_constant), "", [])
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text (byte {error.start} of {len(content)}), expected JSON; is it compressed?"
        raise _unreadable(path, problem) from error
    except json.JSONDecodeError as error:
        raise _unreadable(path, _syntax_problem(error)) from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, f"is not usable JSON: {str(error).rstrip('.')}") from error


def _syntax_problem(error: json.JSONDecodeError) -> str:
    if not error.doc.strip():
        return "is empty, expected JSON"
    place = f"line {error.lineno}, column {error.colno}"
    # A cut document ends inside a text or where a value or a separator is due.
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"ends too early ({error.msg} at {place}); it was cut off, fetch it again"
    return f"is not JSON: {error.msg} at {place}"


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON value")


def _unreadable(path: Path, problem: str) -> CollectionError:
    return CollectionError(f"file {str(path)!r}", [problem])


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    return quoted(value) if isinstance(value, str) else json.dumps(value)
