"""The dense retriever: what is embedded, what is indexed, and what one bad message costs."""

from datetime import timedelta

import numpy as np
import pytest

from recall.embedders.hashing import HashingEmbedder
from recall.errors import EmbedderError, MissingDependencyError, ModelError, OptionsError
from recall.indexes.exact import ExactIndex
from recall.protocols import ChangedMessage, Changes, TimedVector
from recall.retrievers.dense import DenseRetriever
from recall.schema import Message, SearchScope, utc

START = utc(2024, 3, 5, 9)
ANA = SearchScope("ana")
BROKEN, NOT_A_NUMBER, LONGER = "💥", "NaN", "longer"


class Words(HashingEmbedder):
    """Hashes words; fails on 💥, gives NaN or a vector of another length where a text asks for it."""

    def __init__(self):
        super().__init__(64)
        self.calls = []

    def embed_passages(self, texts):
        self.calls.append(list(texts))
        if any(BROKEN in text for text in texts):
            raise EmbedderError("the model broke")
        rows = super().embed_passages(texts)
        rows[["NaN" in text for text in texts]] = np.nan
        return np.hstack([rows, rows]) if any(LONGER in text for text in texts) else rows


@pytest.fixture
def embedder():
    return Words()


@pytest.fixture
def index():
    return ExactIndex()


@pytest.fixture
def retriever(embedder, index) -> DenseRetriever:
    return DenseRetriever(embedder, index)


def say(message_id, text, *, name=None, at=0, thread="t1", resource="ana"):
    return Message(message_id, thread, resource, "user", text, START + timedelta(seconds=at), name=name)


def ids(retriever, text, scope=ANA, depth=10, **where):
    return retriever.rank(retriever.encode(text), scope, depth, **where).message_ids


def put(retriever, *messages, removed=()):
    """What an engine does: embed, keep, follow; what failed."""
    embedded = retriever.embed(messages)
    changed = [ChangedMessage(m, embedded.vectors.get(m.message_id), m.thread_id) for m in messages]
    retriever.follow(Changes(1, changed, removed))
    return embedded.failures


def test_messages_are_embedded_through_the_template_in_one_call(retriever, embedder):
    retriever.embed([say("a", "여섯 시에 봐요", name="민지"), say("b", "see you")])
    assert embedder.calls == [["민지: 여섯 시에 봐요", "see you"]]


def test_templates_are_settings(embedder, index):
    retriever = DenseRetriever(embedder, index, named="<{name}> {text}", bare="{role}: {text}")
    retriever.embed([say("a", "hi", name="Ana"), say("b", "hi")])
    assert embedder.calls == [["<Ana> hi", "user: hi"]]


def test_the_space_is_embedder_and_template(embedder, index):
    plain, spoken = DenseRetriever(embedder, index), DenseRetriever(embedder, index, bare="said: {text}")
    assert plain.space == DenseRetriever(Words(), ExactIndex()).space
    assert plain.space != spoken.space
    assert plain.space != DenseRetriever(HashingEmbedder(32), index).space


def test_a_template_that_cannot_be_used_is_refused(embedder, index):
    with pytest.raises(OptionsError, match="name, text, role, date"):
        DenseRetriever(embedder, index, named="{speaker}: {text}")


def test_a_query_is_embedded_as_it_is_and_keeps_its_time(retriever, embedder, monkeypatch):
    asked = []
    monkeypatch.setattr(embedder, "embed_query", lambda text: asked.append(text) or TimedVector(np.eye(1, 64)[0], 4.5))
    assert retriever.encode("몇 시? 🙂").ms == 4.5
    assert asked == ["몇 시? 🙂"]


def test_the_most_alike_message_comes_first_with_a_cosine(retriever):
    put(retriever, say("cat", "고양이가 자요"), say("dog", "the dog barks"), say("both", "고양이가 자요 지금"))
    ranking = retriever.rank(retriever.encode("고양이가 자요"), ANA, 2)
    assert ranking.message_ids == ("cat", "both")
    assert ranking.scores[0] == 1.0
    assert retriever.score_range == (-1.0, 1.0)


def test_scope_depth_and_time_are_the_index_s(retriever):
    put(retriever, *(say(f"{t}{n}", f"word {n}", thread=t, at=n) for t in ("t1", "t2") for n in range(3)))
    put(retriever, say("other", "word 0", resource="ben"))
    assert ids(retriever, "word", SearchScope("ana", "t2"), 2, before=START + timedelta(seconds=2)) == ("t20", "t21")
    assert set(ids(retriever, "word", exact=True)) == {"t10", "t11", "t12", "t20", "t21", "t22"}


def test_an_empty_message_is_left_out_and_blanks_are_not(retriever, embedder, index):
    """As in the reference, which skips the empty text and embeds "   "."""
    put(retriever, say("empty", "", name="Ana"), say("blank", " \u3000\n"), say("a", "hi"))
    assert (embedder.calls, len(index)) == ([[" \u3000\n", "hi"]], 2)


def test_only_empty_messages_ask_no_model(retriever, embedder):
    put(retriever, say("empty", ""))
    put(retriever)
    assert embedder.calls == []


def test_a_message_without_a_vector_is_not_found(retriever):
    put(retriever, say("a", "hello"), say("b", "hello there"))
    put(retriever, say("a", ""))
    assert ids(retriever, "hello") == ("b",)


def test_an_edited_message_is_found_by_its_new_text(retriever):
    put(retriever, say("a", "hello"), say("b", "something else"))
    put(retriever, say("a", "goodbye"))
    assert ids(retriever, "goodbye", depth=1) == ("a",)
    assert "a" not in ids(retriever, "hello something else", depth=1)


def test_a_removed_message_is_gone_and_unknown_ids_are_ignored(retriever):
    put(retriever, say("a", "hello"), say("b", "hello there"))
    put(retriever, removed=["a", "unknown"])
    assert ids(retriever, "hello") == ("b",)


def test_a_message_is_searched_as_part_of_the_thread_it_was_said_in(retriever):
    vectors = retriever.embed([say("a", "hello", thread="t1")]).vectors
    retriever.follow(Changes(1, [ChangedMessage(say("a", "hello", thread="t1"), vectors["a"], "t2")]))
    assert ids(retriever, "hello", SearchScope("ana", "t2")) == ("a",)
    assert ids(retriever, "hello", SearchScope("ana", "t1")) == ()


def test_an_exact_opposite_is_no_neighbour(retriever):
    """The reference's vector store keeps scores above -1 only."""
    vector = retriever.encode("hello").value
    askew = (vector + np.eye(1, 64, 3, dtype=np.float32)[0]).astype(np.float32)
    rows = {"same": vector, "opposite": -vector, "nearly": -askew / np.linalg.norm(askew)}
    retriever.follow(Changes(1, [ChangedMessage(say(i, i), row, "t1") for i, row in rows.items()]))
    assert ids(retriever, "hello") == ("same", "nearly")


@pytest.mark.parametrize("bad", [BROKEN, NOT_A_NUMBER])
def test_one_bad_message_does_not_lose_the_others(retriever, bad):
    assert set(put(retriever, say("a", "first"), say("bad", bad), say("c", "셋째"))) == {"bad"}
    assert set(ids(retriever, "first")) == {"a", "c"}


def test_every_failure_is_reported_with_its_reason(retriever):
    failures = put(retriever, say("a", BROKEN), say("b", NOT_A_NUMBER), say("c", "fine"))
    assert failures["a"] == "the model broke"
    assert "NaN" in failures["b"]


def test_a_model_that_cannot_be_loaded_is_told_at_once(retriever, embedder, monkeypatch):
    """Trying each message alone would fail as often as there are messages, and bury the reason."""
    calls = []

    def unavailable(texts):
        calls.append(texts)
        raise ModelError("no such model")

    monkeypatch.setattr(embedder, "embed_passages", unavailable)
    with pytest.raises(ModelError, match="no such model"):
        retriever.embed([say("a", "one"), say("b", "two")])
    assert len(calls) == 1


def test_a_missing_library_is_told_at_once(retriever, embedder, monkeypatch):
    def missing(texts):
        embedder.calls.append(texts)
        raise MissingDependencyError("run: pip install something")

    monkeypatch.setattr(embedder, "embed_passages", missing)
    with pytest.raises(MissingDependencyError, match="pip install something"):
        retriever.embed([say("a", "hi"), say("b", "ho")])
    assert len(embedder.calls) == 1
