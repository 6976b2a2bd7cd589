"""``emit``: a run's mapping in the format that a runtime takes, with what is proved of it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

from chipmap.family import Family, PlanFormat, family_of, resolve
from chipmap.plans.plan import EmitOptions, PlanData
from chipmap.records import InputError, Record, SolverUnavailableError, counted
from chipmap.result import Result

#: The ending of the file beside a plan that says what run it is from.
BESIDE = ".plan.json"
#: Formats with times, in which an operation may take as long as fetching its weights does.
WITH_TIMES = ("chrome-trace",)


def emit(result: Result, instance: Record, solution: Record, name: str, model: str = "") -> dict[str, bytes]:
    """The plan's files in format ``name``: file name -> content.

    ``model``: the model's file, for formats that carry the program. Where a format has no place for it, what is said of
    the run (:class:`~chipmap.plans.plan.PlanData`) is a file beside, with the ending :data:`BESIDE`. Raises
    :class:`InputError` for a format that is unknown or doesn't suit (it names those that do), and
    :class:`SolverUnavailableError` where an extra is missing.
    """
    family = family_of(instance)
    form = family.plan_format(name)
    if not form.emit:
        raise InputError(f"{name} isn't written, only read", result.instance, "`chipmap emit RUN` lists the formats.")
    if (why := unsuited(form, instance, solution)) is not None:
        suiting = [one.name for one, reason in listed(family, instance, solution) if reason is None]
        remedy = f"Formats that suit: {', '.join(suiting)}." if suiting else "No format suits it."
        raise InputError(f"{name} doesn't suit: {why}", result.instance, remedy)
    if form.model and not model:
        raise InputError(f"{name} carries the program", "--model", "Name the model's file, of which the instance is.")
    if model and not form.model:
        raise InputError(f"{name} needs no model's file", "--model", "Leave it out.")
    require(form)
    told = PlanData.of(result, instance, family, name)
    made: dict[str, Any] = resolve(form.emit)(instance, solution, EmitOptions(model, told))
    files = {file: data.encode() if isinstance(data, str) else data for file, data in made.items()}
    if not form.inside:
        files[beside(next(iter(files)))] = told.to_json(indent=1)
    return files


def listed(family: Family, instance: Record, solution: Record | None) -> Iterator[tuple[PlanFormat, str | None]]:
    """The family's formats that are written, each with why it doesn't suit (None: it does)."""
    for form in family.plan_formats:
        if form.emit:
            yield form, unsuited(form, instance, solution)


def unsuited(form: PlanFormat, instance: Record, solution: Record | None) -> str | None:
    """Why a format can't say this mapping, in words; None: it can."""
    if getattr(getattr(instance, "system", None), "others", ()):
        return "stages run on groups of unequal chips"
    fetched = getattr(solution, "fetched", ())
    if fetched and form.name not in WITH_TIMES:
        count = f"{counted(len(fetched), 'operation')} ({fetched[0]!r} the first)"
        return f"{count} fetch their weights from the host, which it can't say; --set task.fetch_bytes_per_ns=null"
    found: str | None = resolve(form.suits)(instance, solution)
    return found


def require(form: PlanFormat) -> None:
    """Raise :class:`SolverUnavailableError` where what the format needs isn't installed."""
    if form.package and find_spec(form.package) is None:
        what = f"{form.name} needs {form.package}, which is not installed"
        raise SolverUnavailableError(f'{what}\n  Install it: pip install "chipmap[{form.extra}]"')


def beside(file: str) -> str:
    """The name of the file that says what run ``file`` is from: ``device_map.plan.json``."""
    return str(PurePath(file).with_suffix(BESIDE))
