"""Pairs of family ``ring``: SRAM, chips and pins one unit apart. All mappings, by ``docs/families/ring.md``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

from benchmarks.infeasible.pairs import Labels, Pair, by_candidates
from chipmap.instances.ring import Package, Pin, RingInstance
from chipmap.networks.graph import Operation, OperationGraph, Tensor

#: Complete methods, then those that may prove infeasibility beside bounds.
COMPLETE = ("auto", "mip", "cpsat")
OTHERS = ("exact", "free", "n1", "bounds", "greedy", "cpsat-cold")
NAMES = "abcdef"


def broken(instance: RingInstance, chips: tuple[int, ...]) -> Labels:
    """The labels of C0 to C4 that a mapping breaks. All operations compute, but for constants, which read nothing."""
    graph, found = instance.graph, set[str]()
    computing = [v for v, operation in enumerate(graph.operations) if operation.role == "compute"]
    place = {graph.operations[v].name: chips[v] for v in computing}
    if any(place[pin.operation] != pin.chip for pin in instance.pins):
        found.add("C0")
    if any(len({place[name] for name in group}) > 1 for group in instance.together):
        found.add("C0")
    flows = {(t.producer, v) for t in graph.tensors if t.producer in computing for v in t.readers}
    if any(chips[u] > chips[v] for u, v in flows):
        found.add("C1")
    used = {chips[v] for v in computing}
    if used != set(range(len(used))):
        found.add("C2")
    direct = {(chips[u], chips[v]) for u, v in flows if chips[u] != chips[v]}
    reach = set(direct)
    for _ in used:
        reach |= {(a, d) for a, b in reach for c, d in reach if b == c}
    if any((a, c) in reach and a != c and c != b for a, b in direct for c, end in direct if end == b and c != a):
        found.add("C3")
    if any(held(instance, chips, c) > (instance.package.sram_bytes or 0) for c in range(instance.package.chips)):
        found.add("C4")
    return frozenset(found & {"C0", *instance.constraints})


def held(instance: RingInstance, chips: tuple[int, ...], chip: int) -> int:
    """Weights on the chip, constants that it reads once each, and twice the tensors that cross its boundary."""
    graph, total = instance.graph, 0
    for v, operation in enumerate(graph.operations):
        total += operation.weight_bytes if operation.role == "compute" and chips[v] == chip else 0
    for tensor in graph.tensors:
        readers = {chips[v] for v in tensor.readers}
        if graph.operations[tensor.producer].role == "constant":
            total += tensor.bytes if chip in readers else 0
        elif chips[tensor.producer] == chip:
            total += 2 * tensor.bytes if readers - {chip} else 0
        else:
            total += 2 * tensor.bytes if chip in readers else 0
    return total


def drawn(random: Random) -> RingInstance:
    """Four or five operations on two to four chips, perhaps a constant, a group and a pin."""
    count, shared = random.choice((4, 5)), random.random() < 0.3
    names = NAMES[:count]
    operations = [
        Operation(name=name, kind="k", flop=random.randint(1, 9), weight_bytes=random.choice((0, *range(1, 40))))
        for name in names
    ]
    tensors = []
    for u in range(count - 1):
        readers = tuple(v for v in range(u + 1, count) if random.random() < 0.45)
        tensors.append(Tensor(producer=u, readers=readers, bytes=random.randint(0, 12)))
    if shared:
        operations.append(Operation(name="table", kind="k", role="constant"))
        readers = tuple(sorted(random.sample(range(count), 2)))
        tensors.append(Tensor(producer=count, readers=readers, bytes=random.randint(1, 20)))
    chips = random.choice((2, 3, 3, 4)) if count == 4 else random.choice((2, 3))
    pins = (Pin(operation=random.choice(names), chip=random.randrange(chips)),) if random.random() < 0.4 else ()
    together = (tuple(random.sample(names, 2)),) if random.random() < 0.3 else ()
    return RingInstance(
        name="pair",
        graph=OperationGraph(name="pair", operations=tuple(operations), tensors=tuple(tensors)),
        package=Package(chips=chips, flop_per_ns=1.0, sram_bytes=10**6, link_bytes_per_ns=1.0),
        pins=pins,
        together=together,
        constraints=random.choice((("C1", "C2", "C3", "C4"),) * 3 + (("C1", "C2", "C4"), ("C1", "C3", "C4"))),
    )


def mappings(instance: RingInstance) -> list[tuple[int, ...]]:
    """All mappings of computing operations; constants count as on the first chip."""
    free = sum(operation.role == "compute" for operation in instance.graph.operations)
    rest = (0,) * (len(instance.graph.operations) - free)
    return [(*chips, *rest) for chips in product(range(instance.package.chips), repeat=free)]


def pair(random: Random) -> Pair | None:
    """A pair from a random instance; None where it gives none."""
    instance = drawn(random)
    listed = mappings(instance)
    valid = [chips for chips in listed if not broken(instance, chips)]
    what = random.choice(("SRAM", "SRAM", "SRAM", "chips", "pin"))
    if not valid:
        return None
    if what == "SRAM":
        chips = range(instance.package.chips)
        least = min(max(held(instance, one, c) for c in chips) for one in valid)
        if least == 0:
            return None
        near, tight = (_packaged(instance, sram_bytes=size) for size in (least, least - 1))
    elif what == "chips":
        # with the least SRAM for all chips, the fewest chips
        least = min(max(held(instance, one, c) for c in range(instance.package.chips)) for one in valid)
        near = _packaged(instance, sram_bytes=least)
        while near.package.chips > 1 and any(not broken(_fewer(near), one) for one in mappings(_fewer(near))):
            near = _fewer(near)
        if near.package.chips < 2 or any(pin.chip >= near.package.chips - 1 for pin in near.pins):
            return None
        tight = _fewer(near)
    else:
        name = random.choice(NAMES[:4])
        at = [chip for chip in range(instance.package.chips) if _pinned_valid(instance, listed, name, chip)]
        if not at or len(at) == instance.package.chips:
            return None
        ends = [chip for chip in range(instance.package.chips) if chip not in at and {chip - 1, chip + 1} & set(at)]
        other = ends[0]
        near = _pinned(instance, name, next(chip for chip in at if abs(chip - other) == 1))
        tight = _pinned(instance, name, other)
    return Pair(what, tight, near, frozenset(tight.constraints), by_candidates(_within(tight, mappings(tight))))


def _within(instance: RingInstance, listed: list[tuple[int, ...]]) -> Iterator[Labels]:
    """What each mapping within the domain breaks; one that leaves it breaks C0 as well."""
    return (broken(instance, chips) - {"C0"} for chips in listed if "C0" not in broken(instance, chips))


def _packaged(instance: RingInstance, **fields: int) -> RingInstance:
    return instance.replace(package=instance.package.replace(**fields))


def _fewer(instance: RingInstance) -> RingInstance:
    return _packaged(instance, chips=instance.package.chips - 1)


def _pinned(instance: RingInstance, name: str, chip: int) -> RingInstance:
    return instance.replace(pins=(Pin(operation=name, chip=chip),))


def _pinned_valid(instance: RingInstance, listed: list[tuple[int, ...]], name: str, chip: int) -> bool:
    pinned = _pinned(instance, name, chip)
    return any(not broken(pinned, chips) for chips in listed)
