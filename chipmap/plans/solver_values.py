"""Format ``solver``: what a solver writes of a model that ``chipmap export`` wrote, as a mapping of the instance.

========================  ==============================================================================================
written by                told by its first line
========================  ==============================================================================================
HiGHS                     ``Model status`` (``writeSolution`` in its styles 0 and 4; 4 leaves out what is 0)
Gurobi                    ``# Solution for model`` or ``# Objective value``
SCIP                      ``solution status:``; what it leaves out is 0
CP-SAT                    ``status:`` of a ``CpSolverResponse`` as text
a program of one's own    lines ``name value``; only with ``--as solver``
========================  ==============================================================================================

The model is built again from the instance. So the names, and for CP-SAT the order, of its variables are those of the
exported file. Names that the model doesn't have belong to variables of the user's own, unless they differ from one of
the model's in its numbers alone. The values must keep to the model, so that a file of another instance is refused.
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
STATUS = rb"(OPTIMAL|FEASIBLE|INFEASIBLE|MODEL_INVALID|UNKNOWN)"
BEGINS = re.compile(
    rb"Model status\s*\n|Columns\s*\n +Index Status |# (Solution for model|Objective value)|solution status:"
    rb"|status: " + STATUS + rb"\s*\n"
)
#: How far from a whole number the value of an integer variable may be, and by what share of its terms a row may be
#: broken; solvers' own tolerances are 1e-5 or less, and files may have six digits.
WHOLE = SLACK = 1e-3
#: Seconds for CP-SAT to find out whether values keep to a model; what it hasn't refuted then counts as kept.
CHECKING = 10.0
#: In HiGHS's style 4: a negative number of columns, and lines of name, value and place.
SPARSE = re.compile(r"^# Columns -\d+\s*$", re.MULTILINE)
PRETTY, NUMBER, BOM = "Columns", re.compile(r"\d+"), b"\xef\xbb\xbf"
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


class Unfit(Exception):  # noqa: N818 - a finding about the values
    """Values aren't of a model: by how many values, and why."""

    def __init__(self, count: int, what: str, remedy: str) -> None:
        super().__init__(what)
        self.count, self.what, self.remedy = count, what, remedy


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether the file begins as one of these solvers' solutions."""
    return BEGINS.match(data.removeprefix(BOM)) is not None


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The mapping that the values stand for.

    Raises :class:`InputError` where the file has no solution, or its values aren't a solution of any of the family's
    models: one lacks, isn't whole, or breaks a constraint.
    """
    found = _match(instance, _values(data, where), where)
    stated_for = getattr(found.model, "stated_for", "")
    notes = [f"values of the variables of {found.formulation.name}{stated_for and f' for {stated_for}'}"]
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
    sparse = text.startswith(SCIP) or (text.startswith(HIGHS) and SPARSE.search(text) is not None)
    return Values(by_name, sparse=sparse)


def _lines(text: str, where: str) -> Iterator[tuple[str, str, str]]:
    """(where it stands, name, value) of each variable."""
    if text.startswith(PRETTY):
        raise InputError("is a table for people, without all digits", where, "Write it with writeSolution(FILE, 0).")
    lines = [(f"{where}: line {number}", line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    places = text.startswith(HIGHS) and SPARSE.search(text) is not None
    if text.startswith(HIGHS):  # only the primal values of columns
        begin = next((i for i, (_, line) in enumerate(lines) if line.startswith("# Columns")), len(lines))
        end = next((i for i, (_, line) in enumerate(lines) if line.startswith("# Rows")), len(lines))
        lines = lines[begin:end]
    for here, line in lines:
        if not line or line.startswith(("#", "solution status:", "objective value:", "no solution")):
            continue
        words = line.partition("(obj:")[0].rsplit(None, 2 if places else 1)
        if len(words) != (3 if places else 2):
            raise InputError(f"{line[:80]!r} is no name with a value", here, "Give lines of a name and a number.")
        yield here, words[0], words[1]


def _match(instance: Record, values: Values, where: str) -> Match:
    """The first model of the family that the values are a solution of."""
    unfit: list[Unfit] = []
    for formulation in sorted(family_of(instance).formulations, key=lambda one: one.kind != values.kind):
        if formulation.kind == "cpsat" or not values.by_place:
            try:
                return _fitted(instance, formulation, values)
            except Unfit as found:
                unfit.append(found)
    nearest = min(unfit, key=lambda one: one.count)
    raise InputError(nearest.what, where, nearest.remedy)


def _fitted(instance: Record, formulation: Formulation, values: Values) -> Match:
    """The match with one model; :class:`Unfit` where the values aren't a solution of it."""
    model: Model = resolve(formulation.build)(instance, formulation.choices)
    names, reader = (_of_mip if model.kind == "mip" else _of_cpsat)(model, formulation.name)
    if values.by_place:
        given, lacks = len(values.by_place), len(names) - len(values.by_place)
        if lacks > 0:
            told = f"has {counted(given, 'value')}, but {formulation.name} has {len(names)} variables"
            raise Unfit(lacks, told, EXPORT)
        return Match(formulation, model, reader([float(one) for one in values.by_place[: len(names)]]), -lacks)
    missing = [name for name in names if name not in values.by_name]
    if missing and (not values.sparse or len(missing) == len(names)):
        raise Unfit(len(missing), f"has no value of {missing[0]}, a variable of {formulation.name}", EXPORT)
    others = values.by_name.keys() - set(names)
    forms = {NUMBER.sub("#", name) for name in names}
    if strange := sorted(name for name in others if NUMBER.sub("#", name) in forms):
        told = f"has a value of {strange[0]}, a variable that {formulation.name} of this instance doesn't have"
        raise Unfit(len(strange), told, EXPORT)
    return Match(formulation, model, reader([values.by_name.get(name, 0.0) for name in names]), len(others))


Reader = Callable[[list[float]], Callable[[Any], float]]


def _of_mip(model: Model, called: str) -> tuple[list[str], Reader]:
    """The names of the columns, as in LP and MPS files, and what reads a variable of a solution."""
    import numpy as np

    lowered = lower(model.native)
    names = column_names(lowered)

    def reader(values: list[float]) -> Callable[[Any], float]:
        """Reads variables from columns' values; :class:`Unfit` where a bound or a row is broken."""
        x = np.array(values)
        for name, value, integer in zip(names, values, lowered.integer, strict=True):
            if integer:
                _whole(name, value)
        slack = SLACK * np.maximum(1.0, np.abs(x))
        for column in np.flatnonzero((x < lowered.lower - slack) | (x > lowered.upper + slack)):
            raise _outside(names[column], x[column], called)
        row, slack = lowered.matrix @ x, SLACK * np.maximum(1.0, abs(lowered.matrix) @ np.abs(x))
        for broken in np.flatnonzero((row < lowered.row_lower - slack) | (row > lowered.row_upper + slack)):
            told = f"breaks the constraint {lowered.constraints[broken].name} of {called}"
            raise Unfit(0, f"{told}: it is of another instance, or of a changed model", EXPORT)
        return lowered.value_of(x)

    return names, reader


def _of_cpsat(model: Model, called: str) -> tuple[list[str], Reader]:
    """The names of a ``CpModel``'s variables in their order, and what reads a variable or literal of a solution."""
    from chipmap.solvers.cpsat import kept
    from chipmap.solvers.cpsat import reader as literal_reader

    variables = list(model.native.proto.variables)
    names = [variable.name or f"#{place}" for place, variable in enumerate(variables)]

    def reader(values: list[float]) -> Callable[[Any], float]:
        """Reads variables and literals; :class:`Unfit` where a domain or a constraint is broken."""
        for name, value, variable in zip(names, values, variables, strict=True):
            _whole(name, value)
            ends = list(variable.domain)
            if not any(low <= round(value) <= high for low, high in zip(ends[::2], ends[1::2], strict=True)):
                raise _outside(name, value, called)
        whole = [round(value) for value in values]
        if not kept(model, whole, CHECKING):
            told = f"breaks a constraint of {called}: it is of another instance, or of a changed model"
            raise Unfit(0, told, EXPORT)
        return literal_reader(whole)

    return names, reader


def _whole(name: str, value: float) -> None:
    if abs(value - round(value)) > WHOLE:
        remedy = "Keep the variable integer: a relaxation's values are no mapping."
        raise Unfit(0, f"has {value:g} for {name}, which must be whole", remedy)


def _outside(name: str, value: float, called: str) -> Unfit:
    return Unfit(0, f"has {value:g} for {name}, which {called} of this instance doesn't allow", EXPORT)
