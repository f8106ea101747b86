"""Ranks messages by the cosine of their embedding with the query's."""

from collections.abc import Sequence
from datetime import datetime

from recall.errors import EmbedderError, IndexingError, ModelError, VectorError
from recall.protocols import Embedder, EncodedQuery, IndexEntry, VectorIndex
from recall.schema import Message, Ranking, SearchScope
from recall.template import TextTemplate


class DenseRetriever:
    """An embedder and a vector index; messages are embedded through a text template, queries as they are."""

    score_range = (-1.0, 1.0)

    def __init__(
        self, embedder: Embedder, index: VectorIndex, *, named: str = "{name}: {text}", bare: str = "{text}"
    ) -> None:
        """Join the two parts.

        Args:
            embedder: Gives unit vectors.
            index: Holds them.
            named: What is embedded for a message with a name, over name, text, role and date.
            bare: What is embedded for the others, over text, role and date.

        Raises:
            OptionsError: A template that cannot be used.
        """
        self._embedder = embedder
        self._index = index
        self._template = TextTemplate(named, bare)

    def index(self, messages: Sequence[Message]) -> None:
        """Embed and index messages; the same id is replaced, a blank text is left out and takes the old row with it.

        Where the batch fails, messages are tried one by one, and those that fail have no row afterwards.

        Raises:
            IndexingError: Some messages failed; the others are indexed.
            ModelError: The embedder's model cannot be loaded; none is indexed.
        """
        speaking = [message for message in messages if message.text.strip()]
        self._index.remove([message.message_id for message in messages if not message.text.strip()])
        if not speaking:
            return
        try:
            self._index_together(speaking)
        except ModelError:  # no message would fare better alone
            raise
        except (EmbedderError, VectorError):
            self._index_apart(speaking)

    def remove(self, message_ids: Sequence[str]) -> None:
        """Forget these messages; unknown ids are ignored."""
        self._index.remove(message_ids)

    def encode(self, text: str) -> EncodedQuery:
        """The bare query's vector, and the milliseconds the model took for it.

        Raises:
            EmbedderError: The embedder failed.
        """
        return EncodedQuery(*self._embedder.embed_query(text))

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """The best `depth` messages of the scope; `exact` forgoes any graph."""
        return self._index.search(query.value, scope, depth, before=before, exact=exact)

    def _index_together(self, messages: Sequence[Message]) -> None:
        vectors = self._embedder.embed_passages([self._template.render(message) for message in messages])
        self._index.add([_entry(message) for message in messages], vectors)

    def _index_apart(self, messages: Sequence[Message]) -> None:
        failures: dict[str, str] = {}
        for message in messages:
            try:
                self._index_together([message])
            except (EmbedderError, VectorError) as error:
                failures[message.message_id] = str(error)
        # What is held for them is an older text's.
        self._index.remove(list(failures))
        if failures:
            raise IndexingError(failures)


def _entry(message: Message) -> IndexEntry:
    return IndexEntry(message.message_id, message.resource_id, message.thread_id, message.created_at, message.position)
