"""The independent checker of family ``toy``, and all its solutions: ``docs/families/toy.md``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from chipmap.instances.toy.instance import ToyInstance, ToySolution

from chipmap.certificate import Certificate
from chipmap.validation.certify import Finding, certify


def check(instance: ToyInstance, solution: ToySolution) -> Certificate:
    """The certificate of ``solution``."""
    broken: dict[str, Iterable[Finding]] = {"C0": list(c0_domain(instance, solution))}
    if broken["C0"]:
        return certify(instance, solution, broken)
    broken["C1"] = c1_apart(instance, solution)
    terms = {"T1": t1_time(instance, solution), "T2": t2_energy(instance, solution)}
    objective = terms["T1"] * (terms["T2"] if instance.objective == "product" else 1)
    return certify(instance, solution, broken, objective=objective, terms=terms)


def c0_domain(instance: ToyInstance, solution: ToySolution) -> Iterator[Finding]:
    """A machine for each task."""
    if len(solution.machines) != len(instance.tasks):
        yield "machines", abs(len(solution.machines) - len(instance.tasks)), "tasks", "not one machine per task"
    for i, machine in enumerate(solution.machines):
        if machine not in (0, 1):
            yield f"machines[{i}]", 1, "machines", f"there is no machine {machine}"


def c1_apart(instance: ToyInstance, solution: ToySolution) -> Iterator[Finding]:
    """Pairs on different machines."""
    where = dict(enumerate(solution.machines))
    for a, b in instance.apart:
        if where.get(a) == where.get(b):
            yield f"tasks {a} and {b}", 1, "pairs", f"tasks {a} and {b} share machine {where.get(a)}"


def t1_time(instance: ToyInstance, solution: ToySolution) -> int:
    """The longest time of a machine."""
    where = list(zip(instance.tasks, solution.machines, strict=False))
    return max(sum(task.time[m] for task, on in where if on == m) for m in (0, 1))


def t2_energy(instance: ToyInstance, solution: ToySolution) -> int:
    """The energy of all tasks."""
    return sum(task.energy[m] for task, m in zip(instance.tasks, solution.machines, strict=False) if m in (0, 1))


def count(instance: ToyInstance) -> int:
    """The number of candidates."""
    return 2 ** len(instance.tasks)


def candidates(instance: ToyInstance) -> Iterator[ToySolution]:
    """Every solution in the domain C0."""
    for machines in product((0, 1), repeat=len(instance.tasks)):
        yield ToySolution(instance=instance.name, machines=machines)
