"""Tiny instances of family ``placement`` for the conformance suite and for its own tests."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.placement import (
    Device,
    DeviceClass,
    Forbidden,
    Links,
    Pin,
    PlacementInstance,
    Route,
    System,
    Task,
)
from chipmap.instances.placement.generators import random_instance
from chipmap.networks.graph import Operation, OperationGraph, Tensor

#: An operation of :func:`made`: its time in ns, its weights, the bytes of its output.
Row = tuple[int, int, int]
LINKS = Links(bytes_per_ns=1.0)


def made(
    rows: list[Row],
    edges: list[tuple[int, int]],
    devices: int = 2,
    links: Links | None = LINKS,
    memory: int | None = None,
    task: dict[str, Any] | None = None,
    **rest: Any,
) -> PlacementInstance:
    """Operations v0, v1, … on devices d0, d1, … of one class, with ``memory`` bytes each."""
    operations = [Operation(name=f"v{v}", kind="op", weight_bytes=weights) for v, (_, weights, _) in enumerate(rows)]
    tensors = [
        Tensor(producer=v, readers=tuple(b for a, b in edges if a == v), bytes=size)
        for v, (_, _, size) in enumerate(rows)
    ]
    machines = tuple(Device(name=f"d{d}", kind="gpu", memory_bytes=memory) for d in range(devices))
    fields = {"system": System(classes=(DeviceClass(name="gpu"),), devices=machines, links=links), **rest}
    instance = PlacementInstance(
        name="made",
        task=Task(**({"memory": "none"} if memory is None else {}) | (task or {})),
        graph=OperationGraph.checked("made", operations, tensors),
        time_ns={"gpu": tuple(float(time) for time, _, _ in rows)},
        **fields,
    )
    instance.check()
    return instance


def throughput(**task: Any) -> dict[str, Any]:
    """A task of objective throughput."""
    return {"objective": "throughput", "memory": "static", **task}


CHAIN, FORK = [(0, 1), (1, 2)], [(0, 2), (1, 2)]


def variants() -> dict[str, PlacementInstance]:
    """Each feature of the problem in a tiny instance."""
    tiny = [(4, 1, 3), (5, 2, 2), (3, 1, 0)]
    slow = Links(kind="bus", bytes_per_ns=1.0, gap_ns=4)
    return {
        "a pin": made(tiny, FORK, pins=(Pin(operation="v0", device="d1"), Pin(operation="v1", device="d0"))),
        "a forbidden device": made(tiny, CHAIN, forbidden=(Forbidden(operation="v1", devices=("d0",)),)),
        "a group": made(tiny, FORK, together=(("v0", "v2"),)),
        "apart": made(tiny, FORK, apart=(("v0", "v1"),)),
        "a load apart": made(tiny, CHAIN, apart=(("v1", "v2"),), task=throughput(memory="none")),
        "no links": made(tiny, FORK, links=None),
        "one route only": made(
            tiny,
            FORK,
            system=System(
                classes=(DeviceClass(name="gpu", gap_ns=2),),
                devices=(Device(name="d0", kind="gpu"), Device(name="d1", kind="gpu")),
                routes=(Route(source="d1", target="d0", latency_ns=1.0, channels=("a", "b"), gap_ns=3),),
            ),
        ),
        "a bus": made([(1, 0, 4), (1, 0, 3), (6, 0, 0), (6, 0, 0)], [(0, 2), (1, 3)], links=slow),
        "memory over time": made([(2, 0, 4), (3, 0, 4), (2, 0, 0)], CHAIN, memory=8),
        "memory binds": made([(9, 3, 1), (9, 3, 1), (1, 0, 1)], FORK, memory=7, task={"memory": "static"}),
        "a limit": made(tiny, FORK, task={"limit_ns": 12}),
        "a load": made(tiny, FORK, task=throughput(memory="none")),
        "blocks": made(
            [(3, 0, 1), (5, 0, 1), (3, 0, 1), (5, 0, 0)],
            [*CHAIN, (2, 3)],
            task=throughput(contiguous=True, memory="none"),
        ),
        "a backward operation": made(
            [(3, 0, 1), (5, 0, 1), (3, 0, 1)],
            CHAIN,
            task=throughput(contiguous=True, memory="none"),
            backward=("v2",),
            together=(("v0", "v2"),),
        ),
        "overlap": made([(5, 0, 4), (5, 0, 4), (5, 0, 4)], CHAIN, task=throughput(overlap=True, memory="none")),
        "a load with memory": made(tiny, FORK, memory=8, task=throughput()),
    }


def infeasible() -> dict[str, tuple[tuple[str, ...], PlacementInstance]]:
    """(labels that can't hold together, instance); without one of them there would be placements."""
    ends = (Pin(operation="v0", device="d0"), Pin(operation="v1", device="d0"), Pin(operation="v2", device="d1"))
    return {
        "a group larger than memory": (
            ("C1", "C6"),
            made([(1, 6, 0), (1, 6, 0)], [], memory=10, together=(("v0", "v1"),), task={"memory": "static"}),
        ),
        "no route between halves": (
            ("C3", "C6"),
            made([(1, 6, 0), (1, 6, 0)], [(0, 1)], memory=10, links=None, task={"memory": "static"}),
        ),
        "input and output larger than memory": (("C2", "C6"), made([(2, 0, 6), (2, 0, 6)], [(0, 1)], 1, memory=10)),
        "two operations on one device": (("C0", "C4"), made([(6, 0, 0), (6, 0, 0)], [], 1, task={"limit_ns": 11})),
        "two tensors on one channel": (
            ("C0", "C3", "C5"),
            made([(1, 0, 10), (1, 0, 10), (1, 0, 0)], FORK, pins=ends, task={"limit_ns": 21}),
        ),
        "blocks larger than memory": (
            ("C6", "C7"),
            made(
                [(1, 5, 0), (1, 6, 0), (1, 5, 0)],
                CHAIN,
                memory=10,
                task=throughput(contiguous=True),
            ),
        ),
    }


def tiny_instance(random: Random) -> PlacementInstance:
    """A random instance of two to five operations on one to three devices, of either objective."""
    objective = random.choice(("step_time", "step_time", "throughput"))
    devices, memory = random.choice((1, 2, 2, 2, 3)), random.choice((None, None, 0.6, 0.8, 1.1))
    rule = "none" if memory is None else "static" if objective == "throughput" else random.choice(("live", "static"))
    task: dict[str, Any] = {"objective": objective, "memory": rule, "weights": random.choice(("replicate", "variable"))}
    if objective == "throughput":
        task |= {"contiguous": random.random() < 0.4, "overlap": random.random() < 0.3}
    elif random.random() < 0.15:
        task["limit_ns"] = random.randint(8, 24)
    operations = random.randint(2, 5 if objective == "throughput" or devices == 1 else 4)
    return random_instance(
        operations=operations,
        devices=devices,
        classes=random.choice((1, 1, min(2, devices))),
        links=random.choice(("none", "pair", "bus", "duplex", "host")),
        edges=random.choice((0.3, 0.6, 0.9)),
        weights=random.choice((0, 0, 1)),
        gap_ns=random.choice((0, 0, 2)),
        memory=memory,
        together=random.choice((0, 0, 2)) if operations > 2 else 0,
        seed=random.randrange(10**6),
        task=task,
        name="random",
    )
