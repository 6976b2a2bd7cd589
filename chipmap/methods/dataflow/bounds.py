"""The methods of family ``dataflow`` that give a lower bound and look for no mapping."""

from __future__ import annotations

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.problem import total_ticks
from chipmap.methods.dataflow.cases import beyond, cases
from chipmap.methods.dataflow.infeasibility import no_degrees
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run


def bounds(instance: DataflowInstance, run: Run) -> Termination:
    """The least bound that kernels give one by one, over all choices of degrees and micro-batch."""

    def work() -> None:
        run.checkpoint()
        todo = cases(instance)
        if todo:
            run.bound(min([todo[0].bound, *beyond(instance)]), "kernels one by one")
        else:
            run.infeasible(no_degrees(instance))

    return run.attempt(work)


def relaxation(instance: DataflowInstance, run: Run) -> Termination:
    """The least bound of the convex relaxation over all choices of degrees and micro-batch, each at least the first."""
    from chipmap.formulations.dataflow.relaxation import bound

    if instance.task.stages == "kernels":
        raise InputError(
            "the relaxation knows stages of layers alone", "task.stages", "Use the method dataflow/bounds."
        )

    def work() -> None:
        todo = cases(instance)
        if not todo:
            run.infeasible(no_degrees(instance))
            return
        larger = beyond(instance)
        run.bound(min([todo[0].bound, *larger]), "kernels one by one")
        found = larger
        for case in todo:
            run.checkpoint()
            if found and case.bound >= min(found):
                break
            layer = bound(case.problem)
            found.append(max(case.bound, total_ticks(case.problem, layer) if layer is not None else 0))
        run.bound(min(found), "relaxation", "relaxation")

    return run.attempt(work)
