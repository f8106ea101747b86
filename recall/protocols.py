"""The four seams of the engine: embedder, index, store, retriever. An implementation is one module and one YAML."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from recall.schema import Message, Ranking, SearchScope, Thread, Vector, Vectors

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

    @property
    def model_id(self) -> str:
        """The model's name, for people and for the name of an index; "" where it has none."""
        ...

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
    """What an index must know of a message besides its vector, to scope and to break ties.

    `thread_id` is the thread the message is searched as part of: that of the turn that brought it.
    """

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

    @property
    def nbytes(self) -> int:
        """Memory of the vectors and of what was built over them."""
        ...

    def __len__(self) -> int:
        """Rows held."""
        ...


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """What vectors mean: only vectors of one space may be compared.

    Attributes:
        model_id: The embedder's model, by name.
        identity: Everything a passage's vector depends on besides the message: the embedder and the template.
    """

    model_id: str
    identity: str


@dataclass(frozen=True, slots=True)
class IndexKey:
    """A named index of a store, and the space its vectors must be of."""

    name: str
    space: VectorSpace


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """What a store holds under the name of an index."""

    key: IndexKey
    dim: int
    rows: int


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors that are stored with messages, for one index.

    Attributes:
        index: Which index they belong to.
        vectors: message_id to a unit vector, all of one dimension.
        thread_id: The thread they are searched as part of; None is each message's own.
    """

    index: IndexKey
    vectors: Mapping[str, Vector]
    thread_id: str | None = None


class ChangedMessage(NamedTuple):
    """A message that is new, edited or moved.

    Attributes:
        message: As it is now.
        vector: Its vector in the index asked for; None where it has none, and must not be found.
        searched_in: The thread it is searched as part of.
    """

    message: Message
    vector: Vector | None
    searched_in: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to one resource since a revision.

    Attributes:
        revision: Ask for what happened since this one next time.
        changed: One entry per message, in no order.
        removed: Ids of messages that are gone.
    """

    revision: int
    changed: Sequence[ChangedMessage] = ()
    removed: Sequence[str] = ()


class MessageReader(Protocol):
    """Stored messages and their order. Every method of a store raises StoreError where it cannot read or write."""

    def get(self, message_ids: Sequence[str]) -> dict[str, Message]:
        """Stored messages by id; unknown ids are absent."""
        ...

    def span(self, scope: SearchScope, start: int, stop: int) -> list[Message]:
        """Messages of one thread at positions start <= p < stop, in order; clipped to the thread.

        `scope.thread_id` names the thread. A thread of another resource has no messages here.
        Negative ends count from the end of the thread, as in a slice.
        """
        ...

    def __len__(self) -> int:
        """Messages held."""
        ...


class MessageStore(MessageReader, Protocol):
    """Keeps messages. Every write is one transaction: all of it is stored, or nothing."""

    def add(self, messages: Sequence[Message], embeddings: Embeddings | None = None) -> list[Message]:
        """Store messages (same id replaces) with their vectors, and return them, in the order given, with positions.

        A message whose content (role, text, name, parts or time) differs from what is stored loses its vectors in every
        index, and then gets the one given; one that is the same keeps those it has. Threads that are new are made.

        Raises:
            MessageError: An id is held by another resource or thread; nothing is stored.
            IdentityError: The index holds vectors of another space or dimension; nothing is stored.
            OptionsError: The index has a name that cannot be used; nothing is stored.
        """
        ...

    def remove(self, message_ids: Sequence[str]) -> None:
        """Delete messages and their vectors; unknown ids are ignored; later positions of the thread close up."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """What this thread of execution reads inside is of one moment, whoever writes meanwhile; may be nested."""
        ...

    def close(self) -> None:
        """Let go of files; the next use opens them again."""
        ...


class ThreadDirectory(Protocol):
    """Keeps threads and what is known of them."""

    def threads(self, *, resource_id: str | None = None, thread_id: str | None = None) -> list[Thread]:
        """Threads with this owner, with this id, with both, or all of them; by (resource_id, thread_id)."""
        ...

    def put_thread(self, thread: Thread) -> None:
        """Make a thread, or replace its metadata.

        Raises:
            MessageError: Metadata that is not JSON.
        """
        ...

    def remove_thread(self, resource_id: str, thread_id: str) -> None:
        """Delete a thread with its messages and their vectors; an unknown one is ignored."""
        ...


class IndexSource(Protocol):
    """Keeps vectors by named index, and tells what changed, so that an index outside can follow."""

    def changes(self, resource_id: str, since: int, index: IndexKey | None) -> Changes:
        """What happened to a resource's messages after revision `since`; 0 is everything there is.

        Args:
            resource_id: Whose messages.
            since: The revision of the changes taken before.
            index: The index whose vectors are wanted; None for none.

        Raises:
            IdentityError: The index holds vectors of another space.
            OptionsError: The index has a name that cannot be used.
        """
        ...

    def embedded(self, index_name: str, message_ids: Sequence[str]) -> set[str]:
        """Which of these messages have a vector in an index."""
        ...

    def indexes(self) -> list[IndexInfo]:
        """The indexes that hold vectors, by name."""
        ...

    def drop_index(self, index_name: str) -> None:
        """Delete an index's vectors; the messages stay. An unknown name is ignored."""
        ...


class Store(MessageStore, ThreadDirectory, IndexSource, Protocol):
    """All that an engine keeps, in one place: the only source of truth."""


class EncodedQuery(NamedTuple):
    """A query in the form its retriever ranks with, and the milliseconds that took (see TimedVector)."""

    value: Any
    ms: float | None


@dataclass(frozen=True, slots=True)
class Embedded:
    """What a retriever wants kept with messages.

    Attributes:
        vectors: message_id to unit vector; a message without text, or that failed, has none.
        failures: message_id to the reason.
    """

    vectors: Mapping[str, Vector] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


class Retriever(Protocol):
    """Ranks the messages of a scope for a query. What it ranks never depends on `top_k`."""

    @property
    def score_range(self) -> tuple[float, float]:
        """Smallest and largest possible score; (inf, -inf) where scores have no absolute scale."""
        ...

    @property
    def space(self) -> VectorSpace | None:
        """The space of its vectors; None for a retriever that keeps none."""
        ...

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """What must be kept with messages to make them retrievable; a message that fails does not fail the others.

        Raises:
            ModelError: Nothing can be embedded at all.
        """
        ...

    def follow(self, changes: Changes) -> None:
        """Make the messages of a store retrievable as they are now; what is there already is replaced."""
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
