"""Small random instances of family ``ring`` with everything that the page allows, for tests of this family.

The conformance suite calls ``variants``, ``infeasible`` and ``tiny_instance``.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

from chipmap.instances.ring import Forbidden, Package, Pin, RingInstance, RingSolution
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.validation.ring.facts import facts

LABELS = ("C1", "C2", "C3", "C4")
MODES = ("period", "sum", "sum_forward")
KINDS = ("matmul", "add")
SIZES = (0, 1, 3, 64, 100, 999)


def random_graph(random: Random, operations: int) -> OperationGraph:
    """A graph with views (of views), shared constants, inputs, several outputs per operation, and dead operations."""
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
    graph = OperationGraph(
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
    return with_shared(Random(graph.content_hash), graph)


def with_shared(random: Random, graph: OperationGraph) -> OperationGraph:
    """The graph with up to two more constants, large ones with several readers, some of these by way of a view."""
    operations, tensors = list(graph.operations), list(graph.tensors)
    computing = [v for v, operation in enumerate(operations) if operation.role == "compute"]
    for number in range(random.choice((0, 1, 1, 2)) if len(computing) > 1 else 0):
        readers = random.sample(computing, k=random.randint(2, min(4, len(computing))))
        viewed = readers[: random.choice((0, 0, 1, 2))]
        direct = readers[len(viewed) :] + readers[:1] * random.randrange(2)
        place = len(operations)
        operations.append(Operation(name=f"shared{number}", kind="k", role="constant"))
        if viewed:
            operations.append(Operation(name=f"view{number}", kind="k", role="view"))
            tensors.append(Tensor(producer=place + 1, readers=tuple(viewed), bytes=random.choice(SIZES)))
            direct.append(place + 1)
        tensors.append(Tensor(producer=place, readers=tuple(direct), bytes=random.choice((0, 150, 640, 1300))))
    return graph.replace(operations=operations, tensors=tensors)


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
    made: dict[str, Any] = {
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


def tiny_instance(random: Random) -> RingInstance:
    """Any instance that brute force can solve, for the conformance suite."""
    return random_instance(random, operations=8, chips=3)


def variants() -> dict[str, RingInstance]:
    """Tiny instances for the conformance suite: every subset of C1 to C4 in every cost mode, and the smallest."""
    nothing = OperationGraph(name="nothing", operations=(Operation(name="w", kind="k", role="constant"),))
    one = OperationGraph(name="one", operations=(Operation(name="a", kind="k", flop=5),))
    found = {
        "nothing to place": RingInstance(name="nothing", graph=nothing, package=Package(chips=2)),
        "one operation": RingInstance(name="one", graph=one, package=Package(chips=2, flop_per_ns=1.0)),
        "one chip": _interesting(Random("one chip"), name="one chip", constraints=LABELS).replace(
            package=Package(chips=1), pins=(), forbidden=()
        ),
    }
    for bits in range(16):
        constraints = tuple(label for bit, label in enumerate(LABELS) if bits >> bit & 1)
        for mode in MODES:
            name = f"{'+'.join(constraints) or 'none'}-{mode}"
            found[name] = _interesting(Random(name), name=name, constraints=constraints, cost_mode=mode)
            if mode == "period" and "C4" in constraints:
                found[f"{name}-full"] = found[name].replace(name=f"{name}-full", memory_grade="full")
    for mode in MODES:
        free = found[f"C1+C2-{mode}"]
        computing = [one.name for one in free.graph.operations if one.role == "compute"]
        found[f"apart-{mode}"] = free.replace(name=f"apart-{mode}", apart=(tuple(computing[:2]), tuple(computing[-2:])))
    return found


def _interesting(random: Random, **fields: Any) -> RingInstance:
    """A random instance that is small enough for brute force and large enough to say something."""
    if random.random() < 0.5:
        return _skip_chain(random, **fields)
    while True:
        instance = random_instance(random, operations=10, chips=3, **fields)
        known = facts(instance)
        if instance.package.chips > 1 and 4 <= len(known.computing) <= 6 and len(known.stored) > 2:
            sram = sum(known.weights.values()) + sum(stored.bytes for stored in known.stored)
            sram += sum(constant.bytes for constant in known.constants)
            return instance.replace(package=instance.package.replace(sram_bytes=sram * random.choice((2, 3, 4)) // 4))


def _skip_chain(random: Random, **fields: Any) -> RingInstance:
    """A chain of 5 operations with skip connections, whose triangles cost something; pins tempt to skip chips."""
    skips = random.sample([(u, v) for u in range(5) for v in range(u + 2, 5)], k=random.randint(1, 2))
    edges = [(u, u + 1) for u in range(4)] + skips
    graph = OperationGraph(
        name="skip chain",
        operations=tuple(
            Operation(name=f"op{v}", kind="k", flop=random.randint(5, 20), weight_bytes=random.randint(0, 9))
            for v in range(5)
        ),
        tensors=tuple(Tensor(producer=u, readers=(v,), bytes=random.randint(0, 3)) for u, v in edges),
    )
    package = Package(
        chips=3,
        flop_per_ns=1.0,
        sram_bytes=random.choice((1000, 1000, 30)),
        link_bytes_per_ns=random.choice((None, 1.0, 0.3)),
    )
    pins = (Pin(operation=f"op{random.randrange(5)}", chip=2),) if random.random() < 0.4 else ()
    forbidden = (Forbidden(operation=f"op{random.randrange(5)}", chips=(1,)),) if random.random() < 0.4 else ()
    return RingInstance(graph=graph, package=package, pins=pins, forbidden=forbidden, **fields)


def infeasible() -> dict[str, tuple[tuple[str, ...], RingInstance]]:
    """Instances without a solution, with the labels that can't hold together (without one of them, they can)."""
    pair = OperationGraph(
        name="pair",
        operations=(Operation(name="a", kind="k", flop=4, weight_bytes=9), Operation(name="b", kind="k", flop=4)),
        tensors=(Tensor(producer=0, readers=(1,), bytes=2),),
    )
    three = Package(chips=3, flop_per_ns=1.0)
    backwards = (Pin(operation="a", chip=1), Pin(operation="b", chip=0))
    limits: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
        "memory": (("C4",), {"package": three.replace(sram_bytes=8)}),
        "no chip left": (("C0",), {"forbidden": (Forbidden(operation="b", chips=(0, 1, 2)),)}),
        "pins against the flow": (("C0", "C1"), {"pins": backwards}),
        "pins that skip": (("C0", "C2"), {"pins": (Pin(operation="a", chip=2),)}),
        "pins that make a triangle": (("C0", "C3"), {"graph": _triangle(), "pins": tuple(_spread("abc"))}),
    }
    made: dict[str, Any] = {"graph": pair, "package": three}
    return {
        name: (labels, RingInstance(**({"name": name} | made | fields))) for name, (labels, fields) in limits.items()
    }


def _triangle() -> OperationGraph:
    return OperationGraph(
        name="triangle",
        operations=tuple(Operation(name=name, kind="k", flop=4) for name in "abc"),
        tensors=(Tensor(producer=0, readers=(1, 2), bytes=2), Tensor(producer=1, readers=(2,), bytes=2)),
    )


def _spread(names: str) -> Iterator[Pin]:
    return (Pin(operation=name, chip=chip) for chip, name in enumerate(names))
