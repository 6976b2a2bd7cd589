"""For each kind of bound of the family an instance where it is tight: were it one tick (or byte) higher, it would be
above what brute force finds, and a test would fail."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.deadline import Deadline
from chipmap.formulations.dataflow.relaxation import bound as relaxation_bound
from chipmap.heuristics.dataflow.cover.column_generation import PartitionBound, one_partition
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.heuristics.dataflow.stages.program import StageProgram
from chipmap.heuristics.dataflow.symmetric.classes import classes
from chipmap.heuristics.dataflow.symmetric.program import SymmetricProgram
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.batch_time import compute_ticks, steps, total_ticks
from chipmap.instances.dataflow.floors import least_sram
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.stages import dram_need
from chipmap.methods.dataflow.wide_infeasibility import shortage
from chipmap.run import Run, SolveOptions
from chipmap.solvers.repeated import GrowingProgram, Repeated
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import ELEMENT, GEMM, ROW, TENSOR, made

#: Small enough that the margin of a millionth for a solver's arithmetic is less than a picosecond.
SMALL: dict[str, Any] = {"flop": 40_000, "output_bytes": 600, "weight_bytes": 90, "schemes": ["M", "NONE"]}
BUSY: dict[str, Any] = {**SMALL, "flop": 40_000_000}
#: Held whole on every chip. Two in a row take 220 bytes of SRAM in a partition, three 310.
WHOLE: dict[str, Any] = {**SMALL, "schemes": ["NONE"]}


def problem_of(instance: DataflowInstance) -> DataflowProblem:
    return dataflow_problem(instance, allowed_degrees(instance)[0])


def optimum(instance: DataflowInstance) -> int | None:
    return brute_force(instance, check)[0]


def fixed(kernels: dict[str, dict[str, Any]], edges: str, **parameters: Any) -> DataflowInstance:
    return made(kernels, edges, **{"degrees": TENSOR, "sram_bytes": 10_000, **parameters})


def solved(instance: DataflowInstance) -> Run:
    run = Run(instance, SolveOptions.make(time_limit=60.0, threads=1), check)
    auto(instance, run)
    return run


def test_compute() -> None:
    """Kernels that compute longer than they read and send."""
    instance = fixed({"a": BUSY, "b": BUSY}, "ab")
    assert compute_ticks(problem_of(instance)) == optimum(instance)


def test_program_over_ideals() -> None:
    """Two partitions, one limited by compute and one by memory."""
    instance = fixed({"a": {**BUSY, "schemes": ["NONE"]}, "b": WHOLE, "c": WHOLE}, "ab bc", sram_bytes=250)
    problem = problem_of(instance)
    chain = Program(problem).best(2)
    assert chain is not None and max(chain.partitions) == 1
    assert total_ticks(problem, chain.ticks, chain.chosen) == optimum(instance)
    assert compute_ticks(problem) < total_ticks(problem, chain.ticks)


def test_program_over_all_degrees() -> None:
    """The bound over all choices of degrees is the least of theirs, whichever comes first."""
    instance = made({"a": BUSY, "b": SMALL, "c": GEMM}, "ab bc", sizes=[2, 2], layers=2, sram_bytes=140_000)
    run = solved(instance)
    assert run.lower is not None and run.lower.value == run.upper == optimum(instance)
    assert all(bound.value <= run.lower.value for bound in run.bounds)


def cover_of(instance: DataflowInstance) -> int:
    found: list[int] = []
    bound = PartitionBound(classes(problem_of(instance)), instance.task.partitions, Repeated, GrowingProgram)
    bound.run(100, Deadline(), found.append)
    return found[-1]


@pytest.mark.parametrize("partitions", [None, 2], ids=["any number", "two"])
def test_cover_by_partitions(partitions: int | None) -> None:
    """Memory limits every partition, so that the best cover is of whole ones."""
    instance = fixed(dict.fromkeys("abc", WHOLE), "ab bc", partitions=partitions, sram_bytes=250)
    problem = problem_of(instance)
    chain = Program(problem).best(partitions)
    assert chain is not None and max(chain.partitions) > 0
    assert cover_of(instance) == chain.ticks
    assert total_ticks(problem, chain.ticks, chain.chosen) == optimum(instance)


def test_one_partition_whose_weights_stay() -> None:
    """Weights are read once, and one partition holds all kernels: only its output and compute are left."""
    instance = fixed({"a": SMALL, "b": SMALL}, "ab")
    problem = problem_of(instance)
    layer = one_partition(classes(problem), Deadline(), Repeated)
    assert layer is not None and total_ticks(problem, layer) == optimum(instance)


def test_program_up_to_symmetry() -> None:
    """Two equal branches, of which one waits for the other's partition."""
    instance = fixed(dict.fromkeys("abcd", WHOLE), "ab ac bd cd", sram_bytes=250)
    problem = problem_of(instance)
    chain = SymmetricProgram(problem).best_up_to_symmetry(None)
    assert chain is not None and max(chain.partitions) > 0
    assert total_ticks(problem, chain.ticks, chain.chosen) == optimum(instance)


def test_relaxation() -> None:
    """One kernel, whose scheme and partition there is no choice of."""
    instance = fixed({"a": {**BUSY, "schemes": ["M"]}}, "")
    problem = problem_of(instance)
    layer = relaxation_bound(problem)
    assert layer is not None and total_ticks(problem, layer) == optimum(instance)


def test_stages_of_kernels() -> None:
    """The slowest of two stages: no division of three kernels has a shorter one."""
    kernels = {"a": BUSY, "b": {**BUSY, "flop": 70_000_000}, "c": GEMM}
    instance = made(kernels, "ab bc", degrees=ROW, stages="kernels", sram_bytes=400_000)
    problem = problem_of(instance)
    program = StageProgram(problem, 1)
    division = program.divide(None)
    assert division is not None and steps(problem) * division.step == optimum(instance)
    assert program.floor() < division.step


def test_floor_of_a_step() -> None:
    """Two equal kernels on two stages: each stage has an equal share."""
    instance = made({"a": BUSY, "b": BUSY}, "ab", degrees=ROW, stages="kernels", link_gbps=1000.0)
    problem = problem_of(instance)
    assert steps(problem) * StageProgram(problem, 1).floor() == optimum(instance)


def dram(instance: DataflowInstance, capacity: int) -> DataflowInstance:
    memory = instance.system.memory.replace(capacity_bytes=capacity)
    return instance.replace(system=instance.system.replace(memory=memory))


def test_need_of_dram() -> None:
    """With as much DRAM as the fullest stage needs at rest there is a mapping, with a byte less there is none."""
    kernels = {"a": {**SMALL, "output_bytes": 0}, "b": {**SMALL, "output_bytes": 0}}
    instance = dram(made(kernels, "", degrees=ROW, stages="kernels"), 10**9)
    need = dram_need(problem_of(instance))
    assert solved(dram(instance, need)).upper == optimum(dram(instance, need)) is not None
    assert solved(dram(instance, need - 1)).proved_infeasible and optimum(dram(instance, need - 1)) is None


def sram(instance: DataflowInstance, size: int) -> DataflowInstance:
    return instance.replace(system=instance.system.replace(chip=instance.system.chip.replace(sram_bytes=size)))


def short(instance: DataflowInstance) -> str | None:
    """The label that the bounds for wide graphs say is short."""
    found = shortage(classes(problem_of(instance)), 10.0)
    return None if found is None else found.label


@pytest.mark.parametrize("mode", ["physical", "dfmodel"])
def test_sram_of_a_kernel_in_a_wide_graph(mode: str) -> None:
    """C2: with the bytes that the largest kernel needs each kernel can be a partition, with one less it can't."""
    instance = fixed({"a": SMALL, "b": {**SMALL, "weight_bytes": 900}, "c": SMALL}, "ab bc ac", mode=mode)
    need = max(least_sram(problem_of(instance)))
    assert short(sram(instance, need)) is None and optimum(sram(instance, need)) is not None
    assert short(sram(instance, need - 1)) == "C2" and optimum(sram(instance, need - 1)) is None


def test_dram_of_a_wide_graph() -> None:
    """C6: kernels that pass nothing on need what they keep, and no more."""
    instance = dram(fixed({"a": SMALL, "b": SMALL}, ""), 10**9)
    need = sum(min(option.kept for option in options) for options in problem_of(instance).options)
    assert need > 0 and short(dram(instance, need)) is None and optimum(dram(instance, need)) is not None
    assert short(dram(instance, need - 1)) == "C6" and optimum(dram(instance, need - 1)) is None


def test_partitions_of_a_wide_graph() -> None:
    """C4: weights that just fill two partitions fit two, and not one."""
    kernel = {**SMALL, "output_bytes": 0, "schemes": ["NONE"]}
    instance = fixed(dict.fromkeys("abcd", kernel), "", sram_bytes=180)
    for partitions, label in ((2, None), (1, "C4")):
        asked = instance.replace(task=instance.task.replace(partitions=partitions))
        assert short(asked) == label and (optimum(asked) is None) == (label is not None)


def test_pins_of_a_wide_graph() -> None:
    """C5: a group that just fits the SRAM is no reason, one byte less makes it one."""
    kernel = {**SMALL, "output_bytes": 0, "schemes": ["NONE"]}
    instance = fixed(dict.fromkeys("abc", kernel), "", together=["ab"])
    assert short(sram(instance, 180)) is None and optimum(sram(instance, 180)) is not None
    assert short(sram(instance, 179)) == "C5" and optimum(sram(instance, 179)) is None


def test_layouts_passed_to_the_next_layer() -> None:
    """The bound by compute knows nothing of changes of layout; the program over their cases does."""
    instance = fixed({"a": ELEMENT, "b": GEMM}, "ab", carries="ba", layers=2, link_gbps=0.5, sram_bytes=10**6)
    run = solved(instance)
    assert run.lower is not None and run.lower.value == run.upper == optimum(instance)
