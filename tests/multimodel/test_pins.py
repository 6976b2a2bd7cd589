"""C6 of family ``multimodel``: pins, forbidden chiplets, layers together and apart."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap import solve
from chipmap.formulations.multimodel.mip import build
from chipmap.heuristics.multimodel.starts import packed
from chipmap.inputs.plain import instance_of
from chipmap.inputs.reading import read
from chipmap.instances.multimodel import Forbidden, MultiInstance, Pin
from chipmap.instances.multimodel.pinned import narrowed, parted, pinned
from chipmap.instances.multimodel.problem import multi_problem, schedule
from chipmap.records import InputError
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.multimodel.candidates import candidates
from chipmap.validation.multimodel.checker import check
from tests.lanes import of_all
from tests.multimodel.page_pins import FIELDS, names, obeys, optimum, pinned_instance

#: A gap that a MIP solver's floating point can't close, where numbers are too large for CP-SAT.
NOISE = 1e-9
OBJECTIVES = ("latency", "energy", "weighted", "edp")


@pytest.mark.parametrize("seed", range(of_all(10, few=2)))
def test_brute_force_from_the_page_the_models_and_auto_agree(seed: int) -> None:
    """Ten instances each, with and without schedules; the MIP has no EDP."""
    random = Random(seed)
    for number in range(10):
        objective = OBJECTIVES[(seed + number) % 4]
        instance = pinned_instance(random, objective)
        least = optimum(instance)
        for method in ("auto", "mip" if number % 2 and objective != "edp" else "cpsat"):
            result = solve(instance, method=f"multimodel/{method}")
            assert result.objective == least, (seed, number, method)
            proved = result.termination.reason == ("infeasible" if least is None else "optimal")
            assert proved or (result.gap is not None and result.gap < NOISE), (seed, number, method)


def test_the_checker_reads_c6_as_the_page_does() -> None:
    random, seen = Random(7), {True: 0, False: 0}
    for number in range(20):
        instance = pinned_instance(random, OBJECTIVES[number % 4])
        for solution in list(candidates(instance))[::7]:
            found = {violation.label for violation in check(instance, solution).violations}
            if not found & {"C0", "C1"}:
                assert ("C6" not in found) == obeys(instance, solution)
                seen["C6" in found] += 1
    assert min(seen.values()) > 50


def test_without_c6_nothing_is_hashed_or_narrowed() -> None:
    from chipmap.instances.multimodel.pinned import narrowed
    from chipmap.instances.multimodel.problem import multi_problem

    plain = tiny()
    assert plain.replace(**dict.fromkeys(FIELDS, ())).content_hash == plain.content_hash
    assert narrowed(multi_problem(plain)) is multi_problem(plain)
    a = names(plain)[0]
    assert plain.replace(pins=(Pin(layer=a, chiplet=chips(plain)[0]),)).content_hash != plain.content_hash


def tiny() -> MultiInstance:
    """The shipped instance that is changed below."""
    made = read("multimodel/tiny-two")
    assert isinstance(made, MultiInstance)
    return made


def chips(instance: MultiInstance) -> list[str]:
    """The chiplets' names."""
    return [chiplet.name for chiplet in instance.module.chiplets]


def refused(**fields: Any) -> str:
    """What is said of the tiny instance with these fields."""
    with pytest.raises(InputError) as told:
        tiny().replace(**fields).check()
    return str(told.value)


def test_bad_input_is_named() -> None:
    (a, b, *_), (c, d, *_) = names(tiny()), chips(tiny())
    assert repr(a) in refused(pins=(Pin(layer=a + "x", chiplet=c),)), "near names are told"
    assert c in refused(pins=(Pin(layer=a, chiplet="nowhere"),)), "which chiplets there are is told"
    two = refused(pins=(Pin(layer=a, chiplet=c), Pin(layer=a, chiplet=d)))
    assert "pins[1]" in two and c in two
    shut = refused(pins=(Pin(layer=a, chiplet=c),), forbidden=(Forbidden(layer=a, chiplets=(c,)),))
    assert "forbidden[0]" in shut and a in shut
    torn = refused(pins=(Pin(layer=a, chiplet=c), Pin(layer=b, chiplet=d)), together=((a, b),))
    assert "together[0]" in torn and a in torn and b in torn and c in torn
    both = refused(together=((a, b),), apart=((a, b),))
    assert "apart[0]" in both and a in both and b in both
    same = refused(pins=(Pin(layer=a, chiplet=c), Pin(layer=b, chiplet=c)), apart=((a, b),))
    assert "apart[0]" in same and c in same
    assert "together[0][1]" in refused(together=((a, "no/where"),))


def test_more_layers_apart_than_chiplets_is_a_reason() -> None:
    instance = tiny()
    few = chips(instance)[1:]
    group = tuple(names(instance)[:2])
    forbidden = tuple(Forbidden(layer=name, chiplets=tuple(few[1:])) for name in group)
    many = instance.replace(apart=(tuple(names(instance)[: len(few) + 2]),), forbidden=forbidden)
    result = solve(many, method="multimodel/auto")
    if result.termination.reason == "infeasible":
        assert "C6" in result.infeasibility[0].labels


def test_the_mip_states_c6() -> None:
    instance = tiny().replace(task=tiny().task.replace(objective="latency"))
    name = names(instance)[-1]
    values = {}
    for chip in chips(instance):
        pinned = instance.replace(pins=(Pin(layer=name, chiplet=chip),))
        model = build(pinned)
        outcome = solve_model(model, SolveRequest())
        assert outcome.value_of is not None and check(pinned, model.decode(outcome.value_of)).feasible
        values[chip] = optimum(pinned)
    assert min(one for one in values.values() if one is not None) == optimum(instance)


def test_pins_of_a_dict_are_merged() -> None:
    instance = tiny().replace(task=tiny().task.replace(objective="latency"))
    name, chip = names(instance)[-1], chips(instance)[-1]
    pinned = instance.replace(pins=(Pin(layer=name, chiplet=chip),))
    result = solve(instance, pin={"pins": {name: chip}})
    assert (result.objective, result.instance_hash) == (optimum(pinned), pinned.content_hash)


def test_many_layers_apart_on_a_large_module() -> None:
    """Forty pairs, most of one model, and five pairs together: a start without any search."""
    random, instance = Random(4), instance_of("multimodel/scar-4-pipelined")
    assert isinstance(instance, MultiInstance)
    model = [name for name in names(instance) if name.startswith(f"{instance.models[0].name}/")]
    pairs = [tuple(random.sample(model if turn % 3 else names(instance), 2)) for turn in range(40)]
    rest = [name for name in names(instance) if not any(name in pair for pair in pairs)]
    both = [tuple(rest[at : at + 2]) for at in random.sample(range(0, len(rest) - 1, 2), 5)]
    asked = instance.replace(apart=tuple(pairs), together=tuple(both))
    problem = narrowed(multi_problem(asked))
    windows = packed(problem, grouped=True)
    assert windows is not None and check(asked, schedule(problem, windows)).feasible
    again = parted(problem, windows, random)
    assert again.allowed is not None and pinned(problem) is not None
    for m, first, last, c in (segment for window in windows for segment in window):
        assert again.allowed[m][first : last + 1, c].all()
