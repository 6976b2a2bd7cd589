"""The methods of family ``toy``."""

from __future__ import annotations

from chipmap.instances.toy.instance import ToyInstance, ToySolution

from chipmap.methods.model_solve import Finds, conclude, solve_within
from chipmap.result import Infeasibility, Termination
from chipmap.run import Run


def greedy(instance: ToyInstance, run: Run) -> Termination:
    """Task by task to the machine that is done sooner."""

    def work() -> None:
        """Place the tasks in their order."""
        done, machines = [0, 0], list[int]()
        for task in instance.tasks:
            machine = min((0, 1), key=lambda m: done[m] + task.time[m])
            done[machine] += task.time[machine]
            machines.append(machine)
        run.solution(ToySolution(instance=instance.name, machines=tuple(machines)), "greedy")

    return run.attempt(work)


def cpsat(instance: ToyInstance, run: Run) -> Termination:
    """The CP-SAT model."""

    def work() -> None:
        """Build and solve it."""
        from chipmap.formulations.toy.cpsat import build

        run.checkpoint()
        start = run.best.solution if run.best is not None else None
        outcome = solve_within(run, build(instance), Finds("cpsat"), start)
        if outcome.termination.reason == "infeasible":
            run.infeasible(_odd(instance))
        else:
            conclude(run, outcome, "cpsat")

    return run.attempt(work)


def _odd(instance: ToyInstance) -> Infeasibility:
    message = f"{len(instance.apart)} pairs can't all be apart on two machines"
    remedy = "drop a pair of apart"
    return Infeasibility(
        label="C1", resource="machines", demand=3, limit=2, unit="machines", message=message, remedies=(remedy,)
    )
