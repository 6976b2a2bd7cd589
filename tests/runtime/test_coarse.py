"""Where the tick is coarse, the result says how much rounding adds at most; where costs are whole ticks, nothing."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import Any

import pytest

from chipmap import check, solve
from chipmap.cli.common import remarks
from chipmap.family import family_of, resolve
from chipmap.instances.multimodel.instance import Chiplet, Layer, Model, Module, MultiInstance, Task
from chipmap.instances.placement import Device, DeviceClass, Links, PlacementInstance, System
from chipmap.instances.ring.instance import Package, RingInstance
from chipmap.instances.wafer.instance import WaferInstance
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import Record
from chipmap.result import Note
from chipmap.solve import coarse_note
from tests.dataflow.random_instances import HEAVY, made


def graph(flop: int, size: int, count: int = 5) -> OperationGraph:
    operations = tuple(Operation(name=f"o{v}", kind="k", flop=flop) for v in range(count))
    tensors = tuple(Tensor(producer=v, readers=(v + 1,), bytes=size) for v in range(count - 1))
    return OperationGraph(name="chain", operations=operations, tensors=tensors)


def ring(flop: int, rate: float) -> RingInstance:
    """Five operations on one chip."""
    package = Package(chips=1, flop_per_ns=rate, sram_bytes_per_ns=1e9, link_bytes_per_ns=None)
    return RingInstance(name="chain", graph=graph(flop, 0), package=package)


def placement(flop: int, rate: float, devices: int = 1) -> PlacementInstance:
    kind = DeviceClass(name="k", flop_per_ns=rate, memory_bytes_per_ns=1e9)
    named = tuple(Device(name=f"d{i}", kind="k") for i in range(devices))
    links = Links(kind="pair", bytes_per_ns=3.0) if devices > 1 else None
    return PlacementInstance(
        name="chain", graph=graph(flop, 0), system=System(classes=(kind,), devices=named, links=links)
    )


def multimodel(objective: Any, size: int, rate: float) -> MultiInstance:
    """One layer that reads and writes so many bytes."""
    layer = Layer(name="l", in_bytes=size, out_bytes=size, costs={"k": (7, 11)})
    module = Module(
        chiplets=(Chiplet(name="c", kind="k", hops=0),), dram_bytes_per_ns=rate, dram_ns=0, dram_pj_per_byte=0.25
    )
    return MultiInstance(
        name="one", task=Task(objective=objective), models=(Model(name="m", layers=(layer,)),), module=module
    )


def dataflow(flop: int) -> Any:
    base = made({"a": {**HEAVY, "flop": flop, "weight_bytes": 0, "output_bytes": 0}}, "")
    chip = base.system.chip.replace(tiles=0, lanes=0, stages=0, ghz=0.0, tflops=1000.0)
    return base.replace(system=base.system.replace(chip=chip))


def wafer(stride: int) -> WaferInstance:
    arguments = {"H": 7, "W": 7, "R": 3, "S": 3, "C": 4, "K": 4, "T": stride}
    kernels = [{"name": "k", "kind": "conv", "arguments": arguments}]
    return WaferInstance.make(name="one", kernels=kernels, edges=[], fabric={"width": 9, "height": 9})


def solution(instance: Any) -> dict[str, Any]:
    """Everything on the first chip, device, chiplet or tile; halves on two chips."""
    if isinstance(instance, RingInstance):
        return {"chips": [0] * len(instance.graph.operations)}
    if isinstance(instance, PlacementInstance):
        operations, rate = instance.graph.operations, instance.system.classes[0].flop_per_ns
        ends = accumulate((ceil(one.flop / rate) for one in operations), initial=0)
        names = [one.name for one in operations]
        return {"devices": dict.fromkeys(names, "d0"), "start": dict(zip(names, ends, strict=False))}
    if isinstance(instance, MultiInstance):
        return {"windows": [[{"model": "m", "first": 0, "last": 0, "chiplet": "c"}]]}
    if isinstance(instance, WaferInstance):
        return {"placements": [{"kernel": "k", "h": 1, "w": 1, "c": [1], "k": [1], "x": 0, "y": 0}]}
    degrees = {"tensor": 2, "dimensions": ["tensor"]}
    return {"degrees": degrees, "schemes": ["M"], "partitions": [0], "micro_batch": 1}


def family_solution(instance: Record) -> Record:
    made_of: Record = resolve(family_of(instance).solution).make(**solution(instance))
    return made_of


def coarse(instance: Record) -> tuple[int, Note | None]:
    """The objective, and the note on coarse ticks."""
    certificate = check(instance, family_solution(instance))
    assert certificate.feasible and certificate.objective is not None, certificate.violations
    return certificate.objective, coarse_note(certificate, family_of(instance), instance)


@pytest.mark.parametrize(
    ("instance", "exactly"),
    [
        (ring(3, 1000.0), Fraction(5 * 3, 10)),
        (ring(70_001, 1000.0), Fraction(5 * 70_001, 10)),
        (placement(3, 10.0), Fraction(5 * 3, 10)),
        (multimodel("latency", 10, 3.0), 7 + 2 * Fraction(10, 3)),
        (multimodel("energy", 10, 3.0), 11 + 2 * Fraction(10, 4)),
        (multimodel("edp", 10, 3.0), (7 + 2 * Fraction(10, 3)) * (11 + 2 * Fraction(10, 4))),
        (multimodel("weighted", 10, 3.0), 1000 * (7 + 2 * Fraction(10, 3)) + 11 + 2 * Fraction(10, 4)),
        (dataflow(1501), 4 * Fraction(1501, 2 * 900)),
    ],
    ids=lambda value: getattr(value, "schema", ""),
)
def test_few_ticks_are_said(instance: Record, exactly: Fraction) -> None:
    """``exactly``: the optimum in ticks without any rounding. What the note allows for covers the difference."""
    objective, note = coarse(instance)
    assert objective >= exactly
    if objective >= 10**4 and objective - exactly < objective / 2000:
        assert note is None
        return
    assert note is not None and note.data["ticks"] == objective and note.data["added"] <= objective
    assert objective - exactly <= note.data["added"] + 1e-9
    assert f"{objective:,} ticks" in note.text


def test_many_operations_below_a_tick() -> None:
    """12,000 operations of 0.3 ns: 10^4 ticks and more, of which rounding makes most."""
    instance = placement(3, 10.0).replace(graph=graph(3, 0, 12_000))
    objective, note = coarse(instance)
    assert objective == 12_000 and note is not None and note.data["added"] == pytest.approx(8_400)


@pytest.mark.parametrize(
    "instance",
    [ring(1, 1.0), placement(30, 10.0), placement(30, 10.0, 2), multimodel("edp", 12, 3.0), wafer(2), dataflow(10**9)],
    ids=lambda value: value.schema,
)
def test_whole_ticks_need_no_word(instance: Record) -> None:
    assert coarse(instance)[1] is None


def test_other_strides_are_said() -> None:
    objective, note = coarse(wafer(3))
    assert note is not None and ceil(note.data["added"]) <= objective


def test_a_result_says_it_once() -> None:
    result = solve(multimodel("latency", 10, 3.0), isolate=False, threads=1)
    assert [note.kind for note in result.notes].count("coarse") == 1 and result.status == "optimal"
    assert [line for line in remarks(result) if "rounding costs up" in line]
    assert not [note for note in solve("ring/tiny-skip", isolate=False).notes if note.kind == "coarse"]
