"""Values of pandas: frames, series, indexes, times. Nothing here imports pandas until a record asks for it."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from smolagents_memory.codec.frame_columns import check_distinct, read_cells, read_column, take_rows
from smolagents_memory.codec.graph import Decoder, Encoder, Node, Read, Write
from smolagents_memory.codec.lazily import pd
from smolagents_memory.codec.python_types import of_kind, zone_name


def _write_column(encoder: Encoder, values: Any, depth: int) -> list[Node]:
    """The values of a column or an index: [kind, …]."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        array = values.array if hasattr(values, "array") else values
        parts = (array.codes, dtype.categories, bool(dtype.ordered))
        return ["category", *(encoder.node(part, depth + 1) for part in parts)]
    if isinstance(dtype, pd.DatetimeTZDtype):
        naive = pd.DatetimeIndex(values).tz_convert("UTC").tz_localize(None)
        return ["zoned", encoder.node(naive.to_numpy(), depth + 1), _zone(encoder, dtype.tz, depth)]
    if not pd.api.types.is_extension_array_dtype(dtype):
        return ["numpy", encoder.node(values.to_numpy(), depth + 1)]
    cells = [None if missing else cell for cell, missing in zip(values.tolist(), values.isna(), strict=True)]
    return ["extension", str(dtype), encoder.node(cells, depth + 1)]


def _zone(encoder: Encoder, zone: Any, depth: int) -> Node:
    """A time zone by its name where it has one: pandas 2 and 3 make different objects of the same name."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    return name if isinstance(name, str) else encoder.node(zone, depth + 1)


def _read_column(decoder: Decoder, node: list[Node]) -> Any:
    kind, parts = node[0], node[1:]
    if kind == "category":
        codes, categories, ordered = read_column(decoder, parts[0], "iu"), *map(decoder.value, parts[1:])
        check_distinct(decoder, categories)
        return pd.Categorical.from_codes(codes, categories=categories, ordered=ordered)
    if kind == "zoned":
        naive, zone = read_column(decoder, parts[0], "M"), decoder.value(parts[1])
        return pd.DatetimeIndex(naive).tz_localize("UTC").tz_convert(_read_zone(zone)).array
    if kind == "extension":
        return read_cells(decoder, *parts)
    return read_column(decoder, parts[0])


def _read_zone(zone: Any) -> Any:
    return zone_name(zone) if isinstance(zone, str) else zone


def _write_index(encoder: Encoder, index: Any, depth: int) -> dict[str, Node]:
    names = encoder.node(list(index.names), depth + 1)
    if type(index) is pd.RangeIndex:
        return {"range": [index.start, index.stop, index.step], "names": names}
    if type(index) is pd.MultiIndex:
        levels = [_write_column(encoder, level, depth) for level in index.levels]
        return {"levels": levels, "codes": [encoder.node(c, depth + 1) for c in index.codes], "names": names}
    if type(index) not in (pd.Index, pd.DatetimeIndex, pd.TimedeltaIndex, pd.CategoricalIndex):
        raise TypeError(f"a pandas {type(index).__name__}")
    frequency = getattr(index, "freqstr", None)
    return {"v": _write_column(encoder, index, depth), "names": names, **({"freq": frequency} if frequency else {})}


def _read_index(decoder: Decoder, node: dict[str, Any], define: Any) -> Any:
    names = decoder.keys(of_kind(decoder.value(node["names"]), list))
    if "range" in node:
        start, stop, step = (of_kind(each, int) for each in node["range"])
        return pd.RangeIndex(start, stop, step, name=names[0])
    if "levels" in node:
        levels = [_index_of(_read_column(decoder, level)) for level in node["levels"]]
        for level in levels:
            check_distinct(decoder, level)
        return pd.MultiIndex(levels, [read_column(decoder, code, "iu") for code in node["codes"]], names=names)
    index = _index_of(_read_column(decoder, node["v"])).rename(names[0])
    if "freq" in node:
        take_rows(decoder, index, "times, one after the other")
        index.freq = of_kind(node["freq"], str)[:40]
    return index


def _index_of(column: Any) -> Any:
    return pd.Index(column, dtype=column.dtype)


def _write_series(encoder: Encoder, series: Any, depth: int) -> dict[str, Node]:
    if type(series) is not pd.Series:
        raise TypeError("a subclass of pandas' Series")
    return {
        "v": _write_column(encoder, series, depth),
        "index": encoder.node(series.index, depth + 1),
        "name": encoder.node(series.name, depth + 1),
    }


def _read_series(decoder: Decoder, node: dict[str, Any], define: Any) -> Any:
    column, index = _read_column(decoder, node["v"]), decoder.value(node["index"])
    _check_length(column, index)
    return pd.Series(
        column, index=index, name=decoder.key(decoder.value(node["name"])), dtype=column.dtype, copy=False
    )


def _check_length(column: Any, index: Any) -> None:
    if not isinstance(index, pd.Index) or len(column) != len(index):
        raise ValueError(f"a column of {len(column)} rows and an index that has others")


def _write_frame(encoder: Encoder, frame: Any, depth: int) -> dict[str, Node]:
    if type(frame) is not pd.DataFrame:
        raise TypeError("a subclass of pandas' DataFrame")
    return {
        "columns": encoder.node(frame.columns, depth + 1),
        "index": encoder.node(frame.index, depth + 1),
        "v": [
            encoder.under(name, partial(_write_column, encoder, frame.iloc[:, at], depth))
            for at, name in enumerate(frame.columns)
        ],
    }


def _read_frame(decoder: Decoder, node: dict[str, Any], define: Any) -> Any:
    index = decoder.value(node["index"])
    columns = [_read_column(decoder, column) for column in node["v"]]
    for column in columns:
        _check_length(column, index)
    frame = pd.DataFrame(
        {at: pd.Series(column, index=index, dtype=column.dtype) for at, column in enumerate(columns)}, index=index
    )
    frame.columns = decoder.value(node["columns"])
    return frame


def _write_timestamp(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {**_write_timedelta(encoder, value, depth), "zone": _zone(encoder, value.tzinfo, depth)}


def _read_timestamp(decoder: Decoder, node: dict[str, Any], define: Any) -> Any:
    zone = decoder.value(node["zone"])
    moment = pd.Timestamp(of_kind(node["v"], int), unit="ns")
    moment = moment if zone is None else moment.tz_localize("UTC").tz_convert(_read_zone(zone))
    return moment.as_unit(node["unit"])


def _write_timedelta(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"v": value.value, "unit": value.unit}


def _read_timedelta(decoder: Decoder, node: dict[str, Any], define: Any) -> Any:
    return pd.Timedelta(of_kind(node["v"], int), unit="ns").as_unit(node["unit"])


# the classes of pandas, by their names: a tag is "pd." and the name
_FORMS: dict[str, tuple[Write, Read]] = {
    "DataFrame": (_write_frame, _read_frame),
    "Series": (_write_series, _read_series),
    "Index": (_write_index, _read_index),
    "Timestamp": (_write_timestamp, _read_timestamp),
    "Timedelta": (_write_timedelta, _read_timedelta),
}
READERS: dict[str, Read] = {
    **{f"pd.{name}": read for name, (_, read) in _FORMS.items()},
    "pd.missing": lambda decoder, node, define: {"NaT": pd.NaT, "NA": pd.NA}[node["v"]],
}


def find_writer(value: Any) -> tuple[str, Write] | None:
    """The writer for a value of pandas."""
    if not hasattr(sys.modules.get("pandas"), "DataFrame"):  # not there, or being imported at this moment
        return None
    if value is pd.NaT or value is pd.NA:
        return "pd.missing", lambda encoder, value, depth: {"v": "NaT" if value is pd.NaT else "NA"}
    found = (name for name in _FORMS if isinstance(value, getattr(pd, name)))
    return next(((f"pd.{name}", _FORMS[name][0]) for name in found), None)
