"""Blobs: the bytes of images and large values, kept beside a record under their SHA-256."""

from __future__ import annotations

import base64
import binascii
import hashlib
import weakref
from collections.abc import Callable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

from smolagents_memory._errors import DecodeError
from smolagents_memory.codec.allowance import Allowance
from smolagents_memory.privacy.scrubbers import Scrubber


INLINE_LIMIT = 512


class Blobs:
    """Bytes by their SHA-256, met while encoding. Equal pixels are packed once, the same image is hashed once.

    A `scrubber` takes things out of every text that is encoded with them.
    """

    def __init__(self, scrubber: Scrubber | None = None) -> None:
        self.scrubber = scrubber
        self.data: dict[str, bytes] = {}
        self.pixels: dict[bytes, str] = {}
        self._images: dict[int, tuple[weakref.ref[Any], dict[str, Any]]] = {}

    def image_node(self, image: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The node of an image, made once for as long as the image lives."""
        known = self._images.get(id(image))
        if known is not None and known[0]() is image:
            return dict(known[1])
        node, place = make(), id(image)
        self._images[place] = (weakref.ref(image, lambda _: self._images.pop(place, None)), node)
        return dict(node)

    def forget_images(self) -> None:
        """Hash every image anew from now on: somebody may have painted on one."""
        self._images.clear()

    def put(self, data: bytes) -> str:
        """Keep `data`; returns its name."""
        name = hashlib.sha256(data).hexdigest()
        self.data.setdefault(name, data)
        return name

    def node(self, data: bytes) -> dict[str, Any]:
        """`data` as part of a record: written out when it is short, else by name."""
        if len(data) <= INLINE_LIMIT:
            return {"b64": base64.b64encode(data).decode("ascii")}
        return {"at": self.put(data)}


class LoadedBlobs(dict[str, bytes]):
    """Blobs that were read, and the images made of them: equal images of one history are one object.

    `allowance` is what may be made of the source that they are from.
    """

    def __init__(self, data: Mapping[str, bytes] = MappingProxyType({}), allowance: Allowance | None = None) -> None:
        super().__init__(data)
        self.images: MutableMapping[str, Any] = {}
        self.unpacked: set[str] = set()  # pixels that were made of these already
        self.allowance = allowance or Allowance(sum(map(len, data.values())))


class FetchedBlobs(LoadedBlobs):
    """Blobs that are read when they are first needed, until they are let go."""

    def __init__(self, fetch: Callable[[str], bytes | None]) -> None:
        super().__init__(allowance=Allowance(total=1 << 62))  # of a database, what was put there comes back
        self._fetch: Callable[[str], bytes | None] | None = fetch

    def __missing__(self, name: Any) -> bytes:
        try:
            found = self._fetch(name) if self._fetch is not None else None
        except DecodeError as error:
            raise DecodeError(f"the content {name[:16]}… is damaged: {error}") from error
        if found is None:
            raise KeyError(name)
        self[name] = found
        self.allowance.gain(len(found))
        return found

    def let_go(self) -> None:
        """What they are read from is gone; what was read stays."""
        self._fetch = None


def read_blob(node: Mapping[str, Any], blobs: Mapping[str, bytes]) -> bytes:
    """The bytes that `Blobs.node` wrote."""
    if "b64" in node:
        return unbase64(node["b64"])
    try:
        return blobs[node["at"]]
    except KeyError:
        raise DecodeError(f"the content {str(node.get('at'))[:16]}… that this record needs is missing") from None


def unbase64(text: Any) -> bytes:
    """Strict base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise DecodeError(f"this should be base64: {str(text)[:40]!r}") from error


def embed_blobs(data: Mapping[str, bytes]) -> dict[str, str]:
    """Blobs as JSON."""
    return {name: base64.b64encode(content).decode("ascii") for name, content in data.items()}


def extract_blobs(embedded: Mapping[str, str]) -> dict[str, bytes]:
    """The blobs that `embed_blobs` wrote; damaged ones are refused."""
    blobs = Blobs()
    for name, text in embedded.items():
        if blobs.put(unbase64(text)) != name:
            raise DecodeError(f"the content {name[:16]}… is damaged: its checksum is another")
    return blobs.data
