"""Plans of the best mappings known, out and in: every entry of the registry, every format that needs no model's file.

    python -m benchmarks.plan_round_trips [--family NAME ...] [--above N] [--out FILE]

Each mapping whose solution is kept is written in each format that suits, and read again. What comes back has the same
certificate, or is a partial plan that the mapping keeps to. Seconds are CPU seconds of writing, and of reading with the
check of what came back; those of the check of the mapping itself stand beside them. Instances of up to N operations
(200) are passed over: `tests/plans/test_round_trips.py` has them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from chipmap.family import FAMILY_NAMES, get_family, resolve
from chipmap.plans.emission import unsuited
from tests.plans.round_trips import SMALL, came_back, formats, known

OUT = Path(__file__).resolve().parent / "results" / "plan-round-trips.md"


class Trip(NamedTuple):
    """A mapping in a format: what came back, CPU seconds in all and of a check of the mapping."""

    family: str
    instance: str
    operations: int
    format: str
    said: str
    seconds: float
    check: float


def trips(names: list[str], above: int) -> Iterator[Trip]:
    """All mappings of instances of more than so many operations."""
    for name in names:
        family = get_family(name)
        for instance, solution in known(family):
            count = size(instance)
            if count <= above:
                continue
            began = time.process_time()
            resolve(family.check)(instance, solution)
            check = time.process_time() - began
            for form in formats(family):
                if unsuited(form, instance, solution) is None:
                    began = time.process_time()
                    said = came_back(family, form, instance, solution)
                    yield Trip(name, instance.name, count, form.name, said, time.process_time() - began, check)


def size(instance: Any) -> int:
    """Operations, kernels or layers."""
    if (graph := getattr(instance, "graph", None)) is not None:
        return len(graph.operations)
    if (workload := getattr(instance, "workload", None)) is not None:
        return len(workload.kernels)
    return sum(len(model.layers) for model in getattr(instance, "models", ()))


def page(found: list[Trip], above: int) -> str:
    """The page: what came back, and the slowest."""
    bad = [one for one in found if one.said not in ("same", "kept")]
    instances = len({(one.family, one.instance) for one in found})
    text = [
        "# Round trips of plans",
        "",
        "Made by `python -m benchmarks.plan_round_trips`. The best mappings known of",
        f"{instances} instances of more than {above} operations are written in every format",
        "that suits and needs no file of the model, and read again:",
        f"{len(found)} round trips, {len(bad)} of which fail. *Same*: the certificate is the same.",
        "*Kept*: the plan leaves something open, and the mapping keeps to it at the same objective.",
        "CPU seconds are those of writing, reading and two checks; a check alone takes the last column.",
        "",
        "| family | instance | operations | format | came back | CPU s | a check |",
        "|---|---|--:|---|---|--:|--:|",
    ]
    for one in sorted(found, key=lambda one: (one.family, one.instance, one.format)):
        cells = [one.family, one.instance, f"{one.operations:,}", one.format, one.said]
        text.append("| " + " | ".join([*cells, f"{one.seconds:.2f}", f"{one.check:.2f}"]) + " |")
    return "\n".join(text) + "\n"


def main() -> int:
    """Measure all and write the page after each; 1 if one doesn't come back."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", nargs="*", default=list(FAMILY_NAMES), choices=list(FAMILY_NAMES))
    parser.add_argument("--above", type=int, default=SMALL)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    found: list[Trip] = []
    for one in trips(args.family, args.above):
        found.append(one)
        print(*one, flush=True)
        args.out.write_text(page(found, args.above), encoding="utf-8")
    return int(any(one.said not in ("same", "kept") for one in found))


if __name__ == "__main__":
    sys.exit(main())
