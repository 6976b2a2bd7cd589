"""Runs with methods that misbehave: in this process and, by ``sitecustomize``, in its children."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chipmap.instances.ring import Package, RingInstance
from chipmap.networks.graph import Operation, OperationGraph, Tensor

HOOKS = Path(__file__).parent / "hooks"
ROOT = Path(__file__).parents[2]


def chain(length: int = 60, chips: int = 12) -> RingInstance:
    """A chain whose operations take 1 us each, on free links: the period is the longest block."""
    graph = OperationGraph(
        name="chain",
        operations=tuple(Operation(name=f"op{v}", kind="matmul", flop=4_000_000) for v in range(length)),
        tensors=tuple(Tensor(producer=v, readers=(v + 1,), bytes=8) for v in range(length - 1)),
    )
    return RingInstance(name="chain", graph=graph, package=Package(chips=chips, link_bytes_per_ns=None))


@pytest.fixture
def instance() -> RingInstance:
    return chain()


@pytest.fixture
def instance_file(tmp_path: Path, instance: RingInstance) -> Path:
    path = tmp_path / "chain.json"
    path.write_bytes(instance.to_json())
    return path


@pytest.fixture(autouse=True)
def misbehaving(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The methods of ``hooks/misbehaving.py``, here and in every child."""
    import chipmap.families.ring as ring

    monkeypatch.syspath_prepend(str(HOOKS))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HOOKS), str(ROOT)]))
    monkeypatch.setattr(ring, "FAMILY", ring.FAMILY)
    import misbehaving

    misbehaving.install()
    yield
    sys.modules.pop("misbehaving", None)
