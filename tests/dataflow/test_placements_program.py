"""The program of a planner of tensor placements (benchmarks) against ``dataflow/auto`` and the checker."""

from __future__ import annotations

import pytest

from benchmarks.dataflow_placements import CASES, asked, compared
from benchmarks.placements_program import Program, costs
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.validation.dataflow.checker import check


@pytest.mark.parametrize("capacity", [None, 6 * 10**9])
def test_the_program_of_a_layer_has_our_optimum(capacity: int | None) -> None:
    row, _ = compared("prefill", asked(CASES["Llama3 8B, prefill, 8 chips"]()), 60.0, capacity)
    assert row.equal


def test_the_program_charges_what_the_checker_charges() -> None:
    """Choices that differ in one kernel from the first one of all, of a training layer."""
    instance = asked(CASES["GPT3 175B, training, 8 chips"]())
    assert instance.task.degrees is not None
    problem = dataflow_problem(instance, instance.task.degrees)
    program = Program(costs(problem, problem.places), problem.sram)
    last = [len(own) - 1 for own in problem.options]
    choices = [last, *([last[v] if v == w else 0 for v in range(problem.n)] for w in range(0, problem.n, 3))]
    for chosen in choices:
        schemes = [own[s].scheme for own, s in zip(problem.options, chosen, strict=True)]
        judged = check(instance, problem.mapping(schemes, problem.places, ()))
        assert judged.feasible and judged.objective == program.value(chosen)
