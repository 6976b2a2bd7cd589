"""Figures of a ring instance for `chipmap info`, and a mapping as a table by the names of the original operations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from chipmap.instances.pinning import binding
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import TICKS_PER_NS, RingProblem, ring_problem
from chipmap.networks.graph import neighbours
from chipmap.records import csv_text

_TICKS_PER_US = 1000 * TICKS_PER_NS
_MIB = 1024 * 1024
_COLUMNS = ("name", "kind", "role", "chip", "work_us", "weight_bytes")


def describe(instance: RingInstance) -> dict[str, Any]:
    """The figures of ``instance``, in natural units.

    ``flop``, ``weights_mib`` (each constant once) and ``work_us`` are sums over the computing operations;
    ``average_us`` is the work per chip, ``largest`` the operation that takes longest and its time as a multiple of
    that average (no mapping is faster than either); ``heaviest`` the one with the most weights, all constants that it
    reads included.
    """
    problem = ring_problem(instance)
    operations = instance.graph.operations
    computing = problem.computing.nonzero()[0].tolist()
    average = problem.total_ticks / problem.chips
    figures: dict[str, Any] = {
        "operations": len(operations),
        "roles": dict(sorted(Counter(operation.role for operation in operations).items())),
        "computing": len(computing),
        "edges": len(problem.edges),
        "flows": len(problem.flows),
        "storages": len(problem.storages),
        "flop": sum(operations[v].flop for v in computing),
        "weights_mib": int(problem.floor_bytes.sum()) / _MIB,
        "work_us": problem.total_ticks / _TICKS_PER_US,
        "average_us": average / _TICKS_PER_US,
        "measured_times": sum(time is not None for time in instance.time_ns or ()),
    }
    if computing:
        slowest = max(computing, key=lambda v: (problem.ticks[v], -v))
        heaviest = max(computing, key=lambda v: (problem.alone_bytes[v], -v))
        figures["largest"] = {
            "name": operations[slowest].name,
            "us": int(problem.ticks[slowest]) / _TICKS_PER_US,
            "of_average": int(problem.ticks[slowest]) / average if average else None,
        }
        figures["heaviest"] = {
            "name": operations[heaviest].name,
            "weights_mib": int(problem.alone_bytes[heaviest]) / _MIB,
        }
    return figures | {
        "contraction": contract(instance).report,
        "package": msgspec.to_builtins(instance.package),
        "cost_mode": instance.cost_mode,
        "traffic": instance.traffic,
        "constraints": list(instance.constraints),
        "pins": len(instance.pins),
        "together": len(binding(instance.together)),
        "apart": len(binding(instance.apart)),
        "forbidden": len(instance.forbidden),
        "notes": instance.notes,
    }


def files(instance: RingInstance, solution: RingSolution) -> dict[str, bytes]:
    """The files written beside a solution: ``mapping.csv`` with a line per operation of the original graph.

    ``chip`` is the operation's chip; of a constant or an input all chips that need it, separated by blanks. ``work_us``
    and ``weight_bytes`` are what the operation puts on its chip, so that their sums over a chip are its work
    and its weights: a constant that several operations of a chip read stands in the line of the first of these.
    """
    problem = ring_problem(instance)
    weights = _weights_at_first(problem, solution)
    needed = _needed_on(problem, solution)
    rows = []
    for v, operation in enumerate(instance.graph.operations):
        chips = needed[v] if operation.role in ("constant", "input") else {solution.chips[v]}
        where = " ".join(str(chip) for chip in sorted(chips))
        row = (operation.name, operation.kind, operation.role, where)
        rows.append((*row, int(problem.ticks[v]) / _TICKS_PER_US, weights[v]))
    return {"mapping.csv": csv_text(_COLUMNS, rows).encode()}


def _weights_at_first(problem: RingProblem, solution: RingSolution) -> list[int]:
    """[n]: each operation's weights, with the constants that no earlier operation of its chip reads."""
    weights = [int(size) for size in problem.weight_bytes]
    for constant in problem.shared:
        first = {solution.chips[v]: v for v in reversed(constant.readers)}
        for v in first.values():
            weights[v] += constant.bytes
    return weights


def _needed_on(problem: RingProblem, solution: RingSolution) -> list[set[int]]:
    """For each operation the chips of the computing operations that read it, through views and constants or not."""
    needed: list[set[int]] = [set() for _ in range(problem.n)]
    readers = neighbours(problem.n, problem.edges.tolist())
    passes_on = [operation.role in ("constant", "view") for operation in problem.instance.graph.operations]
    for v in reversed(problem.order):
        for w in readers[v]:
            if problem.computing[w]:
                needed[v].add(solution.chips[w])
            elif passes_on[w]:
                needed[v] |= needed[w]
    return needed
