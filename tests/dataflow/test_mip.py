"""The MIP of dataflow: the exact program on random instances, matrices, standing, composition."""

from __future__ import annotations

from fractions import Fraction

import pyomo.environ as pyo
import pytest

from chipmap.family import Standing
from chipmap.formulations.dataflow import mip
from chipmap.instances.dataflow import DataflowInstance, Degrees
from chipmap.instances.dataflow.batch_time import total_ticks
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.records import InputError
from chipmap.solvers import infeasible_labels
from chipmap.solvers.lowering import lower
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.dataflow.checker import check
from tests.dataflow.test_cpsat import fixed
from tests.dataflow.tiny_models import by_program, optimum, random_instance, solved, table6

SEEDS = range(12)
CASES = [(seed, mode) for seed in SEEDS for mode in ("dfmodel", "physical")]


@pytest.mark.parametrize(("seed", "mode"), CASES)
def test_highs_finds_the_programs_optimum(seed: int, mode: str) -> None:
    instance = random_instance(seed, mode)
    assert optimum(instance, mip.build(instance)) == by_program(instance)


@pytest.mark.parametrize(("seed", "mode"), CASES[::3])
def test_so_it_does_with_empty_partitions_anywhere(seed: int, mode: str) -> None:
    instance = random_instance(seed, mode)
    assert optimum(instance, mip.build(instance, {"order": "free"})) == by_program(instance)


@pytest.mark.parametrize(("seed", "mode"), CASES[::3])
def test_a_cutoff_leaves_the_optimum_and_cuts_what_is_above(seed: int, mode: str) -> None:
    instance = random_instance(seed, mode)
    best = by_program(instance)
    if best is not None:
        assert optimum(instance, mip.build(instance, {"upper": best})) == best
        assert optimum(instance, mip.build(instance, {"upper": best - best // 1000 - 1})) is None


@pytest.mark.parametrize(("seed", "mode"), CASES)
def test_a_mapping_goes_in_and_out(seed: int, mode: str) -> None:
    """decode(encode(s)) has the checker's value of s, the block's terms are the checker's, and its matrices hold."""
    instance = random_instance(seed, mode)
    model = mip.build(instance)
    outcome = solved(model)
    if outcome.value_of is None:
        return
    solution = model.decode(outcome.value_of)
    pairs = model.encode(solution)
    assert pairs is not None
    values = {id(variable): value for variable, value in pairs}
    assert model.decode(lambda variable: values[id(variable)]) == solution
    for variable in model.native.component_data_objects(pyo.Var):
        if not variable.fixed:
            variable.set_value(outcome.value_of(variable), skip_validation=True)
    block, certificate = model.native.dataflow, check(instance, solution)
    assert pyo.value(block.cost) == pytest.approx(certificate.objective, rel=1e-6)
    assert pyo.value(block.layer) == pytest.approx(certificate.terms["T4"], rel=1e-6)
    assert pyo.value(block.terms["T1"]) == pytest.approx(certificate.terms["T1"], rel=1e-6, abs=1)
    paid, exchanges = pyo.value(block.terms["T3"]), block.tables.exchanges
    assert paid >= certificate.terms["T3"] * (1 - 1e-6) - 1  # above where nobody asks who pays
    if not (exchanges.payers or exchanges.sums or exchanges.chains):
        assert paid == pytest.approx(certificate.terms["T3"], rel=1e-6, abs=1)
    index = {kernel.name: k for k, kernel in enumerate(instance.workload.kernels)}
    where = [_slot(block, block.tables.slots[i], i) for i in block.tables.copies]
    for e, (a, b) in enumerate(instance.workload.edges):
        u, v = where[index[a]], where[index[b]]
        for c in range(block.tables.count):
            assert round(pyo.value(block.B[e, c]), 6) == int(u == v == c)
            assert round(pyo.value(block.D[e, c]), 6) == int((u == c) != (v == c))
            assert round(pyo.value(block.L[e, c]), 6) == int(u <= c <= v and u < v)
            assert round(pyo.value(block.H[e, c]), 6) == int(u == c)


def _slot(block: pyo.Block, slots: range, i: int) -> int:
    return next(c for c in slots if pyo.value(block.A[i, c]) > 0.5)


def test_table_6_is_tight_and_small() -> None:
    """18 kernels, 21 tensors, 4 partitions: no more columns than the cumulative statement needs."""
    instance = table6()
    model = mip.build(instance)
    lowered = lower(model.native)
    assert lowered.columns == 18 * 4 + 21 * 4 + 4 + 3
    assert optimum(instance, model) == by_program(instance)


@pytest.mark.parametrize("free", [False, True])
def test_a_model_of_one_choice_of_degrees_says_what_it_is_worth(free: bool) -> None:
    instance = random_instance(1, "physical")
    if free:
        instance = instance.replace(task=instance.task.replace(degrees=None))
    several = len(allowed_degrees(instance)) > 1
    assert several == free
    for degrees in (None, *allowed_degrees(instance)):
        standing = mip.build(instance, {"degrees": degrees}).standing
        assert standing is (Standing.RESTRICTION if free else Standing.EXACT)


def test_degrees_that_are_not_allowed_are_refused() -> None:
    with pytest.raises(InputError, match="not among those"):
        mip.build(random_instance(1, "physical"), {"degrees": Degrees(tensor=3)})


def test_an_infeasible_model_names_its_labels() -> None:
    """One partition is too little SRAM: C2 and C4."""
    model = mip.build(table6(partitions=1))
    assert optimum(table6(partitions=1), model) is None
    found = infeasible_labels(model, SolveRequest(time_limit=30.0, threads=1))
    assert {label.partition("_")[0].upper() for label in found} == {"C2", "C4"}


def test_a_used_block_is_refused() -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var()
    with pytest.raises(InputError, match="already has components"):
        mip.add_dataflow(model, random_instance(1, "physical"))


def test_two_side_by_side_keep_their_own_optima() -> None:
    pair = _two_feasible()
    model = pyo.ConcreteModel()
    model.each = pyo.Block([0, 1])
    for number, instance in enumerate(pair):
        mip.add_dataflow(model.each[number], instance)
    model.objective = pyo.Objective(expr=model.each[0].layer / 1000 + model.each[1].layer / 1000)
    pyo.SolverFactory("appsi_highs").solve(model, options={"mip_rel_gap": 0.0})
    for number, instance in enumerate(pair):
        found = round(pyo.value(model.each[number].layer))
        assert instance.task.degrees is not None
        problem = dataflow_problem(instance, instance.task.degrees)
        assert total_ticks(problem, found) == pytest.approx(by_program(instance), rel=1e-6)


def _two_feasible() -> list[DataflowInstance]:
    found = [random_instance(seed, "physical") for seed in SEEDS]
    return [instance for instance in found if by_program(instance) is not None and fixed(instance)][:2]


def test_unit_loses_nothing() -> None:
    scale = mip.unit(10**11 + 7)
    assert Fraction((10**11 + 7) / scale) * scale == 10**11 + 7
