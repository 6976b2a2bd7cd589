"""Partitions as pieces of one order of all kernels, each as long as it may be: plain Python, linear in the edges.

A restriction, as the best pieces are (:mod:`chipmap.heuristics.dataflow.contiguous_partitions.program`), and not the
best ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from chipmap.instances.dataflow.batch import runs
from chipmap.instances.dataflow.pins import Pin, barred
from chipmap.instances.dataflow.problem import DataflowProblem, levels, wires
from chipmap.instances.units import units_in_order

#: Pieces that are tried where kernels are pinned to partitions.
TRIES = 5000


class Span(NamedTuple):
    """The kernels at ``first`` … ``end`` - 1 of the order, which may share partitions: of one phase and stage."""

    first: int
    end: int
    stage: int
    phase: str


class Pieces:
    """The order of all copies of kernels under ``chosen`` options, and what a piece of it holds."""

    def __init__(self, problem: DataflowProblem, chosen: Sequence[int]) -> None:
        self.problem, self.layers = problem, problem.instance.mapped_layers
        n, kernels = problem.n, problem.instance.workload.kernels
        self.count = n * self.layers
        tensors = wires(problem, self.layers)
        index = {kernel.name: v for v, kernel in enumerate(kernels)}
        groups = [[index[name] for name in group] for group in problem.instance.task.together]
        copies = [[k * n + v for v in group] for k in range(self.layers) for group in groups]
        backward = [kernel.phase == "backward" for kernel in kernels] * self.layers
        task, barring = problem.instance.task, barred(problem.instance)
        self.units = units_in_order(self.count, [*tensors, *_by_pins(task.pins, index, backward)], copies, backward)
        self.order = [v for unit in self.units for v in unit]
        place = {v: i for i, v in enumerate(self.order)}
        number = {v: g for g, group in enumerate(copies) for v in group}
        self.pinned = [number.get(v, -1) for v in self.order]
        self.size = [len(group) for group in copies]
        names = [kernels[v % n].name for v in self.order]
        self.apart = [sum(1 << g for g, group in enumerate(task.apart) if name in group) for name in names]
        self.beyond, self.barred = barring.beyond, [barring.kernels.get(name, frozenset()) for name in names]
        often = runs(problem.instance)
        self.kind = [(kernels[v % n].phase, often[v % n]) for v in self.order]
        self.options = [problem.options[v % n][chosen[v]] for v in self.order]
        level = levels(self.count, np.array(tensors, dtype=np.int64).reshape(-1, 2)).tolist()
        # (place of the maker, buffers that the tensor takes inside a partition)
        self.reads: list[list[tuple[int, int]]] = [[] for _ in self.order]
        self.readers = [0] * self.count
        for u, v in tensors:
            self.reads[place[v]].append((place[u], level[v] - level[u] + 1))
            self.readers[place[u]] += 1

    @staticmethod
    def order_of_layer(problem: DataflowProblem) -> list[list[int]]:
        """The kernels of a layer, producers first."""
        backward = [kernel.phase == "backward" for kernel in problem.instance.workload.kernels]
        return units_in_order(problem.n, problem.edges.tolist(), (), backward)

    def mappings(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """(partition of each kernel, stage of each partition): stages of about equal time, then of equal bytes."""
        if self.problem.instance.task.stages == "layers":
            found = self._partitioned(self._spans([0] * self.count), 1)
            if found is not None:
                yield found
            return
        for weights in (
            [one.compute + one.stream + one.collective for one in self.options],
            [o.kept for o in self.options],
        ):
            found = self._partitioned(self._spans(self._staged(weights)), self.problem.degrees.pipeline)
            if found is not None:
                yield found

    def _staged(self, weights: Sequence[int]) -> list[int]:
        """The stage of each place: an equal share of the ``weights`` each, units whole."""
        stages, most, exactly = (
            self.problem.degrees.pipeline,
            self.problem.instance.asked[0],
            self.problem.instance.asked[1],
        )
        least = (most or 1) if exactly else 0
        ends = list(accumulate(sum(weights[i] for i in range(a, b)) for a, b in self._unit_places()))
        total, count, cut = max(1, ends[-1]), len(ends), 0
        stage_of_unit = [0] * count
        for stage in range(stages):
            end = next((u for u in range(cut, count) if ends[u] * stages > (stage + 1) * total), count)
            end = min(max(end, cut + least), count - least * (stages - stage - 1))
            end = count if stage == stages - 1 else max(end, cut)
            stage_of_unit[cut:end] = [stage] * (end - cut)
            cut = end
        return [stage for stage, unit in zip(stage_of_unit, self.units, strict=True) for _ in unit]

    def _unit_places(self) -> list[tuple[int, int]]:
        return list(pairwise(accumulate((len(unit) for unit in self.units), initial=0)))

    def _spans(self, stage: Sequence[int]) -> list[Span]:
        """Runs of places of one stage, phase and number of runs."""
        borders = [i for i in range(1, self.count) if (stage[i], self.kind[i]) != (stage[i - 1], self.kind[i - 1])]
        return [Span(a, b, stage[a], self.kind[a][0]) for a, b in pairwise((0, *borders, self.count))]

    def _partitioned(self, spans: list[Span], stages: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The pieces of all spans, as many as the task asks for; None where a kernel fits no piece or there are too
        many."""
        most, exactly, fused = self.problem.instance.asked
        by_stage = self.problem.instance.task.stages == "kernels"
        counted: dict[int | str, list[tuple[int, int]]] = {}
        for made, span in self._cut_by_index(spans) if any(self.barred) else self._cut_each(spans, fused):
            if made is None:
                return None
            counted.setdefault(span.stage if by_stage else span.phase, []).extend(made)
        if by_stage and exactly and len(counted) < stages:
            return None
        for some in counted.values():
            if most is not None and (len(some) > most or (exactly and not self._split(some, most))):
                return None
        starts = sorted(first for some in counted.values() for first, _ in some)
        stage_at = {i: span.stage for span in spans for i in range(span.first, span.end)}
        partitions, number = [0] * self.count, -1
        begins = set(starts)
        for i, v in enumerate(self.order):
            number += i in begins
            partitions[v] = number
        return tuple(partitions), tuple(stage_at[i] for i in starts) if by_stage else ()

    def _cut_each(self, spans: list[Span], fused: bool) -> Iterator[tuple[list[tuple[int, int]] | None, Span]]:
        for span in spans:
            yield self._cut(span, fused), span

    def _cut_by_index(self, spans: list[Span]) -> Iterator[tuple[list[tuple[int, int]] | None, Span]]:
        """The pieces of each span, of those that count their partitions from one on (of a phase, or of all stages)."""
        by_stage = self.problem.instance.task.stages == "kernels"
        for phase in dict.fromkeys(span.phase for span in spans):
            some = [span for span in spans if span.phase == phase]
            most, exactly, _ = (None, False, True) if by_stage else self.problem.instance.asked
            pieces = self._indexed(some, most, exactly)
            for span in some:
                yield pieces and [piece for piece in pieces if span.first <= piece[0] < span.end], span

    def _indexed(self, spans: list[Span], most: int | None, exactly: bool) -> list[tuple[int, int]] | None:
        """Pieces of spans in a row of which each holds kernels that may lie in the partition of its index: depth first,
        the longest first, as long as there are tries. None where none are found."""
        stop = {i: span.end for span in spans for i in range(span.first, span.end)}
        first, last = spans[0].first, spans[-1].end
        path = [(first, iter(reversed(self._ends(first, stop[first], 0))))]
        seen, tries = {(first, 0)}, TRIES
        while path and tries:
            end = next(path[-1][1], None)
            if end is None:
                path.pop()
            elif end == last:
                if not exactly or len(path) == most:
                    starts = [start for start, _ in path]
                    return list(pairwise((*starts, last)))
            elif (end, len(path)) not in seen and (most is None or len(path) < most):
                seen.add((end, len(path)))
                tries -= 1
                path.append((end, iter(reversed(self._ends(end, stop[end], len(path))))))
        return None

    def _cut(self, span: Span, fused: bool) -> list[tuple[int, int]] | None:
        """Pieces of a span, each up to the last place that allows it."""
        pieces, first = list[tuple[int, int]](), span.first
        while first < span.end:
            ends = self._ends(first, span.end if fused else first + 1)
            if not ends:
                return None
            pieces.append((first, ends[-1]))
            first = ends[-1]
        return pieces

    def _split(self, pieces: list[tuple[int, int]], wanted: int) -> bool:
        """Split pieces, in place, until there are so many; whether that could be done."""
        at = 0
        while len(pieces) < wanted and at < len(pieces):
            first, end = pieces[at]
            middle = next((m for m in self._ends(first, end)[:-1] if end in self._ends(m, end)), None)
            if middle is None:
                at += 1
            else:
                pieces[at : at + 1] = [(first, middle), (middle, end)]
                at += 1 if middle == first + 1 else 0
        return len(pieces) == wanted

    def _ends(self, first: int, last: int, index: int | None = None) -> list[int]:
        """The places before which a piece from ``first`` on may end, up to ``last``: what it holds fits the SRAM (C2),
        groups are whole and kernels may lie in the partition of this ``index`` (C5), and where kernels share tiles each
        has one (C7)."""
        problem, found = self.problem, list[int]()
        once = problem.instance.mode == "physical"
        tiles = problem.instance.system.chip.tiles if problem.instance.task.utilisation is None else self.count
        held = leaving = pinned = alone = 0
        group, seen, left = -1, set[int](), dict[int, int]()
        for v in range(first, min(last, first + tiles)):
            one = self.options[v]
            if alone & self.apart[v] or (index is not None and min(index, self.beyond) in self.barred[v]):
                break
            alone |= self.apart[v]
            if self.pinned[v] >= 0:
                if pinned and self.pinned[v] != group:
                    break
                group, pinned = self.pinned[v], pinned + 1
            held += one.weights
            for u, waits in self.reads[v]:
                buffer = self.options[u].buffer
                if u < first:
                    if not once or u not in seen:
                        held += 2 * buffer
                        seen.add(u)
                    continue
                held += waits * buffer
                left[u] -= 1
                if not once or not left[u]:
                    leaving -= 2 * buffer
            left[v] = self.readers[v]
            leaving += 2 * one.buffer * (min(1, left[v]) if once else left[v])
            if held > problem.sram:
                break
            if held + leaving <= problem.sram and (not pinned or pinned == self.size[group]):
                found.append(v + 1)
        return found


def _by_pins(pins: Sequence[Pin], index: Mapping[str, int], backward: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """(u, v) of pinned kernels of one phase, u in the last partition that is pinned before v's: an order for them."""
    for late in (False, True):
        placed = dict[int, list[int]]()
        for pin in pins:
            if backward[index[pin.kernel]] == late:
                placed.setdefault(pin.partition, []).append(index[pin.kernel])
        for a, b in pairwise(sorted(placed)):
            yield from ((u, v) for u in placed[a] for v in placed[b])
