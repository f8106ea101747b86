"""The recall engine: keeps messages retrievable and answers a query with hits, windows and timings."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from time import perf_counter_ns

from recall.errors import IdentityError, MessageError, OptionsError
from recall.index_writer import IndexWriter, Progress
from recall.options import MAX_TOP_K, RecallOptions
from recall.ownership import owner_of
from recall.protocols import EncodedQuery, IndexKey, Retriever, Store
from recall.schema import Hit, Message, Ranking, RecallResult, RequestContext, SearchScope
from recall.scoring import display, passes
from recall.thread_filter import ThreadFilter
from recall.tracing import span
from recall.windows import build_context

NS_PER_MS = 1e6


class RecallEngine:
    """A retriever over a store. The store is the truth, the retriever follows it before every search.

    So any number of engines, in any number of processes, may share one store: what one ingests or forgets, the
    others find or miss at their next recall. Safe to share between threads.
    """

    def __init__(self, retriever: Retriever, store: Store, *, depth: int = 1, index_name: str | None = None) -> None:
        """Join a retriever that holds nothing yet and a store.

        Args:
            retriever: Finds messages.
            store: Keeps them, and their vectors under the name of an index.
            depth: Hits fetched per query at least, of which `top_k` are used; 1 to 100,000. An approximate
                index finds other messages at other depths, so a saved run and an engine of one depth agree.
            index_name: Of the index in the store; by default from the name of the retriever's model.

        Raises:
            OptionsError: `depth` is not such a number.
        """
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= MAX_TOP_K:
            raise OptionsError("depth", depth, f"an integer from 1 to {MAX_TOP_K}")
        self._retriever = retriever
        self._store = store
        self._depth = depth
        self._writer = IndexWriter(retriever, store, index_name)
        self._followed: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def score_range(self) -> tuple[float, float]:
        """The retriever's scale, which a threshold must lie on."""
        return self._retriever.score_range

    @property
    def store(self) -> Store:
        """Where the messages are."""
        return self._store

    @property
    def index(self) -> IndexKey | None:
        """The index this engine keeps its vectors in; None where its retriever has none."""
        return self._writer.index

    def ingest(self, messages: Sequence[Message], *, thread_id: str | None = None) -> None:
        """Store messages and make them retrievable, as one transaction; the same id again replaces.

        Only what is new or changed is embedded. To retry what failed, ingest it again. An edited message that fails is
        not found by its old text. Where nothing can be embedded or indexed, the messages are stored all the same.

        Args:
            messages: In the order of their arrival.
            thread_id: The thread they are searched as part of; each message's own by default.

        Raises:
            MessageError: An id is held by another resource or thread; nothing is stored.
            IndexingError: Some messages were stored but not indexed; the others were both.
            IdentityError: The index holds vectors of another embedder; the messages are stored without.
            OptionsError: The index's name cannot be used; the messages are stored without vectors.
            ModelError: The embedder's model cannot be loaded; the messages are stored without vectors.
        """
        self._writer.ingest(messages, thread_id=thread_id)

    def forget(self, message_ids: Sequence[str]) -> None:
        """Delete messages and everything derived from them; unknown ids are ignored."""
        self._store.remove(message_ids)

    def forget_thread(self, resource_id: str, thread_id: str) -> None:
        """Delete a thread, its messages and everything derived from them; an unknown one is ignored."""
        self._store.remove_thread(resource_id, thread_id)

    def recall(
        self,
        text: str,
        options: RecallOptions,
        context: RequestContext,
        *,
        before: datetime | None = None,
        where: ThreadFilter | None = None,
    ) -> RecallResult:
        """Hits above the threshold among the `top_k` best, and their windows.

        Without a resource only the current thread is searched, whose owner the store knows. Empty where there is
        nothing to search: no text, neither resource nor thread, or scope "thread" without a thread. A hit that the
        store no longer has is left out and its rank stays vacant.

        Args:
            text: The query, bare.
            options: The four knobs.
            context: Who asks, and in which thread.
            before: Only messages created strictly earlier are seen, as hits and as neighbours.
            where: Only threads whose metadata it matches are searched.

        Raises:
            OptionsError: The threshold is outside the retriever's `score_range`.
            MessageError: `before` is a naive time, or there is no resource and several of them have the thread.
            IdentityError: The store's vectors are of another embedder.
        """
        options.check_threshold(self.score_range)
        if before is not None and before.tzinfo is None:
            raise MessageError(f"before is {before!r}, expected an aware time; use datetime.astimezone(datetime.UTC)")
        is_nowhere = not context.thread_id and (not context.resource_id or options.scope == "thread")
        if not text or is_nowhere:
            return RecallResult(text, thread_id=context.thread_id)
        with span("recall.recall") as told:
            result = self._search(text, options, context, before=before, where=where)
            told.set_attribute("recall.hits", len(result.hits))
            told.set_attribute("recall.context", len(result.context))
            return result

    def check_owner(self, context: RequestContext) -> None:
        """Refuse a context whose thread is not of its resource, for callers that were given both by somebody else.

        A thread that nobody has yet is anybody's. Recall itself needs no such check: it finds nothing there.

        Raises:
            MessageError: The thread is of other resources only.
        """
        if not context.thread_id or not context.resource_id:
            return
        owners = {thread.resource_id for thread in self._store.threads(thread_id=context.thread_id)}
        if owners and context.resource_id not in owners:
            raise MessageError(
                f"thread_id {context.thread_id!r} is not of resource {context.resource_id!r}; give its own resource"
            )

    def catch_up(self, resource_id: str) -> None:
        """Follow the store in one resource now, and not at its next recall.

        Raises:
            IdentityError: The store's vectors are of another embedder.
        """
        with self._lock, self._store.reading():
            self._follow(resource_id)

    def reindex(self, progress: Progress | None = None) -> int:
        """Embed every stored message that has no vector in this engine's index, and give their number.

        An index of that name that another embedder built is dropped first.

        Args:
            progress: Told (done, total) in messages.

        Raises:
            IndexingError: Some messages failed; the others are indexed.
        """
        return self._writer.reindex(progress)

    def _search(
        self,
        text: str,
        options: RecallOptions,
        context: RequestContext,
        *,
        before: datetime | None,
        where: ThreadFilter | None,
    ) -> RecallResult:
        started = perf_counter_ns()
        with span("recall.embed"):
            query = self._retriever.encode(text)
        encoded = perf_counter_ns()
        with ExitStack() as moment:
            # Moments begin under the lock, so the retriever never follows backwards.
            with self._lock:
                moment.enter_context(self._store.reading())
                scope = self._scope_of(options, context, where)
                if scope is None:
                    return RecallResult(text, thread_id=context.thread_id)
                self._follow(scope.resource_id)
                ranking = self._rank(query, scope, max(self._depth, options.top_k), before)
            ranked = perf_counter_ns()
            hits = _hits_of(ranking, options)
            with span("recall.windows") as told:
                entries = build_context(
                    hits, self._store, message_range=options.message_range, scope=scope, before=before
                )
                told.set_attribute("recall.context", len(entries))
        widened = perf_counter_ns()
        present = {entry.message.message_id for entry in entries}
        return RecallResult(
            query=text,
            hits=tuple(hit for hit in hits if hit.message_id in present),
            context=entries,
            thread_id=context.thread_id,
            timings_ms={
                "embed": (encoded - started) / NS_PER_MS if query.ms is None else query.ms,
                "search": (ranked - encoded) / NS_PER_MS,
                "window": (widened - ranked) / NS_PER_MS,
            },
            searched_by=ranking.searched_by,
        )

    def _rank(self, query: EncodedQuery, scope: SearchScope, depth: int, before: datetime | None) -> Ranking:
        with span("recall.search") as told:
            ranking = self._retriever.rank(query, scope, depth, before=before)
            told.set_attribute("recall.searched_by", ranking.searched_by)
            told.set_attribute("recall.ranked", len(ranking.message_ids))
            if len(ranking.scores):
                told.set_attribute("recall.top_score", display(ranking.scores[0]))
            return ranking

    def _scope_of(
        self, options: RecallOptions, context: RequestContext, where: ThreadFilter | None
    ) -> SearchScope | None:
        owner = owner_of(self._store, context)
        if owner is None:
            return None
        # Without a named owner the caller may see its thread, and no other.
        thread_id = None if options.scope == "resource" and context.resource_id else context.thread_id
        if where is None:
            return SearchScope(owner, thread_id)
        admitted = (thread.thread_id for thread in self._store.threads(resource_id=owner) if where.admits(thread))
        return SearchScope(owner, thread_id, frozenset(admitted))

    def _follow(self, resource_id: str) -> None:
        """Bring the retriever to the present state of one resource; under the lock, inside one moment of the store."""
        index = self.index
        changes = self._store.changes(resource_id, self._followed.get(resource_id, 0), index)
        if changes.changed or changes.removed:
            if index is not None and all(vector is None for _, vector, _ in changes.changed):
                self._refuse_foreign_vectors(index)
            self._retriever.follow(changes)
        self._followed[resource_id] = changes.revision

    def _refuse_foreign_vectors(self, index: IndexKey) -> None:
        """Say so where all vectors are in other indexes: finding nothing would look like having no memories."""
        others = self._store.indexes()
        if others and all(other.key.name != index.name for other in others):
            listed = "; ".join(
                f"{other.key.name!r} of {other.key.space.model_id!r}, dim {other.dim}" for other in others
            )
            raise IdentityError(
                f"index {index.name!r} of embedder {index.space.model_id!r} is empty, the vectors are in {listed}; "
                "use that index_name and embedder, "
                "or embed every message again (RecallEngine.reindex, recall ingest --reindex)"
            )


def _hits_of(ranking: Ranking, options: RecallOptions) -> list[Hit]:
    """The first `top_k` that pass; a message that two vectors stand for uses two places and is one hit."""
    scores = ranking.scores[: options.top_k]
    hits: dict[str, Hit] = {}
    for place in passes(scores, options.threshold).nonzero()[0].tolist():
        message_id = ranking.message_ids[place]
        hits.setdefault(message_id, Hit(message_id, display(scores[place]), place + 1))
    return list(hits.values())
