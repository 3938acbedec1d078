"""Values to plain JSON and back."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image
from strategies import Point, values

from smolagents_memory import (
    DecodeError,
    MemoryLossWarning,
    NotKept,
    Unknown,
    decode_value,
    encode_value,
    register_value,
)
from smolagents_memory.codec.registry import registry
from smolagents_memory.testing import explain_difference, same


thorough = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def trip(value: object) -> object:
    """Through real JSON text, as a file holds it."""
    return decode_value(json.loads(json.dumps(encode_value(value), allow_nan=False)))


@thorough
@given(values)
def test_every_value_comes_back_as_it_was(value: object) -> None:
    assert explain_difference(value, trip(value)) is None


@thorough
@given(values)
def test_what_came_back_is_encoded_the_same_again(value: object) -> None:
    once = encode_value(value)
    assert json.dumps(encode_value(decode_value(once))) == json.dumps(once)


def test_cycles_and_shared_parts_keep_their_identity() -> None:
    inner: list[object] = [1]
    ring: dict[str, object] = {"a": inner, "b": (inner, inner)}
    ring["self"] = ring
    tuple_ring: tuple[list[object]] = ([],)
    tuple_ring[0].append(tuple_ring)

    back = trip([ring, tuple_ring])

    assert back[0]["self"] is back[0]  # type: ignore[index]
    assert back[0]["a"] is back[0]["b"][0] is back[0]["b"][1]  # type: ignore[index]
    assert back[1][0][0] is back[1]  # type: ignore[index]


@pytest.mark.parametrize("make", [lambda inner: [inner], lambda inner: {"in": inner}, lambda inner: (inner,)])
def test_values_far_deeper_than_json_allows_come_back(make) -> None:  # type: ignore[no-untyped-def]
    deep: object = 1
    for _ in range(5_000):
        deep = make(deep)
    assert same(deep, trip(deep))


def test_what_cannot_be_kept_is_named_where_it_stood_with_one_warning() -> None:
    with socket.socket() as connection, pytest.warns(MemoryLossWarning, match=r"_thread.lock, socket.socket") as seen:
        back = trip({"kept": 1, "socket": connection, "locks": [threading.Lock(), threading.Lock()]})
    assert len(seen) == 1
    assert back["kept"] == 1  # type: ignore[index]
    assert isinstance(back["socket"], NotKept)  # type: ignore[index]
    assert "not kept: socket.socket" in str(back["socket"])  # type: ignore[index]


def test_losses_never_raise_even_where_warnings_are_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(decode_value(encode_value(threading.Lock())), NotKept)


class Hostile:
    """Everything about it raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no eq")

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no {name}")

    __hash__ = None  # type: ignore[assignment]


def test_a_value_whose_every_method_raises_is_replaced() -> None:
    with pytest.warns(MemoryLossWarning):
        assert isinstance(trip([Hostile()])[0], NotKept)  # type: ignore[index]


def test_what_a_lost_value_shared_with_others_is_still_there() -> None:
    shared = [1, 2]
    broken = Point(shared)
    broken.__dict__["$no name"] = 1
    with pytest.warns(MemoryLossWarning):
        back = trip([broken, shared, shared])
    assert isinstance(back[0], NotKept)  # type: ignore[index]
    assert back[1] == [1, 2]  # type: ignore[index]
    assert back[1] is back[2]  # type: ignore[index]


def test_a_dataclass_that_is_not_known_in_this_process_is_kept_as_data_and_goes_back_as_it_came() -> None:
    node = {"$": "object", "c": "somewhere:Else", "v": {"x": {"$": "tuple", "v": [1]}}}
    value = decode_value(node)
    assert isinstance(value, Unknown)
    assert value.data == {"x": (1,)}
    assert encode_value(value) == node


def test_nothing_is_imported_by_a_name_from_data() -> None:
    import sys

    sys.modules.pop("antigravity", None)
    for tag in ("object", "value", "enum", "sub"):
        value = decode_value({"$": tag, "c": "antigravity:fly", "v": {"base": "str", "body": "", "attributes": {}}})
        assert isinstance(value, Unknown)
    assert isinstance(
        decode_value({"$": "error", "c": ["os:system"], "args": ["true"], "attributes": {}}), BaseException
    )
    assert "antigravity" not in sys.modules


def test_a_registered_class_comes_back_by_its_own_functions() -> None:
    class Money:
        def __init__(self, cents: int) -> None:
            self.cents = cents

    register_value(Money, lambda money: money.cents, Money, name="tests:Money")
    back = trip([Money(5)])[0]  # type: ignore[index]
    assert isinstance(back, Money)
    assert back.cents == 5


def test_registration_refuses_what_is_no_class_half_a_pair_and_a_name_that_is_taken() -> None:
    with pytest.raises(TypeError, match="takes a class"):
        register_value(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="both"):
        register_value(Point, to_data=vars)
    first, second = type("First", (), {}), type("Second", (), {})
    register_value(first, name="tests:taken")
    with pytest.raises(ValueError, match="already the name"):
        register_value(second, name="tests:taken")


def test_a_class_whose_init_would_do_something_is_rebuilt_without_it() -> None:
    ran = []

    @dataclasses.dataclass
    class Careful:
        value: int

        def __post_init__(self) -> None:
            ran.append(self.value)

    register_value(Careful)
    original = Careful(3)
    assert trip(original) == original
    assert ran == [3]
    del registry.values[Careful]


def test_pydantic_models_come_back_when_registered() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Order(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        number: int
        lines: list[str] = []

    register_value(Order)
    assert trip(Order(number=1, lines=["a"])) == Order(number=1, lines=["a"])


@thorough
@example({"$": "graph", "root": {"$": "ref", "n": 1}, "more": [[1, {"$": "ref", "n": 1}]]})
@example({"$": "ndarray", "shape": [10**12], "dtype": "<f8", "order": "C", "b64": ""})
@example({"$": "image", "mode": "RGB", "size": [10**6, 10**6], "format": "zlib", "b64": ""})
@example({"$": "int", "v": "0x" + "f" * 10**6})
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["$", "tuple", "ref", "v"]),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["$", "v", "n", "c", "root", "more", "b64", "at", "shape"]), inner, max_size=5
            )
            | st.fixed_dictionaries(
                {
                    "$": st.sampled_from(
                        ["tuple", "set", "dict", "ref", "def", "graph", "error", "image", "ndarray", "bytes"]
                    )
                },
                optional={
                    "v": inner,
                    "n": inner,
                    "c": inner,
                    "root": inner,
                    "more": inner,
                    "shape": inner,
                    "dtype": inner,
                },
            )
        ),
        max_leaves=10,
    )
)
def test_any_json_at_all_gives_a_value_or_one_error_of_ours(node: object) -> None:
    try:
        decode_value(node)
    except DecodeError as error:
        assert str(error)


def test_a_picture_that_claims_more_than_pillow_allows_is_refused_before_it_is_unpacked() -> None:
    node = encode_value(Image.new("L", (4, 4)))
    node["v"]["size"] = [100_000, 100_000]
    with pytest.raises(DecodeError, match="MAX_IMAGE_PIXELS"):
        decode_value(node)


def test_a_picture_whose_packed_pixels_are_a_bomb_is_refused() -> None:
    node = encode_value(Image.new("F", (4, 4)))
    import base64
    import zlib

    bomb = zlib.compress(b"\0" * 50_000_000)
    node = {"$": "image", "mode": "F", "size": [4, 4], "format": "zlib", "b64": base64.b64encode(bomb).decode()}
    with pytest.raises(DecodeError, match="65 bytes"):
        decode_value(node)


def test_an_array_of_objects_cannot_be_smuggled_in_as_numbers() -> None:
    with pytest.raises(DecodeError, match="objects"):
        decode_value({"$": "ndarray", "shape": [1], "dtype": "|O", "order": "C", "b64": "AAAAAAAAAAA="})


def test_arrays_that_come_back_can_be_written_to() -> None:
    back = trip(np.arange(3))
    back[0] = 9  # type: ignore[index]
    assert back[0] == 9  # type: ignore[index]


class Loose:
    """Found in a set by what it is, not by what it holds."""

    def __init__(self, number: int) -> None:
        self.number = number


def test_a_set_is_written_in_one_order_whatever_the_hashes_are() -> None:
    register_value(Loose)
    up, down = {Loose(n) for n in range(50)}, {Loose(n) for n in reversed(range(50))}
    assert encode_value(up) == encode_value(down)


def test_texts_that_pandas_3_wrote_are_read_by_pandas_2_too():
    index = {"$": "pd.Index", "v": ["extension", "str", ["a", "b"]], "names": [None]}
    series = decode_value({"$": "pd.Series", "v": ["extension", "str", ["x", None]], "index": index, "name": "s"})
    assert series["a"] == "x"
    assert series.isna().tolist() == [False, True]
