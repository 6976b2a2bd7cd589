"""The figures of an instance, and the mapping by original names."""

from __future__ import annotations

import csv
import io

import msgspec
import pytest

from chipmap.instances.ring import Package, RingInstance, RingSolution
from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.describe import describe, files
from chipmap.instances.ring.generators import bert_large, chain
from chipmap.instances.ring.loads import loads
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor

ODD = 'odd, "quoted"\nname é'


def instance() -> RingInstance:
    """An input, a table read on two chips, two computing operations with a view between them, one that is dead."""
    operations = (
        Operation(name="x", kind="input", role="input"),
        Operation(name="table", kind="parameter", role="constant"),
        Operation(name="turned", kind="permute", role="constant"),
        Operation(name=ODD, kind="mm", flop=4000, weight_bytes=7),
        Operation(name="flat", kind="view", role="view"),
        Operation(name="b", kind="mm", flop=8000),
        Operation(name="dead", kind="mm", flop=9000),
    )
    tensors = (
        Tensor(producer=0, readers=(3,), bytes=0),
        Tensor(producer=1, readers=(2,), bytes=0),
        Tensor(producer=2, readers=(3, 5), bytes=1024),
        Tensor(producer=3, readers=(4, 6), bytes=10),
        Tensor(producer=4, readers=(5,), bytes=10),
        Tensor(producer=5, bytes=10, output=True),
    )
    graph = OperationGraph(name="small", operations=operations, tensors=tensors)
    return RingInstance.make(name="small", graph=graph, package=Package(chips=3, sram_bytes_per_ns=1e9))


def rows(made: RingInstance, solution: RingSolution) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(files(made, solution)["mapping.csv"].decode(), newline="")))


def test_figures_of_a_small_instance() -> None:
    figures = describe(instance())
    assert figures["operations"] == 7
    assert figures["roles"] == {"compute": 3, "constant": 2, "input": 1, "view": 1}
    assert (figures["computing"], figures["flows"], figures["storages"]) == (2, 1, 1)
    assert figures["flop"] == 12_000
    assert figures["weights_mib"] == (7 + 1024) / 2**20
    assert figures["work_us"] == pytest.approx(0.003)
    assert figures["average_us"] == pytest.approx(0.001)
    assert figures["largest"] == {"name": "b", "us": pytest.approx(0.002), "of_average": pytest.approx(2.0)}
    assert figures["heaviest"]["name"] == ODD
    assert figures["contraction"]["dead"] == 1
    assert figures["package"]["chips"] == 3
    assert msgspec.json.decode(msgspec.json.encode(figures)) == figures


def test_figures_without_work() -> None:
    graph = OperationGraph(name="g", operations=(Operation(name="x", kind="input", role="input"),))
    figures = describe(RingInstance(name="none", graph=graph))
    assert (figures["computing"], figures["work_us"]) == (0, 0.0)
    assert "largest" not in figures
    graph = OperationGraph(name="g", operations=(Operation(name="idle", kind="mm"),))
    assert describe(RingInstance(name="idle", graph=graph))["largest"]["of_average"] is None


def test_mapping_by_original_names() -> None:
    table = rows(instance(), RingSolution(chips=(0, 0, 0, 0, 0, 1, 0)))
    assert [row["name"] for row in table] == ["x", "table", "turned", ODD.replace("\n", "\\n"), "flat", "b", "dead"]
    assert [row["chip"] for row in table] == ["0", "0 1", "0 1", "0", "0", "1", "0"]
    assert [row["role"] for row in table][:3] == ["input", "constant", "constant"]
    assert [float(row["work_us"]) for row in table] == [0, 0, 0, 0.001, 0, 0.002, 0]
    assert [int(row["weight_bytes"]) for row in table] == [0, 0, 0, 7 + 1024, 0, 1024, 0]
    table = rows(instance(), RingSolution(chips=(0, 0, 0, 0, 0, 0, 0)))
    assert [int(row["weight_bytes"]) for row in table] == [0, 0, 0, 7 + 1024, 0, 0, 0], "one chip holds it once"


def test_sums_over_the_mapping_are_the_loads_of_the_chips() -> None:
    made = bert_large(layers=2, chips=4)
    problem = ring_problem(made)
    computing = problem.computing.nonzero()[0].tolist()
    spread = {v: min(3, 4 * i // len(computing)) for i, v in enumerate(computing)}
    solution = lift(made, spread)
    on = loads(problem, solution.chips)
    table = rows(made, solution)
    assert len(table) == len(made.graph.operations)
    for chip in range(4):
        mine = [row for row in table if row["role"] == "compute" and row["chip"] == str(chip)]
        assert round(sum(float(row["work_us"]) for row in mine) * 1e5) == on.work[chip]
        assert sum(int(row["weight_bytes"]) for row in mine) == on.weight_bytes[chip]
    chips = {row["name"]: row["chip"] for row in table}
    assert chips["layer.0.attention.query.weight"] == chips["layer.0.attention.query.addmm"]
    assert chips["mask.where"] == " ".join(sorted({chips[f"layer.{i}.attention.add"] for i in range(2)}))


def test_measured_times_are_counted() -> None:
    made = chain(operations=3).replace(time_ns=[1.0, None, 2.5])
    assert describe(made)["measured_times"] == 2
