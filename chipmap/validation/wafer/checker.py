"""The independent checker of family ``wafer``: the constraints and terms of ``docs/families/wafer.md``, one by one.

Whole numbers and fractions over the records. It imports no cost function, model or heuristic, so that nothing judges
itself.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from chipmap.certificate import Certificate
from chipmap.instances.wafer.instance import Choice, Kernel, Placement, WaferInstance, WaferSolution
from chipmap.records import shortened
from chipmap.validation.certify import Finding, certify
from chipmap.validation.wafer.facts import TICKS, Box, Conv, box, chosen, convolutions, takes_room

#: Overlapping pairs that a certificate lists.
LISTED = 1000
#: No argument and no position lies beyond it.
LARGEST = 10**9


@dataclass(frozen=True)
class Placed:
    """A kernel with its placement, its convolutions and the tiles that it covers; ``choice``: that of its table."""

    kernel: Kernel
    placement: Placement
    convs: tuple[Conv, ...]
    box: Box
    choice: Choice | None


def check(instance: WaferInstance, solution: WaferSolution) -> Certificate:
    """The certificate of ``solution`` for a valid ``instance``: violations of C0 to C7, objective, terms and figures.

    Objective and terms stand beside violations of C1 to C7 too; a violation of C0 leaves them undefined.
    """
    broken: dict[str, Iterable[Finding]] = {"C0": list(c0_domain(instance, solution))}
    if broken["C0"]:
        return certify(instance, solution, broken)
    placed = _placed(instance, solution)
    broken |= {"C1": c1_inside(instance, placed), "C2": c2_no_overlap(placed), "C3": c3_memory(instance, placed)}
    broken |= {"C4": c4_pins(instance, placed), "C5": c5_kept_out(instance, placed)}
    broken |= {"C6": c6_sides(instance, placed), "C7": c7_crossing(instance, placed)}
    terms = {"T1": t1_time(instance, placed), "T2": t2_wire(instance, placed), "T3": t3_adapters(instance, placed)}
    figures = _figures(instance, placed)
    return certify(instance, solution, broken, objective=sum(terms.values()), terms=terms, figures=figures)


def _placed(instance: WaferInstance, solution: WaferSolution) -> list[Placed]:
    """The placed kernels in the order of the instance."""
    by_name = {p.kernel: p for p in solution.placements}
    words, found = instance.fabric.memory_words, []
    for kernel in instance.kernels:
        if (p := by_name.get(kernel.name)) is not None:
            found.append(Placed(kernel, p, convolutions(kernel), box(p), chosen(kernel, p, words)))
    return found


def c0_domain(instance: WaferInstance, solution: WaferSolution) -> Iterator[Finding]:
    """One placement for every kernel but inputs and outputs, with arguments from 1 to :data:`LARGEST`."""
    yield from _kernels(instance, solution)
    yield from _arguments(instance, solution)


def _kernels(instance: WaferInstance, solution: WaferSolution) -> Iterator[Finding]:
    wanted = {kernel.name: kernel for kernel in instance.kernels}
    times: dict[str, int] = {}
    for p in solution.placements:
        times[p.kernel] = times.get(p.kernel, 0) + 1
    for name, count in times.items():
        if name not in wanted or not takes_room(wanted[name]):
            what = f"an {wanted[name].kind}, which is not placed" if name in wanted else "not in the kernel graph"
            yield repr(name), count, "placements", f"kernel {name!r} is {what}"
        elif count > 1:
            yield repr(name), count - 1, "placements", f"kernel {name!r} has {count} placements"
    for name, kernel in wanted.items():
        if takes_room(kernel) and name not in times:
            yield repr(name), 1, "placements", f"kernel {name!r} has no placement"


def _arguments(instance: WaferInstance, solution: WaferSolution) -> Iterator[Finding]:
    counts = {kernel.name: len(convolutions(kernel)) for kernel in instance.kernels}
    tables = {kernel.name: kernel for kernel in instance.kernels if kernel.choices}
    for p in solution.placements:
        if p.kernel in tables and chosen(tables[p.kernel], p, 0) is None:
            message = f"kernel {p.kernel!r} has no choice of width {p.w} and height {p.h}"
            yield repr(p.kernel), 1, "arguments", message
        count = counts.get(p.kernel, len(p.c))
        for name, values in (("c", p.c), ("k", p.k)):
            if len(values) != count:
                message = f"kernel {p.kernel!r} has {len(values)} values {name} for {count} convolutions"
                yield repr(p.kernel), abs(len(values) - count), "arguments", message
        for name, values in (("h", (p.h,)), ("w", (p.w,)), ("c", p.c), ("k", p.k)):
            for value in values:
                if not 1 <= value <= LARGEST:
                    given = shortened(str(value), 20)
                    message = f"argument {name} of kernel {p.kernel!r} is {given}; it must be 1 to {LARGEST}"
                    yield repr(p.kernel), 1, "arguments", message
        if max(abs(p.x), abs(p.y)) > LARGEST:
            yield repr(p.kernel), 1, "arguments", f"kernel {p.kernel!r} is beyond any fabric"


def c1_inside(instance: WaferInstance, placed: list[Placed]) -> Iterator[Finding]:
    """Every kernel lies within the fabric."""
    fabric = instance.fabric
    for p in placed:
        b, name = p.box, p.kernel.name
        sticks = max(-b.x, -b.y, b.x + b.width - fabric.width, b.y + b.height - fabric.height)
        if sticks > 0:
            message = (
                f"kernel {name!r} covers columns {b.x} to {b.x + b.width - 1} and rows {b.y} to {b.y + b.height - 1} "
                f"({b.width} x {b.height} tiles); the fabric has {fabric.width} x {fabric.height}"
            )
            yield repr(name), sticks, "tiles", message


def c2_no_overlap(placed: list[Placed]) -> Iterator[Finding]:
    """No tile belongs to two kernels (the first :data:`LISTED` pairs that share some)."""
    for a, b in islice(overlapping(placed), LISTED):
        width = min(a.box.x + a.box.width, b.box.x + b.box.width) - max(a.box.x, b.box.x)
        height = min(a.box.y + a.box.height, b.box.y + b.box.height) - max(a.box.y, b.box.y)
        names = f"{a.kernel.name!r} and {b.kernel.name!r}"
        yield names, width * height, "tiles", f"kernels {names} share {width} x {height} tiles"


def overlapping(placed: list[Placed]) -> Iterator[tuple[Placed, Placed]]:
    """Every pair of overlapping kernels once: a sweep from left to right over those that reach the present column.

    They are kept by their lower edge, so that the search for a new one ends at its upper edge.
    """
    order = sorted(range(len(placed)), key=lambda i: (placed[i].box.x, i))
    active: list[tuple[int, int, int]] = []  # (lower edge, upper edge, position)
    ends = sorted((placed[i].box.x + placed[i].box.width, i) for i in order)
    leaving = 0
    for i in order:
        b = placed[i].box
        while leaving < len(ends) and ends[leaving][0] <= b.x:
            gone = placed[ends[leaving][1]].box
            entry = (gone.y, gone.y + gone.height, ends[leaving][1])
            if entry in active:
                active.remove(entry)
            leaving += 1
        for low, high, j in active:
            if low >= b.y + b.height:
                break
            if high > b.y:
                yield placed[j], placed[i]
        insort(active, (b.y, b.y + b.height, i))


def c3_memory(instance: WaferInstance, placed: list[Placed]) -> Iterator[Finding]:
    """No convolution needs more words per tile than a tile has."""
    limit = instance.fabric.memory_words
    for p in placed:
        if p.choice is not None and p.choice.memory_words > limit:
            message = f"kernel {p.kernel.name!r} needs {p.choice.memory_words} words per tile; a tile has {limit}"
            yield repr(p.kernel.name), float(p.choice.memory_words - limit), "words", message
        for number, (conv, c, k) in enumerate(zip(p.convs, p.placement.c, p.placement.k, strict=True), start=1):
            words = conv.words(p.placement.h, p.placement.w, c, k)
            if words > limit:
                which = f"convolution {number} of kernel" if len(p.convs) > 1 else "kernel"
                message = (
                    f"{which} {p.kernel.name!r} needs {float(words):.1f} words per tile with h = {p.placement.h}, "
                    f"w = {p.placement.w}, c = {c}, k = {k}; a tile has {limit}"
                )
                yield repr(p.kernel.name), float(words - limit), "words", message


def c4_pins(instance: WaferInstance, placed: list[Placed]) -> Iterator[Finding]:
    """Pinned kernels in their places, none on tiles forbidden to it, those together side by side, those apart not."""
    boxes = {p.kernel.name: p.box for p in placed}
    for pin in instance.pins:
        b, wanted = boxes[pin.kernel], (pin.x, pin.y, pin.width, pin.height)
        off = sum(
            abs(is_ - to) for is_, to in zip((b.x, b.y, b.width, b.height), wanted, strict=True) if to is not None
        )
        if off:
            at = f"kernel {pin.kernel!r} is at ({b.x}, {b.y}) with {b.width} x {b.height} tiles"
            more = "".join(f", {name} {to}" for name, to in (("width", pin.width), ("height", pin.height)) if to)
            yield repr(pin.kernel), off, "tiles", f"{at}, its pin says ({pin.x}, {pin.y}){more}"
    for one in instance.forbidden:
        b = boxes[one.kernel]
        for r in one.rectangles:
            across = min(b.x + b.width, r.x + r.width) - max(b.x, r.x)
            up = min(b.y + b.height, r.y + r.height) - max(b.y, r.y)
            if across > 0 and up > 0:
                what = f"kernel {one.kernel!r} covers {across} x {up} tiles that are forbidden to it"
                yield repr(one.kernel), across * up, "tiles", what
    for group in instance.together:
        for i, name in enumerate(group[1:], start=1):
            if not any(border(boxes[name], boxes[other]) for other in group[:i]):
                names = ", ".join(map(repr, group[:i]))
                yield (
                    repr(name),
                    1,
                    "kernels",
                    f"kernel {name!r} shares no border with {names}: they are to be together",
                )
    for group in instance.apart:
        for i, name in enumerate(group):
            for other in group[:i]:
                if length := border(boxes[name], boxes[other]):
                    what = f"kernels {other!r} and {name!r} share a border of {length} tiles: they are to be apart"
                    yield repr(name), length, "tiles", what


def c5_kept_out(instance: WaferInstance, placed: list[Placed]) -> Iterator[Finding]:
    """No kernel on a tile of a keep-out area, nor on a defective one (a tile named twice counts twice)."""
    fabric = instance.fabric
    rows: dict[int, list[int]] = {}
    for x, y in sorted(fabric.defects):
        rows.setdefault(x, []).append(y)
    for p in placed:
        b, tiles = p.box, 0
        for r in fabric.keep_out:
            across = min(b.x + b.width, r.x + r.width) - max(b.x, r.x)
            up = min(b.y + b.height, r.y + r.height) - max(b.y, r.y)
            tiles += max(0, across) * max(0, up)
        broken = (rows[x] for x in range(b.x, b.x + b.width) if x in rows)
        faults = sum(bisect_left(column, b.y + b.height) - bisect_left(column, b.y) for column in broken)
        if tiles + faults:
            what = f"kernel {p.kernel.name!r} covers {tiles} tiles of keep-out areas and {faults} defective tiles"
            yield repr(p.kernel.name), tiles + faults, "tiles", what


def c6_sides(instance: WaferInstance, placed: list[Placed]) -> Iterator[Finding]:
    """Every kernel with an edge to or from an input or output that is to be touched borders on its side."""
    sides = {one.kernel: one.side for one in instance.sides if one.touch}
    wanted = {(v, sides[u]) for edge in instance.edges for u, v in (edge, edge[::-1]) if u in sides}
    for p in placed:
        for side in sorted(side for name, side in wanted if name == p.kernel.name):
            away = gaps(instance, p.box)[side]
            if away:
                what = f"kernel {p.kernel.name!r} is {away} tiles from the {side} side, on which it is to border"
                yield repr(p.kernel.name), abs(away), "tiles", what


def gaps(instance: WaferInstance, b: Box) -> dict[str, int]:
    """The tiles between a box and each side of the fabric."""
    fabric = instance.fabric
    across, up = fabric.width - b.x - b.width, fabric.height - b.y - b.height
    return {"left": b.x, "right": across, "bottom": b.y, "top": up}


def c7_crossing(instance: WaferInstance, placed: list[Placed]) -> Iterator[Finding]:
    """No more traffic over a line than its limit. A wire crosses it if one end lies before it and the other not."""
    wires = _wires(instance, placed)
    for line in instance.crossing:
        axis = 0 if line.axis == "x" else 1
        crossed = sum(amount for amount, ends in wires if len({end[axis] >= 2 * line.at for end in ends}) > 1)
        if crossed > line.most:
            what = f"wires with traffic {crossed} cross the line {line.axis} = {line.at}; at most {line.most} may"
            yield f"{line.axis} = {line.at}", crossed - line.most, "traffic", what


def border(a: Box, b: Box) -> int:
    """The length of the border that two boxes share, in tiles (of boxes that overlap: 0, as C2 tells)."""
    across = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
    up = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
    if across == 0:
        return max(0, up)
    return max(0, across) if up == 0 else 0


def ticks(p: Placed) -> int:
    """Quarters of a step that a kernel takes: its slowest convolution, or the choice of its table."""
    if p.choice is not None:
        return -(-TICKS * p.choice.time * p.kernel.time_permille // 1000)
    values = zip(p.convs, p.placement.c, p.placement.k, strict=True)
    return max(conv.ticks(p.placement.h, p.placement.w, c, k) for conv, c, k in values)


def t1_time(instance: WaferInstance, placed: list[Placed]) -> int:
    """The slowest kernel's time in quarters of a step, times its weight."""
    return instance.weights.time * max(ticks(p) for p in placed)


def t2_wire(instance: WaferInstance, placed: list[Placed]) -> int:
    """The wires' half tiles in quarters, times their weight."""
    return TICKS // 2 * instance.weights.wire * _half_tiles(instance, placed)


def t3_adapters(instance: WaferInstance, placed: list[Placed]) -> int:
    """The number of adapters in quarters, times its weight."""
    return TICKS * instance.weights.adapter * _adapters(instance, placed)


def _half_tiles(instance: WaferInstance, placed: list[Placed]) -> int:
    """The sum over all wires of the distance of their ends, |Δx| + |Δy|, in half tiles, times their traffic."""
    wires = _wires(instance, placed)
    return sum(amount * (abs(a[0] - b[0]) + abs(a[1] - b[1])) for amount, (a, b) in wires)


#: An end of a wire, twice its coordinates.
End = tuple[int, int]


def _wires(instance: WaferInstance, placed: list[Placed]) -> list[tuple[int, tuple[End, End]]]:
    """Traffic and both ends of every wire: from centre to centre, or straight from a centre to a side."""
    centre = {p.kernel.name: p.box.centre2 for p in placed}
    sides, fabric = {one.kernel: one.side for one in instance.sides}, instance.fabric
    found = []
    for i, (u, v) in enumerate(instance.edges):
        amount = instance.traffic[i] if instance.traffic else 1
        if u in centre and v in centre:
            found.append((amount, (centre[u], centre[v])))
        for one, other in ((u, v), (v, u)):
            if one in sides and other in centre:
                x, y = centre[other]
                at = {"left": (0, y), "right": (2 * fabric.width, y), "bottom": (x, 0), "top": (x, 2 * fabric.height)}
                found.append((amount, ((x, y), at[sides[one]])))
    return found


def _adapters(instance: WaferInstance, placed: list[Placed]) -> int:
    """Over all edges, one for h, for w, and for the producer's c against the consumer's first, where they differ;
    none at kernels with a table."""
    of = {p.kernel.name: p.placement for p in placed if p.choice is None}
    count = 0
    for u, v in instance.edges:
        if u in of and v in of:
            a, b = of[u], of[v]
            made = a.c[-1] if instance.protocol == "c_n" else min(a.c[-1], a.k[-1])
            count += (a.h != b.h) + (a.w != b.w) + (made != b.c[0])
    return count


def _figures(instance: WaferInstance, placed: list[Placed]) -> dict[str, float]:
    """The terms without their weights; the share of the fabric that is covered, the least share of its time for which
    a kernel is at work, and the most words of a tile."""
    tiles = sum(p.box.width * p.box.height for p in placed)
    slowest = max(ticks(p) for p in placed)
    words = [float(p.choice.memory_words) for p in placed if p.choice is not None]
    words += [
        float(conv.words(p.placement.h, p.placement.w, c, k))
        for p in placed
        for conv, c, k in zip(p.convs, p.placement.c, p.placement.k, strict=True)
    ]
    return {
        "max_time": slowest / TICKS,
        "wire_length": _half_tiles(instance, placed) / 2,
        "adapters": float(_adapters(instance, placed)),
        "fill": tiles / (instance.fabric.width * instance.fabric.height),
        "least_busy": min(ticks(p) for p in placed) / slowest if slowest else 1.0,
        "max_words": max(words),
    }
