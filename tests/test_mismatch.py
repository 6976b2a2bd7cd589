"""Data of another type: place, fault and choices in our words, in the instances of all families."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import pytest

from chipmap.family import FAMILY_NAMES, get_family, resolve
from chipmap.inputs.reading import read, shipped_names
from chipmap.records import InputError, unfit
from chipmap.records.mismatch import mismatch

#: How msgspec begins its sentences.
FOREIGN = re.compile(r"Expected `|Object (missing|contains)|Invalid |out of range - at|\$\.")


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    size: int
    mode: Literal["fast", "slow"] | None = None


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: tuple[Inner, ...] = ()
    pair: tuple[int, Inner] | None = None
    shares: dict[str, float] = {}
    peaks: dict[Literal["fp8", "fp16"], float] | None = None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"inner": [{"size": 1}, {"size": "2"}]}, "x: inner[1].size: is text, not a whole number"),
        ({"inner": [{"size": 1.5}]}, "x: inner[0].size: is a fraction, not a whole number"),
        ({"inner": [{}]}, "x: inner[0].size: is missing"),
        ({"inner": [{"size": 1, "sise": 2}]}, "x: inner[0]: there is no field 'sise'\n  Did you mean size? The fields"),
        ({"inner": [{"size": 1, "mode": "fst"}]}, "x: inner[0].mode: is 'fst'\n  Did you mean fast? Choose from: fast"),
        ({"pair": [1, {"size": 1, "mode": "?"}]}, "x: pair[1].mode: is '?'\n  Choose from: fast, slow."),
        ({"pair": [1]}, "x: pair: has another number of entries\n  Give 2 entries."),
        ({"shares": {"a": None}}, "x: shares[...]: is null, not a number"),
        ({"peaks": {"fp9": 1.0}}, "x: peaks: has a key 'fp9'\n  Did you mean fp8? Choose from: fp16, fp8."),
        ([], "x: is a list, not an object"),
    ],
)
def test_in_our_words(data: Any, message: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(json.dumps(data), type=Outer)
    assert str(unfit(caught.value, Outer, "x")).startswith(message)


def test_what_isnt_understood_is_passed_on() -> None:
    assert mismatch("Something else - at `$.a`", Outer)[:2] == ("a", "Something else")


def changed(data: Any) -> Iterator[Any]:
    """``data`` with one value, a first item or any field, in place of which something else stands."""
    others: list[Any] = [None, True, "?", 1.5, [], {}]
    for value in others:
        if type(value) is not type(data):
            yield value
    if isinstance(data, list) and data:
        yield from ([one, *data[1:]] for one in changed(data[0]))
    elif isinstance(data, dict):
        for key, inner in data.items():
            yield from ({**data, key: one} for one in changed(inner))
        yield {**data, "colour": 1}
        yield dict(list(data.items())[1:])


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_no_instance_gives_the_readers_words(name: str) -> None:
    instance = read(next(one for one in shipped_names() if one.startswith(f"{name}/tiny-")))
    refused = 0
    for data in changed(json.loads(instance.to_json())):
        try:
            resolve(get_family(name).instance).from_json(json.dumps(data), "x.json")
        except InputError as error:
            refused += 1
            assert not FOREIGN.search(str(error)) and str(error).startswith("x.json: "), error
            assert error.remedy, error
    assert refused > 50
