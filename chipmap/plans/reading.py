"""A plan's file for an instance: which format it is in, whether it was made for this instance, what it says."""

from __future__ import annotations

from pathlib import Path

from chipmap.family import PlanFormat, family_of, resolve
from chipmap.plans.emission import beside, require
from chipmap.plans.plan import Plan, PlanData, graph_hash
from chipmap.records import InputError, Record


def recognised(data: bytes, where: str, instance: Record) -> PlanFormat | None:
    """The format of plans that a file called ``where`` is in; None: in none of the family's."""
    for form in family_of(instance).plan_formats:
        if form.recognise and resolve(form.recognise)(data, where, instance):
            return form
    return None


def read_plan(data: bytes, where: str, instance: Record, name: str = "") -> tuple[PlanFormat, Plan]:
    """The plan in ``data``, in format ``name`` (empty: by its content); ``where`` is the file's name.

    Raises :class:`InputError` where it is in no format that the family reads, or was made for another instance, and
    :class:`SolverUnavailableError` where the format's extra is missing.
    """
    family = family_of(instance)
    form = family.plan_format(name) if name else recognised(data, where, instance)
    read = [one.name for one in family.plan_formats if one.adopt]
    if form is None:
        remedy = f"Name its format with --as: {', '.join(read)}." if read else "`chipmap check` takes solutions."
        raise InputError(f"is in no format of plans that family {family.name!r} reads", where, remedy)
    if not form.adopt:
        raise InputError(f"{form.name} isn't read, only written", where, f"Formats that are: {', '.join(read)}.")
    require(form)
    _of_this(data, where, instance)
    plan: Plan = resolve(form.adopt)(instance, data, where)
    return form, plan


def solution_in(data: bytes, where: str, instance: Record) -> Record | None:
    """The solution of a file in a format of plans; None where it is in none. A plan that leaves something open is
    refused."""
    if recognised(data, where, instance) is None:
        return None
    _, plan = read_plan(data, where, instance)
    if plan.solution is None:
        remedy = "Say all of the mapping, or let `chipmap adopt INSTANCE PLAN` complete it in the best way."
        raise InputError(f"{plan.left}: the plan says {plan.covered}", where, remedy)
    found: Record = plan.solution
    return found


def _of_this(data: bytes, where: str, instance: Record) -> None:
    """Refuse what says that it was made for another instance."""
    told, path = PlanData.within(data), Path(beside(where))
    if told is None and path.is_file():
        told = PlanData.within(path.read_bytes())
    if told is None or told.instance_hash in ("", instance.content_hash):
        return
    same = told.graph and told.graph == graph_hash(instance)
    what = f"was made for {'other costs or chips of this network' if same else 'another instance'}: {told.instance}, "
    what += f"whose hash begins with {told.instance_hash[:12]}, this instance's with {instance.content_hash[:12]}"
    remedy = "Name that instance (the run's archive holds it), or emit the plan again from a run of this one."
    raise InputError(
        what, where, remedy if not same else f"{remedy} To judge it here all the same, {_forget(told, path)}."
    )


def _forget(told: PlanData, path: Path) -> str:
    return f"remove {path.name}" if path.is_file() else "remove what it says of its run"
