"""``explain`` for family ``multimodel``: what sets the latency, what the energy is spent on, and what more would allow.

The instance is solved, the schedule given (else the best one found) is taken apart, and changes of the task are made
and solved. What one more chiplet or window would allow *at best* is a bound: the linear program over any number of
windows, solved for the changed instance, in which the new chiplet is linked to all others and as near to DRAM as the
nearest of its class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chipmap.certificate import Certificate
from chipmap.explaining.driver import Explaining, above, explainer, outcome, side_by_side
from chipmap.explanation import Change, Difference
from chipmap.heuristics.multimodel.bounds import least_energy, least_time
from chipmap.heuristics.multimodel.windows.any_windows import AnyWindows, Line, bound
from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution, in_force
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem
from chipmap.instances.multimodel.timeline import Span, TimelineWindow, all_energies, energies, timeline
from chipmap.instances.multimodel.units import units
from chipmap.methods.multimodel.chain import RATES, auto
from chipmap.records import InputError, Unit, counted
from chipmap.records.quantities import in_unit, share
from chipmap.result import Infeasibility

#: Windows told one by one, the longest first; reasons why there is no schedule.
TOLD = 6
OBJECTIVES = {"latency": "latency", "energy": "energy", "weighted": "weighted sum", "edp": "EDP"}
S, J = Unit(name="s", per_tick=1e-9), Unit(name="J", per_tick=1e-12)


class MultimodelTrial(NamedTuple):
    """A change of the task: ``what`` it is in words, the ``setting`` of ``--set``, the changed instance."""

    what: str
    setting: str
    instance: MultiInstance


def changes(instance: MultiInstance, infeasible: bool) -> list[MultimodelTrial]:
    """Changes of the task that are solved."""
    task, found = instance.task, list[MultimodelTrial]()
    more = task.windows + 1
    found.append(
        MultimodelTrial("one more window", f"task.windows={more}", instance.replace(task=task.replace(windows=more)))
    )
    if task.windows > 1 and not infeasible:
        found.append(MultimodelTrial("one window", "task.windows=1", instance.replace(task=task.replace(windows=1))))
    for name, words in (("latency_limit_ns", "the limit on latency"), ("energy_limit_pj", "the limit on energy")):
        if getattr(task, name) is not None:
            changed = instance.replace(task=task.replace(**{name: None}))
            found.append(MultimodelTrial(f"without {words}", f"task.{name}=null", changed))
    if any(model.deadline_ns is not None for model in instance.models):
        models = tuple(model.replace(deadline_ns=None) for model in instance.models)
        found.append(MultimodelTrial("without deadlines", "", instance.replace(models=models)))
    if (problem := multi_problem(instance)).sharing is not None or problem.power:
        plain = {"shared_dram_bytes_per_ns": None, "shared_link_bytes_per_ns": None, "static_watts": 0.0}
        free = instance.replace(module=instance.module.replace(**plain))
        found.append(MultimodelTrial("without shared rates and static power", "", free))
    if "C5" in in_force(instance):
        module = instance.module
        module = module.replace(chiplets=tuple(chiplet.replace(sram_bytes=None) for chiplet in module.chiplets))
        found.append(MultimodelTrial("without a limit of SRAM", "", instance.replace(module=module)))
    if "C6" in in_force(instance):
        free = instance.replace(pins=(), forbidden=(), together=(), apart=())
        found.append(MultimodelTrial("without pins, forbidden chiplets and groups (C6)", "", free))
    return found


class _Work(Explaining[MultimodelTrial]):
    """One explanation in progress."""

    family = "multimodel"
    thing = "schedule"
    least_seconds = 0.5
    most_reasons = TOLD

    def __init__(self, instance: MultiInstance, *rest: Any) -> None:
        if instance.task.objective == "frames":
            remedy = "Solve it: bounds and frames.csv say which frames are dropped."
            raise InputError("explain doesn't know objective frames", "task.objective", remedy)
        self.problem: MultiProblem = multi_problem(instance)
        self.unit, self.word = units(instance).objective, OBJECTIVES[instance.task.objective]
        super().__init__(instance, *rest)

    def read(self, given: MultiSolution, which: str) -> None:
        """Raise :class:`InputError` for a schedule of something else."""
        timeline(self.problem, given)

    def solve(self) -> None:
        """Solve the instance."""
        auto(self.instance, self.base)

    def trials(self) -> list[MultimodelTrial]:
        """More and fewer windows, limits left out."""
        return changes(self.instance, self.base.proved_infeasible)

    def clash(self, reason: Infeasibility) -> None:
        """Say a reason why there is no schedule."""
        self.say("clash", reason.message, reason.label)

    def compare(self, objective: int, best: int) -> None:
        """How far the schedule given is from the best one known."""
        if objective > best:
            far = f"{above(objective, best)}, {in_unit(best, self.unit)}"
            self.say("given", f"The schedule given has {self.amount(objective)}, {far}")

    def amount(self, ticks: int) -> str:
        """The objective in words: ``an EDP of 0.42 J·s``."""
        article = "an" if self.word[0] in "aeE" else "a"
        return f"{article} {self.word} of {in_unit(ticks, self.unit)}"

    def take_apart(self, own: MultiSolution, certificate: Certificate) -> None:
        """The schedule taken apart, and what more would allow at best."""
        objective, windows = certificate.objective or 0, timeline(self.problem, own)
        now = self.at_best(self.instance)
        self.base.bound(now, "any number of windows")
        lower = self.base.lower
        least = min(objective, lower.value) if lower is not None else 0
        proof = "which is proved to be the least" if least == objective else (
            f"and no schedule has less than {in_unit(least, self.unit)} (gap {share(objective - least, objective)})"
        )  # fmt: skip
        t1, t2 = certificate.terms["T1"], certificate.terms["T2"]
        text = f"The schedule has {self.amount(objective)}, {proof}. T1 = {in_unit(t1, S)}, T2 = {in_unit(t2, J)}"
        self.say("verdict", f"{text}, T1 · T2 = {t1 * t2 / 1e21:.6g} J·s", latency_s=t1 / 1e9, energy_j=t2 / 1e12)
        for window in sorted(windows, key=lambda one: -one.time)[:TOLD]:
            self.window(window, t1)
        if len(windows) > TOLD:
            rest = sum(one.time for one in sorted(windows, key=lambda one: -one.time)[TOLD:])
            self.say("window", f"The other {len(windows) - TOLD} windows take {in_unit(rest, S)}", "T1")
        self.energy(windows)
        self.more(objective, now)

    def window(self, window: TimelineWindow, total: int) -> None:
        """What sets a window's length: model, segment, and what its time is made of."""
        one, span, models = window.slowest, window.slowest.slowest, self.instance.models
        model, weights = models[one.model], sum(span.weights for span in one.spans)
        text = f"Window {window.number} takes {in_unit(window.time, S)} ({share(window.time, total)} of T1), "
        if window.shared > one.latency:
            text += f"set by its bytes at the shared rates. The slowest model takes {in_unit(one.latency, S)}: "
        else:
            text += "set by "
        text += f"{model.name!r}, layers {one.spans[0].segment[1]} to {one.spans[-1].segment[2]} in "
        text += f"{counted(len(one.spans), 'segment')}: {in_unit(weights, S)} for weights"
        first = sum(span.time for span in one.spans)
        text += f", {in_unit(first, S)} for the first mini-batch"
        if span.count > 1:
            text += f", {span.count - 1} times {in_unit(span.time, S)} for the others, one per slowest segment"
        text += f". {self.segment(span)}"
        others = sorted((other for other in window.ranges if other is not one), key=lambda other: -other.latency)
        if others:
            text += f". Next is {models[others[0].model].name!r}, done after {in_unit(others[0].latency, S)}"
        used = sum(1 for _ in window.spans)
        if used < self.problem.chiplets:
            text += f". {self.problem.chiplets - used} of {self.problem.chiplets} chiplets run nothing"
        self.say("window", text, "T1", window=window.number, ns=window.time, model=model.name,
                 first=span.segment[1], last=span.segment[2], segment_ns=span.time, weights_ns=weights)  # fmt: skip

    def segment(self, span: Span) -> str:
        """The slowest segment: where it runs, and what its time for a mini-batch is made of."""
        m, first, last, c = span.segment
        chiplet, model = self.instance.module.chiplets[c], self.instance.models[m]
        heaviest = max((part for part in span.parts if part.kind == "layer"), key=lambda part: part.time)
        words = {"read": "reading from DRAM", "receive": "receiving", "send": "sending", "write": "writing to DRAM"}
        moved = {kind: sum(part.time for part in span.parts if part.kind == kind) for kind in words}
        parts = [f"layers {share(span.time - sum(moved.values()), span.time)}"]
        parts += [f"{words[kind]} {share(ns, span.time)}" for kind, ns in moved.items() if ns]
        text = f"Its slowest segment is layers {first} to {last} on {chiplet.name!r} ({chiplet.kind}), "
        text += f"{in_unit(span.time, S)} for a mini-batch: {', '.join(parts)}"
        layer = model.layers[heaviest.layer].name
        return f"{text}. Most of it is {layer!r} (layer {heaviest.layer}), {in_unit(heaviest.time, S)}"

    def energy(self, windows: tuple[TimelineWindow, ...]) -> None:
        """What T2 is spent on, and by which model."""
        parts, owners = all_energies(self.problem, windows), dict[int, int]()
        total = sum(parts.values())
        for one in (one for window in windows for one in window.ranges):
            owners[one.model] = owners.get(one.model, 0) + sum(energies(self.problem, one).values())
        words = {"compute": "compute", "NoP": "transfers between chiplets (NoP)", "DRAM": "activations (DRAM)",
                 "weights": "weights (DRAM)", "static": "static power"}  # fmt: skip
        text = "; ".join(f"{words[part]} {in_unit(parts[part], J)} ({share(parts[part], total)})" for part in parts)
        figures = {f"{part.lower()}_pj": amount for part, amount in parts.items()}
        self.say("energy", f"T2 is spent on {text}", "T2", **figures)
        names = [
            (self.instance.models[m].name, amount) for m, amount in sorted(owners.items(), key=lambda own: -own[1])
        ]
        text = ", ".join(f"{name!r} {share(amount, total)}" for name, amount in names)
        least = least_energy(self.problem)
        more = (
            f"With each layer where its energy is least it were {in_unit(least, J)}: {share(total - least, total)} less"
        )
        self.say("energy", f"Of T2 {text}. {more}", "T2", least_pj=least)

    def shortage(self) -> None:
        """Without a schedule: the least latency and energy, now and with one more chiplet of a class."""
        t, e = least_time(self.problem), least_energy(self.problem)
        text = f"Every schedule takes at least {in_unit(t, S)} and {in_unit(e, J)}, limits aside"
        self.say("bound", text, least_ns=t, least_pj=e)
        for kind in kinds(self.instance):
            wider = multi_problem(with_chiplet(self.instance, kind))
            text = f"With one more chiplet of class {kind!r} that would be {in_unit(least_time(wider), S)}"
            self.say("more", f"{text} and {in_unit(least_energy(wider), J)}", chiplet=kind)

    def more(self, objective: int, now: int) -> None:
        """What one more chiplet of a class, or more windows, would allow at best; ``now`` is the bound as it is."""
        text = f"However many windows there are, no schedule has less than {in_unit(now, self.unit)}"
        self.say("more", f"{text}: more windows gain at most {share(max(0, objective - now), objective)}", bound=now)
        for kind in kinds(self.instance):
            least = self.at_best(with_chiplet(self.instance, kind))
            text = f"One more chiplet of class {kind!r}, wherever it stands, allows at best {in_unit(least, self.unit)}"
            gain = share(max(0, objective - least), objective)
            self.say("more", f"{text}: it gains at most {gain}, with any number of windows", chiplet=kind, bound=least)

    def at_best(self, instance: MultiInstance) -> int:
        """The linear program's bound on the objective, for weights around T2 / T1 of the best schedule."""
        program, lines = AnyWindows(multi_problem(instance)), list[Line]()
        assert self.base.best is not None
        terms = self.base.best.certificate.terms
        rates = RATES if instance.task.objective == "edp" else RATES[:1]
        return max(bound(program, lines, factor * terms["T2"] / max(1, terms["T1"])) for factor in rates)

    def attempt(self, trial: MultimodelTrial, left: int) -> None:
        """Solve a changed instance, from the best schedule."""
        run = self.run(trial.instance, self.spent * self.left / left, (self.best,))
        auto(trial.instance, run)
        found = outcome(run, self.base.upper)
        self.tried.append(Change(kind="task", what=trial.what, setting=trial.setting, **found))

    def difference(self, judged: tuple[Certificate, Certificate]) -> Difference:
        """Two schedules side by side: windows, what energy is spent on, how long chiplets work, where they differ."""
        before, after = (_resources(self.problem, timeline(self.problem, one)) for one in (self.solution, self.against))
        return side_by_side(judged, before, after)


explain = explainer(_Work)


def kinds(instance: MultiInstance) -> list[str]:
    """The classes of chiplets."""
    return sorted({chiplet.kind for chiplet in instance.module.chiplets})


def with_chiplet(instance: MultiInstance, kind: str) -> MultiInstance:
    """One more chiplet of class ``kind``: linked to all others, with the least hops and the most SRAM of its class.

    What no schedule of this instance undercuts, none does that has the chiplet anywhere else.
    """
    module, like = instance.module, [one for one in instance.module.chiplets if one.kind == kind]
    sizes = [one.sram_bytes for one in like]
    most = None if None in sizes else max(size for size in sizes if size is not None)
    names = {one.name for one in module.chiplets}
    name = next(f"more{i}" for i in range(len(names) + 1) if f"more{i}" not in names)
    new = like[0].replace(name=name, hops=min(one.hops for one in like), sram_bytes=most)
    links = (*module.links, *((name, other.name) for other in module.chiplets))
    return instance.replace(module=module.replace(chiplets=(*module.chiplets, new), links=links))


def _resources(problem: MultiProblem, windows: tuple[TimelineWindow, ...]) -> dict[tuple[str, str], float]:
    """Figures of a schedule by (resource, quantity), in s and J."""
    found = {(f"window {window.number}", "length_s"): window.time / 1e9 for window in windows}
    found |= {("energy", f"{part}_j"): amount / 1e12 for part, amount in all_energies(problem, windows).items()}
    for span in (span for window in windows for span in window.spans):
        key = problem.instance.module.chiplets[span.segment[3]].name, "busy_s"
        found[key] = found.get(key, 0.0) + span.busy / 1e9
    return found
