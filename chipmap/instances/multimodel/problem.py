"""The arrays of a multimodel instance that models and heuristics work on, and the evaluation of a schedule.

The formulas are those of ``docs/families/multimodel.md`` ("Times and energies", "Objective"). The checker states them a
second time, on its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.multimodel.instance import MAX_TOTAL, Model, MultiInstance, MultiSolution, Piece
from chipmap.instances.multimodel.sharing import Sharing, sharing_of
from chipmap.records import InputError, kept
from chipmap.records.decimals import exact

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
#: Stands for an SRAM or a time without a limit.
UNLIMITED = 2**62
#: (least tick of EDP in ns · pJ, ticks that models whole stay below) from a scale of COARSE_FROM ns · pJ on, and below.
COARSE_FROM, COARSE, FINE = 10**13, (10**9, 10**18), (1, 10**15)
#: A segment: model, first and last layer, chiplet (all positions).
Segment = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class ModelCosts:
    """The costs of one model with L layers on C chiplets: times of a mini-batch in ns, energies of the batch in pJ.

    ``time`` [L, C] and ``energy`` [L, C] are those of the layers. A range that begins with layer l on chiplet c reads
    for ``read_time`` and ``read_energy`` [L, C]; one that ends with it writes for ``write_time`` and ``write_energy``.
    ``send_time`` and ``send_energy`` [L] are those of a transfer behind layer l over a link. ``weight_time`` [L] and
    ``weight_energy`` [L, C] count once. ``need`` [L]: b · (in + out) bytes, ``weights`` [L]: bytes.
    """

    name: str
    q: int
    time: IntArray
    energy: IntArray
    read_time: IntArray
    read_energy: IntArray
    write_time: IntArray
    write_energy: IntArray
    send_time: IntArray
    send_energy: IntArray
    weight_time: IntArray
    weight_energy: IntArray
    need: IntArray
    weights: IntArray

    @property
    def layers(self) -> int:
        """L."""
        return len(self.time)

    @property
    def run_energy(self) -> IntArray:
        """[L, C]: a layer's energy with its weights."""
        return self.energy + self.weight_energy


@dataclass(frozen=True, eq=False)
class MultiProblem:
    """A multimodel instance as arrays.

    ``neighbours[c]``: the chiplets that a link joins to c. ``most_time`` and ``most_energy``: upper limits on T1 and T2
    of every schedule that leaves no chance out (no window idles).

    Of a problem narrowed to pins (:mod:`.pinned`), ``allowed`` are the chiplets of each model's layers [L, C], and
    ``plain`` is the problem that it was made from.
    """

    instance: MultiInstance
    models: tuple[ModelCosts, ...]
    neighbours: tuple[tuple[int, ...], ...]
    allowed: tuple[NDArray[np.bool_], ...] | None = None
    plain: MultiProblem | None = None

    @property
    def chiplets(self) -> int:
        """Number of chiplets."""
        return len(self.instance.module.chiplets)

    @property
    def windows(self) -> int:
        """W; more windows than layers are never needed. With objective ``frames`` there is one."""
        return (
            1
            if self.instance.task.objective == "frames"
            else min(self.instance.task.windows, sum(model.layers for model in self.models))
        )

    @property
    def both_ends(self) -> bool:
        """Whether the receiver pays for a transfer as well."""
        return self.instance.task.charge == "both"

    @property
    def sram(self) -> IntArray:
        """[C], bytes; :data:`UNLIMITED` where there is no limit."""
        sizes = (chiplet.sram_bytes for chiplet in self.instance.module.chiplets)
        return np.array([UNLIMITED if size is None else size for size in sizes], dtype=np.int64)

    def receive_time(self, model: ModelCosts) -> IntArray:
        """[L]: what the receiver of a transfer behind a layer pays; 0 where only the sender does."""
        return model.send_time if self.both_ends else np.zeros_like(model.send_time)

    @cached_property
    def sharing(self) -> Sharing | None:
        """What the segments of a window share; None where they share nothing."""
        return sharing_of(self.instance)

    @property
    def most_time(self) -> int:
        """An upper limit on T1: q times all layers and transfers at their slowest, one model after the other, and all
        shared times."""
        alone = sum(
            model.q * int((model.time + model.read_time + model.write_time).max(axis=1).sum())
            + 2 * model.q * int(model.send_time.sum())
            + int(model.weight_time.sum())
            for model in self.models
        )
        return alone + (self.sharing.most if self.sharing is not None else 0)

    @property
    def most_energy(self) -> int:
        """An upper limit on T2: all layers and transfers at their most, and static energy."""
        most = sum(
            int((model.energy + model.read_energy + model.write_energy + model.weight_energy).max(axis=1).sum())
            + int(model.send_energy.sum())
            for model in self.models
        )
        return self.powered(self.most_time, most)

    def powered(self, time: int, energy: int) -> int:
        """T2 in pJ: ``energy`` of layers and transfers, and static energy of ``time`` ns."""
        return energy + -(-self.power * time // 1000) if self.power else energy

    @cached_property
    def power(self) -> int:
        """:func:`static_power`."""
        return static_power(self.instance)

    def value(self, time: int, energy: int) -> int:
        """The objective in ticks of T1 and the ``energy`` of layers and transfers."""
        return self.objective(time, self.powered(time, energy))

    def objective(self, time: int, energy: int) -> int:
        """The objective of T1 and T2, in ticks."""
        task = self.instance.task
        if task.objective == "edp":
            return -(-time * energy // self.edp_tick)
        if task.objective == "weighted":
            return -(-watts(self.instance) * time // 1000) + energy
        return time if task.objective == "latency" else energy

    @cached_property
    def edp_tick(self) -> int:
        """A tick of EDP in ns · pJ (page, "Objective"): by the scale of all models whole, each on one chiplet."""
        if self.plain is not None:
            return self.plain.edp_tick
        least_time, least_energy, most_time, most_energy = 0, 0, 0, 0
        for model in self.models:
            times = model.q * (model.time.sum(axis=0) + model.read_time[0] + model.write_time[-1])
            times += int(model.weight_time.sum())
            energies = model.run_energy.sum(axis=0) + model.read_energy[0] + model.write_energy[-1]
            least_time, least_energy = max(least_time, int(times.min())), least_energy + int(energies.min())
            most_time, most_energy = most_time + int(times.max()), most_energy + int(energies.max())
        least_energy, most_energy = self.powered(least_time, least_energy), self.powered(most_time, most_energy)
        tick, most = COARSE if least_time * least_energy >= COARSE_FROM else FINE
        while most_time * most_energy >= most * tick:
            tick *= 10
        return tick


def sums(amounts: IntArray) -> IntArray:
    """Sums over the layers before each one, and over all: a row more than ``amounts`` [L, ...]."""
    return np.concatenate([np.zeros((1, *amounts.shape[1:]), dtype=np.int64), np.cumsum(amounts, axis=0)])


def watts(instance: MultiInstance) -> int:
    """``task.watts`` in units of 10⁻⁶ W (thousandths of a pJ per ns)."""
    return round(exact(instance.task.watts) * 10**6)


def static_power(instance: MultiInstance) -> int:
    """``module.static_watts`` in units of 10⁻⁶ W (thousandths of a pJ per ns)."""
    return round(exact(instance.module.static_watts) * 10**6)


def unshared(problem: MultiProblem) -> MultiProblem:
    """The problem in which chiplets share no rates: its schedules are no longer than those of ``problem``."""
    if problem.sharing is None:
        return problem
    module = problem.instance.module.replace(shared_dram_bytes_per_ns=None, shared_link_bytes_per_ns=None)
    return replace(problem, instance=problem.instance.replace(module=module))


def multi_problem(instance: MultiInstance) -> MultiProblem:
    """The arrays of ``instance`` (kept on it: a second call is free)."""
    return kept(instance, "_problem", _build)


def _build(instance: MultiInstance) -> MultiProblem:
    at = {chiplet.name: c for c, chiplet in enumerate(instance.module.chiplets)}
    joined: list[set[int]] = [set() for _ in at]
    for a, b in instance.module.links:
        joined[at[a]].add(at[b])
        joined[at[b]].add(at[a])
    models = tuple(_costs(instance, model) for model in instance.models)
    problem = MultiProblem(instance, models, tuple(tuple(sorted(near)) for near in joined))
    for what, total in (("times (ns)", problem.most_time), ("energies (pJ)", problem.most_energy)):
        if total > MAX_TOTAL:
            remedy = f"Sums up to {MAX_TOTAL:.0e} are exact. Check the units: ns, pJ, bytes per ns."
            raise InputError(f"the {what} add up to {total:.1e}", instance.name, remedy)
    return problem


def _costs(instance: MultiInstance, model: Model) -> ModelCosts:
    module, b, batch = instance.module, model.mini_batch, model.batch
    link, dram = exact(module.nop_bytes_per_ns), exact(module.dram_bytes_per_ns)
    per_hop, per_access = round(100 * exact(module.hop_pj_per_byte)), round(100 * exact(module.dram_pj_per_byte))

    def hundredths(size: int, rate: int) -> int:
        return -(-size * rate // 100)

    def table(entries: list[list[int]]) -> IntArray:
        largest = max(max(row) for row in entries)
        if largest > MAX_TOTAL:
            remedy = "Check batch and units: ns and pJ per sample, bytes per ns."
            raise InputError(f"a cost of {model.name!r} is {largest:.1e}", instance.name, remedy)
        return np.array(entries, dtype=np.int64)

    # chiplets of one class that are as far from DRAM have the same costs
    alike = {(one.kind, one.hops): one for one in module.chiplets}
    chiplets, layers = tuple(alike.values()), model.layers
    column = [list(alike).index((one.kind, one.hops)) for one in module.chiplets]
    far_time = [chiplet.hops * module.hop_ns + module.dram_ns for chiplet in chiplets]
    far_rate = [per_access + chiplet.hops * per_hop for chiplet in chiplets]

    def dram_time(size: int) -> list[int]:
        near = math.ceil(b * size / dram)
        return [near + far for far in far_time]

    def dram_energy(size: int, times: int) -> list[int]:
        return [times * hundredths(size, rate) for rate in far_rate]

    return ModelCosts(
        name=model.name,
        q=batch // b,
        time=table([[b * layer.costs[chiplet.kind][0] for chiplet in chiplets] for layer in layers])[:, column],
        energy=table([[batch * layer.costs[chiplet.kind][1] for chiplet in chiplets] for layer in layers])[:, column],
        read_time=table([dram_time(layer.in_bytes) for layer in layers])[:, column],
        read_energy=table([dram_energy(layer.in_bytes, batch) for layer in layers])[:, column],
        write_time=table([dram_time(layer.out_bytes) for layer in layers])[:, column],
        write_energy=table([dram_energy(layer.out_bytes, batch) for layer in layers])[:, column],
        send_time=table([[math.ceil(b * layer.out_bytes / link) + module.hop_ns] for layer in layers])[:, 0],
        send_energy=table([[batch * hundredths(layer.out_bytes, per_hop)] for layer in layers])[:, 0],
        weight_time=table([[math.ceil(layer.weight_bytes / dram)] for layer in layers])[:, 0],
        weight_energy=table([dram_energy(layer.weight_bytes, 1) for layer in layers])[:, column],
        need=table([[b * (layer.in_bytes + layer.out_bytes)] for layer in layers])[:, 0],
        weights=table([[layer.weight_bytes] for layer in layers])[:, 0],
    )


def latency(problem: MultiProblem, segments: Sequence[Segment]) -> int:
    """Lat of one model's segments in a window, in the order of its chain, in ns."""
    costs, times = problem.models[segments[0][0]], []
    for i, (_, first, last, c) in enumerate(segments):
        time = int(costs.time[first : last + 1, c].sum())
        if i == 0:
            time += int(costs.read_time[first, c])
        elif problem.both_ends:
            time += int(costs.send_time[first - 1])
        time += int(costs.write_time[last, c] if i == len(segments) - 1 else costs.send_time[last])
        times.append(time)
    weights = int(costs.weight_time[segments[0][1] : segments[-1][2] + 1].sum())
    return sum(times) + weights + (costs.q - 1) * max(times)


def spans(problem: MultiProblem, segments: Sequence[Segment]) -> list[int]:
    """How long each segment of a frame takes, its weights included, in ns."""
    found, costs = [], problem.models[segments[0][0]]
    for i, (_, first, last, c) in enumerate(segments):
        time = int(costs.time[first : last + 1, c].sum() + costs.weight_time[first : last + 1].sum())
        if i == 0:
            time += int(costs.read_time[first, c])
        elif problem.both_ends:
            time += int(costs.send_time[first - 1])
        found.append(time + int(costs.write_time[last, c] if i == len(segments) - 1 else costs.send_time[last]))
    return found


def energy(problem: MultiProblem, segments: Sequence[Segment]) -> int:
    """Energy of one model's segments in a window, in pJ."""
    costs, total = problem.models[segments[0][0]], 0
    for i, (_, first, last, c) in enumerate(segments):
        run = slice(first, last + 1)
        total += int(costs.energy[run, c].sum()) + int(costs.weight_energy[run, c].sum())
        total += int(costs.read_energy[first, c]) if i == 0 else 0
        total += int(costs.write_energy[last, c] if i == len(segments) - 1 else costs.send_energy[last])
    return total


def schedule(problem: MultiProblem, windows: Sequence[Sequence[Segment]]) -> MultiSolution:
    """The solution record of windows of segments; empty windows are left out."""
    models, chiplets = problem.instance.models, problem.instance.module.chiplets
    pieces = (
        tuple(Piece(model=models[m].name, first=i, last=j, chiplet=chiplets[c].name) for m, i, j, c in sorted(window))
        for window in windows
        if window
    )
    return MultiSolution(instance=problem.instance.name, windows=tuple(pieces))


def placed(problem: MultiProblem, solution: MultiSolution) -> list[list[Segment]]:
    """The windows of a solution whose names exist, as positions."""
    models = {model.name: m for m, model in enumerate(problem.instance.models)}
    chiplets = {chiplet.name: c for c, chiplet in enumerate(problem.instance.module.chiplets)}
    return [
        sorted((models[p.model], p.first, p.last, chiplets[p.chiplet]) for p in window) for window in solution.windows
    ]


def terms(problem: MultiProblem, windows: Sequence[Sequence[Segment]]) -> tuple[int, int]:
    """(T1, T2) of windows of segments that obey C0 and C1, in ns and pJ."""
    time = total = 0
    for window in windows:
        length, spent = of_window(problem, window)
        time, total = time + length, total + spent
    return time, problem.powered(time, total)


def of_window(problem: MultiProblem, window: Sequence[Segment]) -> tuple[int, int]:
    """Length of a window in ns, and the energy of its layers and transfers in pJ."""
    runs: dict[int, list[Segment]] = {}
    for segment in sorted(window):
        runs.setdefault(segment[0], []).append(segment)
    shared = problem.sharing.time(window) if problem.sharing is not None else 0
    longest = max((latency(problem, segments) for segments in runs.values()), default=0)
    return max(shared, longest), sum(energy(problem, segments) for segments in runs.values())
