"""Random tiny instances with all four fields: brute force by the page's rules = models = the best chain.

The rules are stated here once more, on plain names and places. All else (costs, other constraints) is asked of the
checker, for the instance without any of the four fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

import chipmap
from chipmap.family import family_of, resolve
from chipmap.instances import placement, ring
from chipmap.records import InputError
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import candidates, count
from tests.lanes import of_all
from tests.placement import random_instances as random_placement
from tests.ring import random_instances as random_ring

#: Instances in each of the blocks.
NUMBER = 25
FREE: dict[str, Any] = {"pins": (), "forbidden": (), "together": (), "apart": ()}


def groups(random: Random, names: list[str]) -> tuple[tuple[str, ...], ...]:
    """No group, or one or two of two or three names."""
    count = random.choice((0, 1, 1, 1, 2))
    return tuple(tuple(random.sample(names, min(len(names), random.choice((2, 2, 2, 3))))) for _ in range(count))


def four_fields(random: Random, names: list[str], places: list[Any], words: Any, place: str) -> dict[str, Any]:
    """Each of the four fields at random, with the records of the family."""
    pins = random.sample(names, random.choice((0, 0, 1)))
    forbidden = random.sample(names, random.choice((0, 0, 1, min(2, len(names)))))
    return {
        "pins": tuple(words.Pin(operation=name, **{place: random.choice(places)}) for name in pins),
        "forbidden": tuple(
            words.Forbidden(operation=name, **{f"{place}s": (random.choice(places),)}) for name in forbidden
        ),
        "together": groups(random, names) if random.random() < 0.4 else (),
        "apart": groups(random, names),
    }


def ring_instance(random: Random) -> Any:
    """A tiny instance of family ``ring``."""
    made = random_ring.random_instance(random, operations=5, chips=3, side=False)
    names = [one.name for one in made.graph.operations if one.role == "compute"]
    chips = list(range(made.package.chips))
    return made.replace(**four_fields(random, names, chips, ring, "chip")) if len(names) > 1 else None


def placement_instance(random: Random, objective: str) -> Any:
    """A tiny instance of family ``placement`` of that objective."""
    made = random_placement.tiny_instance(random)
    while made.task.objective != objective:
        made = random_placement.tiny_instance(random)
    roles = ("compute", "constant") if made.task.weights == "variable" else ("compute",)
    names = [one.name for one in made.graph.operations if one.role in roles]
    devices = [one.name for one in made.system.devices]
    return made.replace(**four_fields(random, names, devices, placement, "device")) if len(names) > 1 else None


def kept(instance: Any, on: Mapping[str, Any]) -> bool:
    """Whether places keep to the four fields (names that have none are free)."""
    place = "chip" if isinstance(instance, ring.RingInstance) else "device"
    pins = all(on.get(pin.operation, getattr(pin, place)) == getattr(pin, place) for pin in instance.pins)
    banned = any(on.get(no.operation) in getattr(no, f"{place}s") for no in instance.forbidden)
    split = any(len({on[name] for name in group if name in on}) > 1 for group in instance.together)
    met = any(
        a != b and a in on and b in on and on[a] == on[b] for group in instance.apart for a in group for b in group
    )
    return pins and not banned and not split and not met


def places(instance: Any, solution: Any) -> dict[str, Any]:
    """Operation -> chip or device, of those that matter."""
    if not isinstance(instance, ring.RingInstance):
        return dict(solution.devices)
    found = zip(instance.graph.operations, solution.chips, strict=True)
    alive = live(instance.graph)
    return {one.name: chip for v, (one, chip) in enumerate(found) if one.role == "compute" and v in alive}


def live(graph: Any) -> set[int]:
    """The operations from which a path leads to an output, all where there is none."""
    found = {tensor.producer for tensor in graph.tensors if tensor.output}
    if not found:
        return set(range(len(graph.operations)))
    for _ in graph.operations:
        found |= {tensor.producer for tensor in graph.tensors if found & set(tensor.readers)}
    return found


def best_by_the_page(instance: Any) -> int | None:
    """The least objective of all that keep to the four fields and are valid without them."""
    free = instance.replace(**FREE)
    check = resolve(family_of(instance).check)
    found = [
        certificate.objective
        for solution in candidates(free)
        if kept(instance, places(instance, solution)) and (certificate := check(free, solution)).feasible
    ]
    return min(found, default=None)


def by_model(instance: Any, name: str) -> int | None:
    """What a formulation says."""
    formulation = family_of(instance).formulation(name)
    model = resolve(formulation.build)(instance, dict(formulation.choices)) if formulation.choices else None
    model = model or resolve(formulation.build)(instance)
    assert model.standing.exact
    solver = "highs" if formulation.kind == "mip" else "cpsat"
    outcome = solve_model(model, SolveRequest(time_limit=60.0, threads=1), solver)
    if outcome.termination.reason == "infeasible":
        return None
    assert outcome.termination.reason == "optimal" and outcome.value_of is not None
    certificate = chipmap.check(instance, model.decode(outcome.value_of))
    assert certificate.feasible, certificate.violations
    return certificate.objective


@pytest.mark.parametrize("block", range(of_all(4, few=1)))
@pytest.mark.parametrize("kind", ["ring", "step_time", "throughput"])
def test_all_say_the_same(kind: str, block: int) -> None:
    """Models, chain and brute force; what is refused as bad input has no solution."""
    random, seen, done = Random(1_000 * block + len(kind)), Counter[str](), 0
    while done < NUMBER:
        instance = ring_instance(random) if kind == "ring" else placement_instance(random, kind)
        if instance is None or count(instance.replace(**FREE)) > 30_000:
            continue
        best, done = best_by_the_page(instance), done + 1
        try:
            instance.check()
        except InputError:
            seen["refused"] += 1
            assert best is None
            continue
        seen["infeasible" if best is None else "solved"] += 1
        seen["binds"] += best != best_by_the_page(instance.replace(apart=()))
        family = family_of(instance)
        for name in ("mip", "cpsat"):
            assert by_model(instance, f"{family.name}/{name}") == best, (done, name)
        result = chipmap.solve(instance, isolate=False)
        assert result.status == ("infeasible" if best is None else "optimal"), (done, result.status, best)
        assert result.objective == best
        assert not any(note.kind == "contradiction" for note in result.notes)
    assert seen["solved"] > 5 and seen["binds"] > 0, seen
