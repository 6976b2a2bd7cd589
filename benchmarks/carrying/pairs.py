"""Pairs of a graph and its smaller sibling: training steps of eleven architectures, siblings of 1/2, 1/4 and 1/8."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cpu_deadline import CpuDeadline
from benchmarks.placement_siblings import NETWORKS
from chipmap.deadline import Stop
from chipmap.heuristics.placement.siblings.roles import Roles, roles
from chipmap.heuristics.placement.siblings.smaller import Sibling, smaller
from chipmap.instances.placement import PlacementInstance, Task
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.presets import preset
from chipmap.instances.placement.problem import IntArray, placement_problem
from chipmap.instances.placement.training import training
from chipmap.methods.chain import Turn
from chipmap.methods.placement import siblings as link
from chipmap.methods.placement.chain_state import ChainState, Placed
from chipmap.networks.generators.decoder import decoder
from chipmap.networks.generators.encoder_decoder import t5
from chipmap.networks.generators.gpt2 import gpt2
from chipmap.networks.generators.mamba import mamba
from chipmap.networks.generators.mixer import mixer
from chipmap.networks.generators.rnn import rnn
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check

#: Forward graphs that aren't the generators' of ``placement``, with what grows and how large it is once.
OTHERS: dict[str, tuple[Any, str, int, dict[str, Any]]] = {
    "gpt2": (gpt2, "layers", 12, {}),
    "mamba": (mamba, "sequence", 16, {"layers": 4}),
    "decoder": (decoder, "layers", 12, {}),
    "t5": (t5, "layers", 6, {}),
    "mixer": (mixer, "layers", 24, {}),
    "rnn": (rnn, "sequence", 20, {"layers": 2}),
}
STEPS = 6


class Pair(NamedTuple):
    """An ``architecture`` whose repeated structure is ``scale`` times that of its smallest graph, on so many devices,
    and a sibling with 1 / ``factor`` of its steps."""

    architecture: str
    scale: int
    factor: int
    devices: int = 4
    system: str = "p100-pcie"

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.architecture}-{self.scale} ×{self.factor}, {self.devices} {self.system}"

    def instance(self) -> PlacementInstance:
        """The larger graph's instance, memory unlimited."""
        if self.architecture == "amoebanet":
            return training_step("amoebanet", {"cells": 12 * self.scale}, self.devices, self.system, None)
        if self.architecture in NETWORKS:
            what, base, fixed = NETWORKS[self.architecture]
            sizes = {**fixed, what: base * self.scale}
            return training_step(self.architecture, sizes, self.devices, self.system, None)
        make, what, base, fixed = OTHERS[self.architecture]
        step = training(make(**fixed, **{what: base * self.scale}))
        return PlacementInstance(
            name=self.architecture,
            task=Task.make(weights="variable"),
            graph=step.graph.without_loops(),
            system=preset(self.system, self.devices, None),
            together=step.together,
            backward=step.backward,
        )


#: What is judged. Each is predicted by pairs of other architectures alone.
HELD_OUT = (
    Pair("gnmt", 8, 8),
    Pair("gnmt", 4, 4),
    Pair("rnnlm", 8, 8),
    Pair("rnnlm", 4, 2),
    Pair("wavenet", 8, 8),
    Pair("wavenet", 8, 4),
    Pair("transformer-xl", 8, 8),
    Pair("inception", 8, 4),
)
_SIZES = {"inception": (2, 4), "transformer-xl": (1, 2), "gnmt": (1, 2), "rnnlm": (1, 2), "wavenet": (1, 2)}
#: What is learned from: each architecture in two sizes, on 2, 4 and 8 devices.
TRAINING = tuple(
    Pair(architecture, scale, factor, devices, system)
    for architecture in (*NETWORKS, "amoebanet", *OTHERS)
    for (factor, devices, system) in (
        (2, 4, "p100-nvlink"),
        (4, 2, "p100-pcie"),
        (4, 4, "p100-pcie"),
        (8, 8, "p100-pcie"),
        (8, 4, "p100-pcie"),
    )
    for scale in _SIZES.get(architecture, (2, 3))[factor != 2 :][:1]
)


class Carried(NamedTuple):
    """A pair with a plan of its sibling: ``plans`` by rule, their step times by the upward rank, and the ``best``."""

    state: ChainState
    made: Roles
    sibling: Sibling
    plans: list[IntArray]
    steps: list[int]
    best: Placed


def turn_of(instance: PlacementInstance, seconds: float, seed: int) -> Turn:
    """A turn of so many CPU seconds of this process."""
    run = Run(instance, SolveOptions(threads=1, seed=seed, time_limit=1e6), check)
    return Turn(run, CpuDeadline(time.process_time() + seconds, lambda: None))


def carried_over(pair: Pair, seconds: float, seed: int) -> Carried | None:
    """Place the pair's sibling for so many CPU seconds and carry its plan over; None where nothing repeats."""
    instance = pair.instance()
    problem = placement_problem(instance)
    made = roles(problem)
    sibling = None if made is None else smaller(problem, made, 1 / pair.factor, STEPS)
    if made is None or sibling is None:
        return None
    own = link.SiblingState(sibling.problem)
    with suppress(Stop):
        link.place(own, turn_of(instance, seconds, seed), seed)
    assert own.best is not None
    state = ChainState(problem)
    plans = link.plans_of(state, made, sibling, own.best[2])
    placed = [state.placed(plan, state.key, state.work) for plan in plans]
    best = link.best_of_plans(state, plans)
    assert best is not None
    return Carried(state, made, sibling, plans, [int(one[1]) if one else 2**62 for one in placed], best)


def finished(found: Carried, best: Placed) -> int:
    """The step time of a plan in the end, as the chain evaluates it: by its keys, then by those of its schedule."""
    fresh = ChainState(found.state.problem)
    fresh.evaluate_and_keep(best[2], best[3])
    fresh.evaluate_and_keep(best[2])
    assert fresh.best is not None
    return int(fresh.best[1])


def led_by(found: Carried) -> IntArray:
    """The role that leads each operation [N]: that of its group's first one."""
    role: IntArray = found.made.role[found.state.problem.group]
    return role


def work_of(found: Carried) -> IntArray:
    """The time of each operation on its slowest device [N]."""
    problem = found.state.problem
    time_: IntArray = np.where(problem.allowed, problem.time, 0).max(axis=1)
    return time_
