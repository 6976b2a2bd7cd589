"""Features of the problem side by side: every method = brute force on tiny instances, and corner cases."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.dataflow_mixed import compared
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow.chain import auto
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed
from tests.dataflow.random_instances import BACK, HEAVY, made, mixed_instance
from tests.lanes import of_all

NOTHING = {"flop": 0, "output_bytes": 60_000, "weight_bytes": 0, "schemes": ["M", "NONE"]}


def state_of(instance: DataflowInstance, seconds: float = 60.0) -> Run:
    return Run(instance, SolveOptions(time_limit=seconds, threads=1), check)


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried = {"optimal": 0, "infeasible": 0}
    for seed in range(13 * block, 13 * block + 13):
        instance = mixed_instance(Random(seed))
        if count(instance) > 300:
            continue
        optimum, _ = agreed(instance, seed)
        tried["infeasible" if optimum is None else "optimal"] += 1
    assert min(tried.values()) >= 1


def test_what_restricted_programs_propose_fits_dram() -> None:
    """Layouts that are kept take DRAM, which the program over some ideals doesn't count: here 453,660 of 447,912."""
    line = compared(1461, 150)
    assert line["compared"] and line["optimum"] is not None and line["wrong"] == []


def test_backward_kernels_carry_to_the_layer_before() -> None:
    """With a partition per kernel, the tensor that b hands on costs two transfers of the layer before's a."""
    instance = made(
        {"a": BACK, "b": {**HEAVY, "phase": "backward"}}, "ab", layers=2, carries="ba", across_layers=True, fused=False
    )
    problem = dataflow_problem(instance, allowed_degrees(instance)[0])
    program = Program(problem, 2)
    assert [program.order[v] for v in range(4)] == [2, 3, 0, 1]
    chain = program.best(None, fused=False)
    assert chain is not None and chain.partitions == (2, 3, 0, 1)


def test_a_layer_of_nothing_to_do() -> None:
    """No kernel takes any time, only the tensor between them: written and read, 60,000 bytes at 100 per ns."""
    instance = made({"a": NOTHING, "b": NOTHING}, "ab", mode="dfmodel", sram_bytes=200_000, fused=False, batch=1)
    state = state_of(instance)
    assert auto(instance, state).reason == "optimal" and state.upper == 600_000
