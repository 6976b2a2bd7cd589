"""What the network takes: ``docs/families/dataflow.md``, "Sharding"; ``dataflow-parallelism.md``; what replicas
exchange, ``dataflow-training.md``."""

from __future__ import annotations

import math
from fractions import Fraction

from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel
from tests.dataflow.page import amounts
from tests.dataflow.page.amounts import PageCase, ticks
from tests.dataflow.page.collectives import a_few, collective, nested, over_group, swap, swap_over_group

#: A kernel with its scheme.
End = tuple[Kernel, str]
MADE = {"OUTER": "SR", "M": "SR", "K_RS": "SR", "N": "RS", "K_N": "RS", "K": "RR", "NONE": "RR", "E": "EE", "B": "BS"}
MADE |= {"OUTER_M": "HR", "OUTER_K": "SR", "M_K": "TR", "K_M": "SR", "M_T": "TR"}


def sums(case: PageCase, kernel: Kernel, scheme: str) -> int:
    """Ticks of the collective in which a split of what is summed ends, statistics of columns and sums of heads too."""
    size, total, links = amounts.tensor(case, kernel), Fraction(0), group(case)
    if not links:
        return 0
    if scheme == "K":
        total += over_group("all-reduce", size, links, 2 if case.physical else case.instance.task.all_reduce_factor)
    elif scheme in ("K_RS", "K_N"):
        total += over_group("gather", size * padding(amounts.output_share(case, kernel, scheme)), links)
    elif scheme in ("OUTER_M", "OUTER_K"):
        g, t = amounts.groups(case, kernel)
        if scheme == "OUTER_M":
            total += over_group("all-reduce", amounts.statistics(case, kernel) / g, a_few(links, t))
        else:
            each = size * padding(amounts.output_share(case, kernel, scheme)) / g
            total += over_group("gather", each, a_few(links, t))
    elif scheme in ("M_K", "K_M"):
        by_rows, _ = amounts.on_grid(case, scheme)
        each = size * padding(amounts.output_share(case, kernel, scheme)) / by_rows
        total += over_group("gather", each, links[-1:] if scheme == "M_K" else links[:-1])
    elif scheme in ("M", "M_T") and case.physical:
        total += over_group("all-reduce", amounts.statistics(case, kernel), links)
    elif scheme == "OUTER":
        what, among = amounts.gradient_of_heads(case, kernel, scheme)
        if what == "sum":
            total += over_group("all-reduce", size, links)
        elif what == "scatter":
            each = size * padding(amounts.output_share(case, kernel, scheme)) / kernel.heads
            total += over_group("gather", each, a_few(links, among))
    return ticks(total)


def group(case: PageCase) -> list[Dimension]:
    """The dimensions of a tensor-parallel group, the fastest links first."""
    return sorted(case.links("tensor"), key=lambda link: -link.bytes_per_ns)


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
            took = held / amounts.written(link.bytes_per_ns, link.efficiency) + amounts.written(link.start_ns)
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
        took = held / chips * messages / wires / amounts.written(one.bytes_per_ns, one.efficiency) + amounts.written(
            one.start_ns
        )
        longest = max(longest, took + (1 if one.topology == "full" else one.size - 1) * amounts.written(one.latency_ns))
    return longest


def reads(case: PageCase, reader: End, maker: Kernel) -> str:
    """The layout in which a kernel needs what ``maker`` makes."""
    kernel, scheme = reader
    if scheme in ("M_K", "K_M"):
        return "SR" if scheme == "M_K" else "TR"
    if scheme == "OUTER_M":
        return "HR" if kernel.kind == "elementwise" else "SR"
    if scheme == "OUTER_K":
        return "HR" if (maker.outer, maker.M) == (kernel.outer, kernel.K) else "SR"
    if kernel.kind == "gemm" and kernel.weights:
        if scheme == "OUTER":
            return "RR" if case.physical else "SR"
        by_sums = {"K": "SR", "K_RS": "SR", "K_N": "SR"}
        return {"M": "RR", "NONE": "RR", "N": "RS", "E": "EE", **by_sums}[scheme]
    if kernel.kind == "gemm" and kernel.update and kernel.operand and case.physical and scheme in ("M", "N"):
        gradient = kernel.operand != maker.name
        return "SR" if gradient == (scheme == "M") else "RR"
    if kernel.kind == "gemm" and amounts.splits_tokens(case, kernel, scheme):
        return "RS" if kernel.operand and kernel.operand != maker.name else "RR"
    return MADE[scheme]


def change(case: PageCase, maker: End, reader: End) -> int:
    """Ticks until a reader has what it needs of what ``maker`` made."""
    if "E" in (maker[1], reader[1]):
        return ticks(routed(case, maker, reader))
    links = group(case)
    return ticks(_moved(case, maker, reader, links)) if links else 0


def left(case: PageCase, kernel: Kernel, scheme: str) -> str:
    """The layout that a kernel leaves."""
    return "RR" if amounts.gradient_of_heads(case, kernel, scheme)[0] == "sum" else MADE[scheme]


def _heads_of_samples(case: PageCase, maker: End, reader: End) -> bool:
    """Whether the maker's chips have heads of some samples, and the reader's need rows of all."""
    kernel, scheme = maker
    if not case.physical or scheme != "OUTER" or whole_heads(case, reader, kernel) or kernel.phase == "backward":
        return False
    return kernel.heads != 0 and kernel.heads < kernel.outer and kernel.heads % case.n != 0


def whole_heads(case: PageCase, reader: End, maker: Kernel) -> int:
    """Among how many chips, or groups of chips, a reader shares out whole heads of what it reads; 0: it doesn't."""
    if reader[1] == "OUTER":
        return case.n
    if reader[1] in ("OUTER_M", "OUTER_K") and reads(case, reader, maker) == "SR":
        return amounts.groups(case, reader[0])[0]
    return 0


def parts_needed(case: PageCase, reader: End, maker: Kernel) -> list[Fraction]:
    """The parts of a split tensor that a chip of the reader needs."""
    among = whole_heads(case, reader, maker)
    if reader[1] in ("M_K", "K_M"):
        return [amounts.terms_on_grid(case, *reader)]
    found = [Fraction(1, among) if among and reader[1] != "OUTER" else amounts.share(case, *reader)]
    if among and case.physical and (heads := _heads(case, maker)):
        found.append(Fraction(math.ceil(Fraction(heads, among)), heads))
    return found


def _heads(case: PageCase, maker: Kernel) -> int:
    """The heads of a tensor's rows; 0 where nothing is said of them."""
    if maker.phase == "forward" and maker.outer > 1:
        return maker.outer
    return maker.heads or (maker.outer if maker.outer > 1 else 0)


def _moved(case: PageCase, maker: End, reader: End, links: list[Dimension]) -> Fraction:
    made, needs = left(case, *maker), reads(case, reader, maker[0])
    if made == "RR":
        return Fraction(0)
    n, size = case.n, amounts.tensor(case, maker[0])
    held, needed = amounts.output_share(case, *maker), parts_needed(case, reader, maker[0])
    gather = over_group("gather", size * padding(held), links)
    if needs == "RR":
        return gather
    alike = amounts.groups(case, maker[0]) == amounts.groups(case, reader[0])
    if made == needs == "HR" and alike and [held] == needed:
        return Fraction(0)
    if made == needs != "HR" and not _heads_of_samples(case, maker, reader):
        if all(agree(held * n, one * n, n) for one in needed):
            return Fraction(0)
        most = max(needed)
        if made == "TR":
            along = most == held * links[-1].size and agree(most * n, held * n, n)
            return over_group("gather", size * most, links[-1:]) if along else gather
        if held < most and agree(most * n, held * n, n) and all(agree(most * n, one * n, n) for one in needed):
            return over_group("gather", size * most, a_few(links, int(most / held)))
        return gather
    if not case.physical:
        return sum((collective("all-to-all", size, link) for link in links), Fraction(0))
    between = {made, needs} == {"SR", "RS"}
    if between and all((part * n).denominator == 1 and n % (part * n) == 0 for part in (held, *needed)):
        return swap_over_group(size * max(needed), links)
    swapped = swap_over_group(size * max(held, *needed), links)
    equal = held == needed[0] == Fraction(1, n) and not between
    return swapped if equal else max(swapped, gather)


def agree(maker: Fraction, reader: Fraction, n: int) -> bool:
    """Whether each chip has what it needs, of ``maker`` / n and ``reader`` / n."""
    if maker == reader:
        return True
    if maker.denominator > 1 or reader.denominator > 1:
        return False
    return n % maker == 0 and n % reader == 0 and maker % reader == 0


def routed(case: PageCase, maker: End, reader: End) -> Fraction:
    """Dispatch to divided experts, combine from them."""
    size, total = amounts.tensor(case, maker[0]), Fraction(0)
    made, needed = size * amounts.output_share(case, *maker), size * amounts.share(case, *reader)
    inside, among = group(case), case.links("expert")
    both = maker[1] == reader[1] == "E"
    if both and maker[0].experts == reader[0].experts:
        return total
    if maker[1] == "E":  # combine
        total += sum(swap(made, link) for link in among)
        if both:
            total += swap_over_group(made, inside)
        elif inside:
            total += _combined(case, maker[0], reader, (made, max(made, needed)), inside)
    if reader[1] == "E":  # dispatch
        total += sum(swap(needed, link) for link in among)
        if both or left(case, *maker) != "RR":
            total += swap_over_group(needed if both else max(made, needed), inside)
    return total


def _combined(
    case: PageCase, maker: Kernel, reader: End, moved: tuple[Fraction, Fraction], links: list[Dimension]
) -> Fraction:
    """Combine within a group: outputs of experts are moved, or what each chip has added up of its own ones."""
    kernel, needs = reader[0], reads(case, reader, maker)
    change = over_group("gather", case.n * moved[0], links) if needs == "RR" else swap_over_group(moved[1], links)
    if kernel.kind != "elementwise" or kernel.N * maker.active != maker.N:
        return change
    size = amounts.tensor(case, kernel)
    if kernel.statistics and needs == "RR":
        return min(change, over_group("gather", amounts.statistics(case, kernel), links))
    if kernel.statistics:
        return change
    if needs == "RR":
        return min(change, over_group("all-reduce", size, links))
    return min(change, over_group("gather", size * padding(amounts.output_share(case, *reader)), links))


def replicas(case: PageCase, scheme: str) -> list[Dimension]:
    """The dimensions between replicas with the same parameters, the fastest links first."""
    found = case.links("data") if scheme == "E" else case.links("data", "expert")
    return sorted(found, key=lambda link: -link.bytes_per_ns)


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
        total += over_group("gather", size, group(case)) if case.n > 1 else 0
    if shared_out(case, scheme) in ("optimizer", "gradients"):
        size = amounts.parameters(case, kernel, scheme) * case.layers
        total += nested("gather", size, replicas(case, scheme))
    return ticks(total)


def sent(case: PageCase, size: Fraction) -> Fraction:
    """Nanoseconds of ``size`` bytes on the pipeline's link."""
    total = Fraction(0)
    for link in case.links("pipeline") if size else ():
        total += size / amounts.written(link.bytes_per_ns, link.efficiency) + amounts.written(link.latency_ns)
        total += amounts.written(link.start_ns)
    return total
