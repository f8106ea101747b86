"""Messages of other programs, read and written again."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from recall.chat_format import message_of, messages_of, to_openai
from recall.errors import MessageError
from recall.parts import as_stored, decode_parts, query_text
from recall.schema import Message, RequestContext, utc

HERE = RequestContext("t", "ann")
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "부산"}'}}


def test_an_openai_message_gets_what_it_lacks():
    before = datetime.now(UTC)
    message = message_of({"role": "user", "content": "안녕 🌊"}, context=HERE)
    assert (message.thread_id, message.resource_id, message.role, message.text) == ("t", "ann", "user", "안녕 🌊")
    assert before <= message.created_at <= datetime.now(UTC)
    assert message.message_id != message_of({"role": "user", "content": "안녕 🌊"}, context=HERE).message_id


def test_what_a_message_says_goes_before_the_context():
    said = {"id": "m", "role": "user", "content": "hi", "threadId": "u", "resourceId": "bob"}
    message = message_of(said, context=HERE)
    assert (message.message_id, message.thread_id, message.resource_id) == ("m", "u", "bob")


def test_a_record_is_given_back_as_it_is():
    record = Message("m", "t", "ann", "user", "hi", utc(2024, 3, 5))
    assert message_of(record, context=RequestContext()) is record


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("2024-03-05T09:00:00Z", utc(2024, 3, 5, 9)),
        ("2024-03-05T18:00:00+09:00", utc(2024, 3, 5, 9)),
        (1709629200, utc(2024, 3, 5, 9)),
        (1709629200000, utc(2024, 3, 5, 9)),
        (datetime(2024, 3, 5, 18, tzinfo=timezone(timedelta(hours=9))), utc(2024, 3, 5, 9)),
    ],
)
def test_times_are_read_in_every_usual_form(given, meant):
    assert message_of({"role": "user", "content": "hi", "created_at": given}, context=HERE).created_at == meant


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"role": None}, "role"),
        ({"role": 3}, "role"),
        ({"content": 7}, "content"),
        ({"content": b"bytes"}, "content"),
        ({"text": ["a"]}, "text"),
        ({"created_at": "2024-03-05T09:00:00"}, "created_at"),
        ({"created_at": True}, "created_at"),
        ({"created_at": 10**400}, "created_at"),
        ({"created_at": "9999-12-31T23:59:59-12:00"}, "created_at"),
        ({"id": ""}, "message_id"),
        ({"threadId": 5}, "thread_id"),
        ({"name": 5}, "name"),
        ({"parts": 5}, "parts"),
        ({"parts": ["text"]}, "parts"),
        ({"parts": [{"type": "x", "value": float("nan")}]}, "parts"),
        ({"tool_calls": [5]}, "tool call"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_name(change, named):
    with pytest.raises(MessageError, match=named):
        message_of({"role": "user", "content": "hi", **change}, context=HERE)


def test_a_thread_must_come_from_somewhere():
    with pytest.raises(MessageError, match="thread_id"):
        message_of({"role": "user", "content": "hi"}, context=RequestContext(resource_id="ann"))


def test_messages_without_times_keep_their_order():
    said = [{"role": "user", "content": str(n)} for n in range(100)]
    future = {"role": "user", "content": "later", "created_at": "2190-01-01T00:00:00Z"}
    messages = messages_of([*said[:50], future, *said[50:]], context=HERE)
    assert messages == sorted(messages, key=lambda message: message.created_at)
    assert len({message.created_at for message in messages}) == 101


@pytest.mark.parametrize("values", ["text", {"role": "user"}, 5, None])
def test_a_list_of_messages_must_be_a_list(values):
    with pytest.raises(MessageError, match="expected a list of messages"):
        messages_of(values, context=HERE)


def test_tool_calls_and_their_answers_survive_a_round_trip():
    said = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "3 °C"},
        {"role": "assistant", "content": "cold", "name": "bot-1"},
    ]
    messages = messages_of(said, context=HERE)
    assert to_openai(messages) == said
    assert [message.text for message in messages] == ["weather?", "", "3 °C", "cold"]


def test_a_tool_result_inside_a_message_becomes_a_message_of_its_own():
    invocation = {"state": "result", "toolCallId": "c1", "toolName": "f", "args": {"a": 1}, "result": {"c": 3}}
    parts = [{"type": "text", "text": "look"}, {"type": "tool-invocation", "toolInvocation": invocation}]
    message = message_of({"role": "assistant", "content": {"format": 2, "parts": parts}}, context=HERE)
    assistant, tool = to_openai([message])
    assert assistant["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert tool == {"role": "tool", "tool_call_id": "c1", "content": '{"c": 3}'}


def test_pictures_stay_in_what_a_model_sees():
    content = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:..."}}]
    (said,) = to_openai([message_of({"role": "user", "content": content}, context=HERE)])
    assert said["content"] == content


def test_a_name_a_model_would_refuse_is_left_out():
    message = message_of({"role": "user", "content": "hi", "name": "민아"}, context=HERE)
    assert message.name == "민아"
    assert to_openai([message]) == [{"role": "user", "content": "hi"}]


def test_a_developer_is_the_system():
    assert message_of({"role": "developer", "content": "be kind"}, context=HERE).role == "system"


@pytest.mark.parametrize(
    ("content", "parts", "text", "asks", "is_plain"),
    [
        ("said", [], "said", "said", True),
        ("said", [{"type": "text", "text": "said"}], "said", "said", True),
        (None, [{"type": "text", "text": "said"}], "said", "said", False),
        (None, [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb", "a b", False),
        ("content", [{"type": "text", "text": "part"}], "content", "content", False),
        ("", [{"type": "text", "text": "part"}], "part", "part", False),
        (None, [{"type": "file", "url": "x"}], "", "", False),
    ],
)
def test_what_is_indexed_and_what_is_asked(content, parts, text, asks, is_plain):
    """The reference joins parts with a newline to index them and with a space to search."""
    stored, encoded = as_stored(content, parts)
    message = Message("m", "t", "ann", "user", stored, utc(2024, 3, 5), parts=encoded)
    assert (message.text, query_text(message), encoded is None) == (text, asks, is_plain)
    assert is_plain or decode_parts(message) == parts


@pytest.mark.parametrize("parts", ["{", "5", '"text"', "[5]", "[" * 100_000])
def test_damaged_parts_are_told(parts):
    with pytest.raises(MessageError, match="'m'"):
        decode_parts(Message("m", "t", "ann", "user", "", utc(2024, 3, 5), parts=parts))


def test_our_own_record_is_read_as_it_was_written():
    parts = json.dumps([{"type": "text", "text": "hi"}])
    said = Message("m", "t", "ann", "user", "hi", utc(2024, 3, 5), name="민아", parts=parts)
    fields = {
        "message_id": "m", "thread_id": "t", "resource_id": "ann", "role": "user", "text": "hi",
        "created_at": said.created_at.isoformat(), "name": "민아", "parts": parts,
    }  # fmt: skip
    assert message_of(fields, context=RequestContext()) == said
