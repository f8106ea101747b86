"""LoCoMo's JSON: one conversation becomes a resource, one session a thread, one turn a message.

Source: Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents", ACL 2024;
https://github.com/snap-research/locomo.
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from eval.collection import build_collection
from eval.errors import CollectionError
from eval.foreign_json import Node, read_json
from eval.schema import MESSAGES, QRELS, QUERIES, TestCollection
from eval.wording import quoted

_Turn = tuple[int, int]
"""(session, turn), both counted from 1: what LoCoMo writes as D8:6."""

_MANIFEST = {
    "name": "locomo",
    "version": "1",
    "licence": "CC BY-NC 4.0",
    "language": "en",
    "source": "LoCoMo (Maharana et al., ACL 2024), https://github.com/snap-research/locomo",
}
_TYPES = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}
_ADVERSARIAL = 5
_SESSION = re.compile(r"session_[0-9]+")
_DIA_ID = re.compile(r"D([1-9][0-9]{0,5}):([1-9][0-9]{0,5})")
# As evidence is also written: D:11:26, D30:05.
_LOOSE_DIA_ID = re.compile(r"D:?0*([1-9][0-9]{0,5}):0*([1-9][0-9]{0,5})")
_TIME = re.compile(r"(0?[1-9]|1[0-2]):([0-5][0-9]) ?([ap])m on ([0-9]{1,2}) ([a-z]+),? ([12][0-9]{3})", re.IGNORECASE)
# Not the calendar module's names: those change with the locale.
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


@dataclass
class _Rows:
    messages: list[dict[str, Any]] = field(default_factory=list)
    queries: list[dict[str, Any]] = field(default_factory=list)
    qrels: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def load_locomo(path: str) -> TestCollection:
    """The collection of a LoCoMo JSON file; what was repaired or could not be used is in the manifest's notes.

    The name of a message is its speaker; `speaker_a` is the user. Its time is the session's, taken as UTC, plus
    the turn's number in seconds. Questions of category 5 are not answerable, and their evidence has relevance 0.

    Raises:
        CollectionError: The file cannot be read, or with every place where it is not as LoCoMo's.
    """
    root = read_json(Path(path))
    if root.value == []:
        root.unexpected("a list of conversations")
    rows = _Rows()
    seen: set[str] = set()
    for sample in root.objects():
        sample_id = sample.get("sample_id").name()
        if sample_id in seen:
            sample.get("sample_id").fault(f"repeats {quoted(sample_id)}, expected another id for each conversation")
        seen.add(sample_id)
        turns = _add_messages(sample.get("conversation"), sample_id, rows)
        _add_questions(sample.get("qa"), sample_id, turns=turns, rows=rows)
    if root.faults:
        raise CollectionError(f"LoCoMo file {path!r}", root.faults)
    messages = pl.DataFrame(rows.messages, schema=MESSAGES).sort("thread_id", "created_at", maintain_order=True)
    return build_collection(
        messages.with_columns(position=pl.int_range(pl.len(), dtype=pl.Int32).over("thread_id")),
        pl.DataFrame(rows.queries, schema=QUERIES),
        pl.DataFrame(rows.qrels, schema=QRELS),
        {**_MANIFEST, "notes": rows.notes},
    )


def _add_messages(conversation: Node, sample_id: str, rows: _Rows) -> dict[_Turn, str]:
    """Add the turns of a conversation, and return the message_id of each."""
    turns: dict[_Turn, str] = {}
    if not conversation.is_object():
        return turns
    roles = {conversation.get("speaker_a").name(): "user", conversation.get("speaker_b").name(): "assistant"}
    if len(roles) == 1:
        conversation.get("speaker_b").unexpected("another name than that of speaker_a")
    # LoCoMo also has dates of sessions that do not exist; nothing looks for them.
    sessions = [key for key in conversation.value if _SESSION.fullmatch(key)]
    if not sessions:
        conversation.fault("has no session, expected session_1, session_2, ...")
    for key in sessions:
        started = _session_time(conversation.get(f"{key}_date_time"))
        for node in conversation.get(key).objects():
            turn = _turn(node.get("dia_id"), turns)
            turns[turn] = _message_id(sample_id, turn)
            speaker = node.get("speaker").name()
            # Without both names nobody can be told to be a stranger.
            if speaker and speaker not in roles and "" not in roles:
                node.get("speaker").unexpected(f"speaker_a or speaker_b, {' or '.join(map(quoted, roles))}")
            rows.messages.append(
                {
                    "message_id": turns[turn],
                    "resource_id": sample_id,
                    "thread_id": f"{sample_id}:{key}",
                    "role": roles.get(speaker),
                    "name": speaker,
                    "text": _text(node),
                    "created_at": started + timedelta(seconds=turn[1]),
                }
            )
    return turns


def _add_questions(questions: Node, sample_id: str, *, turns: Mapping[_Turn, str], rows: _Rows) -> None:
    """Add the questions of a conversation, the judgements they come with, and notes on bad evidence."""
    for number, node in enumerate(questions.objects()):
        query_id = f"{sample_id}:q{number:03d}"
        category = node.get("category").whole_number()
        if category not in _TYPES:
            node.get("category").unexpected("1, 2, 3, 4 or 5")
        # thread_id and asked_at stay null: the questions are about the conversation as a whole, asked after it.
        rows.queries.append(
            {
                "query_id": query_id,
                "resource_id": sample_id,
                "text": node.get("question").text(),
                "type": _TYPES.get(category),
                "answerable": category != _ADVERSARIAL,
                "cluster_id": sample_id,
                # LoCoMo publishes no split, so nothing in it counts as held out.
                "split": "dev",
            }
        )
        evidence = [
            _named_turns(item.text(), query_id, turns=turns, notes=rows.notes)
            for item in node.get("evidence").elements()
        ]
        # A turn may be named twice; the first mention counts.
        message_ids = dict.fromkeys(turns[turn] for named in evidence for turn in named)
        if not message_ids:
            rows.notes.append(f"{query_id}: no usable evidence; kept as a query without judgements")
        relevance = int(category != _ADVERSARIAL)
        rows.qrels += [{"query_id": query_id, "message_id": key, "relevance": relevance} for key in message_ids]


def _named_turns(text: str, query_id: str, *, turns: Mapping[_Turn, str], notes: list[str]) -> list[_Turn]:
    """The turns a piece of evidence names; what had to be repaired or left out is added to the notes."""
    exact = _DIA_ID.fullmatch(text)
    if exact and _numbers(exact) in turns:
        return [_numbers(exact)]
    found, lost = [], []
    for part in re.split(r"[;,\s]+", text.strip()):
        loose = _LOOSE_DIA_ID.fullmatch(part)
        if loose and _numbers(loose) in turns:
            found.append(_numbers(loose))
        else:
            lost.append(part)
    if found:
        read = " and ".join(f"D{session}:{turn}" for session, turn in found)
        notes.append(f"{query_id}: evidence {quoted(text)} was read as {read}")
    if lost:
        notes.append(f"{query_id}: evidence {quoted(text)} was left out, no turn is named {quoted(' '.join(lost))}")
    return found


def _session_time(node: Node) -> datetime:
    """A time such as "1:56 pm on 8 May, 2023" in UTC."""
    match = _TIME.fullmatch(node.value.strip()) if isinstance(node.value, str) else None
    if match is not None:
        hour, minute, half, day, month, year = match.groups()
        # 12 am is midnight and 12 pm is noon.
        hour_of_day = int(hour) % 12 + (12 if half in "pP" else 0)
        with suppress(ValueError):
            number = _MONTHS.index(month.lower()) + 1
            return datetime(int(year), number, int(day), hour_of_day, int(minute), tzinfo=UTC)
    node.unexpected("a time such as '1:56 pm on 8 May, 2023'")
    return datetime(1, 1, 1, tzinfo=UTC)


def _turn(node: Node, taken: Mapping[_Turn, str]) -> _Turn:
    """The numbers of a dia_id that no other turn has."""
    match = _DIA_ID.fullmatch(node.value) if isinstance(node.value, str) else None
    if match is None:
        node.unexpected("a session and a turn such as 'D8:6'")
        return 0, 0
    if _numbers(match) in taken:
        node.fault(f"repeats {quoted(node.value)}, expected another id for each turn")
    return _numbers(match)


def _numbers(match: re.Match[str]) -> _Turn:
    return int(match[1]), int(match[2])


def _message_id(sample_id: str, turn: _Turn) -> str:
    """An opaque id that is the same in every import, and tells nothing of where evidence lies."""
    return hashlib.blake2b(f"{sample_id} D{turn[0]}:{turn[1]}".encode(), digest_size=8).hexdigest()


def _text(turn: Node) -> str:
    """What was said, and the caption of the image that was shown, where there is one."""
    said = turn.get("text").text()
    caption = turn.get("blip_caption")
    if caption.value is None or not caption.text().strip():
        return said
    return f"{said} [image: {caption.text()}]".lstrip()
