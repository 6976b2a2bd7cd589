"""Throughput instances from files: what the numbers of the format become, and published values where the files are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chipmap import SolveOptions, solve
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


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published inputs are not there")
def test_published_values() -> None:
    """The human expert's split of bert24 has load 20.084, the contiguous optimum of bert_l-3 is 27.9186."""
    instance = partitioning(str(PUBLISHED / "throughput-inputs" / "LayerGraphs" / "bert24_inference.json"))
    split = json.loads((PUBLISHED / "human-experts" / "bert24_inference_expert.json").read_text())
    devices = {
        f"node{node}": f"{name}{d}"
        for name, kind in (("accelerator", "fpgas"), ("host", "cpus"))
        for d, part in enumerate(split[kind])
        for node in part["nodes"]
    }
    certificate = check(instance, PlacementSolution(devices=devices))
    assert certificate.feasible and certificate.terms["T2"] * 1e-6 == pytest.approx(20.084, abs=1e-3)
    instance = partitioning(str(PUBLISHED / "throughput-inputs" / "OperatorGraphs" / "bert_l-3_inference.json"))
    result = solve(instance, "cpsat", SolveOptions(time_limit=240, threads=1))
    assert result.status == "optimal" and (result.objective or 0) * 1e-6 == pytest.approx(27.9186, abs=1e-4)
