"""What comes back of the best mappings known: each format, but those that are only written or carry the program.

``python -m tests.plans.round_trips [FAMILY ...]`` counts them over all shipped instances.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from chipmap.family import FAMILY_NAMES, Family, PlanFormat, get_family, resolve
from chipmap.known import registry
from chipmap.plans.emission import unsuited
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.plans.reading import read_plan

#: Operations above which an instance is left to the count by hand.
SMALL = 200


def known(family: Family, most: int | None = None) -> Iterator[tuple[Any, Any]]:
    """(instance, solution) of every entry of the registry whose solution is there; of at most so many operations."""
    for entry in registry.entries_of(family.name).values():
        plain = registry.solution_of(entry)
        if plain is None:
            continue
        instance: Any = registry.made(entry.origin)
        graph = getattr(instance, "graph", None)
        if most is None or graph is None or len(graph.operations) <= most:
            yield instance, resolve(family.solution).make(**plain)


def formats(family: Family) -> list[PlanFormat]:
    """Those that are read, and need no model's file."""
    return [form for form in family.plan_formats if form.adopt and form.emit and not form.model]


def came_back(family: Family, form: PlanFormat, instance: Any, solution: Any) -> str:
    """What came back of a mapping: ``same`` (its certificate), ``kept`` (a plan that leaves something open, under which
    the mapping is allowed at the same objective), ``unsuited``; else what is wrong."""
    if unsuited(form, instance, solution) is not None:
        return "unsuited"
    file, data = next(iter(resolve(form.emit)(instance, solution, EmitOptions()).items()))
    _, plan = read_plan(data.encode() if isinstance(data, str) else data, file, instance, form.name)
    check = resolve(family.check)
    before = check(instance, solution)
    if plan.solution is not None and plan.pinned is None:
        after = check(instance, plan.solution)
        same = (after.feasible, after.objective, after.terms) == (before.feasible, before.objective, before.terms)
        return "same" if same else f"{before} comes back as {after}"
    return _kept(check, plan, solution, before)


def _kept(check: Any, plan: Plan, solution: Any, before: Any) -> str:
    after = check(plan.pinned, solution)
    return "kept" if (after.feasible, after.objective) == (True, before.objective) else f"{before} isn't kept: {after}"


def main() -> None:
    """Count them."""
    for name in sys.argv[1:] or FAMILY_NAMES:
        family, seen, instances = get_family(name), Counter[tuple[str, str]](), 0
        for instance, solution in known(family):
            instances += 1
            for form in formats(family):
                said = came_back(family, form, instance, solution)
                seen[form.name, said] += 1
                if said not in ("same", "kept", "unsuited"):
                    print(instance.name, form.name, said)
        print(f"{name}: {instances} instances;", ", ".join(f"{a} {b} {n}" for (a, b), n in sorted(seen.items())))


if __name__ == "__main__":
    main()
