"""Values of Pillow, numpy and pandas. numpy and pandas are never imported: who holds their values has done it."""

from __future__ import annotations

import sys
from typing import Any

from PIL import Image

from smolagents_memory.codec import frames
from smolagents_memory.codec.graph import Decoder, Encoder, Node, Read, Write
from smolagents_memory.codec.images import read_image, write_image
from smolagents_memory.codec.lazily import np
from smolagents_memory.codec.python_types import of_kind, read_copied
from smolagents_memory.codec.unfolding import check_unfolding


_DEEPEST = 60  # dtypes within dtypes


def write_array(encoder: Encoder, array: Any, depth: int) -> dict[str, Node]:
    """An array: its numbers as bytes, in its own order, with its dtype; objects one by one."""
    node: dict[str, Node] = {"shape": list(array.shape)}
    if type(array) is np.ma.MaskedArray:
        parts = (array.data, np.ma.getmaskarray(array), array.fill_value)
        return {"masked": [encoder.node(part, depth + 1) for part in parts]}
    if type(array) not in (np.ndarray, np.memmap):
        raise TypeError("a subclass of numpy's array")
    if array.dtype.hasobject:
        if array.dtype.kind != "O":
            raise TypeError(f"an array of {array.dtype}")
        return {**node, "dtype": "O", "v": [encoder.node(item, depth + 1) for item in array.ravel().tolist()]}
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    node["dtype"] = encoder.node(np.lib.format.dtype_to_descr(array.dtype), depth + 1)
    return {**node, "order": order, **encoder.blobs.node(array.tobytes(order))}


def read_array(decoder: Decoder, node: dict[str, Any], define: Any) -> Any:
    """The array that `write_array` wrote."""
    if "masked" in node:
        data, mask, fill = (decoder.value(part) for part in node["masked"])
        if not (type(data) is type(mask) is np.ndarray and data.shape == mask.shape and mask.dtype == bool):
            raise ValueError("a masked array whose parts do not fit")
        size = data.nbytes + mask.nbytes + data.dtype.itemsize  # the last one for what fills its gaps
        decoder.allowance.take(size, f"a masked array of {data.dtype}")
        return np.ma.MaskedArray(data, mask, fill_value=fill)
    shape = tuple(of_kind(each, int) for each in node["shape"])
    if node["dtype"] == "O":
        array = np.empty(len(node["v"]), dtype=object)
        target = define(array.reshape(shape))
        for index, item in enumerate(node["v"]):
            array[index] = decoder.value(item)
        return target
    dtype = _dtype(decoder, decoder.value(node["dtype"]))
    if dtype.hasobject:
        raise ValueError("an array of objects that pretends to be one of numbers")
    decoder.allowance.take(dtype.itemsize, f"an array of {dtype}")  # as much as numpy makes at least
    data = read_copied(decoder, node)
    if not data:
        if 0 not in shape:
            raise ValueError(f"an array of shape {shape} without any data")
        return np.empty(shape, dtype=dtype)
    return np.frombuffer(data, dtype=dtype).reshape(shape, order=node["order"]).copy(order=node["order"])


def _write_scalar(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"v": write_array(encoder, np.asarray(value), depth)}


def _read_scalar(decoder: Decoder, node: dict[str, Any], define: Any) -> Any:
    return read_array(decoder, node["v"], lambda value: value)[()]


def _write_dtype(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"v": encoder.node(np.lib.format.dtype_to_descr(value), depth + 1)}


def _read_dtype(decoder: Decoder, node: dict[str, Any], define: Any) -> Any:
    return _dtype(decoder, decoder.value(node["v"]))


def _dtype(decoder: Decoder, description: Any) -> Any:
    """The dtype that numpy's own files describe so: texts, numbers, lists and tuples, and nothing else."""
    check_unfolding([description], decoder.allowance)
    _check_description(description, ())
    return np.lib.format.descr_to_dtype(description)


def _check_description(description: Any, within: tuple[int, ...]) -> None:
    if type(description) in (list, tuple):
        if id(description) in within or len(within) > _DEEPEST:
            raise ValueError("a dtype that is described by itself")
        for each in description:
            _check_description(each, (*within, id(description)))
    elif type(description) not in (str, int):
        raise ValueError(f"a dtype that is described by a {type(description).__name__}")


# the classes of numpy, by their names
_FORMS: dict[str, tuple[str, Write, Read]] = {
    "ndarray": ("ndarray", write_array, read_array),
    "generic": ("npscalar", _write_scalar, _read_scalar),
    "dtype": ("dtype", _write_dtype, _read_dtype),
}
READERS: dict[str, Read] = {"image": read_image, **{tag: read for tag, _, read in _FORMS.values()}, **frames.READERS}


def find_writer(value: Any) -> tuple[str, Write] | None:
    """The writer for an image, or for a value of a library that is loaded."""
    if isinstance(value, Image.Image):
        return "image", write_image
    numpy = sys.modules.get("numpy")
    for name, (tag, write, _) in _FORMS.items():
        if isinstance(value, getattr(numpy, name, ())):
            return tag, write
    return frames.find_writer(value)
