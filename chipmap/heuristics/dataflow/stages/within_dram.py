"""The exact program for stages of kernels whose DRAM is limited: the shortest step of those that fit it.

What it proves: no choice of schemes, partitions and stages within C1 to C8, C6 included, has a shorter slowest stage or
transfer. :class:`StageProgram` leaves out tensors that wait in DRAM, so that its mapping may not fit. Here what a stage
holds is counted in full (page ``dataflow-stages``, C6). Which tensors wait depends on where the stage ends: one that is
read in a later stage is sent on at once. So stages are built backwards from each node where one may end, where all is
known. Labels (picoseconds, most bytes that wait so far, bytes kept beyond the least of each kernel) grow by a partition
at a time; of two labels at a node with as many partitions one goes if it is no better in any of the three. What rests
is that of the kernels between the node and the end.

Stages are then put together: a node is reached by s + 1 stages if one of them ends there that begins where s stages
end, and what is open there can be sent on within the threshold. All else is as in :class:`StageProgram`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline, Stop, around
from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT, Graph, Rules
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import ENTRIES
from chipmap.heuristics.dataflow.program.watch import watched
from chipmap.heuristics.dataflow.stages.dram_kernel import (
    Asked,
    Backward,
    Ends,
    Into,
    Reached,
    clear,
    left_waiting,
    reach,
    stage_before,
)
from chipmap.heuristics.dataflow.stages.kernel import WIDE, Arcs
from chipmap.heuristics.dataflow.stages.program import Division, Listed, StageArc, StageProgram
from chipmap.instances.dataflow.dram import dram_bytes
from chipmap.records import counted

#: Pareto labels of a node; partitions that are looked at for a threshold.
PLACES, WORK = 24, 10**9


class WithinDram(StageProgram):
    """The program on the ideals of one pass, within the DRAM of each stage's chip."""

    columns = 1
    ends: Ends | None = None

    def least_dram(
        self, most: int | None, exactly: bool, fused: bool, short: int, below: int, deadline: Deadline
    ) -> int | None:
        """The least DRAM, in bytes, above the ``short`` ones that aren't enough and below others, with which there is a
        mapping; None where there is none.

        Partitions of any length are listed once; then the bytes are found by bisection. Where the deadline falls, it is
        the least found so far; :class:`~chipmap.deadline.Stop` if nothing is. Raises :class:`TooWideError`.
        """
        if exactly and most is not None and most * self.problem.degrees.pipeline > len(self.order):
            return None
        rules, longest = self.rules(most, fused)._replace(room=NO_LIMIT), self._longest()
        listed, enough, room = self._list(rules, longest, deadline), None, below - 1
        while room > short:
            assert self.ends is not None
            rest = self.ends.arcs.rest._replace(room=room)
            self.ends = self.ends._replace(arcs=self.ends.arcs._replace(rest=rest))
            try:
                deadline.check()
                found = self._within(listed, most, exactly, longest, rules)
            except Stop:
                if enough is None:
                    raise
                break
            if found is not None:
                enough = max(dram_bytes(self.problem, found.chosen, found.partitions, found.stages))
            elif enough is None:
                return None
            else:
                short = room
            room = (short + enough) // 2
        return enough

    def _list(self, rules: Rules, limit: int, deadline: Deadline) -> Listed:
        """All nodes, and partitions of at most ``limit`` picoseconds, by start and by end."""
        listed = super()._list(rules, limit, deadline)
        g, stays = self._graphs()
        position = np.zeros(len(listed.ideal), np.int64)
        position[listed.order] = np.arange(len(listed.order))
        self.ends = Ends(
            arcs=listed.arcs,
            streamed=_into(g, rules, listed, listed.arcs.streamed),
            resident=_into(g if stays is None else stays, rules, listed, listed.arcs.resident),
            ideal=listed.ideal,
            signature=listed.signature,
            order=listed.order,
            position=position,
        )
        return listed

    def _within(self, listed: Listed, most: int | None, exactly: bool, below: int, rules: Rules) -> Division | None:
        """A mapping within DRAM whose step takes at most ``below`` picoseconds."""
        if listed.ideal[listed.order[-1]] != len(self.lattice.masks) - 1:
            return None
        assert self.ends is not None
        capped = most if most is not None and most < len(self.order) else None
        table, reached = self._tables(len(listed.ideal), capped or 1)
        asked, work = Asked(below, capped is not None, exactly), np.array([0, WORK], np.int64)
        g, _ = self._graphs()
        with watched(work, around()):
            found = reach(g, rules, self.ends, asked, table, reached, work)
        if found == WIDE:
            raise TooWideError("too many stages to choose from, or too many that differ in time and bytes of DRAM")
        if not found:
            return None
        arcs = [arc for stage in self._stages(reached, exactly) for arc in self._partitions(stage, asked, rules, table)]
        return self._division(listed, arcs, rules)

    def _tables(self, nodes: int, most: int) -> tuple[Backward, Reached]:
        """Tables without a label, for so many nodes and partitions of a stage."""
        shape, pipeline = (nodes, most + 1, PLACES), self.problem.degrees.pipeline
        if max(np.prod(shape, dtype=np.float64), nodes * (pipeline + 1)) > ENTRIES / 4:
            raise TooWideError(f"{nodes:,} nodes, {counted(pipeline, 'stage')} and {counted(most, 'partition')}")
        table = Backward(
            time=np.full(shape, -1, np.int64),
            waits=np.zeros(shape, np.int64),
            extra=np.zeros(shape, np.int64),
            then=np.zeros((*shape, 3), np.int32),
            arc=np.zeros(shape, np.int64),
        )
        return table, Reached(*(np.full((nodes, pipeline + 1), -1, np.int64) for _ in range(2)))

    def _stages(self, reached: Reached, exactly: bool) -> list[_Stage]:
        """The stages that end with all kernels, the first one first."""
        assert self.ends is not None
        end, pipeline = int(self.ends.order[-1]), reached.begin.shape[1] - 1
        s = pipeline if exactly else int(np.flatnonzero(reached.begin[end, 1:] >= 0)[0]) + 1
        found = list[_Stage]()
        while s > 0:
            begin = int(reached.begin[end, s])
            found.append(_Stage(s - 1, begin, end, int(reached.stays[end, s])))
            end, s = begin, s - 1
        return found[::-1]

    def _partitions(self, stage: _Stage, asked: Asked, rules: Rules, table: Backward) -> list[StageArc]:
        """The partitions of a stage: what :func:`reach` saw, once more."""
        ends, g = self.ends, self._graphs()[0]
        assert ends is not None
        if stage.stays >= 0:
            costs = ends.arcs.resident
            cost, extra = int(costs.cost[stage.stays]), int(costs.extra[stage.stays])
            return [StageArc(stage.begin, stage.end, cost, stage.number, True, extra)]
        lowest = stage_before(g, rules, ends, stage.end, asked, table, np.array([0, WORK], np.int64))
        arcs, most = list[StageArc](), table.time.shape[1] - 1
        labels = table.time[stage.begin, most if asked.exactly else 1 :]
        k, place = (int(i[0]) for i in np.nonzero(labels >= 0))
        at = stage.begin, k + (most if asked.exactly else 1), place
        while at[0] != stage.end:
            number, then = int(table.arc[at]), table.then[at]
            costs = ends.arcs.streamed
            cost, extra = int(costs.cost[number]), int(costs.extra[number])
            arcs.append(StageArc(at[0], int(then[0]), cost, stage.number, False, extra))
            at = int(then[0]), int(then[1]), int(then[2])
        clear(ends, table, stage.end, lowest)
        return arcs


class _Stage(NamedTuple):
    """A stage between two nodes; ``stays`` is its one partition if its weights stay in SRAM (-1: they don't)."""

    number: int
    begin: int
    end: int
    stays: int


def _into(g: Graph, rules: Rules, listed: Listed, arcs: Arcs) -> Into:
    """The partitions ``arcs`` by the node that they end at."""
    size, made = len(listed.ideal), np.zeros(len(arcs.target), np.int64)
    left_waiting(g, rules, listed.ideal, listed.signature, arcs, made)
    number = np.argsort(arcs.target, kind="stable").astype(np.int64)
    starts = np.repeat(np.arange(size), np.diff(arcs.first))
    first = np.concatenate([[0], np.cumsum(np.bincount(arcs.target, minlength=size))]).astype(np.int64)
    return Into(first, starts[number], number, made[number])
