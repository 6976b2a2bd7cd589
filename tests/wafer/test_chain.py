"""The chain: its lists of links, and what it does with the time that they leave."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.deadline import Deadline, StopReason
from chipmap.instances.wafer.generators import bert
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.wafer import chain, state
from chipmap.run import Run, SolveOptions
from chipmap.validation.wafer.checker import check
from tests.wafer import tiny


@pytest.mark.parametrize(
    ("layers", "limit", "steady", "wanted"),
    [(4, 60.0, False, [6, 8, 10]), (1, 60.0, False, [6, 8, 10]), (4, None, False, []), (4, 60.0, True, [])],
    ids=["other seeds", "few kernels", "no limit", "deterministic"],
)
def test_searches_again_with_other_seeds(
    monkeypatch: pytest.MonkeyPatch, layers: int, limit: float | None, steady: bool, wanted: list[int]
) -> None:
    """Every second seed, while there is time, unless the run is deterministic."""
    instance = bert(layers=layers, heads=4, hidden=64, sequence=64, split="heads", width=150, height=140)
    problem, seeds = wafer_problem(instance), list[int]()
    assert (problem.n >= 40) == (layers == 4)

    def search(found: state.WaferChainState, turn: Turn, seed: int, start: object = None) -> None:
        seeds.append(found.seed + seed)

    def after_three() -> StopReason | None:
        return "interrupted" if len(seeds) == 3 else None

    monkeypatch.setattr(chain, "_search", search)
    monkeypatch.setattr(chain, "_neighbourhoods", lambda *_: None)
    monkeypatch.setattr(chain, "answer", lambda *_: None)
    run = Run(instance, SolveOptions.make(time_limit=limit, deterministic=steady), check)
    chain._other_seeds(state.WaferChainState(problem, 4), Turn(run, Deadline(ended=after_three)))
    assert seeds == wanted


def test_large_instances_are_searched_by_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their lists hold no rows, and the search is the one of exchanges."""
    monkeypatch.setattr(state, "MANY", 40)
    monkeypatch.setattr(chain, "UNLIMITED_RUNS", 1)
    instance = bert(layers=2, heads=4, hidden=64, sequence=64, split="heads", width=150, height=140)
    run = Run(instance, SolveOptions(), check)
    follow(
        [Link("search", 1.0, chain._search)], state.WaferChainState(wafer_problem(instance), 1), Turn(run, run.deadline)
    )
    assert run.best is not None and run.best.source == "exchanges"
    assert "rows" not in {link.name for link in chain.LARGE}


@pytest.mark.parametrize(("many", "adapter", "long"), [(8, 1, "counted cuts"), (8, 0, "search"), (1, 0, "adapters")])
def test_bounds_come_before_links_that_take_longest_and_only_in_one_lane(
    many: int, adapter: int, long: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane of its own proves bounds where there are two: else they would be proved twice."""
    instance = tiny.instance(Random(1), side=9, blocks=False, weights=tiny.Weights(time=1, wire=1, adapter=adapter))
    monkeypatch.setattr(state, "MANY", many)
    found = state.WaferChainState(wafer_problem(instance), 0)
    both = [[link.name for link in links] for links in (chain.links_of(found), chain.floorplans_of(found))]
    assert both[0].index("bounds") < both[0].index(long) and long in both[1]
    assert not {"bounds", "large kernels"} & set(both[1])
    assert [name for name in both[0] if name not in ("bounds", "large kernels")] == both[1]
