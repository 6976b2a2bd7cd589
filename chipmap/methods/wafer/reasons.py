"""Why a wafer instance has no floorplan though each of its kernels fits on the fabric by itself."""

from __future__ import annotations

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds.single_kernel import no_joint_floorplan
from chipmap.instances.wafer.instance import in_force
from chipmap.instances.wafer.pinned import fastest_in
from chipmap.instances.wafer.problem import WaferProblem
from chipmap.methods.clashes import clashing, labels_of
from chipmap.result import Infeasibility
from chipmap.run import Run

#: Fabrics with both sides up to this many tiles have a model with every sizing.
SMALL_SIDE = 40
#: More words than a kernel needs on a tile; products with numbers of tiles stay within 64 bits.
ANY_MEMORY = 2**40


def no_floorplan(problem: WaferProblem, run: Run) -> Infeasibility:
    """The reason after a proof: without C2 there would be floorplans, as each kernel fits alone.

    Whether the memory (C3) takes part is asked of CP-SAT on small fabrics; on others all three labels are named.
    """
    from chipmap.formulations.wafer.cpsat import build

    names: tuple[str, ...] = ()
    if max(problem.width, problem.height) <= SMALL_SIDE:
        names = clashing(run, lambda: build(problem.instance, {"labels": "assume"}))
    known = ("C1", "C2", "C3", *(label for label in ("C4", "C5", "C6", "C7") if label in in_force(problem.instance)))
    labels = labels_of(names) or known
    if "C4" not in labels and ("C6" in labels or "C7" in labels):
        return _no_room_for_wires(problem, labels)
    if "C4" not in labels and "C5" in labels:
        return _no_room_between(problem, labels)
    if "C4" not in labels:
        return no_joint_floorplan(problem, labels)
    message = f"no floorplan of the {problem.n} kernels keeps to pins, forbidden tiles and groups"
    remedy = "Leave out one of them, or enlarge the fabric (fabric.width, fabric.height)."
    return Infeasibility.of("C4", "places", (1.0, 0.0, "floorplans"), message, remedy, labels=labels)


def _no_room_for_wires(problem: WaferProblem, labels: tuple[str, ...]) -> Infeasibility:
    label = "C7" if "C7" in labels else "C6"
    asked = "the limits on lines (crossing)" if label == "C7" else "the sides on which kernels are to border (sides)"
    message = f"no floorplan of the {problem.n} kernels keeps to {asked}"
    remedy = "Raise or leave out some of crossing." if label == "C7" else "Leave out touch of some of sides."
    return Infeasibility.of(label, "places", (1.0, 0.0, "floorplans"), message, remedy, labels=labels)


def _no_room_between(problem: WaferProblem, labels: tuple[str, ...]) -> Infeasibility:
    tiles = problem.width * problem.height - problem.free_tiles
    message = f"no floorplan of the {problem.n} kernels keeps off the {tiles} tiles of keep-out areas and defects"
    remedy = "Leave out some of fabric.keep_out and fabric.defects, or enlarge the fabric."
    return Infeasibility.of("C5", "fabric", (1.0, 0.0, "floorplans"), message, remedy, labels=labels)


def impossible_pins(problem: WaferProblem, deadline: Deadline) -> list[Infeasibility]:
    """The pins whose box no execution arguments give their kernel (C0), or none within the memory of a tile (C3)."""
    found, number = list[Infeasibility](), {name: v for v, name in enumerate(problem.names)}
    for i, pin in enumerate(problem.instance.pins):
        if pin.width is None or pin.height is None:
            continue
        deadline.check()
        v = number[pin.kernel]
        if fastest_in(problem, v, pin.width, pin.height) is None:
            roomy = fastest_in(problem, v, pin.width, pin.height, memory=ANY_MEMORY)
            labels, why = (("C0", "C4"), "") if roomy is None else (("C3", "C4"), " within the memory of a tile")
            message = (
                f"pins[{i}]: no execution arguments give {pin.kernel!r} a box of {pin.width} x {pin.height} tiles{why}"
            )
            remedy = "Leave out width or height of the pin, or take the box of a floorplan that chipmap has found."
            found.append(Infeasibility.of("C4", pin.kernel, (1.0, 0.0, "boxes"), message, remedy, labels=labels))
    return found
