"""Everything that can be wrong with the three tables of a test collection, found in one go.

A check runs whenever the columns it reads are there, so a wrong type in one place hides nothing elsewhere.
Ids and texts in the sentences are escaped and cut short: they are data, and may be hostile.
"""

from collections.abc import Iterator

import polars as pl

from eval.collection.casting import cast_losslessly
from eval.collection.consistency import CHECKS
from eval.schema import MESSAGES, NULLABLE, QRELS, QUERIES
from eval.wording import SHOWN, key_text, quoted, tally

SCHEMAS = {"messages": MESSAGES, "queries": QUERIES, "qrels": QRELS}
KEYS = {"messages": ("message_id",), "queries": ("query_id",), "qrels": ("query_id", "message_id")}
"""The columns that name a row, by table."""

_NON_EMPTY = {
    "messages": ("message_id", "resource_id", "thread_id", "role"),
    "queries": ("query_id", "resource_id", "thread_id", "type", "cluster_id"),
    "qrels": ("query_id", "message_id"),
}
_FIRST_TIME = pl.datetime(1, 1, 1, time_zone="UTC")
_LAST_TIME = pl.datetime(9999, 12, 31, 23, 59, 59, 999_999, time_zone="UTC")


def faults(messages: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame) -> list[str]:
    """Every fault of the tables, one sentence each with ids and counts; empty where there is none.

    Columns of a convertible type are reported and then read as converted, a time without a zone as UTC.
    """
    given = {"messages": messages, "queries": queries, "qrels": qrels}
    tables = {name: _readable(frame, SCHEMAS[name]) for name, frame in given.items()}
    found: list[str] = []
    for name, frame in given.items():
        found += _column_faults(name, frame)
    for name, frame in tables.items():
        found += [*_null_faults(name, frame), *_empty_id_faults(name, frame)]
        found += [*_repeated_key_faults(name, frame), *_time_range_faults(name, frame)]
    there = {f"{name}.{column}" for name, frame in tables.items() for column in frame.columns}
    for check in CHECKS:
        if there.issuperset(check.needs):
            found += check.find(tables)
    return found


def _readable(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The columns that have, or can be given, the type of the schema; the others are left out."""
    cast = cast_losslessly(frame.with_columns(_as_utc(column) for column in frame), schema)
    return cast.select(column for column in cast if schema.get(column.name) == column.dtype)


def _as_utc(column: pl.Series) -> pl.Series:
    if not isinstance(column.dtype, pl.Datetime):
        return column
    if column.dtype.time_zone is None:
        return column.dt.replace_time_zone("UTC")
    return column.dt.convert_time_zone("UTC")


def _column_faults(table: str, frame: pl.DataFrame) -> Iterator[str]:
    schema = SCHEMAS[table]
    for name in schema:
        if name not in frame.columns:
            yield f"{table} has no column {name}; expected {', '.join(schema)}"
    if extra := [name for name in frame.columns if name not in schema]:
        unknown = tally(len(extra), "unknown column", map(quoted, extra))
        yield f"{table} has {unknown}; expected only {', '.join(schema)}"
    for name, wanted in schema.items():
        if name in frame.columns and frame.schema[name] != wanted:
            yield f"{table}.{name} {_type_fault(frame.schema[name], wanted)}"


def _type_fault(given: pl.DataType, wanted: pl.DataType) -> str:
    if isinstance(given, pl.Datetime) and isinstance(wanted, pl.Datetime):
        if given.time_zone is None:
            return "has times without a zone, expected UTC; declare it, as in dt.replace_time_zone('UTC')"
        if given.time_zone != wanted.time_zone:
            zone = quoted(given.time_zone)
            return f"has times in the zone {zone}, expected UTC; convert them, as in dt.convert_time_zone('UTC')"
    return f"is {quoted(str(given))}, expected {wanted}; convert the column"


def _null_faults(table: str, frame: pl.DataFrame) -> Iterator[str]:
    for column in frame.columns:
        if column not in NULLABLE[table] and frame[column].null_count():
            yield f"{table}.{column} is null in {_rows(table, frame, pl.col(column).is_null())}; expected a value"


def _empty_id_faults(table: str, frame: pl.DataFrame) -> Iterator[str]:
    for column in _NON_EMPTY[table]:
        if column in frame.columns and (frame[column] == "").any():
            rows = _rows(table, frame, pl.col(column) == "")
            yield f"{table}.{column} is empty in {rows}; expected at least one character"


def _repeated_key_faults(table: str, frame: pl.DataFrame) -> Iterator[str]:
    key = KEYS[table]
    if not set(key) <= set(frame.columns):
        return
    repeated = frame.drop_nulls(key).group_by(key).len().filter(pl.col("len") > 1).sort(key)
    if repeated.height:
        shown = [f"{key_text(row[:-1])} {row[-1]} times" for row in repeated.head(SHOWN).rows()]
        yield f"{table} repeat {tally(repeated.height, ' and '.join(key), shown)}; each must be unique"


def _time_range_faults(table: str, frame: pl.DataFrame) -> Iterator[str]:
    for column, dtype in frame.schema.items():
        outside = ~pl.col(column).is_between(_FIRST_TIME, _LAST_TIME)
        if isinstance(dtype, pl.Datetime) and frame.filter(outside).height:
            yield (
                f"{table}.{column} is outside the years 1 to 9999 in {_rows(table, frame, outside)}; "
                "check the unit the times were written in"
            )


def _rows(table: str, frame: pl.DataFrame, mask: pl.Expr) -> str:
    """How many rows a mask has, and the first of them by id, or by number where an id is missing."""
    key = [name for name in KEYS[table] if name in frame.columns]
    rows = frame.with_row_index("_row").filter(mask).select("_row", *key)
    shown = [f"number {row[0]}" if None in row or not key else key_text(row[1:]) for row in rows.head(SHOWN).rows()]
    return tally(rows.height, "row", shown)
