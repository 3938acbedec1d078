"""Python values to plain JSON and back: `encode_value`, `decode_value`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smolagents_memory._errors import DecodeError, UnsupportedValueError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.codec import libraries, objects, python_types
from smolagents_memory.codec.blobs import Blobs, embed_blobs, extract_blobs
from smolagents_memory.codec.graph import TAG, Decoder, Encoder, Node, Read, Write
from smolagents_memory.codec.placeholders import not_kept_node
from smolagents_memory.codec.registry import registry
from smolagents_memory.codec.unfolding import check_unfolding
from smolagents_memory.privacy.scrubbers import Scrubber


def encode_value(value: Any, blobs: Blobs | None = None) -> Node:
    """Turn any value into plain JSON. Never raises; what cannot be kept is replaced by a visible placeholder.

    Images and large bytes go into `blobs`; without it they are written into the result, which then stands alone.

    >>> from smolagents_memory import decode_value, encode_value
    >>> encode_value({"point": (1, 2)})
    {'point': {'$': 'tuple', 'v': [1, 2]}}
    >>> decode_value(encode_value({"point": (1, 2)}))
    {'point': (1, 2)}
    """
    encoder = new_encoder(blobs)
    node = encoder.encode(value)
    warn_of_losses(encoder.losses)
    if blobs is None and encoder.blobs.data:
        return {TAG: "with-blobs", "v": node, "blobs": embed_blobs(encoder.blobs.data)}
    return node


def decode_value(node: Node, blobs: Mapping[str, bytes] | None = None) -> Any:
    """Turn what `encode_value` gave back into the value. A malformed node raises DecodeError."""
    if isinstance(node, dict) and node.get(TAG) == "with-blobs":
        try:
            node, blobs = node["v"], extract_blobs(node["blobs"])
        except (KeyError, AttributeError, TypeError) as error:
            raise DecodeError(f"a malformed record: {error!r}") from error
    return new_decoder(blobs or {}).decode(node)


def decode_shown(node: Node, blobs: Mapping[str, bytes]) -> Any:
    """The value of a node that will be shown as text."""
    decoder = new_decoder(blobs)
    value = decoder.decode(node)
    if decoder.refs:
        check_unfolding([value], decoder.allowance)
    return value


def new_encoder(blobs: Blobs | None = None) -> Encoder:
    """An encoder for values of every known type."""
    return Encoder(find_writer, not_kept_node, Blobs() if blobs is None else blobs)


def new_decoder(blobs: Mapping[str, bytes]) -> Decoder:
    """A decoder for values of every known type."""
    return Decoder(READERS, blobs)


def scrubbed_value(value: Any, scrubber: Scrubber | None) -> Any:
    """A value without what is taken out of the texts in it, however deep; the very same where nothing was found."""
    if scrubber is None or value is None or isinstance(value, (bool, int, float)):
        return value
    if type(value) is str:
        return scrubber.text(value)
    encoder = new_encoder(Blobs(scrubber))
    node = encoder.encode(value)
    if encoder.losses and encoder.scrubbed:
        kinds = ", ".join(sorted(set(encoder.losses))[:5])
        raise UnsupportedValueError(
            f"a value holds what is redacted beside what cannot be kept ({kinds}); nothing was written"
        )
    return new_decoder(encoder.blobs.data).decode(node) if encoder.scrubbed else value


def warn_of_losses(losses: list[str], what: str = "This value") -> None:
    """One warning that names what could not be kept."""
    if not losses:
        return
    kinds = sorted(set(losses))
    named = ", ".join(kinds[:5]) + (f" and {len(kinds) - 5} other types" if len(kinds) > 5 else "")
    text = f"{what} holds what cannot be kept ({named}); a placeholder stands in its place, all the rest is kept"
    warn_of_loss(text)  # saving never raises because of a value


def find_writer(value: Any) -> tuple[str, Write] | None:
    """The tag and the writer for a value, or None where it cannot be kept."""
    kind = type(value)
    if kind in registry.values:
        return "value", objects.write_registered
    exact = python_types.WRITERS.get(kind) or objects.WRITERS.get(kind)
    return exact or libraries.find_writer(value) or objects.find_writer(value)


# the function that reads each tag
READERS: dict[str, Read] = {**python_types.READERS, **objects.READERS, **libraries.READERS}
