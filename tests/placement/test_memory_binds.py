"""Where memory binds: a valid placement at once, though what people and METIS would write down overflows."""

from __future__ import annotations

import math

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.run import SolveOptions
from chipmap.solve import solve


def tight(name: str) -> PlacementInstance:
    """A shipped instance with 1.1 times all bytes over its devices on each, counted for the whole step."""
    free = read(name)
    assert isinstance(free, PlacementInstance)
    problem = placement_problem(free)
    limit = math.ceil(1.1 * int(problem.weights.sum() + problem.storages.bytes.sum()) / problem.devices)
    devices = tuple(one.replace(memory_bytes=limit) for one in free.system.devices)
    return free.replace(task=free.task.replace(memory="static"), system=free.system.replace(devices=devices))


@pytest.mark.parametrize("name", ["transformer-xl-2", "transformer-xl-4", "transformer-xl-8"])
def test_the_starts_fit_where_human_splits_overflow(name: str) -> None:
    instance = tight(f"placement/{name}-pcie")
    plain = solve(instance, "human", SolveOptions(threads=1))
    assert plain.solution is None
    overflows = [note.text for note in plain.notes if note.kind == "left out"]
    assert len(overflows) == 3 and all("C6" in text and "bytes" in text for text in overflows)
    found = solve(instance, "starts", SolveOptions(threads=1, deterministic=True))
    assert found.certificate is not None and found.certificate.feasible
