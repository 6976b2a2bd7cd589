"""The independent checker of family ``ring``: the constraints and terms of ``docs/families/ring.md``, one by one.

Plain loops over the records. It imports no cost function, model or heuristic, so that nothing judges itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chipmap.certificate import Certificate
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.oracle import Oracle
from chipmap.records import counted
from chipmap.validation.certify import Finding, certify
from chipmap.validation.ring.facts import TICKS_PER_NS, Facts, facts


@dataclass(frozen=True)
class Mapped:
    """An instance with the chip of every operation: what each constraint looks at."""

    instance: RingInstance
    facts: Facts
    chips: tuple[int, ...]

    def name(self, v: int) -> str:
        """The name of operation ``v``, quoted."""
        return repr(self.instance.graph.operations[v].name)

    def used(self) -> set[int]:
        """The chips on which computing operations run."""
        return {self.chips[v] for v in self.facts.computing}


def check(instance: RingInstance, solution: RingSolution, oracle: Oracle | None = None) -> Certificate:
    """The certificate of ``solution`` for a valid ``instance``: violations of C0 to C4, objective, terms and figures.

    With ``oracle``, C5 as well, asked about mappings that obey all others.

    Objective and terms stand beside violations too, unless C0 leaves a computing operation without a chip.
    """
    known = facts(instance)
    mapped = Mapped(instance, known, solution.chips)
    broken = {"C0": list(c0_domain(mapped))}
    whole = len(solution.chips) == len(instance.graph.operations)
    if whole:
        others = {"C1": c1_flow, "C2": c2_no_skipping, "C3": c3_triangle, "C4": c4_memory}
        broken |= {label: list(others[label](mapped)) for label in sorted(instance.constraints)}
    if oracle is not None and not any(broken.values()):
        broken["C5"] = list(c5_oracle(mapped, solution, oracle))
    placed = whole and all(0 <= solution.chips[v] < instance.package.chips for v in known.computing)
    terms = {"T1": t1_chip(mapped), "T2": t2_link(mapped)} if placed else {}
    return certify(
        instance,
        solution,
        broken,
        objective=max(terms.values()) if placed else None,
        terms=terms,
        grade=instance.memory_grade,
        figures=_figures(mapped, max(terms.values())) if placed else {},
        oracle=oracle.title if oracle is not None else "",
    )


def c0_domain(mapped: Mapped) -> Iterator[Finding]:
    """One chip of the package for every operation; pins, forbidden chips and groups hold for computing ones."""
    wanted, given = len(mapped.instance.graph.operations), len(mapped.chips)
    if wanted != given:
        yield (
            "chips",
            abs(wanted - given),
            "operations",
            f"the mapping has {counted(given, 'entry', 'entries')} for {counted(wanted, 'operation')}",
        )
        return
    yield from _range(mapped)
    yield from _pins(mapped)
    yield from _forbidden(mapped)
    yield from _together(mapped)
    yield from _apart(mapped)


def _range(mapped: Mapped) -> Iterator[Finding]:
    """Every chip is one of 0 … C - 1."""
    last = mapped.instance.package.chips - 1
    for v, chip in enumerate(mapped.chips):
        if not 0 <= chip <= last:
            message = f"operation {mapped.name(v)} is on chip {chip}; the package has chips 0 to {last}"
            yield mapped.name(v), max(-chip, chip - last), "chips", message


def _pins(mapped: Mapped) -> Iterator[Finding]:
    """A pinned computing operation is on its chip."""
    for pin in mapped.instance.pins:
        v = mapped.facts.position[pin.operation]
        chip = mapped.chips[v]
        if v in mapped.facts.ticks and chip != pin.chip:
            message = f"operation {mapped.name(v)} is pinned to chip {pin.chip} but is on chip {chip}"
            yield mapped.name(v), abs(chip - pin.chip), "chips", message


def _forbidden(mapped: Mapped) -> Iterator[Finding]:
    """A computing operation is on none of the chips forbidden to it."""
    for item in mapped.instance.forbidden:
        v = mapped.facts.position[item.operation]
        if v in mapped.facts.ticks and mapped.chips[v] in item.chips:
            message = f"operation {mapped.name(v)} is on chip {mapped.chips[v]}, which is forbidden to it"
            yield mapped.name(v), 1, "operations", message


def _together(mapped: Mapped) -> Iterator[Finding]:
    """The computing operations of a keep-together group share one chip."""
    for group in mapped.instance.together:
        members = [v for v in map(mapped.facts.position.__getitem__, group) if v in mapped.facts.ticks]
        chips = sorted({mapped.chips[v] for v in members})
        if len(chips) > 1:
            names = ", ".join(mapped.name(v) for v in members)
            message = f"the keep-together group {names} is spread over chips {', '.join(map(str, chips))}"
            yield names, len(chips) - 1, "chips", message


def _apart(mapped: Mapped) -> Iterator[Finding]:
    """No two computing operations of a group in ``apart`` share a chip."""
    for group in mapped.instance.apart:
        on: dict[int, list[int]] = {}
        for v in sorted({mapped.facts.position[name] for name in group}):
            if v in mapped.facts.ticks:
                on.setdefault(mapped.chips[v], []).append(v)
        for chip, here in sorted(on.items()):
            if len(here) > 1:
                names = ", ".join(mapped.name(v) for v in here)
                message = f"operations {names} share chip {chip}, but are to be apart"
                yield names, len(here) - 1, "operations", message


def c1_flow(mapped: Mapped) -> Iterator[Finding]:
    """f(u) <= f(v) for every edge of the graph."""
    for u, v in mapped.facts.edges:
        here, there = mapped.chips[u], mapped.chips[v]
        if here > there:
            ends = mapped.name(u), mapped.name(v)
            message = f"data flows backwards: {ends[0]} on chip {here} feeds {ends[1]} on chip {there}"
            yield " -> ".join(ends), here - there, "chips", message


def c2_no_skipping(mapped: Mapped) -> Iterator[Finding]:
    """The chips in use are 0, …, K - 1."""
    used = mapped.used()
    last = max(used, default=-1)
    for chip in range(min(last, mapped.instance.package.chips)):
        if chip not in used:
            yield f"chip {chip}", 1, "chips", f"chip {chip} runs nothing, but chip {last} after it is in use"


def c3_triangle(mapped: Mapped) -> Iterator[Finding]:
    """No distinct chips a, c, b with a flow a -> b, a path of flows from a to c, and a flow c -> b."""
    sends: dict[int, set[int]] = {}
    example: dict[tuple[int, int], tuple[int, int]] = {}
    for stored in mapped.facts.stored:
        a = mapped.chips[stored.made_by]
        for v in stored.read_by:
            b = mapped.chips[v]
            if a != b:
                sends.setdefault(a, set()).add(b)
                example.setdefault((a, b), (stored.made_by, v))
    for a in sorted(sends):
        reached = _reached(sends, a)
        for b in sorted(sends[a]):
            detours = [c for c in sorted(reached - {a, b}) if b in sends.get(c, ())]
            if detours:
                c, (u, v), (w, x) = detours[0], example[a, b], example[detours[0], b]
                message = (
                    f"chip {a} feeds chip {b} directly ({mapped.name(u)} -> {mapped.name(v)}) and also by "
                    f"way of chip {c} ({mapped.name(w)} -> {mapped.name(x)})"
                )
                yield f"chips {a}, {c}, {b}", len(detours), "detours", message


def _reached(sends: dict[int, set[int]], a: int) -> set[int]:
    """The chips to which a path of one or more flows leads from chip ``a``."""
    reached: set[int] = set()
    todo = [a]
    while todo:
        fresh = sends.get(todo.pop(), set()) - reached
        reached |= fresh
        todo += fresh
    return reached


def c4_memory(mapped: Mapped) -> Iterator[Finding]:
    """Weights + 2 · bytes that cross the boundary (grade ``full``: + relayed, + live ones) <= S on every chip."""
    limit, graded = mapped.instance.package.sram_bytes, mapped.instance.memory_grade == "full"
    for chip, (needed, weights, boundary, passing, live) in needs(mapped).items():
        if needed > limit:
            full = f", relayed 2 x {passing}, live at most {live}" if graded else ""
            message = (
                f"chip {chip} needs {needed} bytes (weights {weights}, boundary tensors 2 x {boundary}{full}) "
                f"but has {limit}: {needed - limit} too many"
            )
            yield f"chip {chip}", needed - limit, "bytes", message


def needs(mapped: Mapped) -> dict[int, tuple[int, int, int, int, int]]:
    """(the left side of C4, weights, boundary, relayed, live) in bytes, by chip."""
    weights, boundary = memory(mapped)
    passing, live = relayed(mapped), live_peak(mapped)
    found = {}
    for chip in sorted({*weights, *passing}):
        w, b, p, peak = (part.get(chip, 0) for part in (weights, boundary, passing, live))
        found[chip] = w + 2 * (b + p) + peak, w, b, p, peak
    return found


def memory(mapped: Mapped) -> tuple[dict[int, int], dict[int, int]]:
    """(weights, boundary): bytes of weights, and of the storages that cross the chip's boundary, per used chip.

    A constant counts once on each chip that has an operation which reads it.
    """
    weights = dict.fromkeys(mapped.used(), 0)
    boundary = dict.fromkeys(weights, 0)
    for v in mapped.facts.computing:
        weights[mapped.chips[v]] += mapped.facts.weights[v]
    for constant in mapped.facts.constants:
        for chip in {mapped.chips[v] for v in constant.read_by}:
            weights[chip] += constant.bytes
    for stored in mapped.facts.stored:
        home = mapped.chips[stored.made_by]
        away = {mapped.chips[v] for v in stored.read_by} - {home}
        for chip in away | ({home} if away else set()):
            boundary[chip] += stored.bytes
    return weights, boundary


def relayed(mapped: Mapped) -> dict[int, int]:
    """Grade ``full``: bytes of the storages that pass through a chip on their way to a later one, unread there."""
    passing: dict[int, int] = {}
    for stored in mapped.facts.stored if mapped.instance.memory_grade == "full" else ():
        read_on = {mapped.chips[v] for v in stored.read_by}
        for chip in range(mapped.chips[stored.made_by] + 1, max(read_on)):
            if chip not in read_on:
                passing[chip] = passing.get(chip, 0) + stored.bytes
    return passing


def live_peak(mapped: Mapped) -> dict[int, int]:
    """Grade ``full``: the most bytes that storages made and read on one chip only take at one of its steps."""
    if mapped.instance.memory_grade != "full":
        return {}
    step = {v: i for i, v in enumerate(mapped.instance.graph.topological_order())}
    inner: dict[int, list[tuple[int, int, int]]] = {}
    for stored in mapped.facts.stored:
        chip = mapped.chips[stored.made_by]
        if all(mapped.chips[v] == chip for v in stored.read_by):
            last = max(step[v] for v in stored.read_by)
            inner.setdefault(chip, []).append((step[stored.made_by], last, stored.bytes))
    return {
        chip: max(sum(size for first, last, size in lives if first <= step[v] <= last) for v in mapped.facts.computing)
        for chip, lives in inner.items()
    }


def c5_oracle(mapped: Mapped, solution: RingSolution, oracle: Oracle) -> Iterator[Finding]:
    """H(G, f) accepts."""
    for verdict in oracle.ask(mapped.instance, solution):
        where = "mapping" if verdict.chip is None else f"chip {verdict.chip}"
        reason = f": {verdict.message}" if verdict.message else ""
        yield where, 1, "rejections", f"the oracle {oracle.name} rejects it{reason}"


def work(mapped: Mapped) -> list[int]:
    """Ticks of the computing operations on each chip."""
    ticks = [0] * mapped.instance.package.chips
    for v in mapped.facts.computing:
        ticks[mapped.chips[v]] += mapped.facts.ticks[v]
    return ticks


def load(mapped: Mapped) -> list[int]:
    """Ticks on each link c -> c + 1: a storage crosses every link from its maker to its farthest reader once."""
    ticks = [0] * mapped.instance.package.chips
    for stored in mapped.facts.stored:
        first = mapped.chips[stored.made_by]
        farthest = max(mapped.chips[v] for v in stored.read_by)
        for link in range(first, farthest):
            ticks[link] += stored.ticks
    return ticks


def t1_chip(mapped: Mapped) -> int:
    """T1: the busiest chip, in ticks (with what it sends and receives, in the modes that count that)."""
    busy = work(mapped)
    if mapped.instance.cost_mode == "sum":
        for stored in mapped.facts.stored:
            home = mapped.chips[stored.made_by]
            away = {mapped.chips[v] for v in stored.read_by} - {home}
            for chip in away | ({home} if away else set()):
                busy[chip] += stored.ticks
    elif mapped.instance.cost_mode == "sum_forward":
        for link, ticks in enumerate(load(mapped)):
            busy[link] += ticks
            if ticks:
                busy[link + 1] += ticks
    return max(busy)


def t2_link(mapped: Mapped) -> int:
    """T2: the busiest link, in ticks; 0 in the modes that charge transfers to the chips."""
    return max(load(mapped)) if mapped.instance.cost_mode == "period" else 0


def _figures(mapped: Mapped, period: int) -> dict[str, float]:
    """Derived figures. ``average_us`` is all work spread evenly over the chips of the package."""
    used = len(mapped.used())
    total = sum(mapped.facts.ticks.values())
    figures = {
        "chips_used": float(used),
        "latency_ns": (total + sum(load(mapped))) / TICKS_PER_NS + max(0, used - 1) * mapped.instance.package.hop_ns,
        "max_memory_bytes": float(max((needed for needed, *_ in needs(mapped).values()), default=0)),
        "average_us": total / mapped.instance.package.chips / (1000 * TICKS_PER_NS),
    }
    if period:
        figures["throughput_per_s"] = TICKS_PER_NS * 1e9 / period
    return figures
