"""Recomputation of some forward kernels: the page's case, and random instances against brute force."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.instance import DataflowSolution, Degrees
from chipmap.instances.dataflow.plans import settled
from chipmap.methods.dataflow.bounds import bounds
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed, no_better, run_of
from tests.dataflow.random_instances import made, mixed_instance, outside_instance, with_little_dram
from tests.dataflow.test_schedules import with_launches
from tests.lanes import of_all

ALONE = Degrees(dimensions=("tensor",))


def kernel(nanoseconds: int, size: int, **fields: Any) -> dict[str, Any]:
    """A kernel of so many nanoseconds on an SN10, and bytes of output."""
    flop = 307_200 * nanoseconds
    return {"flop": flop, "output_bytes": size, "weight_bytes": 0, "schemes": ["NONE"], **fields}


LAYER = {"a": kernel(100, 2000), "b": kernel(50, 4000), "c": kernel(10, 500), "x": kernel(100, 0, phase="backward")}


def page_case(**parameters: Any) -> DataflowInstance:
    """Four layers of the page's kernels on one chip whose DRAM takes next to no time."""
    given: dict[str, Any] = {"sizes": [1], "batch": 1, "layers": 4, "utilisation": 1.0, "memory_gbps": 1e12}
    given |= {"carries": "ca", "recompute": None, "selective": ["b"], "optimizer_bytes": 0}
    return made(LAYER, "ab ax bx bc", **{**given, **parameters})


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("method", [auto, mip, cpsat])
def test_the_case_of_the_page(method: Any, fused: bool) -> None:
    """Bytes of DRAM against time: nothing, b, or all that runs forward is made anew."""
    by_hand = ((None, "none", 1040), (24_000, "none", 1040), (23_999, "selective", 1240), (12_000, "selective", 1240))
    for limit, which, ticks in (*by_hand, (11_999, "full", 1680), (8000, "full", 1680)):
        run = run_of(page_case(dram_bytes=limit, fused=fused), method)
        assert run.best is not None and run.best.solution.recompute == which, limit  # type: ignore[attr-defined]
        assert run.upper == 1000 * ticks and run.lower is not None and run.lower.value == run.upper
    assert run_of(page_case(dram_bytes=7999, fused=fused), method).best is None


def test_partitions_of_one_kind() -> None:
    """C3: what runs again shares no partition with what doesn't."""
    for which, numbers, fits in (
        ("selective", (0, 1, 2, 3), True),
        ("selective", (0, 0, 1, 2), False),
        ("selective", (0, 1, 1, 2), False),
        ("full", (0, 0, 0, 1), True),
        ("none", (0, 0, 0, 1), True),
    ):
        mapping = DataflowSolution(degrees=ALONE, schemes=("NONE",) * 4, partitions=numbers, recompute=which)  # type: ignore[arg-type]
        found = check(page_case(), mapping)
        assert found.feasible is fits and (fits or "C3" in {one.label for one in found.violations})


def test_what_a_mapping_may_say() -> None:
    """C0: the task's, if it says what is recomputed; else it must be said, and only of kernels that are named."""
    mapping = DataflowSolution(degrees=ALONE, schemes=("NONE",) * 4, partitions=(0, 1, 2, 3))
    for on, which, fits in (
        (page_case(), None, False),
        (page_case(), "selective", True),
        (page_case(selective=[]), "selective", False),
        (page_case(selective=[]), "full", True),
        (page_case(recompute="selective"), None, True),
        (page_case(recompute="selective"), "full", False),
        (page_case(recompute=True), "full", True),
        (page_case(recompute=False), "none", True),
        (page_case(recompute=False), "full", False),
    ):
        assert check(on, mapping.replace(recompute=which)).feasible is fits, which


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"selective": ["x"]}, "no forward kernel"),
        ({"selective": ["y"]}, "no forward kernel"),
        ({"recompute": "selective", "selective": []}, "no kernels are named"),
    ],
)
def test_what_a_task_may_say(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        page_case(**changes)


def test_words_and_booleans_are_one() -> None:
    """``full`` is true and ``none`` false, to the tick."""
    for word, value in (("full", True), ("none", False)):
        first, second = (run_of(page_case(recompute=one, dram_bytes=30_000)).upper for one in (word, value))
        assert first == second == run_of(settled(page_case(), None, None, word)).upper  # type: ignore[arg-type]


def random_recomputed(random: Random) -> DataflowInstance | None:
    """A random instance with features of all kinds, some of whose forward kernels may be recomputed; None where none
    can be, or for too many mappings."""
    instance = random.choice((mixed_instance, outside_instance))(random)
    task, kernels = instance.task, instance.workload.kernels
    forward = [one.name for one in kernels if one.phase == "forward"]
    if not 0 < len(forward) < len(kernels):
        return None
    some = tuple(random.sample(forward, random.randint(1, len(forward))))
    task = task.replace(recompute=random.choice(("selective", "selective", None)), selective=some)
    if not task.across_layers and task.stages == "layers" and instance.mode == "physical" and random.random() < 0.3:
        task = task.replace(schedule="interleaved", chunks=None)
    instance = with_launches(instance.replace(task=task), random)
    if count(instance) > 300:
        return None
    return with_little_dram(instance, random) if random.random() < 0.6 else instance


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried: Counter[str | bool | None] = Counter()
    for seed in range(70 * block, 70 * block + 70):
        instance = random_recomputed(Random(seed))
        if instance is None:
            continue
        optimum, mapping = agreed(instance, seed, (bounds,))
        no_better(instance, optimum, seed)
        if mapping is not None:
            tried[mapping.recompute or instance.task.recompute] += 1
    assert tried["selective"] >= 3 and tried["none"] >= 1, tried
