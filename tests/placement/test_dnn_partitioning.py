"""Throughput instances from files: what the numbers of the format become, and published values where the files are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chipmap import SolveOptions, solve
from chipmap.family import get_family
from chipmap.inputs.solutions import read_solution
from chipmap.instances.placement import PlacementSolution
from chipmap.instances.placement.dnn_partitioning import partitioning
from chipmap.records import InputError
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.instances.published import FOLDER

PUBLISHED = FOLDER / "dnn-partitioning"
FILE = {
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "maxSizePerFPGA": 10,
    "nodes": [
        {"id": 5, "fpgaLatency": 3, "cpuLatency": 30, "size": 4, "colorClass": 1},
        {"id": 6, "fpgaLatency": 4, "cpuLatency": 5, "size": 4, "supportedOnFpga": False},
        {"id": 7, "fpgaLatency": 2, "cpuLatency": 20, "size": 4, "colorClass": 1, "isBackwardNode": True},
    ],
    "edges": [{"sourceId": 5, "destId": 6, "cost": 1}, {"sourceId": 6, "destId": 7, "cost": 0.5}],
}


def test_what_a_file_becomes(tmp_path: Path) -> None:
    """Node 6 runs on the host only (5 ms); 5 and 7 share an accelerator: 3 + 2, and both tensors cross, 1.5 ms."""
    path = tmp_path / "small.json"
    path.write_text(json.dumps(FILE))
    instance = partitioning(str(path))
    assert instance.together == (("node5", "node7"),) and instance.backward == ("node7",)
    optimum, best = brute_force(instance, check)
    assert optimum == 6_500_000
    assert isinstance(best, PlacementSolution) and best.devices["node6"] == "host0"
    del FILE["nodes"][0]["cpuLatency"]  # type: ignore[index]
    path.write_text(json.dumps(FILE))
    with pytest.raises(InputError, match="cpuLatency"):
        partitioning(str(path))


def test_splits_of_others(tmp_path: Path) -> None:
    """A split by hand and a device map of the small file; what doesn't fit is named."""
    FILE["nodes"][0]["cpuLatency"] = 30  # type: ignore[index]
    path = tmp_path / "small.json"
    path.write_text(json.dumps(FILE))
    instance = partitioning(str(path))
    family, split = get_family("placement"), tmp_path / "split.json"
    wanted = {"node5": "accelerator1", "node6": "host0", "node7": "accelerator1"}
    for given in (
        {"fpgas": [{"nodes": []}, {"nodes": [5]}], "cpus": [{"nodes": [6]}]},
        {"": 1, "node6": "cpu"},
        {"node5": "accelerator1", "node6": "host0"},
    ):
        split.write_text(json.dumps(given))
        solution = read_solution(split, family, instance)
        assert isinstance(solution, PlacementSolution) and solution.devices == wanted
        assert check(instance, solution).objective == 6_500_000
    for wrong, said in (
        ({"fpgas": [{"nodes": [5, 9]}]}, "node9"),
        ({"fpgas": [{"nodes": [5]}, {"nodes": [5]}]}, "already"),
        ({"fpgas": [{"nodes": [5]}, {}, {}]}, "nodes"),
        ({"fpgas": [{"nodes": [5]}]}, "'node6' is on no device"),
        ({"": 2}, "no device"),
        ({"": True}, "no device"),
    ):
        split.write_text(json.dumps(wrong))
        with pytest.raises(InputError, match=said):
            read_solution(split, family, instance)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published inputs are not there")
def test_published_values() -> None:
    """The human expert's split of bert24 has load 20.084, 13% above the optimum of blocks (17.7899). This is proved, as
    for bert_l-3 (27.9186) and for its training step, of which some operations have no forward partner."""
    folder = PUBLISHED / "throughput-inputs"
    instance = partitioning(str(folder / "LayerGraphs" / "bert24_inference.json"))
    split = read_solution(
        PUBLISHED / "human-experts" / "bert24_inference_expert.json", get_family("placement"), instance
    )
    assert isinstance(split, PlacementSolution)
    certificate = check(instance, split)
    assert certificate.feasible and certificate.terms["T2"] * 1e-6 == pytest.approx(20.084, abs=1e-3)
    for name, value in (
        ("LayerGraphs/bert24_inference", 17.7899),
        ("OperatorGraphs/bert_l-3_inference", 27.9186),
        ("OperatorGraphs/bert_l-3_training", 65.3031),
    ):
        result = solve(partitioning(str(folder / f"{name}.json")), options=SolveOptions(time_limit=240, threads=1))
        assert result.status == "optimal" and (result.objective or 0) * 1e-6 == pytest.approx(value, abs=1e-4)
