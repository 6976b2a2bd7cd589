"""The published graphs on 36 chips, C1 to C3: optimum, bound, gap, seconds, and how far from the reference values.

    python -m benchmarks.ring_reference [--variant compute|links|sum|sum_forward] [--confirm SECONDS] [--limit SECONDS]
                                        [--only NAME ...] [--markdown FILE]

Graphs and reference values are read from $CHIPMAP_DATA, else ../shared/data. Values are in units of total work / 36.
``--confirm`` refutes "optimum - 1 tick" by a second route (``benchmarks/second_route.py``), CP-SAT for at most so long.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

from benchmarks.second_route import confirm
from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.importers import traced
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CHIPMAP_DATA") or ROOT.parent / "shared" / "data") / "graphs"
CHIPS = 36
#: Link rate in bytes/ns and cost mode of each variant.
VARIANTS: dict[str, tuple[float | None, str]] = {
    "compute": (None, "period"),
    "links": (32.0, "period"),
    "sum": (32.0, "sum"),
    "sum_forward": (32.0, "sum_forward"),
}


def instance_of(path: Path, variant: str) -> RingInstance:
    """The instance of a published graph, as the reference values count: C1 to C3, ``twice_out``."""
    link, mode = VARIANTS[variant]
    graph = traced.read(path.read_bytes(), str(path))
    return RingInstance.make(
        name=graph.name,
        graph=graph,
        package=Package(chips=CHIPS, link_bytes_per_ns=link),
        cost_mode=mode,
        traffic="twice_out",
        constraints=("C1", "C2", "C3"),
    )


def bracket(row: dict[str, Any], variant: str) -> tuple[float, float] | None:
    """(lower, upper) that the reference file gives, or None."""
    if row.get("skipped") or variant not in ("compute", "links"):
        return None
    lower = row["n1_lower_over_avg"]
    if variant == "compute":
        return lower, row["path_upper_over_avg"]
    return max(lower, row["free_with_links_over_avg"]), row["path_with_links_over_avg"]


def agreement(result: Result, unit: float, known: tuple[float, float] | None, variant: str) -> str:
    """How the result lies to the reference's bracket: equal, inside, or out of it."""
    if known is None or result.objective is None or result.bound is None:
        return ""
    tolerance = 2e-4 if variant == "compute" else 5e-4
    low, high = known
    if (high - low) <= tolerance * high:
        share = result.objective / unit / high - 1
        return f"{'equal' if abs(share) <= tolerance else 'DIFFERENT'} ({share:+.0e})"
    inside = low * (1 - tolerance) <= result.objective / unit and result.bound / unit <= high * (1 + tolerance)
    return f"inside {low:.4f} to {high:.4f}" if inside else f"OUTSIDE {low:.4f} to {high:.4f}"


def main() -> None:
    """Solve, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=list(VARIANTS), default="compute")
    parser.add_argument("--confirm", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    reference = {row["name"]: row for row in json.loads((DATA / "ring_reference_36chips.json").read_text())["rows"]}
    lines = ["| graph | value | bound | gap | s | found by | bound by | reference | second route |"]
    lines.append("| --- | --: | --: | --: | --: | --- | --- | --- | --- |")
    print("\n".join(lines))
    counts = {"graphs": 0, "optimal": 0, "equal": 0, "DIFFERENT": 0, "OUTSIDE": 0, "confirmed": 0}
    for folder in ("torchvision-like", "transformers-like"):
        for path in sorted((DATA / folder).glob("*.json")):
            if arguments.only and path.stem not in arguments.only:
                continue
            instance = instance_of(path, arguments.variant)
            unit = ring_problem(instance).total_ticks / CHIPS
            result = solve(instance, options=SolveOptions(time_limit=arguments.limit, threads=2), isolate=True)
            agrees = agreement(result, unit, bracket(reference[instance.name], arguments.variant), arguments.variant)
            second = ""
            if arguments.confirm and result.status == "optimal" and result.objective is not None:
                second = confirm(instance, result.objective, arguments.confirm) or "none in time"
            counts["graphs"] += 1
            counts["optimal"] += result.status == "optimal"
            counts["confirmed"] += second not in ("", "none in time")
            for word in ("equal", "DIFFERENT", "OUTSIDE"):
                counts[word] += agrees.startswith(word)
            bound_by = max(result.bounds, key=lambda bound: bound.value).source if result.bounds else ""
            lines.append(
                f"| {instance.name} | {(result.objective or 0) / unit:.4f} | {(result.bound or 0) / unit:.4f} "
                f"| {'n/a' if result.gap is None else f'{result.gap:.2%}'} | {result.seconds:.2f} "
                f"| {result.incumbent_source} | {bound_by} | {agrees} | {second} |"
            )
            print(lines[-1], flush=True)
    summary = ", ".join(f"{word} {count}" for word, count in counts.items())
    print(summary)
    if arguments.markdown:
        command = f"python -m benchmarks.ring_reference --variant {arguments.variant} --confirm {arguments.confirm:g}"
        head = f"`{command}` on {os.cpu_count()} cores, Python {platform.python_version()}; {summary}.\n\n"
        title = f"# Published graphs on {CHIPS} chips, C1 to C3: {arguments.variant}\n\n"
        arguments.markdown.write_text(title + head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
