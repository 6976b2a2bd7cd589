"""Wide graphs: restricted programs find real mappings, covers bound the optimum, branches are found."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.dataflow.cover.column_generation import PartitionBound
from chipmap.heuristics.dataflow.cover.pricing import partitions_of
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import Chain, Program
from chipmap.heuristics.dataflow.program.restricted_program import RestrictedProgram
from chipmap.heuristics.dataflow.symmetric.branches import interchangeable
from chipmap.heuristics.dataflow.symmetric.classes import classes
from chipmap.heuristics.dataflow.symmetric.program import SymmetricProgram
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.batch_time import resident
from chipmap.instances.dataflow.generators import moe
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.instances.dataflow.shipped import SHIPPED
from chipmap.methods.dataflow.cases import cases
from chipmap.methods.dataflow.wide_graphs import WideGraph, has_no_mapping
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.solvers.repeated import GrowingProgram, Repeated
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import GEMM, HEAVY, LIGHT, _kernel, made, tiny_instance, variants
from tests.lanes import of_all

STEADY: dict[str, Any] = {"warm_start": "none", "threads": 1, "deterministic": True, "gap": 0.2}


def problem_of(instance: DataflowInstance) -> DataflowProblem:
    return dataflow_problem(instance, allowed_degrees(instance)[0])


def shipped(name: str) -> DataflowProblem:
    instance = read(f"dataflow/{name}")
    assert isinstance(instance, DataflowInstance)
    return problem_of(instance)


def exact(problem: DataflowProblem) -> int | None:
    """The optimum of the program where weights never stay (what the cover bounds)."""
    task, chip = problem.instance.task, problem.instance.system.chip
    fused = task.fused and chip.fused
    chain = Program(problem).best(task.partitions if fused else None, task.exactly and fused, fused)
    return None if chain is None else chain.ticks


def covered(problem: DataflowProblem, rounds: int = 150) -> int | None:
    """The bound, run to its end; None where it proves that nothing fits."""
    task, chip = problem.instance.task, problem.instance.system.chip
    bound = PartitionBound(
        classes(problem), task.partitions if task.fused and chip.fused else None, Repeated, GrowingProgram
    )
    last: list[int] = []
    bound.run(rounds, Deadline(), last.append)
    return None if bound.infeasible else last[-1]


def solved_as_wide(instance: DataflowInstance, most_seconds: float = 60.0) -> tuple[Run, int | None]:
    """The state after the method for wide graphs at the first degrees, and its bound (None: proved infeasible)."""
    run = Run(instance, SolveOptions.make(time_limit=most_seconds, threads=1), check)
    try:
        hope = not has_no_mapping(problem_of(instance), run)
        left = WideGraph(problem_of(instance), run).solve() if hope else None
    except Stop:
        left = run.lower.value if run.lower else 0
    return run, left


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_the_wide_method_is_brute_force(block: int) -> None:
    """On tiny instances: every bound holds, no proof of infeasibility is wrong, and the optimum is found and proved."""
    tried = {"optimal": 0, "open": 0, "infeasible": 0}
    for seed in range(3000 + 10 * block, 3010 + 10 * block):
        instance = tiny_instance(Random(seed))
        if not allowed_degrees(instance) or count(instance) > 3**6:
            continue
        instance = instance.replace(task=instance.task.replace(degrees=allowed_degrees(instance)[0]))
        optimum, _ = brute_force(instance, check)
        run, left = solved_as_wide(instance)
        if left is None:
            assert optimum is None, seed
            tried["infeasible"] += 1
        elif run.best is not None:
            assert optimum is not None and left <= optimum <= run.best.objective, seed
            tried["optimal" if left == run.best.objective else "open"] += 1
    assert tried["optimal"] >= 3 and tried["open"] <= 2, tried


@pytest.mark.parametrize("seed", range(of_all(12, few=5)))
def test_the_program_up_to_symmetry_is_the_plain_one(seed: int) -> None:
    instance = branched(Random(seed))
    problem, task = problem_of(instance), instance.task
    rules = (task.partitions if task.fused else None, task.exactly and task.fused, task.fused)
    plain, symmetric = Program(problem), SymmetricProgram(problem)
    assert len(symmetric.lattice.masks) < len(plain.lattice.masks)
    wanted, chain = plain.best(*rules), symmetric.best_up_to_symmetry(*rules)
    assert (wanted is None) == (chain is None)
    if wanted is None or chain is None:
        return
    assert chain.ticks == wanted.ticks
    schemes = tuple(choice[o].scheme for choice, o in zip(problem.options, chain.chosen, strict=True))
    solution = DataflowSolution(degrees=problem.degrees, schemes=schemes, partitions=chain.partitions)
    certificate = check(instance, solution)
    assert certificate.feasible
    stays = resident(problem) and len(set(chain.partitions)) == 1
    assert stays or certificate.terms["T4"] == chain.ticks
    assert symmetric.best_up_to_symmetry(*rules, upper=chain.ticks) is None


def branched(random: Random) -> DataflowInstance:
    """A fork, two or three equal branches of one to three kernels, and perhaps a join."""
    length = random.choice((1, 2, 2, 3))
    copies = 2 if length == 3 else random.choice((2, 3))
    body = [_kernel(random) for _ in range(length)]
    kernels, edges = {"a": _kernel(random)}, list[str]()
    for e in range(copies):
        names = "bcdefghijk"[e * length : (e + 1) * length]
        kernels |= dict(zip(names, body, strict=True))
        edges += ["a" + names[0], *(u + v for u, v in pairwise(names))]
    if random.random() < 0.5:
        kernels["z"] = _kernel(random)
        edges += ["bcdefghijk"[(e + 1) * length - 1] + "z" for e in range(copies)]
    partitions = random.choice((None, None, 2, 3))
    return made(
        kernels,
        " ".join(edges),
        mode=random.choice(("dfmodel", "physical")),
        link_gbps=random.choice((2.0, 25.0)),
        memory_gbps=random.choice((20.0, 200.0)),
        sram_bytes=random.choice((160_000, 300_000, 10**6)),
        tile_tokens=random.choice((1, 16)),
        partitions=partitions,
        exactly=partitions is not None and random.random() < 0.3,
        fused=random.random() < 0.9,
        degrees={"tensor": 2, "dimensions": ["tensor"]},
    )


def test_symmetry_leaves_fewer_ideals() -> None:
    problem = shipped("moe-3-experts")
    wide = SymmetricProgram(problem)
    assert len(wide.lattice.masks) < len(Program(problem).lattice.masks)
    with pytest.raises(TooWideError, match="up to symmetry"):
        SymmetricProgram(problem, limit=10)
    with pytest.raises(TooWideError, match="interchangeable branches have a choice of sharding schemes: 32"):
        SymmetricProgram(shipped("moe-8-experts"))


@pytest.mark.parametrize(
    ("changes", "label", "said"),
    [
        ({"partitions": 4}, "C4", "fill 7 partitions"),
        ({"together": [[f"Expert{e}_Up" for e in range(8)]]}, "C5", "Expert7_Up are pinned together"),
        ({"sram_bytes": 60_000_000}, "C2", "'Expert0_Up' alone takes 67,115,008 bytes"),
    ],
)
def test_why_wide_graphs_have_no_mapping(changes: dict[str, Any], label: str, said: str) -> None:
    _, parameters = SHIPPED["dataflow/moe-64-experts"]
    instance = moe(**{**parameters, "experts": 16, **changes})
    result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1, time_limit=600.0))
    assert result.status == "infeasible"
    (reason,) = result.infeasibility
    assert reason.label == label and said in reason.message and reason.remedies and reason.demand > reason.limit


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_covers_bound_the_optimum(block: int) -> None:
    close = 0
    for seed in range(2000 + 12 * block, 2012 + 12 * block):
        instance = tiny_instance(Random(seed))
        if instance.task.across_layers or not allowed_degrees(instance):
            continue
        problem = problem_of(instance)
        optimum, cover = exact(problem), covered(problem)
        if cover is None:
            assert optimum is None, seed
        elif optimum is not None:
            assert cover <= optimum, seed
            close += cover > 0.9 * optimum
    assert close >= 4


@pytest.mark.parametrize("seed", [12, 27, 43])
def test_the_options_of_the_optimum_are_left(seed: int) -> None:
    """Just above the optimum no option of the best mapping is ruled out, with a price on partitions (a cap) or without,
    in a hurry or not."""
    instance = branched(Random(seed))
    problem, task = problem_of(instance), instance.task
    chain, of = Program(problem).best(task.partitions, task.exactly), classes(problem)
    cover = PartitionBound(of, task.partitions, Repeated, GrowingProgram)
    cover.run(100, Deadline(), lambda _: None)
    assert chain is not None and (cover.best.each[False] < 0) == (seed == 43)
    for deadline in (Deadline(), Deadline.after(0.0)):
        allowed = cover.allowed(chain.ticks + 1, deadline)
        assert all(o in allowed[of.of()[v]] for v, o in enumerate(chain.chosen))


def test_first_prices_prove_what_rounds_would() -> None:
    """For eight experts the linear program over sums of partitions has the bound that column generation ends at; it
    never has more."""
    instance = read("dataflow/moe-8-experts")
    assert isinstance(instance, DataflowInstance)
    eight = PartitionBound(
        classes(next(iter(handover_cases(cases(instance)[0].problem)))), None, Repeated, GrowingProgram
    )
    eight.run(0, Deadline(), lambda _: None)
    assert eight.bound == pytest.approx(1591.495, abs=0.01)
    tight = 0
    for seed in (2, 11, 12, 20, 21, 29, 33, 42, 43, 48):
        problem = problem_of(branched(Random(seed)))
        cover = PartitionBound(classes(problem), problem.instance.asked[0], Repeated, GrowingProgram)
        cover.run(0, Deadline(), lambda _: None)
        first, optimum = cover.bound, exact(problem)
        cover.run(100, Deadline(), lambda _: None)
        assert optimum is None or first <= cover.bound <= optimum / cover.unit * (1 + 1e-6), seed
        tight += first > 1000.001 and cover.bound - first <= 1e-4 * first
    assert tight >= 3


def test_out_of_time_no_option_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = branched(Random(12))
    cover = PartitionBound(classes(problem_of(instance)), instance.task.partitions, Repeated, GrowingProgram)
    cover.run(3, Deadline(), lambda _: None)
    asked: list[None] = []
    for pricing in cover.pricing.values():
        monkeypatch.setattr(pricing, "costs", lambda covers, matches: asked.append(None))
    cover.allowed(10**12, Deadline.after(0.0))
    assert not asked


def test_covers_bound_every_variant() -> None:
    for name, instance in list(variants().items())[::2]:
        if not instance.task.across_layers:
            problem = problem_of(instance)
            optimum, cover = exact(problem), covered(problem)
            assert optimum is not None and cover is not None and 0 < cover <= optimum, name


@pytest.mark.parametrize(
    "task", [{"overlap": False}, {"utilisation": None}, {"across_layers": True}], ids=["summed", "tiles", "across"]
)
def test_wide_graphs_in_every_mode_have_a_mapping(task: dict[str, Any]) -> None:
    _, parameters = SHIPPED["dataflow/moe-8-experts"]
    instance = moe(**{**parameters, "layers": 2, "experts": 6})
    instance = instance.replace(task=instance.task.replace(**task))
    result = solve(instance, None, SolveOptions.make(**{**STEADY, "time_limit": 60.0, "gap": 0.97}))
    assert result.status in ("feasible", "optimal") and result.certificate is not None and result.certificate.feasible
    assert result.bounds[-1].value > 0


def test_across_layers_the_program_proves_what_it_finds() -> None:
    """Weights of two layers don't fit one partition, so that none is left out; nor is one that fits the better one."""
    for sram, stays in ((400_000, False), (10**6, True)):
        instance = made({"a": LIGHT, "b": HEAVY}, "ab", layers=2, carries="ba", across_layers=True, sram_bytes=sram)
        instance = instance.replace(task=instance.task.replace(degrees=allowed_degrees(instance)[0]))
        run, bound = solved_as_wide(instance)
        optimum = brute_force(instance, check)[0]
        assert run.upper == optimum and bound is not None and optimum is not None and bound <= optimum
        assert stays or bound == optimum


def test_what_rests_in_dram_is_too_much_for_a_wide_graph() -> None:
    _, parameters = SHIPPED["dataflow/moe-64-experts"]
    instance = moe(**{**parameters, "experts": 32})
    memory = instance.system.memory.replace(capacity_bytes=32 * 10**9)
    instance = instance.replace(system=instance.system.replace(memory=memory))
    result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1, time_limit=60.0))
    (reason,) = result.infeasibility
    assert reason.label == "C6" and "kernel 'Expert0_Up' take" in reason.message
    assert f"at least {int(reason.demand):,} bytes" in reason.remedies[0] and reason.demand > 32e9


def test_a_program_that_takes_too_long_is_given_up() -> None:
    """Its ideals are few, its labels many: the method for wide graphs finds a mapping and a bound all the same."""
    problem = shipped("moe-3-experts")
    with pytest.raises(TooWideError, match="takes more than 1,000 labels"):
        Program(problem, most_labels=1000).best(None)
    full = Program(problem)
    full.best(None)
    assert full.work[0] > 1000


def test_experts_are_interchangeable() -> None:
    problem = shipped("moe-8-experts")
    names = [kernel.name for kernel in problem.instance.workload.kernels]
    found = {tuple(names[v] for v in group[0]): len(group) for group in interchangeable(problem)}
    assert found == {("Expert0_Gate", "Expert0_Up", "Expert0_Mul", "Expert0_Down"): 8, ("Q",): 2}
    of = classes(problem)
    assert len(of.kernels) == 50 - 7 * 4 - 1 and sum(link.tensors for link in of.links) == len(problem.edges)


def test_branches_that_differ_are_told_apart() -> None:
    twins = {"a": LIGHT, "b": HEAVY, "c": HEAVY, "d": LIGHT, "e": LIGHT, "z": LIGHT}
    same = made(twins, "ab ac bd ce dz ez")
    assert interchangeable(problem_of(same)) == (((1, 3), (2, 4)),)
    assert interchangeable(problem_of(made({**twins, "e": HEAVY}, "ab ac bd ce dz ez"))) == ()
    assert interchangeable(problem_of(made(twins, "ab ac bd ce dz ez ae"))) == ()
    assert interchangeable(problem_of(made(twins, "ab ac bd ce dz ez", together=["b"]))) == ()


def test_pieces_of_an_order_are_mappings_at_their_price() -> None:
    """What the restricted programs find costs never less than the optimum, and in the cover no more than it takes."""
    problem = shipped("moe-3-experts")
    of = classes(problem)
    program, found = RestrictedProgram(of, None, False, True), list[Chain]()
    schemes = program.best_schemes(Deadline(), found.append)
    assert schemes is not None
    wide = program.solve(schemes, 12)
    optimum = exact(problem)
    assert wide is not None and optimum is not None
    assert optimum <= wide.ticks <= min(one.ticks for one in found)
    for one in found:
        parts = partitions_of(of, 1.0, one.partitions, one.chosen)
        assert 0.95 * one.ticks <= round(sum(part.time for _, part in parts)) <= one.ticks


def test_side_by_side_gemms_come_close() -> None:
    """24 kernels side by side have 2^24 ideals."""
    kernels = {name: {**GEMM, "M": 64 * (i % 5 + 1)} for i, name in enumerate("abcdefghijklmnopqrstuvwx")}
    problem = problem_of(made(kernels, "", degrees={"tensor": 2, "dimensions": ["tensor"]}, sram_bytes=160_000))
    program, found = RestrictedProgram(classes(problem), None, False, True), list[Chain]()
    program.best_schemes(Deadline(), found.append)
    cover = covered(problem)
    best = min(one.ticks for one in found)
    assert cover is not None and 0.9 * best < cover <= best


def test_the_same_twice() -> None:
    """What bounds kernels one by one leaves a gap of more than 7%, so that the cover is asked for."""
    closer = STEADY | {"gap": 0.07}
    results = [
        solve(moe(**{**SHIPPED["dataflow/moe-3-experts"][1], "experts": 8}), None, SolveOptions.make(**closer))
        for _ in range(2)
    ]
    one, two = results
    assert one.solution is not None and any("wide" in note.text for note in one.notes)
    assert one.bounds[-1].source == "cover by partitions"
    assert (one.solution, one.objective, one.bounds[-1].value) == (two.solution, two.objective, two.bounds[-1].value)
