"""The records of family ``wafer``: what is placed (WaferInstance) and a floorplan (WaferSolution).

The problem is stated in ``docs/families/wafer.md``.
"""

from __future__ import annotations

from itertools import combinations
from typing import ClassVar, Literal

from chipmap.instances.wafer.fabric import MAX_NUMBER, Fabric, Rectangle
from chipmap.instances.wafer.wires import Crossing, Side, check_crossing, check_sides, check_traffic
from chipmap.records import InputError, Record, choices

KernelKind = Literal["conv", "dblock", "cblock", "table", "input", "output"]
Protocol = Literal["c_n", "min_c_k"]

#: The formal arguments of each kind, in the order in which a floorplan file writes them. ``U`` is not used.
FORMAL: dict[str, tuple[str, ...]] = {
    "conv": ("H", "W", "C", "K", "R", "S", "T", "U"),
    "dblock": ("H", "W", "F"),
    "cblock": ("H", "W", "F"),
    "table": (),
    "input": (),
    "output": (),
}
#: How many convolutions a kernel of each kind runs: so many ``c`` and ``k`` has its placement.
CONVOLUTIONS: dict[str, int] = {"conv": 1, "dblock": 3, "cblock": 4, "table": 0}
#: Largest formal argument and weight, and largest product H·W·C·K·R·S: beyond them 64-bit counts overflow.
MAX_ARGUMENT = MAX_NUMBER
MAX_MULTIPLICATIONS = 10**14
#: The same of a kernel whose time is scaled, and the largest scale in thousandths.
MAX_SCALED, MAX_PERMILLE = 10**12, 100_000
#: Largest number of a choice.
MAX_TABLED = 10**9


class Weights(Record, frozen=True, kw_only=True):
    """The objective's weights of the slowest kernel's time, the wire length and the number of adapters."""

    time: int = 1
    wire: int = 1
    adapter: int = 0


class Choice(Record, frozen=True, kw_only=True):
    """A way to run a kernel of kind ``table``: a box of ``width`` × ``height`` tiles, its ``time`` in steps, and the
    ``memory_words`` that each of its tiles needs."""

    width: int
    height: int
    time: int
    memory_words: int = 0


class Kernel(Record, frozen=True, kw_only=True):
    """A node of the kernel graph: its kind and its formal arguments (page, "The problem").

    ``arguments`` holds H, W, C, K, R, S, T, U of a ``conv`` and H, W, F of a ``dblock`` or ``cblock``; ``choices`` the
    ways to run a ``table``; ``shape`` the tensor of an ``input`` or ``output``, which is not placed. The kernel takes
    ``time_permille`` thousandths of the time that formulas or choices say (page, "Measured times").
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("choices", "time_permille")

    name: str
    kind: KernelKind
    arguments: dict[str, int] = {}
    shape: tuple[int, ...] = ()
    choices: tuple[Choice, ...] = ()
    time_permille: int = 1000

    @property
    def placed(self) -> bool:
        """Whether the kernel takes room on the fabric."""
        return self.kind in CONVOLUTIONS

    def check(self, where: str = "kernel") -> None:
        """Raise :class:`InputError` for missing, superfluous or impossible arguments."""
        formal, here = FORMAL[self.kind], f"{where}.arguments"
        for name in formal:
            if name not in self.arguments:
                what = f"{self.kind} {self.name!r} has no argument {name}"
                raise InputError(what, here, f"A {self.kind} needs {', '.join(formal)}.")
        for name, value in self.arguments.items():
            if name not in formal:
                known = f"Its arguments are {', '.join(formal)}." if formal else "It has none."
                raise InputError(f"{self.kind} {self.name!r} has no use for {name}", here, known)
            if not 1 <= value <= MAX_ARGUMENT:
                raise InputError(
                    f"{name} of {self.name!r} is {value}", f"{here}.{name}", f"Give 1 to {MAX_ARGUMENT:,}."
                )
        self._check_choices(where)
        if not 1 <= self.time_permille <= MAX_PERMILLE or (self.time_permille != 1000 and not self.placed):
            what = f"time_permille of {self.kind} {self.name!r} is {self.time_permille:,}"
            remedy = f"Give 1 to {MAX_PERMILLE:,}, where 1,000 keeps the time; 1,000 to inputs and outputs."
            raise InputError(what, f"{where}.time_permille", remedy)
        a = self.arguments
        if a.get("F", 0) % 4:
            raise InputError(f"F of {self.name!r} is {a['F']}", f"{here}.F", "Blocks split F by 4: give a multiple.")
        if self.kind == "cblock" and (a["H"] % 2 or a["W"] % 2):
            what = f"H and W of {self.name!r} are {a['H']} and {a['W']}"
            raise InputError(what, here, "A cblock halves H and W: give even numbers.")
        size = 9 * a.get("H", 1) * a.get("W", 1) * a.get("F", 1) ** 2
        if self.kind == "conv":
            size = a["H"] * a["W"] * a["C"] * a["K"] * a["R"] * a["S"]
        most = MAX_MULTIPLICATIONS if self.time_permille == 1000 else MAX_SCALED
        if size > most:
            what = f"{self.kind} {self.name!r} has about {size:.1e} multiplications"
            scaled = "" if self.time_permille == 1000 else " with time_permille"
            raise InputError(
                what, here, f"At most {most:.0e} are supported{scaled}: split the kernel, or make it smaller."
            )

    def _check_choices(self, where: str) -> None:
        if bool(self.choices) != (self.kind == "table"):
            what = f"{self.kind} {self.name!r} has {len(self.choices)} choices"
            raise InputError(what, f"{where}.choices", "Give choices to kernels of kind table, and to no others.")
        for i, one in enumerate(self.choices):
            for name, least in (("width", 1), ("height", 1), ("time", 0), ("memory_words", 0)):
                if not least <= (value := getattr(one, name)) <= MAX_TABLED:
                    remedy = f"Give {least} to {MAX_TABLED:,}."
                    raise InputError(f"{name} of {self.name!r} is {value}", f"{where}.choices[{i}].{name}", remedy)


class Pin(Record, frozen=True, kw_only=True):
    """Kernel ``kernel`` has its lower left corner on tile (``x``, ``y``). Its box has ``width`` × ``height`` tiles,
    where these are given."""

    kernel: str
    x: int
    y: int
    width: int | None = None
    height: int | None = None


class Forbidden(Record, frozen=True, kw_only=True):
    """Kernel ``kernel`` covers no tile of ``rectangles``."""

    kernel: str
    rectangles: tuple[Rectangle, ...]


class WaferInstance(Record, frozen=True, kw_only=True):
    """One problem: a kernel graph, a fabric and the weights of the score.

    ``edges`` names (producer, consumer); an edge given twice counts twice. ``protocol`` says which c of a producer an
    adapter compares: that of its last convolution (``c_n``) or the smaller of that and its k (``min_c_k``).

    C4: ``pins`` and ``forbidden`` tiles; of a group of ``together`` each kernel but the first shares a piece of border
    with an earlier one; no two kernels of a group of ``apart`` do.

    ``sides`` of inputs and outputs (C6, and wires in T2), ``traffic`` by edge (empty: 1 each), which weights wires, and
    limits on the traffic ``crossing`` lines (C7).
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        *("pins", "forbidden", "together", "apart"),
        *("sides", "traffic", "crossing"),
    )

    schema: Literal["wafer/1"] = "wafer/1"
    name: str
    kernels: tuple[Kernel, ...]
    edges: tuple[tuple[str, str], ...]
    fabric: Fabric = Fabric()
    weights: Weights = Weights()
    protocol: Protocol = "c_n"
    notes: str = ""
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    pins: tuple[Pin, ...] = ()
    forbidden: tuple[Forbidden, ...] = ()
    sides: tuple[Side, ...] = ()
    traffic: tuple[int, ...] = ()
    crossing: tuple[Crossing, ...] = ()

    def check(self) -> None:
        """Raise :class:`InputError` for anything that the types alone don't exclude."""
        self.fabric.check()
        for name in ("time", "wire", "adapter"):
            if not 0 <= (weight := getattr(self.weights, name)) <= MAX_ARGUMENT:
                raise InputError(f"is {weight}", f"weights.{name}", f"Give 0 to {MAX_ARGUMENT:,}.")
        names: dict[str, Kernel] = {}
        for i, kernel in enumerate(self.kernels):
            if kernel.name in names:
                raise InputError(f"{kernel.name!r} is named twice", f"kernels[{i}].name", "Give each kernel its name.")
            names[kernel.name] = kernel
            kernel.check(f"kernels[{i}]")
        if not any(kernel.placed for kernel in self.kernels):
            raise InputError(
                "there is no kernel to place", "kernels", "Give at least one conv, dblock, cblock or table."
            )
        for i, edge in enumerate(self.edges):
            for name in edge:
                if name not in names:
                    raise InputError(f"no kernel is called {name!r}", f"edges[{i}]", "Use a name from kernels.")
            if edge[0] == edge[1]:
                raise InputError(f"{edge[0]!r} feeds itself", f"edges[{i}]", "Leave the edge out.")
        if pinned(self):
            _check_pins(self, [kernel.name for kernel in self.kernels if kernel.placed])
        check_sides(self.sides, {kernel.name: kernel.placed for kernel in self.kernels})
        check_traffic(self.traffic, len(self.edges), self.weights.wire)
        check_crossing(self.crossing, self.fabric)


class Placement(Record, frozen=True, kw_only=True):
    """Execution arguments and place of one kernel.

    ``c`` and ``k`` have one entry per convolution. Of a kernel with a table they are empty, and ``h`` and ``w`` are the
    height and width of its choice. ``x`` and ``y`` are the lower left corner; ``rotated`` (R90) swaps
    width and height.
    """

    kernel: str
    h: int
    w: int
    c: tuple[int, ...]
    k: tuple[int, ...]
    x: int
    y: int
    rotated: bool = False


class WaferSolution(Record, frozen=True, kw_only=True):
    """A floorplan: one placement for every kernel but inputs and outputs, in any order."""

    schema: Literal["wafer-solution/1"] = "wafer-solution/1"
    instance: str = ""
    placements: tuple[Placement, ...]


def pinned(instance: WaferInstance) -> bool:
    """Whether C4 asks for anything."""
    return bool(instance.pins or instance.forbidden or instance.together or instance.apart)


def special(instance: WaferInstance) -> bool:
    """Whether there is something that rows, slicing trees and exchanges don't know: C4 to C7, traffic, tables."""
    return pinned(instance) or instance.fabric.has_holes or tabled(instance) or wired(instance)


def wired(instance: WaferInstance) -> bool:
    """Whether wires differ from the contest's: by sides, traffic or limits on lines."""
    return bool(instance.sides or instance.traffic or instance.crossing)


def lopsided(instance: WaferInstance) -> bool:
    """Whether a mirror image of a floorplan may be refused, or cost something else: where tiles or sides are named."""
    return bool(instance.pins or instance.forbidden or instance.fabric.has_holes or instance.sides or instance.crossing)


def scaled(instance: WaferInstance) -> bool:
    """Whether a kernel's time isn't that of its formula or table."""
    return any(kernel.time_permille != 1000 for kernel in instance.kernels)


def tabled(instance: WaferInstance) -> bool:
    """Whether a kernel has a table of choices."""
    return any(kernel.choices for kernel in instance.kernels)


def in_force(instance: WaferInstance) -> frozenset[str]:
    """The labels that matter: C4 only with pins, forbidden tiles or groups, C5 only with keep-out areas or defects, C6
    with sides that are to be touched, C7 with limits on lines."""
    asked = {
        "C4": pinned(instance),
        "C5": instance.fabric.has_holes,
        "C6": any(one.touch for one in instance.sides),
        "C7": instance.crossing,
    }
    return frozenset({"C0", "C1", "C2", "C3", "T1", "T2", "T3", *(label for label, some in asked.items() if some)})


def _check_pins(instance: WaferInstance, names: list[str]) -> None:
    """Raise :class:`InputError` for unknown names, tiles that there aren't, and what contradicts itself."""
    named = [(f"pins[{i}].kernel", pin.kernel) for i, pin in enumerate(instance.pins)]
    named += [(f"forbidden[{i}].kernel", one.kernel) for i, one in enumerate(instance.forbidden)]
    for field in ("together", "apart"):
        for i, group in enumerate(getattr(instance, field)):
            named += [(f"{field}[{i}][{j}]", name) for j, name in enumerate(group)]
            if len(group) < 2 or len(set(group)) < len(group):
                raise InputError("is no group of different kernels", f"{field}[{i}]", "Name two kernels or more.")
    known = set(names)
    for where, name in named:
        if name not in known:
            raise InputError(f"no kernel that is placed is called {name!r}", where, choices(name, names[:50]))
    fabric = instance.fabric
    for i, pin in enumerate(instance.pins):
        width, height = pin.width or 1, pin.height or 1
        if min(width, height) < 1 or not _inside(fabric, pin.x, pin.y, width, height):
            what = f"{pin.kernel!r} at ({pin.x}, {pin.y})" + (f", {width} x {height} tiles," if pin.width else "")
            where = f"The fabric has columns 0 to {fabric.width - 1} and rows 0 to {fabric.height - 1}."
            raise InputError(f"{what} isn't on the fabric", f"pins[{i}]", where)
    for i, one in enumerate(instance.forbidden):
        for j, r in enumerate(one.rectangles):
            r.check(f"forbidden[{i}].rectangles[{j}]")
    _check_contradictions(instance)


def _inside(fabric: Fabric, x: int, y: int, width: int, height: int) -> bool:
    return x >= 0 and y >= 0 and x + width <= fabric.width and y + height <= fabric.height


def _overlap(a: Pin | Rectangle, b: Pin | Rectangle) -> bool:
    """Whether two boxes share a tile; of a pin without sides the tile in its corner."""
    across = a.x < b.x + (b.width or 1) and b.x < a.x + (a.width or 1)
    return across and a.y < b.y + (b.height or 1) and b.y < a.y + (a.height or 1)


def _check_contradictions(instance: WaferInstance) -> None:
    first: dict[str, Pin] = {}
    for i, pin in enumerate(instance.pins):
        if (other := first.setdefault(pin.kernel, pin)) != pin:
            what = f"{pin.kernel!r} is pinned to ({other.x}, {other.y}) already"
            raise InputError(what, f"pins[{i}]", "Leave out one of the two pins.")
    for a, b in combinations(first.values(), 2):
        if _overlap(a, b):
            what = f"{a.kernel!r} and {b.kernel!r} are pinned to tiles that they share"
            raise InputError(what, f"pins[{instance.pins.index(b)}]", "Move one of the two pins.")
    for i, one in enumerate(instance.forbidden):
        if one.kernel in first and any(_overlap(first[one.kernel], rectangle) for rectangle in one.rectangles):
            pin = first[one.kernel]
            what = f"{one.kernel!r} is pinned to ({pin.x}, {pin.y}), which is forbidden to it"
            raise InputError(what, f"forbidden[{i}]", "Leave out the pin, or a rectangle.")
    for i, group in enumerate(instance.apart):
        for j, pair in enumerate(instance.together):
            if len(pair) == 2 and set(pair) <= set(group):
                what = f"{pair[0]!r} and {pair[1]!r} are to be together in together[{j}]"
                raise InputError(what, f"apart[{i}]", "Leave one of them out.")


def small(instance: WaferInstance) -> bool:
    """Whether its kernels run as plain Python: all of the work is less than compiling or loading them."""
    return len(instance.kernels) <= 3 and instance.fabric.width * instance.fabric.height <= 64
