"""Random instances and solutions with all that the page of ``placement`` knows.

Views, constants, inputs, dead operations, outputs, roofline and measured times, classes, routes, gaps, pins, groups;
solutions that mostly hold, and tampered ones.
"""

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
    PlacementSolution,
    Route,
    System,
    Task,
    Transfer,
)
from chipmap.networks.graph import Operation, OperationGraph, Role, Tensor
from chipmap.records import InputError
from tests.placement.page import Page

#: Roles of operations, by how often they occur.
ROLES: tuple[Role, ...] = (*("compute",) * 5, "constant", "view", "view", "input")  # type: ignore[assignment]


def page_graph(random: Random) -> OperationGraph:
    """Three to eight operations; views rename, constants read nothing, some tensors are outputs."""
    ops, tensors, readers = list[Operation](), list[dict[str, Any]](), list[list[int]]()
    for v in range(random.randint(3, 8)):
        role: Role = random.choice(ROLES) if v else "compute"
        size = random.choice((0, 1, 3)) if role == "compute" else 0
        moved = random.choice((None, None, 7)) if role == "compute" else None
        kind = random.choice(("matmul", "add"))
        name = f"v{v}"
        flop = random.choice((0, 9, 40)) if role == "compute" else 0
        ops.append(Operation(name=name, kind=kind, role=role, flop=flop, weight_bytes=size, moved_bytes=moved))
        if role in ("compute", "view"):
            reads = [t for t in range(len(tensors)) if random.random() < 0.4]
            reads = reads or ([random.randrange(len(tensors))] if role == "view" else [])
            for t in reads:
                readers[t].append(v)
        for _ in range(random.choice((1, 1, 1, 2))):
            output = random.random() < 0.25 and role != "input"
            tensors.append({"producer": v, "bytes": random.randint(0, 6), "output": output})
            readers.append([])
    made = [Tensor(**one, readers=tuple(read)) for one, read in zip(tensors, readers, strict=True)]
    return OperationGraph.checked("page", ops, made)


def page_instance(random: Random) -> PlacementInstance:
    """An instance that is valid; what can't be is drawn again."""
    while True:
        try:
            instance = _drawn(random)
            instance.check()
        except InputError:
            continue
        if Page(instance).placed:
            return instance


def _drawn(random: Random) -> PlacementInstance:
    graph, count = page_graph(random), random.choice((1, 2, 2, 3))
    timed, weights = random.random() < 0.7, random.choice(("replicate", "variable"))
    memory = random.choice(("none", "static", "live") if timed else ("none", "static"))
    task: dict[str, Any] = {"objective": "step_time" if timed else "throughput", "memory": memory, "weights": weights}
    if timed:
        task |= {"limit_ns": random.choice((None, None, 40))}
    else:
        task |= {"contiguous": random.random() < 0.5, "overlap": random.random() < 0.5}
    fast = DeviceClass(
        name="a", flop_per_ns=4.0, memory_bytes_per_ns=random.choice((2.0, 0.7)), gap_ns=random.choice((0, 2))
    )
    slow = DeviceClass(
        name="b",
        flop_per_ns=3.0,
        launch_ns=random.choice((0.0, 1.5)),
        efficiency={"matmul": 0.3},
        gap_ns=random.choice((0, 3)),
        supports=random.choice((None, None, ("matmul", "add"), ("add",))),
        pays_transfers=random.random() < 0.5,
    )
    room = random.choice((None, 5, 9, 14))
    devices = [
        Device(name=f"d{d}", kind=random.choice("ab"), memory_bytes=room, host=random.choice("xy"))
        for d in range(count)
    ]
    names, computing = [one.name for one in devices], [one.name for one in graph.operations if one.role == "compute"]
    links = Links(
        kind=random.choice(("none", "pair", "bus", "duplex", "host")),  # type: ignore[arg-type]
        latency_ns=random.choice((0.0, 1.0, 0.3)),
        bytes_per_ns=random.choice((None, 1.0, 0.7)),
        gap_ns=random.choice((0, 0, 2)),
    )
    routes = [
        Route(source=a, target=b, latency_ns=2.0, bytes_per_ns=2.0, channels=("x", "y"), gap_ns=random.choice((0, 1)))
        for a in names
        for b in names
        if a != b and timed and random.random() < 0.25
    ]
    more: dict[str, Any] = {}
    if random.random() < 0.3:
        more["time_ns"] = {"a": tuple(random.choice((None, 0.0, 2.0, 3.2)) for _ in graph.operations)}
    if random.random() < 0.3:
        more["transfer_ns"] = tuple(random.choice((None, 0.0, 1.5)) for _ in graph.tensors)
    if random.random() < 0.3 and len(computing) > 1:
        more["together"] = (tuple(random.sample(computing, 2)),)
    if random.random() < 0.3:
        more["pins"] = (Pin(operation=random.choice(computing), device=random.choice(names)),)
    if random.random() < 0.3:
        more["forbidden"] = (Forbidden(operation=random.choice(computing), devices=(random.choice(names),)),)
    if random.random() < 0.4:
        more["backward"] = (random.choice(computing),)
    classes = tuple({"a": fast, "b": slow}[kind] for kind in sorted({one.kind for one in devices} | {"a"}))
    linked = None if timed and random.random() < 0.1 else links
    system = System(classes=classes, devices=tuple(devices), links=linked, routes=tuple(routes))
    return PlacementInstance(name="page", task=Task(**task), graph=graph, system=system, **more)


def page_solution(page: Page, random: Random) -> PlacementSolution:
    """Devices at random, and starts one after the other as early as the page allows (memory apart)."""
    on = dict[int, str]()
    for v in page.placed:
        fine = [d for d in page.device if page.may_run(v, d)]
        on[v] = random.choice(fine)
    for group in page.instance.together:
        members = [page.at[name] for name in group if page.at[name] in on]
        if random.random() < 0.9:
            common = [d for d in page.device if all(page.may_run(v, d) for v in members)]
            on |= dict.fromkeys(members, random.choice(common))
    names = {page.ops[v].name: d for v, d in on.items()}
    if page.task.objective == "throughput":
        return PlacementSolution(instance="page", devices=names)
    start, free, moves, there = dict[int, int](), dict[str, int](), list[Transfer](), dict[tuple[int, str], int]()
    for v in (v for v in page.graph.topological_order() if v in on):
        d = on[v]
        ready = [start[s.maker] + page.time(s.maker, d) for s in page.storages if v in s.readers and on[s.maker] == d]
        ready += [there[s.tensor, d] for s in page.storages if v in s.readers and on[s.maker] != d]
        p, late = page.time(v, d), random.choice((0, 0, 0, 1))
        start[v] = max([0, *ready, *([free.get(f"on {d}", 0)] if p else [])]) + late
        if p:
            free[f"on {d}"] = start[v] + p + page.kind[page.device[d].kind].gap_ns
        for one in (s for s in page.storages if s.maker == v):
            for to in sorted({on[w] for w in one.readers} - {d}):
                route = page.route(d, to)
                c = 0 if route is None else page.send(one, route)
                held = list(route.channels) if route is not None and c + route.gap_ns else []
                at = max([start[v] + p, *(free.get(channel, 0) for channel in held)]) + random.choice((0, 0, 1))
                free |= dict.fromkeys(held, at + c + (route.gap_ns if route is not None else 0))
                there[one.tensor, to] = at + c
                moves.append(Transfer(tensor=one.tensor, to=to, start=at))
    starts = {page.ops[v].name: at for v, at in start.items()}
    return PlacementSolution(instance="page", devices=names, start=starts, transfers=tuple(moves))


def tampered(solution: PlacementSolution, page: Page, random: Random) -> PlacementSolution:
    """One start, transfer or device is another."""
    what, names = random.randrange(6), sorted(solution.devices)
    name = random.choice(names)
    if what == 0:
        return solution.replace(devices={**solution.devices, name: random.choice([*page.device])})
    if what in (1, 2) and solution.start:
        return solution.replace(
            start={**solution.start, name: solution.start[name] + random.choice((-3, -2, -1, 1, 4))}
        )
    if what in (3, 4) and solution.transfers:
        moves = list(solution.transfers)
        i = random.randrange(len(moves))
        moves[i] = moves[i].replace(start=moves[i].start + random.choice((-2, -1, 1, 3)))
        return solution.replace(transfers=tuple(moves))
    if what == 5 and solution.transfers:
        return solution.replace(transfers=solution.transfers[1:])
    return solution.replace(devices={k: d for k, d in solution.devices.items() if k != name})
