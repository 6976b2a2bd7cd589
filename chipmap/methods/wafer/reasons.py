"""Why a wafer instance has no floorplan though each of its kernels fits on the fabric by itself."""

from __future__ import annotations

from chipmap.heuristics.wafer.bounds.single_kernel import no_joint_floorplan
from chipmap.instances.wafer.instance import pinned
from chipmap.instances.wafer.problem import WaferProblem
from chipmap.methods.clashes import clashing, labels_of
from chipmap.result import Infeasibility
from chipmap.run import Run

#: Fabrics with both sides up to this many tiles have a model with every sizing.
SMALL_SIDE = 40


def no_floorplan(problem: WaferProblem, run: Run) -> Infeasibility:
    """The reason after a proof: without C2 there would be floorplans, as each kernel fits alone.

    Whether the memory (C3) takes part is asked of CP-SAT on small fabrics; on others all three labels are named.
    """
    from chipmap.formulations.wafer.cpsat import build

    names: tuple[str, ...] = ()
    if max(problem.width, problem.height) <= SMALL_SIDE:
        names = clashing(run, lambda: build(problem.instance, {"labels": "assume"}))
    known = ("C1", "C2", "C3", "C4") if pinned(problem.instance) else ("C1", "C2", "C3")
    labels = labels_of(names) or known
    if "C4" not in labels:
        return no_joint_floorplan(problem, labels)
    message = f"no floorplan of the {problem.n} kernels keeps to pins, forbidden tiles and groups"
    remedy = "Leave out one of them, or enlarge the fabric (fabric.width, fabric.height)."
    return Infeasibility.of("C4", "places", (1.0, 0.0, "floorplans"), message, remedy, labels=labels)
