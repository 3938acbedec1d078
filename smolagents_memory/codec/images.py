"""Images to bytes and back, to the pixel, in every mode that Pillow has."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import MutableMapping
from typing import Any

from PIL import Image

from smolagents_memory.codec.blobs import read_blob
from smolagents_memory.codec.graph import Decoder, Encoder, Node
from smolagents_memory.codec.python_types import read_copied


_PLAIN = 16
_NEEDED = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
_ROW = 8  # bytes that an image holds of each of its rows, also of empty ones
_PNG = {"1", "L", "LA", "RGB", "RGBA"}  # what PNG keeps as it is in every supported version of Pillow


def write_image(encoder: Encoder, image: Image.Image, depth: int) -> dict[str, Node]:
    """An image as a node; its bytes go to the blobs, once for equal pixels."""
    return encoder.blobs.image_node(image, lambda: _image_node(encoder, image, depth))


def _image_node(encoder: Encoder, image: Image.Image, depth: int) -> dict[str, Node]:
    image.load()
    width, height = image.size
    if width * height > pixel_limit():
        raise ValueError(f"an image of {width} × {height} pixels: more than PIL.Image.MAX_IMAGE_PIXELS allows to read")
    pixels = image.tobytes()
    node: dict[str, Node] = {"mode": image.mode, "size": [width, height]}
    if image.palette is not None and image.mode in ("P", "PA"):
        node["palette"] = [image.palette.mode, encoder.blobs.node(bytes(image.getpalette(image.palette.mode) or ()))]
    if "transparency" in image.info:
        node["transparency"] = encoder.node(image.info["transparency"], depth + 1)
    key = hashlib.sha256(repr((image.mode, image.size)).encode() + pixels).digest()
    known = encoder.blobs.pixels.get(key)
    if known is None:
        known = encoder.blobs.pixels[key] = encoder.blobs.put(_packed(image, pixels))
    frames = int(getattr(image, "n_frames", 1))
    if frames > 1:
        encoder.losses.append(f"the other {frames - 1} frames of an image")
    return {**node, "format": "png" if image.mode in _PNG and width and height else "zlib", "at": known}


def _packed(image: Image.Image, pixels: bytes) -> bytes:
    if image.mode not in _PNG or not pixels:
        return zlib.compress(pixels, 6)
    bare = Image.frombytes(image.mode, image.size, pixels)  # without notes such as a colour profile
    target = io.BytesIO()
    bare.save(target, "PNG", compress_level=4)
    return target.getvalue()


def read_image(decoder: Decoder, node: dict[str, Any], define: Any) -> Image.Image:
    """The image that `write_image` wrote, the same object for the same image of one history."""
    made: MutableMapping[str, Image.Image] = getattr(decoder.blobs, "images", {})  # maybe for as long as they live
    key = json.dumps(node, sort_keys=True)
    image = made.get(key)
    if image is None:
        image = made[key] = _made(decoder, node)
    return image


def _made(decoder: Decoder, node: dict[str, Any]) -> Image.Image:
    """Nothing is unpacked beyond the size that the record and Pillow allow."""
    mode, (width, height) = str(node["mode"]), node["size"]
    if not (
        type(width) is int and type(height) is int and min(width, height) >= 0 and width * height <= pixel_limit()
    ):
        allowed = "more than PIL.Image.MAX_IMAGE_PIXELS allows; raise that limit if the file is your own"
        raise ValueError(f"an image of {width} × {height} pixels: {allowed}")
    _take(decoder, width * height * _bytes_of_pixel(mode), node)
    packed = read_copied(decoder, node)
    image = _from_png(packed, mode, (width, height)) if node["format"] == "png" else None
    if image is None:
        expected = _byte_count(mode, width, height)
        pixels = zlib.decompressobj().decompress(packed, expected + 1)
        if len(pixels) != expected:
            raise ValueError(f"an image of {width} × {height} in mode {mode} that has {len(pixels)} bytes of pixels")
        image = Image.frombytes(mode, (width, height), pixels) if pixels else Image.new(mode, (width, height))
    if "palette" in node:
        palette_mode, blob = node["palette"]
        image.putpalette(read_blob(blob, decoder.blobs), palette_mode)
    if "transparency" in node:
        transparency = decoder.value(node["transparency"])
        if type(transparency) not in (int, bytes, tuple):
            raise ValueError("an image whose transparency is no number")
        image.info["transparency"] = transparency
    return image


def _take(decoder: Decoder, size: int, node: dict[str, Any]) -> None:
    """Plain pixels are packed a thousandfold; but the same ones are not unpacked again and again."""
    unpacked: set[str] = getattr(decoder.blobs, "unpacked", set())
    known = str(node.get("at"))
    width, height = node["size"]
    decoder.allowance.take(_ROW * height, f"an image of {height} rows")
    packed = 1 if known in unpacked else _PLAIN
    unpacked.add(known)
    decoder.allowance.take(size, f"an image of {width} × {height} pixels", packed=packed)


def _from_png(packed: bytes, mode: str, size: tuple[int, int]) -> Image.Image:
    with Image.open(io.BytesIO(_bare(packed)), formats=["PNG"]) as opened:
        if opened.size != size or opened.mode != mode:
            raise ValueError(f"an image that should be {size} in {mode} is {opened.size} in {opened.mode}")
        opened.load()
        return Image.frombytes(mode, size, opened.tobytes())


def _bare(packed: bytes) -> bytes:
    """Only what the pixels of a PNG need: what notes unpack to is written nowhere, and Pillow unpacks it each time."""
    kept, at = [packed[:8]], 8
    while at + 12 <= len(packed):
        end = at + 12 + int.from_bytes(packed[at : at + 4], "big")
        if packed[at + 4 : at + 8] in _NEEDED:
            kept.append(packed[at:end])
        at = end
    return b"".join(kept)


def _byte_count(mode: str, width: int, height: int) -> int:
    if not width or not height:
        return 0
    if mode == "1":
        return (width + 7) // 8 * height
    return _bytes_of_pixel(mode) * width * height


def _bytes_of_pixel(mode: str) -> int:
    return len(Image.new(mode, (1, 1)).tobytes())


def pixel_limit() -> int:
    """The number of pixels from which Pillow itself takes an image for an attack."""
    return 2 * (Image.MAX_IMAGE_PIXELS or 2**62)
