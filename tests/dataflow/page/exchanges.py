"""What is present, weights that rest, sums that are shared: ``docs/families/dataflow-exchanges.md``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tests.dataflow.page import amounts, network
from tests.dataflow.page.amounts import PageCase, ticks
from tests.dataflow.page.collectives import collective, over_group, swap_over_group
from tests.dataflow.page.network import End

if TYPE_CHECKING:
    from tests.dataflow.page.memory import Mapped

PARTIAL_SUMS = ("K", "K_RS", "K_N")


def list_of_places(backward: list[bool], edges: list[tuple[int, int]]) -> list[int]:
    """The list: the lowest number whose makers are listed, forward kernels first."""
    listed: list[int] = []
    while len(listed) < len(backward):
        rest = [v for v in range(len(backward)) if v not in listed]
        rest = [v for v in rest if all(u in listed for u, reader in edges if reader == v)]
        listed.append(next((v for v in rest if not backward[v]), rest[0]))
    return listed


def in_order(mapped: Mapped) -> list[int]:
    """The copies of kernels in the order in which they run."""
    backward = [kernel.phase == "backward" for _, kernel, _, _ in mapped.copies]
    listed = list_of_places(backward, list(mapped.edges))
    if not mapped.case.fuses:
        return listed
    return sorted(listed, key=lambda i: (backward[i], mapped.copies[i][3], listed.index(i)))


def needed(case: PageCase, reader: End, maker: End) -> tuple[str, Fraction, int]:
    """A reader's need: kind of layout, share, number of experts."""
    kind = network.reads(case, reader, maker[0])
    if kind == "HR":
        return kind, amounts.share(case, *reader), amounts.groups(case, reader[0])[0]
    share = Fraction(1) if kind == "RR" else max(network.parts_needed(case, reader, maker[0]))
    if network.whole_heads(case, reader, maker[0]) and kind == "SR":
        forward, outer, heads = maker[0].phase == "forward", maker[0].outer, maker[0].heads
        if forward and 0 < heads < outer and heads % case.n:
            kind = "heads of samples"
    return kind, share, reader[0].experts if kind == "EE" else 0


def covers(case: PageCase, one: tuple[str, Fraction, int], other: tuple[str, Fraction, int]) -> bool:
    if one[0] == "RR":
        return other[0] != "EE" or case.degrees.expert == 1
    if one[0] != other[0]:
        return False
    if one[0] == "HR":
        return one == other
    return one[2] == other[2] if one[0] == "EE" else network.agree(one[1] * case.n, other[1] * case.n, case.n)


def suppliers(mapped: Mapped) -> dict[tuple[int, int], int]:
    """(maker, reader): the reader's supplier."""
    case, order, found = mapped.case, mapped.order, dict[tuple[int, int], int]()
    inside = [(u, v) for u, v in mapped.edges if mapped.copies[u][0] == mapped.copies[v][0]] if case.physical else []
    for u, v in inside:
        if mapped.change(u, v) == 0:
            continue
        for r in order[: order.index(v)]:
            if (u, r) not in inside or mapped.change(u, r) == 0 or not _in_reach(mapped, r, v):
                continue
            if exchanges_sums(case, mapped.end(u), mapped.end(r)):
                continue
            ends = (needed(case, mapped.end(one), mapped.end(u)) for one in (r, v))
            if covers(case, *ends):
                found[u, v] = r
                break
    return found


def exchanges_sums(case: PageCase, maker: End, reader: End) -> bool:
    """Whether a reader of copies exchanges their sums, which takes less than the change of layout of the copies."""
    if maker[1] != "E" or reader[1] == "E" or reader[0].N * maker[0].active != maker[0].N:
        return False
    alone = maker[0].replace(active=0), maker[1]
    return network.routed(case, maker, reader) < network.routed(case, alone, reader)


def _in_reach(mapped: Mapped, r: int, v: int) -> bool:
    (_, one, _, here), (_, other, _, there) = mapped.copies[r], mapped.copies[v]
    return {"none": here == there, "phase": one.phase == other.phase, "step": True}[mapped.case.keep]


@dataclass(frozen=True)
class Copied:
    """A copy of what ``maker`` made, in the layout that ``supplier`` needs: its bytes, and who reads it elsewhere."""

    maker: int
    supplier: int
    readers: list[int]
    size: Fraction


def copied(mapped: Mapped) -> list[Copied]:
    found: dict[tuple[int, int], Copied] = {}
    for (u, v), r in mapped.suppliers.items():
        if mapped.crosses(r, v):
            share = needed(mapped.case, mapped.end(r), mapped.end(u))[1]
            size = share * amounts.tensor(mapped.case, mapped.copies[u][1])
            found.setdefault((u, r), Copied(u, r, [], size)).readers.append(v)
    return list(found.values())


@dataclass(frozen=True)
class Part:
    """What a chip has of a matrix of parameters."""

    kind: str
    share: Fraction

    def covers(self, other: Part, n: int) -> bool:
        if self.kind == "whole" or self.share == 1:
            return True
        return self.kind == other.kind and network.agree(self.share * n, other.share * n, n)


def part(case: PageCase, end: End, what: str) -> Part:
    """The table's part: what ``rests`` of a forward kernel, is ``used`` by a backward one, or ``made`` by an update."""
    row = {
        **dict.fromkeys(("OUTER", "M"), ("rows", "columns", "rows")),
        "K": ("columns", "rows", "whole"),
        "K_RS": ("columns", "rows", "rows"),
        "K_N": ("columns", "rows", "columns"),
        "N": ("whole", "whole", "columns"),
        "NONE": ("whole", "whole", "whole"),
        "E": ("experts", "experts", "experts"),
    }[end[1]]
    share = amounts.output_share(case, *end) if what == "made" else amounts.weights_share(case, *end)
    return Part(row[("rests", "used", "made").index(what)], share)


def brought(case: PageCase, size: Fraction, held: Part, wanted: Part) -> Fraction:
    """Nanoseconds to bring ``size`` bytes from one part to another."""
    total = Fraction(0)
    if held.covers(wanted, case.n):
        return total
    if held.kind == "experts" or wanted.kind == "experts":
        total += sum(collective("gather", size / case.n, link) for link in case.links("expert"))
    links = network.group(case)
    if not links:
        return total
    if wanted.kind == "whole":
        return total + over_group("gather", size * network.padding(held.share), links)
    return total + swap_over_group(size * max(held.share, wanted.share), links)


def used_weights(mapped: Mapped, b: int, f: int) -> int:
    """T3 of a backward kernel: ticks to have its forward kernel's parameters, and where it uses them."""
    case, size = mapped.case, amounts.weights(mapped.case, mapped.copies[f][1])
    moved = brought(case, size, part(case, mapped.end(f), "rests"), part(case, mapped.end(b), "used"))
    gathered = 0 if mapped.copies[f][1].name in case.again else network.each_run(case, *mapped.end(f))
    return gathered + ticks(moved)


def beside_rest(mapped: Mapped, b: int, f: int) -> int:
    """C6: bytes of a use that isn't covered."""
    case = mapped.case
    rests, use = part(case, mapped.end(f), "rests"), part(case, mapped.end(b), "used")
    return 0 if rests.covers(use, case.n) else math.ceil(use.share * amounts.weights(case, mapped.copies[f][1]))


def back_to_rest(mapped: Mapped, u: int, f: int) -> int:
    """T6 of an update: ticks until what it made lies as it rests."""
    case = mapped.case
    rests, size = part(case, mapped.end(f), "rests"), case.layers * amounts.weights(case, mapped.copies[f][1])
    if case.shard in ("optimizer", "gradients") and rests.kind != "whole":
        size /= case.degrees.data
    return ticks(brought(case, size, part(case, mapped.end(u), "made"), rests))


def shared_sums(mapped: Mapped) -> list[tuple[int, int]]:
    """T3: (who pays, ticks) of the sums of makers that a kernel adds up."""
    found = []
    for makers in mapped.added.values():
        last = [i for i in mapped.order if i in makers][-1]
        for scheme in PARTIAL_SUMS:
            if any(mapped.copies[u][2] == scheme for u in makers):
                found.append((last, network.sums(mapped.case, mapped.copies[makers[-1]][1], scheme)))
    return found


def lie_as_another(mapped: Mapped) -> set[tuple[int, int]]:
    """(maker, adding kernel) for which the latter pays nothing, as one named before lies alike."""
    found = set[tuple[int, int]]()
    for a, makers in mapped.added.items():
        layouts = [
            (
                network.left(mapped.case, *mapped.end(u)),
                amounts.output_share(mapped.case, *mapped.end(u)),
                amounts.groups(mapped.case, mapped.end(u)[0]) if mapped.end(u)[1] == "OUTER_M" else 0,
            )
            for u in makers
        ]
        found |= {(u, a) for i, u in enumerate(makers) if layouts[i] in layouts[:i]}
    return found
