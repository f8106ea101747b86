"""The block in the reference's words, rule by rule; `test_reference_cases` replays what was recorded."""

import inspect
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.errors import OptionsError
from recall.options import RecallOptions
from recall.processor import SemanticRecall
from recall.remembered import mastra, remembered_block
from recall.remembered.mastra import CLOSING, HEADER, OPENING
from recall.schema import Message, utc


def written(*messages: Message) -> str:
    """What stands between the delimiters."""
    block = remembered_block(messages, current_thread_id="here", style="mastra")
    start, end = f"{HEADER}\n{OPENING}\n", f"\n{CLOSING}"
    assert block.startswith(start)
    assert block.endswith(end)
    return block[len(start) : -len(end)]


def with_parts(message: Message, *parts: dict) -> Message:
    return replace(message, parts=json.dumps(parts))


def test_entries_follow_each_other_without_a_line_break(say):
    body = written(say("a", "부산에 살아", thread="other"), say("b", "Noted.", at=61, thread="other", role="assistant"))
    assert body == (
        "\nthe following messages are from 2024, Mar, 5\n"
        "Message from previous conversation at 9:00 AM: User: 부산에 살아"
        "Message from previous conversation at 9:01 AM: Assistant: Noted."
    )


@pytest.mark.parametrize(("hour", "clock"), [(0, "12:07 AM"), (1, "1:07 AM"), (12, "12:07 PM"), (23, "11:07 PM")])
def test_hours_are_of_a_twelve_hour_clock(say, hour, clock):
    assert f" at {clock}: " in written(replace(say("a", thread="other"), created_at=utc(2024, 3, 5, hour, 7)))


def test_months_are_utc_and_english(say):
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    body = written(*(replace(say(f"m{n}"), created_at=utc(2024, n, 28, 23, 30)) for n in range(1, 13)))
    assert re.findall(r"2024, (\w+), 28", body) == months
    assert not re.search(r"strftime|calendar|import locale|%[aAbBcxXp]", inspect.getsource(mastra))


def test_a_message_of_the_current_thread_has_no_origin(say):
    assert "Message  at 9:00 AM: User: hi" in written(say("a", "hi", thread="here"))


def test_two_lists_of_parts_of_one_role_run_together(say):
    first = with_parts(say("a", "one", thread="x"), {"type": "text", "text": "one"})
    second = with_parts(say("b", "two", at=90_000, thread="y"), {"type": "text", "text": "two"})
    assert written(first, second).endswith("Message from previous conversation at 9:00 AM: User: one two")


def test_a_finished_tool_call_is_a_line_of_its_own(say):
    call = {"type": "tool-invocation", "toolInvocation": {"state": "result", "toolName": "map", "toolCallId": "1"}}
    body = written(with_parts(say("a", "", thread="x", role="assistant"), call))
    assert re.findall(r": (\w+): ", body) == ["Assistant", "Tool"]


@given(
    st.text(st.sampled_from("<>/ \nend_EREMBRD")).map(lambda noise: f"<{noise}end_remembered_from_other_conversation>")
    | st.from_regex(r"<[\s/]*(end_)?remembered_from_other_conversation[ />]*", fullmatch=True)
    | st.text()
)
def test_no_text_opens_or_closes_the_block(text):
    message = Message("m", "other", "ann", "user", text, utc(2024, 3, 5))
    block = remembered_block([message], current_thread_id="here", style="mastra")
    found = re.findall(r"<[\s/]*(?:end_)?remembered_from_other_conversation", block, re.IGNORECASE)
    assert found == [OPENING[:-1], CLOSING[:-1]]


def test_there_is_no_place_for_thread_ids(engine):
    with pytest.raises(OptionsError, match="show_thread_ids"):
        SemanticRecall(engine, RecallOptions(), block_style="mastra", show_thread_ids=True)
