"""C4 of family ``wafer``: pins, forbidden tiles, kernels together and apart."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

import msgspec
import pytest

from chipmap import solve
from chipmap.heuristics.wafer.obstructed import floorplans
from chipmap.inputs.plain import instance_of
from chipmap.instances.wafer import Fabric, Forbidden, Kernel, Pin, Placement, Rectangle, WaferInstance, Weights
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.kgraph import write_kgraph
from chipmap.instances.wafer.pinned import fastest_in
from chipmap.instances.wafer.problem import size, wafer_problem
from chipmap.records import InputError
from chipmap.validation.wafer.checker import check
from tests.lanes import of_all
from tests.wafer.page_pins import FIELDS, obeys, optimum, pinned_instance

SMALL = {"H": 2, "W": 2, "C": 2, "K": 2, "R": 1, "S": 1, "T": 1, "U": 1}


@pytest.mark.parametrize("seed", range(of_all(10, few=3)))
def test_brute_force_from_the_page_the_models_and_auto_agree(seed: int) -> None:
    """Ten instances each, with and without floorplans."""
    random = Random(seed)
    for number in range(10):
        instance = pinned_instance(random)
        least = optimum(instance)
        for method in ("auto", "mip" if number % 4 == 0 else "cpsat"):
            result = solve(instance, method=f"wafer/{method}")
            assert result.objective == least, (seed, number, method)
            reason = "infeasible" if least is None else "optimal"
            assert result.termination.reason == reason, (seed, number, method)


def two(**fields: Any) -> WaferInstance:
    """Two small convolutions on a fabric of 12 x 8 tiles."""
    kernels = tuple(Kernel(name=name, kind="conv", arguments=SMALL) for name in ("k1", "k2"))
    fabric = Fabric(width=12, height=8, memory_words=10**6)
    weights = Weights(time=1, wire=1)
    made = WaferInstance(name="two", kernels=kernels, edges=(("k1", "k2"),), fabric=fabric, weights=weights, **fields)
    made.check()
    return made


def refused(**fields: Any) -> str:
    """What is said of these fields."""
    with pytest.raises(InputError) as told:
        two(**fields)
    return str(told.value)


def test_bad_input_is_named() -> None:
    assert "k1" in refused(pins=(Pin(kernel="k11", x=0, y=0),)), "near names are told"
    assert "0 to 11" in refused(pins=(Pin(kernel="k1", x=12, y=0),)), "which tiles there are is told"
    assert "pins[1]" in refused(pins=(Pin(kernel="k1", x=0, y=0), Pin(kernel="k1", x=1, y=0)))
    same = refused(pins=(Pin(kernel="k1", x=0, y=0, width=6, height=2), Pin(kernel="k2", x=3, y=1)))
    assert "k1" in same and "k2" in same
    tile = Rectangle(x=0, y=0, width=2, height=2)
    assert "forbidden[0]" in refused(
        pins=(Pin(kernel="k1", x=1, y=1),), forbidden=(Forbidden(kernel="k1", rectangles=(tile,)),)
    )
    both = refused(together=(("k1", "k2"),), apart=(("k2", "k1"),))
    assert "k1" in both and "k2" in both and "together[0]" in both
    assert "together[0]" in refused(together=(("k1",),))


def test_hashes_hold_and_a_kgraph_refuses_pins() -> None:
    plain, pinned = two(), two(pins=(Pin(kernel="k1", x=0, y=0),))
    assert plain.replace(**dict.fromkeys(FIELDS, ())).content_hash == plain.content_hash != pinned.content_hash
    assert write_kgraph(plain)
    with pytest.raises(InputError, match="pins"):
        write_kgraph(pinned)


def test_pins_of_a_dict_are_merged() -> None:
    pinned = two(pins=(Pin(kernel="k1", x=3, y=2, width=6, height=4),))
    result = solve(two(), pin={"pins": {"k1": [3, 2, 6, 4]}})
    assert (result.instance_hash, result.objective) == (pinned.content_hash, optimum(pinned))
    with pytest.raises(InputError, match="place"):
        solve(two(), pin={"pins": {"k1": "here"}})


def test_the_fastest_way_in_a_box_has_that_box() -> None:
    problem = wafer_problem(two())
    made = fastest_in(problem, 0, 6, 4)
    assert made is not None and size(made) == (6, 4)
    assert fastest_in(problem, 0, 5, 7) is None


def test_a_large_fabric_gets_floorplans_that_obey() -> None:
    """Sides above 40 tiles: corners at once, then models at target times."""
    kernels = tuple(Kernel(name=f"k{i}", kind="conv", arguments={**SMALL, "H": 8, "W": 8}) for i in range(5))
    pins = (Pin(kernel="k2", x=20, y=10, width=12, height=8), Pin(kernel="k4", x=0, y=30))
    instance = WaferInstance(
        name="large",
        kernels=kernels,
        edges=(("k0", "k1"), ("k1", "k2"), ("k2", "k3")),
        fabric=Fabric(width=60, height=50),
        pins=pins,
        forbidden=(Forbidden(kernel="k0", rectangles=(Rectangle(x=0, y=0, width=60, height=6),)),),
        together=(("k2", "k3", "k1"),),
        apart=(("k0", "k2"),),
    )
    result = solve(instance, method="wafer/greedy")
    assert result.solution is not None
    made = [msgspec.convert(plain, Placement) for plain in result.solution["placements"]]
    boxes = {p.kernel: (p.x, p.y, *size(p)) for p in made}
    assert obeys(instance, boxes) and result.bounds


def test_a_box_that_a_kernel_cannot_fill_is_a_reason_on_any_fabric() -> None:
    """No execution arguments give these sides, or none that the memory allows: with the other label left out there
    would be floorplans."""
    for words, pin, labels in (
        (10**6, Pin(kernel="k1", x=0, y=0, width=7, height=91), ("C0", "C4")),
        (10, Pin(kernel="k1", x=0, y=0, width=3, height=2), ("C3", "C4")),
    ):
        large = two().replace(pins=(pin,), fabric=Fabric(width=200, height=100, memory_words=words))
        result = solve(large, threads=1, time_limit=60.0)
        assert result.status == "infeasible"
        (reason,) = result.infeasibility
        assert reason.labels == labels and "pins[0]" in reason.message and "'k1'" in reason.message
    assert solve(large.replace(pins=()), threads=1, time_limit=1.0).objective is not None


@pytest.mark.parametrize("step", [1, 2, 3])
def test_many_kernels_pinned_to_the_corners_of_a_floorplan(step: int) -> None:
    """Boxes leave the corners of kernels free that are pinned and don't stand yet."""
    plain = instance_of("wafer/ispd2020-I")
    assert isinstance(plain, WaferInstance)
    made = list(islice(floorplans(wafer_problem(plain), 1), 9))[-1]
    pinned = plain.replace(pins=tuple(Pin(kernel=one.kernel, x=one.x, y=one.y) for one in made[::step]))
    found = next(floorplans(wafer_problem(pinned), 1))
    assert check(pinned, WaferSolution(placements=tuple(found))).feasible
