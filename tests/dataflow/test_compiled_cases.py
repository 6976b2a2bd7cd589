"""Layers of Llama3-8B's widths whose collectives a compiler was asked for: the checker charges what is moved.

JAX's programs of ``shard_map``, compiled for eight chips: megabytes (10⁶ bytes) over a chip's link.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.workloads.llama import llama_network
from chipmap.validation.dataflow.checker import check
from chipmap.validation.dataflow.present import places

FOLDER = (
    Path(os.environ.get("CHIPMAP_DATA") or Path(__file__).parents[2].parent / "shared" / "data") / "cases" / "dataflow"
)
#: Fields of kernels that the files were written before.
LATER = ("heads", "adds", "parameters_of", "statistics", "operand", "schemes")
#: Pinned to rows there for want of columns, as which they lie where parameters rest.
BY_COLUMNS = {"Proj_u": "N", "FFN1_u": "N"}
MB = 10**9  # picoseconds at a byte per nanosecond
LLAMA: dict[str, Any] = {"model": "", "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "layers": 1}
LLAMA |= {"tokens": 2048, "step": "forward", "backward": True, "split_tokens": True}


def _case(name: str) -> DataflowInstance:
    """The file's instance, its kernels with what exchanges follow from."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{path} is not there (set CHIPMAP_DATA)")
    instance = DataflowInstance.from_json(path.read_bytes())
    own = {one.name: one for one in llama_network(**LLAMA).kernels}
    kernels = [
        one.replace(**{field: getattr(own[one.name], field) for field in LATER}) for one in instance.workload.kernels
    ]
    return instance.replace(workload=instance.workload.replace(kernels=kernels))


def _moved(instance: DataflowInstance, keep: str, **changed: str) -> tuple[float, float]:
    """T3 and T6 in MB, kernel by kernel in the order of places."""
    schemes = {**instance.task.schemes, **changed}
    instance = instance.replace(task=instance.task.replace(schemes=schemes))
    kernels = instance.workload.kernels
    at = {one.name: i for i, one in enumerate(kernels)}
    edges = [(at[u], at[v]) for u, v in instance.workload.edges]
    mapping = DataflowSolution.make(
        degrees=instance.task.degrees,
        schemes=[schemes[one.name] for one in kernels],
        partitions=places([one.phase == "backward" for one in kernels], edges),
        keep=keep,
    )
    certificate = check(instance, mapping)
    assert certificate.feasible, certificate.violations
    return certificate.terms["T3"] / MB, certificate.terms["T6"] / MB


@pytest.mark.parametrize(
    ("name", "keep", "changed", "both", "after"),
    [
        ("l8b-tp", "step", BY_COLUMNS, 117.44, 0),
        ("l8b-tp", "phase", BY_COLUMNS, 117.44, 0),
        ("l8b-sp", "step", BY_COLUMNS, 117.44, 0),
        ("l8b-sp", "phase", BY_COLUMNS, 146.80, 0),
        ("l8b-ring", "step", {}, 778.04 - 763.36 / 2, 763.36 / 2),
        ("l8b-ulysses", "step", {}, 9.175 + 763.36 / 2, 763.36 / 2),
        ("l8b-ulysses", "phase", {}, 13.76 + 763.36 / 2, 763.36 / 2),
    ],
)
def test_the_checker_charges_what_a_compiler_moves(
    name: str, keep: str, changed: dict[str, str], both: float, after: float
) -> None:
    """Within 1%. In ring and all-to-all attention half of 763.36 MB is T3's sums of gradients, half T6's gathers."""
    found = _moved(_case(name), keep, **changed)
    assert found == (pytest.approx(both, rel=0.01), pytest.approx(after, rel=0.01))
