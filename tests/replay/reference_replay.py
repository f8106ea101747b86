"""Replays a recorded case of the reference on our engine, and says in which observations the two differ.

A case is a small world (storage, vector store, embedders, processors) and steps in it; tests/golden/mastra/README.md.
What is observed of a step: the list of messages, the texts of system messages, the texts embedded, what was put into
which index, and whether an error was reported.
"""

import json
import logging
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from recall.chat_format import message_of, messages_of
from recall.embedders.cached import CachedEmbedder
from recall.engine import RecallEngine
from recall.errors import EmbedderError, OptionsError, RecallError, StoreError
from recall.history import MessageHistory
from recall.index_name import index_name_of
from recall.options import RecallOptions
from recall.processor import SemanticRecall
from recall.protocols import Embedded, EncodedQuery, TimedVector, VectorSpace
from recall.retrievers.dense import DenseRetriever
from recall.schema import Message, Ranking, RequestContext, Thread

Json = Any
MEMORY_INDEX = "memory_messages_{dim}"
TOLERANCE = 1e-5

OBSERVED = ("messages", "blocks", "embedded", "upserts", "indexes", "errors", "thrown")


class FakeEmbedder:
    """Gives recorded vectors at unit length, fails where the recording says so, and writes down what it was asked."""

    def __init__(self, name: str, spec: Json, options: Json, *, dim: int, calls: list[str]) -> None:
        self._spec, self._dim, self._calls = spec, dim, calls
        self.has_failed = False
        self._identity = json.dumps([name, spec.get("modelId"), options], sort_keys=True)

    @property
    def model_id(self) -> str:
        return self._spec.get("modelId") or ""

    def identity(self, kind: str) -> str:
        return self._identity

    def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        try:
            rows = [self._vector(text) for text in texts]
            if len({len(row) for row in rows}) > 1 or not all(row.any() for row in rows):
                raise EmbedderError("rows of several lengths, or of nothing")
        except EmbedderError:
            self.has_failed = True
            raise
        return np.stack(rows) if rows else np.empty((0, 1), np.float32)

    def embed_query(self, text: str) -> TimedVector:
        return TimedVector(self._vector(text), None)

    def _vector(self, text: str) -> np.ndarray:
        self._calls.append(text)
        if text in self._spec.get("fail_on", ()):
            raise EmbedderError(f"embedder failed on {text!r}")
        if text in self._spec.get("empty_on", ()):
            raise EmbedderError(f"embedder gave no row for {text!r}")
        if text in self._spec.get("multi_on", ()):
            raise EmbedderError(f"embedder gave several rows for {text!r}")
        vector = self._spec["vectors"].get(text, self._spec.get("default_vector"))
        if vector is None:
            vector = np.eye(1, self._dim, zlib.crc32(text.encode()) % self._dim)[0]
        row = np.array([math.nan if _number(value) is None else _number(value) for value in vector], np.float64)
        length = np.linalg.norm(row)
        return (row / length if length > 0 else row).astype(np.float32)


class ScriptedRetriever:
    """A vector store that answers what the recording says, whatever is asked."""

    score_range = (-1.0, 1.0)

    def __init__(self, embedder: CachedEmbedder, vector: Json, index_name: str) -> None:
        self._embedder, self._vector = embedder, vector
        self.space = VectorSpace(embedder.model_id, embedder.identity("passage"))

    def embed(self, messages: Sequence[Message]) -> Embedded:
        spoken = [message for message in messages if message.text]
        rows = self._embedder.embed_passages([message.text for message in spoken]) if spoken else []
        return Embedded({message.message_id: row for message, row in zip(spoken, rows, strict=True)})

    def follow(self, changes: Any) -> None:
        self._fail("createIndex")

    def encode(self, text: str) -> EncodedQuery:
        return EncodedQuery(*self._embedder.embed_query(text))

    def rank(
        self, query: Any, scope: Any, depth: int, *, before: datetime | None = None, exact: bool = False
    ) -> Ranking:
        self._fail("createIndex")
        self._fail("query")
        results = self._vector.get("query_results", [])
        ids = [str((hit.get("metadata") or {}).get("message_id")) for hit in results]
        scores = [math.nan if _number(hit.get("score")) is None else _number(hit["score"]) for hit in results]
        return Ranking(tuple(ids), np.array(scores, np.float32))

    def _fail(self, method: str) -> None:
        if method in self._vector.get("fail", {}):
            raise StoreError(self._vector["fail"][method])


class WatchedStore:
    """A store that writes down what is put into indexes, and fails where the recording says so."""

    def __init__(self, store: Any, storage: Json, vector: Json) -> None:
        self._store, self._storage, self._vector = store, storage, vector
        self.upserts: list[tuple[str, dict[str, Json]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __len__(self) -> int:
        return len(self._store)

    def add(self, messages: Sequence[Message], embeddings: Any = None) -> list[Message]:
        if embeddings is not None and embeddings.vectors:
            content = {message.message_id: message for message in messages}
            rows = {
                message_id: {
                    "message_id": message_id,
                    "thread_id": embeddings.thread_id or content[message_id].thread_id,
                    "resource_id": content[message_id].resource_id,
                    "role": content[message_id].role,
                    "content": content[message_id].text,
                    "created_at": _iso(content[message_id].created_at),
                }
                for message_id in embeddings.vectors
            }
            if self.adds_metadata:
                of_thread = {(t.resource_id, t.thread_id): t.metadata for t in self._store.threads()}
                for row in rows.values():
                    row.update(of_thread.get((row["resource_id"], row["thread_id"]), {}))
            self.upserts.append((embeddings.index.name, rows))
            if "upsert" in self._vector.get("fail", {}):
                raise StoreError(self._vector["fail"]["upsert"])
            try:
                return self._store.add(messages, embeddings)
            except OptionsError:
                self.upserts.pop()  # there is no index of that name to put anything into
                raise
        return self._store.add(messages, embeddings)

    def span(self, *args: Any) -> list[Message]:
        self._fail()
        return self._store.span(*args)

    def get(self, message_ids: Sequence[str]) -> dict[str, Message]:
        self._fail()
        return self._store.get(message_ids)

    is_recalling = False
    adds_metadata = False

    def _fail(self) -> None:
        if self.is_recalling and "listMessages" in self._storage.get("fail", {}):
            raise StoreError(self._storage["fail"]["listMessages"])


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


@dataclass
class World:
    """One case while it is replayed."""

    case: Json
    make_store: Callable[[], Any]
    make_index: Callable[[], Any]
    calls: list[str] = field(default_factory=list)
    caches: dict[tuple[str, str], CachedEmbedder] = field(default_factory=dict)
    processors: dict[str, Any] = field(default_factory=dict)
    fakes: list[FakeEmbedder] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = WatchedStore(self.make_store(), self.case["storage"], self.case["vector"])
        self.log = _Log()
        self.logger = logging.Logger("replay")
        self.logger.addHandler(self.log)

    def cache(self, name: str, options: Json, index_name: str) -> CachedEmbedder:
        key = (index_name, json.dumps([name, options], sort_keys=True))
        if key not in self.caches:
            dim = self.case["dimension"]
            fake = FakeEmbedder(name, self.case["embedders"][name], options, dim=dim, calls=self.calls)
            self.fakes.append(fake)
            self.caches[key] = CachedEmbedder(fake, directory=None, lru_size=1000, timed=False)
        return self.caches[key]

    def engine(self, name: str, options: Json, index_name: str | None) -> RecallEngine:
        model_id = self.case["embedders"][name].get("modelId") or ""
        cache = self.cache(name, options, index_name or index_name_of(model_id))
        retriever: Any = DenseRetriever(cache, self.make_index())
        if self.case["vector"]["kind"] == "scripted":
            retriever = ScriptedRetriever(cache, self.case["vector"], index_name or index_name_of(model_id))
        return RecallEngine(retriever, self.store, index_name=index_name)

    def processor(self, name: str) -> SemanticRecall:
        """The processor of that name; made again where its options were refused, as every attempt is refused anew."""
        if name not in self.processors:
            spec = self.case["processors"][name]
            given = dict(spec.get("options", {}))
            index_name = given.pop("indexName", None)
            engine = self.engine(spec.get("embedder", "main"), given.pop("embedderOptions", None), index_name)
            options = RecallOptions.from_mastra(_numbers(given))
            if self.case["vector"]["kind"] == "scripted":
                # The scripted store answers in full, whatever topK says.
                results = len(self.case["vector"].get("query_results", []))
                threshold = options.threshold
                options = RecallOptions(
                    max(options.top_k, results),
                    message_range=options.message_range,
                    scope=options.scope,
                    threshold=threshold,
                )
            logger = self.logger
            self.processors[name] = SemanticRecall(engine, options, block_style="mastra", on_error="log", logger=logger)
        return self.processors[name]

    def memory(self) -> tuple[RecallEngine, RecallOptions, Json]:
        """What stands for the reference's Memory object: an engine with its index name, options and filter."""
        given = dict(self.case["memory"]["options"].get("semanticRecall") or {})
        where = given.pop("filter", None)
        given.pop("indexConfig", None)
        dim = self.case["dimension"]
        name = "memory_messages" if dim == 1536 else MEMORY_INDEX.format(dim=dim)
        if "memory" not in self.processors:
            self.processors["memory"] = self.engine("main", None, name)
        return self.processors["memory"], RecallOptions.from_mastra(_numbers(given)), where


def replay(case: Json, make_store: Callable[[], Any], make_index: Callable[[], Any]) -> list[dict[str, Json]]:
    """What our engine does in each step of a case."""
    world = World(case, make_store, make_index)
    return [_step(world, step) for step in case["steps"]]


def recorded(case: Json) -> list[dict[str, Json]]:
    """What the reference did in each step, in the same terms."""
    return [_recorded_step(step, expected) for step, expected in zip(case["steps"], case["expected"], strict=True)]


def _step(world: World, step: Json) -> dict[str, Json]:
    calls, upserts, errors = len(world.calls), len(world.store.upserts), world.log.count
    seen: dict[str, Json] = {}
    try:
        seen = STEPS[step["op"]](world, step) or {}
    except OptionsError as error:
        seen = {"refused": error.field}
    except RecallError as error:
        seen = {"thrown": True, "kind": type(error).__name__}
    embedded = [] if step["op"] == "recall_many" else world.calls[calls:]
    # A batch that failed is tried again text by text, and concurrent recalls share an embedding under way.
    is_set = step["op"] == "recall_concurrent" or any(fake.has_failed for fake in world.fakes)
    for fake in world.fakes:
        fake.has_failed = False
    added = world.store.upserts[upserts:]
    seen["embedded"] = sorted(set(embedded) if is_set else embedded)
    seen["upserts"] = {message_id: row for _, rows in added for message_id, row in rows.items()}
    seen["indexes"] = sorted({name for name, _ in added})
    seen["errors"] = world.log.count > errors
    seen.setdefault("thrown", False)
    return seen


def _recorded_step(step: Json, expected: Json) -> dict[str, Json]:
    calls = [value for call in expected.get("embedder_calls", []) for value in call["values"]]
    if step["op"].startswith("memory_"):
        # One probe for the dimension; we ask the embedder for its dimension with the first text.
        calls = [text for text in calls if text != "a"]
    upserts = [call for call in expected.get("vector_calls", []) if call["method"] == "upsert"]
    seen: dict[str, Json] = {
        "embedded": sorted(set(calls) if step["op"] == "recall_concurrent" else calls),
        "upserts": {row["message_id"]: row for call in upserts for row in call["metadata"]},
        "indexes": sorted({call["indexName"] for call in upserts}),
        "errors": bool(expected.get("logged_errors")),
        "thrown": "thrown" in expected,
    }
    if "messages" in expected:
        seen["messages"] = [_listed(message) for message in expected["messages"]]
    if "memory_system_messages" in expected:
        seen["blocks"] = expected["memory_system_messages"]
    if "outputs" in expected:
        seen["outputs"] = [[_listed(m) for m in output["messages"]] for output in expected["outputs"]]
    if "embedder_call_count" in expected:
        seen["call_count"] = expected["embedder_call_count"]
    return seen


def _listed(message: Json) -> list[Json]:
    return [message["id"], message["role"], message.get("thread_id"), message["created_at"], message.get("source")]


def _ours(message: Message) -> list[Json]:
    return [message.message_id, message.role, message.thread_id, _iso(message.created_at), message.source]


def _context(step: Json) -> Json:
    kind = step.get("context")
    if kind == "none":
        return None
    if kind == "empty":
        return {}
    if kind == "raw":
        return _numbers(step["raw_context"])
    context: dict[str, Json] = {"thread": {"id": step["thread_id"]}, "resourceId": step.get("resource_id")}
    if "memory_config" in step:
        context["memoryConfig"] = step["memory_config"]
    return context


def _read(messages: Sequence[Json], step: Json, source: Any = "input") -> list[Message]:
    """Recorded messages as records, with what the turn says where they say nothing."""
    where = RequestContext(step.get("thread_id"), step.get("resource_id"))
    return [replace(message_of(m, context=where), source=m.get("source", source)) for m in messages or ()]


def _store(world: World, step: Json) -> None:
    world.store.add(messages_of(step["messages"], context=RequestContext()))


def _ingest(world: World, step: Json) -> None:
    refusal = None
    for turn in step["turns"]:
        messages = [
            *_read(turn.get("memory_messages"), turn, "memory"),
            *_read(turn.get("context_messages"), turn, "context"),
            *_read(turn.get("input"), turn, "input"),
            *_read(turn.get("response"), turn, "response"),
        ]
        try:
            world.processor(step["processor"]).process_output(messages, _context(turn))
        except OptionsError as error:
            refusal = error
        # Whatever becomes of the vectors, the agent saves what was said.
        spoken = [message for message in messages if message.source in ("input", "response")]
        known = world.store.get([message.message_id for message in spoken])
        if not turn.get("memory_config", {}).get("readOnly"):
            world.store.add([m for m in spoken if m.message_id not in known])
    if refusal is not None:
        raise refusal


def _output_raw(world: World, step: Json) -> Json:
    returned = world.processor(step.get("processor", "A")).process_output(
        [{**message, "source": None} for message in step["messages"]], _context(step)
    )
    return {"returned": [message.message_id for message in returned]}


def _delete(world: World, step: Json) -> None:
    world.store.remove(step["ids"])


def _recall(world: World, step: Json) -> Json:
    listed: list[Any] = _read(step["messages"], step)
    context = _context(step)
    recall = world.processor(step.get("processor", "A"))
    history = step.get("history")
    chain: list[Any] = [recall]
    if history:
        chain.insert(0 if history["order"] == "before" else 1, MessageHistory(world.store, history["last_messages"]))
    for _ in range(step.get("times", 1)):
        for processor in chain:
            with _recalling(world, processor is recall):
                listed = processor.process_input(listed, context)
    return _observed(listed)


def _observed(listed: Sequence[Message]) -> Json:
    return {
        "messages": [_ours(message) for message in listed if message.role != "system"],
        "blocks": [message.text for message in listed if message.role == "system" and message.source == "memory"],
    }


@contextmanager
def _recalling(world: World, is_recall: bool) -> Any:
    world.store.is_recalling = is_recall
    try:
        yield
    finally:
        world.store.is_recalling = False


def _recall_concurrent(world: World, step: Json) -> Json:
    from concurrent.futures import ThreadPoolExecutor

    world.processor(step.get("processor", "A"))
    with ThreadPoolExecutor(step["n"]) as pool:
        outputs = list(pool.map(lambda _: _recall(world, step)["messages"], range(step["n"])))
    return {"outputs": outputs}


def _recall_many(world: World, step: Json) -> Json:
    before = len(world.calls)
    recall = world.processor(step.get("processor", "A"))
    for number in range(step["from"], step["to"]):
        text = step["pattern"].replace("{i}", str(number))
        recall.process_input([{"role": "user", "content": text}], _context(step))
    count = len(world.calls) - before
    return {"call_count": count}


def _threads(world: World, step: Json) -> None:
    for thread in step["threads"]:
        world.store.put_thread(Thread(thread["id"], thread["resource_id"], thread.get("metadata") or {}))


def _memory_save(world: World, step: Json) -> None:
    engine, *_ = world.memory()
    world.store.adds_metadata = True
    try:
        engine.ingest(messages_of(step["messages"], context=RequestContext()))
    finally:
        world.store.adds_metadata = False


def _memory_delete(world: World, step: Json) -> None:
    world.memory()[0].forget(step["ids"])


def _memory_recall(world: World, step: Json) -> Json:
    from recall.thread_filter import ThreadFilter

    engine, options, where = world.memory()
    context = RequestContext(step.get("thread_id"), step.get("resource_id"))
    condition = None if where is None else ThreadFilter(where)
    engine.check_owner(context)
    result = engine.recall(step["query"], options, context, where=condition)
    return {"messages": [[*_ours(entry.message)[:4], None] for entry in result.context]}


def _memory_wired(world: World, step: Json) -> Json:
    engine, options, where = world.memory()
    recall = SemanticRecall(engine, options, where=where, block_style="mastra", on_error="log", logger=world.logger)
    listed = recall.process_input(_read(step["messages"], step), _context(step))
    if step.get("index"):
        recall.process_output(listed, _context(step))
    return _observed(listed)


STEPS: Mapping[str, Callable[[World, Json], Json]] = {
    "store": _store,
    "ingest": _ingest,
    "output_raw": _output_raw,
    "delete_messages": _delete,
    "recall": _recall,
    "recall_concurrent": _recall_concurrent,
    "recall_many": _recall_many,
    "threads": _threads,
    "memory_save": _memory_save,
    "memory_delete_messages": _memory_delete,
    "memory_recall": _memory_recall,
    "memory_wired": _memory_wired,
}


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _number(value: Json) -> float | None:
    """A recorded number; {"$num": "NaN"} stands for what JSON lacks."""
    if isinstance(value, Mapping):
        return float(value["$num"].replace("Infinity", "inf"))
    return None if value is None else float(value)


def _numbers(value: Json) -> Json:
    if isinstance(value, Mapping):
        return _number(value) if set(value) == {"$num"} else {key: _numbers(each) for key, each in value.items()}
    return value
