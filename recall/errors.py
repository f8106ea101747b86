"""Everything this project raises on purpose.

RecallError
├── InputError            what the caller gave is wrong (also a ValueError)
│   ├── OptionsError      a recall option outside what is allowed
│   ├── MessageError      a message or a request context that cannot be used
│   └── VectorError       a vector of the wrong shape, with NaN, or all zero
├── IdentityError         an index or a cache that another embedder made
├── MissingDependencyError  an optional package is not installed (also an ImportError)
├── EmbedderError         the embedder failed
│   └── ModelError        its model cannot be loaded, or its weights are not the published ones
├── IndexingError         some messages could not be indexed; the others were
└── StoreError            the store could not read or write

Messages say what, got, expected, what to do. They never name an id of another resource.
"""

from collections.abc import Mapping


class RecallError(Exception):
    """Root of every error this project raises on purpose."""


class InputError(RecallError, ValueError):
    """Something the caller gave is wrong, and the message says what would be right."""


class OptionsError(InputError):
    """A recall option is outside what is allowed.

    Attributes:
        field: Name of the option, dotted where it is nested.
        value: What was given.
        allowed: What would be right, in words.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        """Build the sentence from the option's name, the value given and what is allowed."""
        super().__init__(f"{field} is {value!r}, expected {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


class MessageError(InputError):
    """A message or a request context cannot be used as given."""


class VectorError(InputError):
    """A vector has the wrong shape, holds NaN or infinity, or is all zero."""


class IdentityError(RecallError):
    """An index or a cache belongs to another embedder than the one in use."""


class MissingDependencyError(RecallError, ImportError):
    """An optional package is not installed; the message has the line that installs it."""


class EmbedderError(RecallError):
    """The embedder failed on some text."""


class ModelError(EmbedderError):
    """The embedder's model cannot be loaded or is not what was published, so every text would fail."""


class IndexingError(RecallError):
    """Some messages could not be indexed; the others were stored and indexed.

    Attributes:
        failures: message_id to the reason, for a retry.
    """

    def __init__(
        self, failures: Mapping[str, str], advice: str = "the others are; ingest these again to retry"
    ) -> None:
        """Keep every failure, name the first, and say what to do."""
        first_id, reason = next(iter(failures.items()))
        super().__init__(f"{len(failures)} message(s) not indexed; first {first_id!r}: {reason}; {advice}")
        self.failures = dict(failures)


class StoreError(RecallError):
    """The message store could not read or write."""
