"""The chain's search on packages of fewer chips: its mappings are mappings of the whole package."""

from __future__ import annotations

import pytest

from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.instances.ring.instance import Pin
from chipmap.methods.chain import Turn
from chipmap.methods.ring.fewer_chips import search_on_fewer_chips
from chipmap.methods.ring.state import RingChainState
from chipmap.run import Run, SolveOptions
from chipmap.validation.ring.candidates import candidates
from chipmap.validation.ring.checker import check


def _instance(seed: int, chips: int) -> RingInstance:
    instance = generate("random", operations=7, reach=4, density=0.4, seed=seed, chips=chips)
    assert isinstance(instance, RingInstance)
    return instance


def _after(instance: RingInstance, start: RingSolution) -> Run:
    """The run with ``start`` as incumbent, after the link had its turn."""
    run = Run(instance, SolveOptions(deterministic=True), check)
    run.solution(start, "start")
    search_on_fewer_chips(RingChainState(instance, run), Turn(run, run.deadline))
    return run


@pytest.mark.parametrize("seed", range(6))
def test_it_ends_no_worse_than_the_optimum_on_as_many_chips_as_the_incumbent_uses(seed: int) -> None:
    """The incumbent is the worst mapping that uses three chips; on seven chips it ends as it does on three."""
    few, many = _instance(seed, 3), _instance(seed, 7)
    valid = [one for one in candidates(few) if check(few, one).feasible]
    worst = max((one for one in valid if max(one.chips) == 2), key=lambda one: _value(few, one))
    run = _after(many, worst)
    assert run.upper is not None and run.upper <= min(_value(few, one) for one in valid) < _value(few, worst)
    assert not run.bounds  # a bound of the smaller package is none of the larger


def _value(instance: RingInstance, solution: RingSolution) -> int:
    objective = check(instance, solution).objective
    assert objective is not None
    return objective


def test_a_pin_beyond_the_chips_in_use_leaves_the_incumbent_alone() -> None:
    """Chip 5 is pinned, chips 1 to 4 are idle: without them there is no chip 5."""
    instance = _instance(1, 7)
    free = instance.replace(constraints=("C1",))
    last = next(one.name for one in reversed(free.graph.operations) if one.role == "compute")
    pinned = free.replace(pins=(Pin(operation=last, chip=5),))
    chips = tuple(5 if one.role == "compute" and one.name == last else 0 for one in free.graph.operations)
    run = Run(pinned, SolveOptions(deterministic=True), check)
    run.solution(RingSolution(instance=pinned.name, chips=chips), "start")
    before = run.upper
    search_on_fewer_chips(RingChainState(pinned, run), Turn(run, run.deadline))
    assert run.upper == before
