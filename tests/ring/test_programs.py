"""The programs over ideals: each equals brute force under its own rule, and free <= n1 <= optimum <= path."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

import chipmap
from chipmap.heuristics.engines.ideals import all_ideals, prefixes
from chipmap.heuristics.ring.programs.cut import cut_ticks
from chipmap.heuristics.ring.programs.program import Programs, Rule
from chipmap.heuristics.ring.programs.slicing import slice_orders, topological_orders
from chipmap.heuristics.ring.programs.triangle import solve_exact
from chipmap.instances.ring import Package, Pin, RingInstance, RingSolution
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.precedence import between
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.programs import exact
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.candidates import candidates
from chipmap.validation.ring.checker import check
from tests.lanes import of_all
from tests.ring.random_instances import LABELS, random_instance, seeds


def layered(seed: int, **fields: object) -> RingInstance:
    """Random times on a random graph that is large enough for C3 to cost something."""
    random = Random(seed)
    n = random.randint(8, 12)
    edges = [(u, v) for u in range(n) for v in range(u + 1, n) if random.random() < 0.25]
    graph = OperationGraph(
        name="layered",
        operations=tuple(Operation(name=f"op{v}", kind="k", flop=random.randint(1, 30)) for v in range(n)),
        tensors=tuple(Tensor(producer=u, readers=(v,)) for u, v in edges),
    )
    package = Package(chips=random.randint(3, 5), flop_per_ns=1.0)
    return RingInstance(**{"name": "layered", "graph": graph, "package": package} | fields)  # type: ignore[arg-type]


def obeys(problem: RingProblem, chips: tuple[int, ...], rule: Rule) -> bool:
    """The rule in the words of the page, on a mapping that obeys C1."""
    flows = [(u, v) for u, v in problem.flows.tolist()]
    if rule == "path":
        return all(chips[v] - chips[u] <= 1 for u, v in flows)
    if rule == "n1":
        return not any(chips[u] < chips[w] < chips[v] for u, v in flows for w in between(problem, u, v).tolist())
    return True


def small(seed: int, **fields: Any) -> RingInstance:
    """A contracted random instance with C1."""
    constraints = tuple(label for label in LABELS if label == "C1" or Random(seed).random() < 0.7)
    changed: dict[str, Any] = {"constraints": constraints} | fields
    made = random_instance(Random(seed), operations=8, chips=4, **changed)
    return contract(made).instance


def best(values: list[int]) -> int | None:
    return min(values, default=None)


@settings(max_examples=of_all(120, few=48), derandomize=True, deadline=None)
@given(seeds)
def test_each_program_is_brute_force_of_its_own_rule(seed: int) -> None:
    instance = small(seed)
    problem = ring_problem(instance)
    if problem.n > 7:
        return
    without = instance.replace(constraints=[label for label in instance.constraints if label != "C3"])
    verdicts = [(s.chips, check(without, s)) for s in candidates(without)]
    valid = [(chips, verdict.objective or 0) for chips, verdict in verdicts if verdict.feasible]
    programs = Programs(problem)
    ideals = all_ideals(programs.graph.producers)
    found: dict[Rule, int | None] = {}
    for rule in ("free", "n1", "path"):
        wanted: Rule = rule if problem.has("C3") else "free"
        truth = best([value for chips, value in valid if obeys(problem, chips, wanted)])
        result = programs.solve(rule, ideals)
        assert result.value == truth, (rule, instance.constraints, instance.cost_mode)
        found[rule] = result.value
        if result.chips is not None:
            assert check(without, RingSolution(chips=result.chips)).objective == truth
        if truth:
            assert programs.solve(rule, ideals, upper=truth).value == truth
            assert programs.solve(rule, ideals, upper=truth - 1).value is None
    optimum, _ = brute_force(instance, check)
    order = [found["free"], found["n1"], optimum, found["path"]]
    sizes = [float("inf") if value is None else value for value in order]
    assert sizes == sorted(sizes)


@settings(max_examples=of_all(60, few=24), derandomize=True, deadline=None)
@given(seeds)
def test_the_exact_program_is_brute_force(seed: int) -> None:
    instance = small(seed, constraints=LABELS if seed % 2 else ("C1", "C2", "C3"))
    if ring_problem(instance).n > 7:
        return
    optimum, _ = brute_force(instance, check)
    programs = Programs(ring_problem(instance))
    ideals = all_ideals(programs.graph.producers)
    result = solve_exact(programs, ideals, 10**9)
    assert result.value == optimum
    if optimum is not None:
        assert check(instance, RingSolution(chips=result.chips or ())).objective == optimum
    if optimum:
        assert solve_exact(programs, ideals, optimum).value == optimum
        assert solve_exact(programs, ideals, optimum - 1).value is None


@pytest.mark.parametrize("fields", [{}, {"constraints": ("C1", "C3")}], ids=["C1 to C4", "C1 and C3"])
def test_the_exact_program_between_n1_and_path_where_they_differ(fields: dict[str, object]) -> None:
    """Graphs on which C3 costs something: every mapping is valid, and the sandwich holds, often strictly."""
    strict = 0
    for seed in range(40):
        instance = layered(seed, **fields)
        programs = Programs(ring_problem(instance))
        ideals = all_ideals(programs.graph.producers)
        n1, path = (programs.solve(rule, ideals).value for rule in ("n1", "path"))
        assert n1 is not None and path is not None
        result = solve_exact(programs, ideals, path)
        assert result.value is not None and result.chips is not None
        assert n1 <= result.value <= path
        verdict = check(instance, RingSolution(chips=result.chips))
        assert verdict.feasible and verdict.objective == result.value
        strict += n1 < path
    assert strict >= 5


@pytest.mark.parametrize("seed", range(40))
def test_the_method_exact_without_c3_is_the_free_program(seed: int) -> None:
    instance = layered(seed, constraints=("C1", "C2"))
    programs = Programs(ring_problem(instance))
    run = Run(instance, SolveOptions(time_limit=60.0), check)
    exact(instance, run)
    assert run.lower is not None
    assert run.upper == run.lower.value == programs.solve("free", all_ideals(programs.graph.producers)).value


def test_the_exact_program_refuses_what_it_does_not_decide() -> None:
    pinned = (Pin(operation="op0", chip=1),)
    for constraints, pins in ((("C1", "C2"), ()), (("C1", "C3"), pinned)):
        programs = Programs(ring_problem(layered(1, constraints=constraints, pins=pins)))
        with pytest.raises(ValueError, match=r"C2|C3"):
            solve_exact(programs, all_ideals(programs.graph.producers), 10**9)


@pytest.mark.parametrize("seed", range(20))
def test_cuts_that_grow_by_steps_are_those_of_the_definition(seed: int) -> None:
    """In all ideals and in the prefixes of some orders."""
    programs = Programs(ring_problem(layered(seed)))
    storages = programs.storages
    for family in (
        all_ideals(programs.graph.producers),
        prefixes(topological_orders(programs.graph, 3, seed), programs.graph.n),
    ):
        cut = cut_ticks(family.words, family.first, family.added, family.target, storages)
        for mask, ticks in zip(family.masks, cut.tolist(), strict=True):
            crosses = [
                mask >> int(producer) & 1 and int.from_bytes(readers.tobytes(), "little") & ~mask
                for producer, readers in zip(storages.producer, storages.readers, strict=True)
            ]
            assert ticks == sum(int(size) for size, over in zip(storages.ticks, crosses, strict=True) if over)


@pytest.mark.parametrize("seed", range(10))
def test_slicing_is_a_restriction_of_path(seed: int) -> None:
    instance = layered(seed)
    programs = Programs(ring_problem(instance))
    path = programs.solve("path", all_ideals(programs.graph.producers)).value
    sliced = slice_orders(programs, None, count=4, seed=seed)
    assert path is not None and sliced.value is not None and sliced.value >= path
    assert check(instance, RingSolution(chips=sliced.chips or ())).objective == sliced.value
    orders = list(topological_orders(programs.graph, 4, seed))
    assert not prefixes(orders, programs.graph.n).complete
    assert slice_orders(programs, None, count=4, seed=seed) == sliced


def test_the_mapping_of_a_relaxation_is_named_as_such() -> None:
    """``free`` leaves C3 out: what it says of its mapping is no defect."""
    result = chipmap.solve("ring/tiny-skip", "ring/free")
    assert any("program free leaves out part of C3" in note.text for note in result.notes)
    assert not any("refused by the checker" in note.text for note in result.notes)
    assert result.bound == 800_000
