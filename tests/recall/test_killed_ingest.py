"""A process that is killed while it writes leaves whole turns; readers beside a writer see whole turns."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recall.embedders.hashing import HashingEmbedder
from recall.engine import RecallEngine
from recall.indexes.exact import ExactIndex
from recall.options import RecallOptions
from recall.retrievers.dense import DenseRetriever
from recall.schema import RequestContext, SearchScope
from recall.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.slow
ANN = RequestContext("t", "ann")
THREAD = SearchScope("ann", "t")
ROUNDS = 6

WRITER = """
import sys
from recall import Message, RecallEngine
from recall.embedders.hashing import HashingEmbedder
from recall.indexes.exact import ExactIndex
from recall.retrievers.dense import DenseRetriever
from recall.schema import utc
from recall.stores.sqlite import SQLiteStore
from datetime import timedelta

store = SQLiteStore(sys.argv[1])
engine = RecallEngine(DenseRetriever(HashingEmbedder(16), ExactIndex()), store)
first = len(store) // 2
for n in range(first, first + int(sys.argv[2])):
    at = utc(2024, 3, 5) + timedelta(minutes=n)
    engine.ingest([
        Message(f"q{n}", "t", "ann", "user", f"question number {n}", at),
        Message(f"a{n}", "t", "ann", "assistant", f"answer number {n}", at),
    ])
    print(n, flush=True)
"""

READER = """
import sys, time
from recall import RecallEngine, RecallOptions, RequestContext
from recall.embedders.hashing import HashingEmbedder
from recall.indexes.exact import ExactIndex
from recall.retrievers.dense import DenseRetriever
from recall.stores.sqlite import SQLiteStore

engine = RecallEngine(DenseRetriever(HashingEmbedder(16), ExactIndex()), SQLiteStore(sys.argv[1]))
end, reads, most = time.monotonic() + 60, 0, 0
while most < int(sys.argv[2]) and time.monotonic() < end:
    found = engine.recall("answer number", RecallOptions(1000, message_range=0), RequestContext("t", "ann"))
    ids = {entry.message.message_id for entry in found.context}
    turns = {name[1:] for name in ids}
    assert ids == {kind + number for number in turns for kind in "qa"}, sorted(ids)
    assert len(turns) >= most, "what was there is gone"
    reads, most = reads + 1, len(turns)
    if reads == 1:
        print("reading", flush=True)
print(reads, most)
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def engine_over(path: Path) -> RecallEngine:
    return RecallEngine(DenseRetriever(HashingEmbedder(16), ExactIndex()), SQLiteStore(path))


def test_a_killed_ingest_leaves_whole_turns_and_every_acknowledged_one(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    chance = random.Random(7)
    acknowledged: set[int] = set()
    for _ in range(ROUNDS):
        writer = start(WRITER, path, 100_000)
        assert writer.stdout is not None
        acknowledged.add(int(writer.stdout.readline()))
        time.sleep(chance.uniform(0.0, 0.25))
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged |= {int(line) for line in writer.communicate()[0].split("\n") if line.strip().isdigit()}
        engine = engine_over(path)
        held = engine.store.span(THREAD, 0, 2**40)
        assert len(held) % 2 == 0
        assert [m.message_id for m in held] == [f"{kind}{n}" for n in range(len(held) // 2) for kind in "qa"]
        assert {f"a{n}" for n in acknowledged} <= {m.message_id for m in held}
        assert [m.position for m in held] == list(range(len(held)))
        index = engine.index
        assert index is not None
        assert engine.store.embedded(index.name, [m.message_id for m in held]) == {m.message_id for m in held}
        found = engine.recall("answer number 0", RecallOptions(1, message_range=0), ANN)
        assert found.hits[0].message_id == "a0"
    assert len(acknowledged) > ROUNDS


def test_two_readers_beside_a_writer_see_no_error_and_no_half_turn(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    assert start(WRITER, path, 1).communicate(timeout=90)[1] == ""
    readers = [start(READER, path, 151) for _ in range(2)]
    # A machine may start the writer sooner than a reader.
    assert [reader.stdout.readline() for reader in readers if reader.stdout] == ["reading\n"] * 2
    writer = start(WRITER, path, 150)
    assert writer.communicate(timeout=90)[1] == ""
    for reader in readers:
        out, err = reader.communicate(timeout=90)
        assert (reader.returncode, err) == (0, "")
        reads, most = map(int, out.split())
        assert reads > 1, "the reader was not there while the writer wrote"
        assert most == 151, "the reader has seen all that the writer wrote meanwhile"
