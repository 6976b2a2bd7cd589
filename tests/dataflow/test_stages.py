"""Stages of kernels: the program against brute force, costs against the checker, and an example by hand."""

from __future__ import annotations

from random import Random

from chipmap.instances.dataflow.costs import dataflow_problem
from chipmap.instances.dataflow.stages import batch_of_steps, stage_costs
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow import breakdown, check
from chipmap.validation.dataflow_candidates import candidates, count
from tests.dataflow.staged_instances import staged_instance

OPTIONS = SolveOptions.make(warm_start="none", threads=1, time_limit=60.0)


def test_the_program_finds_what_brute_force_finds() -> None:
    """Tiny graphs of all features but DRAM: the optimum, or that there is none."""
    seen = {"optimal": 0, "infeasible": 0}
    for seed in range(120):
        instance = staged_instance(Random(seed))
        if count(instance) > 500:
            continue
        best, _ = brute_force(instance, check)
        result = solve(instance, "dataflow/auto", OPTIONS)
        assert result.objective == best, (seed, result.objective, best, result.notes)
        assert result.status == ("infeasible" if best is None else "optimal"), (seed, result.status)
        seen[result.status] += 1
    assert seen["optimal"] > 40 and seen["infeasible"] > 5, seen


def test_costs_are_the_checkers() -> None:
    """A random mapping: partitions, stages, transfers, SRAM and DRAM as the checker has them."""
    limited = 0
    for seed in range(60):
        random = Random(seed)
        instance = staged_instance(random, dram=True)
        some = [one for one, _ in zip(candidates(instance), range(500), strict=False)]
        solution = random.choice(some)
        problem = dataflow_problem(instance, solution.degrees)
        certificate, n = check(instance, solution), problem.n
        schemes = [[option.scheme for option in choice] for choice in problem.options]
        chosen = [schemes[i % n].index(scheme) for i, scheme in enumerate(solution.schemes)]
        costs = stage_costs(problem, chosen, solution.partitions, solution.stages)
        labels = {violation.label for violation in certificate.violations}
        if "C7" in labels:
            continue
        assert batch_of_steps(problem, costs.step) == certificate.objective, seed
        assert max(costs.stages) == certificate.terms["T7"], seed
        join = max if instance.task.overlap else lambda *parts: sum(parts)
        assert list(costs.partitions) == [join(*parts) for parts in breakdown(instance, solution).values()], seed
        assert (max(costs.sram) > problem.sram) == ("C2" in labels), seed
        assert max(costs.dram) == certificate.figures["dram_bytes"], seed
        assert (max(costs.dram) > (instance.system.memory.capacity_bytes or 0)) == ("C6" in labels), seed
        limited += "C6" in labels
    assert limited > 3
