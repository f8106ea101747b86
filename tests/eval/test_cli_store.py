"""`recall ingest` and `recall search` over a store that lasts."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eval.cli import main
from eval.ingestion import CHUNK_MESSAGES
from recall.stores.sqlite import SQLiteStore

HASHING = ("--set", "embedder=hashing")
LINES = [
    {"message_id": "a", "thread_id": "trip", "resource_id": "mina", "role": "user", "text": "제주 ferry at noon 🌊"},
    {"role": "assistant", "content": "Noted.", "threadId": "trip", "resourceId": "mina"},
    {"id": "x", "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "bob's own"}]}},
]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line with the hashing embedder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*words, *(() if "--set" in words else HASHING)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def write(path: Path, lines: list[dict]) -> str:
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), "utf-8")
    return str(path)


@pytest.fixture
def ingest(run: Run, tmp_path: Path) -> Callable[..., dict]:
    """Ingests lines as bob in thread t, and gives the report."""

    def call(lines: list[dict], *words: str) -> dict:
        file = write(tmp_path / "messages.jsonl", lines)
        where = ("--store", "chat.db", "--thread", "t", "--resource", "bob")
        code, out, err = run("ingest", *where, file, *words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


def test_messages_of_every_form_are_ingested_and_found(ingest, run: Run) -> None:
    done = ingest(LINES)
    assert done["messages"] == {"read": 3, "new": 3, "changed": 0, "unchanged": 0}
    assert (done["held"]["messages"], done["held"]["threads"], done["held"]["resources"]) == (3, 2, 2)
    found = json.loads(run("search", "--store", "chat.db", "제주 ferry", "--resource", "mina", "--json")[1])
    assert found["hits"][0]["message_id"] == "a"
    assert "bob" not in json.dumps(found)


def test_the_same_file_again_changes_nothing(ingest) -> None:
    """Also for lines without id and time: the id comes from the line, the time is the one stored."""
    ingest(LINES)
    done = ingest(LINES)
    assert done["messages"] == {"read": 3, "new": 0, "changed": 0, "unchanged": 3}


def test_a_longer_and_edited_file_adds_and_edits(ingest) -> None:
    ingest(LINES)
    edited = {**LINES[0], "text": "제주 ferry at one"}
    done = ingest([edited, *LINES[1:], {"role": "user", "content": "more"}])
    assert done["messages"] == {"read": 4, "new": 1, "changed": 1, "unchanged": 2}


def test_every_wrong_line_is_told_and_nothing_is_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"role": "user"}\n[1]\n{oops\n{"role": 3, "content": "x"}\n', "utf-8")
    code, out, err = run("ingest", "--store", "chat.db", "bad.jsonl", "--thread", "t")
    assert (code, out) == (2, "")
    assert [line.split(":")[0].strip("- ") for line in err.splitlines()[1:]] == ["line 2", "line 3", "line 4"]
    assert not (tmp_path / "chat.db").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ingest", "--store", "chat.db"), "nothing to ingest"),
        (("ingest", "m.jsonl"), "--store"),
        (("ingest", "--store", "chat.db", "missing.jsonl"), "missing.jsonl"),
        (("ingest", "--store", "no/folder/chat.db", "one.jsonl"), "no folder"),
        (("ingest", "--store", "one.jsonl", "one.jsonl"), "not a database"),
        (("ingest", "--store", "chat.db", "empty.jsonl"), "no messages"),
        (("ingest", "--store", "chat.db", "latin.jsonl"), "not UTF-8"),
        (("search", "--store", "chat.db", "hi"), "no message store"),
        (("search", "--store", ".", "hi"), "is a folder"),
        (("search", "--store", "one.jsonl", "hi"), "not a database"),
        (("search", "--store", "one.jsonl", "hi", "--set", "collection=tiny"), "collection means nothing here"),
        (("search", "--store", "one.jsonl", "hi", "--set", "store.path=x"), "store.path means nothing here"),
    ],
)
def test_a_mistake_is_one_sentence(run: Run, tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    write(tmp_path / "one.jsonl", [{"role": "user", "content": "hi", "thread_id": "t"}])
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "latin.jsonl").write_bytes('{"role": "user", "content": "é"}'.encode("latin-1"))
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert not (tmp_path / "chat.db").exists()


def test_a_resource_must_be_named_where_there_are_several(ingest, run: Run) -> None:
    ingest(LINES)
    code, _, err = run("search", "--store", "chat.db", "ferry")
    assert (code, err) == (2, "recall: the store has 2 resources; name one with --resource: bob, mina\n")


@pytest.mark.parametrize(("flag", "known"), [("--resource", "bob, mina"), ("--thread", "trip")])
def test_an_unknown_resource_or_thread_lists_what_there_is(ingest, run: Run, flag: str, known: str) -> None:
    ingest(LINES)
    owner = ("--resource", "mina") if flag == "--thread" else ()
    code, _, err = run("search", "--store", "chat.db", "ferry", *owner, flag, "nobody")
    assert code == 2
    assert err.endswith(f"expected one of {known}\n")


def test_thread_scope_without_a_thread_says_why_nothing_is_found(ingest, run: Run) -> None:
    ingest(LINES)
    scope = ("--set", "recall.scope=thread", *HASHING)
    out = run("search", "--store", "chat.db", "ferry", "--resource", "mina", *scope)[1]
    assert "no --thread is named" in out
    found = json.loads(
        run("search", "--store", "chat.db", "ferry", "--resource", "mina", "--thread", "trip", *scope, "--json")[1]
    )
    assert found["hits"]


def test_another_embedder_is_refused_until_everything_is_embedded_again(ingest, run: Run) -> None:
    ingest(LINES)
    other = ("--set", "embedder=hashing", "--set", "embedder.dim=64")
    search = ("search", "--store", "chat.db", "ferry", "--resource", "mina")
    code, _, err = run(*search, *other)
    assert code == 2
    assert "hashing-256" in err and "hashing-64" in err and "--reindex" in err
    assert run("ingest", "--store", "chat.db", "--reindex", *other)[0] == 0
    assert run(*search, *other)[0] == run(*search)[0] == 0


def test_standard_input_is_a_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", iter(['{"role": "user", "content": "hi"}\n']))
    code, out, _ = run("ingest", "--store", "chat.db", "-", "--thread", "t", "--json")
    assert (code, json.loads(out)["messages"]["new"]) == (0, 1)


def test_a_transaction_holds_whole_turns(ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    add = SQLiteStore.add
    monkeypatch.setattr(
        SQLiteStore, "add", lambda store, messages, *rest: sizes.append(len(messages)) or add(store, messages, *rest)
    )
    turn = [{"role": "user", "content": "q"}, *({"role": "assistant", "content": f"a{n}"} for n in range(4))]
    ingest([{**line, "content": f"{line['content']} {number}"} for number in range(30) for line in turn])
    assert sum(sizes) == 150
    assert len(sizes) > 1
    assert all(size % 5 == 0 and size < CHUNK_MESSAGES + 5 for size in sizes)
