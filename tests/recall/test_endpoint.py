"""An embedding server: asked in batches, tried again, told apart from everything else that can answer."""

import json
import logging
import time
from pathlib import Path

import numpy as np
import pytest

from eval.cli import main
from recall.embedders.endpoint import EndpointEmbedder
from recall.errors import EmbedderError, ModelError, OptionsError

KEY = "sk-very-secret"
TEXTS = ["one", "둘", "three", "\ud800 four", ""]


@pytest.fixture
def embedder(embedding_server, monkeypatch) -> EndpointEmbedder:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return make(embedding_server)


def make(server, **settings) -> EndpointEmbedder:
    return EndpointEmbedder(server.url, "hashing", **({"backoff_seconds": 0.001, "retries": 2} | settings))


def vectors(*rows: list[float]) -> tuple[int, str, str]:
    data = [{"index": number, "embedding": row} for number, row in enumerate(rows)]
    return 200, "application/json", json.dumps({"data": data})


def test_texts_are_asked_in_batches_and_come_in_their_order(embedding_server, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    embedder = make(embedding_server, batch_size=2, key_variable="MY_KEY", passage_prompt="passage: ", dimensions=48)
    rows = embedder.embed_passages(TEXTS)
    expected = embedding_server.embedder.embed_passages([f"passage: {text}" for text in TEXTS[:3]])
    np.testing.assert_allclose(rows[:3], expected, atol=1e-6)
    sizes = [len(body["input"]) for _, body in embedding_server.requests]
    assert sizes == [2, 2, 1]
    headers, body = embedding_server.requests[0]
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "hashing",
        "input": ["passage: one", "passage: 둘"],
        "encoding_format": "float",
        "dimensions": 48,
    }


def test_without_a_key_none_is_sent(embedding_server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    make(embedding_server).embed_query("hi")
    assert "Authorization" not in embedding_server.requests[0][0]


def test_a_query_has_its_own_prompt_and_a_time(embedding_server):
    vector, ms = make(embedding_server, query_prompt="query: ").embed_query("hi")
    assert embedding_server.requests[0][1]["input"] == ["query: hi"]
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert ms > 0


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(embedder, embedding_server, status):
    embedding_server.replies = [(status, "text/plain", "busy"), (status, "text/plain", "busy")]
    assert embedder.embed_query("hi").vector.shape == (48,)
    assert len(embedding_server.requests) == 3


@pytest.mark.parametrize(
    ("reply", "kind", "sentence"),
    [
        ((401, "application/json", f"no {KEY}"), ModelError, "answers 401 Unauthorized: 'no ***'; put a key that"),
        ((403, "text/plain", "no"), ModelError, "answers 403 Forbidden: 'no'; put a key that the server accepts into"),
        ((404, "text/plain", "what?"), ModelError, "answers 404 Not Found: 'what?'; check url and model"),
        ((429, "text/plain", "slow down"), ModelError, "answers 429 Too Many Requests: 'slow down', after 2 retries"),
        ((500, "text/html", "<h1>\noops"), ModelError, "answers 500 Internal Server Error: '<h1> oops', after 2"),
        ((400, "text/plain", "too long"), EmbedderError, "answers 400 Bad Request: 'too long'"),
        ((302, "text/plain", ""), ModelError, "answers 302 Found"),
        ((200, "text/html", "<html>hello"), ModelError, "answers text/html ('<html>hello'), expected JSON with data"),
        ((200, "application/json", "[]"), ModelError, "answers application/json ('[]'), expected JSON with data"),
        ((200, "application/json", "{"), ModelError, "expected JSON with data"),
        (vectors([1.0, 0.0], [1.0, 0.0]), EmbedderError, "gave an array of shape (2, 2) for 1 text(s)"),
        (vectors([0.0, 0.0]), EmbedderError, "only zeros"),
        (vectors([float("nan"), 0.0]), EmbedderError, "gave NaN"),
        (vectors(), EmbedderError, "gave an array of shape (0,) for 1 text(s)"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, tuple) else "",
)
def test_everything_else_is_one_sentence_without_the_key(embedder, embedding_server, caplog, reply, kind, sentence):
    caplog.set_level(logging.DEBUG)
    embedding_server.replies = [reply] * 3
    with pytest.raises(EmbedderError) as caught:
        embedder.embed_query("hi")
    assert type(caught.value) is kind
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value) + caplog.text + embedder.identity("query") + repr(vars(embedder))


def test_another_dimension_than_before_is_refused(embedder, embedding_server):
    embedder.embed_query("hi")
    embedding_server.replies = [vectors([1.0, 0.0])]
    with pytest.raises(EmbedderError, match="gave vectors of dim 2, expected dim 48 as before or as asked"):
        embedder.embed_query("hi")


def test_a_server_that_does_not_answer_is_given_up(embedding_server):
    def late(body: object) -> tuple[int, str, str]:
        time.sleep(0.5)
        return 200, "text/plain", "too late"

    embedding_server.replies = [late]
    with pytest.raises(ModelError, match=r"did not answer within 0\.1 s"):
        make(embedding_server, timeout_seconds=0.1, retries=0).embed_query("hi")


def test_a_server_that_is_not_there_is_given_up():
    with pytest.raises(ModelError, match="cannot be reached"):
        EndpointEmbedder("http://127.0.0.1:9/v1", "m", retries=0).embed_query("hi")


def test_no_texts_have_the_width_of_others(embedder):
    assert embedder.embed_passages([]).shape == (0, 48)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": "ftp://x"}, "url is 'ftp://x', expected an address"),
        ({"url": "https://me:word@host/v1"}, "url is 'https://host/v1', expected no user"),
        ({"model": ""}, "model is '', expected the name"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"retries": -1}, "retries is -1"),
        ({"dimensions": 0}, "dimensions is 0"),
        ({"timeout_seconds": 0}, "timeout_seconds is 0"),
        ({"backoff_seconds": float("inf")}, "backoff_seconds is inf"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, sentence):
    with pytest.raises(OptionsError) as caught:
        EndpointEmbedder(**({"url": "http://host/v1", "model": "m"} | settings))
    assert sentence in str(caught.value)
    assert "me:word" not in str(caught.value)


def test_a_whole_evaluation_asks_the_server_and_writes_no_key(embedding_server, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    server = ("embedder=endpoint", f"embedder.url={embedding_server.url}", "embedder.model=hashing", "tracking=off")
    line = ["eval", "collection=tiny", *server, f"runs_dir={tmp_path / 'runs'}"]
    assert main([*line, "--json"]) == 0
    asked = len(embedding_server.requests)
    captured = capsys.readouterr()
    assert main(line) == 0
    assert len(embedding_server.requests) == asked  # everything is in the cache
    embedding_server.replies = [(401, "text/plain", KEY)]
    assert main([*line, "embedder.model=other"]) == 2
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    again = capsys.readouterr()
    assert "answers 401" in again.err
    assert KEY not in captured.out + captured.err + again.out + again.err
    assert KEY.encode() not in written
