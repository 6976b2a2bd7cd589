"""Bad and impossible dataflow problems: one clear message with the numbers and what would fit, never a traceback."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Command

TORUS, CHAIN = "dataflow/table6-free-4x2", "dataflow/tiny-chain"

REFUSED = [
    (
        TORUS,
        ("task.degrees.tensor=3",),
        "task.degrees.tensor: is 3, but its dimensions hold 4 chips\n"
        "  Give 4, or other dimensions: the network is 4 x 2.",
    ),
    (
        TORUS,
        ("system.network.1.size=3",),
        "task.degrees.data: is 2, but its dimensions hold 3 chips\n"
        "  Give 3, or other dimensions: the network is 4 x 3.",
    ),
    (
        TORUS,
        ('task.degrees:={"tensor":4,"pipeline":2,"dimensions":["tensor","pipeline"]}', "workload.layers=95"),
        "task.degrees.pipeline: 2 stages don't divide 95 layers\n  Divisors: 1, 5, 19, 95.",
    ),
    (
        TORUS,
        ("task.batch=2303",),
        "2 replicas of micro-batches of 1 don't divide a batch of 2303\n"
        "  Give a batch that is a multiple of 2, such as 2,304.",
    ),
    (
        TORUS,
        ('task.degrees:={"tensor":4,"dimensions":["tensor"]}',),
        "task.degrees.dimensions: names 1 dimension, the network has 2",
    ),
    (
        TORUS,
        ("system.network.1.bytes_per_ns=0",),
        "system.network[1].bytes_per_ns: is 0.0\n  Give 1e-9 to 1e12.",
    ),
    (TORUS, ("system.network=[]",), "system.network: has 0 dimensions\n  Give one to five."),
    (TORUS, ('system.network.1:={"size":2}',), "system.network[1].bytes_per_ns: is missing"),
    (TORUS, ("system.memory.capacity_bytes=0",), "system.memory.capacity_bytes: is 0\n  Give 1 to 10**18, or null."),
    (
        CHAIN,
        ('workload.edges=[["a","b"],["b","c"],["c","a"]]',),
        "workload.edges: the kernels c -> a -> b -> c form a cycle\n  Leave out one of these edges.",
    ),
]


@pytest.mark.parametrize(("name", "settings", "message"), REFUSED, ids=[row[1][0][:40] for row in REFUSED])
def test_wrong_instances(chipmap: Command, name: str, settings: tuple[str, ...], message: str) -> None:
    done = chipmap("solve", name, *(word for setting in settings for word in ("--set", setting)))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("chipmap: ") and done.err.count("\n") == 2, "what is wrong, and a remedy"
    assert message in done.err


def infeasible(chipmap: Command, name: str, *settings: str) -> str:
    """What standard error says of an instance that has no mapping."""
    done = chipmap("solve", name, *(word for setting in settings for word in ("--set", setting)))
    assert done.code == 2
    assert "infeasible" in done.out and "Traceback" not in done.err
    return done.err


def test_degrees_that_divide_nothing(chipmap: Command) -> None:
    said = infeasible(chipmap, "dataflow/tiny-degrees", "workload.layers=3", "task.batch=5")
    assert "infeasible (C0): no assignment of the network 2 x 2" in said and "3 layers" in said
    assert "these can be divided: workload.layers=4 or task.batch=6" in said
    said = infeasible(chipmap, "dataflow/tiny-degrees", "workload.layers=3", "task.batch=5", "task.micro_batch=2")
    assert "these can be divided: task.batch=8" in said


def test_tensor_parallelism_over_several_dimensions_is_a_remedy(chipmap: Command) -> None:
    """One sample of one layer on 2 x 2 chips: all four share a layer's tensors, or there are no degrees. That remedy
    is named in mode `physical` alone, and it does."""
    one = ("workload.layers=1", "task.batch=1")
    assert "tensor_dimensions" not in infeasible(chipmap, "dataflow/tiny-degrees", *one, "mode=dfmodel")
    said = infeasible(chipmap, "dataflow/tiny-degrees", *one, "mode=physical")
    assert "tensor parallelism over 2 dimensions of the network (task.tensor_dimensions=2)" in said
    settings = (*one, "mode=physical", "task.tensor_dimensions=2")
    done = chipmap("solve", "dataflow/tiny-degrees", *(word for setting in settings for word in ("--set", setting)))
    assert done.code == 0 and "valid" in done.out


def test_a_tensor_larger_than_dram(chipmap: Command) -> None:
    small = "system.memory.capacity_bytes=1000"
    said = infeasible(chipmap, CHAIN, small, "mode=dfmodel")
    assert "infeasible (C6)" in said and "1,000 bytes of a chip's DRAM" in said
    assert "alone takes 30,000 while it waits between partitions" in said
    enough = said.partition("bytes do: --set system.memory.capacity_bytes=")[2].split()[0]
    done = chipmap("solve", CHAIN, "--set", f"system.memory.capacity_bytes={enough}", "--set", "mode=dfmodel")
    assert done.code == 0
