"""The methods of family ``dataflow`` that give a lower bound and look for no mapping."""

from __future__ import annotations

from fractions import Fraction

from chipmap.deadline import Stop
from chipmap.instances.dataflow.batch import paired
from chipmap.instances.dataflow.batch_time import total_ticks
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.pairs import least_time
from chipmap.methods.dataflow import unequal
from chipmap.methods.dataflow.cases import Choices, least_demanding
from chipmap.methods.dataflow.infeasibility import no_degrees, no_mapping
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run


def bounds(instance: DataflowInstance, run: Run) -> Termination:
    """The least bound that kernels give one by one, over all choices of degrees and micro-batch."""
    if instance.system.others:
        return unequal.bounds(instance, run)

    def work() -> None:
        """The bound of the choice that is looked at first, beside those that are left."""
        todo = Choices(instance)
        if todo.least is None:
            run.infeasible(no_degrees(instance))
            return
        try:
            first = next(iter(todo), None)
        except Stop:
            run.bound(min(todo.bounds), "all FLOP")
            raise
        bounds = [*todo.left, *([] if first is None else [first.bound])]
        if bounds:
            run.bound(min(bounds), "kernels one by one")
        else:
            no_mapping(instance, least_demanding(instance), run)

    return run.attempt(work)


def relaxation(instance: DataflowInstance, run: Run) -> Termination:
    """The least bound of the convex relaxation over all choices of degrees and micro-batch, each at least the first."""
    from chipmap.formulations.dataflow.relaxation import bound

    if instance.task.stages == "kernels":
        raise InputError(
            "the relaxation knows stages of layers alone", "task.stages", "Use the method dataflow/bounds."
        )

    def work() -> None:
        """Choices in turn, until none that is left can have a smaller bound."""
        todo, found = Choices(instance), list[int]()
        if todo.least is None:
            run.infeasible(no_degrees(instance))
            return
        for case in todo:
            run.checkpoint()
            others = min([case.bound, *todo.left])
            run.bound(min([others, *found]), "kernels one by one")
            if found and case.bound >= min(found):
                break
            whole = bound(case.problem)
            layer: int | Fraction | None = whole
            if whole is not None and paired(case.problem.instance, case.problem.degrees):
                layer = least_time(case.problem.instance, case.problem.degrees, whole)
            found.append(max(case.bound, total_ticks(case.problem, layer) if layer is not None else 0))
        if found or todo.left:
            run.bound(min([*found, *todo.left]), "relaxation", "relaxation")
        else:
            no_mapping(instance, least_demanding(instance), run)

    return run.attempt(work)
