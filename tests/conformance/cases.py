"""What the conformance suite runs over: families, their formulations and solvers, and tiny instances.

A family takes part unasked: its shipped instances with ``/tiny-`` in their name, and what the module
``tests/<family>/random_instances.py`` makes, if there is one: ``variants()`` (name -> tiny instance), ``infeasible()``
(name -> (labels that can't hold together, instance)) and ``tiny_instance(random)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, get_args, get_origin, get_type_hints

from chipmap.certificate import Certificate
from chipmap.family import FAMILY_NAMES, Family, Formulation, Model, get_family, resolve
from chipmap.inputs.reading import read, shipped_names
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import Outcome, SolveRequest
from chipmap.validation.brute_force import LIMIT, brute_force, count

#: Solvers of each kind of formulation. All of them must be there: one that is missing fails the suite.
SOLVERS = {"mip": ("highs", "gurobi"), "cpsat": ("cpsat",)}
#: No tiny instance takes this long (seconds); a solve that reaches it fails its test by its termination.
LIMIT_S = 60.0

FAMILIES: tuple[Family, ...] = tuple(get_family(name) for name in FAMILY_NAMES)


@dataclass(frozen=True, eq=False)
class TinyCase:
    """A tiny instance of a family."""

    family: Family
    name: str
    instance: Any

    def __str__(self) -> str:
        return f"{self.family.name}:{self.name}"

    def check(self, solution: Any) -> Certificate:
        """The checker's word on ``solution``."""
        certificate: Certificate = resolve(self.family.check)(self.instance, solution)
        return certificate

    @property
    def best(self) -> tuple[int | None, Any | None]:
        """(optimum, a solution that reaches it) by brute force; (None, None) when there is no solution."""
        return _best(self)

    def build(self, formulation: Formulation, **choices: Any) -> Model:
        """The model of that formulation, with its own choices and ``choices``."""
        return build(self.instance, formulation, **choices)


@cache
def _best(case: TinyCase) -> tuple[int | None, Any | None]:
    return brute_force(case.instance, resolve(case.family.check))


def build(instance: Any, formulation: Formulation, **choices: Any) -> Model:
    """The model of ``instance`` in that formulation, with its own choices and ``choices``."""
    model: Model = resolve(formulation.build)(instance, {**formulation.choices, **choices})
    return model


def cases(family: Family) -> tuple[TinyCase, ...]:
    """The tiny instances of ``family`` that brute force can solve."""
    return _cases(family.name)


@cache
def _cases(name: str) -> tuple[TinyCase, ...]:
    family = get_family(name)
    shipped = {full: read(full) for full in shipped_names() if full.startswith(f"{name}/tiny-")}
    found = {**shipped, **_hook(family, "variants")}
    return tuple(TinyCase(family, case, one) for case, one in found.items() if count(one) <= LIMIT // 100)


def infeasible(family: Family) -> tuple[tuple[tuple[str, ...], TinyCase], ...]:
    """(labels, case) of instances without a solution; without one of the labels there would be some."""
    return tuple((labels, TinyCase(family, name, one)) for name, (labels, one) in _hook(family, "infeasible").items())


def hooks(family: Family) -> Any:
    """The module ``tests.<family>.random_instances``, or None."""
    name = f"tests.{family.name}.random_instances"
    here = find_spec(f"tests.{family.name}") is not None and find_spec(name) is not None
    return import_module(name) if here else None


def _hook(family: Family, function: str) -> dict[str, Any]:
    module = hooks(family)
    found: dict[str, Any] = getattr(module, function)() if module else {}
    return found


def formulations() -> list[tuple[Family, Formulation, str]]:
    """Every (family, formulation, solver)."""
    return [(f, form, solver) for f in FAMILIES for form in f.formulations for solver in SOLVERS[form.kind]]


def other_choices(formulation: Formulation) -> list[dict[str, Any]]:
    """Other ways to state the model: each literal value of each field of its choices that isn't the default."""
    hint = get_type_hints(resolve(formulation.build))["choices"]
    (record,) = [kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)]
    kinds = get_type_hints(record)
    found: list[dict[str, Any]] = []
    for field in fields(record):
        kind, usual = kinds[field.name], formulation.choices.get(field.name, field.default)
        if get_origin(kind) is Literal:
            values: list[Any] = list(get_args(kind))
        elif get_origin(kind) is tuple and get_origin(get_args(kind)[0]) is Literal:
            literals = get_args(get_args(kind)[0])
            values = [(), *((literal,) for literal in literals), literals]
        else:
            continue
        found += [{field.name: value} for value in dict.fromkeys(values) if value != usual]
    return found


def identify(value: Any) -> str:
    """The name of a parameter in test ids."""
    if isinstance(value, dict):
        return ",".join(f"{key}={one}" for key, one in value.items())
    return str(getattr(value, "name", value)) if not isinstance(value, TinyCase) else str(value)


def solved(model: Model, solver: str, **request: Any) -> Outcome:
    """The outcome of ``solver`` on ``model``, on one thread."""
    return solve_model(model, SolveRequest(**{"time_limit": LIMIT_S, "threads": 1, **request}), solver)


def reader(model: Model, pairs: list[tuple[Any, float]]) -> Callable[[Any], float]:
    """Reads the values that ``encode`` gave, as a solver's solution would be read."""

    def key(variable: Any) -> int:
        return int(variable.index) if model.kind == "cpsat" else id(variable)

    values = {key(variable): value for variable, value in pairs}

    def value_of(variable: Any) -> float:
        if model.kind == "mip" and variable.fixed:
            return float(variable.value)
        return values[key(variable)]

    return value_of
