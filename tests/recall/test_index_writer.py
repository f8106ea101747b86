"""Writing: what one bad message costs, and what is kept when nothing can be embedded."""

import numpy as np
import pytest

from recall.embedders.hashing import HashingEmbedder
from recall.engine import RecallEngine
from recall.errors import EmbedderError, IdentityError, IndexingError, ModelError, OptionsError
from recall.indexes.exact import ExactIndex
from recall.options import RecallOptions
from recall.retrievers.dense import DenseRetriever
from recall.schema import RequestContext

ANN = RequestContext("t", "ann")
BROKEN, LONGER = "💥", "longer"


class Fallible(HashingEmbedder):
    """Hashes words; fails on 💥, and gives a vector of another length where a text asks for it."""

    def embed_passages(self, texts):
        if any(BROKEN in text for text in texts):
            raise EmbedderError("the model broke")
        longer = sum(LONGER in text for text in texts)
        if 0 < longer < len(texts):
            raise EmbedderError("rows of two lengths make no array")
        rows = super().embed_passages(texts)
        return np.hstack([rows, rows]) / np.float32(2**0.5) if longer else rows


class Gone(HashingEmbedder):
    """A model that cannot be loaded."""

    def embed_passages(self, texts):
        raise ModelError("no such model")


def over(store, embedder, **settings) -> RecallEngine:
    return RecallEngine(DenseRetriever(embedder, ExactIndex()), store, **settings)


def found(engine, text):
    return {hit.message_id for hit in engine.recall(text, RecallOptions(9), ANN).hits}


def test_a_vector_of_another_length_names_both_and_does_not_lose_the_others(store, say):
    engine = over(store, Fallible(64))
    engine.ingest([say("a", "first")])
    with pytest.raises(IndexingError, match="dim 128, index 'mastra_memory_hashing_64' expects dim 64"):
        engine.ingest([say("bad", LONGER), say("b", "second")])
    assert found(engine, "first") == {"a", "b"}
    assert len(store) == 3


def test_in_a_new_index_the_first_vector_decides_the_length(store, say):
    engine = over(store, Fallible(64))
    with pytest.raises(IndexingError, match=r"dim 128, .* expects dim 64") as failure:
        engine.ingest([say("a", "first"), say("bad", LONGER)])
    assert list(failure.value.failures) == ["bad"]
    assert found(engine, "first") == {"a"}


def test_a_failed_message_can_be_ingested_again(store, say):
    broken, mended = over(store, Fallible(64)), over(store, HashingEmbedder(64))
    with pytest.raises(IndexingError):
        broken.ingest([say("a", BROKEN), say("b", "others")])
    mended.ingest([say("a", BROKEN)])
    assert found(mended, BROKEN) == {"a", "b"}


def test_reindexing_retries_what_failed(store, say):
    with pytest.raises(IndexingError):
        over(store, Fallible(64)).ingest([say("a", BROKEN), say("b", "others")])
    assert over(store, HashingEmbedder(64)).reindex() == 1


@pytest.mark.parametrize(
    ("embedder", "settings", "error"),
    [
        (Gone(64), {}, ModelError),
        (HashingEmbedder(32), {"index_name": "mastra_memory_hashing_64"}, IdentityError),
        (HashingEmbedder(64), {"index_name": "no-hyphens"}, OptionsError),
    ],
)
def test_what_was_said_is_kept_when_nothing_can_be_embedded(store, say, embedder, settings, error):
    over(store, HashingEmbedder(64)).ingest([say("a", "first")])
    with pytest.raises(error):
        over(store, embedder, **settings).ingest([say("b", "second")])
    assert set(store.get(["a", "b"])) == {"a", "b"}
    assert store.embedded("mastra_memory_hashing_64", ["a", "b"]) == {"a"}
