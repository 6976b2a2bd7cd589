"""What chiplets share in family ``multimodel``, as the page says it, and all schedules of tiny instances with it.

Schedules are listed and judged by the checker on the instance in which nothing is shared, which gives no more than
whether C0 to C3, C5 and C6 hold. Lengths of windows, static energy, limits and objective are counted here.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from random import Random

from chipmap.instances.multimodel.instance import Chiplet, MultiInstance, MultiSolution, Piece, small
from chipmap.validation.multimodel import checker
from chipmap.validation.multimodel.candidates import candidates, count
from tests.multimodel.random_instances import varied_instance

KINDS = ("dram", "link", "static")
#: Schedules that brute force tries at most.
MOST = 1_200


def free_of(instance: MultiInstance) -> MultiInstance:
    """The instance without what is shared, and without limits."""
    module = instance.module.replace(shared_dram_bytes_per_ns=None, shared_link_bytes_per_ns=None, static_watts=0.0)
    models = tuple(model.replace(deadline_ns=None) for model in instance.models)
    task = instance.task.replace(latency_limit_ns=None, energy_limit_pj=None)
    return instance.replace(module=module, models=models, task=task)


def way(instance: MultiInstance, chiplet: str) -> list[tuple[str, str]]:
    """The links of a chiplet's route to DRAM, in this direction; DRAM is called by three dots."""
    place = {one.name: i for i, one in enumerate(instance.module.chiplets)}
    at: dict[str, Chiplet] = {one.name: one for one in instance.module.chiplets}
    joined = {(a, b) for pair in instance.module.links for a, b in (pair, pair[::-1])}
    here, found = chiplet, list[tuple[str, str]]()
    while True:
        nexts = [d for d in place if (here, d) in joined and at[d].hops + 1 == at[here].hops]
        row = [d for d in nexts if at[d].y == at[here].y]
        if not nexts:
            return [*found, (here, "...")]
        there = sorted(row or nexts, key=place.__getitem__)[0]
        found.append((here, there))
        here = there


def shared_time(instance: MultiInstance, window: tuple[Piece, ...]) -> int:
    """V_w."""
    module, named = instance.module, {model.name: model for model in instance.models}
    moved: list[tuple[str, str, int]] = []
    dram = 0
    for piece in window:
        model = named[piece.model]
        own = [other for other in window if other.model == piece.model]
        into = sum(model.layers[k].weight_bytes for k in range(piece.first, piece.last + 1))
        if all(other.first >= piece.first for other in own):
            into += model.batch * model.layers[piece.first].in_bytes
        out = model.batch * model.layers[piece.last].out_bytes
        after = [other for other in own if other.first == piece.last + 1]
        dram += into
        moved += [(b, a, into) for a, b in way(instance, piece.chiplet)]
        if after:
            moved.append((piece.chiplet, after[0].chiplet, out))
        else:
            dram += out
            moved += [(a, b, out) for a, b in way(instance, piece.chiplet)]
    links = {(a, b) for a, b, _ in moved}
    times = [0]
    if module.shared_dram_bytes_per_ns is not None:
        times.append(ceil(dram / Fraction(str(module.shared_dram_bytes_per_ns))))
    if module.shared_link_bytes_per_ns is not None:
        rate = Fraction(str(module.shared_link_bytes_per_ns))
        times += [ceil(sum(size for a, b, size in moved if (a, b) == link) / rate) for link in links]
    return max(times)


def judged(instance: MultiInstance, solution: MultiSolution) -> tuple[int, int] | None:
    """(T1, T2) of a schedule that keeps its deadlines and limits; None of another one. C0 to C3 and C5 hold."""
    free, ends = free_of(instance), dict[str, int]()
    begun = energy = 0
    for window in solution.windows:
        latencies = {}
        for model in instance.models:
            own = sorted((piece for piece in window if piece.model == model.name), key=lambda piece: piece.first)
            at = {one.name: one for one in instance.module.chiplets}
            if own:
                segments = [checker.Segment(piece.first, piece.last, at[piece.chiplet]) for piece in own]
                latencies[model.name] = checker.latency(free, model, segments)
                energy += checker.energy(free, model, segments)
        together = shared_time(instance, window)
        ends |= {name: begun + max(own, together) for name, own in latencies.items()}
        begun += max(together, *latencies.values())
    energy += ceil(1000 * Fraction(str(instance.module.static_watts)) * begun)
    task = instance.task
    if any(model.deadline_ns is not None and ends[model.name] > model.deadline_ns for model in instance.models):
        return None
    if task.latency_limit_ns is not None and begun > task.latency_limit_ns:
        return None
    return None if task.energy_limit_pj is not None and energy > task.energy_limit_pj else (begun, energy)


def value(instance: MultiInstance, time: int, energy: int) -> int:
    """The objective of T1 and T2 in ticks."""
    task = instance.task
    return {
        "latency": time,
        "energy": energy,
        "weighted": ceil(1000 * Fraction(str(task.watts)) * time) + energy,
        "edp": ceil(Fraction(time * energy, tick(instance))),
    }[task.objective]


def tick(instance: MultiInstance) -> int:
    """The tick of EDP: the models whole on a chiplet each, their energies with static energy."""
    free, watts = free_of(instance), Fraction(str(instance.module.static_watts))
    least, most = [0, 0], [0, 0]
    for model in instance.models:
        whole = [[checker.Segment(0, len(model.layers) - 1, one)] for one in instance.module.chiplets]
        times = [checker.latency(free, model, one) for one in whole]
        energies = [checker.energy(free, model, one) for one in whole]
        least = [max(least[0], min(times)), least[1] + min(energies)]
        most = [most[0] + max(times), most[1] + max(energies)]
    small, large = (time * (energy + ceil(1000 * watts * time)) for time, energy in (least, most))
    first, ticks = (10**9, 10**18) if small >= 10**13 else (1, 10**15)
    while large >= ticks * first:
        first *= 10
    return first


def optimum(instance: MultiInstance) -> int | None:
    """The least objective of all schedules; None where there is none."""
    free = free_of(instance)
    listed = [one for one in candidates(free) if checker.check(free, one).feasible]
    terms = [found for one in listed if (found := judged(instance, one)) is not None]
    return min((value(instance, *one) for one in terms), default=None)


def shared_instance(random: Random, kind: str, objective: str) -> MultiInstance:
    """A random tiny instance in which this is shared, so that it often matters."""
    while True:
        base = varied_instance(random, limits=random.random() < 0.4)
        if not small(base) or count(base) > MOST:
            continue
        rate = random.choice((0.05, 0.3, 1.7, 6.0))
        places = {one.name: (random.randrange(2), random.randrange(2)) for one in base.module.chiplets}
        chiplets = tuple(one.replace(x=places[one.name][0], y=places[one.name][1]) for one in base.module.chiplets)
        more = {
            "dram": {"shared_dram_bytes_per_ns": rate},
            "link": {"shared_link_bytes_per_ns": rate},
            "static": {"static_watts": random.choice((0.013, 0.9, 7.000001))},
        }[kind]
        if random.random() < 0.15:
            more |= {"static_watts": 2.5, "shared_dram_bytes_per_ns": 3.3, "shared_link_bytes_per_ns": 1.1}
        module = base.module.replace(chiplets=chiplets, **more)
        return base.replace(module=module, task=base.task.replace(objective=objective))
