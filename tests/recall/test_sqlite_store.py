"""The SQLite store: what lasts, what is refused, and what a file of another version becomes."""

import sqlite3
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall import message_file
from recall.errors import StoreError
from recall.message_file import APPLICATION_ID, MIGRATIONS
from recall.protocols import Embeddings, IndexKey, VectorSpace
from recall.schema import Message, SearchScope, Thread, utc
from recall.stores.sqlite import SQLiteStore

KEY = IndexKey("index", VectorSpace("model", "v1"))
THREAD = SearchScope("ann", "t")
ANY = st.text(st.characters(), max_size=20)
"""Any characters: lone surrogates and NUL too."""


def say(message_id: str, text: str = "안녕", at: int = 0) -> Message:
    return Message(message_id, "t", "ann", "user", text, utc(2024, 3, 5) + timedelta(seconds=at))


def vectors(*names: str) -> Embeddings:
    return Embeddings(KEY, {name: np.eye(1, 4, dtype=np.float32)[0] for name in names})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def test_everything_lasts(path):
    store = SQLiteStore(path)
    store.add([say("a"), say("b", at=1)], vectors("a"))
    store.put_thread(Thread("t", "ann", {"project": "베타"}))
    before = (store.span(THREAD, 0, 9), store.threads(), store.indexes(), store.changes("ann", 0, KEY).revision)
    store.close()
    again = SQLiteStore(path)
    assert (again.span(THREAD, 0, 9), again.threads(), again.indexes(), again.changes("ann", 0, KEY).revision) == before
    again.close()


@given(ids=st.tuples(ANY.filter(bool), ANY.filter(bool), ANY), texts=st.tuples(ANY, ANY, ANY, ANY), at=st.datetimes())
def test_any_text_and_any_time_come_back_exactly(ids, texts, at):
    store = SQLiteStore()
    role, text, name, parts = texts
    said = Message(*ids, role, text, at.replace(tzinfo=utc(2024, 1, 1).tzinfo), name=name, parts=parts)
    store.add([said])
    assert store.get([ids[0]]) == {ids[0]: said}
    store.close()


@pytest.mark.parametrize("year", [1, 9999])
def test_the_first_and_the_last_year_are_times(path, year):
    said = Message("m", "t", "ann", "user", "", utc(year, 1, 1) + timedelta(microseconds=1))
    store = SQLiteStore(path)
    assert store.add([said]) == [said]
    store.close()


def test_nothing_is_opened_before_it_is_needed(path):
    SQLiteStore(path)
    assert not path.exists()


def test_a_private_file_goes_with_its_store():
    store = SQLiteStore()
    store.add([say("a")])
    file = store._file.path
    assert file.exists()
    store.close()
    del store
    assert not file.exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"not a database at all, but long enough to be read as one" * 20, "give another path"), (b"", None)],
)
def test_a_file_that_is_something_else_is_refused_and_left_alone(path, content, sentence):
    path.write_bytes(content)
    store = SQLiteStore(path)
    if sentence is None:  # an empty file is a new database
        store.add([say("a")])
        store.close()
        return
    with pytest.raises(StoreError, match=sentence):
        store.add([say("a")])
    assert path.read_bytes() == content


def test_another_application_s_database_is_refused_and_left_alone(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another application's database"):
        len(SQLiteStore(path))
    assert path.read_bytes() == before


def test_a_newer_version_is_refused_and_left_alone(path):
    store = SQLiteStore(path)
    store.add([say("a")])
    store.close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"schema version {len(MIGRATIONS) + 1}, expected at most {len(MIGRATIONS)}"):
        len(SQLiteStore(path))
    assert path.read_bytes() == before


def test_an_older_version_becomes_the_newest(path, monkeypatch):
    store = SQLiteStore(path)
    store.add([say("a")], vectors("a"))
    store.close()
    later = (("ALTER TABLE threads ADD COLUMN title", "UPDATE threads SET title = 'untitled'"),)
    monkeypatch.setattr(message_file, "MIGRATIONS", (*MIGRATIONS, *later))
    again = SQLiteStore(path)
    assert [m.message_id for m in again.span(THREAD, 0, 9)] == ["a"]
    again.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 1,)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("SELECT title FROM threads").fetchall() == [("untitled",)]
    connection.close()


def test_a_migration_that_fails_changes_nothing(path, monkeypatch):
    store = SQLiteStore(path)
    store.add([say("a")])
    store.close()
    broken = (("ALTER TABLE threads ADD COLUMN title", "UPDATE nowhere SET x = 1"),)
    monkeypatch.setattr(message_file, "MIGRATIONS", (*MIGRATIONS, *broken))
    with pytest.raises(StoreError, match="nowhere"):
        len(SQLiteStore(path))
    monkeypatch.undo()
    again = SQLiteStore(path)
    assert len(again) == 1
    again.close()


def test_a_folder_that_is_missing_or_a_file_that_is_one_is_told(path, tmp_path):
    with pytest.raises(StoreError, match="no folder"):
        SQLiteStore(tmp_path / "missing" / "chat.db").add([say("a")])
    with pytest.raises(StoreError, match="cannot be used"):
        SQLiteStore(tmp_path).add([say("a")])


def test_a_damaged_vector_is_missing_and_can_be_made_again(path, caplog):
    store = SQLiteStore(path)
    store.add([say("a"), say("b", at=1)], vectors("a", "b"))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE embeddings SET vector = zeroblob(16) WHERE message_key = 0")
    connection.close()
    vector_of = {entry.message.message_id: entry.vector for entry in store.changes("ann", 0, KEY).changed}
    assert (vector_of["a"], vector_of["b"] is not None) == (None, True)
    assert "1 damaged vector" in caplog.text
    assert store.embedded(KEY.name, ["a", "b"]) == {"b"}
    store.add([say("a")], vectors("a"))
    assert store.embedded(KEY.name, ["a", "b"]) == {"a", "b"}
    store.close()


def test_a_moment_stays_while_another_thread_of_execution_writes(path):
    store = SQLiteStore(path)
    store.add([say("a")])
    with store.reading():
        assert len(store) == 1
        writer = threading.Thread(target=lambda: store.add([say("b", at=1)]))
        writer.start()
        writer.join()
        assert (len(store), store.get(["b"])) == (1, {})
        with store.reading():
            assert len(store) == 1
    assert len(store) == 2
    store.close()


def test_writing_inside_a_moment_is_told(path):
    store = SQLiteStore(path)
    with store.reading(), pytest.raises(StoreError, match="inside `reading"):
        store.add([say("a")])
    store.add([say("a")])
    store.close()


def test_a_failed_write_leaves_the_store_usable(path):
    store = SQLiteStore(path)
    with pytest.raises(ZeroDivisionError), store._file.writing() as connection:
        connection.execute("UPDATE state SET revision = 99")
        raise ZeroDivisionError
    store.add([say("a")])
    assert store.changes("ann", 0, None).revision == 1
    store.close()


def test_many_threads_of_execution_share_a_store(path):
    store = SQLiteStore(path)
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for n in range(10):
                store.add([say(f"{worker}-{n}", at=n)])
                assert store.get([f"{worker}-{n}"])
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert [m.position for m in store.span(THREAD, 0, 99)] == list(range(60))
    store.close()
