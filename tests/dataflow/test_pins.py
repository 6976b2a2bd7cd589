"""Pins to partitions, forbidden ones, kernels that lie together or apart (C5): against brute force from the page."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, Forbidden, Pin
from chipmap.kernels import uncompiled
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from tests.dataflow.agreement import run_of
from tests.dataflow.page.mappings import best
from tests.dataflow.random_instances import BACK, GEMM, HEAVY, LIGHT, TENSOR, made

#: Blocks of instances, and instances of each.
BLOCKS, EACH = 4, 30
CHAIN = made({"a": LIGHT, "b": HEAVY, "c": LIGHT, "x": BACK, "y": BACK}, "ab bc cx xy")


def pinned_instance(random: Random) -> DataflowInstance:
    """Two to four kernels with one or two schemes, and any of the four fields."""
    names = "abcd"[: random.choice((2, 3, 3, 4, 4))]
    kind = random.choice(("layers",) * 6 + ("stages", "stages", "across", "unfused"))
    names = names[:2] if kind == "across" else names[:3] if kind == "stages" else names
    late = random.choice((0, 0, 1, 2)) if kind in ("layers", "unfused") else 0
    kernels: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(names):
        one = dict(random.choice((LIGHT, HEAVY, GEMM)))
        one["schemes"] = random.choice((["M"], ["M"], ["M", "NONE"]) if len(names) < 4 else (["M"], ["NONE"]))
        kernels[name] = one | ({"phase": "backward"} if i >= len(names) - late and i else {})
    partitions = random.choice((None, None, 1, 2, 2, 3)) if kind != "unfused" else None
    capacity = random.choice((None, None, None, 700_000))
    instance = made(
        kernels,
        " ".join(u + v for u in names for v in names if u < v and random.random() < 0.4),
        **{"layers": 2 if kind == "across" else 1, "across_layers": kind == "across", "fused": kind != "unfused"},
        carries=names[-1] + names[0] if kind == "across" else "",
        stages="kernels" if kind == "stages" else "layers",
        degrees={"pipeline": 2, "dimensions": ["pipeline"]} if kind == "stages" else TENSOR,
        mode=random.choice(("dfmodel", "physical")),
        partitions=partitions,
        exactly=partitions is not None and random.random() < 0.3,
        sram_bytes=random.choice((150_000, 300_000, 10**6)),
        purpose=random.choice(("training", "prefill")),
        dram_bytes=capacity,
    )
    return instance.replace(task=instance.task.replace(**fields(random, names, kind)))


def fields(random: Random, names: str, kind: str) -> dict[str, Any]:
    """The four fields, each of them at random; none of partitions where these have no index."""
    found: dict[str, Any] = {"together": (), "apart": ()}
    if random.random() < 0.4:
        found["together"] = tuple(
            tuple(one) for one in random.choice(([names[:2]], [names[-2:]], [names[0], names[1]]))
        )
    if random.random() < 0.5:
        size = random.randint(1, len(names))
        found["apart"] = tuple(tuple(random.sample(names, size)) for _ in range(random.choice((1, 1, 2))))
    if kind in ("across", "unfused"):
        return found
    places = [0, 0, 1, 1, 2]
    some = random.sample(names, random.choice((0, 1, 1, 2, min(3, len(names)))))
    found["pins"] = tuple(Pin(kernel=name, partition=random.choice(places)) for name in some)
    few = random.sample(names, random.choice((0, 0, 1, 2)))
    found["forbidden"] = tuple(
        Forbidden(kernel=name, partitions=tuple({random.choice(places) for _ in range(random.choice((1, 2)))}))
        for name in few
    )
    return found


def valid(instance: DataflowInstance) -> bool:
    """Whether it is an instance: pins may contradict each other."""
    try:
        instance.check()
    except InputError:
        return False
    return True


@pytest.mark.parametrize("block", range(BLOCKS))
def test_auto_and_the_models_find_what_the_page_says(block: int) -> None:
    """Every method has the optimum of the brute force, or proves that there is no mapping; the reason says why."""
    random, seen = Random(block), Counter[str]()
    while seen["asked"] < EACH:
        instance = pinned_instance(random)
        if not valid(instance):
            seen["contradictory"] += 1
            continue
        found = best(instance, 20_000)
        assert found is not None
        for method in (auto, cpsat, mip) if seen["asked"] % 4 == 0 else (auto, cpsat):
            with uncompiled():
                run = run_of(instance, method)
            assert run.upper == found[0], (instance.task, method.__name__)
            assert found[0] is not None or run.infeasibility, (instance.task, method.__name__)
        task = instance.task
        seen.update(name for name in ("pins", "forbidden", "apart", "together") if getattr(task, name))
        seen.update(["asked", "feasible" if found[0] is not None else "infeasible", task.stages])
    assert min(seen[one] for one in ("pins", "forbidden", "apart", "together", "feasible", "infeasible")) >= 5, seen
    assert seen["kernels"] and seen["contradictory"], seen
