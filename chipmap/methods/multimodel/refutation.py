"""Proofs that limits and deadlines (C4) can't be met: of each model alone, of all models' energies, and by lines.

A schedule of all models holds one of each model alone, on the whole module and in as many windows. The latencies of
that model add up to no more than T1, and to no more than its deadline where it keeps it. So a bound on T1 of the model
alone that is above its deadline or above the limit on T1 refutes the instance. Energies add up over models: a sum of
least energies above the limit on T2 does so as well, each model within its limit on latency.
"""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.explanation import EXPLAIN
from chipmap.heuristics.multimodel.energy import Energy
from chipmap.heuristics.multimodel.windows.any_windows import SAFE, Line
from chipmap.instances.multimodel.instance import MultiInstance, in_force, of_models
from chipmap.instances.multimodel.pinned import narrowed
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem
from chipmap.methods.chain import Link, Turn, follow
from chipmap.result import Infeasibility, TraceEvent
from chipmap.run import Run

#: The labels that all proofs here may use, beside C5 where chiplets have a limit, and C6 where layers have.
USED = ("C1", "C2", "C3", "C4")


def limited(instance: MultiInstance) -> bool:
    """Whether there is a limit or a deadline."""
    task = instance.task
    return (
        task.latency_limit_ns is not None
        or task.energy_limit_pj is not None
        or any(model.deadline_ns is not None for model in instance.models)
    )


def above_limits(problem: MultiProblem, lines: Sequence[Line]) -> list[Infeasibility]:
    """The reason where T1 and T2 at their limits lie below a line rate · T1 + T2 >= value; none where none does."""
    task = problem.instance.task
    if task.latency_limit_ns is None and task.energy_limit_pj is None:
        return []
    time = problem.most_time if task.latency_limit_ns is None else min(problem.most_time, task.latency_limit_ns)
    energy = problem.most_energy if task.energy_limit_pj is None else min(problem.most_energy, task.energy_limit_pj)
    for line in lines:
        if task.energy_limit_pj is None and line.rate <= 0:
            continue  # it says nothing of the latency, which alone is limited
        if line.rate * time + energy < line.value * (1 - SAFE):
            if task.energy_limit_pj is None or (task.latency_limit_ns is not None and line.rate > 0):
                demand, limit, what, unit = (line.value - energy) / line.rate, time, "latency", "ns"
            else:
                demand, limit, what, unit = line.value - line.rate * time, energy, "energy", "pJ"
            both = task.latency_limit_ns is not None and task.energy_limit_pj is not None
            within = f" within {energy:,} pJ" if both else ""
            least = max(limit + 1, int(demand * (1 - SAFE)))
            message = f"the {what} is at least {least:,} {unit}{within}, its limit is {limit:,} {unit}"
            return [_beyond(problem, what, least, limit, unit, message)]
    return []


def _beyond(problem: MultiProblem, what: str, least: int, limit: int, unit: str, message: str) -> Infeasibility:
    labels = (*USED, *sorted({"C5", "C6"} & in_force(problem.instance)))
    remedy = f"a limit of at least {least:,} {unit}, maybe more: {EXPLAIN}"
    return Infeasibility.of("C4", what, (least, limit, unit), message, remedy, labels=labels)


class SingleModels:
    """Each model of a problem alone, with the limit on its latencies in sum: its deadline or the limit on T1."""

    def __init__(self, problem: MultiProblem) -> None:
        self.problem, self.instance = problem, problem.instance
        given = [(model.deadline_ns, self.instance.task.latency_limit_ns) for model in self.instance.models]
        self.limits = [min((limit for limit in pair if limit is not None), default=None) for pair in given]

    def alone(self, m: int, objective: str, limit: int | None) -> MultiInstance:
        """Model ``m`` alone, with a ``limit`` on T1; without static energy, which isn't a sum over models."""
        task = self.instance.task.replace(objective=objective, latency_limit_ns=limit, energy_limit_pj=None)
        model = self.instance.models[m]
        own = of_models(self.instance, (m,))
        module = own.module.replace(static_watts=0.0)
        return own.replace(name=model.name, module=module, models=(model.replace(deadline_ns=None),), task=task)

    def refute(self, turn: Turn, links: Sequence[Link]) -> list[Infeasibility]:
        """The reason why limits can't be met, by ``links`` that bound a model alone; none where none is found.

        Models with limits get equal shares of the turn, those with the least room first.
        """
        limited = [(limit, m) for m, limit in enumerate(self.limits) if limit is not None]
        parts = len(limited) + (self.instance.task.energy_limit_pj is not None)
        for done, (limit, m) in enumerate(sorted(limited, key=lambda one: self._room(*one))):
            least = self._least(turn.share(1 / (parts - done)), m, "latency", limit, links)
            if least > limit:
                model = self.instance.models[m]
                own = model.deadline_ns is not None and model.deadline_ns == limit
                what = f"latency of {model.name!r}" if own else "latency"
                which = f"its deadline is {limit:,} ns" if own else f"the limit on all is {limit:,} ns"
                message = f"{model.name!r} alone takes {least:,} ns at least, {which}"
                return [_beyond(self.problem, what, least, limit, "ns", message)]
        return self._energies(turn, links)

    def _room(self, limit: int, m: int) -> float:
        from chipmap.heuristics.multimodel.bounds import least_latency

        return limit / max(1, least_latency(self.problem, self.problem.models[m]))

    def _energies(self, turn: Turn, links: Sequence[Link]) -> list[Infeasibility]:
        limit = self.instance.task.energy_limit_pj
        if limit is None:
            return []
        least = [Energy(narrowed(multi_problem(self.alone(m, "energy", None)))).bound for m in range(len(self.limits))]
        for m, latest in enumerate(self.limits):
            if sum(least) > limit:
                break
            if latest is not None:
                part = turn.share(1 / (len(self.limits) - m))
                room = limit - sum(least) + least[m]
                least[m] = max(least[m], self._least(part, m, "energy", latest, links, room))
        if sum(least) <= limit:
            return []
        message = f"the energy is at least {sum(least):,} pJ, its limit is {limit:,} pJ"
        if any(latest is not None for latest in self.limits):
            message = f"{message} (each model alone, within its limit on latency)"
        return [_beyond(self.problem, "energy", sum(least), limit, "pJ", message)]

    def _least(
        self, turn: Turn, m: int, objective: str, limit: int, links: Sequence[Link], room: int | None = None
    ) -> int:
        """A bound on model m's T1 (ns) or T2 (pJ, within T1 <= ``limit``) alone, as soon as it is above ``room``
        (``limit``, of T1) or a schedule shows that no bound is."""
        lone = self.alone(m, objective, limit if objective == "energy" else None)
        run = turn.run.inner(lone, turn.deadline, gap=0.0)
        enough = limit if room is None else room

        def hear(_: TraceEvent, run: Run) -> None:
            if (run.lower is not None and run.lower.value > enough) or (run.upper is not None and run.upper <= enough):
                run.interrupted = True

        run.listener = hear
        run.attempt(lambda: follow(links, narrowed(multi_problem(lone)), Turn(run, run.deadline)))
        if run.proved_infeasible:  # no T1 within the limit, or layers that no chiplet holds
            return enough + 1
        return 0 if run.lower is None else run.lower.value
