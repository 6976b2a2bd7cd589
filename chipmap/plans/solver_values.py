"""Format ``solver``: what a solver writes of a model that ``chipmap export`` wrote, as a mapping of the instance.

========================  ==============================================================================================
written by                told by its first line
========================  ==============================================================================================
HiGHS                     ``Model status`` (``writeSolution`` in its style 0)
Gurobi                    ``# Solution for model`` or ``# Objective value``
SCIP                      ``solution status:``; what it leaves out is 0
CP-SAT                    ``status:`` of a ``CpSolverResponse`` as text
a program of one's own    lines ``name value``; only with ``--as solver``
========================  ==============================================================================================

The model is built again from the instance. So the names, and for CP-SAT the order, of its variables are those of the
exported file. Names that the model doesn't have belong to variables of the user's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from chipmap.family import Formulation, Model, family_of, resolve
from chipmap.plans.plan import Plan
from chipmap.plans.rows import text_of
from chipmap.records import InputError, Record, counted
from chipmap.solvers.export import column_names
from chipmap.solvers.lowering import lower

HIGHS, GUROBI, SCIP, CPSAT = "Model status", "# ", "solution status:", "status:"
BEGINS = re.compile(rb"Model status\s*\n|# (Solution for model|Objective value)|solution status:|status: [A-Z]+\s*\n")
#: How far from a whole number the value of an integer variable may be; solvers' own tolerances are 1e-5 or less.
WHOLE = 1e-3
EXPORT = "Export the model of this very instance with `chipmap export`, solve that file, and write the solution again."


@dataclass(frozen=True)
class Values:
    """What a file says: values by name, or (CP-SAT's response) by place; ``sparse``: values of 0 are left out."""

    by_name: dict[str, float]
    by_place: tuple[int, ...] = ()
    sparse: bool = False

    @property
    def kind(self) -> str:
        """The kind of model: names of CP-SAT's variables have brackets, those of LP and MPS files never have."""
        return "cpsat" if self.by_place or any("[" in name for name in self.by_name) else "mip"


class Match(NamedTuple):
    """A model that a file's values are of: how its variables are read, and how many values aren't the model's."""

    formulation: Formulation
    model: Model
    value_of: Callable[[Any], float]
    others: int


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether the file begins as one of these solvers' solutions."""
    return BEGINS.match(data) is not None


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The mapping that the values stand for.

    Raises :class:`InputError` where the file has no solution, lacks a variable of each of the family's models, or has
    a fraction where a variable is whole.
    """
    found = _match(instance, _values(data, where), where)
    notes = [f"values of the variables of {found.formulation.name}"]
    if found.others:
        notes.append(f"{counted(found.others, 'value')} of other variables in the file, which aren't read")
    return Plan(solution=found.model.decode(found.value_of), notes=tuple(notes))


def _values(data: bytes, where: str) -> Values:
    text = text_of(data, where)
    if text.startswith(CPSAT):
        places = tuple(int(one) for one in re.findall(r"^solution: (-?\d+)\s*$", text, re.MULTILINE))
        if not places:
            raise InputError(f"holds no solution ({text.partition(chr(10))[0]})", where, "Solve for longer.")
        return Values({}, places)
    by_name: dict[str, float] = {}
    for here, name, cell in _lines(text, where):
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"{cell!r} is no value of {name}", here, "Give lines of a name and a number.")
        if by_name.setdefault(name, value) != value:
            raise InputError(f"{name} has the value {by_name[name]:g} already", here, "Name it once.")
    if not by_name:
        raise InputError("holds no solution", where, "Solve for longer, or relax what you added to the model.")
    return Values(by_name, sparse=text.startswith(SCIP))


def _lines(text: str, where: str) -> Iterator[tuple[str, str, str]]:
    """(where it stands, name, value) of each variable."""
    lines = [(f"{where}: line {number}", line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    if text.startswith(HIGHS):  # only the primal values of columns
        begin = next((i for i, (_, line) in enumerate(lines) if line.startswith("# Columns")), len(lines))
        end = next((i for i, (_, line) in enumerate(lines) if line.startswith("# Rows")), len(lines))
        lines = lines[begin:end]
    for here, line in lines:
        if not line or line.startswith(("#", "solution status:", "objective value:", "no solution")):
            continue
        name, _, cell = re.sub(r"\s*\(obj:.*\)$", "", line).rpartition(" ")
        if not name.strip():
            raise InputError(f"{line!r} is no name with a value", here, "Give lines of a name and a number.")
        yield here, name.strip(), cell


def _match(instance: Record, values: Values, where: str) -> Match:
    """The first model of the family whose variables all have a value."""
    lacking: list[tuple[int, str]] = []
    for formulation in family_of(instance).formulations:
        if formulation.kind != values.kind:
            continue
        model: Model = resolve(formulation.build)(instance, formulation.choices)
        names, reader = (_of_mip if model.kind == "mip" else _of_cpsat)(model)
        if values.by_place:
            if len(values.by_place) >= len(names):
                own = [float(value) for value in values.by_place[: len(names)]]
                return Match(formulation, model, reader(own, where), len(values.by_place) - len(names))
            told = f"{counted(len(values.by_place), 'value')}, but {formulation.name} has {len(names)} variables"
            lacking.append((0, told))
            continue
        missing = [name for name in names if name not in values.by_name]
        if not missing or (values.sparse and len(missing) < len(names)):
            own = [values.by_name.get(name, 0.0) for name in names]
            return Match(formulation, model, reader(own, where), len(values.by_name) - (len(names) - len(missing)))
        lacking.append((len(missing), f"no value of {missing[0]}, a variable of {formulation.name}"))
    raise InputError(f"has {min(lacking)[1]}", where, EXPORT)


Reader = Callable[[list[float], str], Callable[[Any], float]]


def _of_mip(model: Model) -> tuple[list[str], Reader]:
    """The names of the columns, as in LP and MPS files, and what reads a variable."""
    import numpy as np

    lowered = lower(model.native)
    names = column_names(lowered)

    def reader(values: list[float], where: str) -> Callable[[Any], float]:
        for name, value, integer in zip(names, values, lowered.integer, strict=True):
            if integer and abs(value - round(value)) > WHOLE:
                remedy = "Keep the variable integer: a relaxation's values are no mapping."
                raise InputError(f"{name} is {value:g}, which must be whole", where, remedy)
        return lowered.value_of(np.array(values))

    return names, reader


def _of_cpsat(model: Model) -> tuple[list[str], Reader]:
    """The names of a ``CpModel``'s variables in their order, and what reads a variable or literal."""
    from chipmap.solvers.cpsat import reader as literal_reader

    names = [variable.name or f"#{place}" for place, variable in enumerate(model.native.proto.variables)]

    def reader(values: list[float], where: str) -> Callable[[Any], float]:
        return literal_reader([round(value) for value in values])

    return names, reader
