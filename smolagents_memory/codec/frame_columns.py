"""Columns that are not trusted: of so many rows as they have, and hashed in a time that their number says."""

from __future__ import annotations

import re
from typing import Any

from smolagents_memory.codec.graph import Decoder, Node
from smolagents_memory.codec.lazily import np, pd
from smolagents_memory.codec.python_types import is_shared, of_kind


# what pandas calls its own types of columns: no zone stands in it, which could be a path
_EXTENSION = re.compile(r"(?!datetime)[A-Za-z0-9_]{1,40}(\[[A-Za-z0-9_ ,.\-]{0,60}\])?")
_SCALARS = (str, int, float, bool, type(None))
_ROW = 64  # what a row costs that becomes an object, or is hashed
_PARSED = 1_000  # a text that is read as a number or a time
_COMPARED = 2
_LOW, _ALL = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_MURMUR = 0x5BD1E995
_PRIMES = (11400714785074694791, 14029467366897019727, 2870177450012600261)


def read_column(decoder: Decoder, node: Node, kinds: str = "") -> Any:
    """A column that is one, of so many rows as it has: pandas would make a single value as long as the index."""
    column = decoder.value(node)
    if type(column) is not np.ndarray or column.ndim != 1 or (kinds and column.dtype.kind not in kinds):
        raise ValueError("a column that is no array, or not of what it should be")
    if is_shared(node):
        size = column.nbytes + (_ROW * len(column) if column.dtype.kind in "SUV" else 0)
        decoder.allowance.take(size, f"{len(column)} rows of one column again and again")
    return column


def read_cells(decoder: Decoder, name: Any, node: Node) -> Any:
    """A column of one of pandas' own types: of texts and numbers, which it would not write out, however long."""
    if not isinstance(name, str) or not _EXTENSION.fullmatch(name):
        raise ValueError(f"a column of {str(name)[:40]!r}")
    dtype = _dtype(name)
    # numpy's own may have items of any size, and a category would hash what nobody has looked at
    if not isinstance(dtype, pd.api.extensions.ExtensionDtype) or isinstance(dtype, pd.CategoricalDtype):
        raise ValueError(f"a column of cells of {name[:40]!r}")
    cells = of_kind(decoder.value(node), list)
    kinds = {type(cell) for cell in cells}
    if not all(kind in _SCALARS or issubclass(kind, (np.number, np.bool_)) for kind in kinds):
        raise ValueError("a column with a cell that is none")
    texts = [cell for cell in cells if type(cell) is str]
    if is_shared(node):
        decoder.allowance.take(_ROW * len(cells) + sum(map(len, texts)), f"{len(cells)} cells again and again")
    if not isinstance(dtype, pd.StringDtype):
        decoder.allowance.take(_PARSED * len(texts), f"{len(texts)} texts that are no texts")
    return pd.array(cells, dtype=dtype)


def _dtype(name: str) -> Any:
    """The type of that name. `str` is what pandas 3 makes of texts; pandas 2.3 has it too, and calls numpy's so."""
    dtype = pd.api.types.pandas_dtype(name)
    if name != "str" or isinstance(dtype, pd.StringDtype):
        return dtype
    try:
        return pd.StringDtype("python", na_value=np.nan)
    except TypeError:
        return pd.StringDtype("python")


def take_rows(decoder: Decoder, values: Any, what: str) -> None:
    """Something is made of each row, each time."""
    decoder.allowance.take(_ROW * len(values), f"{len(values)} {what}")


def check_distinct(decoder: Decoder, values: Any) -> None:
    """What pandas looks up by its hash, of 32 bits that anyone can work out."""
    if not isinstance(values, pd.Index) or isinstance(values, pd.MultiIndex):
        raise ValueError("categories that are no index")
    if isinstance(values, (pd.RangeIndex, pd.CategoricalIndex)):
        return
    take_rows(decoder, values, "categories")
    if values.dtype.kind == "O":
        decoder.keys(values.tolist())
    for hashes in _hashes(values):
        alike = np.unique(hashes, return_counts=True)[1].astype(np.float64)  # each is compared with those before it
        decoder.allowance.take(_COMPARED * int(alike @ (alike - 1)), "so many categories of the same hash")


def _hashes(values: Any) -> list[Any]:
    """The hashes that pandas may give these, by whichever of its tables."""
    if isinstance(values, pd.PeriodIndex):
        return [_of_ints(values.asi8)]
    if isinstance(values.dtype, np.dtype):
        return [_of_array(values.to_numpy())]
    found = values[~values.isna()]  # of a type of pandas' own, which is hashed as what it holds, or as objects
    return [_of_array(found.to_numpy()), _of_objects(found.tolist())]


def _of_array(values: Any) -> Any:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "c" and size in (8, 16):
        return _of_floats(values.real) ^ _of_floats(values.imag)
    if kind == "f" and size in (4, 8):
        return _of_floats(values)
    if kind in "iumM" and size == 8:
        return _of_ints(values)
    return _of_objects(values.tolist()) if kind == "O" else values[:0]  # smaller ones are their own hashes


def _of_ints(values: Any) -> Any:
    bits = np.ascontiguousarray(values).view(np.uint64)
    return (bits >> np.uint64(33) ^ bits ^ bits << np.uint64(11)).astype(np.uint32)


def _of_floats(values: Any) -> Any:
    """MurmurHash 2, as pandas takes it, of each number's four or eight bytes."""
    known = np.ascontiguousarray(values + 0.0)  # there is one zero
    halves = known.view(np.uint32).reshape(len(known), -1)
    found = np.full(len(known), 0xC70F6907 ^ 4, dtype=np.uint32)
    for half in halves.T:
        mixed = half * np.uint32(_MURMUR)
        found = found * np.uint32(_MURMUR) ^ (mixed ^ mixed >> np.uint32(24)) * np.uint32(_MURMUR)
    found = (found ^ found >> np.uint32(13)) * np.uint32(_MURMUR)
    return found ^ found >> np.uint32(15)


def _of_objects(values: list[Any]) -> Any:
    return np.array(list(map(_of_object, values)), dtype=np.uint32)


def _of_object(value: Any) -> int:
    """Python's own hash, folded; a tuple's is made of the folded ones of its parts."""
    found = _of_tuple(value) if type(value) is tuple else hash(value) & _ALL
    return (found >> 32 ^ found) & _LOW


def _of_tuple(value: tuple[Any, ...]) -> int:
    found = _PRIMES[2]
    for lane in map(_of_object, value):
        found = (found + lane * _PRIMES[1]) & _ALL
        found = (found << 31 | found >> 33) * _PRIMES[0] & _ALL
    return (found + (len(value) ^ _PRIMES[2] ^ 3527539)) & _ALL
