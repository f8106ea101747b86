"""Ranks messages by the cosine of their embedding with the query's."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from recall.errors import EmbedderError, ModelError, VectorError
from recall.protocols import Changes, Embedded, Embedder, EncodedQuery, IndexEntry, VectorIndex, VectorSpace
from recall.schema import Message, Ranking, SearchScope, Vector
from recall.template import TextTemplate

OPPOSITE = -1.0
"""The score of an exact opposite, which is no neighbour: the reference's vector store leaves it out, and so do we."""


class DenseRetriever:
    """An embedder and a vector index; messages are embedded through a text template, queries as they are."""

    score_range = (OPPOSITE, 1.0)

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

    @property
    def space(self) -> VectorSpace:
        """The embedder and the template."""
        made_by = {
            "embedder": self._embedder.identity("passage"),
            "template": [self._template.named, self._template.bare],
        }
        return VectorSpace(self._embedder.model_id, json.dumps(made_by, ensure_ascii=False, sort_keys=True))

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """The vectors of messages; one without text has none, one of blanks has its own, as in the reference.

        Where the batch fails, messages are tried one by one.

        Raises:
            ModelError: The embedder's model cannot be loaded.
        """
        speaking = [message for message in messages if message.text]
        try:
            return Embedded(self._vectors(speaking))
        except ModelError:  # no message would fare better alone
            raise
        except (EmbedderError, VectorError):
            return self._embed_apart(speaking)

    def follow(self, changes: Changes) -> None:
        """Take over a store's changes: rows of messages that have a vector, none of the others."""
        found = {message.message_id: (message, vector, where) for message, vector, where in changes.changed}
        silent = [message_id for message_id, (_, vector, _) in found.items() if vector is None]
        self._index.remove([*changes.removed, *silent])
        entries, vectors = [], []
        for message, vector, searched_in in found.values():
            if vector is not None:
                entries.append(_entry(message, searched_in))
                vectors.append(vector)
        if entries:
            self._index.add(entries, np.stack(vectors))

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
        """The best `depth` messages of the scope, exact opposites left out; `exact` forgoes any graph."""
        ranking = self._index.search(query.value, scope, depth, before=before, exact=exact)
        near = int(np.count_nonzero(ranking.scores > OPPOSITE))
        if near == len(ranking.message_ids):
            return ranking
        return replace(ranking, message_ids=ranking.message_ids[:near], scores=ranking.scores[:near])

    def _vectors(self, messages: Sequence[Message]) -> dict[str, Vector]:
        if not messages:
            return {}
        rows = self._embedder.embed_passages([self._template.render(message) for message in messages])
        if rows.ndim != 2 or len(rows) != len(messages):
            raise VectorError(f"embedder gave shape {rows.shape}, expected ({len(messages)}, dim), a row for each text")
        if not (np.isfinite(rows).all() and rows.any(axis=1).all()):
            raise VectorError("embedder gave NaN, infinity or only zeros, expected finite rows of unit length")
        return {message.message_id: row for message, row in zip(messages, rows, strict=True)}

    def _embed_apart(self, messages: Sequence[Message]) -> Embedded:
        vectors: dict[str, Vector] = {}
        failures: dict[str, str] = {}
        for message in messages:
            try:
                vectors.update(self._vectors([message]))
            except (EmbedderError, VectorError) as error:
                failures[message.message_id] = str(error)
        return Embedded(vectors, failures)


def _entry(message: Message, searched_in: str) -> IndexEntry:
    return IndexEntry(message.message_id, message.resource_id, searched_in, message.created_at, message.position)
