"""Records: strict JSON in and out, and a hash of the content."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from chipmap import records
from chipmap.instances.ring import Package, Pin, RingInstance, RingSolution
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError, Record, Unit
from chipmap.result import Bound


def example() -> RingInstance:
    return RingInstance(
        name="example",
        graph=OperationGraph(
            name="pair",
            operations=(Operation(name="a", kind="k", flop=3), Operation(name="b", kind="k")),
            tensors=(Tensor(producer=0, readers=(1,), bytes=4),),
        ),
        package=Package(chips=2, efficiency={"k": 0.5}),
        time_ns=(None, 2.5),
        pins=(Pin(operation="b", chip=1),),
    )


def edited(**changes: Any) -> bytes:
    """The example as JSON with keys changed; dots in a path are written as __."""
    data = msgspec.to_builtins(example())
    for path, value in changes.items():
        *inner, last = path.split("__")
        place = data
        for key in inner:
            place = place[int(key) if key.isdigit() else key]
        place[last] = value
    return msgspec.json.encode(data)


def test_round_trip_keeps_content_and_hash() -> None:
    instance = example()
    for indent in (0, 2):
        again = RingInstance.from_json(instance.to_json(indent))
        assert again == instance and again.content_hash == instance.content_hash


def test_equal_content_has_an_equal_hash_however_it_came_about() -> None:
    whole = RingInstance.make(**msgspec.to_builtins(example()))
    assert whole.content_hash == example().content_hash
    one = Package.make(chips=np.int64(2), launch_ns=np.float32(0.5), efficiency={"a": 1, "b": 0.5})
    other = Package.from_json(b'{"efficiency": {"b": 0.5, "a": 1.0}, "launch_ns": 0.5, "chips": 2}')
    assert one == other and one.content_hash == other.content_hash
    assert type(one.chips) is int and type(one.launch_ns) is float
    assert RingSolution.make(chips=np.array([0, 1])).content_hash == RingSolution(chips=(0, 1)).content_hash


def test_different_content_has_a_different_hash() -> None:
    hashes = {example().content_hash, example().replace(name="other").content_hash}
    hashes |= {example().replace(package=Package(chips=2)).content_hash, example().graph.content_hash}
    assert len(hashes) == 4


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        ({"packages": {}}, "", "no field 'packages'"),
        ({"package__chip": 3}, "package: ", "there is no field 'chip'"),
        ({"graph__operations__1__flops": 3}, "graph.operations[1]: ", "there is no field 'flops'"),
        ({"package__chips": "2"}, "package.chips: ", "is text, not a whole number"),
        ({"package__chips": 2.5}, "package.chips: ", "is a fraction, not"),
        ({"package__chips": None}, "package.chips: ", "is null, not"),
        ({"package__chips": True}, "package.chips: ", "is true or false, not"),
        ({"graph__operations__0__role": "computing"}, "graph.operations[0].role: ", "is 'computing'"),
        ({"constraints": ["C1", "C9"]}, "constraints[1]: ", "is 'C9'"),
        ({"schema": "ring/9"}, "schema: ", "is 'ring/9'"),
        ({"graph__tensors__0__readers": ["b"]}, "graph.tensors[0].readers[0]: ", "is text"),
    ],
)
def test_strictness_names_the_json_path(changes: dict[str, Any], path: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        RingInstance.from_json(edited(**changes), where="case.json")
    assert (
        str(caught.value).startswith(f"case.json: {path}{says}" if path else "case.json: ")
        and says in caught.value.what
    )
    assert caught.value.remedy and caught.value.exit_code == 1


def test_a_missing_field_is_named() -> None:
    with pytest.raises(InputError, match=r"^case.json: graph: is missing\n"):
        RingInstance.from_json(b'{"name": "x"}', where="case.json")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), np.float64("nan")])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(InputError):
        Package.make(hop_ns=value)
    if value != value:  # null in JSON, which would mean that links are free
        with pytest.raises(InputError, match="link_bytes_per_ns: is nan"):
            Package().replace(link_bytes_per_ns=value)
    for word in (b"NaN", b"Infinity", b"1e999"):
        with pytest.raises(InputError):
            Package.from_json(b'{"hop_ns": ' + word + b"}")


@pytest.mark.parametrize("value", [object(), 3 + 4j, np.zeros((2, 2, 2)), np.array(["a"])])
def test_what_is_no_data_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        RingSolution.make(chips=value)


@pytest.mark.parametrize("data", [b"", b"{", b'{"chips": [0,]}', b"\xff\xfe", b"[" * 100_000])
def test_broken_json_is_one_message(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        RingSolution.from_json(data, where="solution.json")
    assert str(caught.value).startswith("solution.json: ")


@pytest.mark.parametrize("where", range(30))
def test_a_number_that_no_float_holds_is_refused_wherever_it_stands(where: int) -> None:
    before = b'{"instance": "' + b"x" * where + b'", "chips": [0, '
    assert RingSolution.from_json(before + b"9" * 100 + b"]}").chips[1] == 10**100 - 1
    with pytest.raises(InputError, match=r"file: chips\[1\]: is too large") as caught:
        RingSolution.from_json(before + b"-1" + b"0" * 100 + b"]}", where="file")
    assert "100 digits" in str(caught.value)
    named = RingSolution.from_json(b'{"instance": "' + b"7" * 500 + b'", "chips": [0]}')
    assert named.instance == "7" * 500, "digits in a name are no number"


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    path.write_bytes(example().to_json(indent=2))
    assert RingInstance.read(path) == example()
    with pytest.raises(InputError, match="absent"):
        RingInstance.read(tmp_path / "absent.json")
    with pytest.raises(InputError, match=str(tmp_path)):
        RingInstance.read(tmp_path)


def test_replace_checks_and_forgets_what_was_derived() -> None:
    bound = Bound(value=3, source="x")
    before = bound.content_hash
    assert bound.replace(value=4).value == 4 and bound.value == 3
    assert bound.replace(value=4).content_hash != before
    for changes in ({"value": "4"}, {"worth": 4}):
        with pytest.raises(InputError):
            bound.replace(**changes)


def test_records_are_frozen() -> None:
    with pytest.raises(AttributeError):
        example().name = "other"  # type: ignore[misc]
    assert isinstance(example(), Record)


class Part(Record, frozen=True, kw_only=True):
    size: int = 1
    colour: str = "red"

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("colour",)


class Whole(Record, frozen=True, kw_only=True):
    parts: tuple[Part, ...] = ()
    one: Part | None = None
    sizes: tuple[int, ...] = ()


class OldPart(Record, frozen=True, kw_only=True):
    size: int = 1


class OldWhole(Record, frozen=True, kw_only=True):
    parts: tuple[OldPart, ...] = ()
    one: OldPart | None = None
    sizes: tuple[int, ...] = ()


def test_later_fields_of_inner_records_leave_hashes_as_they_were() -> None:
    old = OldWhole(parts=(OldPart(size=2), OldPart()), one=OldPart(), sizes=(3,))
    new = Whole(parts=(Part(size=2), Part()), one=Part(), sizes=(3,))
    assert new.content_hash == old.content_hash and Whole().content_hash == OldWhole().content_hash
    blue = Part(colour="blue")
    changed = {new.replace(one=blue).content_hash, new.replace(parts=(blue,)).content_hash, new.content_hash}
    assert len(changed) == 3


def test_what_has_no_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_STREAM", 10_000)
    for name in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(InputError, match="gives more than") as error:
            records.Source(name).content()
        assert error.value.remedy
    assert records.read_bytes("/dev/null") == b""


@pytest.mark.parametrize("per_tick", ["0", "-0.25", "1e-400"])
def test_a_tick_is_more_than_nothing(per_tick: str) -> None:
    """Values are divided by it where a file tells them in another unit."""
    with pytest.raises(InputError, match="per_tick"):
        Unit.from_json(f'{{"name": "s", "per_tick": {per_tick}}}'.encode(), "unit.json")
