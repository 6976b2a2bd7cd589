"""The micro-batch as a choice: hand-made optima of the page, random instances against brute force, older files."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from chipmap.family import get_family
from chipmap.formulations.dataflow import cpsat as cp_model
from chipmap.formulations.dataflow import mip as mip_model
from chipmap.inputs.reading import decode, generate, read
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.instance import MOST_MICRO_BATCHES, BatchPlan, DataflowSolution, Degrees, divisors
from chipmap.instances.dataflow.plans import allowed_degrees, allowed_micro_batches, settled, useful_plans
from chipmap.instances.dataflow.problem import LARGEST
from chipmap.methods.dataflow.bounds import bounds, relaxation
from chipmap.methods.dataflow.cases import Choices, cases
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from chipmap.run import Run
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed, no_better, run_of
from tests.dataflow.random_instances import made, mixed_instance, outside_instance, split_instance, tiny_instance
from tests.lanes import of_all

ROW = Degrees(pipeline=2, dimensions=("pipeline",))
#: 100 ns of compute on an SN10 for each sample, and 200 ns to read its weights.
ONE: dict[str, Any] = {"flop": 30_720_000, "output_bytes": 0, "weight_bytes": 20_000, "schemes": ["NONE"]}


def free(kernels: dict[str, dict[str, Any]], edges: str, **parameters: Any) -> DataflowInstance:
    """An instance at the whole peak and 100 bytes per ns, twelve samples in micro-batches that are to be chosen."""
    given = {"batch": 12, "micro_batch": None, "utilisation": 1.0, "purpose": "prefill", "layers": 4}
    return made(kernels, edges, **{**given, **parameters})


def chosen(run: Run) -> int | None:
    """The micro-batch of the best mapping, which the checker accepts."""
    assert run.best is not None and run.best.certificate.feasible
    return run.best.solution.micro_batch  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("method", [auto, mip, cpsat])
def test_weights_against_the_bubble(method: Any) -> None:
    """Two stages of two layers: 2 · max(100 b, 200) · (12/b + 1) ns for micro-batches of b samples."""
    instance = free({"a": ONE}, "", degrees=ROW)
    by_hand = {b: 2 * max(100 * b, 200) * (12 // b + 1) * 1000 for b in (1, 2, 3, 4, 6, 12)}
    assert by_hand == {1: 5_200_000, 2: 2_800_000, 3: 3_000_000, 4: 3_200_000, 6: 3_600_000, 12: 4_800_000}
    for each, ticks in by_hand.items():
        mapping = DataflowSolution(degrees=ROW, schemes=("NONE",), partitions=(0,), micro_batch=each)
        assert check(instance, mapping).objective == ticks
    run = run_of(instance, method)
    assert (run.upper, chosen(run)) == (2_800_000, 2)
    assert run.lower is not None and run.lower.value == 2_800_000


@pytest.mark.parametrize("method", [auto, mip, cpsat])
def test_weights_against_dram(method: Any) -> None:
    """One stage of four layers, kernel by kernel: (12/b) · 4 · 2 · (200 + 100 b) ns, with 160,000 bytes of weights and
    10,000 b of the tensor between them in DRAM."""
    layer = {"a": {**ONE, "output_bytes": 10_000}, "b": ONE}
    alone = {"sizes": [1], "fused": False, "degrees": {"dimensions": ["tensor"]}}
    for limit, each, ticks in ((None, 12, 11_200_000), (200_000, 4, 14_400_000), (199_999, 3, 16_000_000)):
        run = run_of(free(layer, "ab", dram_bytes=limit, **alone), method)
        assert (run.upper, chosen(run)) == (ticks, each), limit
        assert run.lower is not None and run.lower.value == ticks
    assert run_of(free(layer, "ab", dram_bytes=169_999, **alone), method).best is None


def test_decode_steps_take_many_samples_at_a_time() -> None:
    """The README's Llama 3 70B on 16 chips: weights are read once for all 64 samples, not for each."""
    parameters = {"model": "llama3-70b", "sizes": [16], "batch": 64}
    run = run_of(generate("dataflow-llama", **parameters))  # type: ignore[arg-type]
    single, whole = (run_of(generate("dataflow-llama", micro_batch=b, **parameters)) for b in (1, 64))  # type: ignore[arg-type]
    assert chosen(run) == 64 and run.upper == whole.upper == (run.lower and run.lower.value)
    assert run.upper is not None and single.upper is not None and run.upper * 20 < single.upper


def test_what_a_mapping_may_say() -> None:
    """C0: a micro-batch that divides, the task's if it gives one; neither may be left out."""
    instance = free({"a": ONE}, "", degrees=ROW)
    mapping = DataflowSolution(degrees=ROW, schemes=("NONE",), partitions=(0,))
    asked = settled(instance, 3)
    for on, each, fits in ((instance, 3, True), (instance, 5, False), (instance, 0, False), (instance, None, False)):
        assert check(on, mapping.replace(micro_batch=each)).feasible is fits
    for each, fits in ((None, True), (3, True), (4, False)):
        assert check(asked, mapping.replace(micro_batch=each)).feasible is fits
    assert check(asked, mapping).objective == 3_000_000


def test_older_files_mean_one_sample() -> None:
    """``dataflow/1`` without a micro-batch had 1; its hashes hold, and only what it couldn't say has a new one."""
    instance = free({"a": ONE}, "", micro_batch=1)
    plain = msgspec.json.decode(instance.to_json())
    old = {**plain, "schema": "dataflow/1", "task": {k: v for k, v in plain["task"].items() if k != "micro_batch"}}
    again = decode(msgspec.json.encode(old), "old.json")
    assert again == instance and again.content_hash == instance.content_hash
    larger = decode(msgspec.json.encode(old), "old.json", ["task.micro_batch=3"])
    assert larger == settled(instance, 3) and larger.content_hash != instance.content_hash
    open_ = free({"a": ONE}, "")
    assert open_.content_hash != instance.content_hash
    assert decode(open_.to_json(), "new.json") == open_
    with pytest.raises(InputError, match="dataflow/3"):
        decode(msgspec.json.encode({**old, "schema": "dataflow/3"}), "new.json")
    assert get_family("dataflow").schemas == ("dataflow/2", "dataflow/1")
    assert read("dataflow/tiny-chain").task.micro_batch == 1  # type: ignore[attr-defined]


def test_divisors_and_their_number() -> None:
    for number in (1, 2, 12, 49, 360, 9_999_991, 10**9):
        found = divisors(number)
        assert list(found) == sorted(set(found)) and all(number % one == 0 for one in found)
        if number < 1000:
            assert len(found) == sum(number % one == 0 for one in range(1, number + 1))
    assert len(divisors(45_360)) == MOST_MICRO_BATCHES
    free({"a": ONE}, "", batch=45_360).check()
    with pytest.raises(InputError, match="108 divisors"):
        free({"a": ONE}, "", batch=50_400)
    free({"a": ONE}, "", batch=50_400, micro_batch=1)


def test_micro_batches_whose_numbers_are_too_large() -> None:
    """They are left out, a note says so, and the bound stays below what they could reach."""
    long = {**ONE, "flop": 307_200 * LARGEST // 4000}  # a quarter of the most that is counted, for a sample
    instance = free({"a": long}, "", degrees=ROW, layers=2)
    choices = Choices(instance)
    known = [case.plan.micro_batch or 0 for case in choices]
    assert sorted(known) == [1, 2, 3, 4] and len(choices.left) == 2
    for each, bound in zip((6, 12), sorted(choices.left), strict=True):
        mapping = DataflowSolution(degrees=ROW, schemes=("NONE",), partitions=(0,), micro_batch=each)
        assert bound <= (check(instance, mapping).objective or 0)
    run = run_of(instance)
    assert chosen(run) == 1 and run.lower is not None and run.lower.value == run.upper
    with pytest.raises(InputError, match="picoseconds or bytes"):
        cases(settled(instance, 12))


def test_models_of_one_micro_batch() -> None:
    """A model is exact where no other micro-batch could be better, else a restriction."""
    instance = free({"a": ONE}, "", degrees=ROW)
    for build in (mip_model.build, cp_model.build):
        assert not build(instance, {}).standing.bounds  # type: ignore[operator]
        assert build(settled(instance, 2), {}).standing.bounds  # type: ignore[operator]
        alone = free({"a": ONE}, "", degrees={"tensor": 2, "dimensions": ["tensor"]})
        assert build(alone, {}).standing.bounds  # type: ignore[operator]
        with pytest.raises(InputError, match="not among the micro-batches"):
            build(instance, {"micro_batch": 5})  # type: ignore[operator]
    assert useful_plans(alone, allowed_degrees(alone)[0]) == [BatchPlan(12)]
    assert allowed_micro_batches(alone, allowed_degrees(alone)[0]) == (1, 2, 3, 4, 6, 12)


def random_free(random: Random) -> DataflowInstance | None:
    """A random instance with features of all kinds whose micro-batch is to be chosen; None where degrees don't
    divide, or for too many mappings."""
    instance = random.choice((mixed_instance, outside_instance, tiny_instance, split_instance))(random)
    task = instance.task.replace(micro_batch=None, batch=random.choice((instance.task.batch, 6, 8, 12)))
    if task.degrees is not None and task.batch % task.degrees.data:
        return None
    instance = instance.replace(task=task)
    return instance if count(instance) <= 300 else None


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried: dict[Any, int] = {}
    for seed in range(25 * block, 25 * block + 25):
        instance = random_free(Random(seed))
        if instance is None:
            continue
        below = (bounds, relaxation) if instance.task.stages == "layers" else (bounds,)
        optimum, mapping = agreed(instance, seed, below)
        no_better(instance, optimum, seed)
        tried[mapping and mapping.micro_batch] = tried.get(mapping and mapping.micro_batch, 0) + 1
    assert len(tried) >= 4, tried  # no mapping, one sample, all samples, and some number between


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_what_is_not_tried_is_no_better(block: int) -> None:
    """Without a pipeline or a limit on DRAM, brute force finds nothing better than with the largest micro-batch."""
    seen = 0
    for seed in range(40 * block, 40 * block + 40):
        instance = random_free(Random(seed))
        if instance is None or instance.system.memory.capacity_bytes is not None:
            continue
        for degrees in allowed_degrees(instance):
            one = instance.replace(task=instance.task.replace(degrees=degrees))
            if degrees.pipeline > 1:
                continue
            ((largest, *_),) = useful_plans(one, degrees)
            best: dict[int | None, int] = {}
            for mapping in candidates(one):
                certificate = check(one, mapping)
                if certificate.feasible and certificate.objective is not None:
                    each = mapping.micro_batch
                    best[each] = min(best.get(each, certificate.objective), certificate.objective)
            assert not best or best.get(largest, 2**62) == min(best.values()), (seed, degrees)
            seen += len(best) > 1
    assert seen >= 3
