"""What is short is told where a chip's DRAM can't even hold what rests there, at any time limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from chipmap.deadline import Stop
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import llama
from chipmap.instances.dataflow.instance import Degrees
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.methods.dataflow import infeasibility
from chipmap.methods.dataflow.cases import least_demanding
from chipmap.methods.dataflow.shortages import Questions
from chipmap.result import Infeasibility
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.checker import check

#: 16 bytes for each of 218,103,808 parameters of a layer, 32 layers, on 8 chips: weights, gradients, Adam's state.
RESTS = 218_103_808 * 32 * 16 // 8


def training(capacity: int, **parameters: Any) -> DataflowInstance:
    chips = {"sizes": [8], "degrees": {"tensor": 8, "dimensions": ["tensor"]}, "dram_bytes": capacity}
    return llama(model="llama3-8b", step="forward", tokens=64, micro_batch=1, **chips, **parameters)


def too_late(instance: DataflowInstance, problems: Sequence[Any], questions: Any) -> list[Infeasibility]:
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


def test_a_search_for_more_ends_after_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[float] = []

    def search(instance: DataflowInstance, problems: Sequence[Any], questions: Questions) -> list[Infeasibility]:
        ends.append(questions.deadline.seconds)
        raise Stop("time")

    monkeypatch.setattr(infeasibility, "reasons", search)
    for capacity, told in ((RESTS - 1, 1), (RESTS, 0)):
        instance = training(capacity)
        run = Run(instance, SolveOptions(time_limit=1000.0, threads=1), check)
        problem = dataflow_problem(instance, Degrees(tensor=8, dimensions=("tensor",)), 1)
        infeasibility.no_mapping(instance, [problem], run)
        assert run.proved_infeasible and len(run.infeasibility) == told
        assert 400.0 <= ends.pop() <= 500.0


def test_a_search_for_more_counts_labels_where_a_sum_says_what_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another question is asked as long as labels are left; then the sum is told, whatever the time."""
    asked: list[int] = []
    best = Program.best

    def counted(program: Program, *some: Any, **limits: Any) -> Any:
        asked.append(1)
        return best(program, *some, **limits)

    monkeypatch.setattr(Program, "best", counted)
    instance = read("dataflow/tiny-sram")
    assert isinstance(instance, DataflowInstance)
    told = list[tuple[int, bool]]()
    for labels in (0, 40, infeasibility.PATIENCE):
        monkeypatch.setattr(infeasibility, "PATIENCE", labels)
        asked.clear()
        run = Run(instance, SolveOptions(threads=1), check)
        infeasibility.no_mapping(instance, least_demanding(instance), run)
        (reason,) = run.infeasibility
        assert reason.label == "C2"
        told.append((len(asked), "are needed at least" in reason.message))
    assert [found for _, found in told] == [False, False, True] and told[0] < told[1] < told[2], told


def test_enough_dram_is_no_shortage() -> None:
    instance = training(RESTS)
    assert infeasibility.resting([dataflow_problem(instance, Degrees(tensor=8, dimensions=("tensor",)), 1)]) == []
