import copy
import json
import os
import random
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.errors import CollectionError
from eval.loaders.locomo import load_locomo


def turn(dia_id, speaker, text, **other):
    return {"speaker": speaker, "dia_id": dia_id, "text": text, **other}


def question(text, category, *evidence):
    return {"question": text, "answer": "…", "category": category, "evidence": list(evidence)}


SAMPLE = {
    "sample_id": "talk-1",
    "conversation": {
        "speaker_a": "민지",
        "speaker_b": "Joss",
        "session_1_date_time": "11:59 pm on 28 February, 2024",
        "session_1": [
            turn("D1:1", "민지", "김치를 샀어 🥬"),
            turn("D1:2", "Joss", "Show me!", img_url=["https://example.org/a.jpg"], query="kimchi"),
            turn("D1:3", "민지", "자, 봐", blip_caption="a jar of kimchi on a table"),
        ],
        "session_2_date_time": "12:05 am on 1 March, 2024",
        "session_2": [turn("D2:1", "Joss", "", blip_caption="a cat 🐈"), turn("D2:2", "민지", "귀여워")],
        "session_7_date_time": "12:00 pm on 7 March, 2024",
    },
    "qa": [
        question("What did 민지 buy?", 4, "D1:1"),
        question("When?", 2, "D1:1", "D1:3"),
        question("Does Joss own a dog?", 5, "D2:1"),
        question("Why?", 3),
        question("Where?", 1, "D2:2"),
    ],
    "event_summary": {},
}


def load(tmp_path, *samples):
    path = tmp_path / "대화.json"
    path.write_text(json.dumps(samples or [SAMPLE], ensure_ascii=False), encoding="utf-8")
    return load_locomo(str(path))


def changed(edit):
    sample = copy.deepcopy(SAMPLE)
    edit(sample)
    return sample


def faults_of(tmp_path, *samples):
    with pytest.raises(CollectionError) as caught:
        load(tmp_path, *samples)
    return list(caught.value.faults)


def rows_by(frame, column):
    return {row[column]: row for row in frame.rows(named=True)}


@pytest.fixture
def messages(tmp_path):
    return load(tmp_path).messages


def test_a_conversation_is_a_resource_and_a_session_a_thread_in_order(messages):
    places = messages.select("resource_id", "thread_id", "position", "name").rows()
    assert places == [
        ("talk-1", "talk-1:session_1", 0, "민지"),
        ("talk-1", "talk-1:session_1", 1, "Joss"),
        ("talk-1", "talk-1:session_1", 2, "민지"),
        ("talk-1", "talk-1:session_2", 0, "Joss"),
        ("talk-1", "talk-1:session_2", 1, "민지"),
    ]


def test_a_text_is_followed_by_the_caption_of_its_image(messages):
    assert messages["text"].to_list() == [
        "김치를 샀어 🥬",
        "Show me!",
        "자, 봐 [image: a jar of kimchi on a table]",
        "[image: a cat 🐈]",
        "귀여워",
    ]


@pytest.mark.parametrize("caption", [None, "", "  "])
def test_a_blank_caption_adds_nothing(tmp_path, caption):
    sample = changed(lambda sample: sample["conversation"]["session_1"][2].update(blip_caption=caption))
    assert load(tmp_path, sample).messages["text"][2] == "자, 봐"


def test_the_first_speaker_is_the_user_and_the_second_the_assistant(messages):
    assert set(messages.select("name", "role").rows()) == {("민지", "user"), ("Joss", "assistant")}


def test_a_message_is_as_many_seconds_after_its_session_as_its_turn_has_in_number(messages):
    # 11:59 pm is 23:59 and 12:05 am is 00:05; 2024 has a 29 February, which the sessions skip.
    assert messages["created_at"].to_list() == [
        datetime(2024, 2, 28, 23, 59, 1, tzinfo=UTC),
        datetime(2024, 2, 28, 23, 59, 2, tzinfo=UTC),
        datetime(2024, 2, 28, 23, 59, 3, tzinfo=UTC),
        datetime(2024, 3, 1, 0, 5, 1, tzinfo=UTC),
        datetime(2024, 3, 1, 0, 5, 2, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("text", "hour"),
    [("12:00 am", 0), ("1:00 AM", 1), ("11:00 am", 11), ("12:00 pm", 12), ("1:00 Pm", 13), ("11:00 pm", 23)],
)
def test_the_twelve_hour_clock_is_read(tmp_path, text, hour):
    sample = changed(lambda sample: sample["conversation"].update(session_1_date_time=f"{text} on 3 May, 2023"))
    assert load(tmp_path, sample).messages["created_at"][0] == datetime(2023, 5, 3, hour, 0, 1, tzinfo=UTC)


def test_turns_in_another_order_stand_in_the_order_of_their_numbers(tmp_path, messages):
    sample = changed(lambda sample: sample["conversation"]["session_1"].reverse())
    assert load(tmp_path, sample).messages.equals(messages)


def test_a_date_without_a_session_is_ignored(messages):
    assert messages["thread_id"].n_unique() == 2


def test_message_ids_are_opaque_unique_and_the_same_every_time(tmp_path, messages):
    # printf "talk-1 D1:1" | b2sum -l 64
    assert messages["message_id"][0] == "9cbccd09b7e7167d"
    assert messages["message_id"].n_unique() == 5
    assert load(tmp_path).messages.equals(messages)


def test_the_same_turn_of_another_conversation_has_another_id(tmp_path):
    other = changed(lambda sample: sample.update(sample_id="talk-2"))
    assert load(tmp_path, SAMPLE, other).messages["message_id"].n_unique() == 10


def test_questions_become_queries_after_everything_in_a_new_thread(tmp_path):
    queries = load(tmp_path).queries
    assert queries["text"].to_list()[:2] == ["What did 민지 buy?", "When?"]
    assert queries.select("resource_id", "thread_id", "asked_at", "cluster_id", "split").unique().rows() == [
        ("talk-1", None, None, "talk-1", "dev")
    ]


def test_categories_are_types_and_only_the_fifth_has_no_answer(tmp_path):
    assert load(tmp_path).queries.select("query_id", "type", "answerable").rows() == [
        ("talk-1:q000", "single_hop", True),
        ("talk-1:q001", "temporal", True),
        ("talk-1:q002", "adversarial", False),
        ("talk-1:q003", "open_domain", True),
        ("talk-1:q004", "multi_hop", True),
    ]


def judgements(collection):
    """(query number, position in the whole conversation, relevance) of every judgement."""
    places = {message_id: place for place, message_id in enumerate(collection.messages["message_id"])}
    rows = collection.qrels.rows()
    return sorted((int(query_id[-3:]), places[message_id], relevance) for query_id, message_id, relevance in rows)


def test_evidence_is_relevant_except_that_of_the_fifth_category(tmp_path):
    assert judgements(load(tmp_path)) == [(0, 0, 1), (1, 0, 1), (1, 2, 1), (2, 3, 0), (4, 4, 1)]


def test_a_question_without_evidence_stays_without_judgements_and_is_noted(tmp_path):
    collection = load(tmp_path)
    assert collection.manifest["notes"] == ["talk-1:q003: no usable evidence; kept as a query without judgements"]
    assert "talk-1:q003" in collection.queries["query_id"]


@pytest.mark.parametrize(
    ("evidence", "places", "note"),
    [
        ("D1:3; D2:1", [2, 3], "evidence 'D1:3; D2:1' was read as D1:3 and D2:1"),
        ("D1:3 D2:1", [2, 3], "evidence 'D1:3 D2:1' was read as D1:3 and D2:1"),
        ("D1:1,D1:2", [0, 1], "evidence 'D1:1,D1:2' was read as D1:1 and D1:2"),
        ("D:2:2", [4], "evidence 'D:2:2' was read as D2:2"),
        ("D02:02", [4], "evidence 'D02:02' was read as D2:2"),
        (" D2:2\n", [4], r"evidence ' D2:2\n' was read as D2:2"),
    ],
)
def test_malformed_evidence_is_repaired_and_noted(tmp_path, evidence, places, note):
    collection = load(tmp_path, changed(lambda sample: sample["qa"][0].update(evidence=[evidence])))
    assert [place for query, place, _ in judgements(collection) if query == 0] == places
    assert f"talk-1:q000: {note}" in collection.manifest["notes"]


@pytest.mark.parametrize("evidence", ["D", "", "D9:9", "D1:4", "turn 3", "D1:0", "D１:１", "세션 1"])
def test_evidence_that_names_no_turn_is_left_out_and_noted(tmp_path, evidence):
    collection = load(tmp_path, changed(lambda sample: sample["qa"][0].update(evidence=["D1:1", evidence])))
    assert [place for query, place, _ in judgements(collection) if query == 0] == [0]
    assert (
        f"talk-1:q000: evidence {evidence!r} was left out, no turn is named {evidence!r}"
        in (collection.manifest["notes"])
    )


def test_evidence_that_is_partly_usable_is_noted_twice(tmp_path):
    collection = load(tmp_path, changed(lambda sample: sample["qa"][0].update(evidence=["D2:1; D8:8"])))
    assert collection.manifest["notes"][:2] == [
        "talk-1:q000: evidence 'D2:1; D8:8' was read as D2:1",
        "talk-1:q000: evidence 'D2:1; D8:8' was left out, no turn is named 'D8:8'",
    ]


def test_evidence_that_is_named_twice_counts_once(tmp_path):
    collection = load(tmp_path, changed(lambda sample: sample["qa"][0].update(evidence=["D1:1", "D1:1"])))
    assert [place for query, place, _ in judgements(collection) if query == 0] == [0]


def test_the_same_question_twice_is_two_queries(tmp_path):
    sample = changed(lambda sample: sample["qa"].append(sample["qa"][0]))
    assert load(tmp_path, sample).queries["text"].to_list().count("What did 민지 buy?") == 2


def test_the_manifest_names_the_source_and_its_licence(tmp_path):
    manifest = load(tmp_path).manifest
    assert (manifest["name"], manifest["language"], manifest["licence"]) == ("locomo", "en", "CC BY-NC 4.0")


def test_a_nul_character_in_a_text_is_kept(tmp_path):
    sample = changed(lambda sample: sample["conversation"]["session_1"][0].update(text="a\0b"))
    assert load(tmp_path, sample).messages["text"][0] == "a\0b"


def test_a_file_with_a_byte_order_mark_is_read(tmp_path, messages):
    path = tmp_path / "bom.json"
    path.write_text(json.dumps([SAMPLE]), encoding="utf-8-sig")
    assert load_locomo(str(path)).messages.equals(messages)


def removed(*keys):
    def edit(sample):
        for key in keys[:-1]:
            sample = sample[key]
        del sample[keys[-1]]

    return changed(edit)


def replaced(value, *keys):
    def edit(sample):
        for key in keys[:-1]:
            sample = sample[key]
        sample[keys[-1]] = value

    return changed(edit)


FIRST_TURN = ("conversation", "session_1", 0)
ONE_FAULT = {
    "no sample_id": (removed("sample_id"), "[0].sample_id is missing, expected a text"),
    "a blank sample_id": (replaced(" ", "sample_id"), "[0].sample_id is ' ', expected a text that is not blank"),
    "no conversation": (removed("conversation"), "[0].conversation is missing, expected an object"),
    "no questions": (removed("qa"), "[0].qa is missing, expected a list"),
    "questions by id": (replaced({"q1": {}}, "qa"), "[0].qa is an object, expected a list"),
    "a question that is a text": (replaced("Why?", "qa", 3), "[0].qa[3] is 'Why?', expected an object"),
    "no question": (removed("qa", 0, "question"), "[0].qa[0].question is missing, expected a text"),
    "category 6": (replaced(6, "qa", 0, "category"), "[0].qa[0].category is 6, expected 1, 2, 3, 4 or 5"),
    "category true": (replaced(True, "qa", 0, "category"), "[0].qa[0].category is true, expected a whole number"),
    "no evidence": (removed("qa", 0, "evidence"), "[0].qa[0].evidence is missing, expected a list"),
    "evidence as a text": (replaced("D1:1", "qa", 0, "evidence"), "[0].qa[0].evidence is 'D1:1', expected a list"),
    "no date": (
        removed("conversation", "session_2_date_time"),
        "[0].conversation.session_2_date_time is missing, expected a time such as '1:56 pm on 8 May, 2023'",
    ),
    "no text": (removed(*FIRST_TURN, "text"), "[0].conversation.session_1[0].text is missing, expected a text"),
    "a number as text": (
        replaced(7, *FIRST_TURN, "text"),
        "[0].conversation.session_1[0].text is 7, expected a text",
    ),
    "a caption list": (
        replaced(["x"], *FIRST_TURN, "blip_caption"),
        "[0].conversation.session_1[0].blip_caption is a list, expected a text",
    ),
    "a third speaker": (
        replaced("Kim", *FIRST_TURN, "speaker"),
        "[0].conversation.session_1[0].speaker is 'Kim', expected speaker_a or speaker_b, '민지' or 'Joss'",
    ),
    "no speaker": (
        removed(*FIRST_TURN, "speaker"),
        "[0].conversation.session_1[0].speaker is missing, expected a text",
    ),
    "another dia_id": (
        replaced("1-1", *FIRST_TURN, "dia_id"),
        "[0].conversation.session_1[0].dia_id is '1-1', expected a session and a turn such as 'D8:6'",
    ),
    "a repeated dia_id": (
        replaced("D1:1", "conversation", "session_2", 0, "dia_id"),
        "[0].conversation.session_2[0].dia_id repeats 'D1:1', expected another id for each turn",
    ),
    "half an emoji": (
        replaced("ok \ud83d", *FIRST_TURN, "text"),
        "[0].conversation.session_1[0].text has half a surrogate pair at character 3, such as a cut emoji; "
        "remove or replace it",
    ),
    "sessions as one list": (
        replaced({"speaker_a": "A", "speaker_b": "B", "sessions": []}, "conversation"),
        "[0].conversation has no session, expected session_1, session_2, ...",
    ),
}


@pytest.mark.parametrize(("sample", "fault"), ONE_FAULT.values(), ids=ONE_FAULT)
def test_a_value_of_another_shape_is_reported_with_its_path(tmp_path, sample, fault):
    path = tmp_path / "f.json"
    path.write_text(json.dumps([sample]), encoding="utf-8")
    with pytest.raises(CollectionError) as caught:
        load_locomo(str(path))
    assert fault in caught.value.faults


DATES = ["8 May 2023", "13:56 pm on 8 May, 2023", "0:10 am on 8 May, 2023", "1:56 pm on 30 February, 2023"]
DATES += ["1:56 pm on 8 Mayo, 2023", "1:60 pm on 8 May, 2023", "1:56 pm on 8 May, 9999", "", 1683554160, ["8 May"]]


@pytest.mark.parametrize("date", DATES)
def test_a_date_that_cannot_be_read_is_reported_with_its_path(tmp_path, date):
    (fault,) = faults_of(tmp_path, replaced(date, "conversation", "session_1_date_time"))
    assert fault.startswith("[0].conversation.session_1_date_time is ")
    assert fault.endswith("expected a time such as '1:56 pm on 8 May, 2023'")


def test_every_problem_of_every_conversation_is_reported_at_once(tmp_path):
    first = removed("qa", 0, "question")
    second = removed(*FIRST_TURN, "text")
    del second["conversation"]["speaker_a"]
    assert faults_of(tmp_path, first, 3, second, None) == [
        "[0].qa[0].question is missing, expected a text",
        "[1] is 3, expected an object",
        "[2].sample_id repeats 'talk-1', expected another id for each conversation",
        "[2].conversation.speaker_a is missing, expected a text",
        "[2].conversation.session_1[0].text is missing, expected a text",
        "[3] is null, expected an object",
    ]


def write(tmp_path, content):
    path = tmp_path / "input.json"
    path.write_bytes(content)
    return str(path)


WHOLE = json.dumps([SAMPLE], ensure_ascii=False).encode()
NOT_JSON = {
    "empty": (b"", "is empty, expected JSON"),
    "blank": (b" \n", "is empty, expected JSON"),
    "random bytes": (random.Random(1).randbytes(300), "is not UTF-8 text"),
    "compressed": (b"\x1f\x8b\x08\x00" + WHOLE, "is it compressed"),
    "UTF-16": (json.dumps([SAMPLE]).encode("utf-16"), "is not UTF-8 text"),
    "truncated": (WHOLE[:200], "it was cut off, fetch it again"),
    "cut inside a character": (WHOLE[: WHOLE.index("김".encode()) + 1], "is not UTF-8 text"),
    "a web page": (b"<!DOCTYPE html><html></html>", "is not JSON: Expecting value at line 1, column 1"),
    "two documents": (b"[]\n[]", "is not JSON: Extra data at line 2, column 1"),
    "deep": (b"[" * 100_000, "is not usable JSON: maximum recursion depth"),
    "a huge number": (b"[" + b"9" * 5000 + b"]", "is not usable JSON"),
    "not a number": (b"[NaN]", "is not usable JSON: NaN is not a JSON value"),
}


@pytest.mark.parametrize(("content", "problem"), NOT_JSON.values(), ids=NOT_JSON)
def test_a_file_that_is_not_json_is_one_clear_sentence(tmp_path, content, problem):
    with pytest.raises(CollectionError, match=rf"^file '.*/input.json': .*{problem}") as caught:
        load_locomo(write(tmp_path, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("length", range(1, len(WHOLE), 97))
def test_a_file_cut_anywhere_is_one_clear_sentence(tmp_path, length):
    with pytest.raises(CollectionError) as caught:
        load_locomo(write(tmp_path, WHOLE[:length]))
    assert len(caught.value.faults) == 1


OTHER_SHAPES = {
    "an empty list": (b"[]", "the file is an empty list, expected a list of conversations"),
    "an object": (b'{"qa": []}', "the file is an object, expected a list"),
    "a text": (b'"locomo"', "the file is 'locomo', expected a list"),
    "null": (b"null", "the file is null, expected a list"),
    "numbers": (b"[1]", r"\[0\] is 1, expected an object"),
    "lists": (b"[[]]", r"\[0\] is an empty list, expected an object"),
}


@pytest.mark.parametrize(("content", "problem"), OTHER_SHAPES.values(), ids=OTHER_SHAPES)
def test_json_of_another_shape_is_one_clear_sentence(tmp_path, content, problem):
    with pytest.raises(CollectionError, match=rf"^LoCoMo file '.*/input.json': {problem}"):
        load_locomo(write(tmp_path, content))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ANY_JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


def places(value, place=()):
    """The path of every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(path for key, part in inner for path in places(part, (*place, key)))]


@settings(max_examples=60, deadline=None)
@given(value=ANY_JSON, place=st.sampled_from(places(SAMPLE)[1:]))
def test_any_value_anywhere_either_loads_or_is_reported(value, place, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "f.json"
    path.write_text(json.dumps([replaced(value, *place)]), encoding="utf-8")
    try:
        assert load_locomo(str(path)).queries.height <= len(SAMPLE["qa"])
    except CollectionError as error:
        assert all(fault.isprintable() for fault in error.faults)


def test_a_conversation_without_questions_is_a_collection_without_queries(tmp_path):
    with pytest.raises(CollectionError, match="the collection has no queries"):
        load(tmp_path, replaced([], "qa"))


@pytest.mark.parametrize(
    ("path", "reason"),
    [("nowhere.json", "No such file"), (".", "Is a directory"), ("nul\0", "null"), ("x" * 300, "too long")],
)
def test_a_path_that_is_no_file_is_one_clear_sentence(tmp_path, path, reason):
    with pytest.raises(CollectionError, match=rf"cannot be read: .*{reason}.*; expected the path of a JSON file"):
        load_locomo(str(tmp_path / path))


@pytest.fixture(scope="module")
def locomo():
    path = os.environ.get("LOCOMO_PATH")
    if not path or not Path(path).is_file():
        pytest.skip("needs LoCoMo's JSON file; set LOCOMO_PATH to it")
    return load_locomo(path)


def test_the_published_conversations_have_their_known_size(locomo):
    # Counted in the file itself: 419 + 369 + 663 + 629 + 680 turns, 19 + 19 + 32 + 29 + 29 sessions.
    counts = locomo.manifest["counts"]
    assert (counts["messages"], counts["threads"], counts["resources"]) == (2760, 128, 5)
    assert (counts["queries"], counts["answerable"]) == (999, 762)


def test_760_answerable_questions_of_the_published_file_have_evidence(locomo):
    relevant = locomo.qrels.filter(pl.col("relevance") >= 1)
    judged = locomo.queries.filter("answerable").join(relevant, on="query_id", how="semi")
    assert judged.height == 760
    assert judged.group_by("type").len().sort("type").rows() == [
        ("multi_hop", 142),
        ("open_domain", 44),
        ("single_hop", 418),
        ("temporal", 156),
    ]


def test_bad_evidence_of_the_published_file_is_repaired_or_noted(locomo):
    assert locomo.manifest["notes"] == [
        "conv-26:q030: no usable evidence; kept as a query without judgements",
        "conv-26:q037: evidence 'D8:6; D9:17' was read as D8:6 and D9:17",
        "conv-26:q046: no usable evidence; kept as a query without judgements",
        "conv-42:q058: evidence 'D10:19' was left out, no turn is named 'D10:19'",
        "conv-42:q088: evidence 'D' was left out, no turn is named 'D'",
        "conv-43:q018: evidence 'D:11:26' was read as D11:26",
    ]


def test_images_of_the_published_file_are_in_the_texts(locomo):
    # 116 + 72 + 131 + 119 + 164 turns have a blip_caption.
    assert locomo.messages["text"].str.contains(r" \[image: .+\]$").sum() == 602
