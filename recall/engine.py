"""The recall engine: keeps messages retrievable and answers a query with hits, windows and timings."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from time import perf_counter_ns

from recall.errors import MessageError, OptionsError
from recall.protocols import MessageStore, Retriever
from recall.options import MAX_TOP_K, RecallOptions
from recall.schema import Hit, Message, Ranking, RecallResult, RequestContext, SearchScope
from recall.scoring import display, passes
from recall.windows import build_context

NS_PER_MS = 1e6
THREAD_END = sys.maxsize
"""A stop that no thread reaches."""


class RecallEngine:
    """A retriever over a store, kept in step with each other.

    Positions break ties between messages of different threads, so whatever moves when a message arrives
    late, is edited or is removed is indexed again; with a cache of embeddings that embeds nothing.
    """

    def __init__(self, retriever: Retriever, store: MessageStore, *, depth: int = 1) -> None:
        """Join a retriever and a store that hold the same messages (or nothing yet).

        Args:
            retriever: Finds messages.
            store: Keeps them.
            depth: Hits fetched per query at least, of which `top_k` are used; 1 to 100,000. An approximate
                index finds other messages at other depths, so a saved run and an engine of one depth agree.

        Raises:
            OptionsError: `depth` is not such a number.
        """
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= MAX_TOP_K:
            raise OptionsError("depth", depth, f"an integer from 1 to {MAX_TOP_K}")
        self._retriever = retriever
        self._store = store
        self._depth = depth

    @property
    def score_range(self) -> tuple[float, float]:
        """The retriever's scale, which a threshold must lie on."""
        return self._retriever.score_range

    def ingest(self, messages: Sequence[Message]) -> None:
        """Store messages and make them retrievable; the same id again replaces.

        To retry what failed, ingest it again. An edited message that fails is not found by its old text.

        Raises:
            MessageError: An id is held by another resource or thread; nothing is stored.
            IndexingError: Some messages were stored but not indexed; the others were both.
        """
        if not messages:
            return
        known = self._store.get([message.message_id for message in messages])
        stored = {message.message_id: message for message in self._store.add(messages)}
        self._retriever.remove([message_id for message_id, old in known.items() if old != stored[message_id]])
        self._retriever.index([*stored.values(), *self._moved_by(stored, known)])

    def forget(self, message_ids: Sequence[str]) -> None:
        """Delete messages from the index and the store; unknown ids are ignored.

        Raises:
            IndexingError: A message that moved up could not be indexed again; all are deleted.
        """
        first_gone: dict[SearchScope, int] = {}
        for message in self._store.get(message_ids).values():
            thread = _thread_of(message)
            first_gone[thread] = min(message.position, first_gone.get(thread, message.position))
        # The index goes first: a message that is half deleted must not be found.
        self._retriever.remove(message_ids)
        self._store.remove(message_ids)
        moved = [
            message for thread, first in first_gone.items() for message in self._store.span(thread, first, THREAD_END)
        ]
        if moved:
            self._retriever.index(moved)

    def recall(
        self, text: str, options: RecallOptions, context: RequestContext, *, before: datetime | None = None
    ) -> RecallResult:
        """Hits above the threshold among the `top_k` best, and their windows.

        Empty where there is nothing to search: no text, no resource, or scope "thread" without a thread.
        A hit that the store no longer has is left out and its rank stays vacant.

        Args:
            text: The query, bare.
            options: The four knobs.
            context: Who asks, and in which thread.
            before: Only messages created strictly earlier are seen, as hits and as neighbours.

        Raises:
            OptionsError: The threshold is outside the retriever's `score_range`.
            MessageError: `before` is a naive time.
        """
        options.check_threshold(self.score_range)
        if before is not None and before.tzinfo is None:
            raise MessageError(f"before is {before!r}, expected an aware time; use datetime.astimezone(datetime.UTC)")
        scope = _scope_of(options, context)
        if scope is None or not text:
            return RecallResult(text)
        return self._search(text, options, scope=scope, before=before)

    def _search(
        self, text: str, options: RecallOptions, *, scope: SearchScope, before: datetime | None
    ) -> RecallResult:
        started = perf_counter_ns()
        query = self._retriever.encode(text)
        encoded = perf_counter_ns()
        ranking = self._retriever.rank(query, scope, max(self._depth, options.top_k), before=before)
        ranked = perf_counter_ns()
        hits = _hits_of(ranking, options)
        entries = build_context(hits, self._store, message_range=options.message_range, scope=scope, before=before)
        widened = perf_counter_ns()
        present = {entry.message.message_id for entry in entries}
        return RecallResult(
            query=text,
            hits=tuple(hit for hit in hits if hit.message_id in present),
            context=entries,
            timings_ms={
                "embed": (encoded - started) / NS_PER_MS if query.ms is None else query.ms,
                "search": (ranked - encoded) / NS_PER_MS,
                "window": (widened - ranked) / NS_PER_MS,
            },
            searched_by=ranking.searched_by,
        )

    def _moved_by(self, stored: Mapping[str, Message], known: Mapping[str, Message]) -> list[Message]:
        """Messages outside the batch whose position the batch may have changed.

        Args:
            stored: The batch, as stored.
            known: What the store had under the batch's ids before.
        """
        reach: dict[SearchScope, tuple[int, int]] = {}
        for message in stored.values():
            old = known.get(message.message_id)
            # A new message pushes all that follow; an edited one only those it passes.
            last = THREAD_END if old is None else max(old.position, message.position) + 1
            first = message.position if old is None else min(old.position, message.position)
            if last - first == 1:
                continue
            thread = _thread_of(message)
            low, high = reach.get(thread, (first, last))
            reach[thread] = min(low, first), max(high, last)
        return [
            message
            for thread, (first, last) in reach.items()
            for message in self._store.span(thread, first, last)
            if message.message_id not in stored
        ]


def _thread_of(message: Message) -> SearchScope:
    return SearchScope(message.resource_id, message.thread_id)


def _scope_of(options: RecallOptions, context: RequestContext) -> SearchScope | None:
    if not context.resource_id:
        return None
    if options.scope == "resource":
        return SearchScope(context.resource_id)
    return SearchScope(context.resource_id, context.thread_id) if context.thread_id else None


def _hits_of(ranking: Ranking, options: RecallOptions) -> list[Hit]:
    # Scores never increase, so what passes is a prefix.
    kept = int(passes(ranking.scores[: options.top_k], options.threshold).sum())
    best = zip(ranking.message_ids[:kept], ranking.scores[:kept], strict=True)
    return [Hit(message_id, display(score), rank) for rank, (message_id, score) in enumerate(best, start=1)]
