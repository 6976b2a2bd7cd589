"""What `explain` says of floorplans: who holds the time, what wires and adapters cost, what more would bring."""

from __future__ import annotations

import json
from random import Random

import pytest

from chipmap.explaining.wafer.explain import explain, without
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.validation.wafer.checker import check
from tests.wafer import tiny

STEADY = SolveOptions.make(time_limit=300.0, deterministic=True, threads=1)


def changed(instance: WaferInstance, setting: str) -> WaferInstance:
    """The instance with ``fabric.FIELD=VALUE``."""
    field, _, value = setting.removeprefix("fabric.").partition("=")
    return instance.replace(fabric=instance.fabric.replace(**{field: json.loads(value)}))


def test_changes_are_optima_of_the_changed_instances() -> None:
    """Two kernels on a few tiles, against all placements of the changed instances."""
    instance = tiny.instance(Random(100), kernels=2, side=7, blocks=False)
    found = explain(instance, options=STEADY)
    assert found.status == "optimal" and found.objective == tiny.optimum(instance)[0]  # type: ignore[index]
    assert len(found.changes) >= 3
    for change in found.changes:
        name = change.what.removeprefix("without kernel ").strip("'")
        if change.setting:
            other = changed(instance, change.setting)
            if max(other.fabric.width, other.fabric.height) > 12:  # too many placements to try
                assert change.objective is not None and change.objective <= (found.objective or 0)
                continue
        else:
            other = without(instance, name)
        optimum = tiny.optimum(other)
        assert change.standing == "proved" and optimum is not None and change.objective == optimum[0]


def test_statements_add_up_to_the_terms_of_the_floorplan() -> None:
    """The kernels that are said to hold the time have it; wires of such boxes cost no more than they do."""
    instance = read("wafer/tiny-skip")
    assert isinstance(instance, WaferInstance)
    found = explain(instance, options=STEADY)
    told = {one.topic: one for one in found.statements}
    terms, weights = found.terms, instance.weights
    assert told["time"].figures["quarters"] * weights.time == terms["T1"]
    assert told["time"].figures["kernels"][0] in told["time"].message
    assert told["time"].figures["next"] < told["time"].figures["quarters"]
    if weights.wire:
        assert 0 < told["wire"].figures["touching"] <= terms["T2"]
    if weights.adapter:
        assert 4 * weights.adapter * sum(told["adapters"].figures.values()) == terms["T3"]
    assert 0 < told["room"].figures["covered"] <= told["room"].figures["tiles"]
    gone = next(one for one in found.changes if one.what.startswith("without kernel"))
    assert repr(told["time"].figures["kernels"][0]) in gone.what


def test_two_floorplans_side_by_side_and_one_of_something_else() -> None:
    instance = tiny.instance(Random(100), kernels=2, side=7, blocks=False)
    best = tiny.optimum(instance)
    assert best is not None
    moved = best[1].replace(placements=tuple(one.replace(x=one.x + 40) for one in best[1].placements))
    found = explain(instance, moved, STEADY, against=best[1])
    assert found.given is not None and not found.given.feasible and "refused" in found.statements[0].message
    assert found.difference is not None and not check(instance, moved).feasible
    assert {one["quantity"] for one in found.difference.resources} == {"x"}
    other = best[1].replace(placements=(best[1].placements[0].replace(kernel="z"),))
    with pytest.raises(InputError, match="names 'z'"):
        explain(instance, other, STEADY)
