"""The choices of degrees of an instance, each with a first bound, for the methods of family ``dataflow``."""

from __future__ import annotations

from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, allowed_degrees
from chipmap.instances.dataflow.layer_handover import ways
from chipmap.instances.dataflow.problem import DataflowProblem, compute_ticks, dataflow_problem


class Case(NamedTuple):
    """A choice of degrees, perhaps with one case of the hand-over between layers, and a lower bound in ticks."""

    problem: DataflowProblem
    bound: int


def case_of(problem: DataflowProblem) -> Case:
    """The case with the bound that compute alone gives."""
    return Case(problem, compute_ticks(problem))


def cases(instance: DataflowInstance) -> list[Case]:
    """Every choice of degrees with the bound that compute alone gives, the least first."""
    problems = [dataflow_problem(instance, degrees) for degrees in allowed_degrees(instance)]
    return sorted(map(case_of, problems), key=lambda case: case.bound)


def open_cases(instance: DataflowInstance) -> list[Case]:
    """The same for every case of the hand-over between layers (:mod:`chipmap.instances.dataflow.layer_handover`)."""
    split = (case_of(one) for case in cases(instance) for one in ways(case.problem))
    return sorted(split, key=lambda case: case.bound)
