"""The cache of embeddings: exact, shared, resumable, and never trusted without a check."""

import fcntl
import logging
import sqlite3
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recall.embedders.cached import CHUNK_TEXTS, CachedEmbedder
from recall.embedders.hashing import HashingEmbedder
from recall.errors import EmbedderError, IdentityError, StoreError
from recall.protocols import TimedVector
from recall.vector_file import VectorFile


class Inner:
    """Hashes words, and remembers the texts it was given; breaks where it is told to."""

    def __init__(self, name="inner", *, prompt="", dim=16, breaks_at=None, error=EmbedderError):
        self.name, self.prompt, self.dim = name, prompt, dim
        self.breaks_at, self.error = breaks_at, error
        self.passages, self.queries, self.calls = [], [], 0

    def identity(self, kind):
        return f"{self.name}/{self.prompt if kind == 'query' else ''}"

    def embed_passages(self, texts):
        self.calls += 1
        if self.calls == self.breaks_at:
            raise self.error("stopped")
        self.passages += texts
        return HashingEmbedder(self.dim).embed_passages(texts)

    def embed_query(self, text):
        self.queries.append(text)
        return TimedVector(HashingEmbedder(self.dim).embed_query(self.prompt + text).vector, 7.5)


class Forbidden(Inner):
    """Has an identity and no model."""

    def embed_passages(self, texts):
        raise AssertionError(f"the model was asked for {texts}")

    def embed_query(self, text):
        raise AssertionError(f"the model was asked for {text!r}")


TEXTS = ["hello", "안녕하세요", "👩‍👩‍👧 🙂", "", " ", "a\0b", "lone \ud83d", "é", "é"]
MANY = [f"message {number}" for number in range(3 * CHUNK_TEXTS + 5)]


def cache_file(directory):
    (path,) = directory.glob("*.sqlite")
    return path


def fill(directory, texts=TEXTS):
    cache = CachedEmbedder(Inner(), directory=directory)
    rows = cache.embed_passages(texts)
    cache.close()
    return rows


def test_a_second_run_gives_the_same_bytes_and_asks_no_model(tmp_path):
    first = fill(tmp_path)
    cache = CachedEmbedder(Forbidden(), directory=tmp_path)
    assert cache.embed_passages(TEXTS).tobytes() == first.tobytes()
    assert (cache.hits, cache.misses) == (len(TEXTS), 0)


def test_a_second_run_gives_the_recorded_time_of_a_query(tmp_path):
    first = CachedEmbedder(Inner(), directory=tmp_path).embed_query("몇 시?")
    second = CachedEmbedder(Forbidden(), directory=tmp_path).embed_query("몇 시?")
    assert (second.vector.tobytes(), second.ms) == (first.vector.tobytes(), 7.5)


@given(texts=st.lists(st.text(st.characters(codec=None)), min_size=1, max_size=8), again=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_texts_have_the_rows_the_inner_embedder_gives(tmp_path, texts, again):
    cache = CachedEmbedder(Inner(), directory=tmp_path, lru_size=2 if again else 1000)
    assert (cache.embed_passages(texts) == HashingEmbedder(16).embed_passages(texts)).all()
    cache.close()


def test_texts_are_told_apart_by_their_exact_characters(tmp_path):
    composed, decomposed = "\u00e9", "e\u0301"
    inner = Inner()
    CachedEmbedder(inner, directory=tmp_path).embed_passages([composed, decomposed, composed + " "])
    assert len(inner.passages) == 3


def test_texts_of_one_crc32_have_their_own_vectors(tmp_path):
    # mastra PR 17901: a 32-bit key returns another text's vector.
    texts = ["plumless", "buckeroo"]
    assert zlib.crc32(texts[0].encode()) == zlib.crc32(texts[1].encode())
    for _ in range(2):
        rows = CachedEmbedder(Inner(), directory=tmp_path).embed_passages(texts)
        assert (rows == HashingEmbedder(16).embed_passages(texts)).all()


def test_a_repeated_text_is_embedded_once():
    inner = Inner()
    cache = CachedEmbedder(inner, directory=None)
    rows = cache.embed_passages(["a", "b", "a", "a"])
    assert sorted(inner.passages) == ["a", "b"]
    assert (cache.hits, cache.misses) == (2, 2)
    assert rows[0].tobytes() == rows[2].tobytes() == rows[3].tobytes()


def test_only_what_is_missing_is_embedded(tmp_path):
    fill(tmp_path, ["a", "b"])
    inner = Inner()
    CachedEmbedder(inner, directory=tmp_path).embed_passages(["a", "c", "b", "d"])
    assert sorted(inner.passages) == ["c", "d"]


def test_another_identity_shares_nothing(tmp_path):
    fill(tmp_path, ["a"])
    inner = Inner("another model")
    CachedEmbedder(inner, directory=tmp_path).embed_passages(["a"])
    assert inner.passages == ["a"]


def test_a_query_prompt_keeps_queries_and_passages_apart(tmp_path):
    cache = CachedEmbedder(Inner(prompt="query: "), directory=tmp_path)
    passage = cache.embed_passages(["a"])[0]
    assert cache.embed_query("a").vector.tobytes() != passage.tobytes()
    assert cache.misses == 2


@pytest.mark.parametrize("directory", [None, "on disk"])
def test_a_query_equal_to_a_passage_has_its_vector_and_is_timed_once(tmp_path, directory):
    inner = Inner()
    cache = CachedEmbedder(inner, directory=directory and tmp_path)
    passage = cache.embed_passages(["a"])[0]
    inner.embed_query = lambda text: inner.queries.append(text) or TimedVector(-passage, 3.0)
    answers = [cache.embed_query("a"), cache.embed_query("a")]
    assert [(a.vector.tobytes(), a.ms) for a in answers] == [(passage.tobytes(), 3.0)] * 2
    assert (inner.queries, cache.hits, cache.misses) == (["a"], 1, 2)


def test_the_time_taken_for_a_passage_s_text_is_recorded(tmp_path):
    fill(tmp_path, ["a"])
    CachedEmbedder(Inner(), directory=tmp_path).embed_query("a")
    assert CachedEmbedder(Forbidden(), directory=tmp_path).embed_query("a").ms == 7.5


def test_a_recorded_time_is_not_lost_to_a_process_that_has_none(tmp_path):
    file, vector = VectorFile(tmp_path / "x.sqlite", "x"), np.ones(2, dtype=np.float32)
    for ms in (None, 7.5, None, 9.0):
        file.keep({b"key": TimedVector(vector, ms)})
    assert file.read([b"key"])[b"key"].ms == 7.5


def test_one_process_at_a_time_makes_or_repairs_a_file(tmp_path):
    fill(tmp_path, ["a"])
    cache = CachedEmbedder(Inner(), directory=tmp_path)
    lock = cache_file(tmp_path).with_suffix(".sqlite.lock")
    with ThreadPoolExecutor(1) as pool, lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        answer = pool.submit(cache.embed_passages, ["a"])
        with pytest.raises(TimeoutError):
            answer.result(timeout=0.3)
        fcntl.flock(file, fcntl.LOCK_UN)
        assert answer.result(timeout=30).shape == (1, 16)


def test_a_passage_equal_to_a_query_keeps_the_query_s_time(tmp_path):
    cache = CachedEmbedder(Inner(), directory=tmp_path, lru_size=0)
    cache.embed_query("a")
    cache.embed_passages(["a", "b"])
    assert CachedEmbedder(Forbidden(), directory=tmp_path).embed_query("a").ms == 7.5


def test_an_interrupted_call_goes_on_where_it_stopped(tmp_path):
    interrupted = Inner(breaks_at=3, error=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        CachedEmbedder(interrupted, directory=tmp_path).embed_passages(MANY)
    resumed = Inner()
    rows = CachedEmbedder(resumed, directory=tmp_path).embed_passages(MANY)
    assert len(interrupted.passages) == 2 * CHUNK_TEXTS
    assert sorted(interrupted.passages + resumed.passages) == sorted(MANY)
    assert (rows == HashingEmbedder(16).embed_passages(MANY)).all()


def test_the_chunks_after_an_interruption_are_those_without_one(tmp_path):
    # What shares a batch can change a vector's last bits, so a resumed run must batch alike.
    whole, first, rest = Inner(), Inner(breaks_at=3), Inner()
    CachedEmbedder(whole, directory=None).embed_passages(MANY)
    with pytest.raises(EmbedderError):
        CachedEmbedder(first, directory=tmp_path).embed_passages(MANY)
    CachedEmbedder(rest, directory=tmp_path).embed_passages(MANY)
    assert whole.passages == first.passages + rest.passages


def test_progress_tells_what_is_done_and_what_there_is_to_embed(tmp_path):
    fill(tmp_path, MANY[:5])
    told = []
    cache = CachedEmbedder(Inner(), directory=tmp_path, progress=lambda done, total: told.append((done, total)))
    cache.embed_passages(MANY)
    cache.embed_passages(MANY)
    assert told == [(0, 384), (128, 384), (256, 384), (384, 384)]


def test_the_least_recently_used_vector_is_forgotten_first():
    inner = Inner()
    cache = CachedEmbedder(inner, directory=None, lru_size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        cache.embed_query(text)
    assert inner.queries == ["a", "b", "c", "b"]


def test_what_memory_forgets_is_found_on_disk(tmp_path):
    cache = CachedEmbedder(Inner(), directory=tmp_path, lru_size=1)
    cache.embed_passages(MANY)
    cache.embed_passages(MANY)
    assert (cache.misses, cache.hits) == (len(MANY), len(MANY))


@pytest.mark.parametrize("directory", [None, "on disk"])
def test_changing_what_was_returned_changes_nothing_held(tmp_path, directory):
    cache = CachedEmbedder(Inner(), directory=directory and tmp_path)
    before = cache.embed_query("a").vector.tobytes()
    cache.embed_query("a").vector[:] = 0.0
    cache.embed_passages(["a"])[:] = 0.0
    assert cache.embed_query("a").vector.tobytes() == before


def damage_row(path, statement, *values):
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE vectors SET vector = zeroblob(64) WHERE rowid = 2",
        "UPDATE vectors SET vector = (SELECT vector FROM vectors WHERE rowid = 1), "
        "crc = (SELECT crc FROM vectors WHERE rowid = 1) WHERE rowid = 2",
        "UPDATE vectors SET crc = 0 WHERE rowid = 2",
        "UPDATE vectors SET vector = 'text' WHERE rowid = 2",
        "UPDATE vectors SET vector = substr(vector, 1, 63) WHERE rowid = 2",
    ],
    ids=["other bytes", "another text's row", "other sum", "no bytes", "cut off"],
)
def test_a_row_that_was_changed_is_embedded_again_and_no_other(tmp_path, caplog, statement):
    rows = fill(tmp_path)
    damage_row(cache_file(tmp_path), statement)
    inner = Inner()
    assert CachedEmbedder(inner, directory=tmp_path).embed_passages(TEXTS).tobytes() == rows.tobytes()
    assert len(inner.passages) == 1
    assert "wrong checksum" in caplog.text
    assert CachedEmbedder(Forbidden(), directory=tmp_path).embed_passages(TEXTS).tobytes() == rows.tobytes()


def garbage(path):
    path.write_bytes(b"no database at all" * 1000)


def cut(path):
    path.write_bytes(path.read_bytes()[:5000])


def overwrite(path, start):
    content = bytearray(path.read_bytes())
    content[start:] = b"\xff" * (len(content) - start)
    path.write_bytes(content)


def overwrite_all_but_the_header(path):
    overwrite(path, 4096)


def overwrite_rows(path):
    overwrite(path, 40960)


def rename_identity(path):
    damage_row(path, "UPDATE about SET value = 'another' WHERE name = 'identity'")


def rename_schema(path):
    damage_row(path, "UPDATE about SET value = '0' WHERE name = 'schema'")


def replace_tables(path):
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE other (a)").connection.close()


BREAKERS = [garbage, cut, overwrite_all_but_the_header, overwrite_rows, rename_identity, rename_schema, replace_tables]


@pytest.mark.parametrize("break_file", BREAKERS, ids=lambda breaker: breaker.__name__)
def test_a_file_that_cannot_be_used_is_moved_aside_and_made_anew(tmp_path, caplog, break_file):
    rows = fill(tmp_path, MANY)
    path = cache_file(tmp_path)
    break_file(path)
    broken = path.read_bytes()
    with caplog.at_level(logging.WARNING):
        assert CachedEmbedder(Inner(), directory=tmp_path).embed_passages(MANY).tobytes() == rows.tobytes()
    assert path.with_name(path.name + ".damaged").read_bytes()[4096:5000] == broken[4096:5000]
    assert "moved to" in caplog.text
    assert CachedEmbedder(Forbidden(), directory=tmp_path).embed_passages(MANY).tobytes() == rows.tobytes()


def test_the_cache_of_another_embedder_survives_a_damaged_one(tmp_path):
    fill(tmp_path, ["a"])
    damaged = cache_file(tmp_path)
    CachedEmbedder(Inner("other"), directory=tmp_path).embed_passages(["a"])
    garbage(damaged)
    CachedEmbedder(Inner(), directory=tmp_path).embed_passages(["a"])
    assert CachedEmbedder(Forbidden("other"), directory=tmp_path).embed_passages(["a"]).shape == (1, 16)


def test_a_file_that_is_damaged_while_it_is_open_is_made_anew(tmp_path):
    fill(tmp_path, MANY)
    cache = CachedEmbedder(Inner(), directory=tmp_path, lru_size=0)
    cache.embed_passages(MANY[:1])
    overwrite_all_but_the_header(cache_file(tmp_path))
    assert (cache.embed_passages(MANY) == HashingEmbedder(16).embed_passages(MANY)).all()
    assert CachedEmbedder(Forbidden(), directory=tmp_path).embed_passages(MANY).shape == (len(MANY), 16)


@pytest.mark.parametrize("place", ["a file", "a file/below", "a link to nowhere"])
def test_a_directory_that_cannot_be_written_is_named_with_what_to_do(tmp_path, place):
    (tmp_path / "a file").write_text("in the way")
    (tmp_path / "a link to nowhere").symlink_to("/proc/nowhere")
    with pytest.raises(StoreError, match=rf"{place}.* cannot be used.*RECALL_HOME"):
        CachedEmbedder(Inner(), directory=tmp_path / place).embed_passages(["a"])


def test_a_failure_of_the_inner_embedder_keeps_the_chunks_before(tmp_path):
    with pytest.raises(EmbedderError, match="stopped"):
        CachedEmbedder(Inner(breaks_at=2), directory=tmp_path).embed_passages(MANY)
    held = sorted(MANY, key=len, reverse=True)[:CHUNK_TEXTS]
    assert CachedEmbedder(Forbidden(), directory=tmp_path).embed_passages(held).shape == (CHUNK_TEXTS, 16)


@pytest.mark.parametrize("shape", [(1, 16), (2,), (3, 16)])
def test_an_inner_embedder_that_gives_other_rows_than_asked_for_is_an_error(monkeypatch, shape):
    inner = Inner()
    monkeypatch.setattr(inner, "embed_passages", lambda texts: np.ones(shape, dtype=np.float32))
    with pytest.raises(EmbedderError, match=r"expected \(2, dim\)"):
        CachedEmbedder(inner, directory=None).embed_passages(["a", "b"])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_a_vector_that_cannot_be_used_is_never_kept(tmp_path, monkeypatch, bad):
    inner = Inner()
    monkeypatch.setattr(inner, "embed_passages", lambda texts: np.full((len(texts), 16), bad, dtype=np.float32))
    monkeypatch.setattr(inner, "embed_query", lambda text: TimedVector(np.full(16, bad, dtype=np.float32), 1.0))
    cache = CachedEmbedder(inner, directory=tmp_path)
    for embed in (cache.embed_query, lambda text: cache.embed_passages([text])):
        with pytest.raises(EmbedderError, match="1 of 1 vectors"):
            embed("a")
    monkeypatch.undo()
    assert cache.embed_passages(["a"]).tobytes() == HashingEmbedder(16).embed_passages(["a"]).tobytes()


def test_another_dim_under_one_identity_is_refused_with_both_numbers(tmp_path):
    fill(tmp_path, ["a"])
    with pytest.raises(IdentityError, match=r"\[8, 16\].*delete the embedding cache"):
        CachedEmbedder(Inner(dim=8), directory=tmp_path).embed_passages(["a", "b"])


def test_another_dim_is_refused_before_it_is_kept(tmp_path):
    fill(tmp_path, ["a"])
    with pytest.raises(IdentityError, match=r"\[8, 16\]"):
        CachedEmbedder(Inner(dim=8), directory=tmp_path).embed_passages(["b"])
    assert CachedEmbedder(Inner(), directory=tmp_path).embed_passages(["a", "b"]).shape == (2, 16)


def test_the_first_vector_of_a_text_stays_where_two_processes_embed_it_at_once(tmp_path):
    class Slower(Inner):
        def embed_passages(self, texts):
            fill(tmp_path, texts)
            return -super().embed_passages(texts)

    rows = CachedEmbedder(Slower(), directory=tmp_path).embed_passages(["a"])
    assert rows.tobytes() == HashingEmbedder(16).embed_passages(["a"]).tobytes()


def test_no_texts_are_passed_on(tmp_path):
    assert CachedEmbedder(Inner(), directory=tmp_path).embed_passages([]).shape == (0, 16)


def test_threads_share_one_cache(tmp_path):
    cache = CachedEmbedder(Inner(), directory=tmp_path, lru_size=10)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda _: cache.embed_passages(MANY).tobytes(), range(8)))
    assert set(rows) == {HashingEmbedder(16).embed_passages(MANY).tobytes()}
    assert cache.misses == len(MANY)


@pytest.mark.slow
def test_processes_share_one_directory(tmp_path):
    program = (
        "import sys; from recall.embedders.cached import CachedEmbedder as Cache; "
        "from recall.embedders.hashing import HashingEmbedder as Inner; "
        "texts = [f'메시지 {n}' for n in range(1000)]; "
        "rows = Cache(Inner(16), directory=sys.argv[1]).embed_passages(texts); "
        "assert (rows == Inner(16).embed_passages(texts)).all()"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(4)]
    assert [process.wait() for process in started] == [0, 0, 0, 0]
    cache = CachedEmbedder(HashingEmbedder(16), directory=tmp_path)
    cache.embed_passages([f"메시지 {n}" for n in range(1000)])
    assert cache.misses == 0
