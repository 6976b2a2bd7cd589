"""Small random instances of family ``ring`` with everything that the page allows, for tests of this family.

``random_instance`` is also what the conformance suite calls: ``tests/<family>/random_instances.py``.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from chipmap.instances.graph import Operation, OperationGraph, Tensor
from chipmap.instances.ring import Forbidden, Package, Pin, RingInstance, RingSolution

LABELS = ("C1", "C2", "C3", "C4")
MODES = ("period", "sum", "sum_forward")
KINDS = ("matmul", "add")
SIZES = (0, 1, 3, 64, 100, 999)


def random_graph(random: Random, operations: int) -> OperationGraph:
    """A graph with views (of views), constants, inputs, several outputs per operation, and dead operations."""
    roles: list[str] = []
    tensors: list[dict[str, Any]] = []
    makers: list[int] = []
    fixed: list[bool] = []  # known before the network runs: constants, and views of nothing else
    for v in range(operations):
        role = random.choices(("compute", "view", "constant", "input"), (14, 3, 2, 1))[0]
        choice = [t for t in range(len(tensors)) if role != "constant" or fixed[t]]
        wanted = {"compute": (0, 1, 2, 2, 3), "view": (0, 1, 1, 2), "constant": (0, 0, 1), "input": (0,)}[role]
        reads = {random.choice(choice) for _ in range(random.choice(wanted))} if choice else set()
        for t in sorted(reads):
            tensors[t]["readers"] += [v] * random.choice((1, 1, 1, 2))
        known = role == "constant" or (role == "view" and bool(reads) and all(fixed[t] for t in reads))
        roles.append(role)
        for _ in range(random.choice((0, 1, 1, 1, 1, 1, 2))):
            tensors.append({"readers": [], "bytes": random.choice(SIZES), "output": False})
            makers.append(v)
            fixed.append(known)
    if random.random() < 0.4:
        for tensor in tensors:
            tensor["output"] = random.random() < (0.2 if tensor["readers"] else 0.7)
    place = random.sample(range(operations), operations)  # positions need not be topological
    made = [
        Operation(
            name=f"op{v}",
            kind=random.choice(KINDS),
            role=role,  # type: ignore[arg-type]
            flop=random.choice((0, 1, 10, 997, 5000)),
            weight_bytes=random.choice((0, 0, 7, 640)),
        )
        for v, role in enumerate(roles)
    ]
    return OperationGraph(
        name="random",
        operations=tuple(operation for _, operation in sorted(zip(place, made, strict=True), key=lambda pair: pair[0])),
        tensors=tuple(
            Tensor(
                producer=place[maker],
                readers=tuple(place[v] for v in tensor["readers"]),
                bytes=tensor["bytes"],
                output=tensor["output"],
            )
            for maker, tensor in zip(makers, tensors, strict=True)
        ),
    )


def random_instance(
    random: Random, *, operations: int = 7, chips: int = 3, side: bool = True, **fields: Any
) -> RingInstance:
    """A valid instance with 1 to ``operations`` operations on 1 to ``chips`` chips.

    ``side`` says whether pins, groups and forbidden chips may occur; ``fields`` replaces fields of the instance.
    """
    graph = random_graph(random, operations - random.randrange(operations) * random.randrange(2))
    count = random.randint(1, chips)
    package = Package(
        chips=count,
        sram_bytes=random.choice((10**9, 10**9, 4000, 1500)),
        link_bytes_per_ns=random.choice((None, 32.0, 1.0, 0.3)),
        hop_ns=random.choice((0.0, 1000.0)),
        flop_per_ns=random.choice((4000.0, 10.0, 0.7)),
        sram_bytes_per_ns=random.choice((200.0, 9.5)),
        launch_ns=random.choice((0.0, 0.1, 3.0)),
        efficiency=random.choice(({}, {"matmul": 0.3})),
    )
    timed = random.random() < 0.3
    times = tuple(random.choice((None, 0.0, 0.07, 12.5)) for _ in graph.operations) if timed else None
    names = [operation.name for operation in graph.operations if operation.role == "compute"]
    limits: dict[str, Any] = {}
    if side and names and random.random() < 0.5:
        limits["pins"] = tuple(
            Pin(operation=random.choice(names), chip=random.randrange(count)) for _ in range(random.randrange(2))
        )
        limits["together"] = tuple(
            tuple(random.choice(names) for _ in range(random.randint(1, 3))) for _ in range(random.randrange(3))
        )
        limits["forbidden"] = tuple(
            Forbidden(operation=random.choice(names), chips=(random.randrange(count),))
            for _ in range(random.randrange(2))
        )
    made = {
        "name": "random",
        "graph": graph,
        "package": package,
        "cost_mode": random.choice(MODES),
        "traffic": random.choice(("in_out", "twice_out")),
        "constraints": tuple(label for label in LABELS if random.random() < 0.7),
        "time_ns": times,
    }
    instance = RingInstance(**(made | limits | fields))
    instance.check()
    return instance


def random_solution(random: Random, instance: RingInstance) -> RingSolution:
    """Any mapping within the package, valid or not."""
    chips = instance.package.chips
    return RingSolution(instance=instance.name, chips=tuple(random.randrange(chips) for _ in instance.graph.operations))


#: Seeds of random instances: hypothesis reports the one that fails.
seeds = st.integers(0, 2**32 - 1)
