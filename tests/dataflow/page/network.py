"""What the network takes: ``docs/families/dataflow.md``, "Sharding"; ``dataflow-parallelism.md``; what replicas
exchange, ``dataflow-training.md``."""

from __future__ import annotations

import math
from fractions import Fraction

from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel
from tests.dataflow.page import amounts
from tests.dataflow.page.amounts import PageCase, ticks

#: A kernel with its scheme.
End = tuple[Kernel, str]
MADE = {"OUTER": "SR", "M": "SR", "K_RS": "SR", "N": "RS", "K_N": "RS", "K": "RR", "NONE": "RR", "E": "EE"}


def collective(what: str, size: Fraction, link: Dimension, factor: int = 2) -> Fraction:
    """The table of collectives: nanoseconds for a tensor of ``size`` bytes. Nothing where there are no bytes."""
    n, rate, late = link.size, amounts.written(link.bytes_per_ns), amounts.written(link.latency_ns)
    if size == 0:
        return Fraction(0)
    full = link.topology == "full"
    if what == "all-reduce":
        if link.reduces:
            return size / rate + 2 * late
        once = size / (n * rate) if full else size * (n - 1) / (n * rate)
        return factor * once + (2 if full else 2 * (n - 1)) * late
    if what == "gather":  # and reduce-scatter
        return size / (n * rate) + late if full else size * (n - 1) / (n * rate) + (n - 1) * late
    assert what == "all-to-all"
    each = {"ring": Fraction(n * n, 8), "switch": Fraction(n, 4), "full": Fraction(1)}[link.topology]
    return size * each / rate + (1 if full else n - 1) * late


def swap(held: Fraction, link: Dimension) -> Fraction:
    """Every chip sends another n-th of its ``held`` bytes to each of the others."""
    n, rate, late = link.size, amounts.written(link.bytes_per_ns), amounts.written(link.latency_ns)
    if held == 0:
        return Fraction(0)
    times = {"ring": n * n // 4, "switch": n - 1, "full": 1}[link.topology]
    return held * times / (n * rate) + (1 if link.topology == "full" else n - 1) * late


def sums(case: PageCase, kernel: Kernel, scheme: str) -> int:
    """Ticks of the collective in which a split of what is summed ends."""
    size, total = amounts.tensor(case, kernel), Fraction(0)
    for link in case.links("tensor"):
        if scheme == "K":
            total += collective("all-reduce", size, link, 2 if case.physical else case.instance.task.all_reduce_factor)
        elif scheme in ("K_RS", "K_N"):
            total += collective("gather", size * padding(amounts.output_share(case, kernel, scheme)), link)
    return ticks(total)


def padding(part: Fraction) -> Fraction:
    """How much a split tensor grows by its padding."""
    return math.ceil(1 / part) * part


def exchange(case: PageCase, kernel: Kernel) -> int:
    """Ticks of a kernel's own exchange with all chips of its stage."""
    if kernel.exchange == "none":
        return 0
    stated = amounts.scaled(case, kernel.exchange_bytes, case.instance.workload.activation_format)
    held, links = stated * case.b / case.n, case.links("tensor", "data", "expert")
    if kernel.exchange == "all_to_all" and not case.physical:
        return ticks(_fullest_cut(held, links))
    longest = Fraction(0)
    for link in links:
        if kernel.exchange == "all_to_all":
            took = collective("all-to-all", held / link.size, link)
        else:
            took = held / amounts.written(link.bytes_per_ns)
            took += (1 if link.topology == "full" else link.size - 1) * amounts.written(link.latency_ns)
        longest = max(longest, took)
    return ticks(longest)


def _fullest_cut(held: Fraction, links: list[Dimension]) -> Fraction:
    """Mode ``dfmodel``: a pair of the P chips sends held / P over the fullest cut."""
    chips, longest, before = math.prod(one.size for one in links), Fraction(0), 1
    for one in links:
        before *= one.size
        if all(other.topology == "ring" for other in links):
            messages, wires = Fraction(chips * chips, 2), Fraction(2 * chips, one.size)
        else:
            messages = Fraction(before * before, 4)
            wires = {"ring": Fraction(2), "switch": Fraction(one.size), "full": Fraction(one.size**2, 4)}[one.topology]
        took = held / chips * messages / wires / amounts.written(one.bytes_per_ns)
        longest = max(longest, took + (1 if one.topology == "full" else one.size - 1) * amounts.written(one.latency_ns))
    return longest


def reads(case: PageCase, reader: End, maker: Kernel) -> str:
    """The layout in which a kernel needs what ``maker`` makes."""
    kernel, scheme = reader
    if kernel.kind == "gemm" and kernel.weights:
        if scheme == "OUTER":
            return "RR" if case.physical else "SR"
        by_sums = {"K": "SR", "K_RS": "SR", "K_N": "SR"}
        return {"M": "RR", "NONE": "RR", "N": "RS", "E": "EE", **by_sums}[scheme]
    if kernel.kind == "gemm" and amounts.splits_tokens(case, kernel, scheme):
        return "RS" if kernel.operand and kernel.operand != maker.name else "RR"
    return MADE[scheme]


def change(case: PageCase, maker: End, reader: End) -> int:
    """Ticks until a reader has what it needs of what ``maker`` made."""
    if "E" in (maker[1], reader[1]):
        return ticks(_routed(case, maker, reader))
    return ticks(sum((_moved(case, maker, reader, link) for link in case.links("tensor")), Fraction(0)))


def _moved(case: PageCase, maker: End, reader: End, link: Dimension) -> Fraction:
    made, needs = MADE[maker[1]], reads(case, reader, maker[0])
    if made == "RR":
        return Fraction(0)
    n, size = case.n, amounts.tensor(case, maker[0])
    held, needed = amounts.output_share(case, *maker), amounts.share(case, *reader)
    gather = collective("gather", size * padding(held), link)
    if needs == "RR":
        return gather
    if made == needs:
        return Fraction(0) if agree(held * n, needed * n, n) else gather
    if not case.physical:
        return collective("all-to-all", size, link)
    heads = maker[0].outer
    if reader[1] == "OUTER" and reader[0].outer > heads:  # several query heads read one of these
        whole_heads = Fraction(math.ceil(Fraction(heads, n)), heads)
    else:
        whole_heads = Fraction(0)
    swapped = swap(size * max(held, needed, whole_heads), link)
    equal = held == needed == Fraction(1, n)
    return swapped if equal else max(swapped, gather)


def agree(maker: Fraction, reader: Fraction, n: int) -> bool:
    """Whether each chip has what it needs, of ``maker`` / n and ``reader`` / n."""
    if maker == reader:
        return True
    if maker.denominator > 1 or reader.denominator > 1:
        return False
    return n % maker == 0 and n % reader == 0 and maker % reader == 0


def _routed(case: PageCase, maker: End, reader: End) -> Fraction:
    """Dispatch to divided experts, combine from them."""
    size, total = amounts.tensor(case, maker[0]), Fraction(0)
    made, needed = size * amounts.output_share(case, *maker), size * amounts.share(case, *reader)
    inside, among = case.links("tensor"), case.links("expert")
    both = maker[1] == reader[1] == "E"
    if both and maker[0].experts == reader[0].experts:
        return total
    if maker[1] == "E":  # combine
        total += sum(swap(made, link) for link in among)
        if not both and reads(case, reader, maker[0]) == "RR":
            total += sum(collective("gather", case.n * made, link) for link in inside)
        else:
            total += sum(swap(made if both else max(made, needed), link) for link in inside)
    if reader[1] == "E":  # dispatch
        total += sum(swap(needed, link) for link in among)
        if both or MADE[maker[1]] != "RR":
            total += sum(swap(needed if both else max(made, needed), link) for link in inside)
    return total


def replicas(case: PageCase, scheme: str) -> list[Dimension]:
    """The dimensions between replicas with the same parameters, the fastest links first."""
    found = case.links("data") if scheme == "E" else case.links("data", "expert")
    return sorted(found, key=lambda link: -link.bytes_per_ns)


def nested(what: str, size: Fraction, links: list[Dimension]) -> Fraction:
    """An all-reduce, or a reduce-scatter or gather, over several dimensions: each moves what the faster ones left."""
    total = Fraction(0)
    for i, link in enumerate(links):
        if what == "all-reduce" and i < len(links) - 1:
            total += 2 * collective("gather", size, link)
        else:
            total += collective(what, size, link)
        size /= link.size
    return total


def shared_out(case: PageCase, scheme: str) -> str:
    """What replicas of a kernel's parameters share out: nothing where there is one."""
    alone = case.degrees.data == (case.degrees.expert if scheme == "E" else 1)
    return "none" if alone else case.shard


def each_run(case: PageCase, kernel: Kernel, scheme: str) -> int:
    """T3: ticks each time that a kernel runs, for what replicas share out."""
    what, links = shared_out(case, scheme), replicas(case, scheme)
    if kernel.update and what in ("gradients", "weights"):
        return ticks(nested("gather", amounts.output(case, kernel, scheme), links))
    if not kernel.update and what == "weights":
        return ticks(nested("gather", amounts.parameters(case, kernel, scheme), links))
    return 0


def gradients(case: PageCase, kernel: Kernel, scheme: str, layers: int) -> int:
    """T6: ticks of the sums of an update's gradients of so many layers."""
    what, links = shared_out(case, scheme), replicas(case, scheme)
    size = amounts.output(case, kernel, scheme) * layers
    if what in ("gradients", "weights"):
        return 0
    if what == "optimizer":
        return ticks(nested("gather", size, links))
    if case.physical:
        return ticks(nested("all-reduce", size, links))
    factor = case.instance.task.all_reduce_factor
    return ticks(sum((collective("all-reduce", size, link, factor) for link in links), Fraction(0)))


def updated(case: PageCase, kernel: Kernel, scheme: str) -> int:
    """T6: ticks in which the updated weights of a forward kernel are gathered, for all layers of the stage."""
    total, updates = Fraction(0), [one for one in case.instance.workload.kernels if one.update]
    named = any(one.parameters_of == kernel.name for one in updates)
    if amounts.splits_tokens(case, kernel, scheme) and updates and not named:
        size = amounts.weights(case, kernel) * case.layers
        total += sum(collective("gather", size, link) for link in case.links("tensor"))
    if shared_out(case, scheme) in ("optimizer", "gradients"):
        size = amounts.parameters(case, kernel, scheme) * case.layers
        total += nested("gather", size, replicas(case, scheme))
    return ticks(total)


def sent(case: PageCase, size: Fraction) -> Fraction:
    """Nanoseconds of ``size`` bytes on the pipeline's link."""
    total = Fraction(0)
    for link in case.links("pipeline") if size else ():
        total += size / amounts.written(link.bytes_per_ns) + amounts.written(link.latency_ns)
    return total
