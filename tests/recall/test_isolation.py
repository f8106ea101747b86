"""Any history of one store gives what the literal definition gives, and never anything of another resource."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from recall.embedders.hashing import HashingEmbedder
from recall.engine import RecallEngine
from recall.errors import MessageError
from recall.indexes.exact import ExactIndex
from recall.indexes.hnsw import HnswIndex
from recall.options import RecallOptions
from recall.retrievers.dense import DenseRetriever
from recall.schema import Message, RequestContext, Thread, utc
from recall.scoring import display, score
from recall.stores.memory import InMemoryStore
from recall.stores.sqlite import SQLiteStore
from recall.thread_filter import ThreadFilter

START = utc(2024, 3, 5, 9)
EMBEDDER = HashingEmbedder(8)
"""Few buckets, so that many scores are equal."""
WORDS = ("제주", "ferry", "cat", "noon")
RESOURCES = ("ann", "bob", "")
THREADS = ("t", "u")
"""Every resource has threads of these names."""
IDS = tuple(f"m{number}" for number in range(18))
HOMES = [(resource, thread) for resource in RESOURCES for thread in THREADS]
HOME_OF = {name: HOMES[number % len(HOMES)] for number, name in enumerate(IDS)}
"""Where each message is said."""


def say(name: str, home: tuple[str, str], text: str, at: int) -> Message:
    return Message(name, home[1], home[0], "user", text, START + timedelta(seconds=at))


class History(RuleBasedStateMachine):
    """One store, two engines over it, and a model: what was said, in the order of arrival."""

    make_store: ClassVar[Callable[[Path], Any]]
    make_index: ClassVar[Callable[[], Any]]

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.store = type(self).make_store(Path(self.folder.name))
        self.engines = [self._engine(), self._engine()]
        self.said: dict[str, Message] = {}
        self.arrivals: dict[str, int] = {}
        self.clock = 0
        self.projects: dict[tuple[str, str], str] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    def _engine(self) -> RecallEngine:
        return RecallEngine(DenseRetriever(EMBEDDER, type(self).make_index()), self.store)

    @rule(
        batch=st.lists(
            st.tuples(
                st.sampled_from(IDS),
                st.lists(st.sampled_from(WORDS), max_size=2).map(" ".join),
                st.integers(0, 3),
            ),
            min_size=1,
            max_size=4,
        ),
        which=st.integers(0, 1),
    )
    def ingest(self, batch: list[tuple[str, str, int]], which: int) -> None:
        """New, late and edited messages."""
        messages = [say(name, HOME_OF[name], text, at) for name, text, at in batch]
        self.engines[which].ingest(messages)
        for message in messages:
            self.said[message.message_id] = message
            self.clock += 1
            self.arrivals.setdefault(message.message_id, self.clock)
        for message in messages:
            self.projects.setdefault((message.resource_id, message.thread_id), "none")

    @rule(name=st.sampled_from(IDS), home=st.sampled_from(HOMES), other=st.sampled_from(IDS))
    def take_over(self, name: str, home: tuple[str, str], other: str) -> None:
        """An id of another thread is refused, and with it the whole batch."""
        if name in self.said and home != HOME_OF[name] and other != name:
            with pytest.raises(MessageError) as refusal:
                self.engines[0].ingest([say(other, HOME_OF[other], "never said", 0), say(name, home, "mine", 0)])
            assert not any(owner in str(refusal.value) for owner in ("ann", "bob"))

    @rule(names=st.lists(st.sampled_from(IDS), max_size=3), which=st.integers(0, 1))
    def delete(self, names: list[str], which: int) -> None:
        self.engines[which].forget(names)
        for name in names:
            self.said.pop(name, None)
            self.arrivals.pop(name, None)

    @rule(resource=st.sampled_from(RESOURCES), thread=st.sampled_from(THREADS))
    def delete_thread(self, resource: str, thread: str) -> None:
        self.engines[0].forget_thread(resource, thread)
        self.projects.pop((resource, thread), None)
        for message in list(self.said.values()):
            if (message.resource_id, message.thread_id) == (resource, thread):
                del self.said[message.message_id], self.arrivals[message.message_id]

    @rule(resource=st.sampled_from(RESOURCES), thread=st.sampled_from(THREADS), project=st.sampled_from("xy"))
    def describe(self, resource: str, thread: str, project: str) -> None:
        self.store.put_thread(Thread(thread, resource, {"project": project}))
        self.projects[resource, thread] = project

    @rule()
    def reopen(self) -> None:
        self.store.close()
        if isinstance(self.store, SQLiteStore):
            self.store = type(self).make_store(Path(self.folder.name))
        self.engines = [self._engine(), self._engine()]

    @rule(
        which=st.integers(0, 1),
        text=st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join),
        resource=st.sampled_from((*RESOURCES, None)),
        thread=st.sampled_from((*THREADS, "new", None)),
        top_k=st.integers(1, 6),
        reach=st.tuples(st.integers(0, 2), st.integers(0, 2)),
        scope=st.sampled_from(("thread", "resource")),
        threshold=st.sampled_from((None, 0.0, 0.5)),
        before=st.none() | st.integers(0, 4),
        project=st.sampled_from((None, "x", "y")),
    )
    def recall(self, which: int, text: str, resource: str | None, thread: str | None, **asked: Any) -> None:
        options = RecallOptions(
            asked["top_k"],
            message_range={"before": asked["reach"][0], "after": asked["reach"][1]},
            scope=asked["scope"],
            threshold=asked["threshold"],
        )
        before = None if asked["before"] is None else START + timedelta(seconds=asked["before"])
        where = None if asked["project"] is None else ThreadFilter({"project": asked["project"]})
        owners = sorted({owner for owner, name in self.projects if name == thread})
        is_nowhere = not thread and (not resource or options.scope == "thread")
        try:
            found = self.engines[which].recall(
                text, options, RequestContext(thread, resource), before=before, where=where
            )
        except MessageError as error:
            assert not resource and len(owners) > 1 and not is_nowhere
            assert not any(name in str(error) for name in ("ann", "bob", *IDS))
            return
        owner = resource or (owners[0] if len(owners) == 1 else None)
        hits, shown = [], []
        if owner is not None and not is_nowhere:
            only = thread if options.scope == "thread" or not resource else None
            hits, shown = self._expected(text, options, owner, only, before, asked["project"])
        assert {entry.message.resource_id for entry in found.context} <= {owner}
        assert [(hit.message_id, hit.score, hit.rank) for hit in found.hits] == hits
        assert [(entry.message.message_id, entry.message.text) for entry in found.context] == shown
        assert {hit.message_id for hit in found.hits} <= {entry.message.message_id for entry in found.context}
        assert {e.hit.message_id for e in found.context if e.hit} == {hit.message_id for hit in found.hits}

    def _expected(
        self, text: str, options: RecallOptions, owner: str, only: str | None, before: Any, project: str | None
    ) -> tuple[list[Any], list[Any]]:
        """The literal definition: score everything in sight, cut, drop, and cut windows out of each thread."""
        threads: dict[str, list[Message]] = {}
        for message in sorted(self.said.values(), key=lambda m: (m.created_at, self.arrivals[m.message_id])):
            is_inside = message.resource_id == owner and only in (None, message.thread_id)
            if is_inside and project in (None, self.projects.get((owner, message.thread_id))):
                threads.setdefault(message.thread_id, []).append(message)
        placed = [(m, p) for thread in threads.values() for p, m in enumerate(thread)]
        seen = [(m, p) for m, p in placed if before is None or m.created_at < before]
        speaking = [(m, p) for m, p in seen if m.text]
        if not speaking:
            return [], []
        scores = score(EMBEDDER.embed_query(text).vector, EMBEDDER.embed_passages([m.text for m, _ in speaking]))
        order = sorted(
            range(len(speaking)),
            key=lambda n: (-scores[n], speaking[n][0].created_at, speaking[n][1], speaking[n][0].message_id),
        )
        kept = [
            (speaking[n][0].message_id, display(scores[n]), rank)
            for rank, n in enumerate((n for n in order if scores[n] > -1), start=1)
            if rank <= options.top_k and (options.threshold is None or scores[n] >= np.float32(options.threshold))
        ]
        wanted = {name for name, *_ in kept}
        reach = options.message_range
        context = [
            (m, p)
            for m, p in seen
            if any(
                other.message_id in wanted and q - reach.before <= p <= q + reach.after
                for q, other in enumerate(threads[m.thread_id])
            )
        ]
        context.sort(key=lambda each: (each[0].created_at, each[1], each[0].message_id))
        return kept, [(m.message_id, m.text) for m, _ in context]


STORES: dict[str, Any] = {
    "memory": lambda folder: InMemoryStore(),
    "sqlite": lambda folder: SQLiteStore(folder / "messages.db"),
}


@pytest.mark.slow
@pytest.mark.parametrize("index", [ExactIndex, HnswIndex])
@pytest.mark.parametrize("store", STORES)
def test_any_history_gives_what_the_definition_gives(store: str, index: Any) -> None:
    """Graphs of so few rows are exhaustive, so they too must find exactly what is nearest."""

    class Machine(History):
        make_store = staticmethod(STORES[store])
        make_index = index

    examples = settings(max_examples=150 if store == "memory" else 60, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(Machine, settings=examples)
