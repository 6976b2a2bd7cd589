"""The CP-SAT model of family ``multimodel``: the layered flow of literals; EDP by the binary digits of one factor.

Statement: ``docs/families/multimodel-models.md``. Times are whole ns, energies whole pJ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, stated
from chipmap.formulations.multimodel import cpsat_frames
from chipmap.formulations.multimodel.choices import Decisions, MultiChoices, places, refuse_frames
from chipmap.formulations.multimodel.cpsat_mapping import (
    Builder,
    c1_chain,
    c3_path,
    c5_memory,
    c6_pins,
    layer_time,
)
from chipmap.formulations.multimodel.shared import Flow, most_coefficient, shared_in_cpsat
from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution, in_force
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem, static_power, watts
from chipmap.records import InputError

#: Sums must stay below it.
LARGEST = 2**62


@dataclass(frozen=True)
class MultiCpChoices(MultiChoices):
    """``labels``: ``assume`` gives each constraint a literal in ``assumptions`` and leaves the cuts out.

    An infeasible model then names those that clash. Segments of a model on one chiplet count as one, which is right
    only with C2: it belongs to what clashes.
    """

    labels: Literal["plain", "assume"] = "plain"


@dataclass(frozen=True, eq=False)
class MultiCpVariables:
    """What :func:`add_multimodel` added, for constraints and costs of your own.

    ``x[m, l, w, c]``: layer l of model m runs in window w on chiplet c. ``window[w]``: T of a window in ns; ``time``:
    their sum; ``energy`` in pJ; ``cost`` in ticks.
    """

    x: dict[tuple[int, int, int, int], Any]
    window: list[Any]
    time: Any
    energy: Any
    cost: Any
    decisions: Decisions
    assumptions: dict[str, Any]
    statement: Statement

    def decode(self, value: Callable[[Any], float]) -> MultiSolution:
        """The schedule that the variables stand for."""
        return self.decisions.decode(value)


def build(instance: MultiInstance, choices: MultiCpChoices | Mapping[str, Any] = MultiCpChoices()) -> Built:
    """The CP-SAT model of ``instance``, minimising its objective in ticks."""
    chosen = stated(MultiCpChoices, choices)
    if instance.task.objective == "frames":
        return cpsat_frames.build(instance, chosen, chosen.labels == "assume")
    model = cp_model.CpModel()
    model.name = instance.name
    variables = add_multimodel(model, instance, chosen)
    model.minimize(variables.cost)
    decisions = variables.decisions
    coders = decisions.encode, decisions.decode
    return Built("cpsat", instance, model, variables.statement, Scope.WHOLE, *coders, variables)


def add_multimodel(
    model: cp_model.CpModel, instance: MultiInstance, choices: MultiCpChoices = MultiCpChoices(), prefix: str = ""
) -> MultiCpVariables:
    """Add ``instance`` to ``model``, with ``prefix`` before its variables' names and without an objective.

    Raises :class:`InputError` where T1 · T2 of an EDP instance may pass 64 bits, and for objective ``frames``.
    """
    refuse_frames(instance)
    problem = multi_problem(instance)
    if max(static_power(instance) * problem.most_time, most_coefficient(problem)) > LARGEST:
        raise _too_large(problem)
    builder = Builder(model, problem, prefix, choices.labels == "assume")
    state = Statement()
    for function in (c0_domain, c3_path, c1_chain, c2_apart, c5_memory, t1_latency):
        state(function, builder)
    cuts = () if builder.assume else choices.cuts  # they follow from labels that may be left out
    if "busy" in cuts:
        cut_busy(builder)
    if "layer" in cuts:
        cut_layer(builder)
    state(t2_energy, builder)
    state(c4_limits, builder)
    if "C6" in in_force(instance):
        state(c6_pins, builder)
    cost = _cost(builder)
    if choices.upper is not None:
        builder.enforce("def_upper", model.add(cost <= choices.upper))
    decisions = Decisions(builder.problem, lambda *key: builder.x[key])
    made = (builder.x, builder.window, builder.time, builder.energy, cost, decisions, builder.assumptions)
    return MultiCpVariables(*made, state)


def c0_domain(builder: Builder) -> None:
    """C0: no empty window before a used one."""
    problem = builder.problem
    layers = [(m, k) for m, model in enumerate(problem.models) for k in range(model.layers)]
    for w in range(problem.windows - 1):
        used = [builder.x[m, k, w, c] for m, k in layers for c in range(problem.chiplets)]
        for m, k in layers:
            for c in range(problem.chiplets):
                builder.clause("c0_domain", [*used, ~builder.x[m, k, w + 1, c]])


def c2_apart(builder: Builder) -> None:
    """C2: at most one segment begins on a chiplet in a window: starts, and moves into it."""
    problem = builder.problem
    for w in range(problem.windows):
        for c in range(problem.chiplets):
            begun = []
            for m, model in enumerate(problem.models):
                begun += [builder.start[m, k, w, c] for k in range(model.layers)]
                begun += [builder.move[m, k, w, d, c] for k in range(model.layers - 1) for d in builder.near(c)]
            builder.enforce("c2_apart", builder.model.add(sum(begun) <= 1))


def t1_latency(builder: Builder) -> None:
    """T1 = Σ T[w], T[w] = max Lat[m, w] over m and V[w] where shared, M[m, w] = max t[m, w, c] over c, in ns.

    Equal, not just at least: a user's constraints on them speak of the schedule's own times.
    """
    problem, model, chiplets = builder.problem, builder.model, range(builder.problem.chiplets)
    models = range(len(problem.models))
    for w in range(problem.windows):
        for m in models:
            for c in chiplets:
                segment = builder.segment[m, w, c] = builder.integer(0, problem.most_time, f"segment[{m},{w},{c}]")
                model.add(segment == _segment(builder, m, w, c))
            longest = builder.bottleneck[m, w] = builder.integer(0, problem.most_time, f"bottleneck[{m},{w}]")
            model.add_max_equality(longest, [builder.segment[m, w, c] for c in chiplets])
            own = builder.latency[m, w] = builder.integer(0, problem.most_time, f"latency[{m},{w}]")
            model.add(own == _latency(builder, m, w))
        window = builder.integer(0, problem.most_time, f"window[{w}]")
        if problem.sharing is not None:
            flow = Flow(builder.x, builder.start, builder.end, builder.move)
            builder.shared[w] = shared_in_cpsat(builder, problem, problem.sharing, flow, w)
        shared = [builder.shared[w]] if w in builder.shared else []
        model.add_max_equality(window, [*(builder.latency[m, w] for m in models), *shared])
        builder.window.append(window)
    builder.time = builder.integer(0, problem.most_time, "time")
    model.add(sum(builder.window) == builder.time)


def _segment(builder: Builder, m: int, w: int, c: int) -> Any:
    """t[m, w, c]: layers, reads, writes and transfers of a mini-batch, in ns."""
    return sum(layer_time(builder, m, k, w, c) for k in range(builder.problem.models[m].layers))


def _latency(builder: Builder, m: int, w: int) -> Any:
    """Lat[m, w]: Σ t + weights + (q - 1) · max t, in ns."""
    model = builder.problem.models[m]
    pipeline = sum(builder.segment[m, w, c] for c in range(builder.problem.chiplets))
    weights = sum(int(model.weight_time[k]) * builder.runs(m, k, w) for k in range(model.layers))
    return pipeline + weights + (model.q - 1) * builder.bottleneck[m, w]


def cut_busy(builder: Builder) -> None:
    """T[w] >= Σ_m q · t[m, w, c]: a chiplet runs one segment in a window, once per mini-batch."""
    problem = builder.problem
    for w, window in enumerate(builder.window):
        for c in range(problem.chiplets):
            busy = sum(costs.q * builder.segment[m, w, c] for m, costs in enumerate(problem.models))
            builder.enforce("cut_busy", builder.model.add(busy <= window))


def cut_layer(builder: Builder) -> None:
    """M[m, w] >= Σ_c (the time of layer l on c, with the transfers beside it): it lies in one of the segments."""
    problem = builder.problem
    for (m, w), longest in builder.bottleneck.items():
        for k in range(problem.models[m].layers):
            layer = sum(layer_time(builder, m, k, w, c) for c in range(problem.chiplets))
            builder.enforce("cut_layer", builder.model.add(layer <= longest))


def t2_energy(builder: Builder) -> None:
    """T2: layers with their weights, reads, writes and transfers, and static energy of T1, in pJ."""
    problem, parts = builder.problem, []
    for m, k, w, c in places(problem):
        model = problem.models[m]
        parts.append(int(model.energy[k, c] + model.weight_energy[k, c]) * builder.x[m, k, w, c])
        parts.append(int(model.read_energy[k, c]) * builder.start[m, k, w, c])
        parts.append(int(model.write_energy[k, c]) * builder.end[m, k, w, c])
        for d in builder.near(c) if k < model.layers - 1 else ():
            parts.append(int(model.send_energy[k]) * builder.move[m, k, w, c, d])
    builder.energy = builder.integer(0, problem.most_energy, "energy")
    if power := static_power(problem.instance):
        static = builder.integer(0, problem.most_energy, "static")
        builder.model.add(1000 * static >= power * builder.time)
        builder.model.add(1000 * static <= power * builder.time + 999)
        parts.append(static)
    builder.model.add(sum(parts) == builder.energy)


def c4_limits(builder: Builder) -> None:
    """C4: T1 and T2 below their limits. A deadline: Σ_{v < w} T[v] + Lat[m, w] <= it, where the last layer is in w.

    Where there is a shared time, Σ_{v < w} T[v] + V[w] <= it as well."""
    problem, task = builder.problem, builder.problem.instance.task
    asked = (("latency", builder.time, task.latency_limit_ns), ("energy", builder.energy, task.energy_limit_pj))
    for what, total, limit in asked:
        if limit is not None:
            builder.enforce(f"c4_limits_{what}", builder.model.add(total <= limit))
    for m, (given, model) in enumerate(zip(problem.instance.models, problem.models, strict=True)):
        for w in range(problem.windows) if given.deadline_ns is not None else ():
            ends = [builder.latency[m, w], *([builder.shared[w]] if w in builder.shared else [])]
            for c, end in product(range(problem.chiplets), ends):
                row = builder.model.add(sum(builder.window[:w]) + end <= given.deadline_ns)
                literals = [builder.x[m, model.layers - 1, w, c], *builder.assumption(f"c4_limits_deadline_{m}")]
                row.only_enforce_if(literals)


def _cost(builder: Builder) -> Any:
    """The objective in ticks."""
    problem, model = builder.problem, builder.model
    task = problem.instance.task
    if task.objective in ("latency", "energy"):
        return builder.time if task.objective == "latency" else builder.energy
    most = problem.objective(problem.most_time, problem.most_energy)
    if most > LARGEST and (problem.sharing is not None or static_power(problem.instance)):
        raise _too_large(problem)
    cost = builder.integer(0, min(most, LARGEST), "cost")
    if task.objective == "weighted":
        rate = watts(problem.instance)
        if (rate + 1000) * max(problem.most_time, problem.most_energy) > LARGEST:
            raise _too_large(problem)
        model.add(1000 * cost >= rate * builder.time + 1000 * builder.energy)
        return cost
    def_product(builder, cost)
    return cost


def def_product(builder: Builder, cost: Any) -> None:
    """``edp_tick`` · cost >= T1 · T2 = Σ_k 2^k · (digit k of the smaller factor) · (the other factor).

    Linear, as CP-SAT's presolve (9.15.6755) calls feasible models with a product in the objective infeasible. A tick of
    10^k is a multiple of 2^k: where the product passes 64 bits, both sides are divided by up to that. The other factor
    is cut in two, 2^k · high + low, and what low comes to is rounded up, which excludes nothing as cost is whole.
    """
    problem, model = builder.problem, builder.model
    factors = [(problem.most_time, builder.time), (problem.most_energy, builder.energy)]
    (most, smaller), (largest, larger) = sorted(factors, key=lambda factor: factor[0])
    digits = [builder.literal(f"digit[{k}]") for k in range(most.bit_length())]
    shift, tick = 0, problem.edp_tick
    while largest >> shift << len(digits) + 1 > LARGEST:
        shift += 1
        if tick % 2**shift:
            raise _too_large(problem)
    model.add(sum(2**k * digit for k, digit in enumerate(digits)) == smaller)
    high: Any = larger
    carry: Any = 0
    if shift:
        high, low = builder.integer(0, largest >> shift, "high"), builder.integer(0, 2**shift - 1, "low")
        model.add(2**shift * high + low == larger)
        carry = builder.integer(0, most, "carry")
        model.add(2**shift * carry >= _times(builder, digits, low, 2**shift - 1, "low_part"))
    model.add((tick >> shift) * cost >= _times(builder, digits, high, largest >> shift, "part") + carry)


def _times(builder: Builder, digits: list[Any], factor: Any, most: int, name: str) -> Any:
    """The number of these binary ``digits`` times ``factor`` (at most ``most``), or more."""
    parts = []
    for k, digit in enumerate(digits):
        part = builder.integer(0, most, f"{name}[{k}]")
        builder.model.add(part >= factor).only_enforce_if(digit)
        parts.append(2**k * part)
    return sum(parts)


def _too_large(problem: MultiProblem) -> InputError:
    what = f"T1 up to {problem.most_time:.1e} ns and T2 up to {problem.most_energy:.1e} pJ are too large for CP-SAT"
    return InputError(what, problem.instance.name, "Its integers have 64 bits. Use --method multimodel/mip.")
