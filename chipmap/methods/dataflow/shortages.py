"""How much DRAM (C6) the mappings of a dataflow instance are short of, and what would help where memory is short."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.instances.dataflow.batch_time import outside
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.plans import allowed_degrees, allowed_micro_batches
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.cases import FIRST_TRY
from chipmap.records import counted
from chipmap.result import Infeasibility

if TYPE_CHECKING:
    from chipmap.heuristics.dataflow.program.program import Chain, Program

#: Bytes of DRAM that no mapping needs.
AMPLE = 2**62
#: What is short where a constraint can't be met, and its unit.
RESOURCES = {
    "C0": ("network", "assignments"),
    "C2": ("SRAM", "bytes"),
    "C4": ("partitions", "partitions"),
    "C5": ("pins", "bytes"),
    "C6": ("DRAM", "bytes"),
}
#: What may help where pins can't be kept; where DRAM is short, and the degrees aren't the task's.
PINS = "change task.together"
MORE_CHIPS = "more tensor or pipeline parallelism"


class Questions:
    """Questions to exact programs: whether there is a mapping, with more or less of something.

    They end with the ``deadline``, or once ``most`` labels were made for them all. Labels are counted alike on every
    machine; seconds are not.
    """

    def __init__(self, deadline: Deadline, most: int = 2**62) -> None:
        self.deadline, self.left = deadline, most

    def check(self) -> None:
        """Raise :class:`Stop` unless another question may be asked."""
        self.deadline.check()
        if self.left < 0:
            raise Stop("iteration")

    def best(self, program: Program, *asked: Any, **limits: Any) -> Chain | None:
        """What :meth:`~chipmap.heuristics.dataflow.program.program.Program.best` says."""
        self.check()
        chain = program.best(*asked, **limits)
        self.left -= int(program.work[0])
        return chain


def lacking(
    label: str,
    demand: float,
    limit: float,
    message: str,
    *remedies: str,
    unit: str | None = None,
    labels: tuple[str, ...] = (),
) -> Infeasibility:
    """The reason that a constraint can't be met, in the unit of its resource or another."""
    resource, usual = RESOURCES[label]
    short = float(demand), float(limit), unit or usual
    return Infeasibility.of(label, resource, short, message, *remedies, labels=labels)


def does(path: str, value: int, unit: str) -> str:
    """The remedy with which, by itself, a mapping was found."""
    return f"{counted(value, unit)} {'does' if value == 1 else 'do'}: --set {path}={value}"


def at_least(path: str, value: int, unit: str) -> str:
    """The remedy that is needed, and may not be enough."""
    return f"at least {counted(value, unit)} ({path}), maybe more"


def dram_shortage(limit: int, need: int, message: str, found: bool = True, other: str = MORE_CHIPS) -> Infeasibility:
    """C6: the reason where ``need`` bytes of DRAM would do (``found``), or rest there at least whatever else holds."""
    remedy = (does if found else at_least)("system.memory.capacity_bytes", need, "byte")
    return lacking("C6", need, limit, message, remedy, other, labels=() if found else ("C6",))


def resting(problems: Sequence[DataflowProblem]) -> list[Infeasibility]:
    """C6: the reason where what rests in a chip's DRAM all the time (parameters, optimiser state, kept outputs) is more
    than it holds, whatever the mapping, for each of ``problems``; else none. A sum: it needs no search."""
    limit = problems[0].instance.system.memory.capacity_bytes if problems else None
    if limit is None or any(one.instance.task.stages != "layers" for one in problems):
        return []
    need, problem = min(((outside(one, "kept"), one) for one in problems), key=lambda pair: pair[0])
    if need <= limit:
        return []
    message = (
        f"what rests in a chip's DRAM is more than its {counted(limit, 'byte')}; {need:,} at least "
        f"({problem.degrees.text}){largest(problem, limit)}"
    )
    return [dram_shortage(limit, need, message, found=False)]


def short_of_dram(instance: DataflowInstance, programs: Sequence[Program], questions: Questions) -> Infeasibility:
    """The reason, for ``programs`` (one per choice of degrees) of the instance with all the DRAM that they want."""
    limit = instance.system.memory.capacity_bytes or 0
    needs = [(_least(program, limit, questions), program.problem) for program in programs]
    need, problem = min(((need, one) for need, one in needs if need is not None), key=lambda pair: pair[0])
    others = [] if instance.task.degrees is None else _others(programs[0].problem, limit, questions)
    fit = f"; {others[0].text} would fit" if others else ""
    message = (
        f"every mapping has more than the {counted(limit, 'byte')} of a chip's DRAM in it; {need:,} would do "
        f"({problem.degrees.text}){largest(problem, limit)}{fit}"
    )
    return dram_shortage(limit, need, message, other="set task.degrees to those that fit" if others else MORE_CHIPS)


def _least(program: Program, limit: int, questions: Questions) -> int | None:
    """The least capacity above ``limit`` with which there is a mapping; None where none fits SRAM or pins."""
    asked = program.problem.instance.asked
    chain = questions.best(program, *asked)
    if chain is None:
        return None
    enough, short = program.dram(chain), limit
    while enough - short > 1:
        chain = questions.best(program, *asked, dram=(short + enough) // 2)
        if chain is None:
            short = (short + enough) // 2
        else:
            enough = program.dram(chain)
    return enough


def _others(problem: DataflowProblem, limit: int, questions: Questions) -> list[Degrees]:
    """The degrees that the network holds, without those that the task asks for, with which a mapping would fit."""
    from chipmap.heuristics.dataflow.program.program import Program

    free = problem.instance.replace(task=problem.instance.task.replace(degrees=None))
    fit = []
    for degrees in allowed_degrees(free):
        questions.check()
        each = allowed_micro_batches(free, degrees)[0]
        program = Program(dataflow_problem(free, degrees, each), free.mapped_layers, most_labels=FIRST_TRY)
        with suppress(TooWideError):
            if degrees != problem.degrees and questions.best(program, *free.asked, dram=limit) is not None:
                fit.append(degrees)
    return fit


def largest(problem: DataflowProblem, limit: int) -> str:
    """The largest part: a kernel's parameters and kept outputs, or a tensor while it waits."""
    workload = problem.instance.workload
    names = [kernel.name for kernel in workload.kernels]
    read = {u for u, _ in workload.edges}
    sizes = {
        f"{what} of kernel {name!r}": min(getattr(option, field) for option in options)
        for field, what in (("kept", "the parameters and outputs kept"), ("waits", "the output"))
        for name, options in zip(names, problem.options, strict=True)
        if field == "kept" or name in read
    }
    what = max(sizes, key=lambda name: sizes[name])
    alone = " alone" if sizes[what] > limit else ""
    verb, when = ("take", "") if what.startswith("the parameters") else ("takes", " while it waits between partitions")
    return f"; {what}{alone} {verb} {sizes[what]:,}{when}"


def smaller_weights(options: Sequence[Option], limit: int, tensor: int) -> str:
    """What to do about a kernel with these options, whose weights lie in the SRAM of each of ``tensor`` chips."""
    weights = min(option.weights for option in options)
    if all(option.scheme == "NONE" for option in options):
        return "smaller kernels, or schemes by which the kernel can be sharded: it runs whole on every chip"
    if all(option.scheme in ("NONE", "N") for option in options):
        return "smaller kernels, or schemes that divide the kernel's weights: where N splits tokens, every chip has all"
    if weights <= limit:
        return "more tensor parallelism, or smaller kernels"
    least = -(-weights * tensor // limit)
    return f"tensor parallelism of {least} at least, or smaller kernels: weights are held whole, never in parts"
