"""Modules that stay whole (`--no-split`): what a name means, what it costs, and what is refused.

The groups are those of C1, so models and checker know them; here a judge of its own says which placements split a
module: two operations below one module's path on two devices.
"""

from __future__ import annotations

from random import Random

import pytest

from chipmap import SolveOptions, solve
from chipmap.formulations.placement import cpsat, mip
from chipmap.instances.grain import no_split
from chipmap.instances.placement import PlacementInstance
from chipmap.records import InputError
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import candidates
from tests.lanes import of_all
from tests.placement.page import Judge, Page
from tests.placement.random_instances import CHAIN, made, tiny_instance

MODULES = ("", "a", "a.0", "a.1", "a.1.x", "b")
CLASSES = {"a": "List", "a.0": "Block", "a.1": "Block", "b": "Head"}
#: A name, and the paths of the modules that it means.
NAMES = {"Block": ("a.0", "a.1"), "a.*": ("a.0", "a.1"), "a": ("a",), "b": ("b",), "Head": ("b",), "a.1.x": ("a.1.x",)}


def with_modules(random: Random) -> PlacementInstance:
    instance = tiny_instance(random)
    scopes = tuple(random.choice(MODULES) for _ in instance.graph.operations)
    return instance.replace(scopes=scopes, module_classes=CLASSES, together=())


def inside(scope: str, module: str) -> bool:
    return scope == module or scope.startswith(f"{module}.")


def optimum(instance: PlacementInstance, name: str) -> int | None:
    """The least value of the placements that split no module of that name, by the page alone."""
    page, found = Page(instance), list[int]()
    for one in candidates(instance):
        at = one.devices
        split = any(
            len({at[page.ops[v].name] for v in page.placed if inside(instance.scopes[v], module)}) > 1
            for module in NAMES[name]
        )
        verdict = Judge(page, one).verdict() if not split else None
        if verdict is not None and not verdict.broken:
            assert verdict.objective is not None
            found.append(verdict.objective)
    return min(found, default=None)


def test_brute_force_models_and_search_agree() -> None:
    random, seen, compared = Random(21), set[bool](), 0
    while compared < of_all(160, few=12):
        free, name = with_modules(random), random.choice([*NAMES])
        try:
            instance = no_split(free, [name]).instance
        except InputError as error:
            assert error.where == "--no-split" or error.where.startswith("together")
            continue
        compared += 1
        best = optimum(free, name)
        seen.add(best is None)
        for build, solver in ((mip.build, "highs"), (cpsat.build, "cpsat")):
            outcome = solve_model(build(instance), SolveRequest(time_limit=60.0, threads=1), solver)
            found = None if best is None else pytest.approx(best, rel=1e-6)
            assert outcome.termination.reason == ("infeasible" if best is None else "optimal")
            assert best is None or outcome.objective == found
        result = solve(instance, "auto", SolveOptions(threads=1, deterministic=True))
        assert (result.objective, result.status) == (best, "infeasible" if best is None else "optimal")
    assert False in seen


def test_a_name_is_a_class_a_path_or_a_pattern() -> None:
    rows = [(1, 0, 1)] * 5
    scopes = ("a.0", "a.0.x", "a.1", "a.1.y", "b")
    free = made(rows, CHAIN).replace(scopes=scopes, module_classes=CLASSES)
    blocks = (("v0", "v1"), ("v2", "v3"))
    for name in ("Block", "a.*", "a.[01]"):
        assert no_split(free, [name]).instance.together == blocks
    assert no_split(free, ["a.0.x", "Block"]).instance.together == blocks  # the outermost module counts
    assert no_split(free, ["List"]).instance.together == (("v0", "v1", "v2", "v3"),)
    assert no_split(free, ["Head"]).instance is free  # one operation alone can't be split
    again = no_split(no_split(free, ["Block"]).instance, ["Block"])
    assert again.instance.together == blocks and not again.report


def test_what_is_refused() -> None:
    free = made([(1, 0, 1)] * 2, []).replace(scopes=("a.0", "a.1"), module_classes=CLASSES)
    with pytest.raises(InputError, match="no module and no class of modules is called 'Blok'") as met:
        no_split(free, ["Blok"])
    assert met.value.where == "--no-split" and "Did you mean Block?" in met.value.remedy
    with pytest.raises(InputError, match="says what module it is part of"):
        no_split(free.replace(scopes=()), ["Block"])
