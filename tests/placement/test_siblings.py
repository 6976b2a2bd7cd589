"""Roles without names, smaller graphs of the same structure, and plans carried over."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from chipmap import SolveOptions, solve
from chipmap.heuristics.placement.siblings.roles import Roles, roles
from chipmap.heuristics.placement.siblings.smaller import RULES, Sibling, carried, smaller
from chipmap.heuristics.placement.starts.heft_units import heft_units
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.methods.placement import siblings as link
from chipmap.methods.placement.chain_state import ChainState
from tests.placement.random_instances import made

NETWORKS = {
    "rnnlm": {"layers": 2, "steps": 24},
    "wavenet": {"stacks": 1, "layers": 40},
    "transformer-xl": {"layers": 2, "segments": 24},
}


def problem_of(network: str, devices: int = 2) -> PlacementProblem:
    return placement_problem(training_step(network, NETWORKS[network], devices))


def found(problem: PlacementProblem) -> Roles:
    made = roles(problem)
    assert made is not None
    return made


def step_time(problem: PlacementProblem, devices: IntArray) -> int:
    state = ChainState(problem)
    state.evaluate_and_keep(devices)
    assert state.best is not None
    return state.best[1]


@pytest.mark.parametrize("network", NETWORKS)
def test_most_edges_of_repeated_networks_fit_the_steps(network: str) -> None:
    """A member of a role has a step of its own; roles don't depend on names."""
    problem = problem_of(network)
    one = found(problem)
    assert one.near > 0.5
    inside = one.part >= 0
    pairs = set(zip(one.role[inside].tolist(), one.step[inside].tolist(), strict=True))
    assert len(pairs) == inside.sum() and one.step.min() >= 0
    graph = problem.instance.graph
    named = tuple(msgspec.structs.replace(v, name=f"x{i * 7919 % 99991}") for i, v in enumerate(graph.operations))
    at = {old.name: new.name for old, new in zip(graph.operations, named, strict=True)}
    changed = msgspec.structs.replace(
        problem.instance,
        graph=msgspec.structs.replace(graph, operations=named),
        together=tuple(tuple(at[name] for name in group) for group in problem.instance.together),
        backward=tuple(at[name] for name in problem.instance.backward),
    )
    other = found(placement_problem(changed))
    assert (other.role == one.role).all() and (other.step == one.step).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_a_smaller_graph_is_a_problem_of_its_own(network: str) -> None:
    """Each operation comes after what it reads, groups are whole, and costs are at most those of the larger graph."""
    problem = problem_of(network)
    one = found(problem)
    sibling = smaller(problem, one, 0.4, 6)
    assert sibling is not None
    left = sibling.problem
    assert left.operations == len(sibling.kept) < problem.operations
    place = np.empty(left.operations, dtype=np.int64)
    place[left.order] = np.arange(left.operations)
    assert sorted(left.order.tolist()) == list(range(left.operations))
    assert (place[left.storages.sources] < place[left.storages.readers]).all()
    assert (left.group <= np.arange(left.operations)).all() and (left.group[left.group] == left.group).all()
    before = problem.group[sibling.kept]
    for a, b in ((before, left.group), (left.group, before)):  # the same sets
        assert len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist()))
    assert (left.time <= problem.time[sibling.kept]).all()
    assert 0 < step_time(left, heft_units(left, ChainState(left).tables)) < 10**12


@pytest.mark.parametrize("network", NETWORKS)
def test_a_plan_on_its_own_graph_loses_next_to_nothing(network: str) -> None:
    """Where each operation takes its device from its role and step alone, the step is at most 2% longer."""
    problem = problem_of(network, 4)
    one = found(problem)
    table = np.full((int(one.role.max()) + 1, max(one.steps)), -1, dtype=np.int64)
    inside = np.flatnonzero(one.part >= 0)
    table[one.role[inside], one.step[inside]] = inside
    whole = Sibling(problem, np.arange(problem.operations), one.steps, table)
    plan = heft_units(problem, ChainState(problem).tables)
    again = carried(problem, one, whole, plan, "relative")
    assert step_time(problem, again) <= 1.02 * step_time(problem, plan)


@pytest.mark.parametrize("rule", RULES)
def test_a_carried_plan_keeps_groups_together_and_what_stays(rule: str) -> None:
    problem = problem_of("rnnlm")
    one = found(problem)
    sibling = smaller(problem, one, 0.4, 6)
    assert sibling is not None
    device = np.arange(sibling.problem.operations) % 2
    plan = carried(problem, one, sibling, device[sibling.problem.group], rule)
    assert (plan == plan[problem.group]).all() and set(plan.tolist()) <= {0, 1}
    static = one.part[sibling.kept] < 0
    alone = np.bincount(problem.group, minlength=problem.operations)[problem.group[sibling.kept]] == 1
    assert (plan[sibling.kept][static & alone] == device[static & alone]).all()


def test_nothing_repeats_in_a_short_chain() -> None:
    assert roles(placement_problem(made([(5, 0, 1)] * 4, [(0, 1), (1, 2), (2, 3)]))) is None


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> PlacementInstance:
    """A small recurrent network, and siblings that are placed in a moment."""
    monkeypatch.setattr(link, "PARTITIONS", 2)
    monkeypatch.setattr(link, "SHORT", 5_000)
    monkeypatch.setattr(link, "SIMULATED", 30_000)
    monkeypatch.setattr(link, "CHOSEN", 30_000)
    return training_step("rnnlm", NETWORKS["rnnlm"], 2)


@pytest.fixture
def longer(short: PlacementInstance) -> PlacementInstance:
    """A network of as small parts whose third is twice as large as a sibling."""
    return training_step("rnnlm", {"layers": 2, "steps": 60}, 2)


def test_a_run_begins_with_the_plan_of_a_sibling(short: PlacementInstance) -> None:
    options = SolveOptions(threads=1, warm_start="sibling")
    result = solve(short, "placement/heft-units", options, isolate=False)
    assert result.certificate is not None and result.certificate.feasible
    assert any(event.source == "sibling" for event in result.trace)
    alone = solve(short, "placement/heft-units", SolveOptions(threads=1), isolate=False)
    assert result.objective is not None and alone.objective is not None and result.objective <= alone.objective


def test_a_second_sibling_is_larger_and_at_most_a_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is of about the wanted number; one that would be less than twice the first is left out."""
    problem = placement_problem(training_step("rnnlm", {"layers": 2, "steps": 120}, 2))
    one = found(problem)
    for wanted, least in (((500, 1_400), 2), ((800, 1_200), 1), ((500, 10**6), 2)):
        monkeypatch.setattr(link, "WANTED", wanted)
        few = [sibling.problem.operations for sibling in link.siblings_of(problem, one)]
        assert len(few) == least and few == sorted(few)
        goals = [min(goal, problem.operations // 3) for goal in wanted[:least]]
        assert all(abs(size - goal) < 0.1 * problem.operations for size, goal in zip(few, goals, strict=True))


def test_a_second_sibling_goes_on_from_the_plan_of_the_first(
    longer: PlacementInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two siblings are carried over one after the other, and the best plan on the large graph is kept."""
    monkeypatch.setattr(link, "WANTED", (400, 900))
    sizes, best = list[int](), list[int]()

    class Told(link._Carrier):
        def __call__(self, sibling: Sibling, own: link.SiblingState) -> None:
            super().__call__(sibling, own)
            sizes.append(sibling.problem.operations)
            assert self.best is not None
            best.append(self.best[1])

    monkeypatch.setattr(link, "_Carrier", Told)
    options = SolveOptions(threads=1, warm_start="sibling")
    result = solve(longer, "placement/heft-units", options, isolate=False)
    assert len(set(sizes)) == 2 and sizes == sorted(sizes) and best == sorted(best, reverse=True)
    assert result.objective is not None and result.objective <= best[-1]


def test_the_chain_takes_siblings_where_the_graph_is_large(
    short: PlacementInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search begins with them; a start that the user gives takes their place."""
    calls = list[str]()
    monkeypatch.setattr(link, "siblings", lambda state, turn: calls.append("siblings"))
    monkeypatch.setattr("chipmap.methods.placement.rounds.MOVES", 2_000)
    solve(short, "placement/auto", SolveOptions(threads=1), isolate=False)
    assert not calls
    monkeypatch.setattr(link, "LARGE", 100)
    solve(short, "placement/auto", SolveOptions(threads=1), isolate=False)
    assert calls == ["siblings"]
    solve(short, "placement/auto", SolveOptions(threads=1, warm_start="heft-units"), isolate=False)
    assert calls == ["siblings"]
