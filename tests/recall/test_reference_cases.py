"""Every recorded case of the reference, on every store and index: the same, or different in a way the docs say.

RECALL_ORACLE_DIR points at another folder of cases of the same schema. Where a case there differs, a rule of the docs
must apply to it and its expectation must hold; for the cases recorded here our own result is stored as well.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from reference_replay import recorded, replay
from reference_rules import RULES

from recall.indexes.exact import ExactIndex
from recall.indexes.hnsw import HnswIndex
from recall.stores.memory import InMemoryStore
from recall.stores.sqlite import SQLiteStore

ROOT = Path(__file__).parents[2]
HERE = ROOT / "tests" / "golden" / "mastra"
OURS = ROOT / "tests" / "golden" / "ours"
DOCS = ROOT / "docs" / "reference" / "deviations.md"
FOLDER = Path(os.environ.get("RECALL_ORACLE_DIR") or HERE)
COMPARED = ("messages", "blocks", "embedded", "upserts", "indexes", "errors", "thrown", "outputs", "call_count")
A3_BULLETS = 12


def cases_of(folder: Path) -> list[Any]:
    return [case for path in sorted(folder.glob("*.json")) for case in json.loads(path.read_text("utf-8"))["cases"]]


def table() -> dict[str, dict[str, str]]:
    """The rows of the docs' table by rule."""
    lines = [line for line in DOCS.read_text("utf-8").splitlines() if line.startswith("|")]
    names, rows = [cell.strip() for cell in lines[0].strip("|").split("|")], {}
    for line in lines[2:]:
        row = dict(zip(names, (cell.strip() for cell in line.strip("|").split(" | ")), strict=True))
        rows[row["rule"].strip("`")] = row
    return rows


CASES = cases_of(FOLDER)
TABLE = table()
STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda folder: InMemoryStore(),
    "sqlite": lambda folder: SQLiteStore(folder / "messages.db"),
}
INDEXES: dict[str, Callable[[], Any]] = {"exact": ExactIndex, "hnsw": HnswIndex}
SEEN: Counter[str] = Counter()


def differences(case: Any, ours: Any, theirs: Any) -> list[str]:
    """Observations in which a step of ours is not the recorded one."""
    found = []
    for number, (mine, theirs_step) in enumerate(zip(ours, theirs, strict=True)):
        for name in COMPARED:
            if name in theirs_step and mine.get(name) != theirs_step[name]:
                if name == "messages" and "tie" in case["tags"] and _scores(case, mine) == _scores(case, theirs_step):
                    continue
                found.append(f"step {number}: {name} is {mine.get(name)!r}, recorded {theirs_step[name]!r}")
    return found


def _scores(case: Any, step: Any) -> list[float]:
    """Scores of what was recalled: within a tie any choice is right."""
    vectors = case["embedders"]["main"]["vectors"]
    texts = {
        message["id"]: "\n".join(part["text"] for part in message["content"]["parts"])
        for each in case["steps"]
        for turn in each.get("turns", ())
        for message in (*turn.get("input", ()), *turn.get("response", ()))
    }
    question = next(each for each in case["steps"] if each["op"] == "recall")["messages"][-1]
    asked = vectors["\n".join(part["text"] for part in question["content"]["parts"])]
    found = [vectors[texts[row[0]]] for row in step.get("messages", ()) if row[4] == "memory"]
    return sorted(round(sum(a * b for a, b in zip(asked, vector, strict=True)), 5) for vector in found)


def own_result(case: Any) -> Any:
    path = OURS / f"{case['group']}.json"
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return stored.get(case["id"]) if FOLDER == HERE else None


def faults_of(case: Any, ours: Any) -> list[str]:
    """What is wrong with our result of a case; also counts what became of it."""
    theirs = recorded(case)
    different, mine = differences(case, ours, theirs), own_result(case)
    if not different:
        SEEN["same"] += 1
        return [] if mine is None else ["the case no longer differs, so take it out of tests/golden/ours"]
    rules = [name for name, rule in RULES.items() if rule.applies(case)]
    if not rules:
        return ["differs, and no rule of the docs applies", *different]
    SEEN[" + ".join(rules)] += 1
    faults = [f"{name}: {fault}" for name in rules for fault in RULES[name].faults(case, ours, theirs)]
    if FOLDER == HERE:
        listed = " ".join(TABLE[name]["cases"] for name in rules).replace(",", " ").split()
        if f"`{case['id']}`" not in listed:
            faults.append(f"is not listed in the rows of {rules} in {DOCS.name}")
        if json.loads(json.dumps(ours)) != mine:
            faults.append("our result is not the one stored in tests/golden/ours")
    return faults


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_recorded_case_is_the_same_or_differs_as_the_docs_say(case, store, index, tmp_path):
    ours = replay(case, lambda: STORES[store](tmp_path), INDEXES[index])
    assert faults_of(case, ours) == []


def test_the_cases_are_there():
    assert CASES
    assert FOLDER != HERE or len(CASES) == 222


def test_the_table_has_a_row_for_every_rule_and_each_names_what_covers_it():
    assert TABLE.keys() == RULES.keys()
    for name, row in TABLE.items():
        bullet = row["covered by"]
        is_bullet = bullet.startswith("promise ") and 1 <= int(bullet.split()[1].strip(":")) <= A3_BULLETS
        assert is_bullet or (name == "memory-class" and bullet == "group memory-class"), name


def test_every_listed_case_differs():
    """A row that is not needed any more must go."""
    listed = {cell.strip("`") for row in TABLE.values() for cell in row["cases"].replace(",", " ").split()}
    stored = {case_id for path in OURS.glob("*.json") for case_id in json.loads(path.read_text("utf-8"))}
    assert listed == stored


def test_a_wrong_expectation_is_found():
    """The comparison itself can fail: a recorded message, block, text, upsert and error, each changed by a little."""
    case = next(case for case in cases_of(HERE) if case["id"] == "d-scope-resource")
    ours = replay(case, InMemoryStore, ExactIndex)
    assert differences(case, ours, recorded(case)) == []
    for change in (
        lambda step: step["messages"].reverse(),
        lambda step: step["blocks"].append("more"),
        lambda step: step["embedded"].append("more"),
        lambda step: step["upserts"].update(m9={}),
        lambda step: step.update(errors=True),
    ):
        theirs = deepcopy(recorded(case))
        change(theirs[-1])
        assert len(differences(case, ours, theirs)) == 1


@pytest.mark.parametrize("case", [case for case in cases_of(HERE) if case["id"].startswith("d-range-tie-")], ids=str)
def test_a_rule_s_expectation_can_fail(case):
    """Were our result the reference's, the rule for equal times would say that it is wrong."""
    rule, theirs = RULES["equal-times"], recorded(case)
    if rule.applies(case) and case["id"] != "d-range-tie-5-libsql":
        assert rule.faults(case, theirs, theirs)


@pytest.mark.skipif(FOLDER != HERE, reason="already reading another folder")
@pytest.mark.slow
@pytest.mark.parametrize(("group", "changed", "code"), [("range", False, 0), ("stale", False, 0), ("stale", True, 1)])
def test_another_folder_of_cases_is_replayed_by_the_same_rules(tmp_path, group, changed, code):
    """Cases under other ids pass; one whose recording no rule explains does not."""
    text = (HERE / f"{group}.json").read_text("utf-8").replace('"id":"d-', '"id":"other-')
    if changed:
        text = text.replace('"messages":[{"id":"m3"', '"messages":[{"id":"m2"')
    (tmp_path / "cases.json").write_text(text, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "RECALL_ORACLE_DIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout[-2000:]


@pytest.fixture(scope="module", autouse=True)
def _summary(request: pytest.FixtureRequest):
    yield
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    if reporter is not None and capture is not None and SEEN:
        counted = ", ".join(f"{name} {count}" for name, count in SEEN.most_common())
        with capture.global_and_fixture_disabled():
            reporter.write_line(f"\nrecorded cases, each on {len(STORES)} stores, {len(INDEXES)} indexes: {counted}")
