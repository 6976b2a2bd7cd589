"""The methods of family ``dataflow`` on groups of unequal chips (page, "Unequal chips").

A stage's time follows from its group, its chips and its layers alone. Each such stage is a problem of its own, which
the method solves as it solves any other; then a program, or a model of the same kind, chooses the stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Stop
from chipmap.heuristics.dataflow.unequal.program import best_pipeline
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, divisors
from chipmap.instances.dataflow.offers import NONE, Offer, Pipeline, Placed
from chipmap.instances.dataflow.options import ticks_of
from chipmap.instances.dataflow.unequal import (
    Kind,
    group_stage,
    hop_ticks,
    kinds,
    most_in_flight,
    most_stages,
    stage_instance,
    unequal_mapping,
)
from chipmap.methods.dataflow.first import floor
from chipmap.methods.model_solve import conclude, solve_within
from chipmap.records import InputError
from chipmap.records.decimals import exact
from chipmap.result import Infeasibility, Termination, integer_bound
from chipmap.run import Run

#: The share of the time that is left which one stage may take.
SHARE = 0.5
Method = Callable[[DataflowInstance, Run], Termination]
#: Chooses the stages: (offer, cutoff) to the best pipeline, None where there is none below the cutoff.
Chooser = Callable[[Offer, int | None], Pipeline | None]


class Layered(NamedTuple):
    """A stage with so many layers: picoseconds of a layer (:data:`NONE`: no mapping), the least that it can be, and the
    mapping."""

    ticks: int
    least: int
    mapping: DataflowSolution | None


@dataclass
class Table:
    """What stages take at one micro-batch of ``samples``: for each kind, by the micro-batches that they hold and by
    layers; ``refuted``: constraints for which some stage has no mapping."""

    instance: DataflowInstance
    samples: int
    kinds: list[Kind]
    run: Run
    method: Method
    layered: list[dict[int, dict[int, Layered]]] = field(default_factory=list)
    refuted: set[str] = field(default_factory=set)

    def offer(self, proved: bool) -> Offer:
        """The stages that there can be, by their times found or by those that are proved."""
        instance, layers = self.instance, self.instance.workload.layers
        ticks = np.full((self.most, len(self.kinds), layers + 1), NONE, dtype=np.int64)
        for k, own in enumerate(self.layered):
            for held, row in own.items():
                for count, one in row.items():
                    each = one.least if proved else one.ticks
                    ticks[held - 1, k, count] = min(NONE, count * each)
        places = next(p for p in range(1, self.most + 1) if (ticks[p - 1 :] == ticks[-1]).all())
        hops = [[hop_ticks(instance, a, b, self.samples) for b in self.kinds] for a in self.kinds]
        groups = instance.system.groups
        return Offer(
            ticks[:places],
            np.array(hops, dtype=np.int64),
            tuple(kind.group for kind in self.kinds),
            tuple(kind.tensor for kind in self.kinds),
            tuple(group.network.size for group in groups),
            self.asked(),
            instance.task.batch // self.samples,
            ticks_of(exact(instance.system.step_ns)),
            instance.task.purpose == "training",
        )

    @property
    def most(self) -> int:
        """The most micro-batches that a stage holds."""
        return most_in_flight(self.instance, self.samples)

    def asked(self) -> tuple[NDArray[np.bool_], ...]:
        """For each stage that is asked for, from the last on, which (kind, layers) it may be."""
        groups, found = [group.name for group in self.instance.system.groups], []
        for stage in reversed(self.instance.task.stage_groups):
            allowed = np.zeros((len(self.kinds), self.instance.workload.layers + 1), dtype=np.bool_)
            for k, kind in enumerate(self.kinds):
                if groups[kind.group] == stage.group and stage.tensor in (None, kind.tensor):
                    allowed[k, slice(None) if stage.layers is None else stage.layers] = True
            found.append(allowed)
        return tuple(found)

    def mapping(self, stages: tuple[Placed, ...]) -> DataflowSolution:
        """The mapping with these stages."""
        found = []
        for place, (kind, layers) in zip(range(len(stages), 0, -1), stages, strict=True):
            own = self.layered[kind][min(place, self.most)][layers].mapping
            assert own is not None
            found.append(group_stage(self.instance, self.kinds[kind], layers, own))
        return unequal_mapping(self.instance, self.samples, found)


def solve(instance: DataflowInstance, run: Run, method: Method, choose: Chooser, source: str) -> Termination:
    """The optimum over all stages and micro-batches: ``method`` solves single stages, ``choose`` the pipeline."""

    def work() -> None:
        """Each micro-batch that may be better than the incumbent, by a table of its stages."""
        at_once(instance, run)
        lowers, refuted = list[int](), set[str]()
        for least, samples in sorted(_floors(instance)):
            if run.upper is not None and least >= run.upper:
                lowers.append(run.upper)
                break
            table = _table(instance, samples, run, method)
            refuted |= table.refuted
            found, proved = table.offer(proved=False), table.offer(proved=True)
            best = choose(found, run.upper)
            if best is not None:
                run.solution(table.mapping(best.stages), source, claimed=best.ticks)
            if not np.array_equal(found.ticks, proved.ticks):
                best = choose(proved, run.upper)
            if best is not None:
                lowers.append(best.least)
            elif run.upper is not None:
                lowers.append(run.upper)
        if lowers:
            run.bound(min(lowers), source)
        else:
            run.infeasible(_none(instance, refuted))

    return run.attempt(work)


def at_once(instance: DataflowInstance, run: Run) -> None:
    """Report a bound by all FLOP: each layer at the kind of stage on which it can be fastest."""
    run.bound(min(_floors(instance))[0], "all FLOP")


def _floors(instance: DataflowInstance) -> list[tuple[int, int]]:
    """What a batch takes at least by its FLOP, with the micro-batch, for each."""
    layers, every, most = instance.workload.layers, kinds(instance), most_stages(instance)
    found = []
    for samples, rounds in _micro_batches(instance):
        least = NONE
        for kind in every:
            alone = stage_instance(instance, kind, layers, samples)
            assert alone.task.degrees is not None
            least = min(least, floor(alone, alone.task.degrees) // rounds)
        fixed = rounds * ticks_of(exact(instance.system.step_ns))
        found.append((least + (rounds - 1) * -(-least // most) + fixed, samples))
    return found


def bounds(instance: DataflowInstance, run: Run) -> Termination:
    """The bound by all FLOP alone."""
    return run.attempt(lambda: at_once(instance, run))


def _micro_batches(instance: DataflowInstance) -> Iterator[tuple[int, int]]:
    """Every micro-batch that divides the batch, or the task's, with the number of them."""
    task = instance.task
    for samples in divisors(task.batch) if task.micro_batch is None else (task.micro_batch,):
        if task.batch % samples == 0:
            yield samples, task.batch // samples


def _table(instance: DataflowInstance, samples: int, run: Run, method: Method) -> Table:
    """What every stage takes. A layer takes no less where a stage holds more micro-batches."""
    table = Table(instance, samples, kinds(instance), run, method)
    asked, most = table.asked(), table.most
    for k, kind in enumerate(table.kinds):
        rows = dict[int, dict[int, Layered]]()
        table.layered.append(rows)
        if asked and not any(one[k].any() for one in asked):
            continue
        for held in dict.fromkeys((1, most)):
            rows[held] = _row(table, kind, held, {})
        todo = [(1, most)]
        while todo:
            low, high = todo.pop()
            known = {count: one for count, one in rows[high].items() if _settled(rows[low][count], one)}
            if high - low < 2:
                continue
            middle = (low + high) // 2
            if len(known) == len(rows[high]):
                rows |= dict.fromkeys(range(low + 1, high), rows[high])
                continue
            rows[middle] = _row(table, kind, middle, known)
            todo += [(low, middle), (middle, high)]
    return table


def _settled(low: Layered, high: Layered) -> bool:
    """Whether a stage between these takes what both of them take."""
    return low.ticks == high.ticks == high.least and low.ticks == low.least


def _row(table: Table, kind: Kind, held: int, known: dict[int, Layered]) -> dict[int, Layered]:
    """What stages of a kind take that hold so many micro-batches, by layers. A layer takes no less where a stage has
    more of them: what fits L + 1 layers fits L. So where two numbers of layers take the same, all between them do."""
    layers = table.instance.workload.layers
    found = dict(known)

    def solved(count: int) -> Layered:
        """What a stage with so many layers takes."""
        if count not in found:
            found[count] = _alone(table, kind, count, held)
        return found[count]

    todo = [(1, layers)]
    while todo:
        low, high = todo.pop()
        one, other = solved(low), solved(high)
        if high - low < 2:
            continue
        if one.ticks == other.ticks or any(a.ticks != a.least for a in (one, other)):
            found |= {c: other._replace(least=one.least) for c in range(low + 1, high) if c not in known}
            continue
        middle = (low + high) // 2
        todo += [(low, middle), (middle, high)]
    return found


def _alone(table: Table, kind: Kind, layers: int, held: int) -> Layered:
    """The best mapping of one stage by itself."""
    run, instance, samples = table.run, table.instance, table.samples
    run.checkpoint()
    alone = stage_instance(instance, kind, layers, samples, held)
    inner = run.inner(alone, run.deadline.share(SHARE))
    try:
        table.method(alone, inner)
    except InputError as error:
        run.note("left out", f"{layers} layers on {kind.tensor} chips of {alone.system.name}: {error}")
        return Layered(NONE, 0, None)
    run.checkpoint()
    passes = layers * (instance.task.batch // samples)
    if inner.proved_infeasible:
        table.refuted.update(reason.label for reason in inner.infeasibility)
        return Layered(NONE, NONE, None)
    least = -(-inner.lower.value // passes) if inner.lower is not None else 0
    if inner.best is None:
        return Layered(NONE, least, None)
    mapping = inner.best.solution
    assert isinstance(mapping, DataflowSolution)
    ticks = inner.best.certificate.terms["T4"]
    return Layered(ticks, ticks if inner.gap == 0 else min(least, ticks), mapping)


def _none(instance: DataflowInstance, refuted: set[str]) -> Infeasibility:
    """No pipeline: whatever the stages, a constraint fails in one of them. Of several the DRAM comes first."""
    asked = f" as {len(instance.task.stage_groups)} stages are asked for" if instance.task.stage_groups else ""
    label = "C6" if "C6" in refuted else min(refuted, default="C0")
    layers = instance.workload.layers
    message = f"no stages on these groups hold all {layers} layers{asked}"
    short = (float(layers), float(layers - 1), "layers")
    return Infeasibility.of(label, "layers", short, message, "Give more chips, or memory.")


def auto(instance: DataflowInstance, run: Run, method: Method) -> Termination:
    """The exact program over (layers done, chips used)."""
    return solve(instance, run, method, best_pipeline, "program over layers and chips")


def by_model(instance: DataflowInstance, run: Run, method: Method, kind: Literal["mip", "cpsat"]) -> Termination:
    """The stages by a model of this kind."""
    if kind == "cpsat":
        from chipmap.formulations.dataflow.cpsat_unequal import build
    else:
        from chipmap.formulations.dataflow.mip_unequal import build  # type: ignore[assignment]

    def choose(offer: Offer, below: int | None) -> Pipeline | None:
        """The model's best pipeline below the cutoff."""
        if not all(any(offer.choices(s)) for s in range(len(offer.asked) or 1)):
            return None
        model = build(instance, offer, below)
        outcome = solve_within(run, model)
        if outcome.termination.reason == "infeasible":
            return None
        conclude(run, outcome, kind)
        if outcome.value_of is None or outcome.bound is None:
            raise Stop("time")
        stages = model.decode(outcome.value_of)
        ticks = offer.batch(stages)
        return Pipeline(ticks, stages, min(ticks, integer_bound(outcome.bound)))

    return solve(instance, run, method, choose, kind)
