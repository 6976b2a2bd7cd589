"""Machines of any make under random instances: every method = brute force, every bound below it."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from chipmap.formulations.dataflow import cpsat as cpsat_model
from chipmap.formulations.dataflow import mip as mip_model
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.heuristics.dataflow.symmetric.program import SymmetricProgram
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow.bounds import bounds, relaxation
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed
from tests.dataflow.page_comparison import differences
from tests.dataflow.page_instances import page_instance
from tests.dataflow.random_instances import mixed_instance, outside_instance, tiny_instance
from tests.dataflow.random_machines import in_blocks, on_machine, with_fixed_costs
from tests.dataflow.staged_instances import staged_instance
from tests.dataflow.test_mixed import state_of
from tests.dataflow.test_wide import branched, covered, exact, solved_as_wide
from tests.dataflow.tiny_models import optimum
from tests.lanes import of_all


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried = Counter[str]()
    for seed in range(14 * block, 14 * block + 14):
        random = Random(seed)
        instance = on_machine((mixed_instance, outside_instance)[seed % 2](random), random)
        if count(instance) > 300:
            continue
        best = brute_force(instance, check)[0]
        for method in (auto, mip, cpsat):
            state = state_of(instance, 300.0)
            reason = method(instance, state).reason
            assert (reason, state.upper) == ("infeasible" if best is None else "optimal", best), (seed, method)
            assert not state.rejected, (seed, method)
            if method is auto and state.best is not None:
                assert state.best.claimed == best, seed
        for method in (bounds, relaxation) if best is not None else ():
            state = state_of(instance, 300.0)
            method(instance, state)
            assert best is not None and state.lower is not None and state.lower.value <= best, (seed, method)
        chip = instance.system.chip
        tried.update({reason: 1, "tflops": chip.tflops is not None, "peaks": bool(chip.peaks)})
        tried.update({"launch": chip.launch_ns > 1, "shares": bool(chip.efficiency), "fused": chip.fused})
        tried.update({"formats": instance.workload.weight_format != "", "streams": chip.streams})
    assert len(tried) == 9 and min(tried.values()) >= 1, tried


@pytest.mark.parametrize("block", range(of_all(10, few=1)))
def test_products_in_blocks_are_brute_force_from_the_page(block: int) -> None:
    """The checker says what the page says, and every method is brute force."""
    solved, compared = Counter[str](), 0
    for seed in range(30 * block, 30 * block + 30):
        random = Random(seed)
        instance = in_blocks((mixed_instance, outside_instance, page_instance)[seed % 3](random), random)
        wrong, mappings, _ = differences(instance, random, 25, 6)
        assert not wrong, (seed, wrong[:3])
        compared += mappings
        if count(instance) <= 150:
            optimum, _ = agreed(instance, seed)
            solved["infeasible" if optimum is None else "optimal"] += 1
    assert compared >= 200 and solved["optimal"] >= 5, (compared, solved)


@pytest.mark.parametrize("block", range(of_all(6, few=1)))
def test_fixed_costs_are_brute_force_from_the_page(block: int) -> None:
    """Costs of collectives and micro-batches and shares of attention: the checker says what the page says, and every
    method, model and bound agrees with brute force."""
    solved, compared, seen = Counter[str](), 0, Counter[str]()
    for seed in range(30 * block, 30 * block + of_all(30, few=8)):
        random = Random(seed)
        instance = (mixed_instance, outside_instance, page_instance)[seed % 3](random)
        instance = with_fixed_costs(on_machine(instance, random), random)
        wrong, mappings, _ = differences(instance, random, 25, 6)
        assert not wrong, (seed, wrong[:3])
        compared += mappings
        if count(instance) <= 150:
            optimum, _ = agreed(instance, seed)
            solved["infeasible" if optimum is None else "optimal"] += 1
        system = instance.system
        seen.update(step=system.step_ns > 0, start=any(one.start_ns for one in system.network))
        seen.update(attention=bool(system.chip.attention), cache=bool(system.memory.fetch_efficiency))
    assert compared >= of_all(200, few=50) and solved["optimal"] >= of_all(5, few=2), (compared, solved)
    assert min(seen.values()) >= 1, seen


def test_stages_of_kernels_are_brute_force() -> None:
    """The launch counts in each stage (T7)."""
    seen = Counter[str]()
    for seed in range(of_all(28, few=14)):
        random = Random(seed)
        instance = on_machine(staged_instance(random, dram=seed % 3 == 0), random)
        if count(instance) > 250:
            continue
        best, _ = brute_force(instance, check)
        state = Run(instance, SolveOptions(time_limit=300.0, threads=1), check)
        reason = auto(instance, state).reason
        assert (reason, state.upper) == ("infeasible" if best is None else "optimal", best), seed
        degrees = Random(seed).choice(allowed_degrees(instance))
        fixed = instance.replace(task=instance.task.replace(degrees=degrees))
        best, _ = brute_force(fixed, check)
        for formulation in (mip_model, cpsat_model):
            assert optimum(fixed, formulation.build(fixed)) == best, (seed, formulation.__name__)
        stated: Any = (mip_model, {"order": "free"}) if seed % 2 else (cpsat_model, {"labels": "assume"})
        assert optimum(fixed, stated[0].build(fixed, stated[1])) == best, seed
        seen[reason] += 1
        seen["launch"] += instance.system.chip.launch_ns > 1
    assert min(seen.values()) >= of_all(2, few=1), seen


@pytest.mark.parametrize("seed", range(8))
def test_programs_and_covers_of_wide_graphs_count_launches(seed: int) -> None:
    """The program up to symmetry = the plain one >= the cover by partitions."""
    random = Random(seed)
    instance = branched(random)
    instance = on_machine(instance, random, dram=False)
    problem, task = dataflow_problem(instance, allowed_degrees(instance)[0]), instance.task
    rules = (task.partitions if task.fused else None, task.exactly and task.fused, task.fused)
    wanted, chain = Program(problem).best(*rules), SymmetricProgram(problem).best_up_to_symmetry(*rules)
    assert (chain and chain.ticks) == (wanted and wanted.ticks)
    bound = covered(problem)
    assert (bound is None) <= (wanted is None)
    assert wanted is None or bound is None or 0 < bound <= (exact(problem) or 0)


def test_the_wide_method_never_contradicts_brute_force() -> None:
    found = 0
    for seed in range(3000, 3008):
        random = Random(seed)
        instance = on_machine(tiny_instance(random), random)
        if not allowed_degrees(instance) or count(instance) > 3**6:
            continue
        instance = instance.replace(task=instance.task.replace(degrees=allowed_degrees(instance)[0]))
        best, _ = brute_force(instance, check)
        run, left = solved_as_wide(instance)
        assert left is not None or best is None, seed
        if left is not None and run.best is not None:
            assert best is not None and left <= best <= run.best.objective, seed
            found += left == run.best.objective
    assert found >= 3
