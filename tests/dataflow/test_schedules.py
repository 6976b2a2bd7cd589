"""Schedules of a pipeline: the page's cases, an event-by-event run of the schedule, random instances against brute
force."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from chipmap.formulations.dataflow import cpsat as cp_model
from chipmap.formulations.dataflow import mip as mip_model
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.batch import in_flight, passes_held, waited_hops
from chipmap.instances.dataflow.batch_time import batch_factor
from chipmap.instances.dataflow.instance import INTERLEAVED, BatchPlan, DataflowSolution, Degrees, Schedule
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_plans, settled
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.bounds import bounds
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from chipmap.run import Run
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed, no_better, run_of
from tests.dataflow.random_instances import made, mixed_instance, outside_instance, tiny_instance
from tests.lanes import of_all

ROW = Degrees(pipeline=2, dimensions=("pipeline",))
#: 100 ns of compute on an SN10 for each sample.
ONE: dict[str, Any] = {"flop": 30_720_000, "output_bytes": 0, "weight_bytes": 0, "schemes": ["NONE"]}
Pass = tuple[bool, int, int]


def interleaved(kernels: dict[str, dict[str, Any]], edges: str, **parameters: Any) -> DataflowInstance:
    """Two stages of two layers at the whole peak, four samples one by one, in chunks that are to be chosen."""
    given: dict[str, Any] = {"utilisation": 1.0, "purpose": "prefill", "layers": 4, "degrees": ROW, "memory_gbps": 1e9}
    return made(kernels, edges, **{**given, "schedule": "interleaved", **parameters})


def chunks_of(run: Run) -> int | None:
    assert run.best is not None and run.best.certificate.feasible
    return run.best.solution.chunks  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("method", [auto, mip, cpsat])
@pytest.mark.parametrize(
    ("hop", "ticks"), [(0, (1_000, 900)), (40, (1_040, 1_020)), (60, (1_060, 1_080)), (500, (2_700, 5_600))]
)
def test_bubble_against_transfers(method: Any, hop: int, ticks: tuple[int, int]) -> None:
    """The page's table: 2 · 100 · (4 + 1/v) + (2v-1) · h + 4 · max(0, v · h - 200) ns."""
    instance = interleaved({"a": {**ONE, "output_bytes": 25 * hop}}, "", carries="aa", link_gbps=25.0)
    mapping = DataflowSolution(degrees=ROW, schemes=("NONE",), partitions=(0,))
    for chunks, nanoseconds in zip((1, 2), ticks, strict=True):
        assert check(instance, mapping.replace(chunks=chunks)).objective == 1000 * nanoseconds
    run = run_of(instance, method)
    assert (run.upper, chunks_of(run)) == (1000 * min(ticks), 1 + (ticks[1] < ticks[0]))
    assert run.lower is not None and run.lower.value == run.upper


@pytest.mark.parametrize("method", [auto, mip, cpsat])
def test_bubble_against_dram(method: Any) -> None:
    """The page's case: chunks begin half a micro-batch more before the first backward pass."""
    layer = {"a": {**ONE, "output_bytes": 1000}, "x": {**ONE, "phase": "backward"}}
    for limit, chunks, ticks in (
        (None, 2, 1_800_000),
        (5000, 2, 1_800_000),
        (4999, 1, 2_000_000),
        (4000, 1, 2_000_000),
    ):
        run = run_of(interleaved(layer, "ax", dram_bytes=limit, memory_gbps=1e12), method)
        assert run.upper is not None and abs(run.upper - ticks) <= 100 and chunks_of(run) == chunks, limit
    assert run_of(interleaved(layer, "ax", dram_bytes=3999), method).best is None


def order(stages: int, chunks: int, rounds: int, stage: int, ahead_of: int = 2) -> list[Pass]:
    """(forward?, chunk, micro-batch) in the order in which a stage runs them: some forward passes, then one backward
    pass after each, then what is left."""
    passes = range(rounds * chunks)
    group = stages * chunks
    ahead = [(True, k % group // stages, k // group * stages + k % stages) for k in passes]
    back = [(False, chunks - 1 - k % group // stages, k // group * stages + k % stages) for k in passes]
    warm = min(len(passes), ahead_of * (stages - stage - 1) + (chunks - 1) * stages)
    found = ahead[:warm]
    for one, other in zip(ahead[warm:], back, strict=False):
        found += [one, other]
    return found + back[len(passes) - warm :]


def simulated(
    stages: int,
    chunks: int,
    rounds: int,
    hop: float,
    ahead_of: int = 2,
    lengths: list[int] | None = None,
    back: float | None = None,
) -> tuple[float, list[int]]:
    """When all is done, and how many passes each stage holds at most: forward ones take 1, backward ones 2, or so many
    times the ``lengths`` of chunks. A transfer takes ``hop``, or ``back`` to the stage before."""
    sent = {True: hop, False: hop if back is None else back}
    todo = [order(stages, chunks, rounds, s, ahead_of) for s in range(stages)]
    clock, held, most = [0.0] * stages, [0] * stages, [0] * stages
    done: dict[tuple[bool, int, int], float] = {}
    while any(todo):
        before = len(done)
        for s in range(stages):
            while todo[s]:
                forward, chunk, micro = todo[s][0]
                place = chunk * stages + s
                needs = (forward, place - 1 if forward else place + 1, micro)
                if place == (0 if forward else stages * chunks - 1):
                    ready = 0.0 if forward else done.get((True, place, micro), -1.0)
                else:
                    ready = done[needs] + sent[forward] if needs in done else -1.0
                if ready < 0:
                    break
                took = (1 if forward else 2) * (lengths[place] if lengths else 1)
                clock[s] = done[forward, place, micro] = max(clock[s], ready) + took
                held[s] += 1 if forward else -1
                most[s] = max(most[s], held[s])
                todo[s].pop(0)
        assert len(done) > before
    return max(clock), most


def pipeline_of(stages: int, chunks: int, rounds: int, schedule: str) -> tuple[DataflowProblem, Degrees]:
    """A training step on ``stages`` chips whose chunks are a layer each, ``rounds`` samples one by one."""
    degrees = Degrees(pipeline=stages, dimensions=("pipeline",))
    given = {"sizes": [stages], "layers": stages * chunks, "batch": rounds, "degrees": degrees, "schedule": schedule}
    kernels = {"a": ONE, "x": {**ONE, "phase": "backward"}}
    return dataflow_problem(interleaved(kernels, "ax", purpose="training", **given), degrees, 1, chunks), degrees


@pytest.mark.parametrize(
    ("stages", "chunks", "rounds"), [(2, 2, 4), (4, 2, 8), (4, 3, 12), (4, 3, 4), (3, 2, 3), (2, 3, 8)]
)
@pytest.mark.parametrize("schedule", ["interleaved", "interleaved-lean"])
def test_the_schedule_itself(stages: int, chunks: int, rounds: int, schedule: str) -> None:
    """The page's table is what an event-by-event run of the schedule takes, and holds on its first stage; for
    ``interleaved`` as long as no transfer takes longer than the pass that it overlaps with."""
    problem, degrees = pipeline_of(stages, chunks, rounds, schedule)
    for hop in (0.0, 0.25, 0.5, 1.0, *((2.0, 8.0) if schedule == "interleaved-lean" else ())):
        span, held = simulated(stages, chunks, rounds, hop, 2 if schedule == "interleaved" else 1)
        assert held == [passes_held(problem.instance, degrees, s) for s in range(stages)]
        assert held[0] == chunks * in_flight(problem.instance, degrees)
        # a layer takes 3, a chunk is a layer; a transfer there and one back
        by_formula = 3 * batch_factor(problem) + Fraction(2 * hop) * waited_hops(problem.instance, degrees)
        assert span == by_formula, hop


def test_one_pass_after_the_other() -> None:
    """`1f1b` takes the page's time exactly: any number of stages and micro-batches, any transfers."""
    for stages in range(1, of_all(9, few=6)):
        for rounds in range(1, of_all(25, few=12)):
            problem, degrees = pipeline_of(stages, 1, rounds, "1f1b")
            waits = waited_hops(problem.instance, degrees)
            for there, back in ((0.5, 0.5), (0.0, 3.0), (7.0, 7.0), (20.0, 1.0)):
                span, held = simulated(stages, 1, rounds, there, 1, back=back)
                assert held == [passes_held(problem.instance, degrees, s) for s in range(stages)]
                assert span == 3 * batch_factor(problem) + Fraction(there + back) * waits
    assert simulated(4, 1, 16, 0.5, 1)[0] == 71


def test_what_a_mapping_may_say() -> None:
    """C0: chunks that share out a stage's layers, the task's if it gives them; stages that divide the micro-batches."""
    instance = interleaved({"a": ONE}, "")
    mapping = DataflowSolution(degrees=ROW, schemes=("NONE",), partitions=(0,))
    for on, chunks, fits in ((instance, 1, True), (instance, 2, True), (instance, 4, False), (instance, None, False)):
        assert check(on, mapping.replace(chunks=chunks)).feasible is fits
    for chunks, fits in ((None, True), (2, True), (1, False)):
        assert check(settled(instance, None, 2), mapping.replace(chunks=chunks)).feasible is fits
    odd = interleaved({"a": ONE}, "", batch=3)
    assert [check(odd, mapping.replace(chunks=v)).feasible for v in (1, 2)] == [True, False]
    plain = interleaved({"a": ONE}, "", schedule="1f1b")
    assert [check(plain, mapping.replace(chunks=v)).feasible for v in (None, 1, 2)] == [True, True, False]
    assert allowed_plans(odd, ROW) == [BatchPlan(1, 1)]
    assert allowed_plans(interleaved({"a": ONE}, "", micro_batch=None), ROW) == [
        *(BatchPlan(each, v) for each in (1, 2) for v in (1, 2)),
        BatchPlan(4, 1),
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schedule": "1f1b", "chunks": 2}, "one part of the network"),
        ({"chunks": 5}, "Give 1 to 4"),
        ({"mode": "dfmodel"}, "mode dfmodel"),
        ({"stages": "kernels", "across_layers": True, "degrees": None}, "stages share out kernels"),
        ({"chunks": 4}, "2 stages of 4 chunks don't divide 4 layers"),
        ({"chunks": 2, "batch": 3}, "3 micro-batches of a replica"),
        ({"chunks": 2, "batch": 3, "micro_batch": None}, "no micro-batches of 1 replica"),
    ],
)
def test_what_a_task_may_say(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        interleaved({"a": ONE}, "", **changes)


def test_models_of_one_plan() -> None:
    """A model is exact where nothing else could be better, else a restriction."""
    instance = interleaved({"a": ONE}, "")
    for build in (mip_model.build, cp_model.build):
        assert not build(instance, {"chunks": 2}).standing.bounds  # type: ignore[operator]
        assert build(settled(instance, None, 2), {}).standing.bounds  # type: ignore[operator]
        with pytest.raises(InputError, match="not among the chunks"):
            build(instance, {"chunks": 3})  # type: ignore[operator]


def with_launches(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """``instance``, perhaps on chips that take some time to start a partition."""
    chip = instance.system.chip.replace(launch_ns=random.choice((0.0, 0.0, 500.0)))
    return instance.replace(system=instance.system.replace(chip=chip))


def random_interleaved(random: Random, schedule: Schedule) -> DataflowInstance | None:
    """A random instance with features of all kinds whose chunks are to be chosen, or given; None where it can't be, or
    has too many mappings."""
    instance = random.choice((mixed_instance, outside_instance, outside_instance, tiny_instance))(random)
    task = instance.task
    if task.across_layers or task.stages == "kernels":
        return None
    layers = random.choice((4, 4, 8))
    samples = random.choice((task.micro_batch, task.micro_batch, None))
    task = task.replace(schedule=schedule, micro_batch=samples, batch=random.choice((4, 8)))
    instance = instance.replace(task=task, mode="physical", workload=instance.workload.replace(layers=layers))
    if random.random() < 0.3:
        instance = instance.replace(task=task.replace(chunks=random.choice((1, 2))))
    try:
        instance.check()
    except InputError:
        return None
    return with_launches(instance, random) if count(instance) <= 400 else None


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried: Counter[int | None] = Counter()
    for seed in range(40 * block, 40 * block + 40):
        instance = random_interleaved(Random(seed), INTERLEAVED[seed % 2])
        if instance is None:
            continue
        optimum, mapping = agreed(instance, seed, (bounds,))
        no_better(instance, optimum, seed)
        tried[mapping and mapping.chunks] += 1
    assert tried[1] >= 3 and tried[2] >= 2, tried
