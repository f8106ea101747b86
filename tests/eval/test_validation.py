from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.collection.validation import faults
from eval.schema import MESSAGES, NULLABLE, QRELS, QUERIES

SCHEMAS = {"messages": MESSAGES, "queries": QUERIES, "qrels": QRELS}
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def message(message_id, thread_id, position, **other):
    row = {"message_id": message_id, "resource_id": "r1", "thread_id": thread_id, "position": position}
    return {**row, "role": "user", "text": "김치를 샀어 🥬", "created_at": NOON + timedelta(minutes=position), **other}


def query(query_id, **other):
    row = {"query_id": query_id, "resource_id": "r1", "text": "뭘 샀지?", "type": "fact", "answerable": True}
    return {**row, "cluster_id": "r1", "split": "dev", **other}


def tables():
    """Two resources, three threads, one query with evidence, one without an answer, one never judged."""
    rows = {
        "messages": [
            *(message("m1", "t1", 0), message("m2", "t1", 1), message("m3", "t2", 0)),
            message("m4", "t3", 0, resource_id="r2"),
        ],
        "queries": [
            query("q1", thread_id="t1", asked_at=NOON + timedelta(days=1)),
            *(query("q2", answerable=False), query("q3")),
        ],
        "qrels": [
            {"query_id": "q1", "message_id": "m2", "relevance": 1},
            {"query_id": "q1", "message_id": "m1", "relevance": 0},
            {"query_id": "q2", "message_id": "m3", "relevance": 0},
        ],
    }
    return {name: pl.DataFrame(rows[name], schema=SCHEMAS[name]) for name in SCHEMAS}


def changed(table, **columns):
    """The tables with values replaced: column={row id or row number: value}."""
    frames = tables()
    rows = frames[table].rows(named=True)
    for column, values in columns.items():
        for place, value in values.items():
            row = place if isinstance(place, int) else [next(iter(row.values())) for row in rows].index(place)
            rows[row][column] = value
    frames[table] = pl.DataFrame(rows, schema=SCHEMAS[table])
    return frames


def added(table, *rows):
    frames = tables()
    frames[table] = pl.concat([frames[table], pl.DataFrame(list(rows), schema=SCHEMAS[table])])
    return frames


def cast(table, column, expression):
    frames = tables()
    frames[table] = frames[table].with_columns(expression.alias(column))
    return frames


def test_a_sound_collection_has_no_faults():
    assert faults(**tables()) == []


CREATED = pl.col("created_at")
ONE_FAULT = {
    "a judged message does not exist": (
        changed("qrels", message_id={1: "m9"}),
        "qrels name messages that do not exist, in 1 row: 'm9'; add them or drop the rows",
    ),
    "a judged query does not exist": (
        added("qrels", {"query_id": "q9", "message_id": "m1", "relevance": 1}),
        "qrels name queries that do not exist, in 1 row: 'q9'; add them or drop the rows",
    ),
    "a message id repeats": (
        added("messages", message("m3", "t2", 1)),
        "messages repeat 1 message_id: 'm3' 2 times; each must be unique",
    ),
    "a query id repeats": (
        added("queries", query("q3"), query("q3")),
        "queries repeat 1 query_id: 'q3' 3 times; each must be unique",
    ),
    "a judgement repeats": (
        added("qrels", {"query_id": "q1", "message_id": "m2", "relevance": 2}),
        "qrels repeat 1 query_id and message_id: ('q1', 'm2') 2 times; each must be unique",
    ),
    "a judgement crosses resources": (
        changed("qrels", message_id={1: "m4"}),
        "qrels judge messages of another resource than their query's, in 1 row: ('q1', 'm4'); "
        "nothing is recalled across resources",
    ),
    "evidence is as late as the query": (
        changed("queries", asked_at={"q1": NOON + timedelta(minutes=1)}),
        "evidence is not visible to its query, in 1 row: ('q1', 'm2'); created_at must be earlier than asked_at",
    ),
    "a thread has two owners": (
        changed("messages", thread_id={"m4": "t2"}),
        "thread_id is in more than one resource for 1 thread: 't2'; one owner each",
    ),
    "positions have a gap": (
        changed("messages", position={"m2": 2}),
        "positions do not count 0, 1, 2, ... in 1 thread: 't1' has 2 where 1 comes next; "
        "number the messages of a thread without gaps or repeats",
    ),
    "positions repeat": (
        changed("messages", position={"m2": 0}),
        "positions do not count 0, 1, 2, ... in 1 thread: 't1' has 0 where 1 comes next; "
        "number the messages of a thread without gaps or repeats",
    ),
    "positions begin at 1": (
        changed("messages", position={"m3": 1, "m4": 1}),
        "positions do not count 0, 1, 2, ... in 2 threads: 't2' has 1 where 0 comes next, 't3' has 1 where 0 comes "
        "next; number the messages of a thread without gaps or repeats",
    ),
    "positions are not in the order of time": (
        changed("messages", created_at={"m2": NOON - timedelta(seconds=1)}),
        "created_at is earlier than that of the position before, in 1 message: 'm2'; positions must follow created_at",
    ),
    "times have no zone": (
        cast("messages", "created_at", CREATED.dt.replace_time_zone(None)),
        "messages.created_at has times without a zone, expected UTC; declare it, as in dt.replace_time_zone('UTC')",
    ),
    "times are in another zone": (
        cast("messages", "created_at", CREATED.dt.convert_time_zone("Asia/Seoul")),
        "messages.created_at has times in the zone 'Asia/Seoul', expected UTC; "
        "convert them, as in dt.convert_time_zone('UTC')",
    ),
    "times are in nanoseconds": (
        cast("messages", "created_at", CREATED.dt.cast_time_unit("ns")),
        "messages.created_at is \"Datetime(time_unit='ns', time_zone='UTC')\", "
        "expected Datetime(time_unit='us', time_zone='UTC'); convert the column",
    ),
    "times are texts": (
        cast("queries", "asked_at", pl.col("asked_at").dt.to_string("iso")),
        "queries.asked_at is 'String', expected Datetime(time_unit='us', time_zone='UTC'); convert the column",
    ),
    "positions are wider than 32 bits": (
        cast("messages", "position", pl.col("position").cast(pl.Int64)),
        "messages.position is 'Int64', expected Int32; convert the column",
    ),
    "times are beyond what Python can hold": (
        cast("messages", "created_at", CREATED + pl.duration(days=(pl.col("message_id") == "m4") * 366 * 9000)),
        "messages.created_at is outside the years 1 to 9999 in 1 row: 'm4'; check the unit the times were written in",
    ),
    "a query is asked in an unknown thread": (
        changed("queries", thread_id={"q1": "t3"}),
        "queries are asked in threads that have no messages in the query's resource, in 1 row: 't3'; "
        "use null for a new thread",
    ),
    "a query is asked in an unknown resource": (
        changed("queries", resource_id={"q3": "r9"}, thread_id={"q3": "t1"}),
        "queries are asked in resources without messages, in 1 row: 'r9'",
    ),
    "an answerable query has no relevant message": (
        changed("queries", answerable={"q2": True}),
        "answerable, judged, and without a relevant message: 1 query: 'q2'; give evidence or set answerable to false",
    ),
    "an unanswerable query has a relevant message": (
        changed("queries", answerable={"q1": False}),
        "not answerable, and yet with a relevant message: 1 query: 'q1'; set relevance to 0 or answerable to true",
    ),
    "relevance is negative": (
        changed("qrels", relevance={1: -1}),
        "relevance is below 0, in 1 row: ('q1', 'm1'); 0 stands for judged and not relevant",
    ),
    "a split is unknown": (
        changed("queries", split={"q1": "train", "q3": ""}),
        "queries.split is neither 'dev' nor 'test', in 2 rows: '', 'train'",
    ),
    "an id is empty": (
        changed("queries", cluster_id={"q2": ""}),
        "queries.cluster_id is empty in 1 row: 'q2'; expected at least one character",
    ),
    "there is one column too many": (
        cast("qrels", "iteration", pl.lit(0)),
        "qrels has 1 unknown column: 'iteration'; expected only query_id, message_id, relevance",
    ),
}


@pytest.mark.parametrize(("frames", "sentence"), ONE_FAULT.values(), ids=ONE_FAULT)
def test_each_fault_is_one_sentence_and_no_other_is_reported(frames, sentence):
    assert faults(**frames) == [sentence]


REQUIRED = [(table, name) for table, schema in SCHEMAS.items() for name in schema if name not in NULLABLE[table]]


@pytest.mark.parametrize(("table", "column"), REQUIRED)
def test_a_null_is_reported_in_every_column_that_needs_a_value(table, column):
    first_row = {"messages": "'m1'", "queries": "'q1'", "qrels": "('q1', 'm2')"}[table]
    # A row without its own id is known by its number.
    shown = "number 0" if column in ("message_id", "query_id") else first_row
    expected = f"{table}.{column} is null in 1 row: {shown}; expected a value"
    assert expected in faults(**changed(table, **{column: {0: None}}))


NULLS_ALLOWED = [(table, name) for table, names in NULLABLE.items() for name in sorted(names)]


@pytest.mark.parametrize(("table", "column"), NULLS_ALLOWED)
def test_a_null_is_no_fault_where_the_format_allows_it(table, column):
    assert faults(**changed(table, **{column: {0: None}})) == []


@pytest.mark.parametrize(("table", "column"), [(table, name) for table in SCHEMAS for name in SCHEMAS[table]])
def test_a_missing_column_is_reported_and_breaks_no_other_check(table, column):
    frames = tables()
    frames[table] = frames[table].drop(column)
    assert faults(**frames) == [f"{table} has no column {column}; expected {', '.join(SCHEMAS[table])}"]


@pytest.mark.parametrize("table", ["messages", "queries"])
def test_a_collection_without_rows_is_a_fault(table):
    frames = tables()
    frames[table] = frames[table].clear()
    assert f"the collection has no {table}; expected at least one row in {table}" in faults(**frames)


def test_a_collection_without_judgements_is_sound():
    frames = tables()
    frames["qrels"] = frames["qrels"].clear()
    assert faults(**frames) == []


def test_frames_without_any_column_report_every_missing_one():
    found = faults(pl.DataFrame(), pl.DataFrame(), pl.DataFrame())
    assert len(found) == len(MESSAGES) + len(QUERIES) + len(QRELS)


def test_every_fault_of_every_table_is_reported_at_once():
    frames = changed("messages", position={"m2": 7}, thread_id={"m4": "t2"}, role={"m1": None})
    frames["messages"] = frames["messages"].with_columns(CREATED.dt.replace_time_zone(None))
    frames["queries"] = changed("queries", split={"q1": "train"}, resource_id={"q3": ""})["queries"]
    frames["qrels"] = changed("qrels", message_id={0: "m9"}, relevance={1: -3})["qrels"].with_columns(x=1)
    beginnings = [
        "messages.created_at has times without a zone",
        "qrels has 1 unknown column",
        "messages.role is null",
        "queries.resource_id is empty",
        "qrels name messages that do not exist",
        "thread_id is in more than one resource",
        "positions do not count",
        "queries are asked in resources without messages",
        "relevance is below 0",
        "queries.split is neither",
    ]
    found = faults(**frames)
    assert [start for start in beginnings if not any(fault.startswith(start) for fault in found)] == []
    assert len(found) == len(beginnings)


def test_a_judgement_of_a_message_that_repeats_is_counted_once():
    frames = added("messages", message("m4", "t3", 1, resource_id="r2"))
    frames["qrels"] = changed("qrels", message_id={1: "m4"})["qrels"]
    assert any("in 1 row: ('q1', 'm4'); nothing is recalled across" in fault for fault in faults(**frames))


def test_times_of_a_wrong_zone_are_still_compared():
    frames = changed("queries", asked_at={"q1": NOON})
    frames["messages"] = frames["messages"].with_columns(CREATED.dt.convert_time_zone("Asia/Seoul"))
    assert any("not visible" in fault for fault in faults(**frames))


def test_messages_of_the_same_moment_may_stand_in_any_order():
    assert faults(**changed("messages", created_at={"m2": NOON})) == []


def test_a_judgement_of_relevance_0_may_be_later_than_its_query():
    frames = changed("messages", created_at={"m3": NOON + timedelta(days=9)})
    frames["queries"] = changed("queries", asked_at={"q2": NOON})["queries"]
    assert faults(**frames) == []


@pytest.mark.parametrize("hostile", ["a\nb", "\x1b[31mred", "\u202egnp.exe", "x" * 5000, "\0"])
def test_hostile_ids_stay_on_one_short_escaped_line(hostile):
    (fault,) = faults(**changed("qrels", message_id={1: hostile}))
    assert fault.isprintable()
    assert len(fault) < 200


def test_korean_and_emoji_ids_are_readable_in_faults():
    (fault,) = faults(**changed("qrels", message_id={1: "메시지-🎉"}))
    assert "'메시지-🎉'" in fault


def test_only_the_first_ids_of_many_are_shown_with_the_count():
    rows = [{"query_id": "q1", "message_id": f"x{number}", "relevance": 1} for number in range(50)]
    (fault,) = faults(**added("qrels", *rows))
    assert fault == (
        "qrels name messages that do not exist, in 50 rows: 'x0', 'x1', 'x10' and 47 more; add them or drop the rows"
    )


@settings(max_examples=50, deadline=None)
@given(places=st.lists(st.tuples(st.sampled_from("ab"), st.integers(-1, 4)), max_size=8))
def test_positions_are_sound_exactly_when_each_thread_counts_from_0(places):
    rows = [message(f"m{n}", thread, place, created_at=NOON) for n, (thread, place) in enumerate(places)]
    messages = pl.DataFrame(rows, schema=MESSAGES)
    by_thread = {thread: sorted(place for other, place in places if other == thread) for thread in "ab"}
    sound = all(positions == list(range(len(positions))) for positions in by_thread.values())
    found = faults(messages, tables()["queries"], tables()["qrels"])
    assert any(fault.startswith("positions do not count") for fault in found) is not sound


@settings(max_examples=50, deadline=None)
@given(minutes=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_time_order_is_sound_exactly_when_no_message_is_earlier_than_the_one_before(minutes):
    rows = [message(f"m{n}", "t1", n, created_at=NOON + timedelta(minutes=at)) for n, at in enumerate(minutes)]
    found = faults(pl.DataFrame(rows, schema=MESSAGES), tables()["queries"], tables()["qrels"])
    assert any(fault.startswith("created_at is earlier") for fault in found) is (minutes != sorted(minutes))


@pytest.mark.slow
@settings(deadline=None)
@given(data=st.data())
def test_no_content_whatever_breaks_the_validator(data):
    frames = {}
    for name, schema in SCHEMAS.items():
        values = {column: data.draw(cells(dtype)) for column, dtype in schema.items()}
        frames[name] = pl.DataFrame({key: pl.Series(cell, dtype=schema[key]) for key, cell in values.items()})
    assert all(isinstance(fault, str) and fault.isprintable() for fault in faults(**frames))


def cells(dtype):
    """Three values of a type, nulls among them, few enough to collide."""
    texts = st.one_of(st.sampled_from(["", "m1", "q1", "r1", "한"]), st.text(max_size=3))
    times = st.sampled_from([NOON, NOON + timedelta(seconds=1)])
    kinds = {pl.String: texts, pl.Boolean: st.booleans(), pl.Datetime: times}
    whole = st.integers(-2, 3)
    return st.lists(st.none() | kinds.get(dtype.base_type(), whole), min_size=3, max_size=3)
