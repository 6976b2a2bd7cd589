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
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import made

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


@pytest.mark.parametrize("tensor", [1, 2])
def test_parameters_of_kernels_without_an_edge(tensor: int) -> None:
    """A product and its backward product, side by side: with the least DRAM of all mappings the best of these is found,
    with a byte less there is none. A chip alone has all weights, whatever their part is called, and once."""
    kernel = {"kind": "gemm", "outer": 1, "M": 4, "K": 64, "N": 16, "weights": True}
    kernels = {"a": kernel, "x": {**kernel, "phase": "backward", "parameters_of": "a"}}
    degrees = {"tensor": tensor, "dimensions": ["tensor"]}
    with_room = made(
        kernels, "", carries="aa xx", mode="physical", sizes=[tensor], layers=2, fused=False, overlap=False,
        dram_bytes=10**6, purpose="training", degrees=degrees,
    )  # fmt: skip
    memory = with_room.system.memory

    def best(capacity: int) -> int | None:
        limited = with_room.system.replace(memory=memory.replace(capacity_bytes=capacity))
        instance = with_room.replace(system=limited)
        optimum, _ = brute_force(instance, check)
        found = solve(instance, options=SolveOptions(time_limit=60.0, threads=1), isolate=False)
        assert (found.status, found.objective) == ("infeasible" if optimum is None else "optimal", optimum)
        assert found.status == "optimal" or found.infeasibility[0].label == "C6"
        return optimum

    least = 8192 if tensor == 1 else 4096
    assert best(least) is not None and best(least - 1) is None and best(10**6) is not None
