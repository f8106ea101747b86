"""Casts of a frame's columns to a schema, where no value changes."""

import polars as pl


def cast_losslessly(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The columns of `schema` first and in its order, cast where casting back gives the same values.

    Whole numbers change width, times of the same zone change unit, categories become strings, and a column
    of nulls takes any type. Every other column stays as it is, for the validator to report.
    """
    known = [_cast(frame[name], dtype) for name, dtype in schema.items() if name in frame.columns]
    extra = [frame[name] for name in frame.columns if name not in schema]
    return pl.DataFrame([*known, *extra])


def _cast(series: pl.Series, wanted: pl.DataType) -> pl.Series:
    if series.dtype == wanted or not _may_cast(series.dtype, wanted):
        return series
    cast = series.cast(wanted, strict=False)
    return cast if cast.cast(series.dtype, strict=False).equals(series) else series


def _may_cast(given: pl.DataType, wanted: pl.DataType) -> bool:
    if given == pl.Null:
        return True
    if isinstance(given, pl.Datetime) and isinstance(wanted, pl.Datetime):
        return given.time_zone == wanted.time_zone
    if isinstance(given, pl.Categorical | pl.Enum):
        return wanted == pl.String
    return given.is_integer() and wanted.is_integer()
