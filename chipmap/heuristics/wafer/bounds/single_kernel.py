"""Each kernel by itself on the fabric: the least time it can run in, or why it can't be placed at all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.instances.wafer.problem import IntArray, WaferProblem, wafer_problem
from chipmap.instances.wafer.shapes import fewest_tiles, fitting
from chipmap.instances.wafer.special import without_holes
from chipmap.result import Infeasibility


class SingleKernel(NamedTuple):
    """A kernel by itself on the fabric: the least time in quarters, and the fewest tiles that it can do with."""

    time: int
    tiles: int


#: Words per tile that hold any kernel.
ANY_MEMORY = 2**31


def single_kernels(
    problem: WaferProblem, deadline: Deadline = Deadline()
) -> tuple[list[SingleKernel], list[Infeasibility]]:
    """For each type its :class:`SingleKernel`, by bisection over exact sizes; or the reasons why there is no floorplan.

    A type that fits in no time gets (0, 0) and a reason for its first kernel; so does the fabric where the fewest
    tiles of all kernels together are too many.
    """
    found, reasons = [], []
    for number, convs in enumerate(problem.type_arrays):
        deadline.check()
        high, low = problem.longest, 0
        least = fewest_tiles(problem, number, high, problem.memory)
        if least == 0:
            reasons.append(_unplaceable(problem, number, convs))
            found.append(SingleKernel(0, 0))
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fewest_tiles(problem, number, middle, problem.memory) else (middle, high)
        found.append(SingleKernel(high, least))
    total = sum(found[int(t)].tiles for t in problem.types)
    if not reasons and total > (room := problem.free_tiles):
        free = " that no area or defect takes" if problem.room else ""
        message = f"the {problem.n} kernels cover at least {total} tiles without overlap; the fabric has {room}{free}"
        each = [int(fewest_tiles(problem, t, problem.longest, ANY_MEMORY)) for t in range(len(found))]
        alone = sum(each[int(t)] for t in problem.types) > room  # C1 and C2 suffice, whatever the memory
        labels = (("C1", "C2") if alone else ("C1", "C2", "C3")) + _kept_out(problem)
        reasons.append(_no_room(total, room, "tiles", message, labels))
    return found, reasons


def _unplaceable(problem: WaferProblem, number: int, convs: IntArray) -> Infeasibility:
    """Why no execution of a kernel of that type fits: for its memory, or because even the smallest box is too large."""
    name = problem.names[int(np.flatnonzero(problem.types == number)[0])]
    fabric = f"{problem.width} x {problem.height}"
    if (table := problem.tables[number]) is not None:
        return _no_choice(problem, table, name) if problem.room is None else _none_between(problem, number, name)
    small, large = 2, 3 * len(convs)
    short, long = sorted((problem.width, problem.height))
    if small > short or large > long:
        lacking = (float(large), float(long)) if large > long else (float(small), float(short))
        message = f"kernel {name!r} covers at least {large} x {small} tiles; the fabric has {fabric}"
        remedy = "Enlarge the fabric (fabric.width, fabric.height)."
        return Infeasibility.of("C1", "fabric", (*lacking, "tiles"), message, remedy, labels=("C1",))
    if problem.room is not None and (reason := _no_free_rectangle(problem, number, name)) is not None:
        return reason
    words, arguments = _least_words(problem, convs)
    message = (
        f"kernel {name!r} needs at least {words:.1f} words per tile wherever it fits on the fabric of {fabric} "
        f"(h = {arguments[0]}, w = {arguments[1]}, c = {arguments[2]}); a tile has {problem.memory}"
    )
    remedies = "Enlarge the memory (fabric.memory_words) or the fabric.", f"Split kernel {name!r}."
    return Infeasibility.of(
        "C3", "memory", (words, float(problem.memory), "words"), message, *remedies, labels=("C1", "C3")
    )


def _kept_out(problem: WaferProblem) -> tuple[str, ...]:
    """C5, where it takes room."""
    return () if problem.room is None else ("C5",)


def _no_free_rectangle(problem: WaferProblem, number: int, name: str) -> Infeasibility | None:
    """The reason where a kernel would fit a fabric without keep-out areas and defects; None where it wouldn't."""
    bare = wafer_problem(without_holes(problem.instance))
    tiles = fewest_tiles(bare, number, problem.longest, problem.memory)
    if not tiles:
        return None
    roomy = fewest_tiles(problem, number, problem.longest, ANY_MEMORY)
    message = f"no box of kernel {name!r} has a place between keep-out areas and defects, though it needs {tiles} tiles"
    remedy = "Leave out some of fabric.keep_out and fabric.defects, or enlarge fabric.memory_words."
    labels = ("C1", "C3", "C5") if roomy else ("C1", "C5")
    return Infeasibility.of("C5", name, (1.0, 0.0, "boxes"), message, remedy, labels=labels)


def _none_between(problem: WaferProblem, number: int, name: str) -> Infeasibility:
    """The reason of a kernel with a table on a fabric with holes."""
    table = problem.tables[number]
    assert table is not None
    return _no_free_rectangle(problem, number, name) or _no_choice(problem, table, name)


def _no_choice(problem: WaferProblem, table: IntArray, name: str) -> Infeasibility:
    """The reason where none of a kernel's choices fits both fabric and memory."""
    sides = table[:, :2]
    inside = problem.fits(sides[:, 0], sides[:, 1]) | problem.fits(sides[:, 1], sides[:, 0])
    labels: tuple[str, ...] = ("C1", "C3") if inside.any() else ("C1",)
    if inside.all():
        labels = ("C3",)
    message = f"none of the {len(table)} choices of kernel {name!r} fits the fabric and the memory of a tile"
    remedy = "Give a choice that fits, or enlarge the fabric or the memory (fabric.memory_words)."
    return Infeasibility.of(labels[-1], name, (1.0, 0.0, "choices"), message, remedy, labels=labels)


def _least_words(problem: WaferProblem, convs: IntArray) -> tuple[float, tuple[int, int, int]]:
    """The least memory limit (by bisection) with which some execution fits the fabric, and its h, w, c."""

    def arguments(memory: int) -> tuple[int, int, int] | None:
        _, how, fits = fitting(problem, convs, problem.longest, memory)
        return None if not len(fits) else (int(how[fits[0]][0]), int(how[fits[0]][1]), int(how[fits[0]][2]))

    low, high = problem.memory, 2 * problem.memory
    while arguments(high) is None:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if arguments(middle) else (middle, high)
    return float(high), arguments(high) or (1, 1, 1)


def _no_room(demand: int, limit: int, unit: str, message: str, labels: tuple[str, ...]) -> Infeasibility:
    remedy = "Enlarge the fabric (fabric.width, fabric.height) or the memory (fabric.memory_words)."
    return Infeasibility.of("C2", "fabric", (float(demand), float(limit), unit), message, remedy, labels=labels)


def no_joint_floorplan(problem: WaferProblem, labels: tuple[str, ...]) -> Infeasibility:
    """The reason where every kernel fits by itself, yet no floorplan of all of them without overlap was left: these
    ``labels`` contradict each other, C2 among them."""
    fabric = f"{problem.width} x {problem.height}"
    message = f"the {problem.n} kernels fit on the fabric of {fabric} one by one, but not together without overlap"
    return _no_room(1, 0, "floorplans", message, labels)  # how many tiles would do isn't known


def least_score(problem: WaferProblem, found: list[SingleKernel]) -> int:
    """A lower bound on the score in ticks: the slowest kernel's least time, were it the only one."""
    return problem.score(max(one.time for one in found), 0, 0)
