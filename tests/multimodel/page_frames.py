"""Frames per second as ``docs/families/multimodel-frames.md`` has them: random tiny instances, and all their schedules.

Every mapping is listed, and for each one every frame is dropped or begun at every whole time, segment after segment.
Chiplets are busy or free in each ns of a hyperperiod.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from math import ceil, floor
from random import Random
from typing import Any, Literal

from chipmap.instances.multimodel.instance import Chiplet, Layer, Model, Module, MultiInstance, Pin, Task
from tests.multimodel.random_instances import SHAPES

#: (chiplet, first layer, last layer, ns) of a model's segments.
Mapping = tuple[tuple[int, int, int, int], ...]
#: Frames per second that a hyperperiod has one of; its length is 10⁹ of them, rounded down to 1 ns.
ONCE = (2.5e8, 2e8, 1.25e8, 1e8, 1.5e8)


def rated_instance(random: Random) -> MultiInstance:
    """One to three models on one to three chiplets, with what instances with rates may differ in."""
    number, links = random.choice([one for one in SHAPES.values() if one[0] <= 3])
    once = random.choice(ONCE)
    models: list[Model] = []
    for m in range(random.choice((1, 2, 2, 3))):
        layers = tuple(_layer(random, k) for k in range(random.choice((1, 1, 2, 3))))
        after = random.choice(models) if models and random.random() < 0.3 else None
        rate = once * random.choice((1, 1, 2, 3 if once < 3e8 else 1)) if after is None else after.frames_per_s
        batch = random.choice((1, 1, 2))
        deadline = random.choice((None, None, random.randint(1, 16)))
        release, weight = random.choice((0, 0, 1, 3)), random.choice((1, 1, 2, 5))
        models.append(
            Model(
                name=f"m{m}",
                batch=batch,
                mini_batch=batch,
                layers=layers,
                frames_per_s=rate,
                deadline_ns=deadline,
                release_ns=release,
                frame_weight=weight,
                after=after.name if after is not None else None,
            )
        )
    sram = random.choice((None, None, 4))
    chiplets = tuple(
        Chiplet(name=f"c{c}", kind=random.choice("NS"), hops=random.choice((0, 1)), sram_bytes=sram)
        for c in range(number)
    )
    times: dict[str, Any] = random.choice(({"hop_ns": 0, "dram_ns": 0}, {"hop_ns": 1, "dram_ns": 0}))
    rates = random.choice(({"dram_bytes_per_ns": 2.0, "nop_bytes_per_ns": 1.5}, {"dram_bytes_per_ns": 64.0}))
    pairs = tuple((f"c{a}", f"c{b}") for a, b in links)
    module = Module(chiplets=chiplets, links=pairs, **{**times, **rates})
    limit = random.choice((None, None, None, random.randint(2_000, 20_000)))
    charge: Literal["sender", "both"] = random.choice(("sender", "both"))
    task = Task(objective="frames", energy_limit_pj=limit, charge=charge)
    pins = (Pin(layer="m0/l0", chiplet=random.choice(chiplets).name),) if random.random() < 0.15 else ()
    return MultiInstance.make(name="rated", task=task, models=models, module=module, pins=pins)


def _layer(random: Random, k: int) -> Layer:
    costs = {kind: (random.choice((1, 1, 2, 3)), random.randint(10, 900)) for kind in "NS"}
    sizes = (random.choice((0, 0, 1, 2)) for _ in range(3))
    in_bytes, weight_bytes, out_bytes = sizes
    return Layer(name=f"l{k}", in_bytes=in_bytes, weight_bytes=weight_bytes, out_bytes=out_bytes, costs=costs)


def hyperperiod(instance: MultiInstance) -> tuple[int, list[int]]:
    """H, and how many frames each model has in it."""
    rates = [Fraction(str(model.frames_per_s)) for model in instance.models]
    most = min(rates)
    once = next(most / n for n in range(1, 100) if all((rate / (most / n)).denominator == 1 for rate in rates))
    return floor(Fraction(10**9) / once), [int(rate / once) for rate in rates]


def mappings(instance: MultiInstance, m: int) -> Iterator[tuple[Mapping, int]]:
    """The mappings of a model that keep C1, C3, C5 and C6, and each chiplet at most once; what a frame takes in pJ."""
    model, module = instance.models[m], instance.module
    links = {frozenset(link) for link in module.links}
    names = [one.name for one in module.chiplets]
    for count in range(1, min(len(model.layers), len(names)) + 1):
        for cuts in combinations(range(1, len(model.layers)), count - 1):
            edges = list(zip((0, *cuts), (*cuts, len(model.layers)), strict=True))
            for path in permutations(range(len(names)), count):
                if any(frozenset((names[a], names[b])) not in links for a, b in pairwise(path)):
                    continue
                if all(_fits(instance, m, edge, c) for edge, c in zip(edges, path, strict=True)):
                    times = [_time(instance, m, i, edges, path) for i in range(count)]
                    energy = sum(_energy(instance, m, i, edges, path) for i in range(count))
                    yield (
                        tuple((c, a, b - 1, t) for c, (a, b), t in zip(path, edges, times, strict=True)),
                        energy,
                    )


def _fits(instance: MultiInstance, m: int, edge: tuple[int, int], c: int) -> bool:
    model, chiplet = instance.models[m], instance.module.chiplets[c]
    layers = model.layers[slice(*edge)]
    need = sum(one.weight_bytes for one in layers) + model.batch * max(one.in_bytes + one.out_bytes for one in layers)
    named = {f"{model.name}/{one.name}" for one in layers}
    pinned = all(pin.chiplet == chiplet.name for pin in instance.pins if pin.layer in named)
    return pinned and (chiplet.sram_bytes is None or need <= chiplet.sram_bytes)


def _time(instance: MultiInstance, m: int, i: int, edges: list[tuple[int, int]], path: tuple[int, ...]) -> int:
    """d of the i-th segment."""
    model, module, chiplet = instance.models[m], instance.module, instance.module.chiplets[path[i]]
    link, dram = Fraction(str(module.nop_bytes_per_ns)), Fraction(str(module.dram_bytes_per_ns))
    layers, far = model.layers[slice(*edges[i])], chiplet.hops * module.hop_ns + module.dram_ns
    time = sum(model.batch * one.costs[chiplet.kind][0] + ceil(one.weight_bytes / dram) for one in layers)
    if i == 0:
        time += ceil(model.batch * layers[0].in_bytes / dram) + far
    elif instance.task.charge == "both":
        time += ceil(model.batch * model.layers[edges[i][0] - 1].out_bytes / link) + module.hop_ns
    if i == len(path) - 1:
        return time + ceil(model.batch * layers[-1].out_bytes / dram) + far
    return time + ceil(model.batch * layers[-1].out_bytes / link) + module.hop_ns


def _energy(instance: MultiInstance, m: int, i: int, edges: list[tuple[int, int]], path: tuple[int, ...]) -> int:
    model, module, chiplet = instance.models[m], instance.module, instance.module.chiplets[path[i]]
    hop, layers = Fraction(str(module.hop_pj_per_byte)), model.layers[slice(*edges[i])]
    far = Fraction(str(module.dram_pj_per_byte)) + chiplet.hops * hop
    sample = sum(one.costs[chiplet.kind][1] for one in layers)
    sample += ceil(layers[0].in_bytes * far) if i == 0 else 0
    sample += ceil(layers[-1].out_bytes * (far if i == len(path) - 1 else hop))
    return model.batch * sample + sum(ceil(one.weight_bytes * far) for one in layers)


class Search:
    """The greatest weight of frames that one mapping meets."""

    def __init__(self, instance: MultiInstance, chosen: list[tuple[Mapping, int]], floor_: int) -> None:
        self.instance, self.chosen, self.best = instance, chosen, floor_
        self.length, counts = hyperperiod(instance)
        names = [model.name for model in instance.models]
        self.frames = [(m, k) for m, count in enumerate(counts) for k in range(count)]
        self.counts = counts
        self.after = [None if one.after is None else names.index(one.after) for one in instance.models]
        self.busy = [0] * len(instance.module.chiplets)
        self.ends: dict[tuple[int, int], int] = {}
        limit = instance.task.energy_limit_pj
        self.energy = 10**18 if limit is None else limit
        self.weights = [instance.models[m].frame_weight for m, _ in self.frames]
        self.left = [sum(self.weights[f:]) for f in range(len(self.frames) + 1)]

    def run(self, f: int = 0, met: int = 0) -> None:
        """Try all that frames from number f on can do."""
        self.best = max(self.best, met)
        if f == len(self.frames) or met + self.left[f] <= self.best:
            return
        m, k = self.frames[f]
        model, after = self.instance.models[m], self.after[m]
        release = k * self.length // self.counts[m] + model.release_ns
        due = release + (self.length // self.counts[m] if model.deadline_ns is None else model.deadline_ns)
        if (after is None or (after, k) in self.ends) and self.chosen[m][1] <= self.energy:
            begin = release if after is None else max(release, self.ends[after, k])
            self.energy -= self.chosen[m][1]
            self.place(f, met, 0, begin, due)
            self.energy += self.chosen[m][1]
        self.run(f + 1, met)

    def place(self, f: int, met: int, i: int, begin: int, due: int) -> None:
        """Begin the i-th segment of frame f at all times from ``begin`` on."""
        m, k = self.frames[f]
        mapping = self.chosen[m][0]
        if i == len(mapping):
            self.ends[m, k] = begin
            self.run(f + 1, met + self.weights[f])
            del self.ends[m, k]
            return
        c, _, _, time = mapping[i]
        for start in range(begin, due - time + 1) if time <= self.length else ():
            mask = sum(1 << (start + t) % self.length for t in range(time))
            if not self.busy[c] & mask:
                self.busy[c] |= mask
                self.place(f, met, i + 1, start + time, due)
                self.busy[c] &= ~mask
            if met + self.left[f] <= self.best:
                return


def optimum(instance: MultiInstance) -> int | None:
    """The least weight of dropped frames over all schedules; None where there is no mapping."""
    _, counts = hyperperiod(instance)
    total = sum(count * model.frame_weight for count, model in zip(counts, instance.models, strict=True))
    best: int | None = None
    for chosen in product(*(list(mappings(instance, m)) for m in range(len(instance.models)))):
        search = Search(instance, list(chosen), -1 if best is None else best)
        search.run()
        best = search.best
        if best == total:
            break
    return None if best is None else total - best


def size(instance: MultiInstance) -> int:
    """Mappings times frames: what brute force grows with."""
    found = sum(hyperperiod(instance)[1])
    for m in range(len(instance.models)):
        found *= max(1, sum(1 for _ in mappings(instance, m)))
    return found
