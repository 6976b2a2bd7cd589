"""What is short is told where a chip's DRAM can't even hold what rests there, at any time limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from chipmap.deadline import Stop
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import llama
from chipmap.instances.dataflow.instance import Degrees
from chipmap.instances.dataflow.problem import dataflow_problem
from chipmap.methods.dataflow import infeasibility
from chipmap.result import Infeasibility
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.checker import check

#: 16 bytes for each of 218,103,808 parameters of a layer, 32 layers, on 8 chips: weights, gradients, Adam's state.
RESTS = 218_103_808 * 32 * 16 // 8


def training(capacity: int, **parameters: Any) -> DataflowInstance:
    chips = {"sizes": [8], "degrees": {"tensor": 8, "dimensions": ["tensor"]}, "dram_bytes": capacity}
    return llama(model="llama3-8b", step="forward", tokens=64, micro_batch=1, **chips, **parameters)


def too_late(instance: DataflowInstance, problems: Sequence[Any], deadline: Any) -> list[Infeasibility]:
    raise TimeoutError


def test_what_rests_is_told_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = training(RESTS - 1)
    problem = dataflow_problem(instance, Degrees(tensor=8, dimensions=("tensor",)), 1)
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    monkeypatch.setattr(infeasibility, "reasons", too_late)
    with pytest.raises(TimeoutError):
        infeasibility.no_mapping(instance, [problem], run)
    (told,) = run.infeasibility
    assert (told.label, told.demand, told.limit) == ("C6", RESTS, RESTS - 1)
    assert not any("wasn't found" in note.text for note in run.notes)


def test_a_search_for_more_ends_long_before_the_proof_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets some seconds, after which the sum is told; half of the time where no sum says what is short."""
    ends: list[float] = []

    def search(instance: DataflowInstance, problems: Sequence[Any], deadline: Any) -> list[Infeasibility]:
        ends.append(deadline.seconds)
        raise Stop("time")

    monkeypatch.setattr(infeasibility, "reasons", search)
    for capacity, most, told in ((RESTS - 1, infeasibility.PATIENCE, 1), (RESTS, 500.0, 0)):
        instance = training(capacity)
        run = Run(instance, SolveOptions(time_limit=1000.0, threads=1), check)
        problem = dataflow_problem(instance, Degrees(tensor=8, dimensions=("tensor",)), 1)
        infeasibility.no_mapping(instance, [problem], run)
        assert run.proved_infeasible and len(run.infeasibility) == told
        assert 0.8 * most <= ends.pop() <= most


def test_enough_dram_is_no_shortage() -> None:
    instance = training(RESTS)
    assert infeasibility.resting([dataflow_problem(instance, Degrees(tensor=8, dimensions=("tensor",)), 1)]) == []
