"""What each run computes of parameters alone: operators that read no input, and yet are not known beforehand.

PyTorch computes whatever reads a parameter each time, since training changes it: a look-up of fixed rows in a table of
positions, the interpolation of one, the quotient by a weight's norm. Beforehand is only what buffers and shapes give.

Compilers of ONNX models fold all of this; only look-ups are left as they are, so that a table stays the parameter that
it is. The networks of the generators are folded whole, as the published graphs that they follow are.
"""

from __future__ import annotations

from chipmap.networks.importers.steps import Program, Step


def recomputed(program: Program) -> set[str]:
    """The values that steps of ``program`` make of parameters alone and in each run (:attr:`Program.recomputes`)."""
    found: set[str] = set()
    if program.recomputes == "nothing":
        return found
    moving = set(program.inputs)
    trained = set(program.parameters) - program.buffers  # parameters, and views of them
    for step in program.steps:
        if step.fixed:
            continue
        if any(name in moving for name in step.reads):
            moving.update(step.makes)
        elif step.view or is_dequantised(step):
            trained.update(step.makes if step.reads and step.reads[0] in trained else ())
        elif any(name in trained for name in step.reads) and (program.recomputes == "all" or _looks_up(step, program)):
            found.update(step.makes)
            moving.update(step.makes)
    return found


def is_dequantised(step: Step) -> bool:
    """Whether a step makes the numbers that quantised ones stand for (``DequantizeLinear``)."""
    return step.kind.rpartition(".")[2].lower().startswith("dequantize")


def _looks_up(step: Step, program: Program) -> bool:
    """Whether it fetches rows of a table with rows and columns; lists of sizes and axes have none."""
    table = program.values.get(step.reads[0])
    return step.moved is not None and table is not None and len(table.shape) > 1 and len(step.reads) > 1
