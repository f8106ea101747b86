"""Ranks messages by BM25: words they share with the query, rare ones first."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.errors import OptionsError
from recall.protocols import ChangedMessage, Changes, Embedded, EncodedQuery
from recall.rows import microseconds
from recall.schema import Message, Ranking, SearchScope
from recall.scoring import best_first, rounded
from recall.template import TextTemplate
from recall.words import Words

NOTHING = Ranking((), np.empty(0, dtype=np.float32))


class Bm25Retriever:
    """Lucene's BM25 (bm25s). Statistics are those of the whole resource, whatever the scope; no shared word, no hit.

    Korean, Japanese and Chinese are compared by pairs of letters, other scripts by words, English ones by their stems.
    """

    score_range = (0.0, inf)
    space = None

    def __init__(
        self,
        *,
        k1: float = 1.2,
        b: float = 0.75,
        stem: bool = True,
        stopwords: bool = True,
        named: str = "{name}: {text}",
        bare: str = "{text}",
    ) -> None:
        """Choose the formula's constants and the text.

        Args:
            k1: How soon repetition of a word stops counting, 0 or more.
            b: How much long messages are marked down, 0 to 1.
            stem: Compare English words by their stems.
            stopwords: Leave out the commonest English words.
            named: What is searched of a message with a name, over name, text, role and date.
            bare: What is searched of the others, over text, role and date.

        Raises:
            OptionsError: A constant out of range, or a template that cannot be used.
        """
        if not 0 <= k1 < inf:
            raise OptionsError("k1", k1, "a finite number of 0 or more")
        if not 0 <= b <= 1:
            raise OptionsError("b", b, "a number from 0 to 1")
        self._constants = {"k1": k1, "b": b}
        self._words = Words(stem=stem, stopwords=stopwords)
        self._template = TextTemplate(named, bare)
        self._resource_of: dict[str, str] = {}
        self._corpora: dict[str, dict[str, ChangedMessage]] = {}
        self._indexes: dict[str, _Index] = {}
        self._lock = threading.RLock()

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """Nothing has to be kept with messages."""
        return Embedded()

    def follow(self, changes: Changes) -> None:
        """Take over a store's changes."""
        with self._lock:
            for message_id in changes.removed:
                self._forget(message_id)
            for entry in changes.changed:
                message = entry.message
                self._forget(message.message_id)
                self._resource_of[message.message_id] = message.resource_id
                self._corpora.setdefault(message.resource_id, {})[message.message_id] = entry
                self._indexes.pop(message.resource_id, None)

    def encode(self, text: str) -> EncodedQuery:
        """The query's words."""
        return EncodedQuery(self._words.of(text), None)

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """The best `depth` messages of the scope that share a word with the query."""
        with self._lock:
            index = self._index(scope.resource_id)
        return NOTHING if index is None else index.rank(query.value, scope, depth, before)

    def _forget(self, message_id: str) -> None:
        resource_id = self._resource_of.pop(message_id, None)
        if resource_id is not None:
            del self._corpora[resource_id][message_id]
            self._indexes.pop(resource_id, None)

    def _index(self, resource_id: str) -> "_Index | None":
        entries = self._corpora.get(resource_id)
        if not entries:
            return None
        if resource_id not in self._indexes:
            words = [self._words.of(self._template.render(entry.message)) for entry in entries.values()]
            self._indexes[resource_id] = _Index(list(entries.values()), words, self._constants)
        return self._indexes[resource_id]


@dataclass(frozen=True)
class _Index:
    """The messages of one resource at one moment."""

    entries: Sequence[ChangedMessage]
    words: Sequence[list[str]]
    constants: dict[str, float]
    vocabulary: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vocabulary", frozenset().union(*self.words))

    @cached_property
    def _scorer(self) -> Any:
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # its import has it tell of every step
        scorer = bm25s.BM25(method="lucene", dtype="float64", **self.constants)
        scorer.index(list(self.words), show_progress=False, create_empty_token=False)
        return scorer

    @cached_property
    def _created(self) -> npt.NDArray[np.int64]:
        return np.array([microseconds(entry.message.created_at) for entry in self.entries], dtype=np.int64)

    @cached_property
    def _tie_order(self) -> npt.NDArray[np.int64]:
        def key(number: int) -> tuple[datetime, int, str]:
            message = self.entries[number].message
            return message.created_at, message.position, message.message_id

        places = np.empty(len(self.entries), dtype=np.int64)
        places[sorted(range(len(self.entries)), key=key)] = np.arange(len(self.entries))
        return places

    def rank(self, query: list[str], scope: SearchScope, depth: int, before: datetime | None) -> Ranking:
        known = [word for word in query if word in self.vocabulary]
        if not known:
            return NOTHING
        scores = rounded(np.asarray(self._scorer.get_scores(known), dtype=np.float64))
        found = np.flatnonzero(scores > 0)
        if before is not None:
            found = found[self._created[found] < microseconds(before)]
        if scope.thread_id is not None or scope.thread_ids is not None:
            inside = [scope.admits(scope.resource_id, self.entries[row].searched_in) for row in found.tolist()]
            found = found[np.array(inside, dtype=np.bool_)] if inside else found
        best = found[best_first(scores[found], self._tie_order[found])][:depth]
        return Ranking(tuple(self.entries[row].message.message_id for row in best.tolist()), scores[best])
