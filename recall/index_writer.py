"""The write path: messages are embedded, then stored with their vectors as one transaction."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from recall.errors import IdentityError, IndexingError, ModelError, OptionsError
from recall.index_name import index_name_of
from recall.protocols import Embedded, Embeddings, IndexInfo, IndexKey, Retriever, Store
from recall.schema import Message, SearchScope
from recall.tracing import span

REINDEX_CHUNK = 256
"""Messages embedded and stored at once by `reindex`: an interruption loses fewer than these."""

Progress = Callable[[int, int], None]


class IndexWriter:
    """Puts messages and what a retriever wants kept with them into a store."""

    def __init__(self, retriever: Retriever, store: Store, index_name: str | None) -> None:
        """Write into the index of this name; None names it after the retriever's model."""
        self._retriever = retriever
        self._store = store
        self._index_name = index_name
        self._dim: int | None = None

    @property
    def index(self) -> IndexKey | None:
        """Where vectors are kept; None for a retriever that has none."""
        space = self._retriever.space
        if space is None:
            return None
        return IndexKey(index_name_of(space.model_id) if self._index_name is None else self._index_name, space)

    def ingest(self, messages: Sequence[Message], *, thread_id: str | None = None) -> None:
        """Embed what is new or changed and store all; see `RecallEngine.ingest`."""
        if not messages:
            return
        with span("recall.ingest") as told:
            told.set_attribute("recall.messages", len(messages))
            index = self.index
            if index is None:
                self._store.add(messages)
                return
            fresh = self._to_embed(messages, index)
            try:
                embedded = self._of_one_dim(self._retriever.embed(fresh), index)
                self._store.add(messages, Embeddings(index, embedded.vectors, thread_id))
            except (ModelError, IdentityError, OptionsError):
                # What was said is kept, whatever becomes of its vectors.
                self._store.add(messages)
                raise
            told.set_attribute("recall.embedded", len(embedded.vectors))
            if embedded.failures:
                raise IndexingError(embedded.failures)

    def reindex(self, progress: Progress | None = None) -> int:
        """Embed every stored message that has no vector in this engine's index, and give their number.

        An index of that name that another embedder built is dropped first.

        Args:
            progress: Told (done, total) in messages.

        Raises:
            IndexingError: Some messages failed; the others are indexed.
        """
        index = self.index
        if index is None:
            return 0
        held = self._held(index)
        if held is not None and held.key != index:
            self._store.drop_index(index.name)
            self._dim = None
        embedded, done, total = 0, 0, len(self._store)
        failures: dict[str, str] = {}
        for chunk in self._stored_chunks():
            missing = self._to_embed(chunk, index)
            made = self._of_one_dim(self._retriever.embed(missing), index)
            self._store.add(missing, Embeddings(index, made.vectors))
            embedded += len(made.vectors)
            failures.update(made.failures)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
        if failures:
            raise IndexingError(failures)
        return embedded

    def _to_embed(self, messages: Sequence[Message], index: IndexKey) -> list[Message]:
        """Those that are new, whose content changed, or that have no vector yet; of a repeated id the last."""
        latest = {message.message_id: message for message in messages}
        known = self._store.get(list(latest))
        unchanged = [i for i, message in latest.items() if i in known and _content(known[i]) == _content(message)]
        settled = self._store.embedded(index.name, unchanged)
        return [message for message_id, message in latest.items() if message_id not in settled]

    def _of_one_dim(self, embedded: Embedded, index: IndexKey) -> Embedded:
        """What fits the index; a vector of another length than the others is a failure of its message."""
        if not embedded.vectors:
            return embedded
        if self._dim is None:
            held = self._held(index)
            if held is not None and held.key.space != index.space:
                return embedded  # the store refuses them all, and says why
            self._dim = next(iter(embedded.vectors.values())).size if held is None else held.dim
        odd = {message_id: vector.size for message_id, vector in embedded.vectors.items() if vector.size != self._dim}
        if not odd:
            return embedded
        reasons = {
            i: f"embedder gave dim {dim}, index {index.name!r} expects dim {self._dim}" for i, dim in odd.items()
        }
        fitting = {i: vector for i, vector in embedded.vectors.items() if i not in odd}
        return Embedded(fitting, {**embedded.failures, **reasons})

    def _held(self, index: IndexKey) -> IndexInfo | None:
        return next((held for held in self._store.indexes() if held.key.name == index.name), None)

    def _stored_chunks(self) -> Iterator[list[Message]]:
        for thread in self._store.threads():
            where = SearchScope(thread.resource_id, thread.thread_id)
            start = 0
            while chunk := self._store.span(where, start, start + REINDEX_CHUNK):
                yield chunk
                start += len(chunk)


def _content(message: Message) -> Message:
    return replace(message, position=0)
