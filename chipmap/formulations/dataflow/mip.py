"""The MIP of family ``dataflow`` at fixed degrees: sharding and partitions in one Pyomo block.

Statement: ``docs/families/dataflow-models.md``; the paper's sections III to V with its matrices A, B, D, L and H.
Kernels are assigned by cumulative binaries y[i, c] = [kernel i lies in a partition <= c]. With y[v, c] <= y[u, c] on
every tensor, all matrices are linear in y but B, which is the positive part of a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyomo.environ as pyo
from pyomo.common.gc_manager import PauseGC

from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement, require_empty, stated, unit
from chipmap.formulations.dataflow.choices import DataflowChoices, settle
from chipmap.formulations.dataflow.mip_assignment import (
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
from chipmap.formulations.dataflow.mip_exchanges import def_exchanges
from chipmap.formulations.dataflow.mip_stages import c6_dram_stages, t5_transfers_stages, t7_stage
from chipmap.formulations.dataflow.mip_tensors import def_inside, def_moves, def_pair
from chipmap.formulations.dataflow.mip_terms import (
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
from chipmap.formulations.dataflow.mip_tiles import c7_tiles, t1_compute_shared
from chipmap.formulations.dataflow.tables import Tables, tables
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.batch_time import batch_factor, chunk_factor, steps
from chipmap.instances.dataflow.making import dataflow_problem

#: Labels that live in variable domains only.
BY_DOMAIN: tuple[str, ...] = ("C8",)


@dataclass(frozen=True)
class DataflowMipChoices(DataflowChoices):
    """How the MIP is stated."""


def encode(block: pyo.Block, tables: Tables, solution: DataflowSolution) -> list[tuple[Any, float]] | None:
    """Values of the free binaries of a block made by :func:`add_dataflow`, or None outside it."""
    found = tables.decisions(solution)
    if found is None:
        return None
    where, options, places = found
    shares = block.share.items() if tables.problem.shares else ()
    pairs = [(v, float((g, p) == places[i] and where[i] == c)) for (i, g, p, c), v in shares]
    pairs += [(variable, float(options[i] == o)) for (i, o), variable in block.s.items()]
    return pairs + [(y, float(where[i] <= c)) for (i, c), y in block.y.items() if not y.fixed]


def decode(block: pyo.Block, tables: Tables, value: Callable[[Any], float]) -> DataflowSolution:
    """The mapping that the binaries of a block made by :func:`add_dataflow` stand for."""
    where = [slots.start for slots in tables.slots]
    for (i, _), variable in block.y.items():
        where[i] += (variable.value if variable.fixed else value(variable)) < 0.5
    return tables.solution(where, {key: value(variable) for key, variable in block.s.items()})


def build(instance: DataflowInstance, choices: DataflowMipChoices | Mapping[str, Any] = DataflowMipChoices()) -> Built:
    """The MIP of ``instance`` at the chosen degrees, minimising the time of the batch in ticks."""
    model = pyo.ConcreteModel(name=instance.name)
    model.dataflow = pyo.Block()
    made, scope = add_dataflow(model.dataflow, instance, stated(DataflowMipChoices, choices))
    model.objective = pyo.Objective(expr=model.dataflow.cost)
    block = model.dataflow
    coders = partial(encode, block, made), partial(decode, block, made)
    return Built("mip", instance, model, block.statement, scope, *coders, stated_for=made.problem.text)


def add_dataflow(
    block: pyo.Block, instance: DataflowInstance, choices: DataflowMipChoices = DataflowMipChoices()
) -> tuple[Tables, Scope]:
    """Fill the empty ``block`` with the MIP of ``instance``, without an Objective; its tables and its scope.

    Afterwards the block has the linear expressions ``cost`` (ticks of the batch, before its last rounding), ``layer``
    (ticks), ``transfers``, ``gradients`` and ``optimizer`` (T5, T6, T8, ticks), ``terms["T1"]`` … ``terms["T3"]`` (sums
    over partitions, ticks), ``sram[c]`` and with a capacity ``dram[c]`` (bytes), the matrices
    ``A[i, c]`` (kernel i in partition c), ``B[e, c]`` (tensor e inside c), ``D[e, c]`` (crosses its border),
    ``L[e, c]`` (alive in DRAM), ``H[e, c]`` (made in c), and the variables ``y[i, c]``, ``s[i, o]`` and ``time[c]`` (in
    ``time_unit`` ticks). Where stages share out kernels, also ``stage[s]`` and ``link[s]``, the time of a stage and of
    what it sends on, and the variable ``step``, at least each of them (in ``time_unit`` ticks).

    Times and, in mode ``physical``, SRAM are exact or above: put upper limits or costs on them. Where only some forward
    kernels are recomputed, ``terms`` count each forward partition twice.
    Raises :class:`InputError` for a block in use.
    """
    require_empty(block, "add_dataflow")
    state = block.statement = Statement(*BY_DOMAIN)
    settled = settle(instance, choices)
    block.tables = made = tables(dataflow_problem(instance, settled.degrees, *settled.plan), given=choices.given)
    with PauseGC():
        _assignment(block, made, choices)
        def_pair(block, made)
        def_exchanges(block, made)
        def_inside(block, made)
        def_moves(block, made)
        state(c2_sram, block, made, unit(made.problem.sram))
        capacity = unit(instance.system.memory.capacity_bytes or 1)
        state(c6_dram_stages if made.stages else c6_dram, block, made, capacity)
        state.where(bool(made.problem.shares), c7_tiles, block, made)
        _terms(block, made, choices)
        state(c0_domain_degrees, block, settled.fit)
    return made, settled.scope


def _assignment(block: pyo.Block, made: Tables, choices: DataflowMipChoices) -> None:
    state = block.statement
    def_upto(block, made)
    state(c0_domain_schemes, block, made)
    state(c1_order, block, made)
    state(c3_phases, block, made)
    state(c4_partitions, block, made, choices.order)
    state(c5_together, block, made)
    state(c5_together_apart, block, made)
    state(c5_together_pins, block, made)
    if choices.given is not None:
        def_given(block, made, choices.given)


def _terms(block: pyo.Block, made: Tables, choices: DataflowMipChoices) -> None:
    scale, state = unit(made.longest), block.statement
    block.time = pyo.Var(range(made.count), bounds=(0, None))
    def_launched(block, made, scale)
    state(t1_compute, block, made, scale)
    if made.problem.shares:
        state(t1_compute_shared, block, made, scale)
    state(t2_memory, block, made, scale)
    state(t3_network, block, made, scale)
    state(t4_layer_no_overlap, block, made)
    state.where(made.paces > 1, t4_layer_pairs, block, made, scale)
    state(t4_layer, block, made, scale, None if made.stages else made.most(choices.upper))
    state.where(bool(made.stages), t7_stage, block, made, scale, made.most(choices.upper))
    if made.stages:
        state(t5_transfers_stages, block, made, scale)
    def_longest(block, made, scale)
    state(t5_transfers, block, made, scale)
    state(t6_gradients, block, made, scale)
    state(t8_step, block, made)
    each = {"T1": block.slowest if made.problem.shares else block.compute, "T2": block.memory, "T3": block.network}
    often = [made.runs(c) + (c in made.split) for c in range(made.count)]
    block.terms = pyo.Expression(
        each, rule=lambda _, term: scale * pyo.quicksum(k * each[term][c] for c, k in enumerate(often))
    )
    block.time_unit = pyo.Param(initialize=scale)
    if made.problem.longest is not None:
        rounds = float(chunk_factor(made.problem)) * block.longest
    elif made.stages:
        rounds = steps(made.problem) * scale * block.step
    else:
        rounds = float(batch_factor(made.problem)) * block.layer
    beside = block.transfers + block.gradients + block.optimizer - made.problem.filled + made.problem.ends_after
    block.cost = pyo.Expression(expr=rounds + beside)
    if made.fixed is None and choices.upper is not None:
        whole = unit(choices.upper)
        block.cut_upper = pyo.Constraint(expr=block.cost / whole <= choices.upper / whole)
