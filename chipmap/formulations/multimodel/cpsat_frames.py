"""The CP-SAT model of frames: the flow of :mod:`.cpsat_mapping`, and intervals that don't overlap modulo H.

Statement: ``docs/families/multimodel-frames.md``. Times are whole ns, energies whole pJ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement
from chipmap.formulations.multimodel.choices import MultiChoices
from chipmap.formulations.multimodel.cpsat_mapping import (
    Builder,
    c1_chain,
    c3_path,
    c5_memory,
    c6_pins,
    layer_time,
)
from chipmap.formulations.multimodel.frame_choices import FrameDecisions
from chipmap.instances.multimodel.instance import MultiInstance, in_force
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem
from chipmap.instances.multimodel.rates import Frame, ahead_of, frames_of, hyperperiod

#: Implied by the domains: there is one window, and every frame is one of the hyperperiod's.
BY_DOMAIN = ("C0",)


@dataclass(eq=False)
class Frames:
    """The frames of a model on its way.

    ``begun[m, c]``: model m has a segment on chiplet c; ``span[m, c]``: how long it takes, in ns; ``moved[m, c, d]``:
    its segment on c is followed by that on d. By frame: ``run[f]``, and on each chiplet ``present``, ``start`` and
    ``turn``.
    """

    builder: Builder
    frames: tuple[Frame, ...]
    length: int
    begun: dict[tuple[int, int], Any] = field(default_factory=dict)
    span: dict[tuple[int, int], Any] = field(default_factory=dict)
    moved: dict[tuple[int, int, int], Any] = field(default_factory=dict)
    run: dict[int, Any] = field(default_factory=dict)
    present: dict[tuple[int, int], Any] = field(default_factory=dict)
    start: dict[tuple[int, int], Any] = field(default_factory=dict)
    turn: dict[tuple[int, int], Any] = field(default_factory=dict)
    energy: dict[int, Any] = field(default_factory=dict)

    @property
    def problem(self) -> MultiProblem:
        """The costs."""
        return self.builder.problem

    @property
    def places(self) -> list[tuple[int, int]]:
        """All (frame, chiplet)."""
        return list(product(range(len(self.frames)), range(self.problem.chiplets)))


def build(instance: MultiInstance, choices: MultiChoices, assume: bool) -> Built:
    """The CP-SAT model of an instance with objective ``frames``."""
    model = cp_model.CpModel()
    model.name = instance.name
    frames, state = add_frames(model, instance, choices, assume)
    made = frames.builder
    decisions = FrameDecisions(frames.problem, lambda *key: made.x[key], frames.run, frames.start, frames.turn)
    return Built("cpsat", instance, model, state, Scope.WHOLE, decisions.encode, decisions.decode, made)


def add_frames(
    model: cp_model.CpModel, instance: MultiInstance, choices: MultiChoices, assume: bool
) -> tuple[Frames, Statement]:
    """Add the frames of ``instance`` to ``model``, which then minimises the weights of dropped ones."""
    builder, state = Builder(model, multi_problem(instance), "", assume), Statement(*BY_DOMAIN)
    frames = Frames(builder, frames_of(instance), hyperperiod(instance))
    for function in (c3_path, c1_chain, c5_memory):
        state(function, builder)
    if "C6" in in_force(instance):
        state(c6_pins, builder)
    def_mapping(frames)
    def_runs(frames)
    state(c2_apart_models, frames)
    state(c2_apart_runs, frames)
    state(c7_order, frames)
    if "C8" in in_force(instance):
        state(c8_follow, frames)
    state(t2_energy_frames, frames)
    state(c4_limits_frames, frames)
    cost = state(t3_dropped, frames)
    if choices.upper is not None:
        builder.enforce("def_upper", model.add(cost <= choices.upper))
    model.minimize(cost)
    return frames, state


def def_mapping(frames: Frames) -> None:
    """begun = segments of the model that begin on the chiplet; span = their time with weights; moved along links."""
    builder, problem = frames.builder, frames.problem
    for m, model in enumerate(problem.models):
        layers, chiplets = range(model.layers), range(problem.chiplets)
        for c in chiplets:
            time = sum(
                layer_time(builder, m, k, 0, c) + int(model.weight_time[k]) * builder.x[m, k, 0, c] for k in layers
            )
            span = frames.span[m, c] = builder.integer(0, problem.most_time, f"span[{m},{c}]")
            builder.model.add(span == time)
            frames.begun[m, c] = builder.literal(f"begun[{m},{c}]")
            for d in builder.near(c):
                moved = frames.moved[m, c, d] = builder.literal(f"moved[{m},{c},{d}]")
                builder.model.add(moved == sum(builder.move[m, k, 0, c, d] for k in layers[:-1]))


def def_runs(frames: Frames) -> None:
    """present = run and begun; start = turn · H + what C2 compares."""
    builder = frames.builder
    for f in range(len(frames.frames)):
        frames.run[f] = builder.literal(f"run[{f}]")
    for f, c in frames.places:
        m, _, release, due = frames.frames[f]
        present = frames.present[f, c] = builder.literal(f"present[{f},{c}]")
        builder.model.add_min_equality(present, [frames.run[f], frames.begun[m, c]])
        frames.start[f, c] = builder.integer(release, due, f"start[{f},{c}]")
        frames.turn[f, c] = builder.integer(release // frames.length, due // frames.length, f"turn[{f},{c}]")


def c2_apart_models(frames: Frames) -> None:
    """C2: a chiplet runs at most one segment of a model: begun is 0 or 1."""
    builder, problem = frames.builder, frames.problem
    for (m, c), begun in frames.begun.items():
        layers = range(problem.models[m].layers)
        came = [builder.start[m, k, 0, c] for k in layers]
        came += [builder.move[m, k, 0, d, c] for k in layers[:-1] for d in builder.near(c)]
        builder.model.add(sum(came) == begun)


def c2_apart_runs(frames: Frames) -> None:
    """C2: no two runs on a chiplet overlap, nor with those one hyperperiod later."""
    builder, length = frames.builder, frames.length
    intervals: dict[int, list[Any]] = {}
    for f, c in frames.places:
        span, present = frames.span[frames.frames[f].m, c], frames.present[f, c]
        within = builder.integer(0, length - 1, f"within[{f},{c}]")
        end = builder.integer(0, length + frames.problem.most_time, f"end[{f},{c}]")
        builder.model.add(frames.start[f, c] == frames.turn[f, c] * length + within)
        for shift, name in ((0, "now"), (length, "next")):
            made = builder.model.new_optional_interval_var(
                within + shift, span, end + shift, present, f"{name}[{f},{c}]"
            )
            intervals.setdefault(c, []).append(made)
    for several in intervals.values():
        builder.model.add_no_overlap(several)


def c7_order(frames: Frames) -> None:
    """C7: start[f, d] >= start[f, c] + span where the model moves from c to d; start >= release by its domain."""
    builder = frames.builder
    for f, frame in enumerate(frames.frames):
        for (m, c, d), moved in frames.moved.items():
            if m == frame.m:
                row = builder.model.add(frames.start[f, d] >= frames.start[f, c] + frames.span[m, c])
                row.only_enforce_if([moved, frames.run[f], *builder.assumption("c7_order")])


def c8_follow(frames: Frames) -> None:
    """C8: run[g] <= run[f], and start[g, d] >= start[f, c] + span, where g comes after f."""
    builder, ahead = frames.builder, ahead_of(frames.problem.instance)
    at = {frame[:2]: f for f, frame in enumerate(frames.frames)}
    for g, (m, number, *_) in enumerate(frames.frames):
        before = ahead[m]
        if before is None:
            continue
        f = at[before, number]
        builder.enforce("c8_follow", builder.model.add(frames.run[g] <= frames.run[f]))
        for c, d in product(range(frames.problem.chiplets), repeat=2):
            row = builder.model.add(frames.start[g, d] >= frames.start[f, c] + frames.span[before, c])
            row.only_enforce_if([frames.present[f, c], frames.present[g, d], *builder.assumption("c8_follow")])


def t2_energy_frames(frames: Frames) -> None:
    """T2 = Σ over frames that are run of their model's layers, weights and transfers, in pJ."""
    builder, problem = frames.builder, frames.problem
    each: dict[int, Any] = {}
    for m, model in enumerate(problem.models):
        parts = []
        for k, c in product(range(model.layers), range(problem.chiplets)):
            key = m, k, 0, c
            parts.append(int(model.run_energy[k, c]) * builder.x[key])
            parts.append(int(model.read_energy[k, c]) * builder.start[key])
            parts.append(int(model.write_energy[k, c]) * builder.end[key])
            for d in builder.near(c) if k < model.layers - 1 else ():
                parts.append(int(model.send_energy[k]) * builder.move[(*key, d)])
        each[m] = builder.integer(0, problem.most_energy, f"each[{m}]")
        builder.model.add(each[m] == sum(parts))
    for f, frame in enumerate(frames.frames):
        spent = frames.energy[f] = builder.integer(0, problem.most_energy, f"spent[{f}]")
        builder.model.add(spent == each[frame.m]).only_enforce_if(frames.run[f])
        builder.model.add(spent == 0).only_enforce_if(~frames.run[f])
    builder.energy = sum(frames.energy.values())


def c4_limits_frames(frames: Frames) -> None:
    """C4: start + span <= deadline of each run, and T2 below its limit."""
    builder, limit = frames.builder, frames.problem.instance.task.energy_limit_pj
    for f, c in frames.places:
        m, _, _, due = frames.frames[f]
        row = builder.model.add(frames.start[f, c] + frames.span[m, c] <= due)
        row.only_enforce_if([frames.present[f, c], *builder.assumption("c4_limits_deadlines")])
    if limit is not None:
        builder.enforce("c4_limits_energy", builder.model.add(builder.energy <= limit))


def t3_dropped(frames: Frames) -> Any:
    """T3 = Σ weight · (1 - run)."""
    models = frames.problem.instance.models
    return sum(models[frame.m].frame_weight * (1 - frames.run[f]) for f, frame in enumerate(frames.frames))
