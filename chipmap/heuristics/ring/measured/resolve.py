"""The same problem solved again and again under other speeds: exact programs over ideals that are listed once."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import all_ideals
from chipmap.heuristics.ring.measured.fit import Speeds
from chipmap.heuristics.ring.programs.flow_graph import flow_graph
from chipmap.heuristics.ring.programs.program import ProgramResult, Programs
from chipmap.heuristics.ring.programs.screens import HeldWeights
from chipmap.heuristics.ring.programs.triangle import TooManyStatesError, solve_exact
from chipmap.instances.ring.loads import loads, terms
from chipmap.instances.ring.problem import IntArray, RingProblem

#: States of the exact program; where they are more, the optimum under the sufficient part of C3 is taken.
STATES = 50_000


class Resolver:
    """Optimal mappings of ``problem`` (with C1) under given speeds.

    Raises TooManyIdealsError for wide graphs, and ValueError where the programs don't apply.
    """

    def __init__(self, problem: RingProblem, ideals: int, deadline: Deadline = Deadline()) -> None:
        self._problem, self._deadline = problem, deadline
        self._graph = flow_graph(problem)
        programs = Programs(problem, self._graph)
        self._ideals = all_ideals(self._graph.producers, ideals)
        self._held = HeldWeights(programs.operations, self._ideals)
        self._paying = problem.instance
        if problem.cost_mode == "period":
            self._paying = problem.instance.replace(cost_mode="sum")

    def __call__(self, speeds: Speeds, known: IntArray | None = None) -> IntArray | None:
        """The optimal mapping [n] under ``speeds``; None if there is no mapping. A ``known`` mapping saves work.

        In cost mode ``period``, chips that pay for their transfers are solved in mode ``sum`` (without the links' own
        maximum), others in mode ``period``.
        """
        problem = self._under(speeds)
        programs = Programs(problem, self._graph)
        upper = problem.most_ticks if known is None else max(terms(problem, known))
        if speeds.spill > 0.0:
            programs.charges.append(self._held.beyond(speeds.threshold, speeds.spill))
            fullest = problem.most_bytes if known is None else float(loads(problem, known).weight_bytes.max())
            upper += math.ceil(speeds.spill * max(0.0, fullest - speeds.threshold))
        found = programs.solve("path", self._ideals, upper, self._deadline)
        if programs.problem.has("C3"):
            found = self._beyond_path(programs, found, upper)
        return None if found.chips is None else np.array(found.chips, dtype=np.int64)

    def _beyond_path(self, programs: Programs, found: ProgramResult, upper: int) -> ProgramResult:
        """The optimum under C3 in full, unless the necessary part of C3 shows that ``found`` is it."""
        upper = upper if found.value is None else found.value - 1
        least = programs.solve("n1", self._ideals, upper, self._deadline)
        if least.value is None:
            return found
        try:
            better = solve_exact(programs, self._ideals, upper, self._deadline, STATES)
        except (TooManyStatesError, ValueError):
            return found
        return found if better.value is None else better

    def _under(self, speeds: Speeds) -> RingProblem:
        """The problem with these speeds."""
        problem, pays = self._problem, speeds.transfer > 0.0
        period = problem.cost_mode == "period"
        factor = speeds.link if period and not pays else speeds.transfer
        storages = tuple(replace(storage, ticks=round(storage.ticks * factor)) for storage in problem.storages)
        instance = self._paying if pays else problem.instance
        ticks = np.ceil(speeds.ticks).astype(np.int64)
        return replace(problem, instance=instance, ticks=ticks, storages=storages)
