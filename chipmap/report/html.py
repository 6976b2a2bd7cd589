"""The HTML report of a directory of archives: one file, no external resource."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chipmap.family import get_family
from chipmap.known.compare import above, compared
from chipmap.records import counted
from chipmap.records.quantities import percent, suited
from chipmap.report.collect import Entry
from chipmap.report.html_run import pill, relative, run_section
from chipmap.report.markup import Markup, join, table, tag
from chipmap.report.rows import digits, sign, units_of
from chipmap.report.style import CSS
from chipmap.result import Bound, Result, best_bound, gap
from chipmap.run import contradict


@dataclass(frozen=True)
class Known:
    """What is known of one instance: the best valid objective and the best bound in ticks, each with who found it, of
    all its runs and of the registry."""

    runs: tuple[Result, ...]
    objective: int | None
    found_by: str
    bound: Bound | None
    infeasible: bool = False

    @property
    def gap(self) -> float | None:
        """The gap between the best objective and the best bound, whichever runs they come from."""
        if self.objective is None or self.bound is None:
            return None
        return gap(self.objective, min(self.bound.value, self.objective))

    @property
    def contradiction(self) -> bool:
        """Whether the bound lies above the objective by more than the tolerance: then one of the runs is wrong."""
        return self.objective is not None and self.bound is not None and contradict(self.objective, self.bound.value)


def best_known(results: Iterable[Result]) -> dict[str, Known]:
    """What is known of each instance, by its content hash (:func:`problem`), in the order of the results."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(problem(result), []).append(result)
    return {key: _known(runs) for key, runs in groups.items()}


def problem(result: Result) -> str:
    """The hash of the result's instance and its tick, with the user's own constraint if there was one: that is another
    problem."""
    what, oracle = [result.instance_hash, str(units_of(result).objective.per_tick)], result.provenance.get("oracle")
    if not oracle:
        return " ".join(what)
    named = [oracle.get(key) for key in ("name", "version", "scope")] if isinstance(oracle, dict) else [oracle]
    return " ".join([*what, *map(str, named)])


def _known(runs: list[Result]) -> Known:
    """The registry's word counts where the runs are no better; a user's own constraint makes it another problem."""
    valid = [r for r in runs if r.objective is not None and r.certificate is not None and r.certificate.feasible]
    values = [(run.objective or 0, run.method) for run in valid]
    bounds = [bound for result in runs for bound in result.bounds]
    beside = compared(runs[0])
    if beside is not None:
        entry = beside.entry
        if entry.objective is not None:
            values.insert(0, (entry.objective, f"registry: {entry.found}"))
        if entry.bound is not None:
            bounds.insert(0, Bound(value=entry.bound, source=f"registry: {entry.proved}", seconds=-1.0))
    objective, found_by = min(values, key=lambda value: value[0], default=(None, ""))
    proved = any(run.status == "infeasible" for run in runs) or (beside is not None and beside.entry.infeasible)
    return Known(tuple(runs), objective, found_by, best_bound(bounds), objective is None and proved)


def page(entries: list[Entry], folder: Path) -> str:
    """The report as one HTML document."""
    whole = [entry for entry in entries if entry.result is not None]
    broken = [entry for entry in entries if entry.result is None]
    results = [entry.result for entry in whole if entry.result is not None]
    known = best_known(results)
    title = f"chipmap report: {folder.resolve().name}"
    main = tag(
        "main",
        tag("h1", title),
        tag("p", _summary(results, known, broken), class_="muted"),
        *(tag("p", _contradiction(k), class_="warning") for k in known.values() if k.contradiction),
        join(tag("h2", "Optimality gaps"), _gaps(results, known)) if whole else None,
        join(tag("h2", "Best known per instance"), _best(known)) if known else None,
        join(tag("h2", "Not read"), _broken(broken, folder)) if broken else None,
        tag("h2", "Runs") if whole else None,
        *(run_section(entry, i, is_open=len(whole) <= 3) for i, entry in enumerate(whole)),
    )
    head = join(
        tag("title", title),
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f"<style>{CSS}</style>"),
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{main}</body></html>\n'


def _summary(results: list[Result], known: dict[str, Known], broken: list[Entry]) -> str:
    proved = sum(k.gap == 0.0 and not k.contradiction for k in known.values())
    parts = [f"{counted(len(results), 'run')} of {counted(len(known), 'instance')}", f"{proved} proved optimal"]
    if broken:
        parts.append(f"{counted(len(broken), 'archive')} not read")
    return "; ".join(parts) + ". Every objective is the independent checker's; every bound names its source."


def _contradiction(known: Known) -> str:
    assert known.bound is not None
    first = known.runs[0]
    ticks = f"ticks of {get_family(first.family).tick}"
    return (
        f"{first.instance}: the bound of {known.bound.source} ({known.bound.value:,} {ticks}) lies above "
        f"the checked objective of {known.found_by} ({known.objective:,}). One of the two is wrong: please report it."
    )


def _gaps(results: list[Result], known: dict[str, Known]) -> Markup:
    body = []
    for i, result in enumerate(results):
        unit = suited(result.objective or result.bound, units_of(result).objective)
        link = tag("a", result.instance, href=f"#run-{i}")
        status = pill(result.status, result.failure)
        values = (digits(result.objective, unit), digits(result.bound, unit), sign(unit), _gap_cell(result.gap))
        share = percent(above(result.objective, known[problem(result)].objective))
        body.append((link, result.method, status, *values, share, f"{result.seconds:,.2f}"))
    head = ("instance", "method", "status", "objective", "bound", "unit", "gap", "above best known", "seconds")
    return tag("div", table(head, body, {3, 4, 6, 7, 8}), class_="card")


def _gap_cell(share: float | None) -> Markup:
    """The gap with a bar as long as it is, full at 100%."""
    if share is None:
        return join(percent(None))
    bar = tag("span", tag("i", style=f"width:{min(100.0, 100 * share):.1f}%"), class_="gap", aria_hidden="true")
    return join(percent(share), bar)


def _best(known: dict[str, Known]) -> Markup:
    body = []
    for k in known.values():
        unit = suited(k.objective, units_of(k.runs[0]).objective)
        best = ("infeasible" if k.infeasible else digits(k.objective, unit), k.found_by)
        bound = (digits(k.bound.value, unit), k.bound.source) if k.bound else (percent(None), "")
        share = "contradiction" if k.contradiction else percent(k.gap)
        body.append((k.runs[0].instance, *best, *bound, sign(unit), share, len(k.runs)))
    head = ("instance", "best objective", "by", "best bound", "by", "unit", "gap", "runs")
    return tag("div", table(head, body, {1, 3, 6, 7}), class_="card")


def _broken(entries: list[Entry], folder: Path) -> Markup:
    body = [(tag("code", relative(e.path, folder)), e.problem) for e in entries]
    return tag("div", table(("archive", "why"), body), class_="card")
