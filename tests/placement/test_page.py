"""The checker against the page alone, on random solutions; and by hand what random ones rarely meet."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from chipmap.instances.placement import (
    Device,
    DeviceClass,
    Links,
    PlacementInstance,
    PlacementSolution,
    System,
    Task,
    Transfer,
)
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.validation.placement.checker import check
from tests.placement import page as page_module
from tests.placement.page import Judge, Page
from tests.placement.page_instances import page_instance, page_solution, tampered
from tests.placement.random_instances import FORK, made

RECORDS = {f"chipmap.instances.placement.{name}" for name in ("instance", "system")}


def test_the_page_knows_no_checker() -> None:
    """The judge of the tests imports records alone."""
    path = Path(page_module.__file__)
    found = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
    assert {name for name in found if name and name.startswith(("chipmap", "tests"))} <= RECORDS


@pytest.mark.parametrize("block", range(4))
def test_the_checker_says_what_the_page_says(block: int) -> None:
    """Labels, objective and peaks of solutions that hold, and of tampered ones."""
    seen = Counter[str]()
    for seed in range(300 * block, 300 * block + 300):
        random = Random(seed)
        instance = page_instance(random)
        page = Page(instance)
        solution = page_solution(page, random)
        for one in (solution, tampered(solution, page, random), tampered(solution, page, random)):
            ours, theirs = Judge(page, one).verdict(), check(instance, one)
            aside = frozenset() if ours.routes else {"C6"}  # without a route nothing says when a copy is there
            labels = frozenset(violation.label for violation in theirs.violations)
            assert labels - aside == ours.broken - aside, (seed, labels, ours)
            assert theirs.objective == ours.objective, seed
            peaks = {k.removeprefix("peak_bytes "): int(v) for k, v in theirs.figures.items() if k.startswith("peak")}
            assert aside or ours.objective is None or peaks == ours.peaks, seed
            seen.update(ours.broken or {"valid"})
    assert seen.keys() >= {"C0", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "valid"} and seen["valid"] > 200, seen


def timed(starts: tuple[int, ...], sent: tuple[int, ...] = (), away: tuple[int, ...] = ()) -> PlacementSolution:
    """Starts of v0, v1, …, of which those ``away`` are on d1; tensor t goes to d1 at ``sent[t]``."""
    names = {f"v{v}": "d1" if v in away else "d0" for v in range(len(starts))}
    return PlacementSolution(
        devices=names,
        start={f"v{v}": at for v, at in enumerate(starts)},
        transfers=tuple(Transfer(tensor=t, to="d1", start=at) for t, at in enumerate(sent)),
    )


def labels(instance: PlacementInstance, solution: PlacementSolution) -> set[str]:
    return {one.label for one in check(instance, solution).violations}


def test_a_channel_rests_for_its_gap() -> None:
    """v0's tensor is sent from 4 to 7, and the channel rests up to 9: v1's, made at 8, waits until then."""
    instance = made([(4, 0, 3), (4, 0, 2), (3, 0, 0)], FORK, links=Links(bytes_per_ns=1.0, gap_ns=2))
    assert not labels(instance, timed((0, 4, 11), (4, 9), away=(2,)))
    (violation,) = check(instance, timed((0, 4, 11), (4, 8), away=(2,))).violations
    assert (violation.label, violation.amount) == ("C5", 1)


def test_a_device_rests_for_its_gap() -> None:
    """v0 runs from 0 to 4, and its device rests for 2 ns; an operation of no length neither waits nor makes wait."""
    rows = [(4, 0, 0), (5, 0, 0), (0, 0, 0)]
    instance = made(rows, [])
    system = instance.system.replace(classes=(DeviceClass(name="gpu", gap_ns=2),))
    instance = instance.replace(system=system)
    assert not labels(instance, timed((0, 6, 5)))
    (violation,) = check(instance, timed((0, 5, 5))).violations
    assert (violation.label, violation.amount) == ("C4", 1)


def on_one_device(operations: list[Operation], tensors: list[Tensor], memory: int) -> PlacementInstance:
    """A device d0 of 1 byte/ns, on which operations take as long as their bytes take."""
    kind = DeviceClass(name="gpu", memory_bytes_per_ns=1.0)
    system = System(classes=(kind,), devices=(Device(name="d0", kind="gpu", memory_bytes=memory),))
    instance = PlacementInstance(
        name="one", task=Task(), graph=OperationGraph.checked("one", operations, tensors), system=system
    )
    instance.check()
    return instance


@pytest.mark.parametrize("view", [False, True])
def test_outputs_of_the_network_stay_to_the_end(view: bool) -> None:
    """v0's 3 bytes are the network's output, by themselves or behind a view: 5 bytes are held while v1 runs."""
    operations = [Operation(name="v0", kind="op"), Operation(name="v1", kind="op")]
    tensors = [Tensor(producer=0, bytes=3, output=not view), Tensor(producer=1, bytes=2, output=True)]
    if view:
        operations.append(Operation(name="v", kind="reshape", role="view"))
        tensors[0] = Tensor(producer=0, readers=(2,), bytes=3)
        tensors.append(Tensor(producer=2, bytes=3, output=True))
    solution = timed((0, 3))
    enough = check(on_one_device(operations, tensors, 5), solution)
    assert enough.feasible and enough.figures["peak_bytes d0"] == 5
    (violation,) = check(on_one_device(operations, tensors, 4), solution).violations
    assert (violation.label, violation.amount) == ("C6", 1) and "at 3 ns" in violation.message
    inner = [Tensor(producer=0, bytes=3), Tensor(producer=1, bytes=2)]
    assert check(on_one_device(operations[:2], inner, 4), solution).figures["peak_bytes d0"] == 3


def test_an_operation_moves_its_weights() -> None:
    """10 bytes of weights, 2 read, 3 made, a byte a nanosecond: 15 ns; with ``moved_bytes`` of 4 it is 4 ns."""
    for moved, wanted in ((None, 15), (4, 4)):
        last = Operation(name="v1", kind="op", weight_bytes=10, moved_bytes=moved)
        tensors = [Tensor(producer=0, readers=(1,), bytes=2), Tensor(producer=1, bytes=3)]
        instance = on_one_device([Operation(name="v0", kind="op"), last], tensors, 100)
        assert check(instance, timed((0, 2))).objective == 2 + wanted


def test_each_device_with_a_reader_has_its_copy_of_a_constant() -> None:
    """A table of 6 bytes that v1 and v2 read: 6 on d0 and 6 on d1, whoever reads it first, and once for two readers."""
    operations = [
        Operation(name="t", kind="weight", role="constant"),
        *(Operation(name=f"v{v}", kind="op") for v in (1, 2, 3)),
    ]
    tensors = [Tensor(producer=0, readers=(1, 2, 3), bytes=6)]
    for rule in ("live", "static"):
        machines = tuple(Device(name=f"d{d}", kind="gpu", memory_bytes=6) for d in range(2))
        system = System(classes=(DeviceClass(name="gpu"),), devices=machines, links=Links())
        graph = OperationGraph.checked("table", operations, tensors)
        instance = PlacementInstance(name="table", task=Task(memory=rule), graph=graph, system=system)
        instance.check()
        starts = {"v1": 0, "v2": 0, "v3": 5}
        solution = PlacementSolution(devices={"v1": "d0", "v2": "d1", "v3": "d1"}, start=starts)
        certificate = check(instance, solution)
        assert certificate.feasible, certificate.violations
        assert [certificate.figures[f"peak_bytes d{d}"] for d in range(2)] == [6, 6]
        small = instance.replace(system=system.replace(devices=(machines[0], machines[1].replace(memory_bytes=5))))
        assert labels(small, solution) == {"C6"}
