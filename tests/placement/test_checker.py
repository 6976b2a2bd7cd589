"""The checker: each label by a change that breaks just it, the words of memory, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chipmap.instances.placement import (
    Device,
    DeviceClass,
    Forbidden,
    Links,
    Pin,
    PlacementInstance,
    PlacementSolution,
    Route,
    System,
    Transfer,
)
from chipmap.instances.placement.system import LinkKind, routes_of
from chipmap.networks.graph import OperationGraph, Tensor
from chipmap.records import InputError
from chipmap.validation.placement.checker import check
from chipmap.validation.placement.facts import looked_up
from chipmap.validation.placement.memory import memory
from tests.placement.random_instances import CHAIN, FORK, made, throughput

ROWS = [(4, 1, 3), (5, 2, 2), (3, 1, 0)]
HOME = {"v0": "d0", "v1": "d0", "v2": "d1"}


def solution(start: tuple[int, int, int], sent: tuple[int, int], devices: dict[str, str] = HOME) -> PlacementSolution:
    """v0 and v1 on d0, v2 on d1, which reads both; ``sent``: the starts of the two transfers."""
    moves = tuple(Transfer(tensor=t, to="d1", start=at) for t, at in enumerate(sent))
    starts = {f"v{v}": at for v, at in enumerate(start)}
    return PlacementSolution(instance="made", devices=devices, start=starts, transfers=moves)


def broken(instance: PlacementInstance, wrong: PlacementSolution) -> set[str]:
    """The labels that the checker names; each with a place and words."""
    violations = check(instance, wrong).violations
    assert all(one.where and one.message and one.amount > 0 for one in violations)
    return {one.label for one in violations}


def test_a_valid_schedule() -> None:
    """v0 0 to 4, v1 4 to 9, sent 4 to 7 and 9 to 11, v2 11 to 14; 5 bytes are sent to 2 devices in use."""
    certificate = check(made(ROWS, FORK), solution((0, 4, 11), (4, 9)))
    assert certificate.feasible and certificate.terms == {"T1": 14} and certificate.objective == 14
    assert certificate.figures == {"devices": 2.0, "sent_bytes": 5.0}


@pytest.mark.parametrize(
    ("label", "instance", "wrong"),
    [
        ("C0", made(ROWS, FORK), solution((-1, 4, 11), (4, 9))),
        ("C0", made(ROWS, FORK), solution((0, 4, 11), (4, 9), {**HOME, "v1": "nowhere"})),
        ("C0", made(ROWS, FORK), PlacementSolution(devices=HOME, start={"v0": 0, "v1": 4, "v2": 11})),
        ("C0", made(ROWS, FORK, pins=(Pin(operation="v0", device="d1"),)), solution((0, 4, 11), (4, 9))),
        ("C0", made(ROWS, FORK, task={"limit_ns": 13}), solution((0, 4, 11), (4, 9))),
        ("C0", made(ROWS, FORK, task=throughput(memory="none")), solution((0, 4, 11), (4, 9))),
        ("C1", made(ROWS, FORK, together=(("v1", "v2"),)), solution((0, 4, 11), (4, 9))),
        ("C2", made(ROWS, [(0, 1), (0, 2), (1, 2)]), solution((5, 0, 11), (9, 6))),
        ("C3", made(ROWS, FORK), solution((0, 4, 10), (4, 9))),
        ("C3", made(ROWS, FORK), solution((0, 4, 11), (4, 8))),
        ("C4", made(ROWS, FORK), solution((0, 3, 11), (4, 8))),
        ("C5", made([(1, 0, 3), (1, 0, 3), (1, 0, 0)], FORK), solution((0, 1, 5), (1, 2))),
    ],
)
def test_a_change_breaks_just_one_constraint(label: str, instance: PlacementInstance, wrong: PlacementSolution) -> None:
    if label == "C2":  # v1 reads v0 on its own device, but runs before it
        assert broken(instance, wrong) >= {"C2"}
    else:
        assert broken(instance, wrong) == {label}


def test_a_missing_route_is_named() -> None:
    (violation, *_) = check(made(ROWS, FORK, links=None), solution((0, 4, 11), (4, 9))).violations
    assert violation.label == "C3" and "no route" in violation.message and "'d1'" in violation.message


@pytest.mark.parametrize(("memory", "fits"), [(8, True), (7, False)])
def test_memory_over_time_is_counted_by_hand(memory: int, fits: bool) -> None:
    """On d0 3 bytes of weights rest, and v0's 3 are freed at 7; v1's 2 come at 4: at most 8, from 4 to 7."""
    certificate = check(made(ROWS, FORK, memory=memory), solution((0, 4, 11), (4, 9)))
    assert certificate.feasible == fits
    if not fits:
        (violation,) = certificate.violations
        assert (violation.label, violation.amount, violation.unit) == ("C6", 1, "bytes")
        assert "holds 8 bytes at 4 ns" in violation.message and "output of 'v0' (3)" in violation.message


def test_static_memory_adds_all_up() -> None:
    """On d0 3 bytes of weights and 5 of outputs, on d1 1 of weights, 5 of copies and 0 of output."""
    task = {"memory": "static"}
    assert check(made(ROWS, FORK, memory=8, task=task), solution((0, 4, 11), (4, 9))).feasible
    assert broken(made(ROWS, FORK, memory=7, task=task), solution((0, 4, 11), (4, 9))) == {"C6"}


def test_sums_above_64_bits_are_exact() -> None:
    """10,000 outputs of 10^15 bytes each, and one transfer that starts after 2^62 ns."""
    many = made([(1, 0, 10**15)] * 10_000, [], devices=1, task={"memory": "static"})
    names = [operation.name for operation in many.graph.operations]
    placed = PlacementSolution(devices=dict.fromkeys(names, "d0"), start={name: v for v, name in enumerate(names)})
    assert check(many, placed).figures["peak_bytes d0"] == 10.0**19
    late = made(ROWS, FORK, memory=8)
    certificate = check(late, solution((0, 4, 2**63 - 1), (4, 2**62)))
    assert certificate.feasible and certificate.terms == {"T1": 2**63 + 2}


def test_times_that_are_no_whole_numbers_are_summed_as_they_are() -> None:
    """No file has them, but a caller may: 5 and 4 bytes share half a ns."""
    two = made([(1, 0, 5), (1, 0, 4)], [], devices=1, memory=8)
    for late, most in ((1.0, 5.0), (0.5, 9.0)):
        start: Any = {"v0": 0, "v1": late}
        placed = PlacementSolution(devices={"v0": "d0", "v1": "d0"}, start=start)
        assert check(two, placed).figures["peak_bytes d0"] == most


def test_a_tensor_that_is_not_sent_has_no_memory() -> None:
    instance, moved = made(ROWS, FORK, memory=8), solution((0, 0, 12), (4, 5))
    for transfers in ((), moved.transfers[:1]):
        with pytest.raises(KeyError, match="isn't sent"):
            memory(instance, moved.replace(transfers=transfers))


def test_what_is_looked_up_before_changes_nothing() -> None:
    instance, wrong = made(ROWS, FORK, memory=7), solution((0, 4, 11), (4, 8))
    certificate, again = check(instance, wrong), made(ROWS, FORK, memory=7)
    looked_up(again)
    assert check(again, wrong) == certificate and {one.label for one in certificate.violations} == {"C3", "C6"}


def test_blocks_in_a_circle() -> None:
    instance = made(ROWS, CHAIN, task=throughput(contiguous=True, memory="none"))
    wrong = PlacementSolution(devices={"v0": "d0", "v1": "d1", "v2": "d0"})
    assert broken(instance, wrong) == {"C7"}
    assert not broken(instance.replace(backward=["v2"]), wrong)


def test_a_load_by_hand() -> None:
    """d0: 4 + 5 and 3 + 2 sent once each; d1: 3 and 5 received; side by side the larger sums."""
    placed = PlacementSolution(devices=HOME)
    assert check(made(ROWS, FORK, task=throughput(memory="none")), placed).terms == {"T2": 14}
    assert check(made(ROWS, FORK, task=throughput(memory="none", overlap=True)), placed).terms == {"T2": 9}


@pytest.mark.parametrize(
    ("kind", "channels"),
    [
        ("none", [(), (), ()]),
        ("pair", [("a -> b",), ("a -> c",), ("c -> a",)]),
        ("bus", [("out of a",), ("out of a",), ("out of c",)]),
        ("duplex", [("out of a", "into b"), ("out of a", "into c"), ("out of c", "into a")]),
        ("host", [("x",), ("x", "y"), ("y", "x")]),
    ],
)
def test_shorthands_of_links(kind: LinkKind, channels: list[tuple[str, ...]]) -> None:
    """Devices a and b hang on switch x, c on y."""
    devices = tuple(Device(name=name, kind="gpu", host=host) for name, host in (("a", "x"), ("b", "x"), ("c", "y")))
    system = System(classes=(DeviceClass(name="gpu"),), devices=devices, links=Links(kind=kind, gap_ns=3))
    routes = routes_of(system)
    assert len(routes) == 6 and all(route.gap_ns == 3 for route in routes.values())
    assert [routes[pair].channels for pair in (("a", "b"), ("a", "c"), ("c", "a"))] == channels


def test_a_single_route_comes_before_the_shorthand() -> None:
    route = Route(source="d0", target="d1", latency_ns=7.0)
    system = made(ROWS, FORK).system.replace(routes=(route,))
    routes = routes_of(System.make(**{name: getattr(system, name) for name in system.__struct_fields__}))
    assert routes["d0", "d1"].latency_ns == 7.0 and routes["d1", "d0"].latency_ns == 0.0


def test_times_are_rounded_up_once() -> None:
    """1,000 FLOP at 0.7 of 10 per ns take ⌈142.9 + 5.5⌉; 30 bytes moved at 0.1 per ns take 300."""
    graph = made([(0, 10, 10), (0, 0, 0)], [(0, 1)]).graph
    rows = [
        {"name": "v0", "kind": "op", "flop": 1000, "weight_bytes": 10},
        {"name": "v1", "kind": "op", "flop": 1000},
    ]
    kind = DeviceClass(name="gpu", flop_per_ns=10.0, efficiency={"op": 0.7}, memory_bytes_per_ns=0.1, launch_ns=5.5)
    system = System(classes=(kind,), devices=(Device(name="d0", kind="gpu"),))
    instance = made(ROWS, FORK, 1).replace(graph=graph.replace(operations=rows), system=system, time_ns={})
    start = {"v0": 0, "v1": 206}
    placed = PlacementSolution(devices={"v0": "d0", "v1": "d0"}, start=start)
    assert check(instance, placed).terms == {"T1": 206 + 149}  # 20 bytes: 200 + 5.5; then 1,000 / 7 + 5.5


DEVICE = Device(name="d0", kind="a")
BAD: list[tuple[str, Callable[[], Any]]] = [
    ("no operation is called 'x'", lambda: made(ROWS, FORK, pins=(Pin(operation="x", device="d0"),))),
    ("no device is called 'x'", lambda: made(ROWS, FORK, pins=(Pin(operation="v0", device="x"),))),
    ("no device can run 'v0'", lambda: made(ROWS, FORK, forbidden=(Forbidden(operation="v0", devices=("d0", "d1")),))),
    (
        "no device in common",
        lambda: made(
            ROWS,
            FORK,
            pins=(Pin(operation="v0", device="d0"), Pin(operation="v1", device="d1")),
            together=(("v0", "v1"),),
        ),
    ),
    ("has 2 entries for 3 operations", lambda: made(ROWS, FORK).replace(time_ns={"gpu": [1, 2]}).check()),
    ("has 1 entry for 3 tensors", lambda: made(ROWS, FORK).replace(transfer_ns=[1]).check()),
    ("no class is called 'x'", lambda: made(ROWS, FORK).replace(time_ns={"x": [1, 2, 3]}).check()),
    ("has a cycle", lambda: made(ROWS, [(0, 1), (1, 0)])),
    ("'live' needs starts", lambda: made(ROWS, FORK, task=throughput(memory="live"))),
    ("is 0.0", lambda: made(ROWS, FORK, links=Links(bytes_per_ns=0.0))),
    ("is -1.0", lambda: made(ROWS, FORK, links=Links(latency_ns=-1.0))),
    ("has 65 devices", lambda: made(ROWS, FORK, 65)),
    (
        "is named twice",
        lambda: System(classes=(DeviceClass(name="a"), DeviceClass(name="a")), devices=(DEVICE,)).check(),
    ),
    ("no class is called 'a'", lambda: System(classes=(), devices=(DEVICE,)).check()),
]


@pytest.mark.parametrize(("what", "make"), BAD, ids=[what for what, _ in BAD])
def test_bad_input_is_named_with_place_and_remedy(what: str, make: Callable[[], Any]) -> None:
    with pytest.raises(InputError) as raised:
        make()
    assert what in raised.value.what and raised.value.where and raised.value.remedy


def test_an_operation_that_is_left_out_needs_no_device() -> None:
    """No output depends on v1 of kind debug, so it isn't placed, and no class needs to support it."""
    made_of = made(ROWS, FORK)
    tensors = (Tensor(producer=0, readers=(2,), bytes=4), Tensor(producer=2, bytes=4, output=True))
    operations = [one.replace(kind="debug") if one.name == "v1" else one for one in made_of.graph.operations]
    graph = OperationGraph.checked("left out", operations, tensors)
    kind = DeviceClass(name="gpu", supports=("op",))
    instance = made_of.replace(graph=graph, system=made_of.system.replace(classes=(kind,)), together=(("v0", "v1"),))
    instance.check()
    placed = PlacementSolution(devices={"v0": "d0", "v2": "d0"}, start={"v0": 0, "v2": ROWS[0][0]})
    assert check(instance, placed).feasible
    with pytest.raises(InputError, match="no device can run 'v1'"):
        instance.replace(graph=graph.replace(tensors=tensors[:1])).check()
