"""Every family knows a valid mapping and a bound in the process that keeps the time, by plain code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from chipmap.family import Family, get_family, resolve
from chipmap.kernels import Kernel, njit, uncompiled
from chipmap.networks.generators import random_dag
from chipmap.networks.importers.common import ImportedGraph
from chipmap.process import conduct, supervisor
from chipmap.process.conduct import at_once, checker, first, guarded
from chipmap.result import Result, Termination
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from tests.conformance.cases import FAMILIES, TinyCase, cases, hooks, identify, infeasible

#: Shipped instances of each family that a child which dies at once leaves with the parent's mapping.
SHIPPED = {
    "ring": "ring/random-12",
    "dataflow": "dataflow/table6-free-8x1",
    "wafer": "wafer/ispd2020-A",
    "multimodel": "multimodel/scar-1-whole",
    "placement": "placement/transformer-xl-2-pcie",
}
each_family = pytest.mark.parametrize("family", [one for one in FAMILIES if one.first], ids=identify)


def known(instance: Any) -> Run:
    """The run of ``instance`` when all that is known at once is told."""
    family = get_family(str(instance.schema).partition("/")[0])
    run = Run(instance, SolveOptions(), checker(family, None))

    def work() -> Termination:
        at_once(run, family)
        first(run, family, family.method(None))
        return run.terminate()

    assert guarded(run, work).reason != "other_error", run.failure
    assert not run.rejected, "refused ones are forgotten"
    return run


@each_family
def test_no_kernel_is_touched(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on tiny instances nor on large ones is a function asked for that would be compiled."""

    def compiled(self: Kernel) -> Any:
        raise AssertionError(f"{self.py_func.__name__} was to be compiled")

    monkeypatch.setattr(Kernel, "compiled", property(compiled))
    for case in cases(family):
        known(case.instance)
    assert known(shipped(family)).best is not None


def shipped(family: Family) -> Any:
    """The family's shipped instance of :data:`SHIPPED`."""
    from chipmap.inputs.reading import read

    return read(SHIPPED[family.name])


def test_uncompiled_kernels_run_as_plain_python() -> None:
    """Also those that always run compiled otherwise, however long they take."""
    doubled = njit(lambda x: 2 * x, long=True)
    with uncompiled():
        assert doubled(21) == 42 and doubled._compiled is None


def test_numba_is_not_imported() -> None:
    """In a process of its own: nothing at once imports what takes longer than a tiny solve."""
    code = (
        "import sys\n"
        "from tests.conformance.test_at_once import SHIPPED, known\n"
        "from chipmap.inputs.reading import read\n"
        "for name in SHIPPED.values():\n"
        "    assert known(read(name)).best is not None\n"
        "assert 'numba' not in sys.modules\n"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, timeout=300)


@each_family
def test_a_valid_mapping_and_a_bound_wherever_brute_force_finds_one(family: Family) -> None:
    """Each feature of the problem, tight memory, groups, pins, routes, limits: tiny instances, 60 random ones besides.

    A tiny instance may be missed, as plain code doesn't try everything; few are. No bound exceeds an optimum.
    """
    make = hooks(family).tiny_instance
    some = [TinyCase(family, f"random {seed}", make(Random(seed))) for seed in range(SEEDS.get(family.name, 60))]
    missed, solved = list[str](), 0
    for case in [*cases(family), *some]:
        run = known(case.instance)
        if run.best is not None and run.lower is None:
            missed.append(f"no bound of {case}")
        if run.best is None and not run.proved_infeasible:
            optimum, _ = case.best
            missed += [] if optimum is None else [str(case)]
            assert optimum is None or run.lower is None or run.lower.value <= optimum, str(case)
        solved += run.best is not None
    assert solved >= 20 and len(missed) <= MISSED.get(family.name, 0), missed


#: Random instances where brute force takes long; how many are missed at the most.
SEEDS = {"wafer": 40}
MISSED = {"multimodel": 1, "dataflow": 1}


@each_family
def test_an_infeasible_instance_gets_no_mapping(family: Family) -> None:
    for _, case in infeasible(family):
        assert known(case.instance).best is None


class DeadOnArrival(supervisor.Child):
    """A child that is killed as soon as it is started."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.kill()


@each_family
def test_a_child_that_dies_at_once_leaves_the_mapping_of_its_parent(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is returned is valid, the status claims no more, and what happened is said."""
    monkeypatch.setattr(supervisor, "Child", DeadOnArrival)
    result = solve(shipped(family), options=SolveOptions(memory_limit=2**31), isolate=True)
    assert result.certificate is not None and result.certificate.feasible
    assert result.objective is not None and result.bound is not None and result.bound <= result.objective
    assert (result.status, result.termination.limit) == ("feasible", "memory")
    assert "memory" in result.failure


@each_family
@pytest.mark.parametrize("isolate", [False, True])
def test_a_method_that_finds_nothing_returns_the_first_mapping(
    family: Family, isolate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the limit has passed before the method begins; without a start there is none."""
    options = SolveOptions(time_limit=1e-6)
    monkeypatch.setattr(supervisor, "GRACE", 0.0)
    monkeypatch.setattr(sys.modules["chipmap.solve"], "warm", lambda *_: 0.0)  # nothing is compiled for this
    found: Result = solve(shipped(family), options=options, isolate=isolate)
    assert found.objective is not None and found.termination.limit == "time"
    if not isolate:
        assert solve(shipped(family), options=options.replace(warm_start="none"), isolate=False).objective is None


@each_family
def test_baselines_begin_alone(family: Family) -> None:
    """Their figures are their own: nothing is made before them, unless the user names a start."""
    for method in family.methods:
        run = Run(shipped(family), SolveOptions(), checker(family, None))
        if method.alone:
            first(run, family, method)
            assert run.best is None


@each_family
def test_a_start_of_the_users_is_enough(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """No first mapping is made where one is known."""
    run = known(shipped(family))
    monkeypatch.setattr(conduct, "resolve", lambda spec: pytest.fail(f"{spec} was asked for"))
    first(run, family, family.method(None))


@pytest.mark.parametrize("family", ["placement", "dataflow", "ring"])
def test_three_hundred_operations_of_no_work(family: str) -> None:
    """Nothing divides by zero, and what is known is a mapping."""
    graph = random_dag(operations=300)
    idle = graph.replace(operations=[operation.replace(flop=0) for operation in graph.operations])
    record = get_family(family)
    run = known(resolve(record.from_graph)(ImportedGraph(idle, None, "idle"), "idle"))
    assert run.best is not None and run.lower is not None


@pytest.mark.parametrize("task", [{}, {"objective": "throughput", "memory": "static"}], ids=["step", "throughput"])
def test_a_placement_that_no_single_device_holds(task: dict[str, Any]) -> None:
    """Memories of which all together have half as much again as rests on them: one device isn't enough."""
    graph = random_dag(operations=400)
    made = resolve(get_family("placement").from_graph)(ImportedGraph(graph, None, "g"), "tight")
    rests = sum(one.weight_bytes for one in graph.operations) + sum(one.bytes for one in graph.tensors)
    room = rests * 3 // 8
    devices = tuple(msgspec.structs.replace(made.system.devices[0], name=f"d{d}", memory_bytes=room) for d in range(4))
    system = made.system.replace(devices=devices)
    run = known(made.replace(system=system, task=made.task.replace(**task)))
    assert run.best is not None and run.best.certificate.figures["devices"] >= 3
