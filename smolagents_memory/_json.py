"""JSON from sources that are not trusted: bounded, strict, and never anything but our own error."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from smolagents_memory._errors import DecodeError


def parse_json(
    text: bytes | str, *, constants: bool = False, build: Callable[[dict[str, Any]], Any] | None = None
) -> Any:
    """JSON from a source that is not trusted; `constants` lets NaN and infinities pass, which others write.

    `build` gets every object, the inner ones first, and gives what is to stand in its place.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        return _decoder(constants, build).decode(text)
    except RecursionError:
        raise DecodeError("it is nested deeper than anything that this package writes") from None
    except ValueError as error:
        raise DecodeError(f"it is not JSON: {error}") from error


@functools.lru_cache(maxsize=8)
def _decoder(constants: bool, build: Callable[[dict[str, Any]], Any] | None) -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=None if constants else _refuse, object_hook=build)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
