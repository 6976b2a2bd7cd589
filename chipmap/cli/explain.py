"""``chipmap explain``: why an instance is infeasible or what holds its objective up, and which changes would help."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from chipmap.cli.common import add_format, add_instance, columns, put, read_instance, say, titled
from chipmap.cli.parsing import seconds
from chipmap.explanation import Change, Difference, Explanation, Side, Step
from chipmap.family import family_of, get_family
from chipmap.records import Unit, Units

#: Seconds when ``--time-limit`` is silent.
TIME_LIMIT = 60.0
#: Moves, loads and changes printed in a table; JSON holds all.
SHOWN = 20
#: The column of how many chips are used, which not every family has.
USED = 3
#: Characters of a line, where the terminal isn't narrower.
WIDEST = 110


EXAMPLES = (
    "chipmap explain ring/tiny-infeasible",
    "chipmap explain ring/bert-large-36 runs/bert --time-limit 2min",
    "chipmap explain dataflow/table6-free-8x1 --time-limit 2min",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Explain INSTANCE: what is short, or what holds its objective up and why chips stay unused. Every change that is
    suggested has been made, solved and checked. With SOLUTION, how far that is from the best known; with --against,
    what differs between two solutions."""
    add_instance(parser)
    parser.add_argument("solution", metavar="SOLUTION", nargs="?", help="a solution or result file, an archive, or -")
    parser.add_argument("--against", metavar="SOLUTION2", help="another solution, to compare SOLUTION with")
    what = f"seconds in all (or 2min, 1h; default {TIME_LIMIT:g})"
    parser.add_argument("--time-limit", metavar="S", type=seconds, default=TIME_LIMIT, help=what)
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 0, 2 if the instance is infeasible, 3 if nothing is known, 4 if SOLUTION is refused."""
    from chipmap.explain import explain
    from chipmap.inputs.solutions import read_solution
    from chipmap.process.warming import warm
    from chipmap.run import SolveOptions

    instance = read_instance(args.instance, args.set, args.family)
    family = family_of(instance)
    named = (args.solution, args.against)
    one, other = (None if name is None else read_solution(name, family, instance) for name in named)
    options, progress = SolveOptions(time_limit=args.time_limit), None if args.quiet else _show
    warm(family, say)
    found = explain(instance, one, other, options, progress, isolate=True)
    units = family.units_of(instance)
    title = titled(found.instance, args.set)
    put(args.format, natural_explanation(found, units), lambda _: _text(found, units, title))
    if found.given is not None and not found.given.feasible:
        return 4
    return {"infeasible": 2, "unknown": 3}.get(found.status, 0)


def _show(step: Step) -> None:
    words = "solving the instance as it is" if step.kind == "instance" else step.what
    say(f"  {words}{', once more' if step.again else ''}")


def natural_explanation(found: Explanation, units: Units) -> dict[str, Any]:
    """The explanation as plain data, with objectives, bounds and terms in their units."""
    import msgspec

    from chipmap.report.rows import in_units, term_units

    shown = in_units(msgspec.to_builtins(found), units)
    shown |= {"unit": units.objective.name, "term_units": term_units(found.terms, units)}
    shown["changes"] = [in_units(change, units) for change in shown["changes"]]
    if found.given is not None:
        shown["given"] = in_units(shown["given"], units)
    if found.difference is not None:
        both = {which: in_units(shown["difference"][which], units) for which in ("before", "after")}
        shown["difference"] |= both
    return shown


def _text(found: Explanation, units: Units, title: str) -> str:
    text = f"{title}: {found.status}\n"
    for told in found.statements:
        text += textwrap.fill(told.message, _width(), initial_indent="- ", subsequent_indent="  ") + "\n"
    text += _changes(found, units)
    text += "".join(f"{note.text}\n" for note in found.notes)
    if found.difference is not None:
        text += _difference(found.difference, units, found.family)
    return text


def _width() -> int:
    from chipmap.report.tables import terminal_width

    return min(WIDEST, terminal_width() or WIDEST)


def _changes(found: Explanation, units: Units) -> str:
    """The changes that help, as a table; those that don't in one line."""
    helpful = [c for c in found.changes if c.objective is not None and (c.gain is None or c.gain > 0)]
    costly = [c for c in found.changes if c.gain is not None and c.gain < 0]
    text = ""
    if helpful or costly:
        called = get_family(found.family).called
        places = f"{called.get('place', 'place')}s"
        rows = [_row(change, units.objective, places) for change in [*helpful[:SHOWN], *costly[-SHOWN:]]]
        head = ("change", called.get("objective", "objective"), "gain", f"{places} used", "standing", "--set")
        shown = [i for i in range(len(head)) if i != USED or any(row[i] for row in rows)]
        table = [tuple(row[i] for i in shown) for row in (head, *rows)]
        text += f"\nchanges, each solved and checked:\n{columns(table)}"
    groups = {
        "no gain": [c.what for c in found.changes if c.gain == 0 and c.standing == "proved"],
        "no gain found": [c.what for c in found.changes if c.gain == 0 and c.standing != "proved"],
        "no mapping": [c.what for c in found.changes if c.standing == "infeasible"],
        "undecided": [c.what for c in found.changes if c.standing == "unknown"],
    }
    for words, names in groups.items():
        if names:
            text += textwrap.fill(
                f"{words}: {'; '.join(names)}", _width(), initial_indent="  ", subsequent_indent="    "
            )
            text += "\n"
    return text


def _row(change: Change, unit: Unit, places: str) -> tuple[str, ...]:
    from chipmap.report.rows import amount, digits

    gain = "" if change.gain is None else f"{100 * change.gain:+.1f}%"
    used = f"{change.figures[f'{places}_used']} of {change.figures[places]}" if places in change.figures else ""
    standing: str = change.standing
    if standing == "best found" and change.bound is not None:
        standing += f" (>= {digits(change.bound, unit)})"
    return change.what, amount(change.objective, unit), gain, used, standing, change.setting


def _difference(found: Difference, units: Units, family: str) -> str:
    from chipmap.records.quantities import number

    sides = zip(_side(found.before, units), _side(found.after, units), strict=True)
    rows = [("", "SOLUTION", "--against"), *((name, a, b) for (name, a), (_, b) in sides)]
    text = f"\nthe two solutions:\n{columns(rows)}"
    place, amount = (
        get_family(family).called.get("place", "place"),
        next((key for m in found.moved for key in m.figures), ""),
    )
    moves: list[tuple[Any, ...]] = [("moved", "operations", f"from {place}", f"to {place}", amount.replace("_", " "))]
    for m in found.moved[:SHOWN]:
        which = m.first if m.first == m.last else f"{m.first} .. {m.last}"
        moves.append((which, m.operations, m.source, m.target, number(m.figures[amount])))
    text += columns(moves) if found.moved else "" if found.resources else "  no operation moved\n"
    text += _more(len(found.moved))
    loads = [("resource", "quantity", "SOLUTION", "--against")]
    loads += [(r["resource"], r["quantity"], number(r["before"]), number(r["after"])) for r in found.resources[:SHOWN]]
    text += (columns(loads) + _more(len(found.resources))) if found.resources else ""
    for which, one in (("SOLUTION", found.before), ("--against", found.after)):
        text += columns((which, v.label, v.message) for v in one.violations[:SHOWN]) + _more(len(one.violations))
    return text


def _more(count: int) -> str:
    return f"  and {count - SHOWN} more (--format json prints all)\n" if count > SHOWN else ""


def _side(one: Side, units: Units) -> list[tuple[str, str]]:
    from chipmap.records.quantities import number
    from chipmap.report.rows import digits

    parts = [("objective", one.objective, units.objective)]
    parts += [(name, ticks, units.of(name)) for name, ticks in sorted(one.terms.items())]
    rows = [("checked", "valid" if one.feasible else f"refused ({len(one.violations)})")]
    rows += [(f"{name} {unit.name}", digits(ticks, unit)) for name, ticks, unit in parts]
    return rows + [(name, number(value)) for name, value in sorted(one.figures.items())]
