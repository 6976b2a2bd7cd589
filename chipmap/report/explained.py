"""An explanation as text: statements, the changes that help, and two solutions side by side."""

from __future__ import annotations

import textwrap
from typing import Any

from chipmap.explanation import Change, Difference, Explanation, Side
from chipmap.family import get_family
from chipmap.records import Unit, Units
from chipmap.records.quantities import number
from chipmap.report.rows import amount, digits
from chipmap.report.tables import columns, terminal_width

#: Moves, loads and changes printed in a table; JSON holds all.
SHOWN = 20
#: The column of how many chips are used, which not every family has.
USED = 3
#: Characters of a line, where the terminal isn't narrower.
WIDEST = 110


def text(found: Explanation, units: Units, title: str, called: tuple[str, str] = ("SOLUTION", "--against")) -> str:
    """What `chipmap explain` prints of an explanation; ``called``: two solutions that are compared."""
    text = f"{title}: {found.status}\n"
    for told in found.statements:
        text += textwrap.fill(told.message, _width(), initial_indent="- ", subsequent_indent="  ") + "\n"
    text += _changes(found, units)
    text += "".join(f"{note.text}\n" for note in found.notes)
    if found.difference is not None:
        text += _difference(found.difference, units, found.family, called)
    return text


def _width() -> int:
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
    gain = "" if change.gain is None else f"{100 * change.gain:+.1f}%"
    used = f"{change.figures[f'{places}_used']} of {change.figures[places]}" if places in change.figures else ""
    standing: str = change.standing
    if standing == "best found" and change.bound is not None:
        standing += f" (>= {digits(change.bound, unit)})"
    return change.what, amount(change.objective, unit), gain, used, standing, change.setting


def _difference(found: Difference, units: Units, family: str, called: tuple[str, str]) -> str:
    sides = zip(_side(found.before, units), _side(found.after, units), strict=True)
    rows = [("", *called), *((name, a, b) for (name, a), (_, b) in sides)]
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
    loads = [("resource", "quantity", *called)]
    loads += [(r["resource"], r["quantity"], number(r["before"]), number(r["after"])) for r in found.resources[:SHOWN]]
    text += (columns(loads) + _more(len(found.resources))) if found.resources else ""
    for which, one in zip(called, (found.before, found.after), strict=True):
        text += columns((which, v.label, v.message) for v in one.violations[:SHOWN]) + _more(len(one.violations))
    return text


def _more(count: int) -> str:
    return f"  and {count - SHOWN} more (--format json prints all)\n" if count > SHOWN else ""


def _side(one: Side, units: Units) -> list[tuple[str, str]]:
    from chipmap.report.rows import digits

    parts = [("objective", one.objective, units.objective)]
    parts += [(name, ticks, units.of(name)) for name, ticks in sorted(one.terms.items())]
    rows = [("checked", "valid" if one.feasible else f"refused ({len(one.violations)})")]
    rows += [(f"{name} {unit.name}", digits(ticks, unit)) for name, ticks, unit in parts]
    return rows + [(name, number(value)) for name, value in sorted(one.figures.items())]
