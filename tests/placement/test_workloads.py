"""Training graphs: the transform on graphs worked out by hand, and the shipped workloads."""

from __future__ import annotations

import re

import pytest

from benchmarks.placement_gdp import TABLE_1, follows, speed_up
from chipmap.inputs.reading import read
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.generators import NETWORKS, inference, training_step
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.shipped import SHIPPED
from chipmap.instances.placement.training import training
from chipmap.methods.placement.first import first
from chipmap.methods.placement.reasons import impossible
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check
from tests.docs.pages import ROOT

#: The first 16 digits of content hashes. A change here changes what published results refer to.
HASHES: dict[str, str] = {
    "placement/rnnlm-2-pcie": "c540018aaa8c6989",
    "placement/rnnlm-2-nvlink": "fa935f7384dcd148",
    "placement/rnnlm-4-pcie": "99b3b4a5a1a2a7ca",
    "placement/rnnlm-4-nvlink": "60fbf1197180460a",
    "placement/gnmt-2-pcie": "869f0069407193a7",
    "placement/gnmt-2-nvlink": "9d84818a97cb93c2",
    "placement/gnmt-4-pcie": "e91e7ffa704c3eda",
    "placement/gnmt-4-nvlink": "2d362f99370014ce",
    "placement/gnmt-8-pcie": "e543d049ff90b766",
    "placement/gnmt-8-nvlink": "41baa78b247fa940",
    "placement/transformer-xl-2-pcie": "d2a4ea0db9d670e9",
    "placement/transformer-xl-2-nvlink": "097a4fc44263ef00",
    "placement/transformer-xl-4-pcie": "9e0f4c3b18614871",
    "placement/transformer-xl-4-nvlink": "ff170bf078d81382",
    "placement/transformer-xl-8-pcie": "31a6191c8efbfd8c",
    "placement/transformer-xl-8-nvlink": "a1da6bc2d94626af",
    "placement/inception-2-pcie": "d173f6a7564a71aa",
    "placement/inception-2-nvlink": "dde1b16158028c04",
    "placement/amoebanet-4-pcie": "daa4e496651814e7",
    "placement/amoebanet-4-nvlink": "bc096b48c367e4ef",
    "placement/wavenet-2-pcie": "1f42872c5046129b",
    "placement/wavenet-2-nvlink": "7385bf83000e252b",
    "placement/wavenet-4-pcie": "e61a75de5d55264b",
    "placement/wavenet-4-nvlink": "e8f2b5f55f67df18",
    "placement/gnmt-8-50k-pcie": "219f3f881c0619ed",
    "placement/tiny-pair": "3be3d3fa31fe5c44",
    "placement/tiny-none": "20f06cff31cb3379",
    "placement/tiny-bus": "64c794ecb1ef618a",
    "placement/tiny-duplex": "1fd187362f60bc2a",
    "placement/tiny-host": "841c0ba28cf4f677",
    "placement/tiny-classes": "250e8c352417032d",
    "placement/tiny-live": "f9461cb2488695a7",
    "placement/tiny-variable": "c15ed92e738b20f0",
    "placement/tiny-throughput": "f2f3f3d8d4096185",
    "placement/tiny-contiguous": "754c15d322c45232",
}


def two_products() -> OperationGraph:
    """y = relu(x · w) · w: an input, a weight that two products read, two products and what is between."""
    rows = [
        ("x", "input", "input", 0),
        ("w", "weight", "constant", 0),
        ("a", "product", "compute", 100),
        ("r", "relu", "compute", 4),
        ("b", "product", "compute", 200),
    ]
    operations = [Operation(name=name, kind=kind, role=role, flop=flop) for name, kind, role, flop in rows]  # type: ignore[arg-type]
    edges = {0: (2,), 1: (2, 4), 2: (3,), 3: (4,), 4: ()}
    sizes = {0: 8, 1: 40, 2: 16, 3: 16, 4: 24}
    return OperationGraph.checked(
        "two", operations, [Tensor(producer=u, readers=edges[u], bytes=sizes[u]) for u in edges]
    )


def reads(graph: OperationGraph) -> dict[str, list[str]]:
    """What each operation reads, by names."""
    names = [one.name for one in graph.operations]
    return {names[v]: [names[u] for u in producers] for v, producers in enumerate(graph.reads())}


def test_a_training_step_by_hand() -> None:
    """b has gradients for r and for w, relu one, a one for w only (x is an input); the two of w are added up."""
    step = training(two_products())
    read = reads(step.graph)
    assert step.together == (("w", "w/update"),)
    assert set(step.backward) == set(read) - {"x", "w", "a", "r", "b"}
    assert read["b/loss 4"] == ["b"]
    assert sorted(read["b/gradient 3"]) == ["b/loss 4", "w"] and sorted(read["b/gradient 1"]) == ["b/loss 4", "r"]
    assert sorted(read["r/gradient"]) == ["b/gradient 3", "r"]  # relu's gradient goes by its result
    assert sorted(read["a/gradient 1"]) == ["r/gradient", "x"] and "a/gradient 0" not in read
    assert sorted(read["w/add 1"]) == ["a/gradient 1", "b/gradient 1"] and sorted(read["w/update"]) == ["w", "w/add 1"]
    flop = {one.name: one.flop for one in step.graph.operations}
    assert flop["b/gradient 3"] == flop["b/gradient 1"] == 200 and flop["a/gradient 1"] == 100
    state = {one.name: one.weight_bytes for one in step.graph.operations}
    assert state["w/update"] == 80 and sum(state.values()) == 80


def test_weights_of_an_operation_become_a_constant() -> None:
    operations = [Operation(name="a", kind="product", flop=6, weight_bytes=12)]
    step = training(OperationGraph.checked("one", operations, [Tensor(producer=0, bytes=4)]))
    kinds = {one.name: (one.role, one.weight_bytes) for one in step.graph.operations}
    assert kinds["a/weight"] == ("constant", 0) and kinds["a"] == ("compute", 0)
    assert kinds["a/weight/update"] == ("compute", 24)


@pytest.mark.parametrize("network", NETWORKS)
def test_training_takes_three_times_the_products_of_inference(network: str) -> None:
    """But for the first layer, whose input needs no gradient."""
    small = {"steps": 3} if network in ("rnnlm", "gnmt") else {}
    forward, step = inference(network, small).graph, training_step(network, small).graph
    kinds = ("product", "convolution")
    once, thrice = (sum(one.flop for one in graph.operations if one.kind in kinds) for graph in (forward, step))
    assert 2.9 * once < thrice <= 3 * once
    assert len(step.operations) > 2 * len(forward.operations)


def test_every_weight_has_one_update_on_its_device() -> None:
    instance = training_step("gnmt", {"layers": 2, "steps": 3})
    problem = placement_problem(instance)
    weights = [one.name for one in instance.graph.operations if one.role == "constant"]
    assert sorted(group[0] for group in instance.together) == sorted(weights)
    assert all(len(members) <= 2 for members in problem.groups)


def test_unknown_networks_and_parameters() -> None:
    for call in (
        lambda: training_step("lstm"),
        lambda: training_step("rnnlm", {"depth": 3}),
        lambda: training_step("rnnlm", system="a100"),
    ):
        with pytest.raises(InputError) as raised:
            call()
        assert raised.value.remedy


@pytest.mark.parametrize("name", SHIPPED)
def test_content_hash(name: str) -> None:
    assert read(name).content_hash[:16] == HASHES[name]


def test_the_page_lists_them() -> None:
    page = (ROOT / "docs" / "reference" / "instances-placement.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(placement/[\w-]+)`", page)) == set(SHIPPED)


def test_the_largest_has_50_000_operations() -> None:
    found = read("placement/gnmt-8-50k-pcie")
    assert isinstance(found, PlacementInstance) and placement_problem(found).operations == 52_213


def test_speed_ups_of_the_paper_that_follow_from_its_seconds() -> None:
    """0.440 / 0.394 is 1.117, not 1.261; 0.641 / 0.580 is 1.105, not 1.114; 0.813 / 0.748 is 1.087, not 1.089."""
    wrong = {name for name, row in TABLE_1.items() if not follows(row.over_human, row.human, row.gdp)}
    assert wrong == {"amoebanet-4", "transformer-xl-4", "transformer-xl-8"}
    assert round(speed_up(0.44, 0.394), 1) == 11.7 and round(speed_up(0.641, 0.580), 1) == 10.5
    assert all(follows(row.over_hdp, row.hdp, row.gdp) for row in TABLE_1.values())


def test_an_encoder_with_many_readers_fits_where_it_does() -> None:
    """Its gradients are added two at a time; one sum of all 120 would need more than a device has."""
    network = {"layers": 2, "steps": 60, "hidden": 64, "batch": 16, "vocabulary": 100}
    before, now = (
        placement_problem(training_step("gnmt", network, memory_bytes=20_000_000, saved=saved))  # type: ignore[arg-type]
        for saved in ("operands", "autograd")
    )
    assert "encoder.memory/sum" in next(iter(impossible(before))).message
    assert not list(impossible(now))
    run = Run(now.instance, SolveOptions(threads=1), check)
    first(now.instance, run)
    assert run.best is not None
