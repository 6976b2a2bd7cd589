"""Pins to partitions, forbidden ones, kernels that lie together or apart (C5): against brute force from the page."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees, Forbidden, Pin
from chipmap.instances.dataflow.pinning import merge_pins
from chipmap.instances.pinning import PinFields
from chipmap.kernels import uncompiled
from chipmap.methods.dataflow.at_once import first
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import run_of
from tests.dataflow.page.mappings import best
from tests.dataflow.random_instances import BACK, GEMM, HEAVY, LIGHT, TENSOR, made
from tests.lanes import of_all

#: Blocks of instances, and instances of each.
BLOCKS, EACH = of_all(4, few=1), 30
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


@pytest.mark.parametrize(
    ("given", "said", "remedy"),
    [
        ({"pins": [Pin(kernel="bb", partition=0)]}, "no kernel is called 'bb'", "Did you mean b?"),
        ({"apart": [("a", "z")]}, "no kernel is called 'z'", "There are: a, b, c, x, y."),
        ({"pins": [Pin(kernel="b", partition=7)]}, "there is no partition 7", "at most 5"),
        ({"partitions": 2, "pins": [Pin(kernel="b", partition=2)]}, "there is no partition 2", "at most 2"),
        ({"forbidden": [Forbidden(kernel="b", partitions=(-1,))]}, "there is no partition -1", "counted from 0"),
        ({"fused": False, "pins": [Pin(kernel="b", partition=0)]}, "these chips don't fuse", "Leave it out"),
        ({"pins": [Pin(kernel="b", partition=0), Pin(kernel="b", partition=1)]}, "to partition 0 and to 1", "Keep one"),
        (
            {"pins": [Pin(kernel="b", partition=0)], "forbidden": [Forbidden(kernel="b", partitions=(0,))]},
            "where it is forbidden",
            "Remove the pin",
        ),
        (
            {"together": [("a", "b")], "pins": [Pin(kernel="a", partition=0), Pin(kernel="b", partition=1)]},
            "'a' and 'b' lie together, but are pinned to partitions 0 and 1",
            "Pin them to one",
        ),
        ({"together": [("a", "b")], "apart": [("b", "a")]}, "are to lie apart", "Take one of them out"),
        (
            {"apart": [("a", "b")], "pins": [Pin(kernel="a", partition=0), Pin(kernel="b", partition=0)]},
            "both are pinned to partition 0",
            "Pin one of them elsewhere",
        ),
        ({"apart": [("a", "a")]}, "names a kernel twice", "Name it once"),
    ],
)
def test_what_pins_say_wrongly_is_bad_input(given: dict[str, Any], said: str, remedy: str) -> None:
    with pytest.raises(InputError) as found:
        CHAIN.replace(task=CHAIN.task.replace(**given)).check()
    assert said in found.value.what and remedy in (found.value.remedy or "")


def test_layers_in_a_row_have_no_partitions_of_their_own() -> None:
    instance = made({"a": LIGHT}, "", layers=2, across_layers=True, carries="aa")
    with pytest.raises(InputError, match="partitions reach across layers"):
        instance.replace(task=instance.task.replace(pins=(Pin(kernel="a", partition=0),))).check()


def test_the_checker_counts_the_partitions_of_a_phase() -> None:
    """Whatever numbers a mapping gives them: 2, 5, 7 are 0 and 1 of the forward phase, and 0 of the other one."""
    pins = (Pin(kernel="c", partition=1), Pin(kernel="x", partition=0))
    instance = CHAIN.replace(task=CHAIN.task.replace(degrees=Degrees.make(**TENSOR), pins=pins))
    mapping = DataflowSolution.make(degrees=TENSOR, schemes=["M"] * 5, partitions=[2, 2, 5, 7, 7])
    assert not [one for one in check(instance, mapping).violations if one.label == "C5"]
    wrong = mapping.replace(partitions=(2, 3, 5, 7, 7))
    (said,) = (one.message for one in check(instance, wrong).violations if one.label == "C5")
    assert said == "'c' lies in partition 2 of its phase, and is pinned to 1"
    apart = instance.replace(task=instance.task.replace(pins=(), apart=(("a", "b"), ("x", "a"))))
    (said,) = (one.message for one in check(apart, mapping).violations if one.label == "C5")
    assert said == "a, b are to lie apart, and share partition 2"


def test_the_first_mapping_at_once_obeys() -> None:
    """Pieces of an order that pins allow: one partition would be longest."""
    pins = (Pin(kernel="b", partition=1), Pin(kernel="c", partition=2), Pin(kernel="y", partition=1))
    task = CHAIN.task.replace(pins=pins, apart=(("x", "y"),), forbidden=(Forbidden(kernel="x", partitions=(2,)),))
    instance = CHAIN.replace(task=task)
    with uncompiled():
        run = run_of(instance, lambda one, here: first(one, here))
    assert run.best is not None and isinstance(run.best.solution, DataflowSolution)
    assert run.best.solution.partitions == (0, 1, 2, 3, 4)


def test_pins_against_the_order_are_a_reason() -> None:
    pins = (Pin(kernel="a", partition=1), Pin(kernel="c", partition=0))
    with uncompiled():
        run = run_of(CHAIN.replace(task=CHAIN.task.replace(pins=pins)), auto)
    (reason,) = run.infeasibility
    assert reason.label == "C5" and "a is pinned to partition 1, and must not run after c" in reason.message
    assert reason.remedies == ("change task.pins",)


def test_pins_come_from_files() -> None:
    given = PinFields(pins=(("b", "1"),), forbidden=(("x", (1,)),), apart=(("a", "b"),))
    task = merge_pins(CHAIN, given).task
    assert task.pins == (Pin(kernel="b", partition=1),) and task.apart == (("a", "b"),)
    assert task.forbidden == (Forbidden(kernel="x", partitions=(1,)),)
    with pytest.raises(InputError, match="there is no partition 'two'"):
        merge_pins(CHAIN, PinFields(pins=(("b", "two"),)))
