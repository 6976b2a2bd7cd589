"""Pairs of family ``multimodel``: limits, SRAM and windows one unit apart. All schedules, by the page's formulas.

Layers come in the order of their chains in every candidate (C1 holds). Chiplets are free, so that candidates break C2
and C3; empty windows before used ones are left out (C0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, prod
from random import Random
from typing import Any

from benchmarks.infeasible.pairs import Labels, Pair, by_candidates
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.instance import Chiplet, Layer, Model, Module, Task

COMPLETE = ("auto", "mip", "cpsat")
OTHERS = ("one-window", "bounds", "search")
#: A segment: first and last layer, chiplet. A model's windows, each with its segments.
Segment = tuple[int, int, int]
Windows = tuple[tuple[Segment, ...], ...]
MOST = 40_000


@dataclass(frozen=True)
class Part:
    """One model's windows: their latencies in ns and segments' chiplets, its energy in pJ, what it breaks itself, and
    the largest need of SRAM by chiplet."""

    latency: tuple[int, ...]
    chiplets: tuple[tuple[int, ...], ...]
    energy: int
    broken: Labels


def windows_of(layers: int, windows: int, chiplets: int) -> Iterator[Windows]:
    """All ways to run a chain: after each layer goes on the segment, another one, or a later window."""
    for cuts in product(range(-1, windows), repeat=layers - 1):  # -1: goes on; 0: a segment; g: g windows later
        for first in range(windows):
            if first + sum(cut for cut in cuts if cut > 0) >= windows:
                continue
            pieces, at, begin = list[tuple[int, int, int]](), first, 0
            for k, cut in enumerate((*cuts, 0)):
                if cut >= 0:
                    pieces.append((at, begin, k))
                    begin, at = k + 1, at + cut
            for where in product(range(chiplets), repeat=len(pieces)):
                made: list[list[Segment]] = [[] for _ in range(windows)]
                for (w, low, high), chiplet in zip(pieces, where, strict=True):
                    made[w].append((low, high, chiplet))
                yield tuple(tuple(own) for own in made)


def part(instance: MultiInstance, model: Model, windows: Windows) -> Part:
    """Times, energies, C3 and C5 of one model's windows."""
    module, charge = instance.module, instance.task.charge
    nop, dram = Fraction(str(module.nop_bytes_per_ns)), Fraction(str(module.dram_bytes_per_ns))
    hop, read = Fraction(str(module.hop_pj_per_byte)), Fraction(str(module.dram_pj_per_byte))
    names = [chiplet.name for chiplet in module.chiplets]
    links = {frozenset((names.index(a), names.index(b))) for a, b in module.links}
    b, q, batch = model.mini_batch, model.batch // model.mini_batch, model.batch

    def from_dram(size: int, hops: int) -> tuple[int, int]:
        return ceil(b * size / dram + hops * module.hop_ns + module.dram_ns), ceil(size * (read + hops * hop))

    latency, energy, broken = list[int](), 0, set[str]()
    for segments in windows:
        times, weights = list[int](), 0
        for i, (low, high, c) in enumerate(segments):
            chiplet, time, per_sample, held, need = module.chiplets[c], 0, 0, 0, 0
            for layer in model.layers[low : high + 1]:
                ns, pj = layer.costs[chiplet.kind]
                time, per_sample = time + b * ns, per_sample + pj
                weights += ceil(layer.weight_bytes / dram)
                energy += ceil(layer.weight_bytes * (read + chiplet.hops * hop))
                held, need = held + layer.weight_bytes, max(need, b * (layer.in_bytes + layer.out_bytes))
            if i == 0:
                ns, pj = from_dram(model.layers[low].in_bytes, chiplet.hops)
                time, per_sample = time + ns, per_sample + pj
            out = model.layers[high].out_bytes
            sent = ceil(b * out / nop + module.hop_ns)
            if i == len(segments) - 1:
                ns, pj = from_dram(out, chiplet.hops)
                time, per_sample = time + ns, per_sample + pj
            else:
                time, per_sample = time + sent, per_sample + ceil(out * hop)
                if frozenset((c, segments[i + 1][2])) not in links:
                    broken.add("C3")
            if i and charge == "both":
                time += ceil(b * model.layers[low - 1].out_bytes / nop + module.hop_ns)
            energy += batch * per_sample
            times.append(time)
            if chiplet.sram_bytes is not None and held + need > chiplet.sram_bytes:
                broken.add("C5")
        latency.append(sum(times) + weights + (q - 1) * max(times) if times else 0)
    chiplets = tuple(tuple(c for _, _, c in segments) for segments in windows)
    return Part(tuple(latency), chiplets, energy, frozenset(broken))


def parts(instance: MultiInstance) -> list[list[Part]]:
    """All parts of each model."""
    count, chiplets = instance.task.windows, len(instance.module.chiplets)
    return [
        list(dict.fromkeys(part(instance, model, one) for one in windows_of(len(model.layers), count, chiplets)))
        for model in instance.models
    ]


@dataclass(frozen=True)
class Candidate:
    """A schedule: T1, T2, when each model is done, and what it breaks without limits."""

    time: int
    energy: int
    done: tuple[int, ...]
    broken: Labels


def candidates(instance: MultiInstance) -> Iterator[Candidate]:
    """All schedules."""
    for chosen in product(*parts(instance)):
        count = len(chosen[0].latency)
        used = [any(one.chiplets[w] for one in chosen) for w in range(count)]
        if any(later and not used[w] for w, later in enumerate(used[1:])):
            continue
        broken = set[str]().union(*(one.broken for one in chosen))
        for w in range(count):
            taken = [c for one in chosen for c in one.chiplets[w]]
            if len(taken) > len(set(taken)):
                broken.add("C2")
        lengths = [max(one.latency[w] for one in chosen) for w in range(count)]
        done = []
        for one in chosen:
            last = max(w for w in range(count) if one.chiplets[w])
            done.append(sum(lengths[:last]) + one.latency[last])
        yield Candidate(sum(lengths), sum(one.energy for one in chosen), tuple(done), frozenset(broken))


def broken(instance: MultiInstance, one: Candidate) -> Labels:
    """What a schedule breaks, with the instance's limits."""
    task = instance.task
    ends = [(done, model.deadline_ns) for done, model in zip(one.done, instance.models, strict=True)]
    asked = [(one.time, task.latency_limit_ns), (one.energy, task.energy_limit_pj), *ends]
    late = any(limit is not None and amount > limit for amount, limit in asked)
    return one.broken | {"C4"} if late else one.broken


#: Numbers of models and chiplets, and those where windows are few.
SHAPES, CROWDED = ((1, 2), (1, 3), (2, 1), (2, 2), (2, 2)), ((2, 1), (3, 1), (3, 2), (2, 2))


def drawn(random: Random, crowded: bool = False) -> MultiInstance:
    """One to three models of up to three layers on up to three chiplets of two classes."""
    count, chiplets = random.choice(CROWDED if crowded else SHAPES)
    windows = random.choice((1, 2)) if chiplets > 1 else 2
    models = []
    for m in range(count):
        layers = random.randint(1, {1: 3, 2: 2, 3: 1}[count])
        models.append(
            Model(
                name=f"m{m}",
                batch=4,
                mini_batch=random.choice((1, 2, 4)),
                layers=tuple(_layer(random, k) for k in range(layers)),
            )
        )
    machines = tuple(
        Chiplet(name=f"c{c}", kind=random.choice(("one", "two")), hops=random.randint(0, 2)) for c in range(chiplets)
    )
    links = tuple((f"c{c}", f"c{c + 1}") for c in range(chiplets - 1) if random.random() < 0.8)
    task = Task(
        objective=random.choice(("latency", "energy", "weighted", "edp")),
        windows=windows,
        charge=random.choice(("sender", "both")),
    )
    return MultiInstance(name="pair", task=task, models=tuple(models), module=Module(chiplets=machines, links=links))


def _layer(random: Random, k: int) -> Layer:
    costs = {kind: (random.randint(50, 2_000), random.randint(10_000, 200_000)) for kind in ("one", "two")}
    sizes: dict[str, Any] = {name: random.randint(0, 3_000) for name in ("in_bytes", "weight_bytes", "out_bytes")}
    return Layer(name=f"l{k}", costs=costs, **sizes)


def pair(random: Random) -> Pair | None:
    """A pair from a random instance; None where it gives none."""
    what = random.choice(("latency", "latency and energy", "energy", "deadline", "deadline", "SRAM", "SRAM", "windows"))
    instance = drawn(random, what == "windows")
    if prod(len(own) for own in parts(instance)) > MOST:
        return None
    if what == "windows":
        return _by_windows(random, instance)
    if what == "SRAM":
        return _by_sram(random, instance)
    valid = [one for one in candidates(instance) if not one.broken]
    if not valid:
        return None
    m = random.randrange(len(instance.models))
    if what == "latency":
        least = min(one.time for one in valid)
        near, tight = (_task(instance, latency_limit_ns=value) for value in (least, least - 1))
    elif what == "energy":
        least = min(one.energy for one in valid)
        near, tight = (_task(instance, energy_limit_pj=value) for value in (least, least - 1))
    elif what == "deadline":
        least = min(one.done[m] for one in valid)
        near, tight = (_deadline(instance, m, value) for value in (least, least - 1))
    else:  # the least latency within a limit on the energy that binds
        limit = random.choice(sorted({one.energy for one in valid}))
        least = min(one.time for one in valid if one.energy <= limit)
        asked = [_task(instance, energy_limit_pj=limit, latency_limit_ns=value) for value in (least, least - 1)]
        near, tight = asked
    return _pair(what, tight, near)


def _pair(what: str, tight: MultiInstance, near: MultiInstance) -> Pair:
    in_force = {"C2", "C3", "C4"} | ({"C5"} if tight.module.chiplets[0].sram_bytes is not None else set())
    return Pair(what, tight, near, frozenset(in_force), by_candidates(broken(tight, one) for one in candidates(tight)))


def _task(instance: MultiInstance, **fields: Any) -> MultiInstance:
    return instance.replace(task=instance.task.replace(**fields))


def _deadline(instance: MultiInstance, m: int, value: int) -> MultiInstance:
    models = list(instance.models)
    models[m] = models[m].replace(deadline_ns=value)
    return instance.replace(models=tuple(models))


def _sram(instance: MultiInstance, size: int) -> MultiInstance:
    chiplets = [chiplet.replace(sram_bytes=size) for chiplet in instance.module.chiplets]
    return instance.replace(module=instance.module.replace(chiplets=tuple(chiplets)))


def _valid(instance: MultiInstance) -> bool:
    return any(not broken(instance, one) for one in candidates(instance))


def _by_sram(random: Random, instance: MultiInstance) -> Pair | None:
    """The least SRAM; half of the time with a limit on the latency that only fewer cuts keep."""
    if not _valid(instance):
        return None
    if random.random() < 0.5:
        times = sorted({one.time for one in candidates(instance) if not one.broken})
        instance = _task(instance, latency_limit_ns=random.choice(times))
    low, high = 0, 40_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _valid(_sram(instance, middle)) else (middle, high)
    return None if low == 0 else _pair("SRAM", _sram(instance, low), _sram(instance, high))


def _by_windows(random: Random, instance: MultiInstance) -> Pair | None:
    """The fewest windows: more models than chiplets, or an SRAM with which layers need several segments."""
    size = random.choice((None, None, *range(4_000, 20_000, 1_000)))
    given = instance if size is None else _sram(instance, size)
    for windows in (1, 2):
        tight, near = _task(given, windows=windows), _task(given, windows=windows + 1)
        if _valid(tight) or prod(len(own) for own in parts(near)) > MOST:
            return None
        if _valid(near):
            return _pair("windows", tight, near)
    return None
