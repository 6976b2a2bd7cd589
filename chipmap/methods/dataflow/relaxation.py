"""The method of family ``dataflow`` that gives the bound of its convex relaxation, without a mapping."""

from __future__ import annotations

from chipmap.formulations.dataflow.relaxation import bound
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.problem import total_ticks
from chipmap.methods.dataflow.chain import cases
from chipmap.methods.dataflow.infeasibility import no_degrees
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run


def relaxation(instance: DataflowInstance, run: Run) -> Termination:
    """The least bound over all choices of degrees, each at least that of compute alone."""

    if instance.task.stages == "kernels":
        raise InputError(
            "the relaxation knows stages of layers alone", "task.stages", "Use the method dataflow/bounds."
        )

    def work() -> None:
        todo = cases(instance)
        if not todo:
            run.infeasible(no_degrees(instance))
            return
        run.bound(todo[0].bound, "compute")
        found = list[int]()
        for case in todo:
            run.checkpoint()
            if found and case.bound >= min(found):
                break
            layer = bound(case.problem)
            found.append(max(case.bound, total_ticks(case.problem, layer) if layer is not None else 0))
        run.bound(min(found), "relaxation", "relaxation")

    return run.attempt(work)
