"""Device maps before accelerate's hooks: which mappings suit, and what becomes of those that don't.

There is one device here. So the first half of a network runs on ``cpu`` and the second one on ``meta``, where tensors
have shapes and no numbers: data may go from the one to the other, and what mixes the two fails, as on two GPUs.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from benchmarks.device_maps import hooked
from chipmap.instances.placement import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import placement_problem
from chipmap.plans.device_map.format import adopt, emit, suits
from chipmap.plans.plan import EmitOptions
from chipmap.validation.placement.checker import check

torch: Any = pytest.importorskip("torch", reason="needs the extra judges")
transformers: Any = pytest.importorskip("transformers", reason="needs the extra judges")
accelerate: Any = pytest.importorskip("accelerate", reason="needs the extra judges")

from tests.placement.test_accelerate import network, tensors  # noqa: E402

NAMES = ["by-hand", "vit", "convnext", "bert"]


def instance_of(name: str) -> PlacementInstance:
    """The network's instance with two devices, one sample after the other."""
    _, _, instance = network(name)
    links = {"latency_ns": 10.0, "bytes_per_ns": 1.0}
    return instance.replace(
        task={"objective": "throughput", "memory": "static"},
        system=instance.system.replace(routes=(), links=links),
    )


@pytest.mark.parametrize("name", NAMES)
def test_maps_that_suit_run_and_those_that_mix_devices_do_not(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    """Every cut of the order in two: accelerate accepts the map of each that suits, all names of the state dict are
    covered, and it comes back with the same certificate."""
    module, given, _ = network(name)
    instance = instance_of(name)
    problem = placement_problem(instance)
    order = [problem.names[v] for v in problem.order.tolist()]
    counts = {"run": 0, "mixed": 0, "other": 0}
    for cut in range(1, len(order)):
        of = {one: problem.device_names[i >= cut] for i, one in enumerate(order)}
        solution = PlacementSolution(instance=instance.name, devices=of)
        why = suits(instance, solution)
        if why is not None and "reads what is made on" not in why:
            counts["other"] += 1  # what the map says instead
            said = emit(instance, solution, EmitOptions())["device_map.json"]
            assert isinstance(said, bytes)
            solution = adopt(instance, said, "device_map.json").solution
            why = suits(instance, solution)
        data = emit(instance, solution, EmitOptions())["device_map.json"]
        assert isinstance(data, bytes)
        found = json.loads(data)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            if why is not None:
                counts["mixed"] += 1
                with pytest.raises((RuntimeError, NotImplementedError)):
                    hooked(deepcopy(module), found, 0)(given)
                continue
            accelerate.utils.modeling.check_device_map(module, found)
            covered = [n for n in module.state_dict() if any(f"{n}.".startswith(f"{k}.") or not k for k in found)]
            assert len(covered) == len(module.state_dict())
            assert tensors(hooked(deepcopy(module), found, 0)(given))
        counts["run"] += 1
        plan = adopt(instance, data, "device_map.json")
        assert check(instance, plan.solution) == check(instance, solution)
    record_property(f"{name}: cuts in two that accelerate runs, mixes, can't say", str(counts))
    assert counts["run"] and counts["mixed"] and counts["other"]
