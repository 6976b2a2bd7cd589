"""The CP-SAT model of family ``dataflow`` at fixed degrees: sharding and partitions in whole picoseconds and bytes.

Statement: ``docs/families/dataflow-models.md``; the paper's sections III to V with its matrices A, B, D, L and H.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, stated
from chipmap.formulations.dataflow.choices import DataflowChoices, settle
from chipmap.formulations.dataflow.cpsat_assignment import (
    Builder,
    c0_domain_degrees,
    c0_domain_schemes,
    c1_order,
    c3_phases,
    c4_partitions,
    c5_together,
    c5_together_apart,
    c5_together_pins,
    def_given,
    def_upto,
)
from chipmap.formulations.dataflow.cpsat_stages import c6_dram_stages, t5_transfers_stages, t7_stage
from chipmap.formulations.dataflow.cpsat_tensors import Tensors
from chipmap.formulations.dataflow.cpsat_terms import (
    c2_sram,
    c6_dram,
    def_launched,
    def_longest,
    t1_compute,
    t2_memory,
    t3_network,
    t4_layer,
    t4_layer_no_overlap,
    t4_layer_pairs,
    t5_transfers,
    t6_gradients,
    t8_step,
)
from chipmap.formulations.dataflow.cpsat_tiles import Shares, c7_tiles, t1_compute_shared
from chipmap.formulations.dataflow.tables import Tables, tables
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.batch import layers_per_stage, micro_batches, waited_hops
from chipmap.instances.dataflow.batch_time import BESIDE, batch_factor, chunk_factor, steps
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.records import InputError

#: Labels that live in variable domains only.
BY_DOMAIN: tuple[str, ...] = ("C8",)
#: Sums that CP-SAT is given stay below this.
LARGEST_OBJECTIVE = 2**61


@dataclass(frozen=True)
class DataflowCpChoices(DataflowChoices):
    """How the CP-SAT model is stated; ``labels``: ``assume`` gives the constraints of each label a literal in
    ``assumptions``, so that an infeasible model names those that clash."""

    labels: Literal["plain", "assume"] = "plain"


@dataclass(frozen=True, eq=False)
class DataflowCpVariables:
    """What :func:`add_dataflow` added.

    Literals: ``A[i, c]`` (copy i in partition c), ``y[i, c]`` (in one <= c), ``s[i, o]`` (copy i sharded as in its
    option o, where it has a choice), ``inside[e, m, c]`` (tensor e inside c, its producer sharded as in its class m),
    ``shares[i, g, p, c]`` (copy i in c, on share p of its list g of tiles; none where a utilisation is given).
    ``time[c]`` and ``layer`` (>= their sum) in picoseconds; the batch takes ``factor`` times as long, and the linear
    expressions ``transfers``, ``gradients`` and ``optimizer`` (T5, T6, T8). Where stages share out kernels, ``factor``
    is of ``step``, the longest stage or transfer (T7, T5), and ``layer`` a sum. Linear expressions for side
    constraints, exact or above:
    ``terms["T1"]`` … ``terms["T3"]`` (by partition, picoseconds), ``sram`` and with a capacity ``dram`` (bytes).
    """

    tables: Tables
    scope: Scope
    statement: Statement
    A: dict[tuple[int, int], Any]
    y: dict[tuple[int, int], Any]
    s: dict[tuple[int, int], Any]
    inside: dict[tuple[int, int, int], Any]
    time: list[Any]
    layer: Any
    factor: Fraction
    transfers: Any
    gradients: Any
    optimizer: Any
    terms: dict[str, list[Any]]
    sram: list[Any]
    shares: dict[tuple[int, int, int, int], Any]
    dram: list[Any]
    assumptions: dict[str, Any]
    step: Any = None
    longest: Any = None


def encode(v: DataflowCpVariables, solution: DataflowSolution) -> list[tuple[Any, float]] | None:
    """Values of the literals of schemes and partitions, or None if the mapping is outside the model."""
    found = v.tables.decisions(solution)
    if found is None:
        return None
    where, options, places = found
    shares = [(literal, float(where[i] == c and places[i] == (g, p))) for (i, g, p, c), literal in v.shares.items()]
    pairs = shares + [(literal, float(options[i] == o)) for (i, o), literal in v.s.items()]
    return pairs + [(literal, float(where[i] == c)) for (i, c), literal in v.A.items()]


def decode(v: DataflowCpVariables, value: Callable[[Any], float]) -> DataflowSolution:
    """The mapping that the literals stand for."""
    where = [slots.start for slots in v.tables.slots]
    for (i, c), literal in v.A.items():
        where[i] = c if value(literal) > 0.5 else where[i]
    return v.tables.solution(where, {key: value(literal) for key, literal in v.s.items()})


def build(instance: DataflowInstance, choices: DataflowCpChoices | Mapping[str, Any] = DataflowCpChoices()) -> Built:
    """The CP-SAT model of ``instance`` at the chosen degrees, minimising the time of the batch.

    The objective in integers is the layer's, unless T5, T6 or T8 depend on the mapping; its scale (and offset) makes it
    the batch's in ticks, before their last rounding. Raises :class:`InputError` where it could pass 64 bits.
    """
    chosen = stated(DataflowCpChoices, choices)
    model = cp_model.CpModel()
    model.name = instance.name
    variables = add_dataflow(model, instance, chosen)
    factor, fixed = variables.factor, variables.tables.fixed
    if fixed is not None or not factor:
        paced = variables.layer if variables.longest is None else variables.longest
        model.minimize(paced if variables.step is None else variables.step)
        model.proto.objective.scaling_factor = float(factor)
        model.proto.objective.offset = float((fixed or 0) / factor) if factor else 0.0
    else:
        cost = _batch(variables)
        if chosen.upper is not None:
            model.add(cost <= chosen.upper * factor.denominator)
        model.minimize(cost)
        model.proto.objective.scaling_factor = 1.0 / factor.denominator
    coders = partial(encode, variables), partial(decode, variables)
    text = variables.tables.problem.text
    return Built("cpsat", instance, model, variables.statement, variables.scope, *coders, variables, text)


def _batch(variables: DataflowCpVariables) -> Any:
    """The batch's picoseconds times the denominator of ``factor``."""
    factor, tables = variables.factor, variables.tables
    fields = {field: tables.outside(field) for field in BESIDE}
    most = {field: least + sum(amount for *_, amount in more) for field, (least, more) in fields.items()}
    most["after"] += sum(max(map(max, t.converts)) for t in tables.exchanges.handed)
    instance, degrees = tables.problem.instance, tables.problem.degrees
    rounds = waited_hops(instance, degrees) + 1 + instance.task.parts * micro_batches(instance, degrees)
    after = most["after"] + layers_per_stage(instance, degrees) * most["summed"]
    longest = tables.problem.longest
    paced = tables.longest * tables.paces if longest is None else longest.ticks(tables.longest)
    largest = factor.numerator * paced + factor.denominator * (rounds * most["hop"] + after + tables.problem.passes)
    if largest >= LARGEST_OBJECTIVE:
        what = f"the batch could take {float(largest):.3g} picoseconds, too many for CP-SAT's 64 bits"
        raise InputError(what, "task.batch", "Use the method dataflow/auto or dataflow/mip, or a smaller batch.")
    beside = variables.transfers + variables.gradients + variables.optimizer
    beside += tables.problem.ends_after - tables.problem.filled
    chunk = variables.layer if variables.longest is None else variables.longest
    return factor.numerator * chunk + factor.denominator * beside


def _factor(problem: DataflowProblem) -> Fraction:
    """How many times a layer, or the longest chunk, the batch takes."""
    return batch_factor(problem) if problem.longest is None else chunk_factor(problem)


def _assigned(builder: Builder, state: Statement, fit: bool, choices: DataflowCpChoices) -> None:
    """C0, C1 and C3 to C5: which scheme and which partition each kernel has."""
    def_upto(builder)
    state(c0_domain_degrees, builder, fit)
    state(c0_domain_schemes, builder)
    state(c1_order, builder)
    state(c3_phases, builder)
    state(c4_partitions, builder, choices.order)
    state(c5_together, builder)
    state(c5_together_apart, builder)
    state(c5_together_pins, builder)
    if choices.given is not None:
        def_given(builder, choices.given)


def add_dataflow(
    model: cp_model.CpModel,
    instance: DataflowInstance,
    choices: DataflowCpChoices = DataflowCpChoices(),
    prefix: str = "",
) -> DataflowCpVariables:
    """Add ``instance`` to ``model``, with ``prefix`` before its variables' names and without an objective."""
    settled = settle(instance, choices)
    assume = choices.labels == "assume"
    made = tables(dataflow_problem(instance, settled.degrees, *settled.plan), roomy=assume, given=choices.given)
    builder = Builder(model, made, prefix, assume)
    state = Statement(*BY_DOMAIN)
    _assigned(builder, state, settled.fit, choices)
    tensors = Tensors(builder)
    sram = state(c2_sram, tensors)
    time = [model.new_int_var(0, made.longest, f"{prefix}time[{c}]") for c in range(made.count)]
    layer = state(t4_layer, builder, time, None if made.stages else made.most(choices.upper))
    step = state.where(bool(made.stages), t7_stage, builder, time, made.most(choices.upper))
    if step is not None:
        state(t5_transfers_stages, tensors, step)
    longest = def_longest(builder, layer)
    left = def_launched(builder, time)
    terms = {"T1": state(t1_compute, builder, left), "T2": state(t2_memory, tensors, left, sram)}
    terms["T3"] = state(t3_network, tensors, left)
    shares = Shares(builder)
    state.where(bool(made.problem.shares), c7_tiles, shares)
    if made.problem.shares:
        terms["T1"] = state(t1_compute_shared, shares, left)
    state(t4_layer_no_overlap, builder, left, *terms.values())
    launched = [whole - rest for whole, rest in zip(time, left, strict=True)]
    state.where(made.paces > 1, t4_layer_pairs, builder, layer, launched, *terms.values())
    return DataflowCpVariables(
        tables=made,
        scope=settled.scope,
        statement=state,
        A=builder.A,
        y=builder.y,
        s=builder.s,
        inside=tensors.inside,
        time=time,
        layer=layer,
        factor=Fraction(steps(made.problem)) if made.stages else _factor(made.problem) / made.paces,
        transfers=state(t5_transfers, builder, layer, longest),
        gradients=state(t6_gradients, tensors),
        optimizer=state(t8_step, builder),
        terms=terms,
        sram=sram,
        shares=shares.share,
        dram=state(c6_dram_stages if made.stages else c6_dram, tensors),
        step=step,
        longest=longest,
        assumptions=builder.assumptions,
    )
