"""The chain: what it does with the time that its tasks leave."""

from __future__ import annotations

import pytest

from chipmap.instances.wafer.generators import bert
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.methods.crew import Member, work_together
from chipmap.methods.wafer.chain import AGAIN, Crew
from chipmap.run import Run, SolveOptions
from chipmap.validation.wafer.checker import check


@pytest.mark.parametrize(
    ("layers", "limit", "steady", "wanted"),
    [(4, 60.0, False, [6, 8, 10]), (1, 60.0, False, []), (4, None, False, []), (4, 60.0, True, [])],
    ids=["other seeds", "few kernels", "no limit", "deterministic"],
)
def test_searches_again_with_other_seeds(
    monkeypatch: pytest.MonkeyPatch, layers: int, limit: float | None, steady: bool, wanted: list[int]
) -> None:
    instance = bert(layers=layers, heads=4, hidden=64, sequence=64, split="heads", width=150, height=140)
    problem, seeds = wafer_problem(instance), list[int]()
    assert (problem.n >= AGAIN) == (layers == 4)

    def search(crew: Crew, member: Member, seed: int, start: object = None) -> None:
        seeds.append(seed)
        if len(seeds) == 3:
            member.stopping.set()

    monkeypatch.setattr(Crew, "search", search)
    run = Run(instance, SolveOptions.make(time_limit=limit, deterministic=steady), check)
    work_together(run, [[lambda member: Crew(problem).again(member, 4)]])
    assert seeds == wanted
