"""``--set``: which changes reach the instance."""

from __future__ import annotations

from typing import Any

import pytest

import chipmap
from chipmap.inputs import reading
from chipmap.inputs.settings import apply
from chipmap.instances.ring import RingInstance
from tests.cli.conftest import CHAIN, Command


def changed(*settings: str) -> RingInstance:
    import json

    data: dict[str, Any] = json.loads(json.dumps(CHAIN))
    apply(data, RingInstance, settings)
    return RingInstance.make(**data)


def test_values_are_json_or_text() -> None:
    assert changed("package.chips=36").package.chips == 36
    assert changed("package.link_bytes_per_ns=null").package.link_bytes_per_ns is None
    assert changed("cost_mode=sum").cost_mode == "sum"
    assert changed('name="36"').name == "36"
    assert changed("notes=a=b").notes == "a=b"
    assert changed('pins=[{"operation": "op1", "chip": 0}]').pins[0].operation == "op1"


def test_items_and_entries() -> None:
    assert changed("graph.operations.1.flop=7").graph.operations[1].flop == 7
    assert changed("graph.tensors.0.readers.0=2").graph.tensors[0].readers == (2,)
    assert changed("package.efficiency.convolution=0.5").package.efficiency == {"convolution": 0.5}
    assert changed("package.efficiency.aten.mm=0.5").package.efficiency == {"aten.mm": 0.5}


def test_missing_fields_start_from_their_defaults() -> None:
    data: dict[str, Any] = {}
    apply(data, RingInstance, ["package.chips=3", "package.efficiency.matmul=0.5"])
    assert data["package"]["chips"] == 3
    assert data["package"]["sram_bytes"] == 32 * 1024 * 1024
    again: dict[str, Any] = {}
    apply(again, RingInstance, [])
    assert again == {}, "defaults are copied, never shared"
    assert RingInstance.make(**CHAIN).package.efficiency == {}


def test_settings_apply_in_their_order_and_to_shipped_instances() -> None:
    instance = chipmap.read("ring/tiny-chain", ["package.chips=9", "package.chips=5", "name=mine"])
    assert isinstance(instance, RingInstance)
    assert (instance.package.chips, instance.name) == (5, "mine")
    assert chipmap.read("ring/tiny-chain") != instance


@pytest.mark.parametrize("name", reading.shipped_names())
def test_every_shipped_instance_survives_its_file(name: str) -> None:
    instance = chipmap.read(name)
    again = reading.decode(instance.to_json(indent=1), "file")
    assert again == instance
    assert again.content_hash == instance.content_hash


def test_objects_are_merged_and_replaced_where_that_is_asked_for(chipmap: Command) -> None:
    """An object sets the fields that it names; after ``:=`` the others are back at their defaults, which is said."""
    before = changed("package.link_bytes_per_ns=7", "package.sram_bytes=999")
    given = ("package.link_bytes_per_ns=7", "package.sram_bytes=999", 'package={"chips": 3}')
    assert changed(*given).package == before.package.replace(chips=3)
    pinned = changed('pins=[{"operation": "op1", "chip": 0}]', 'pins.0={"chip": 1}')
    assert (pinned.pins[0].operation, pinned.pins[0].chip) == ("op1", 1)
    both = changed('package={"efficiency": {"matmul": 0.5}}', 'package={"efficiency": {"other": 0.25}}')
    assert both.package.efficiency == {"matmul": 0.5, "other": 0.25}
    again = changed('package={"efficiency": {"matmul": 0.5}}', 'package.efficiency:={"other": 0.25}')
    assert again.package.efficiency == {"other": 0.25}
    done = chipmap("info", "ring/tiny-chain", "--set", "package.sram_bytes=999", "--set", 'package:={"chips":3}')
    assert done.code == 0 and "back to the default: " in done.err
    assert "package.sram_bytes=33554432" in done.err and "package.chips" not in done.err
    plain = chipmap("info", "ring/tiny-chain", "--set", 'package={"chips":3}')
    assert (plain.code, plain.err) == (0, "")
