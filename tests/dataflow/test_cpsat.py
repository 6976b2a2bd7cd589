"""The CP-SAT model of dataflow: the exact program on random instances, the MIP on table VI, labels, composition."""

from __future__ import annotations

from typing import Any

import pytest
from ortools.sat.python import cp_model

from chipmap.formulations.dataflow import cpsat, mip
from chipmap.formulations.dataflow.tables import tables
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.solvers import infeasible_labels
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check
from tests.dataflow.tiny_models import by_program, gpt3_1t, optimum, random_instance, solved, table6

SEEDS = range(12)
CASES = [(seed, mode) for seed in SEEDS for mode in ("dfmodel", "physical")]


@pytest.mark.parametrize(("seed", "mode"), CASES)
def test_cpsat_finds_the_programs_optimum(seed: int, mode: str) -> None:
    instance = random_instance(seed, mode)
    assert optimum(instance, cpsat.build(instance)) == by_program(instance)


@pytest.mark.parametrize(("seed", "mode"), CASES[::3])
@pytest.mark.parametrize("choices", [{"order": "free"}, {"labels": "assume"}], ids=str)
def test_so_it_does_however_it_is_stated(seed: int, mode: str, choices: dict[str, Any]) -> None:
    instance = random_instance(seed, mode)
    assert optimum(instance, cpsat.build(instance, choices)) == by_program(instance)


@pytest.mark.parametrize(("seed", "mode"), CASES[::3])
def test_a_cutoff_leaves_the_optimum_and_cuts_what_is_above(seed: int, mode: str) -> None:
    instance = random_instance(seed, mode)
    best = by_program(instance)
    if best is not None:
        assert optimum(instance, cpsat.build(instance, {"upper": best})) == best
        assert optimum(instance, cpsat.build(instance, {"upper": best - 1})) is None


@pytest.mark.parametrize(("seed", "mode"), CASES)
def test_a_mapping_goes_in_and_out_and_starts_a_solve(seed: int, mode: str) -> None:
    instance = random_instance(seed, mode)
    model = cpsat.build(instance)
    outcome = solved(model)
    if outcome.value_of is None:
        return
    solution = model.decode(outcome.value_of)
    pairs = model.encode(solution)
    assert pairs is not None
    values = {variable.index: value for variable, value in pairs}
    assert model.decode(lambda variable: values[variable.index]) == solution
    assert solved(model, start=tuple(pairs)).start_accepted


@pytest.mark.parametrize("mode", ["dfmodel", "physical"])
@pytest.mark.parametrize("seed", [2, 10])
def test_partitions_across_layers(seed: int, mode: str) -> None:
    """Two layers of two kernels in a row: MIP, CP-SAT and brute force over schemes and partitions."""
    instance = two_layers(seed, mode)
    best, _ = brute_force(instance, check)
    assert best is not None
    for formulation in (mip, cpsat):
        assert optimum(instance, formulation.build(instance)) == best


def two_layers(seed: int, mode: str) -> DataflowInstance:
    """Kernels k0 and k1, twice, in at most three partitions that may reach over the end of a layer."""
    instance = random_instance(seed, mode)
    workload = instance.workload.replace(
        kernels=tuple(kernel.replace(phase="forward", update=False) for kernel in instance.workload.kernels[:2]),
        edges=(("k0", "k1"),),
        carries=(("k1", "k0"),),
        layers=2,
    )
    task = instance.task.replace(
        across_layers=True, partitions=3, exactly=False, fused=True, together=(), degrees=degrees_of(instance)
    )
    chip = instance.system.chip.replace(sram_bytes=50_000)
    system = instance.system.replace(network=instance.system.network[:1], chip=chip)
    return instance.replace(workload=workload, task=task, system=system)


def degrees_of(instance: DataflowInstance) -> Any:
    """Tensor parallelism over the first network dimension alone."""
    assert instance.task.degrees is not None
    return instance.task.degrees.replace(pipeline=1, dimensions=("tensor",))


TABLE_6: list[dict[str, Any]] = [
    {"fused": False},
    {"partitions": 18, "together": (("Q", "K", "V"), ("MHA1", "Softmax", "MHA2", "Proj"), ("FFN0",), ("FFN1", "Add2"))},
    {"exactly": True, "together": (("Q", "K", "V"), ("MHA1", "MHA2"), ("Proj", "FFN0"), ("FFN1",))},
    {},
    {"schemes": {}},
    {"schemes": {}, "mode": "physical"},
]


@pytest.mark.parametrize("task", TABLE_6, ids=["single", "vendor", "exactly", "free", "joint", "physical"])
def test_table_6_by_highs_cpsat_and_program(task: dict[str, Any]) -> None:
    instance = table6(**task)
    best = by_program(instance)
    assert best is not None
    for formulation in (mip, cpsat):
        assert optimum(instance, formulation.build(instance)) == best


@pytest.mark.parametrize("mode", ["dfmodel", "physical"])
def test_41_kernels_forward_and_backward(mode: str) -> None:
    instance = gpt3_1t(mode)
    best = by_program(instance)
    assert best is not None
    for formulation in (mip, cpsat):
        assert optimum(instance, formulation.build(instance)) == best


def test_an_infeasible_model_names_its_labels() -> None:
    """One partition is too little SRAM: C2 and C4; two kernels pinned together, kernel by kernel: C4 and C5."""
    short = table6(partitions=1)
    pinned = table6(fused=False, together=(("Q", "K"),))
    for instance, labels in ((short, {"C2", "C4"}), (pinned, {"C4", "C5"})):
        assert optimum(instance, cpsat.build(instance)) is None
        stated = cpsat.build(instance, {"labels": "assume"})
        found = infeasible_labels(stated, SolveRequest(time_limit=30.0, threads=1))
        assert {label.partition("_")[0].upper() for label in found} == labels


def test_two_side_by_side_keep_their_own_optima() -> None:
    pair = [random_instance(seed, "physical") for seed in SEEDS]
    pair = [instance for instance in pair if by_program(instance) is not None and fixed(instance)][:2]
    model = cp_model.CpModel()
    each = [cpsat.add_dataflow(model, instance, prefix=f"{number} ") for number, instance in enumerate(pair)]
    model.minimize(sum(one.layer for one in each))
    names = [variable.name for variable in model.proto.variables]
    assert len(set(names)) == len(names)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    alone = [solved(cpsat.build(instance)).objective for instance in pair]
    found = [solver.value(one.layer) * one.factor + (one.tables.fixed or 0) for one in each]
    assert found == pytest.approx(alone)


def fixed(instance: DataflowInstance) -> bool:
    """Whether all mappings have the same T5 and T6, so that the least layer is the least batch."""
    assert instance.task.degrees is not None
    return tables(dataflow_problem(instance, instance.task.degrees)).fixed is not None
