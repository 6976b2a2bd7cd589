"""``adopt``: a plan that somebody has, completed where it leaves something open, judged, and set beside the best one.

The time is shared out. A third goes to the best mapping that keeps to the plan, where this leaves something open. What
is left, but for a quarter, goes to the best mapping of the instance as it is, which starts from the plan and proves the
bounds. The rest is for the account of what holds the plan's objective up.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from chipmap.certificate import Certificate
from chipmap.explain import explain
from chipmap.explanation import Explanation
from chipmap.family import Family, family_of, resolve
from chipmap.inputs.pinning import GivenPins, pinned
from chipmap.inputs.plain import Given, instance_of
from chipmap.inputs.reading import schema_of, source_of
from chipmap.inputs.results import attached
from chipmap.inputs.solutions import decode_solution, read_solution
from chipmap.plans.plan import Plan
from chipmap.plans.reading import read_plan, recognised
from chipmap.records import InputError, Record
from chipmap.result import Note, Result, Termination, gap, solution_json
from chipmap.run import SolveOptions
from chipmap.solve import check, solve

#: Seconds when no limit is given.
TIME_LIMIT = 60.0
#: The shares of the time for a partial plan, and for the account.
_COMPLETING, _ACCOUNT = 1 / 3, 1 / 4


@dataclass(frozen=True)
class Adoption:
    """A plan that was read and judged.

    ``certificate`` is the checker's word on it (None: no mapping keeps to a partial plan, or none was found).
    ``result`` is the plan as a result of its own, with the bounds of the instance, where it is valid; ``best`` the best
    mapping found of the instance as it is. ``completed``: the solve of what a partial plan leaves open. ``account``:
    what holds the plan's objective up, and what differs in the best mapping.
    """

    format: str
    certificate: Certificate | None
    best: Result
    result: Result | None = None
    completed: Result | None = None
    account: Explanation | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0 valid, 2 no mapping keeps to the plan, 3 none was found, 4 refused by the checker."""
        if self.certificate is None:
            return 2 if self.completed is not None and self.completed.status == "infeasible" else 3
        return 0 if self.certificate.feasible else 4

    @property
    def gain(self) -> float | None:
        """The share of the plan's objective by which the best mapping is below it."""
        mine = self.result.objective if self.result is not None else None
        return None if self.best.objective is None else gap(mine, self.best.objective)

    def save(self, folder: str | Path) -> Path:
        """Write the archive of a valid plan."""
        assert self.result is not None
        return self.result.save(folder)


def adopt(
    instance: Given,
    plan: str | Path,
    name: str = "",
    time_limit: float = TIME_LIMIT,
    isolate: bool | None = None,
    pin: GivenPins | None = None,
) -> Adoption:
    """The plan in the file ``plan`` (``-``: standard input; a run's archive) for ``instance``, judged within
    ``time_limit`` seconds.

    ``instance`` and ``pin`` as of :func:`chipmap.solve`. ``name``: its format, by its content where that is empty.
    Raises :class:`InputError` for what is no plan of this instance.
    """
    ends = time.monotonic() + time_limit
    instance = pinned(instance_of(instance), pin).instance
    options = SolveOptions(time_limit=time_limit)
    options.check()
    family = family_of(instance)
    form, read = _read(str(plan), family, instance, name)
    solution, notes, completed = read.solution, list(read.notes), None
    if read.pinned is not None:
        notes.append(f"the plan says {read.covered}: what it leaves open is solved, and what it says is kept")
        completed = _best(read.pinned, solution, time_limit * _COMPLETING, isolate)
        found = _solution(family, completed)
        solution = solution if found is None else found if read.finish is None else read.finish(found)
    certificate = None if solution is None else check(instance, solution)
    valid = certificate if certificate is not None and certificate.feasible else None
    left = max(ends - time.monotonic(), 0.1 * time_limit)
    best = _best(instance, solution if valid is not None else None, left * (1 - _ACCOUNT), isolate)
    result = account = None
    if valid is not None:
        result = attached(_as_result(best, solution, valid, form, notes), instance)
    if solution is not None and family.explain:
        other = _solution(family, best) if valid is None or best.objective != valid.objective else None
        left = min(max(ends - time.monotonic(), 0.5), time_limit * _ACCOUNT)
        account = explain(
            instance, solution, other, options.replace(time_limit=left), isolate=bool(isolate), bounds=best.bounds
        )
    return Adoption(form, certificate, best, result, completed, account, tuple(notes))


def _read(plan: str, family: Family, instance: Record, name: str) -> tuple[str, Plan]:
    """What the plan is called, and what it says: a run's archive, a solution's or a result's file, or a plan."""
    if plan != "-" and Path(plan).is_dir():
        if name:
            raise InputError(
                "is a directory, not a file of that format", plan, f"Name the file, or leave --as {name} out."
            )
        return "solution", Plan(solution=read_solution(plan, family, instance, of_this=True))
    source = source_of(plan)
    data, where = source.content(), source.where
    if not name and data.lstrip()[:1] == b"{" and recognised(data, where, instance) is None:
        schema = schema_of(data, where, graph=True) or ""
        if schema.startswith(("result/", f"{family.name}-solution/")):
            return "solution", Plan(solution=decode_solution(data, where, family, instance))
    form, read = read_plan(data, where, instance, name)
    return form.name, read


def _solution(family: Family, result: Result) -> Any:
    """The solution of a result as a record; None without one."""
    return None if result.solution is None else resolve(family.solution).make(**result.solution)


def _best(instance: Record, start: Record | None, seconds: float, isolate: bool | None) -> Result:
    """The best mapping of the instance as it is, which is never worse than ``start``, with its bounds."""
    if start is None:
        return solve(instance, options=SolveOptions(time_limit=seconds), isolate=isolate)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_bytes(start.to_json())
        return solve(instance, options=SolveOptions(time_limit=seconds, warm_start=str(path)), isolate=isolate)


def _as_result(best: Result, solution: Record, certificate: Certificate, name: str, notes: list[str]) -> Result:
    """The plan as a result of its own: its objective against the bounds that the solve has proved."""
    objective = certificate.objective
    bound = best.bound if best.bound is None or objective is None else min(best.bound, objective)
    share = gap(objective, bound)
    status: Literal["optimal", "feasible"] = "optimal" if share == 0.0 else "feasible"
    return msgspec.structs.replace(
        best,
        method=f"adopt/{name}",
        status=status,
        objective=objective,
        bound=bound,
        gap=share,
        claimed_objective=None,
        incumbent_source=f"plan ({name})",
        solution=solution_json(solution),
        certificate=certificate,
        termination=Termination(reason=status, detail="a plan that was adopted"),
        failure="",
        trace=(),
        notes=tuple(Note(kind="plan", text=text) for text in notes),
    )
