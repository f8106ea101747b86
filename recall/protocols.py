"""The four seams of the engine. An implementation is one module and one YAML."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from recall.schema import Message, Ranking, SearchScope, Vector, Vectors

EmbedKind = Literal["query", "passage"]


class TimedVector(NamedTuple):
    """One query vector and the milliseconds the model took for it.

    A cache returns the time that was recorded when the model ran, not the time of its own look-up;
    None where no such time is known.
    """

    vector: Vector
    ms: float | None


class Embedder(Protocol):
    """Turns text into unit vectors. Loads its weights at the first call that needs them."""

    def identity(self, kind: EmbedKind) -> str:
        """Everything a vector depends on besides the text: weights, backend, precision, prompt.

        Equal for both kinds where the model makes no difference. Never loads the weights.
        """
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """(len(texts), dim) float32 unit rows, in the order given.

        Raises:
            EmbedderError: The model failed or produced NaN or a zero vector.
        """
        ...

    def embed_query(self, text: str) -> TimedVector:
        """The vector of one query, embedded alone, and what that took."""
        ...


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What an index must know of a message besides its vector, to scope and to break ties."""

    message_id: str
    resource_id: str
    thread_id: str
    created_at: datetime
    position: int


class VectorIndex(Protocol):
    """Nearest messages inside a scope. Distances stay inside; everything outside sees scores."""

    def add(self, entries: Sequence[IndexEntry], vectors: Vectors) -> None:
        """Add rows; a message_id that is there already is replaced.

        Raises:
            VectorError: Wrong shape or dimension, NaN, infinity or a zero row; nothing is added.
        """
        ...

    def remove(self, message_ids: Sequence[str]) -> None:
        """Forget these messages; unknown ids are ignored."""
        ...

    def search(
        self, query: Vector, scope: SearchScope, depth: int, *, before: datetime | None = None, exact: bool = False
    ) -> Ranking:
        """The best `depth` messages of the scope, fewer where there are fewer.

        Args:
            query: Shape (dim,), float32, unit length.
            scope: Nothing outside it is ever returned.
            depth: 1 or more.
            before: Only messages created strictly earlier are seen.
            exact: Scan every row in scope whatever structure there is.
        """
        ...

    def __len__(self) -> int:
        """Rows held."""
        ...


class MessageStore(Protocol):
    """Keeps messages and their order. Every method raises StoreError where it cannot read or write."""

    def add(self, messages: Sequence[Message]) -> list[Message]:
        """Store messages (same id replaces) and return them with their positions.

        Raises:
            MessageError: An id is held by another resource or thread.
        """
        ...

    def get(self, message_ids: Sequence[str]) -> dict[str, Message]:
        """Stored messages by id; unknown ids are absent."""
        ...

    def span(self, scope: SearchScope, start: int, stop: int) -> list[Message]:
        """Messages of one thread at positions start <= p < stop, in order; clipped to the thread.

        `scope.thread_id` names the thread. A thread of another resource has no messages here.
        Negative ends count from the end of the thread, as in a slice.
        """
        ...

    def remove(self, message_ids: Sequence[str]) -> None:
        """Delete messages; unknown ids are ignored; later positions of the thread close up."""
        ...

    def __len__(self) -> int:
        """Messages held."""
        ...


class EncodedQuery(NamedTuple):
    """A query in the form its retriever ranks with, and the milliseconds that took (see TimedVector)."""

    value: Any
    ms: float | None


class Retriever(Protocol):
    """Ranks the messages of a scope for a query. What it ranks never depends on `top_k`."""

    @property
    def score_range(self) -> tuple[float, float]:
        """Smallest and largest possible score; (inf, -inf) where scores have no absolute scale."""
        ...

    def index(self, messages: Sequence[Message]) -> None:
        """Make stored messages retrievable; a message that is there already is replaced.

        Messages whose text is blank are left out: they have nothing to find.

        Raises:
            IndexingError: Some messages failed; the others are indexed.
        """
        ...

    def remove(self, message_ids: Sequence[str]) -> None:
        """Forget these messages; unknown ids are ignored."""
        ...

    def encode(self, text: str) -> EncodedQuery:
        """The query in this retriever's own form; independent of scope and depth."""
        ...

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """The best `depth` messages of the scope. `exact` forgoes any approximate structure."""
        ...
