"""Rates, times and shares are the numbers that are written: costs by hand, from the pages, in every family."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowSolution, Degrees
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.multimodel.costs import Rates, roofline
from chipmap.instances.multimodel.instance import (
    Chiplet,
    Layer,
    Model,
    Module,
    MultiInstance,
    MultiSolution,
    Piece,
    Task,
)
from chipmap.instances.multimodel.problem import multi_problem, placed, terms
from chipmap.instances.placement import Device, DeviceClass, Links, PlacementInstance, System
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.ring.instance import Package, RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import nanoseconds
from chipmap.networks.importers.own.amounts import TIME
from chipmap.records.decimals import exact
from chipmap.validation.dataflow.checker import check
from chipmap.validation.decimals import written
from chipmap.validation.multimodel.checker import check as check_multimodel
from chipmap.validation.placement.facts import Facts
from chipmap.validation.ring.facts import facts
from tests.dataflow.random_instances import HEAVY, made

#: Rates of which the binary float lies below what is written, so that a whole quotient is rounded up by one more.
BELOW = [
    float(text) for text in ("0.37", "0.7", "1.1", "2.3", "0.0049", "36.6") if Fraction(float(text)) < Fraction(text)
]


def said(value: float) -> Fraction:
    return Fraction(Decimal(str(value)))


def test_both_readings_are_the_decimal_text() -> None:
    random = Random(3)
    texts = [f"{random.randrange(10**12)}e{random.randint(-14, 12)}" for _ in range(300)] + ["0", "1e308", "5e-324"]
    for text in texts:
        assert exact(float(text)) == written(float(text)) == Fraction(text)
    assert len(BELOW) >= 4 and exact(64) == 64 == written(64)


def graph(size: int, flop: int = 0) -> OperationGraph:
    operations = (Operation(name="a", kind="k", flop=flop), Operation(name="b", kind="k"))
    return OperationGraph(name="two", operations=operations, tensors=(Tensor(producer=0, readers=(1,), bytes=size),))


@pytest.mark.parametrize("rate", BELOW)
def test_ring(rate: float) -> None:
    """Ticks of 10 ps: 100 · bytes / rate on links and of SRAM, 100 · FLOP / (peak · share), and the launch."""
    size = 1000 * said(rate).numerator
    slow = 100 * size / said(rate)
    cases: tuple[tuple[dict[str, Any], int, Any, Any], ...] = (
        ({"link_bytes_per_ns": rate, "sram_bytes_per_ns": 1e6}, 0, ceil(Fraction(100 * size, 10**6)), slow),
        ({"link_bytes_per_ns": 1.0, "sram_bytes_per_ns": rate}, 0, slow, 100 * size),
        ({"link_bytes_per_ns": None, "flop_per_ns": rate}, size, slow, 0),
        ({"link_bytes_per_ns": None, "flop_per_ns": 1.0, "efficiency": {"k": rate}}, size, slow, 0),
    )
    for fields, flop, time, link in cases:
        package = Package(**{"sram_bytes_per_ns": 1e9, **fields})
        instance = RingInstance(name="two", graph=graph(size, flop), package=package, traffic="in_out")
        problem, known = ring_problem(instance), facts(instance)
        assert problem.ticks[0] == known.ticks[0] == time
        assert [one.ticks for one in problem.storages] == [one.ticks for one in known.stored] == [link]


def test_measured_times_and_launches_of_a_ring() -> None:
    for time, ticks in ((0.07, 7), (12_345_678_901.23, 1_234_567_890_123), (0.1 + 0.2, 31)):
        instance = RingInstance(name="two", graph=graph(0), package=Package(), time_ns=(time, 0.0))
        assert ring_problem(instance).ticks[0] == facts(instance).ticks[0] == ticks
    instance = RingInstance(name="two", graph=graph(0), package=Package(launch_ns=0.29))
    assert ring_problem(instance).ticks.tolist() == list(facts(instance).ticks.values()) == [29, 29]


@pytest.mark.parametrize("rate", BELOW)
def test_placement(rate: float) -> None:
    """Whole ns: bytes / rate of memory, FLOP / peak, and transfers with the latency."""
    size = 1000 * said(rate).numerator
    kind = DeviceClass(name="k", memory_bytes_per_ns=rate, flop_per_ns=rate)
    devices = tuple(Device(name=name, kind="k") for name in ("d", "e"))
    links = Links(kind="pair", latency_ns=0.0, bytes_per_ns=rate)
    instance = PlacementInstance(
        name="two", graph=graph(size, size), system=System(classes=(kind,), devices=devices, links=links)
    )
    problem, known = placement_problem(instance), Facts(instance)
    assert problem.time[:, 0].tolist() == [known.time(v, "d") for v in (0, 1)] == 2 * [size / said(rate)]
    assert problem.storages.time.ravel().tolist() == [size / said(rate)]


@pytest.mark.parametrize("rate", BELOW)
@pytest.mark.parametrize("field", ["nop_bytes_per_ns", "dram_bytes_per_ns"])
def test_multimodel(rate: float, field: str) -> None:
    """T1 of two layers on two linked chiplets, by the page's table of amounts."""
    size = 1000 * said(rate).numerator
    rates: dict[str, Any] = {"nop_bytes_per_ns": 1.0, "dram_bytes_per_ns": 1.0, field: rate}
    module = Module(
        chiplets=tuple(Chiplet(name=name, kind="k", hops=1) for name in ("c", "d")),
        links=(("c", "d"),),
        **rates,
    )
    layer = Layer(name="l", in_bytes=size, weight_bytes=size, out_bytes=size, costs={"k": (5, 7)})
    model = Model(name="m", layers=(layer, layer.replace(name="n")))
    instance = MultiInstance(name="two", task=Task(objective="latency"), models=(model,), module=module)
    pieces = (Piece(model="m", first=0, last=0, chiplet="c"), Piece(model="m", first=1, last=1, chiplet="d"))
    solution = MultiSolution(windows=(pieces,))
    link, dram = said(module.nop_bytes_per_ns), said(module.dram_bytes_per_ns)
    wanted = 2 * 5 + 2 * (size / dram + 235) + size / link + 35 + 2 * (size / dram)
    assert check_multimodel(instance, solution).terms["T1"] == wanted
    problem = multi_problem(instance)
    assert terms(problem, placed(problem, solution))[0] == wanted


def on(instance: Any, part: str, **fields: Any) -> Any:
    """``instance`` with a part of its system changed."""
    old = getattr(instance.system, part)
    changed = (old[0].replace(**fields),) if part == "network" else old.replace(**fields)
    return instance.replace(system=instance.system.replace(**{part: changed}))


@pytest.mark.parametrize("rate", BELOW)
def test_dataflow(rate: float) -> None:
    """A kernel on two chips, half of it on each: FLOP, bytes of weights, an all-reduce of its output, and a launch."""
    size = 2000 * said(rate).numerator
    base = made(
        {"a": {**HEAVY, "flop": size, "weight_bytes": size, "output_bytes": size, "schemes": ["M", "K"]}}, "", layers=2
    )
    base = base.replace(task=base.task.replace(utilisation=1.0))
    base = on(base, "chip", tiles=0, lanes=0, stages=0, ghz=0.0, tflops=1.0)
    degrees = Degrees(tensor=2, dimensions=("tensor",))

    def costs(instance: Any, scheme: Any) -> dict[str, int]:
        """Terms by the checker, which are those of the option that the models have."""
        solution = DataflowSolution(degrees=degrees, schemes=(scheme,), partitions=(0,), micro_batch=1)
        found, problem = check(instance, solution).terms, dataflow_problem(instance, degrees)
        option = next(one for one in problem.options[0] if one.scheme == scheme)
        assert (found["T1"], found["T2"], found["T3"]) == (option.compute, option.stream, option.collective)
        return found

    assert costs(on(base, "chip", tflops=rate), "M")["T1"] == size / 2 / said(rate)
    assert costs(on(base, "memory", bytes_per_ns=rate), "M")["T2"] == 1000 * size / 2 / said(rate)
    if rate < 1:
        assert costs(on(base, "memory", bytes_per_ns=1.0, efficiency=rate), "M")["T2"] == 1000 * size / 2 / said(rate)
        assert costs(base.replace(task=base.task.replace(utilisation=rate)), "M")["T1"] == size / 2 / said(rate)
    assert costs(on(base, "network", bytes_per_ns=rate), "K")["T3"] == 1000 * size / said(rate)
    assert costs(on(base, "chip", launch_ns=0.29), "M")["T4"] - costs(base, "M")["T4"] == 290
    assert dataflow_problem(on(base, "chip", launch_ns=0.29), degrees).launch == 290


def test_rooflines_and_importers() -> None:
    rates = Rates(flop_per_ns=0.37, bytes_per_ns=1.1, pj_per_flop=0.29, pj_per_byte=0.01)
    assert roofline(37_000, 1, rates) == (100_000, ceil(Fraction("0.29") * 37_000 + Fraction("0.01")))
    assert roofline(0, 11_000, rates) == (10_000, 110)
    assert TIME.read(0.07, "time", "here") == Fraction(7, 100)
    assert nanoseconds(4.35, 1e6, "here") == 4_350_000.0 and nanoseconds(1.005, 1e3, "here") == 1005.0
