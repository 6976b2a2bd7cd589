"""What is said to be impossible at once: brute force finds no placement either, and each reason names what lacks."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from chipmap.instances.placement import Forbidden, Pin, PlacementInstance, Route
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.placement.reasons import impossible
from chipmap.records import InputError
from chipmap.validation.placement.candidates import MOST, candidates
from chipmap.validation.placement.checker import check
from tests.placement.random_instances import CHAIN, FORK, made, throughput, tiny_instance


def spoilt(random: Random) -> PlacementInstance | None:
    """A tiny instance with routes taken away, memories of different sizes, pins, forbidden devices and groups."""
    instance = tiny_instance(random)
    devices = [one.name for one in instance.system.devices]
    operations = [one.name for one in instance.graph.operations if one.role == "compute"]
    system = instance.system
    if instance.task.objective == "step_time" and random.random() < 0.6:
        pairs = [(a, b) for a in devices for b in devices if a != b and random.random() < 0.4]
        system = system.replace(links=None, routes=tuple(Route(source=a, target=b) for a, b in pairs))
    sizes = [None if one.memory_bytes is None else random.randint(0, 2 * one.memory_bytes) for one in system.devices]
    machines = tuple(one.replace(memory_bytes=size) for one, size in zip(system.devices, sizes, strict=True))
    pinned = random.sample(operations, random.randint(0, len(operations)))
    found = instance.replace(
        system=system.replace(devices=machines),
        pins=tuple(Pin(operation=name, device=random.choice(devices)) for name in pinned),
        forbidden=tuple(Forbidden(operation=name, devices=(random.choice(devices),)) for name in operations[:1]),
        together=(*instance.together, tuple(random.sample(operations, min(len(operations), random.choice((0, 2)))))),
    )
    try:
        found.check()
    except InputError:
        return None
    return found


def test_what_is_impossible_at_once_has_no_placement() -> None:
    random, seen, sound = Random(14), dict[str, int](), 0
    while sound < 400:
        instance = spoilt(random)
        if instance is None:
            continue
        sound += 1
        problem = placement_problem(instance)
        reasons = list(impossible(problem))
        if not reasons:
            continue
        tried = list(islice(candidates(instance), MOST + 1))
        assert len(tried) <= MOST
        assert not any(check(instance, one).feasible for one in tried), reasons
        for one in reasons:
            assert one.demand > one.limit and one.remedies
            seen[f"{one.label} {one.message.split()[0]}"] = seen.get(f"{one.label} {one.message.split()[0]}", 0) + 1
    kinds = [sum(count for text, count in seen.items() if text.startswith(start)) for start in ("C1 ", "C3 ", "C6 ")]
    assert min(kinds) >= 5, seen


def reasons_of(instance: PlacementInstance) -> list[str]:
    """The messages of an instance."""
    return [one.message for one in impossible(placement_problem(instance))]


def test_a_device_that_is_too_small_for_what_may_run_nowhere_else() -> None:
    """v0 and v1 are pinned to d0 and hold 6 bytes each; a weight that both read is there once."""
    pins = (Pin(operation="v0", device="d0"), Pin(operation="v1", device="d0"))
    tight = made([(1, 6, 0), (1, 6, 0), (1, 0, 0)], [], memory=11, pins=pins)
    assert reasons_of(tight) == ["device 'd0' has 11 bytes, what may run nowhere else holds 12"]
    fits = made([(1, 6, 0), (1, 6, 0), (1, 0, 0)], [], memory=12, pins=pins)
    assert not reasons_of(fits)
    shared = made([(0, 0, 6), (1, 0, 0), (1, 0, 0)], [(0, 1), (0, 2)], memory=6)
    graph = shared.graph.replace(
        operations=(shared.graph.operations[0].replace(role="constant"), *shared.graph.operations[1:])
    )
    pins = (Pin(operation="v1", device="d0"), Pin(operation="v2", device="d0"))
    assert not reasons_of(shared.replace(graph=graph, pins=pins))


def test_routes_are_followed_from_pin_to_pin() -> None:
    """Without routes a chain stays on one device, so that its pinned ends can't be apart."""
    ends = (Pin(operation="v0", device="d0"), Pin(operation="v2", device="d1"))
    (said,) = reasons_of(made([(1, 0, 1)] * 3, CHAIN, links=None, pins=ends))
    assert said == "'v1' reads 'v0', but no route leads from 'd0' to 'd1'"
    assert not reasons_of(made([(1, 0, 1)] * 3, CHAIN, pins=ends))
    assert not reasons_of(made([(1, 0, 1)] * 3, [(0, 1)], links=None, pins=ends))


@pytest.mark.parametrize("task", [{}, throughput()], ids=["step time", "throughput"])
def test_only_the_largest_operation_is_named(task: dict[str, object]) -> None:
    said = reasons_of(made([(1, 20, 0), (1, 30, 0), (1, 1, 0)], FORK, memory=25, task=task))
    assert said == ["operation 'v1' needs 30 bytes at a time, no device that may run it has more than 25", said[1]]
    said = reasons_of(made([(1, 40, 0), (1, 30, 0), (1, 1, 0)], FORK, memory=25, task=task))
    assert said[0].startswith("operation 'v0' needs 40 bytes") and said[0].endswith("(there is 1 more such operation)")


def test_groups_that_share_an_operation_count_as_one() -> None:
    """v0 with v1 and v1 with v2, but v0 and v2 are pinned apart."""
    pins = (Pin(operation="v0", device="d0"), Pin(operation="v2", device="d1"))
    groups = (("v0", "v1"), ("v1", "v2"))
    with pytest.raises(
        InputError, match=r"together\[1\]: with the groups that share operations with it, its"
    ) as raised:
        made([(1, 0, 1)] * 3, CHAIN, pins=pins, together=groups)
    assert "('v0' to 'd0', 'v2' to 'd1' are pinned)" in raised.value.what and raised.value.remedy
    made([(1, 0, 1)] * 3, CHAIN, pins=pins, together=groups[:1])
