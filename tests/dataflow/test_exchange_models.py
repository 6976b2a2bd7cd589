"""MIP and CP-SAT where exchanges depend on other kernels: brute force over what a mapping pays, bounds, composition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import lcm
from random import Random
from typing import Any

import pyomo.environ as pyo
import pytest
from ortools.sat.python import cp_model

from chipmap.formulations.dataflow import cpsat, mip
from chipmap.formulations.dataflow.relaxation import bound
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.loads import chosen_options, often, times
from chipmap.instances.dataflow.problem import DataflowProblem, wires
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import run_of
from tests.dataflow.exchange_instances import batch_time, exchange_instance, least, problems
from tests.dataflow.random_instances import made
from tests.dataflow.tiny_models import optimum
from tests.lanes import of_all

#: Mappings at most of a problem that is taken.
FEW = 200
Mapping = tuple[tuple[int, ...], tuple[int, ...]]


def orders(problem: DataflowProblem, most: int) -> list[tuple[int, ...]]:
    """Every way to part the kernels into partitions that run one after the other (C1, C3, C4), numbered by phase; where
    they don't fuse only the order of their places. More than ``most``: none."""
    instance, copies = problem.instance, problem.n * problem.instance.mapped_layers
    if not instance.asked[2]:
        return [problem.places]
    late = [kernel.phase == "backward" for kernel in instance.workload.kernels] * instance.mapped_layers
    edges = [(u, v) for u, v in wires(problem, instance.mapped_layers) if late[u] == late[v]]
    few = instance.task.partitions or copies
    found = []
    for numbers in product(range(min(few, copies)), repeat=copies):
        used = {phase: {p for p, own in zip(numbers, late, strict=True) if own == phase} for phase in (False, True)}
        without_gaps = all(each == set(range(len(each))) for each in used.values())
        if without_gaps and all(numbers[u] <= numbers[v] for u, v in edges):
            found.append(tuple(p + own * len(used[False]) for p, own in zip(numbers, late, strict=True)))
        if len(found) > most:
            return []
    return found


def mappings(problem: DataflowProblem) -> list[Mapping]:
    """The options and partitions of every mapping; none where there are more than :data:`FEW`."""
    sizes = [range(len(options)) for options in problem.options] * problem.instance.mapped_layers
    chosen = list(product(*sizes)) if all(sizes) and len(sizes) <= 6 else []
    some = orders(problem, FEW // len(chosen)) if 0 < len(chosen) <= FEW else []
    return [(one, numbers) for one in chosen for numbers in some]


def few_mappings(seeds: range) -> Iterator[tuple[int, DataflowProblem, list[Mapping]]]:
    """The problems of random instances that have few mappings; every other one fuses kernels."""
    for seed in seeds:
        instance = exchange_instance(Random(seed), fused=seed % 2 == 0)
        for problem in problems(narrow(instance) if seed % 2 == 0 else instance):
            if some := mappings(problem):
                yield seed, problem, some


def narrow(instance: DataflowInstance) -> DataflowInstance:
    """Two schemes of each kernel, two partitions of each phase."""
    kernels = tuple(kernel.replace(schemes=kernel.schemes[:2]) for kernel in instance.workload.kernels)
    task = instance.task.replace(partitions=2)
    return instance.replace(workload=instance.workload.replace(kernels=kernels), task=task)


def alone(problem: DataflowProblem) -> DataflowInstance:
    """The instance with this choice of degrees and plan alone."""
    return problem.instance.replace(task=problem.instance.task.replace(degrees=problem.degrees))


def found(problem: DataflowProblem, model: Any, solver: str | None = None) -> int | None:
    """The picoseconds of the mapping that the solver proves optimal, which are the model's own; None: infeasible."""
    outcome = solve_model(model, SolveRequest(time_limit=60.0, threads=1), solver)
    if outcome.value_of is None:
        assert outcome.termination.reason == "infeasible", outcome.termination
        return None
    assert outcome.termination.reason == "optimal", outcome.termination
    solution = model.decode(outcome.value_of)
    pairs = zip(chosen_options(problem, solution), problem.options * problem.instance.mapped_layers, strict=True)
    ticks = batch_time(problem, [options.index(one) for one, options in pairs], solution.partitions)
    assert ticks is not None and outcome.objective == pytest.approx(ticks, rel=1e-6, abs=1)
    return ticks


def test_both_models_find_what_brute_force_finds() -> None:
    """Shared readers, partial sums, updates, replicas that share out state and experts; layouts kept as long as may be;
    DRAM without a limit, or just enough for some mapping."""
    seen = Counter[str]()
    for seed, problem, some in few_mappings(range(of_all(330, few=45))):
        instance, best = alone(problem), least((problem, *one) for one in some)
        assert found(problem, mip.build(instance)) == best, (seed, problem.plan)
        assert found(problem, cpsat.build(instance)) == best, (seed, problem.plan)
        limited = instance.system.memory.capacity_bytes is not None
        seen.update({f"keep {instance.task.keep}": 1, "dram": limited, "fused": instance.asked[2], "all": 1})
        seen.update({"shared": bool(problem.shared), "added": bool(problem.added), "uses": bool(problem.uses)})
        seen.update({"experts": problem.degrees.expert > 1, "replicas": problem.degrees.data > 1})
        seen["handed"] += any(use.after.any() for use in problem.uses)
    assert seen["all"] >= of_all(300, few=36) and len(seen) == 13 and min(seen.values()) >= of_all(15, few=2), seen


def test_so_they_do_however_they_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty partitions anywhere, labels assumed, Gurobi, payers with literals of their own, and cutoffs."""
    for seed, problem, some in few_mappings(range(0, of_all(40, few=16), 2)):
        instance, best = alone(problem), least((problem, *one) for one in some)
        assert found(problem, mip.build(instance, {"order": "free"}), solver="gurobi") == best, seed
        assert found(problem, cpsat.build(instance, {"labels": "assume"})) == best, seed
        if best is not None:
            assert found(problem, cpsat.build(instance, {"upper": best})) == best, seed
            assert found(problem, cpsat.build(instance, {"upper": best - 1})) is None, seed
        monkeypatch.setattr("chipmap.formulations.dataflow.exchanges.FEW_PAYERS", 0)
        for formulation in (mip, cpsat):
            assert found(problem, formulation.build(instance)) == best, seed
        monkeypatch.undo()


def test_the_convex_program_is_no_better_than_any_mapping() -> None:
    seen = 0
    for seed, problem, some in few_mappings(range(24)):
        layers = [layer_time(problem, *one) for one in some if batch_time(problem, *one) is not None]
        floor = bound(problem)
        if layers and floor is not None:
            assert floor <= min(layers), seed
            seen += 1
    assert seen >= 15


def layer_time(problem: DataflowProblem, chosen: tuple[int, ...], partitions: tuple[int, ...]) -> int:
    """T4 of a mapping."""
    schemes = [problem.options[i % problem.n][o].scheme for i, o in enumerate(chosen)]
    solution, total = problem.mapping(schemes, partitions, ()), 0
    again = often(problem, solution)
    for p, one in times(problem, solution).items():
        taken = one.compute, one.memory, one.network
        total += again[p] * (problem.launch + (max(taken) if problem.instance.task.overlap else sum(taken)))
    return total


@pytest.mark.parametrize("fused", [False, True])
def test_who_adds_up_copies_of_tokens_supplies_nobody(fused: bool) -> None:
    """Readers of what experts made, by brute force with the checker: some exchange sums, which no other can use."""
    seen = Counter[str]()
    for seed in range(of_all(25, few=8)):
        random = Random(seed)
        copies = random.choice((4, 4, 1))
        product_of_experts = {"kind": "gemm", "M": 256, "K": 64, "N": 32 * copies, "weights": True, "schemes": ["E"]}
        added = {"kind": "elementwise", "M": 256, "N": 32, "schemes": random.sample(("M", "N", "NONE"), 2)}
        other = {**added, "N": 32 * copies, "schemes": random.sample(("M", "N", "NONE"), 2)}
        late = {"phase": random.choice(("forward", "backward"))}
        instance = made(
            {
                "a": {**product_of_experts, "experts": 4, "active": copies},
                "b": added,
                "c": {**other, **late},
                "d": {**random.choice((added, other)), **late},
            },
            "ab ac ad",
            mode="physical",
            sizes=[4],
            degrees={"tensor": 4, "dimensions": ["tensor"]},
            fused=fused,
            partitions=2 if fused else None,
            sram_bytes=10**7,
            link_gbps=random.choice((2.0, 10.0)),
            topology="switch",
        )
        for problem in problems(instance):
            best, _ = brute_force(alone(problem), check)
            for formulation in (mip, cpsat):
                assert optimum(alone(problem), formulation.build(alone(problem))) == best, (seed, problem.plan)
            run = run_of(alone(problem))
            assert run.lower is not None and run.upper == run.lower.value == best, (seed, problem.plan)
            seen["without"] += any(not some.all() for shared in problem.shared for some in shared.supplies)
            seen["with"] += any(some.all() for shared in problem.shared for some in shared.supplies)
    assert min(seen["with"], seen["without"]) >= 2, seen


def test_models_side_by_side_keep_their_own_optima() -> None:
    """Two problems within one model of each kind: names differ, and the sum is that of the optima."""
    all_pairs = ((problem, least((problem, *one) for one in some)) for _, problem, some in few_mappings(range(1, 40)))
    both = ((problem, best) for problem, best in all_pairs if problem.shared and problem.added)
    pairs = [(problem, best) for problem, best in both if best is not None][:2]
    best = sum(ticks for _, ticks in pairs)
    model = pyo.ConcreteModel()
    model.each = pyo.Block([0, 1])
    for number, (problem, _) in enumerate(pairs):
        mip.add_dataflow(model.each[number], alone(problem))
    model.objective = pyo.Objective(expr=(model.each[0].cost + model.each[1].cost) / 1000)
    pyo.SolverFactory("appsi_highs").solve(model, options={"mip_rel_gap": 0.0})
    assert 1000 * pyo.value(model.objective) == pytest.approx(best, rel=1e-6)
    other = cp_model.CpModel()
    each = [cpsat.add_dataflow(other, alone(problem), prefix=f"{k} ") for k, (problem, _) in enumerate(pairs)]
    names = [variable.name for variable in other.proto.variables]
    assert len(set(names)) == len(names)
    whole = lcm(*(one.factor.denominator for one in each))
    times_whole = [int(whole * one.factor) * one.layer for one in each]
    beside = [one.transfers + one.gradients + one.optimizer - one.tables.problem.filled for one in each]
    other.minimize(sum(times_whole) + whole * sum(beside))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(other) == cp_model.OPTIMAL
    assert solver.objective_value / whole == pytest.approx(best, rel=1e-6)
