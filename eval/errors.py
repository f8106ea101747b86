"""Errors of the harness; they hang under the engine's tree (`recall/errors.py`).

InputError
├── CollectionError   a collection or a foreign file that cannot be used; lists every fault
├── ConfigError       an unknown key, a wrong type, a config that does not exist
├── UsageError        a command line that cannot be read
└── OutputError       a folder or file that cannot be written
"""

from collections.abc import Sequence

from recall.errors import InputError

SHOWN_FAULTS = 20


class CollectionError(InputError):
    """A collection or a foreign file cannot be used.

    Attributes:
        faults: Every fault found, one sentence each.
    """

    def __init__(self, what: str, faults: Sequence[str]) -> None:
        """Name the collection, then list its faults (the first 20 in the text, all as an attribute)."""
        self.faults = tuple(faults)
        if len(faults) == 1:
            super().__init__(f"{what}: {faults[0]}")
            return
        shown = [f"  - {fault}" for fault in faults[:SHOWN_FAULTS]]
        if len(faults) > SHOWN_FAULTS:
            shown.append(f"  - and {len(faults) - SHOWN_FAULTS} more")
        super().__init__(f"{what} has {len(faults)} faults:\n" + "\n".join(shown))


class ConfigError(InputError):
    """A setting is unknown, of the wrong type, or names a config that does not exist."""


class UsageError(InputError):
    """A command line cannot be read: an unknown command or flag, or a missing argument."""


class OutputError(InputError):
    """A folder or file cannot be written."""
