"""``explain`` for family ``wafer``: who holds the time, what wires and adapters cost, and what more would bring.

The instance is solved, the floorplan given (else the best one found) is taken apart, and changes of the instance are
made and solved: a wider and a higher fabric, more memory, and one kernel less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chipmap.certificate import Certificate
from chipmap.explaining.driver import Explaining, above, explainer, outcome, side_by_side
from chipmap.explanation import Change, Difference
from chipmap.instances.wafer.instance import Placement, WaferInstance, WaferSolution, pinned
from chipmap.instances.wafer.pinned import fastest_in
from chipmap.instances.wafer.problem import TICKS, WaferProblem, in_order, size, wafer_problem
from chipmap.instances.wafer.shapes import centre
from chipmap.instances.wafer.vectors import arguments, least_time
from chipmap.methods.wafer.chain import auto
from chipmap.records import InputError, Unit, counted
from chipmap.records.quantities import in_unit, share

#: Columns and rows, and words of memory (1 KB of 16-bit words) that are added.
MORE_TILES, MORE_WORDS = 10, 512
#: Kernels and wires that are told one by one.
TOLD = 3
POINTS, STEPS = Unit(name="points", per_tick=0.25), Unit(name="steps", per_tick=0.25)


class WaferTrial(NamedTuple):
    """A change of the instance: ``what`` it is in words, the ``setting`` of ``--set``, the changed instance."""

    what: str
    setting: str
    instance: WaferInstance


def changes(instance: WaferInstance, slowest: str | None) -> list[WaferTrial]:
    """Changes that are solved; ``slowest`` is the kernel that is left out, if any."""
    fabric, found = instance.fabric, list[WaferTrial]()
    for field, words, more in (
        ("width", f"{MORE_TILES} more columns", MORE_TILES),
        ("height", f"{MORE_TILES} more rows", MORE_TILES),
        ("memory_words", f"{MORE_WORDS} more words per tile (1 KB of 16-bit words)", MORE_WORDS),
    ):
        value = getattr(fabric, field) + more
        changed = instance.replace(fabric=fabric.replace(**{field: value}))
        found.append(WaferTrial(words, f"fabric.{field}={value}", changed))
    if slowest is not None and wafer_problem(instance).n > 1 and not pinned(instance):
        found.append(WaferTrial(f"without kernel {slowest!r}", "", without(instance, slowest)))
    if pinned(instance):
        free = instance.replace(pins=(), forbidden=(), together=(), apart=())
        found.append(WaferTrial("without pins, forbidden tiles and groups (C4)", "", free))
    return found


def without(instance: WaferInstance, name: str) -> WaferInstance:
    """The instance with one kernel less; its edges go, too."""
    kernels = tuple(kernel for kernel in instance.kernels if kernel.name != name)
    kept = [i for i, edge in enumerate(instance.edges) if name not in edge]
    traffic = tuple(instance.traffic[i] for i in kept) if instance.traffic else ()
    return instance.replace(kernels=kernels, edges=tuple(instance.edges[i] for i in kept), traffic=traffic)


class _Work(Explaining[WaferTrial]):
    """One explanation in progress."""

    family = "wafer"
    thing = "floorplan"

    def __init__(self, instance: WaferInstance, *rest: Any) -> None:
        self.problem: WaferProblem = wafer_problem(instance)
        super().__init__(instance, *rest)

    def read(self, given: WaferSolution, which: str) -> None:
        """Raise :class:`InputError` for a floorplan of something else."""
        unknown = sorted({one.kernel for one in given.placements} - set(self.problem.names))
        if unknown:
            raise InputError(
                f"names {unknown[0]!r}, which no kernel to place is called", which, "Give its own instance."
            )

    def solve(self) -> None:
        """Solve the instance."""
        auto(self.instance, self.base)

    def trials(self) -> list[WaferTrial]:
        """More columns, rows and memory, and one kernel less."""
        if self.best is None:
            return changes(self.instance, None)
        return changes(self.instance, self.slowest(in_order(self.problem, self.best))[0])

    def compare(self, objective: int, best: int) -> None:
        """How far the floorplan given is from the best one known."""
        if objective > best:
            far = f"{above(objective, best)}, {in_unit(best, POINTS)}"
            self.say("given", f"The floorplan given has {in_unit(objective, POINTS)}, {far}")

    def slowest(self, placements: list[Placement]) -> list[str]:
        """The kernels from the slowest on."""
        times = self.times(placements)
        return sorted(times, key=lambda name: -times[name])

    def times(self, placements: list[Placement]) -> dict[str, int]:
        """The time of each kernel, in quarters of a step."""
        return {name: self.quarters(i, placements[i]) for i, name in enumerate(self.problem.names)}

    def take_apart(self, own: WaferSolution, certificate: Certificate) -> None:
        """The score by its terms, who holds the time, the longest wires, the adapters, the room."""
        objective, lower = certificate.objective or 0, self.base.lower
        least = min(objective, lower.value) if lower is not None else 0
        proof = "which is proved to be the least" if least == objective else (
            f"and no floorplan has less than {in_unit(least, POINTS)} (gap {share(objective - least, objective)})"
        )  # fmt: skip
        parts = {"T1": "time", "T2": "wires", "T3": "adapters"}
        terms = ", ".join(f"{share(certificate.terms[label], objective)} for {name}" for label, name in parts.items())
        self.say("verdict", f"The floorplan has {in_unit(objective, POINTS)}, {proof}: {terms}")
        placements = in_order(self.problem, own)
        self.time(placements)
        self.wires(placements, certificate.terms["T2"])
        self.adapters(placements, certificate.terms["T3"])
        self.room(placements)

    def time(self, placements: list[Placement]) -> None:
        """The kernels that hold the time, and what would hold it without them."""
        times, every = self.times(placements), arguments(max(self.problem.width, self.problem.height))
        order, top = self.slowest(placements), max(times.values())
        holding = [name for name in order if times[name] == top]
        names = ", ".join(repr(name) for name in holding[:TOLD]) + (" and others" if len(holding) > TOLD else "")
        verb = "holds" if len(holding) == 1 else "hold"
        number = self.problem.names.index(holding[0])
        box, t = size(placements[number]), int(self.problem.types[number])
        table, alone = self.problem.tables[t], self.problem.type_arrays[t]
        fastest = least_time(self.problem, alone, every) if table is None else int(table[:, 2].min())
        text = (
            f"{names} {verb} the time, {in_unit(top, STEPS)}. The box of {holding[0]!r} has {box[0]} x {box[1]} tiles. "
        )
        text += f"Alone on the fabric it takes at least {in_unit(fastest, STEPS)}"
        rest = [name for name in order if times[name] < top]
        if rest:
            text += (
                f". Next is {rest[0]!r} with {in_unit(times[rest[0]], STEPS)}, {share(top - times[rest[0]], top)} less"
            )
        self.say("time", text, "T1", kernels=holding, quarters=top, next=times[rest[0]] if rest else 0)

    def wires(self, placements: list[Placement], total: int) -> None:
        """The edges with the longest wires, and what they cost."""
        weight = self.instance.weights.wire
        if not weight or not len(self.problem.edges):
            return
        at = [centre(one) for one in placements]
        lengths = {(u, v): abs(at[u][0] - at[v][0]) + abs(at[u][1] - at[v][1]) for u, v in self.problem.edges.tolist()}
        longest = sorted(lengths, key=lambda edge: -lengths[edge])[:TOLD]
        names = self.problem.names
        told = "; ".join(f"{names[u]!r} to {names[v]!r} {lengths[u, v] / 2:g} tiles" for u, v in longest)
        touching = sum(
            traffic * min(a + c, b + d)
            for (u, v), traffic in zip(self.problem.edges.tolist(), self.problem.traffic.tolist(), strict=True)
            for (a, b), (c, d) in [(size(placements[u]), size(placements[v]))]
        )
        text = f"{counted(len(self.problem.edges), 'wire')} cost {in_unit(total, POINTS)}, the longest are {told}. "
        text += f"Wires of such boxes cost no less than {in_unit(2 * weight * touching, POINTS)} anywhere"
        self.say("wire", text, "T2", longest=[[names[u], names[v]] for u, v in longest], touching=2 * weight * touching)

    def adapters(self, placements: list[Placement], total: int) -> None:
        """How many edges need adapters, and for which arguments."""
        if not self.instance.weights.adapter or not len(self.problem.edges):
            return
        every = [(placements[u], placements[v]) for u, v in self.problem.edges.tolist()]
        pairs = [(u, v) for u, v in every if u.k and v.k]
        ways = {"h": sum(u.h != v.h for u, v in pairs), "w": sum(u.w != v.w for u, v in pairs)}
        count = total // (TICKS * self.instance.weights.adapter)
        ways["c"] = count - sum(ways.values())
        told = ", ".join(f"{number} for {name}" for name, number in ways.items())
        self.say("adapters", f"{counted(count, 'adapter')} cost {in_unit(total, POINTS)}: {told}", "T3", **ways)

    def room(self, placements: list[Placement]) -> None:
        """How much of the fabric is covered, and what a kernel could gain within its own box."""
        boxes = [size(one) for one in placements]
        covered, tiles = sum(a * b for a, b in boxes), self.problem.width * self.problem.height
        text = f"{share(covered, tiles)} of the fabric's {tiles:,} tiles are covered"
        times, faster = self.times(placements), list[str]()
        for i, (name, (width, height)) in enumerate(zip(self.problem.names, boxes, strict=True)):
            fastest = fastest_in(self.problem, i, width, height)
            if fastest is not None and times[name] == max(times.values()) and self.quarters(i, fastest) < times[name]:
                faster.append(name)
        if faster:
            text += f". Within its own box {faster[0]!r} could run faster with other arguments"
        self.say("room", text, "C2", covered=covered, tiles=tiles, faster=faster)

    def quarters(self, i: int, placement: Placement) -> int:
        """The time of kernel ``i`` so placed."""
        return self.problem.time_of(i, placement)

    def attempt(self, trial: WaferTrial, left: int) -> None:
        """Solve a changed instance, from the best floorplan."""
        names, start = wafer_problem(trial.instance).names, self.best
        if start is not None:
            start = start.replace(placements=tuple(one for one in start.placements if one.kernel in names))
        run = self.run(trial.instance, self.spent * self.left / left, (start,))
        auto(trial.instance, run)
        found = outcome(run, self.base.upper)
        self.tried.append(Change(kind="fabric", what=trial.what, setting=trial.setting, **found))

    def difference(self, judged: tuple[Certificate, Certificate]) -> Difference:
        """Two floorplans side by side: time, tiles and centre of each kernel."""
        before, after = (self.quantities(one) for one in (self.solution, self.against))
        return side_by_side(judged, before, after)

    def quantities(self, solution: WaferSolution) -> dict[tuple[str, str], float]:
        """By kernel: steps, width, height and corner."""
        found = dict[tuple[str, str], float]()
        for one in solution.placements:
            width, height = size(one)
            steps = self.quarters(self.problem.names.index(one.kernel), one) / TICKS
            named = {"steps": steps, "width": width, "height": height, "x": one.x, "y": one.y}
            found |= {(f"kernel {one.kernel}", quantity): value for quantity, value in named.items()}
        return found


explain = explainer(_Work)
