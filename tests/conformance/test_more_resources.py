"""More of a resource never ends worse: every mapping with less is a mapping with more, which costs no more.

Tiny instances of every family; :mod:`benchmarks.more_resources` asks it of instances of real size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

import chipmap
from benchmarks.more_resources import CHANGES
from chipmap.family import FAMILY_NAMES, get_family, resolve
from chipmap.run import SolveOptions
from chipmap.solve import solve


def _ring(instance: Any) -> Iterator[tuple[str, Any]]:
    package = instance.package
    yield "chips", package.chips + 1
    yield "chips", 4 * package.chips
    yield "sram_bytes", 2 * package.sram_bytes
    if package.link_bytes_per_ns is not None:
        yield "link_bytes_per_ns", 3 * package.link_bytes_per_ns
        yield "link_bytes_per_ns", None


def _dataflow(instance: Any) -> Iterator[tuple[str, Any]]:
    yield "sram_bytes", 2 * instance.system.chip.sram_bytes
    yield "network", 2
    yield "bytes_per_ns", 2 * instance.system.memory.bytes_per_ns
    if instance.task.partitions is not None and not instance.task.exactly:
        yield "partitions", instance.task.partitions + 1


def _wafer(instance: Any) -> Iterator[tuple[str, Any]]:
    for side in ("width", "height"):
        yield side, getattr(instance.fabric, side) + 1
        yield side, 2 * getattr(instance.fabric, side)
    yield "memory_words", 2 * instance.fabric.memory_words


def _multimodel(instance: Any) -> Iterator[tuple[str, Any]]:
    yield "windows", instance.task.windows + 1
    yield "nop_bytes_per_ns", 2 * instance.module.nop_bytes_per_ns
    yield "dram_bytes_per_ns", 2 * instance.module.dram_bytes_per_ns


def _placement(instance: Any) -> Iterator[tuple[str, Any]]:
    system = instance.system
    yield "devices", None
    if all(one.memory_bytes is not None for one in system.devices):
        yield "memory_bytes", 2 * max(one.memory_bytes for one in system.devices)
    if system.links is not None and system.links.bytes_per_ns is not None:
        yield "bytes_per_ns", 2 * system.links.bytes_per_ns


#: Pairs of each family that the suite asks; ``python -m benchmarks.more_resources --tiny`` asks all.
SAMPLE = 5
RESOURCES: dict[str, Callable[[Any], Iterator[tuple[str, Any]]]] = {
    "ring": _ring,
    "dataflow": _dataflow,
    "wafer": _wafer,
    "multimodel": _multimodel,
    "placement": _placement,
}


def _with_more(family: str, instance: Any, what: str, amount: Any) -> Any:
    """The instance with more of ``what``; a further device is like the last one."""
    if family == "placement" and what == "devices":
        devices = instance.system.devices
        further = devices[-1].replace(name="further")
        return instance.replace(system=instance.system.replace(devices=(*devices, further)))
    return CHANGES[family](instance, what, amount)


def pairs(family: str) -> list[tuple[str, str, int]]:
    """Family, shipped instance and number of the resource, for all tiny instances."""
    names = [name for name in resolve(get_family(family).shipped) if "/tiny-" in name]
    return [(family, name, i) for name in names for i, _ in enumerate(RESOURCES[family](chipmap.read(name)))]


def _sample() -> Iterator[tuple[str, str, int]]:
    for family in FAMILY_NAMES:
        yield from Random(family).sample(pairs(family), SAMPLE)


@pytest.mark.parametrize(("family", "name", "number"), _sample())
def test_more_of_a_resource_never_ends_worse(family: str, name: str, number: int) -> None:
    instance = chipmap.read(name)
    what, amount = list(RESOURCES[family](instance))[number]
    more = _with_more(family, instance, what, amount)
    few, many = (solve(one, options=SolveOptions(deterministic=True), isolate=False) for one in (instance, more))
    if few.solution is None:
        assert few.status == "infeasible"
        return
    carried = chipmap.check(more, few.solution)
    assert carried.feasible and carried.objective is not None and few.objective is not None
    assert carried.objective <= few.objective
    assert many.objective is not None and many.objective <= carried.objective
    assert many.bound is not None and many.bound <= carried.objective
