"""The methods that solve the models: the same optimum, with a closed gap, as the program over all degrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow import first
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.checker import check
from tests.dataflow.tiny_models import random_instance, table6

Method = Callable[[DataflowInstance, Run], Termination]
METHODS: tuple[Method, ...] = (mip, cpsat)
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)


def run_of(instance: DataflowInstance, method: Method, **options: Any) -> tuple[Run, Termination]:
    """The run of a method within a minute on one thread, and how it ended."""
    run = Run(instance, SolveOptions(**{"time_limit": 60.0, "threads": 1} | options), check)
    return run, method(instance, run)


@every_method
@pytest.mark.parametrize("mode", ["dfmodel", "physical"])
@pytest.mark.parametrize("seed", range(0, 12, 2))
def test_all_degrees(seed: int, mode: str, method: Method) -> None:
    instance = random_instance(seed, mode)
    instance = instance.replace(task=instance.task.replace(degrees=None))
    expected, by_program = run_of(instance, auto)
    run, termination = run_of(instance, method)
    assert termination.reason == by_program.reason
    assert termination.reason in ("optimal", "infeasible"), termination
    assert run.upper == expected.upper
    assert not run.rejected


@every_method
def test_table_6_is_proved_from_nothing_and_from_the_optimum(method: Method) -> None:
    instance = table6()
    run, termination = run_of(instance, method)
    assert termination.reason == "optimal" and run.best is not None
    assert isinstance(run.best.solution, DataflowSolution) and len(set(run.best.solution.partitions)) == 2
    again = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    again.solution(run.best.solution, "start")
    assert method(instance, again).reason == "optimal"
    assert again.upper == run.upper


@every_method
def test_a_model_too_large_to_state_is_refused(method: Method) -> None:
    """1,728 kernels in as many partitions: with fewer, the model is stated."""
    instance = read("dataflow/gpt3-175b-96-layers-8x1")
    assert isinstance(instance, DataflowInstance)
    with pytest.raises(InputError, match="2,985,984 pairs") as refused:
        run_of(instance, method)
    assert "(57, say)" in refused.value.remedy
    few = instance.replace(task=instance.task.replace(partitions=1))
    run, _ = run_of(few, method, time_limit=0.0)
    assert run.best is None and not run.rejected


def wide(branches: int, sram: int) -> DataflowInstance:
    """Kernels side by side between two others, in at most two partitions."""
    kernel = {"flop": 40_000_000, "output_bytes": 60_000, "weight_bytes": 90_000, "schemes": ["M", "NONE"]}
    names = [f"e{i}" for i in range(branches)]
    edges = [["in", name] for name in names] + [[name, "out"] for name in names]
    return explicit(
        kernels=dict.fromkeys(("in", *names, "out"), kernel),
        edges=edges,
        sizes=[2],
        sram_bytes=sram,
        batch=4,
        tokens=64,
        partitions=2,
        degrees={"tensor": 2, "dimensions": ["tensor"]},
    )


@every_method
def test_graphs_too_wide_for_the_program(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first, "FEW", 100)  # the first mapping is an optimum here
    run, _ = run_of(wide(20, 10**8), auto)
    assert run.gap is not None and run.gap < 1e-5 and "ideals" in run.notes[0].text
    other, termination = run_of(wide(20, 10**8), method)
    assert termination.reason == "optimal" and other.upper is not None and run.lower is not None
    assert run.lower.value <= other.upper == run.upper


@every_method
def test_infeasibility_is_proved_on_wide_graphs_too(method: Method) -> None:
    run, termination = run_of(wide(20, 10_000), method)
    assert termination.reason == "infeasible" and run.infeasibility[0].label == "C2"


@every_method
def test_no_degrees_at_all(method: Method) -> None:
    instance = random_instance(0, "physical")
    workload = instance.workload.replace(layers=1)
    task = instance.task.replace(degrees=None, batch=1)
    network = (instance.system.network[0],) * 3
    instance = instance.replace(workload=workload, task=task, system=instance.system.replace(network=network))
    assert allowed_degrees(instance) == []
    run, termination = run_of(instance, method)
    assert termination.reason == "infeasible" and run.infeasibility


@every_method
def test_the_deterministic_mode_gives_the_same_twice(method: Method) -> None:
    instance = random_instance(2, "physical")
    seen = [run_of(instance, method, deterministic=True, seed=3)[0] for _ in range(2)]
    assert [run.best.solution if run.best else None for run in seen[:1]] == [
        run.best.solution if run.best else None for run in seen[1:]
    ]
    assert seen[0].lower is not None and seen[1].lower is not None
    assert seen[0].lower.value == seen[1].lower.value
