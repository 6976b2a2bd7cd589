"""What first mappings are made of: the descent over single kernels, and stages that are pieces of one order."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.contiguous_partitions.program import Pieces
from chipmap.heuristics.dataflow.contiguous_partitions.stages import staged
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.heuristics.dataflow.unfused.costs import SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.relaxed import descend
from chipmap.instances.dataflow import Degrees
from chipmap.instances.dataflow.generators import gpt
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees, allowed_plans
from chipmap.kernels import plainly
from chipmap.methods.dataflow import first
from chipmap.methods.dataflow.cases import mapping_of
from chipmap.methods.dataflow.first import _keeping, _try, each_degrees, plan_of
from chipmap.methods.dataflow.unfused import solve_one_by_one
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import made, mixed_instance, tiny_instance
from tests.dataflow.staged_instances import staged_instance


@pytest.fixture(autouse=True)
def _plain():  # type: ignore[no-untyped-def]
    """Tiny instances run through before anything is compiled."""
    with plainly():
        yield


@pytest.mark.parametrize("seed", range(12))
def test_the_descent_ends_where_no_kernel_alone_has_a_better_option(seed: int) -> None:
    """Its value is the sum of the kernels' times, no more than that of its start, and no single change betters it."""
    instance = mixed_instance(Random(seed))
    for degrees in allowed_degrees(instance)[:2]:
        problem = dataflow_problem(instance, degrees, *allowed_plans(instance, degrees)[0])
        singles = SingleKernelCosts(problem)

        def total(chosen: list[int], of: SingleKernelCosts = singles) -> int:
            each = of.ticks(chosen, of.problem.places)
            return 2**61 if each is None else sum(each)

        start = [0] * len(singles.sizes)
        found = descend(singles, start, Deadline())
        if found is None:
            continue
        ticks, chosen = found
        assert ticks == total(chosen) <= total(start)
        for v, size in enumerate(singles.sizes):
            for option in range(size):
                assert total([*chosen[:v], option, *chosen[v + 1 :]]) >= ticks


def test_chips_that_dont_fuse_have_the_best_mapping_of_each_degrees_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of each choice of degrees is solved to the end, its layouts kept as long as they may be."""
    monkeypatch.setattr(first, "SEVERAL", 0)
    given: Any = {"hidden": 64, "heads": 8, "layers": 8, "tokens": 32, "batch": 64, "backward": True, "fused": False}
    instance = gpt(**given, sizes=[2, 4], dram_bytes=10**7, micro_batch=1)
    run = Run(instance, SolveOptions.make(threads=1), check)
    each_degrees(instance, run, Deadline())
    assert run.best is not None and run.best.source == "elimination of kernels"
    least = run.best.objective
    for degrees in allowed_degrees(instance):
        plan = _keeping(instance, degrees, plan_of(instance, degrees))
        assert plan.keep == allowed_plans(instance, degrees)[-1].keep
        alone = Run(instance, SolveOptions.make(threads=1), check)
        solve_one_by_one(dataflow_problem(instance, degrees, *plan), alone)
        assert alone.upper is None or alone.upper >= least


def test_weights_that_stay_are_seen_by_the_checker_alone() -> None:
    """Two products with 1 MB of weights at 1 byte/ns, on 8 chips.

    By pieces K reads an eighth of the weights, 250,000 ns, and NONE all, 2,000,000 ns. In one partition the weights
    stay in SRAM: K still takes its sums over the network, NONE no more than the 16 ns of its FLOP.
    """
    product = {"flop": 8 * 307_200, "output_bytes": 10_000, "weight_bytes": 10**6, "schemes": ["K", "NONE"]}
    fields: dict[str, Any] = {"sizes": [8], "utilisation": 1.0, "batch": 1, "purpose": "prefill", "mode": "physical"}
    instance = made({"a": product, "b": product}, "ab", sram_bytes=10**9, memory_gbps=1.0, link_gbps=1.0, **fields)
    degrees = Degrees(tensor=8, dimensions=("tensor",))
    run = Run(instance, SolveOptions(threads=1), check)
    _try(dataflow_problem(instance, degrees, *allowed_plans(instance, degrees)[0]), run, Deadline())
    assert run.best is not None and run.best.solution.schemes == ("NONE", "NONE")  # type: ignore[attr-defined]
    assert run.upper == 16_000


@pytest.mark.parametrize("stays", [False, True])
def test_first_stages_are_pieces_of_one_order(stays: bool) -> None:
    """Whatever the instance, what they are is a mapping of it, or nothing was found."""
    found = 0
    for seed in range(40):
        instance = staged_instance(Random(seed))
        if instance.task.utilisation is None or not allowed_degrees(instance):
            continue
        degrees = allowed_degrees(instance)[-1]
        problem = dataflow_problem(instance, degrees, *allowed_plans(instance, degrees)[0])
        chosen = tuple(0 for _ in range(problem.n * instance.mapped_layers))
        made = staged(Pieces(problem, Deadline()), chosen, stays)
        if made is None:
            continue
        certificate = check(instance, mapping_of(problem, chosen, *made))
        labels = {one.label for one in certificate.violations}
        assert not labels, (seed, certificate.violations)
        assert len(set(made[1])) <= degrees.pipeline
        found += 1
    assert found >= 5


def test_pieces_are_what_the_program_on_prefixes_of_their_order_finds() -> None:
    """Kernels in a row and under their first schemes: the same fewest picoseconds, or none by both."""
    found = 0
    for seed in range(40):
        instance = tiny_instance(Random(seed))
        task, capacity = instance.task, instance.system.memory.capacity_bytes
        if task.utilisation is None or task.recomputed == "selective" or capacity is not None:
            continue
        for degrees in allowed_degrees(instance)[:1]:
            problem = dataflow_problem(instance, degrees, *allowed_plans(instance, degrees)[0])
            pieces = Pieces(problem, Deadline())
            one = pieces.best((0,) * len(pieces.order))
            pinned = replace(problem, options=tuple(options[:1] for options in problem.options))
            program = Program(pinned, instance.mapped_layers, after=list(pairwise(pieces.order)))
            other = program.best(*instance.asked)
            assert (one and one.ticks) == (other and other.ticks), seed
            found += one is not None
    assert found >= 10


def test_numba_is_not_imported_where_plain_code_proves_the_optimum() -> None:
    """In a process of its own: importing it took three quarters of this run."""
    code = (
        "import sys\n"
        "from chipmap.solve import solve\n"
        "found = solve('dataflow/dlrm-793b-sn30-32x32', isolate=False, threads=1)\n"
        "assert found.status == 'optimal'\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], timeout=300)
