"""``--costs`` with measured or learned times of operations (:mod:`chipmap.instances.measured`): times of layers.

A layer takes the sum of its operations' times on a class of chiplets. Of those without one it takes their share, by
FLOP, of the time that the preset gives the layer. Energies stay those of the preset: a table measures none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

from chipmap.instances.learned import PREFIX
from chipmap.instances.measured import fingerprint, is_table, rows, times
from chipmap.instances.measured_trace import is_trace, unpacked
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError, Source, listed
from chipmap.records.decimals import exact

#: (model, place of its layer, class) -> (ns of its operations with a time, the FLOP of the others).
Sums = dict[tuple[str, int, str], tuple[Fraction, int]]


def of_operations(text: str) -> bool:
    """Whether a value of ``--costs`` has times of operations: ``learned:FILE``, a table of these, or a trace."""
    if text.startswith(PREFIX):
        return True
    try:
        source = unpacked(Source(text))
    except InputError:
        return False
    return is_trace(source) or is_table(source)


def refuse(costs: Sequence[str]) -> None:
    """Raise :class:`InputError` for times of operations, where only layers are known."""
    for text in filter(of_operations, costs):
        what = "has times of operations, of which an instance keeps only layers"
        raise InputError(what, text, "Give it where the graphs are converted, or a table model,layer,class,ns,pj.")


def sums(
    costs: Sequence[str],
    graphs: Mapping[str, ImportedGraph],
    places: Mapping[str, Mapping[int, int]],
    kinds: Sequence[str],
) -> tuple[Sums, list[str]]:
    """What times of operations come to, by layer; and what to know of them.

    ``graphs`` by the models' names; ``places``: the layer of each operation of a model. A table belongs to the models
    whose graph it names. Raises :class:`InputError` for a table of none of them.
    """
    found: Sums = {}
    files = list(filter(of_operations, costs))
    models = {name: [file for file in files if _of(file, imported, graphs)] for name, imported in graphs.items()}
    for file in files:
        if not any(file in own for own in models.values()):
            what = f"was measured on none of the graphs {listed(graphs)}: names or shapes differ"
            raise InputError(what, file, "Measure them: chipmap measure MODEL --out FILE.")
    notes = []
    for name, own in models.items():
        if not own:
            continue
        graph = graphs[name].graph
        given = times(graph, graphs[name].scopes, own, tuple(kinds))
        notes.append(f"{name}: {given.note}" if len(graphs) > 1 else given.note)
        for kind, ns in given.by_class.items():
            for v, operation in enumerate(graph.operations):
                if operation.role != "compute":
                    continue
                key, time = (name, places[name][v], kind), ns[v]
                total, more = found.get(key, (Fraction(0), 0))
                found[key] = (total, more + operation.flop) if time is None else (total + exact(time), more)
    return {key: pair for key, pair in found.items() if pair[0]}, notes


def _of(file: str, imported: ImportedGraph, graphs: Mapping[str, ImportedGraph]) -> bool:
    """Whether a file says something of that graph; one that names no graph does if there is only one."""
    if file.startswith(PREFIX):
        return True
    source = unpacked(Source(file))
    named = set() if is_trace(source) else {row.graph for row in rows(source)}
    if len(graphs) > 1 and (not named or "" in named):
        what = f"doesn't say which of {len(graphs)} graphs was measured"
        raise InputError(what, file, "Add a column graph, as chipmap measure writes it, or convert each by itself.")
    return not named or "" in named or fingerprint(imported.graph) in named


def timed_cost(cost: tuple[int, int], flop: int, given: tuple[Fraction, int]) -> tuple[int, int]:
    """(ns, pJ) of a layer of so many FLOP, with its preset's ``cost`` and what its operations' times come to."""
    (ns, pj), (total, more) = cost, given
    return ceil(total + (Fraction(ns * more, flop) if more else 0)), pj
