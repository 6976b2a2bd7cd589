"""The CP-SAT model of family ``toy``: a literal per task that says whether it is on machine 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chipmap.instances.toy.instance import ToyInstance, ToySolution
from ortools.sat.python import cp_model

from chipmap.deadline import look
from chipmap.family import Scope
from chipmap.formulations.built import Built, Statement

BY_DOMAIN: tuple[str, ...] = ("C0",)


@dataclass(frozen=True)
class ToyChoices:
    """``assume`` gives each constraint a literal in ``assumptions``, so that an infeasible model names it."""

    labels: Literal["plain", "assume"] = "plain"


@dataclass(eq=False)
class ToyVariables:
    """The model of an instance on its way: ``on`` has a literal per task."""

    instance: ToyInstance
    native: cp_model.CpModel
    on: list[Any]
    assumptions: dict[str, Any] = field(default_factory=dict)

    def encode(self, solution: ToySolution) -> list[tuple[Any, float]] | None:
        """The literals' values."""
        return [(literal, float(machine)) for literal, machine in zip(self.on, solution.machines, strict=True)]

    def decode(self, value: Callable[[Any], float]) -> ToySolution:
        """The solution that the literals' values stand for."""
        return ToySolution(instance=self.instance.name, machines=tuple(round(value(literal)) for literal in self.on))


def build(instance: ToyInstance, choices: ToyChoices | Mapping[str, Any] | None = None) -> Built:
    """The model of ``instance``."""
    asked = choices if isinstance(choices, ToyChoices) else ToyChoices(**(choices or {}))
    look()
    native, state = cp_model.CpModel(), Statement(*BY_DOMAIN)
    model = ToyVariables(instance, native, [native.new_bool_var(task.name) for task in instance.tasks])
    state(c1_apart, model, asked)
    time, energy = state(t1_time, model), state(t2_energy, model)
    cost = time
    if instance.objective == "product":
        cost = native.new_int_var(0, 10**12, "cost")
        native.add_multiplication_equality(cost, [time, energy])
    native.minimize(cost)
    return Built("cpsat", instance, native, state, Scope.WHOLE, model.encode, model.decode, model)


def c1_apart(model: ToyVariables, choices: ToyChoices) -> None:
    """on(a) + on(b) = 1 for each pair."""
    for i, (a, b) in enumerate(model.instance.apart):
        row = model.native.add(model.on[a] + model.on[b] == 1)
        if choices.labels == "assume":
            literal = model.native.new_bool_var(f"c1_apart_{i}")
            row.only_enforce_if(literal)
            model.assumptions[f"c1_apart_{i}"] = literal


def t1_time(model: ToyVariables) -> Any:
    """The longest time of a machine."""
    time = model.native.new_int_var(0, 10**6, "time")
    tasks = list(zip(model.instance.tasks, model.on, strict=True))
    slow = sum(task.time[1] * on for task, on in tasks)
    fast = sum(task.time[0] * (1 - on) for task, on in tasks)
    model.native.add_max_equality(time, [fast, slow])
    return time


def t2_energy(model: ToyVariables) -> Any:
    """The energy of all tasks."""
    energy = model.native.new_int_var(0, 10**6, "energy")
    tasks = zip(model.instance.tasks, model.on, strict=True)
    model.native.add(energy == sum(task.energy[0] + (task.energy[1] - task.energy[0]) * on for task, on in tasks))
    return energy
