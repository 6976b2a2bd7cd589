"""The geometric program of family ``wafer``: below the exact area bound and every score, and not far below."""

from __future__ import annotations

import pytest

from chipmap.formulations.wafer.options import least_time
from chipmap.formulations.wafer.relaxation import bound
from chipmap.instances.wafer import Fabric, Kernel, WaferInstance, Weights
from chipmap.instances.wafer.problem import wafer_problem
from tests.wafer.cases import SEEDS, best, instance


def network(weights: Weights) -> WaferInstance:
    """Convolutions in a row that fill a fabric of 200 x 150 tiles."""
    arguments = {"H": 56, "W": 56, "R": 3, "S": 3, "T": 1, "U": 1}
    channels = ((16, 32), (32, 32), (32, 64), (64, 64))
    kernels = tuple(
        Kernel(name=f"k{i}", kind="conv", arguments=arguments | {"C": c, "K": k}) for i, (c, k) in enumerate(channels)
    )
    edges = tuple((f"k{i}", f"k{i + 1}") for i in range(len(channels) - 1))
    fabric = Fabric(width=200, height=150)
    return WaferInstance(name="network", kernels=kernels, edges=edges, fabric=fabric, weights=weights)


def test_the_time_is_within_a_few_percent_of_the_exact_area_bound() -> None:
    problem = wafer_problem(network(Weights(time=1, wire=0)))
    found, exact = bound(problem), least_time(problem)
    assert found.time is not None and exact is not None
    assert 0.9 * exact <= found.time <= exact
    assert found.score == found.time


def test_wires_add_to_it() -> None:
    alone, both = (bound(wafer_problem(network(Weights(time=1, wire=wire)))) for wire in (0, 50))
    assert alone.score is not None and both.score is not None and alone.time == both.time
    assert both.score > alone.score


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if len(instance(seed).kernels) > 1][::3])
def test_no_floorplan_is_below_it(seed: int) -> None:
    problem = wafer_problem(instance(seed))
    found, exact = bound(problem), least_time(problem)
    assert found.time is not None and found.score is not None and exact is not None
    assert found.time <= exact and found.score <= best(seed)[0]
