"""Reader and writer of ``.paint``, the floorplans of the ISPD 2020 contest.

For each kernel its arguments (formal ones first, in the order H W C K R S T U or H W F), then its place::

    k1 = conv( 56 56 64 64 3 3 1 1 h w c k )
    k2 = dblock( 28 28 512 h w c1 c2 c3 k1 k2 k3 )
    k1 : place(x y R0)
"""

from __future__ import annotations

import re
from typing import Any

from chipmap.instances.wafer.instance import CONVOLUTIONS, FORMAL, Kernel, Placement, WaferInstance, WaferSolution
from chipmap.instances.wafer.text import Line, decoded, fault
from chipmap.records import InputError

_NAME = re.compile(r"[^\s=:()]+")
_SIGN = re.compile(r"\s*([=:])\s*")
_CALL = re.compile(r"(\w+)\s*\(\s*", re.ASCII)
_NUMBER = re.compile(r"(-?\d+)(?=[\s,)]|$)[\s,]*", re.ASCII)
_TURN = re.compile(r"[Rr](0|90)(?=[\s)])\s*")
_CLOSE = re.compile(r"\)\s*;?")
_LINES = "A line reads: k1 = conv( H W C K R S T U h w c k ), or k1 : place(x y R0)."
_CUT = "Take the whole file: it seems to be cut off."


def read_paint(data: bytes, where: str, instance: WaferInstance) -> WaferSolution:
    """The floorplan of ``instance`` in ``data``. What it says is for the checker to judge.

    Raises :class:`InputError` with line and column for what is no floorplan of ``instance``: unknown kernels, formal
    arguments that are not the kernel's, arguments without a place and places without arguments.
    """
    kernels = {kernel.name: kernel for kernel in instance.kernels}
    given: dict[str, tuple[int, dict[str, Any]]] = {}
    placed: dict[str, tuple[int, dict[str, Any]]] = {}
    lines = decoded(data, where, "A .paint is a text file.").split("\n")
    for number, content in enumerate(lines, start=1):
        line = Line(content, number, where)
        if line.done:
            continue
        name = line.take(_NAME, "the name of a kernel", _LINES)
        kernel = _known(line, name, kernels, instance)
        sign = line.take(_SIGN, "= or :", _LINES)
        found, values = (given, _arguments(line, kernel)) if sign[1] == "=" else (placed, _place(line))
        if name[0] in found:
            first = found[name[0]][0]
            raise line.fault(f"{name[0]!r} has a line of this kind already: {first}", "Keep one.", name.start())
        found[name[0]] = number, values
    for one, other, lack in ((given, placed, "no place"), (placed, given, "a place, but no arguments")):
        for kernel_name, (number, _) in one.items():
            if kernel_name not in other:
                raise fault(where, number, 1, f"kernel {kernel_name!r} has {lack}", _CUT)
    if not given:
        raise fault(where, len(lines), 1, "there is no kernel in it", f"{_LINES} {_CUT}")
    placements = [Placement(kernel=name, **values, **placed[name][1]) for name, (_, values) in given.items()]
    return WaferSolution.make(instance=instance.name, placements=placements)


def _known(line: Line, name: re.Match[str], kernels: dict[str, Kernel], instance: WaferInstance) -> Kernel:
    kernel = kernels.get(name[0])
    if kernel is None:
        what = f"no kernel of {instance.name!r} is called {name[0][:30]!r}"
        raise line.fault(what, "Give the instance that this floorplan is of.", name.start())
    if not kernel.placed:
        raise line.fault(f"{name[0]!r} is an {kernel.kind}", "Inputs and outputs are not placed.", name.start())
    return kernel


def _arguments(line: Line, kernel: Kernel) -> dict[str, Any]:
    """The execution arguments; the formal ones must be the kernel's."""
    formal, count = FORMAL[kernel.kind], CONVOLUTIONS[kernel.kind]
    many = [""] if count == 1 else [str(i + 1) for i in range(count)]
    names = [*formal, "h", "w", *(f"c{i}" for i in many), *(f"k{i}" for i in many)]
    remedy = f"The line reads: {kernel.name} = {kernel.kind}( {' '.join(names)} )."
    call = line.take(_CALL, f"{kernel.kind}(", remedy)
    if call[1].lower() != kernel.kind:
        raise line.fault(f"{kernel.name!r} is a {kernel.kind}, not a {call[1][:20]}", remedy, call.start())
    values = []
    for name in names:
        found = line.take(_NUMBER, f"the number {name}", remedy)
        values.append(line.number_in(found, 1, remedy))
        if name in formal and values[-1] != kernel.arguments[name]:
            what = f"{name} of {kernel.name!r} is {kernel.arguments[name]}, not {values[-1]}"
            raise line.fault(what, "Give the instance that this floorplan is of.", found.start(1))
    _finish(line, f"the closing bracket after {len(names)} numbers", remedy)
    h, w, *rest = values[len(formal) :]
    return {"h": h, "w": w, "c": tuple(rest[:count]), "k": tuple(rest[count:])}


def _place(line: Line) -> dict[str, Any]:
    remedy = "The line reads: k1 : place(x y R0), or R90."
    call = line.take(_CALL, "place(", remedy)
    if call[1].lower() != "place":
        raise line.fault(f"place( is expected, but found {call[1][:20]!r}", remedy, call.start())
    x, y = (line.number_in(line.take(_NUMBER, f"the number {name}", remedy), 1, remedy) for name in ("x", "y"))
    turn = line.take(_TURN, "R0 or R90", remedy)
    _finish(line, "the closing bracket", remedy)
    return {"x": x, "y": y, "rotated": turn[1] == "90"}


def _finish(line: Line, what: str, remedy: str) -> None:
    line.take(_CLOSE, what, remedy)
    if not line.done:
        raise line.fault(f"the end of the line is expected, but found {line.text[line.at :][:30]!r}", remedy)


def write_paint(instance: WaferInstance, solution: WaferSolution) -> bytes:
    """``solution`` as a ``.paint``: the arguments of all its kernels, then their places.

    Raises :class:`InputError` for names that the format can't hold, and for placements of no kernel of ``instance``.
    """
    kernels = {kernel.name: kernel for kernel in instance.kernels if kernel.placed}
    arguments, places = [], []
    for i, p in enumerate(solution.placements):
        kernel = kernels.get(p.kernel)
        if kernel is None:
            raise InputError(f"no kernel is called {p.kernel!r}", f"placements[{i}]", "Use a name from kernels.")
        if not _NAME.fullmatch(p.kernel):
            remedy = "Give names without spaces, brackets, = and :."
            raise InputError(f"the name {p.kernel!r} can't stand in a .paint", f"placements[{i}]", remedy)
        formal = [kernel.arguments[name] for name in FORMAL[kernel.kind]]
        numbers = " ".join(map(str, [*formal, p.h, p.w, *p.c, *p.k]))
        arguments.append(f"{p.kernel} = {kernel.kind}( {numbers} )")
        places.append(f"{p.kernel} : place({p.x} {p.y} {'R90' if p.rotated else 'R0'})")
    return "".join(f"{line}\n" for line in [*arguments, *places]).encode()
