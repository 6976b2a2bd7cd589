"""``--costs``: kernels whose times stand to each other as measured or learned ones do (``docs/families/wafer.md``).

Let kernel v have ns(v) nanoseconds and m(v) multiplications, H · W · C · K · R · S / T². Its formula's time is
multiplied by φ(v) = (ns(v) / m(v)) · (Σ m / Σ ns), with sums over the kernels that have a time. So the network's work
stays what it was, as a step has no length in nanoseconds. A kernel that takes twice as long per multiplication has
twice the time. Of a table, m is the least of tiles · time over its choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from chipmap.instances.learned import PREFIX, source_of
from chipmap.instances.measured import Times, rows, times
from chipmap.instances.measured_trace import is_trace
from chipmap.instances.products import hosts, works
from chipmap.instances.wafer.instance import MAX_PERMILLE, Kernel, WaferInstance
from chipmap.instances.wafer.problem import convolutions
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError, counted, listed
from chipmap.records.decimals import exact

_AGAIN = "Give --costs where the network is converted, or a table with a line operation,ns and the names of kernels."


def equip_graph(
    instance: WaferInstance, imported: ImportedGraph, system: str = "", costs: Sequence[str] = ()
) -> WaferInstance:
    """The instance made of a graph, with the times of the operations that run in each kernel."""
    _no_system(system)
    graph = imported.graph
    given = times(graph, imported.scopes, costs, ("",))
    made = {v for v, operation in enumerate(graph.operations) if operation.role == "compute" and works(operation)}
    sums: dict[str, Fraction] = {}
    for v, host in hosts(graph, made).items():
        if (ns := given.by_class[""][v]) is not None:
            name = graph.operations[host].name
            sums[name] = sums.get(name, Fraction(0)) + exact(ns)
    untold = {graph.operations[v].name for v in made if given.by_class[""][v] is None}
    return _scaled(instance, {name: ns for name, ns in sums.items() if name not in untold}, given)


def equip(instance: WaferInstance, system: str = "", costs: Sequence[str] = ()) -> WaferInstance:
    """The instance with times of its kernels by their names."""
    _no_system(system)
    for file in costs:
        source = source_of(file)
        if file.startswith(PREFIX) or is_trace(source) or any(row.graph for row in rows(source)):
            raise InputError("has times of operations, of which an instance keeps only kernels", file, _AGAIN)
    kernels = [kernel for kernel in instance.kernels if kernel.placed]
    operations = [Operation(name=one.name, kind=one.kind, flop=2 * int(work(one))) for one in kernels]
    place = {one.name: v for v, one in enumerate(kernels)}
    edges = dict.fromkeys((place[u], place[v]) for u, v in instance.edges if u in place and v in place)
    graph = OperationGraph(
        name=instance.name,
        operations=tuple(operations),
        tensors=tuple(Tensor(producer=u, readers=(v,), bytes=1) for u, v in edges),
    )
    given = times(graph, (), costs, ("",))
    ns = zip(kernels, given.by_class[""], strict=True)
    return _scaled(instance, {one.name: exact(time) for one, time in ns if time is not None}, given)


def work(kernel: Kernel) -> Fraction:
    """Multiplications of all convolutions, or the least tiles · steps of a table, without its scale."""
    if kernel.choices:
        return Fraction(min(one.width * one.height * one.time for one in kernel.choices))
    return sum(
        (Fraction(one.H * one.W * one.C * one.K * one.R * one.S, one.T**2) for one in convolutions(kernel)),
        Fraction(0),
    )


def _no_system(system: str) -> None:
    if system:
        raise InputError(
            "family 'wafer' has a fabric, no system", "--system", "Change the fabric: --set fabric.width=200."
        )


def _scaled(instance: WaferInstance, ns: Mapping[str, Fraction], given: Times) -> WaferInstance:
    """The instance whose kernels with a time have their scale."""
    amount = {kernel.name: work(kernel) for kernel in instance.kernels if kernel.name in ns}
    some = {name for name in amount if amount[name] and ns[name]}
    if not some:
        raise InputError("gives no time to any kernel", "--costs", "Measure convolutions and products.")
    rate = sum(amount[name] for name in some) / sum(ns[name] for name in some)
    kernels, clipped = [], []
    for kernel in instance.kernels:
        if kernel.name in some:
            asked = round(1000 * rate * ns[kernel.name] / amount[kernel.name])
            if not 1 <= asked <= MAX_PERMILLE:
                clipped.append(kernel.name)
            kernel = kernel.replace(time_permille=min(max(asked, 1), MAX_PERMILLE))
        kernels.append(kernel)
    told = f"times of {counted(len(some), 'kernel')} are scaled as measured"
    told += f"; the scales of {listed(clipped, 3)} are cut to 0.001 to {MAX_PERMILLE // 1000}" if clipped else ""
    notes = "; ".join([*filter(None, [instance.notes, given.note]), told])
    return instance.replace(kernels=tuple(kernels), notes=notes)
