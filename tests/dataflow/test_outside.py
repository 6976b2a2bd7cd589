"""What lies outside partitions: DRAM (C6), transfers between stages (T5), gradient sums (T6), recomputation."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from chipmap.certificate import Certificate
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.batch_time import batch_ticks, layer_ticks
from chipmap.instances.dataflow.generators import gpt
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from chipmap.result import Result
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import BACK, CACHED, HEAVY, LIGHT, made, outside_instance, variants
from tests.lanes import of_all

TENSOR = Degrees(tensor=2, dimensions=("tensor",))
STAGES = Degrees(tensor=2, pipeline=2, dimensions=("tensor", "pipeline"))
COPIES = Degrees(tensor=2, data=2, dimensions=("tensor", "data"))


def mapping(instance: DataflowInstance, partitions: tuple[int, ...], **fields: Any) -> Certificate:
    given = {"degrees": TENSOR, "schemes": ("M",) * len(partitions), "partitions": partitions}
    return check(instance, DataflowSolution(**{**given, **fields}))


def with_dram(instance: DataflowInstance, capacity: int | None) -> DataflowInstance:
    memory = instance.system.memory.replace(capacity_bytes=capacity)
    return instance.replace(system=instance.system.replace(memory=memory))


def run(instance: DataflowInstance) -> Result:
    return solve(instance, None, SolveOptions.make(warm_start="none", threads=1))


@pytest.mark.parametrize("block", range(of_all(3, few=1)))
def test_every_method_finds_what_brute_force_finds(block: int) -> None:
    tried = {"optimal": 0, "infeasible": 0}
    for seed in range(12 * block, 12 * block + 12):
        instance = outside_instance(Random(seed))
        if count(instance) > 3**6:
            continue
        optimum = brute_force(instance, check)[0]
        for method in (auto, mip, cpsat):
            state = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
            reason = method(instance, state).reason
            assert (reason, state.upper) == ("infeasible" if optimum is None else "optimal", optimum), (seed, method)
            assert not state.rejected
        tried[reason] += 1
    assert tried["optimal"] >= 5


@pytest.mark.parametrize("name", ["what is kept", "what waits", "recomputed"])
def test_dram_decides(name: str) -> None:
    """The variants' capacity is a byte less than the best mapping without one takes."""
    instance = variants()[name]
    free = with_dram(instance, None)
    optimum, best = brute_force(free, check)
    assert best is not None and instance.system.memory.capacity_bytes is not None
    assert check(free, best).figures["dram_bytes"] == instance.system.memory.capacity_bytes + 1
    assert {v.label for v in check(instance, best).violations} == {"C6"}
    found = run(instance)
    assert found.status == "optimal" and optimum is not None and found.objective is not None
    assert found.objective > optimum
    for method in (mip, cpsat):
        state = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
        assert (method(instance, state).reason, state.upper, state.rejected) == ("optimal", found.objective, [])


def test_dram_by_hand() -> None:
    """Two stages of two layers, tensor parallelism 2: parameters, their state, and outputs for two micro-batches."""
    graph = {"a": LIGHT, "b": HEAVY, "x": BACK, "y": BACK}
    instance = made(graph, "ab bx xy ay", sizes=[2, 2], layers=4)
    parameters, kept = (45_000 + 100_000) * 8, (30_000 + 15_000) * 2
    for partitions, waits in (((0, 0, 1, 1), 0), ((0, 1, 2, 2), 0), ((0, 0, 1, 2), 15_000)):
        certificate = mapping(instance, partitions, degrees=STAGES)
        assert certificate.figures["dram_bytes"] == 2 * (parameters + kept) + waits, partitions
    serving = instance.replace(task=instance.task.replace(purpose="prefill"))
    assert mapping(serving, (0, 0, 1, 1), degrees=STAGES).figures["dram_bytes"] == 2 * (145_000 + kept)
    lean = instance.replace(task=instance.task.replace(optimizer_bytes=0))
    assert mapping(lean, (0, 0, 1, 1), degrees=STAGES).figures["dram_bytes"] == 2 * (145_000 * 2 + kept)
    one = instance.replace(task=instance.task.replace(batch=1))
    assert mapping(one, (0, 0, 1, 1), degrees=STAGES).figures["dram_bytes"] == 2 * (parameters + kept // 2)
    published = instance.replace(mode="dfmodel")
    assert mapping(published, (0, 1, 2, 3), degrees=STAGES).figures["dram_bytes"] == 2 * 30_000 + 15_000


def test_a_kv_cache_by_hand() -> None:
    """300,000 bytes per sample and layer, of all samples of a replica; in decode steps and mode physical alone."""
    instance = made({"a": CACHED, "b": LIGHT}, "ab", sizes=[2, 2], layers=4, batch=8, micro_batch=2, purpose="decode")
    for degrees, parameters, cache in (
        (STAGES, 2 * 2 * 45_000, 2 * 8 * 150_000),
        (COPIES, 4 * 2 * 45_000, 4 * 4 * 150_000),
    ):
        assert mapping(instance, (0, 0), degrees=degrees).figures["dram_bytes"] == parameters + cache
        prefill = instance.replace(task=instance.task.replace(purpose="prefill"))
        assert mapping(prefill, (0, 0), degrees=degrees).figures["dram_bytes"] == parameters
        assert mapping(instance.replace(mode="dfmodel"), (0, 0), degrees=degrees).figures["dram_bytes"] == 0
        pinned = instance.replace(task=instance.task.replace(degrees=degrees))
        need = parameters + cache
        assert run(with_dram(pinned, need)).status == "optimal"
        (reason,) = run(with_dram(pinned, need - 1)).infeasibility
        assert (reason.label, reason.demand) == ("C6", need)


def test_recomputation_by_hand() -> None:
    """What is carried from layer to layer is kept, all else waits; forward partitions run twice."""
    graph = {"a": LIGHT, "b": HEAVY, "x": BACK, "y": BACK}
    instance = made(graph, "ab bx xy ay", sizes=[2, 2], layers=4, carries="ba", recompute=True)
    kept = mapping(instance.replace(task=instance.task.replace(recompute=False)), (0, 0, 1, 1), degrees=STAGES)
    again = mapping(instance, (0, 0, 1, 1), degrees=STAGES)
    assert again.figures["dram_bytes"] == 2 * (145_000 * 8 + 15_000 * 2) + 30_000 + 15_000
    assert again.figures["dram_bytes"] < kept.figures["dram_bytes"]
    forward = 145_000 * 10 + (30_000 + 15_000) * 10  # bytes at 100 per ns: weights, and what leaves for x and y
    assert again.terms["T4"] - kept.terms["T4"] == forward
    with pytest.raises(InputError, match=r"task.recompute: there is no backward phase"):
        made({"a": LIGHT}, "", recompute=True)
    with pytest.raises(InputError, match=r"task.optimizer_bytes: is -1"):
        made({"a": LIGHT}, "", optimizer_bytes=-1)


def test_transfers_by_hand() -> None:
    """S/B + l: once on the way for the first micro-batch, and again for each where it is longer than a stage."""
    chain = {"a": LIGHT, "b": HEAVY, "c": LIGHT}
    for link, latency, hop in ((25.0, 100.0, 1_200_000 + 100_000), (1.0, 0.0, 30_000_000)):
        instance = made(
            chain, "ab bc", carries="ca", sizes=[2, 2], layers=4, batch=6, link_gbps=link, latency_ns=latency
        )
        certificate = mapping(instance, (0, 0, 0), degrees=STAGES)
        layer = certificate.terms["T4"]
        assert certificate.terms["T5"] == hop + 6 * max(0, hop - 2 * layer)
        assert certificate.objective == 2 * layer * (6 + 1) + certificate.terms["T5"]
        assert mapping(instance, (0, 0, 0), degrees=COPIES).terms["T5"] == 0
    slow: dict[str, Any] = {"sizes": [2, 2], "layers": 2, "memory_gbps": 1.0}
    both = made({"a": LIGHT, "x": BACK}, "ax", carries="aa", **slow)
    back = made({"a": LIGHT, "x": BACK}, "ax", carries="aa xx", **slow)
    # four micro-batches on two stages wait for 2 + 4 - 2 - 2 transfers there and back
    assert mapping(both, (0, 1), degrees=STAGES).terms["T5"] == 2 * 2 * 1_200_000
    assert mapping(back, (0, 1), degrees=STAGES).terms["T5"] == 2 * (1_200_000 + 600_000)


def test_gradients_by_hand() -> None:
    """One all-reduce over two replicas of a weight update's half on a chip, for two layers, with the factor 2."""
    graph = {"a": LIGHT, "x": {**BACK, "update": True}}
    instance = made(graph, "ax", sizes=[2, 2], layers=2, latency_ns=10.0)
    certificate = mapping(instance, (0, 1), degrees=COPIES)
    assert certificate.terms["T6"] == 2 * (15_000 * 2) // 2 * 1000 // 25 + 2 * 10_000
    assert certificate.objective == certificate.terms["T4"] * 2 * 2 + certificate.terms["T6"]
    published = instance.replace(mode="dfmodel")
    assert mapping(published, (0, 1), degrees=COPIES).terms["T6"] == 15_000 * 2 // 2 * 1000 // 25 + 2 * 10_000
    assert mapping(instance, (0, 1), degrees=STAGES).terms["T6"] == 0


def test_the_batch_rises_with_the_layer_and_back() -> None:
    instance = made({"a": LIGHT}, "", carries="aa", sizes=[2, 2], layers=4, batch=6)
    for mode in ("physical", "dfmodel"):
        problem = dataflow_problem(instance.replace(mode=mode), STAGES)
        for hop in (0, 10**6, 10**8):
            batches = [batch_ticks(problem, layer, hop, 7, 0) for layer in range(10**6, 10**8, 10**6)]
            assert all(a < b for a, b in pairwise(batches))
            for layer in (10**6, 5 * 10**7, 10**8):
                batch = batch_ticks(problem, layer, hop, 7, 0)
                assert layer_ticks(problem, batch, hop, 7, 0) == pytest.approx(layer, rel=1e-6)


def test_the_dram_that_would_do_does_and_a_byte_less_does_not() -> None:
    instance = with_dram(made({"a": LIGHT, "b": HEAVY, "c": LIGHT}, "ab bc", sram_bytes=150_000), 10**6)
    (reason,) = run(instance).infeasibility
    assert reason.label == "C6" and reason.limit == 10**6 and "of kernel 'b'" in reason.message
    assert f"{round(reason.demand):,} would do" in reason.message and str(round(reason.demand)) in reason.remedies[0]
    assert run(with_dram(instance, round(reason.demand))).status == "optimal"
    assert run(with_dram(instance, round(reason.demand) - 1)).status == "infeasible"
    for method in ("mip", "cpsat"):
        result = solve(instance, method, SolveOptions.make(warm_start="none", threads=1))
        assert result.status == "infeasible" and result.infeasibility == (reason,)


def test_a_tensor_larger_than_dram_is_named_with_degrees_that_fit() -> None:
    published = read("dataflow/gpt3-1t-sn30-1024")
    assert isinstance(published, DataflowInstance)
    (reason,) = run(with_dram(published.replace(mode="physical"), 60 * 10**9)).infeasibility
    assert reason.label == "C6" and "60,000,000,000 bytes" in reason.message and "kernel 'Dropout1'" in reason.message
    assert "tensor 128, pipeline 8, data 1 would fit" in reason.message
    fit = published.task.replace(degrees=Degrees(tensor=128, pipeline=8, dimensions=("pipeline", "tensor")))
    assert fit.degrees in allowed_degrees(published.replace(task=fit.replace(degrees=None)))
    assert run(with_dram(published.replace(mode="physical", task=fit), 60 * 10**9)).status == "optimal"
    (reason,) = run(with_dram(published, 10**6)).infeasibility
    assert reason.label == "C6" and "the output of kernel 'MHA1' alone takes 167,772,160" in reason.message


def test_gpt_with_its_residual_gradients() -> None:
    small = {"hidden": 64, "heads": 4, "tokens": 32, "layers": 4, "backward": True}
    published, whole = gpt(**small).workload, gpt(**small, residuals=True).workload
    assert (len(published.kernels), len(published.edges)) == (41, 53)
    assert (len(whole.kernels), len(whole.edges)) == (42, 59)
    assert set(published.edges) < set(whole.edges) and whole.carries[-1] == ("LN1_b", "Loss_b")
    read_by = {u for u, _ in whole.edges} | {u for u, _ in whole.carries}
    updates = {kernel.name for kernel in whole.kernels if kernel.update}
    assert {kernel.name for kernel in whole.kernels} - read_by == updates, "every gradient goes somewhere"
    alone = {kernel.name: "NONE" for kernel in whole.kernels if (kernel.kind, kernel.outer) == ("elementwise", 1)}
    assert run(gpt(**small, residuals=True, batch=8, partitions=3, schemes=alone)).status == "optimal"
    with pytest.raises(InputError, match="need the backward kernels"):
        gpt(residuals=True)
