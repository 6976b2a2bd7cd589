"""What ``chipmap explain`` finds on the shipped instances: why, what would help most, and how long it takes.

    python -m benchmarks.ring_explain [INSTANCE ...] [--time-limit 60] [--markdown FILE]

"Why" is the bound that comes nearest to the period, or what is short; "best change" the change with the largest gain
that keeps all constraints in force. Each explanation runs in a child process, as on the command line; seconds are wall
clock, and hold the start of that process.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path

import chipmap
from chipmap.explanation import Change, Explanation
from chipmap.inputs.reading import shipped_names

#: Changes that give up a constraint are no remedies.
GIVEN_UP = ("without", "balance")


def why(found: Explanation) -> str:
    """The statement that says most: what is short, or the bound nearest to the period."""
    short = [told for told in found.statements if told.topic in ("short", "pins", "clash")]
    if short:
        return short[0].message
    near = [told for told in found.statements if told.topic == "bound" and _bound(found, told.figures) is not None]
    return max(near, key=lambda told: _bound(found, told.figures) or 0.0).message if near else ""


def _bound(found: Explanation, figures: dict[str, float]) -> float | None:
    """The bound of a statement, in microseconds."""
    return next((figures[key] for key in ("bound_us", "longest_us", "average_us") if key in figures), None)


def best(found: Explanation) -> Change | None:
    """The change that gains most without giving up a constraint; without a mapping, the first that has one."""
    useful = [c for c in found.changes if c.kind not in GIVEN_UP and c.objective is not None]
    useful = [c for c in useful if c.gain is None or c.gain > 0]
    return max(useful, key=lambda c: c.gain or 0.0, default=None)


def row(name: str, limit: float) -> list[str]:
    """One row of the table."""
    started = time.perf_counter()
    found = chipmap.explain(name, options=chipmap.SolveOptions(time_limit=limit), isolate=True)
    seconds = time.perf_counter() - started
    change = best(found)
    helps = "" if change is None else f"{change.what} ({change.standing})"
    gain = "" if change is None or change.gain is None else f"{100 * change.gain:.1f}%"
    proved = sum(c.standing in ("proved", "infeasible") for c in found.changes)
    late = "; ".join(note.text for note in found.notes)
    return [name, found.status, why(found), helps, gain, f"{proved} of {len(found.changes)}", f"{seconds:.1f}", late]


def main() -> None:
    """Explain and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", metavar="INSTANCE", nargs="*", help="default: all shipped ring instances")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    head = ["instance", "status", "why", "best change", "gain", "changes decided", "seconds", "cut short"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    print("\n".join(lines))
    for name in arguments.instances or [name for name in shipped_names() if name.startswith("ring/")]:
        lines.append("| " + " | ".join(row(name, arguments.time_limit)) + " |")
        print(lines[-1], flush=True)
    if arguments.markdown:
        where = f"{os.cpu_count()} cores (load {os.getloadavg()[0]:.1f} at the end), Python {platform.python_version()}"
        command = f"`python -m benchmarks.ring_explain --time-limit {arguments.time_limit:g}`"
        text = f"# Explanations\n\n{command} on {where}.\n\n" + "\n".join(lines) + "\n"
        arguments.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
