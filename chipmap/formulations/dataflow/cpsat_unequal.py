"""The CP-SAT model of a pipeline on groups of unequal chips, whose stages' times are known (page, "Unequal chips").

``x[s, k, L]`` = [the stage in place s, counted from the last one, is of kind k and has L layers]; ``kind[s, k]`` = [it
is of kind k]. Times in picoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.offers import Offer, Placed
from chipmap.records import InputError

#: What holds within each stage, and is known of it.
BY_DOMAIN: tuple[str, ...] = ("C1", "C2", "C3", "C4", "C5", "C6", "C7", "T1", "T2", "T3", "T6")
#: Sums that CP-SAT is given stay below this.
LARGEST = 2**61


class _Pipeline:
    """The variables of a model that is being stated."""

    def __init__(self, model: cp_model.CpModel, offer: Offer) -> None:
        self.model, self.offer, self.stages = model, offer, range(offer.most_stages)
        self.x = {(s, *one): model.new_bool_var(f"x[{s},{one}]") for s in self.stages for one in offer.choices(s)}
        self.kind = {(s, k): model.new_bool_var(f"kind[{s},{k}]") for s in self.stages for k in offer.kinds}
        sent = int(offer.hops.max(initial=0))
        self.most = max([int(offer.at(key[0])[key[1], key[2]]) + offer.joined * sent for key in self.x] + [sent])
        self.longest = model.new_int_var(0, self.most, "longest")
        if (len(self.stages) * 2 + offer.rounds) * self.most >= LARGEST:
            what = "makes a batch so long that its picoseconds pass 64 bits"
            raise InputError(what, "task.batch", "Give a smaller one, or the method dataflow/auto.")

    def of(self, stage: int) -> dict[Placed, Any]:
        """The literals of what a stage may be."""
        return {Placed(k, count): literal for (s, k, count), literal in self.x.items() if s == stage}

    def time(self, stage: int) -> Any:
        """Picoseconds of a stage."""
        at = self.offer.at(stage)
        return sum(int(at[one.kind, one.layers]) * literal for one, literal in self.of(stage).items())


def build(instance: DataflowInstance, offer: Offer, upper: int | None = None) -> Built:
    """The model for one micro-batch, minimising the batch in ticks; only pipelines below ``upper``, where given."""
    model = cp_model.CpModel()
    model.name = instance.name
    made, state = _Pipeline(model, offer), Statement(*BY_DOMAIN)
    state(c0_domain_layers, made)
    state(c0_domain_chips, made)
    state(c8_stages, made)
    state(t7_stage, made)
    cost = state(t4_layer, made) + state(t5_transfers, made) + (offer.rounds - 1) * made.longest + state(t8_step, made)
    if upper is not None:
        model.add(cost <= upper - 1)
    model.minimize(cost)
    return Built("cpsat", instance, model, state, Scope.SUBSET, lambda _: None, lambda value: decode(made, value), made)


def decode(made: _Pipeline, value: Callable[[Any], float]) -> tuple[Placed, ...]:
    """The stages that the literals stand for."""
    chosen = sorted((key for key, literal in made.x.items() if value(literal) > 0.5), reverse=True)
    return tuple(Placed(kind, layers) for _, kind, layers in chosen)


def c0_domain_layers(made: _Pipeline) -> None:
    """C0: the stages have all layers."""
    made.model.add(sum(key[2] * literal for key, literal in made.x.items()) == made.offer.layers)


def c0_domain_chips(made: _Pipeline) -> None:
    """C0: no more chips of a group than it has."""
    offer = made.offer
    for group, chips in enumerate(offer.chips):
        taken = [offer.takes[k] * literal for (_, k), literal in made.kind.items() if offer.group[k] == group]
        made.model.add(sum(taken) <= chips)


def c8_stages(made: _Pipeline) -> None:
    """C8: a place in the pipeline has one stage at most, none before an empty one; each asked one is there."""
    for s in made.stages:
        own = made.of(s)
        for kind in made.offer.kinds:
            made.model.add(sum(literal for one, literal in own.items() if one.kind == kind) == made.kind[s, kind])
        used = sum(made.kind[s, kind] for kind in made.offer.kinds)
        if made.offer.asked or s == 0:
            made.model.add(used == 1)
        else:
            made.model.add(used <= sum(made.kind[s - 1, kind] for kind in made.offer.kinds))


def t4_layer(made: _Pipeline) -> Any:
    """T4: all layers of all stages, for a micro-batch."""
    return sum(made.time(s) for s in made.stages)


def t7_stage(made: _Pipeline) -> None:
    """T7: ``longest`` is at least the time of each stage."""
    for s in made.stages:
        made.model.add(made.longest >= made.time(s))


def t5_transfers(made: _Pipeline) -> Any:
    """T5: all transfers; ``longest`` is at least each of them, with the earlier stage where that takes part in it."""
    found = []
    for s in made.stages[:-1]:
        sent = made.model.new_int_var(0, int(made.offer.hops.max(initial=0)), f"sent[{s}]")
        for a in made.offer.kinds:
            for b in made.offer.kinds:
                both = [made.kind[s + 1, a], made.kind[s, b]]
                made.model.add(sent >= int(made.offer.hops[a, b])).only_enforce_if(both)
        made.model.add(made.longest >= sent + (made.time(s + 1) if made.offer.joined else 0))
        found.append(sent)
    return sum(found)


def t8_step(made: _Pipeline) -> int:
    """T8: what each micro-batch takes besides."""
    return made.offer.rounds * made.offer.fixed
