"""Where our engine differs from the reference on purpose: when a rule applies to a case, and what must hold then.

Whether a rule applies is read off the inputs of a case alone. What must hold is checked against the recording, or
computed anew from the inputs by the literal definition.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reference_replay import _number, _numbers

from recall.remembered.mastra import CLOSING, OPENING
from recall.schema import utc

Json = Any
Steps = list[dict[str, Json]]
MAX_RANGE = 10_000


@dataclass(frozen=True)
class Rule:
    """One deliberate difference.

    Attributes:
        applies: Read off a case's inputs.
        faults: What is wrong with our result, in words; given the case, ours, and the recorded.
    """

    applies: Callable[[Json], bool]
    faults: Callable[[Json, Steps, Steps], list[str]]


def _stored(case: Json) -> list[Json]:
    """Every message of the case, in the order of its arrival in storage."""
    found: list[Json] = []
    for step in case["steps"]:
        if step["op"] in ("store", "memory_save", "output_raw"):
            found += step["messages"]
        for turn in step.get("turns", ()):
            found += [*turn.get("input", ()), *turn.get("response", ())]
    return found


def _text(message: Json) -> str:
    content = message["content"]
    texts = [part["text"] for part in content.get("parts", ()) if part.get("type") == "text" and part.get("text")]
    return content.get("content") or "\n".join(texts)


def _recalls(case: Json) -> list[int]:
    return [number for number, step in enumerate(case["steps"]) if step["op"] == "recall"]


def _bad_option(options: Json) -> str | None:
    """The option that is outside what is allowed; its name as our options have it."""
    top_k, threshold = _numbers(options.get("topK")), _numbers(options.get("threshold"))
    if top_k is not None and not (_is_whole(top_k) and 1 <= top_k <= 100_000):
        return "top_k"
    given = _numbers(options.get("messageRange"))
    for value in given.values() if isinstance(given, dict) else [given]:
        if value is not None and not (_is_whole(value) and 0 <= value <= MAX_RANGE):
            return "message_range"
    if threshold is not None and not -1 <= threshold <= 1:
        return "threshold"
    return None


def _is_whole(value: float) -> bool:
    return math.isfinite(value) and value == int(value)


def _is_refused(case: Json) -> bool:
    return any(_bad_option(spec.get("options", {})) for spec in case["processors"].values())


def _refused_faults(case: Json, ours: Steps, _: Steps) -> list[str]:
    faults = []
    for number in _recalls(case):
        step = case["steps"][number]
        wanted = _bad_option(case["processors"][step.get("processor", "A")].get("options", {}))
        given = ours[number].get("refused")
        if wanted and not (given and given.startswith(wanted)):
            faults.append(f"step {number}: {wanted} should be refused, got {given!r}")
    return faults


def _has_equal_times(case: Json) -> bool:
    """Messages of one thread share a time, and the reference orders them by id (libsql) or backwards (its history)."""
    seen: set[tuple[str, str]] = set()
    ties = False
    for message in {m["id"]: m for m in _stored(case)}.values():
        key = (message["threadId"], message["createdAt"])
        ties = ties or key in seen
        seen.add(key)
    uses_history = any("history" in step for step in case["steps"])
    return ties and (case["storage"]["kind"] == "libsql" or uses_history)


def _equal_times_faults(case: Json, ours: Steps, recorded: Steps) -> list[str]:
    """The literal windows of the recorded hits, and the last messages, by (time, arrival)."""
    faults = []
    for number in _recalls(case):
        wanted, got = _expected_here(case, number), [row[0] for row in ours[number]["messages"] if row[4] == "memory"]
        if wanted != got:
            faults.append(f"step {number}: expected {wanted}, got {got}")
    return faults


def _expected_here(case: Json, number: int) -> list[str]:
    step, expected = case["steps"][number], case["expected"][number]
    stored = [m for m in _arrived(case, number) if m["role"] != "system"]
    resource = step.get("resource_id")
    here = [m for m in stored if m["threadId"] == step["thread_id"] and m.get("resourceId") == resource]
    here.sort(key=lambda m: m["createdAt"])  # stable: equal times keep their arrival
    options = _numbers(case["processors"][step.get("processor", "A")].get("options", {}))
    before, after = _sides(options.get("messageRange"))
    threshold = options.get("threshold")
    threshold = 0 if "threshold" in options and threshold is None else threshold
    wanted: set[str] = set()
    for call in expected.get("vector_calls", ()):
        for hit in call.get("results", ()) if call["method"] == "query" else ():
            is_over = threshold is None or (hit["score"] is not None and hit["score"] >= threshold)
            at = next((p for p, m in enumerate(here) if m["id"] == hit["message_id"]), None)
            if is_over and at is not None:
                wanted.update(m["id"] for m in here[max(0, at - before) : at + after + 1])
    if "history" in step:
        wanted.update(m["id"] for m in here[-step["history"]["last_messages"] :])
    given = {m["id"] for m in step["messages"]}
    return [m["id"] for m in here if m["id"] in wanted - given]


def _arrived(case: Json, number: int) -> list[Json]:
    return list({m["id"]: m for m in _stored({**case, "steps": case["steps"][:number]})}.values())


def _sides(given: Json) -> tuple[int, int]:
    if given is None:
        return 1, 1
    if isinstance(given, dict):
        return int(given.get("before") or 0), int(given.get("after") or 0)
    return int(given), int(given)


DAY_LINE = re.compile(r"the following messages are from (\d+), (\S+), (\d+)\n")


def _months_faults(case: Json, ours: Steps, recorded: Steps) -> list[str]:
    """Our block is the recorded one with the UTC month of each day in it, in English."""
    days = {datetime.fromisoformat(m["createdAt"]).date() for m in _stored(case)}
    lines = {f"the following messages are from {d.year}, {utc(d.year, d.month, 1):%b}, {d.day}\n" for d in days}
    faults = []
    for number in _recalls(case):
        for mine, theirs in zip(ours[number]["blocks"], recorded[number]["blocks"], strict=True):
            faults += [f"no message is of {line[0]!r}" for line in DAY_LINE.finditer(mine) if line[0] not in lines]
            if DAY_LINE.sub(r"\1 \3", mine) != DAY_LINE.sub(r"\1 \3", theirs):
                faults.append(f"step {number}: more than the month differs")
    return faults


DELIMITER = re.compile(r"<[\s/]*(end_)?remembered_from_other_conversation", re.IGNORECASE)


def _delimiter_faults(case: Json, ours: Steps, recorded: Steps) -> list[str]:
    faults = []
    for number in _recalls(case):
        for mine, theirs in zip(ours[number]["blocks"], recorded[number]["blocks"], strict=True):
            if len(DELIMITER.findall(mine)) != 2 or not mine.endswith("\n" + CLOSING) or mine.count(OPENING) != 1:
                faults.append(f"step {number}: a text opens or closes the block")
            if mine.replace("&lt;", "<") != theirs.replace("&lt;", "<"):
                faults.append(f"step {number}: more than the delimiter differs")
    return faults


def _index_of(case: Json, spec: Json) -> tuple[str, str, str]:
    name = spec.get("embedder", "main")
    index = spec.get("options", {}).get("indexName") or case["embedders"][name].get("modelId") or ""
    return index, name, str(spec.get("options", {}).get("embedderOptions"))


def _shares_an_index(case: Json) -> bool:
    """Two processors have one index name and not the same embedder with the same options."""
    made = {_index_of(case, spec) for spec in case["processors"].values()}
    return len({index for index, *_ in made}) < len(made)


def _identity_faults(case: Json, ours: Steps, recorded: Steps) -> list[str]:
    """Nothing of another embedder is used: what it embedded is embedded again, what it indexed is refused."""
    faults = []
    first: dict[str, tuple[str, str, str]] = {}
    for number, step in enumerate(case["steps"]):
        if "processor" not in step:
            continue
        made = _index_of(case, case["processors"][step["processor"]])
        owner = first.setdefault(made[0], made)
        if step["op"] == "recall" and made != owner:
            if not ours[number]["embedded"]:
                faults.append(f"step {number}: an embedding of {owner} serves {made}")
            if made[1] != owner[1] and any(row[4] == "memory" for row in ours[number]["messages"]):
                faults.append(f"step {number}: an index of {owner} serves {made}")
    return faults


def _hides_a_failure(case: Json) -> bool:
    specs = case["embedders"].values()
    fails = bool(case["vector"].get("fail") or case["storage"].get("fail"))
    has_logger = all(not spec.get("no_logger") for spec in case["processors"].values())
    asked = {_text(m) for step in case["steps"] if step["op"].startswith("recall") for m in step.get("messages", ())}
    zero = any(text in asked and not any(vector) for spec in specs for text, vector in spec["vectors"].items())
    several = any(spec.get("multi_on") for spec in specs)
    nameless = any(not m.get("id") for m in _stored(case))
    return (fails and not has_logger) or zero or several or nameless


def _failure_faults(case: Json, ours: Steps, recorded: Steps) -> list[str]:
    """A step that differs reports an error, and finds nothing that the reference did not find."""
    faults, told = [], False
    for number, (mine, theirs) in enumerate(zip(ours, recorded, strict=True)):
        told = told or (mine["errors"] and not theirs["errors"])
        found = {row[0] for row in mine.get("messages", ())}
        if not found <= {row[0] for row in theirs.get("messages", ())} and "messages" in theirs:
            faults.append(f"step {number}: finds more than was recorded")
        if not mine["upserts"].keys() <= theirs["upserts"].keys():
            faults.append(f"step {number}: indexes more than was recorded")
    return faults if told else [*faults, "the failure is not reported"]


def _unsound(case: Json) -> dict[str, str]:
    """Messages that cannot be indexed, and why: no vector, zero, not a number, or not of the dimension."""
    reasons: dict[str, str] = {}
    name = next(iter(case["processors"].values())).get("embedder", "main") if case["processors"] else "main"
    spec = case["embedders"][name]
    for message in _stored(case):
        text = _text(message)
        vector = [_number(value) for value in spec["vectors"].get(text, spec.get("default_vector")) or ()]
        if text in spec.get("empty_on", ()):
            reasons[message["id"]] = "no vector"
        elif vector and (None in vector or not any(vector) or any(math.isnan(value or 0) for value in vector)):
            reasons[message["id"]] = "zero or NaN"
        elif vector and len(vector) != case["dimension"]:
            reasons[message["id"]] = "another dimension"
    return reasons


def _unsound_faults(case: Json, ours: Steps, recorded: Steps) -> list[str]:
    unsound, faults = _unsound(case), []
    for number, step in enumerate(case["steps"]):
        if step["op"] != "ingest":
            continue
        ids = {
            m["id"] for turn in step["turns"] for m in (*turn.get("input", ()), *turn.get("response", ())) if _text(m)
        }
        if ours[number]["upserts"].keys() != ids - unsound.keys():
            faults.append(
                f"step {number}: indexed {sorted(ours[number]['upserts'])}, not all of the others and only them"
            )
        if ids & unsound.keys() and not ours[number]["errors"]:
            faults.append(f"step {number}: the failure is not reported")
    for number in _recalls(case):
        if ours[number]["messages"] != recorded[number]["messages"]:
            faults.append(f"step {number}: recalls other messages")
    return faults


def _deleted_faults(case: Json, ours: Steps, recorded: Steps) -> list[str]:
    """Deleted messages are not found and take no place: the live ones are as many as were asked for, or all."""
    gone: set[str] = set()
    faults = []
    for number, step in enumerate(case["steps"]):
        if step["op"] == "delete_messages":
            gone |= set(step["ids"])
        if step["op"] != "recall":
            continue
        options = _numbers(case["processors"][step.get("processor", "A")].get("options", {}))
        found = {row[0] for row in ours[number]["messages"] if row[4] == "memory"}
        live = [
            m for m in _arrived(case, number) if m["id"] not in gone and m.get("resourceId") == step.get("resource_id")
        ]
        if found & gone:
            faults.append(f"step {number}: finds {sorted(found & gone)}, which are deleted")
        if len(found) + len(ours[number]["blocks"]) < min(int(options.get("topK") or 4), len(live)):
            faults.append(f"step {number}: deleted messages take places")
    return faults


def _is_ownerless(case: Json) -> bool:
    """Somebody asks without a resource in a thread that several resources use."""
    owners: dict[str, set[str]] = {}
    for message in _stored(case):
        owners.setdefault(message["threadId"], set()).add(message.get("resourceId") or "")
    recalls = [case["steps"][number] for number in _recalls(case)]
    return any(not step.get("resource_id") and len(owners.get(step["thread_id"], ())) > 1 for step in recalls)


def _ownerless_faults(case: Json, ours: Steps, recorded: Steps) -> list[str]:
    steps = [ours[number] for number in _recalls(case)]
    shown = any(row[4] == "memory" for step in steps for row in step["messages"])
    return ["messages of several owners are shown"] if shown or not all(step["errors"] for step in steps) else []


def _memory_class_faults(case: Json, ours: Steps, recorded: Steps) -> list[str]:
    """What a user of recall sees is the same; how saving cuts texts and where it refuses may differ."""
    faults = []
    is_filtered = "filter" in case["memory"]["options"].get("semanticRecall", {})
    for number, step in enumerate(case["steps"]):
        same = ours[number].get("messages") == recorded[number].get("messages")
        if step["op"] == "memory_recall" and not same and not recorded[number]["thrown"]:
            faults.append(f"step {number}: recalls other messages")
        if step["op"] == "memory_wired" and not same and not is_filtered:
            faults.append(f"step {number}: recalls other messages")
    return faults


RULES = {
    "options-refused": Rule(_is_refused, _refused_faults),
    "equal-times": Rule(_has_equal_times, _equal_times_faults),
    "utc-months": Rule(lambda case: (case.get("env") or {}).get("TZ", "UTC") != "UTC", _months_faults),
    "delimiters": Rule(
        lambda case: any(DELIMITER.search(str(m["content"])) for m in _stored(case)),
        _delimiter_faults,
    ),
    "embedder-identity": Rule(_shares_an_index, _identity_faults),
    "visible-failure": Rule(_hides_a_failure, _failure_faults),
    "one-bad-message": Rule(lambda case: bool(_unsound(case)) and not case.get("memory"), _unsound_faults),
    "deleted-is-gone": Rule(
        lambda case: any(step["op"] == "delete_messages" for step in case["steps"]),
        _deleted_faults,
    ),
    "shared-thread": Rule(_is_ownerless, _ownerless_faults),
    "memory-class": Rule(lambda case: case["group"] == "memory-class", _memory_class_faults),
}
