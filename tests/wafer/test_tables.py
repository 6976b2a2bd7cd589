"""Kernels with tables of choices beside the contest's formulas."""

from __future__ import annotations

from random import Random

import pytest

from chipmap import solve
from chipmap.instances.wafer import Choice, Fabric, Kernel, Placement, WaferInstance, WaferSolution, Weights
from chipmap.instances.wafer.kgraph import write_kgraph
from chipmap.instances.wafer.paint import read_paint, write_paint
from chipmap.records import InputError
from chipmap.validation.wafer.checker import check
from tests.lanes import of_all
from tests.wafer.agreement import all_prove
from tests.wafer.page_tables import optimum, tabled_instance


@pytest.mark.parametrize("seed", range(of_all(20, few=3)))
def test_brute_force_from_the_page_the_models_and_auto_agree(seed: int) -> None:
    random = Random(900 + seed)
    for number in range(10):
        instance = tabled_instance(random)
        tiny = len(instance.kernels) <= 2
        least = optimum(instance) if tiny else solve(instance, method="wafer/cpsat").objective
        all_prove(instance, least, number, (seed, number))


def large(count: int = 30) -> WaferInstance:
    """A chain of convolutions and tables on a fabric of 300 x 200 tiles."""
    choices = tuple(Choice(width=6 * n, height=40 // n, time=100 // n, memory_words=1000) for n in (1, 2, 4))
    arguments = {"H": 14, "W": 14, "C": 64, "K": 64, "R": 1, "S": 1, "T": 1, "U": 1}
    kernels = tuple(
        Kernel(name=f"k{i}", kind="table", choices=choices)
        if i % 2
        else Kernel(name=f"k{i}", kind="conv", arguments=arguments)
        for i in range(count)
    )
    return WaferInstance(
        name="tables",
        kernels=kernels,
        edges=tuple((f"k{i}", f"k{i + 1}") for i in range(count - 1)),
        fabric=Fabric(width=300, height=200),
        weights=Weights(time=1, wire=1, adapter=5),
    )


def test_a_large_fabric_gets_a_floorplan_and_a_bound() -> None:
    result = solve(large(), method="wafer/greedy")
    assert result.solution is not None and result.bounds
    solution = WaferSolution.make(**result.solution)
    assert check(large(), solution).feasible
    assert read_paint(write_paint(large(), solution), "x.paint", large()).placements
    with pytest.raises(InputError, match="tables"):
        solve(large(), method="wafer/rows")
    with pytest.raises(InputError, match="tables"):
        write_kgraph(large())


def test_the_checker_names_a_box_that_is_no_choice_and_words_that_are_too_many() -> None:
    table = (Choice(width=2, height=3, time=5, memory_words=9),)
    instance = WaferInstance(
        name="one",
        kernels=(Kernel(name="a", kind="table", choices=table),),
        edges=(),
        fabric=Fabric(width=4, height=4, memory_words=8),
    )

    def broken(h: int) -> list[str]:
        one = Placement(kernel="a", h=h, w=2, c=(), k=(), x=0, y=0, rotated=True)
        return [violation.label for violation in check(instance, WaferSolution(placements=(one,))).violations]

    assert broken(3) == ["C3"] and broken(2) == ["C0"]
    assert solve(instance).infeasibility[0].labels == ("C3",)
    for kind, choices in (("table", ()), ("input", table), ("table", (Choice(width=0, height=1, time=1),))):
        with pytest.raises(InputError, match="choices"):
            instance.replace(kernels=(Kernel.make(name="a", kind=kind, choices=choices),)).check()
