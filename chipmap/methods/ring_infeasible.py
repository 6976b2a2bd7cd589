"""Why a ring instance has no mapping, in chips and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chipmap.result import Infeasibility

if TYPE_CHECKING:
    from chipmap.heuristics.ring.ideals import IdealFamily
    from chipmap.heuristics.ring.program import Programs
    from chipmap.instances.ring.contraction import Contraction


def explain(contraction: Contraction, programs: Programs, ideals: IdealFamily) -> list[Infeasibility]:
    """The reasons why no chain of ideals exists: pins that leave an operation no chip, or memory.

    The programs over all ideals have proved the infeasibility; here only its words are found.
    """
    from chipmap.heuristics.ring.program import Programs

    problem = programs.problem
    operations = contraction.instance.graph.operations
    reasons = [
        Infeasibility(
            label="C0",
            resource=f"chips for {operations[v].name}",
            demand=1,
            limit=0,
            unit="chips",
            message=f"pins, forbidden chips and keep-together groups leave no chip for {operations[v].name}",
            remedies=("remove one of the pins or groups that name it",),
        )
        for v, chips in enumerate(problem.allowed)
        if chips is not None and not chips
    ]
    if reasons or not problem.has("C4"):
        return reasons or [_pins()]
    without = contraction.instance.replace(constraints=[c for c in problem.instance.constraints if c != "C4"])
    from chipmap.instances.ring.costs import ring_problem

    if Programs(ring_problem(without)).solve("n1", ideals).value is None:
        return [_pins()]
    return [_memory(contraction, programs, ideals)]


def _pins() -> Infeasibility:
    return Infeasibility(
        label="C0",
        resource="chips",
        demand=1,
        limit=0,
        unit="mappings",
        message="pins, forbidden chips and keep-together groups contradict the order of the operations (C1 to C3)",
        remedies=("relax pins until `chipmap solve` finds a mapping",),
    )


def _memory(contraction: Contraction, programs: Programs, ideals: IdealFamily) -> Infeasibility:
    """The least SRAM with which the program n1 finds a chain: fewer bytes can't do."""
    from chipmap.heuristics.ring.program import Programs
    from chipmap.instances.ring.costs import ring_problem

    problem = programs.problem
    instance = contraction.instance
    weights = int(problem.weight_bytes.sum())

    def fits(sram: int) -> bool:
        package = instance.package.replace(sram_bytes=sram)
        return Programs(ring_problem(instance.replace(package=package))).solve("n1", ideals).value is not None

    low = problem.sram_bytes
    high = weights + 2 * sum(storage.bytes for storage in problem.storages) + 1
    while high - low > max(1024, low // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    heaviest = int(problem.weight_bytes.argmax())
    chips = problem.chips
    return Infeasibility(
        label="C4",
        resource=f"SRAM of each of {chips} chips",
        demand=low + 1,
        limit=problem.sram_bytes,
        unit="bytes",
        message=(
            f"no mapping on {chips} chips fits {problem.sram_bytes:,} bytes of SRAM: the weights are {weights:,} bytes "
            f"in all ({-(-weights // chips):,} per chip), the largest operation "
            f"({instance.graph.operations[heaviest].name}) holds {int(problem.weight_bytes[heaviest]):,}, and with "
            f"double-buffered boundary tensors some chip needs more than {low:,} bytes"
        ),
        remedies=(
            f"give at least {high:,} bytes: --set package.sram_bytes={high}",
            "more chips, if no single operation is too large: --set package.chips=N",
            "split the largest operation, or use fewer bytes per word",
        ),
    )
