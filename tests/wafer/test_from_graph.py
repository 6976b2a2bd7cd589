"""Operation graphs as kernel graphs: shapes from FLOP and bytes, and what flows between kernels."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import pytest

from chipmap.inputs.reading import read
from chipmap.instances import networks
from chipmap.instances.graph import OperationGraph
from chipmap.instances.importers import ImportedGraph, import_graph
from chipmap.instances.wafer.from_graph import convolution, from_graph, product
from chipmap.records import InputError
from tests.instances.samples import SAMPLES


def imported(graph: OperationGraph) -> ImportedGraph:
    return ImportedGraph(graph, None, "traced", ("a note",))


def test_products_come_back() -> None:
    random = Random(1)
    for _ in range(300):
        m, c, k, times = (random.randint(1, 300) for _ in range(4))
        for word in (2, 4):
            weights = random.choice((c * k, c * k + k, 0)) * word
            found = product(2 * m * c * k, weights, [m * c * word], m * k * word, word)
            assert found is not None
            assert (found["H"] * found["W"], found["C"], found["K"], found["R"], found["T"]) == (m, c, k, 1, 1)
            two = product(
                2 * times * m * c * k, 0, [times * c * k * word, times * m * c * word], times * m * k * word, word
            )
            assert two is not None
            assert (two["W"], two["C"], two["H"] * two["K"]) == (times, c, m * k)
            if m >= k:
                assert (two["H"], two["K"]) == (m, k)


def test_convolutions_come_back() -> None:
    random = Random(2)
    for _ in range(300):
        side, c, k = random.randint(1, 60), random.randint(1, 300), random.randint(1, 300)
        r, stride = random.choice(((1, 1), (1, 2), (3, 1), (3, 2), (5, 1), (7, 2), (5, 4), (2, 1)))
        for word in (2, 4):
            out, read_bytes = side * side * k, side * side * stride**2 * c * word
            weights = (r * r * c * k + random.choice((0, k))) * word
            found = convolution(2 * r * r * c * out, weights, [read_bytes], out * word, word)
            assert found == {
                **dict.fromkeys("HW", side * stride),
                "C": c,
                "K": k,
                **dict.fromkeys("RS", r),
                **dict.fromkeys("TU", stride),
            }


def test_a_residual_network() -> None:
    """54 kernels and 69 edges; the shortcut's sum runs in the block's last convolution."""
    instance = from_graph(imported(networks.resnet()), "mine")
    assert (instance.name, len(instance.kernels), len(instance.edges)) == ("mine", 54, 69)
    assert instance.notes.startswith("a note; numbers of 2 bytes")
    by_name = {kernel.name: kernel.arguments for kernel in instance.kernels}
    assert by_name["stem.conv.convolution"] == {"H": 224, "W": 224, "C": 3, "K": 64, "R": 7, "S": 7, "T": 2, "U": 2}
    graph = networks.resnet()
    flop = sum(op.flop for op in graph.operations if op.kind in ("convolution", "addmm"))
    work = sum(2 * prod(a[key] for key in "HWCKRS") // a["T"] ** 2 for a in by_name.values())
    assert work == flop
    readers = [v for u, v in instance.edges if u == "stage.0.block.1.conv3.convolution"]
    assert readers == ["stage.0.block.2.conv1.convolution", "stage.0.block.2.conv3.convolution"]


def test_a_transformer() -> None:
    instance = from_graph(imported(networks.bert_encoder(layers=2)), "mine")
    ours = read("wafer/bert-large")
    per_layer = sorted(tuple(k.arguments[key] for key in "CK") for k in instance.kernels[:8])
    assert per_layer == sorted(tuple(k.arguments[key] for key in "CK") for k in ours.kernels[1:9])  # type: ignore[attr-defined]
    assert len(instance.kernels) == 2 * 8 + 1


def test_the_samples_of_published_formats_are_read_or_refused() -> None:
    said = set()
    for name, data in SAMPLES.items():
        try:
            from_graph(import_graph(f"{name}.file", data), name)
        except InputError as error:
            assert error.remedy
            said.add(
                "determine" if "determine" in error.what else "no operation" if "no operation" in error.what else "?"
            )
    assert said and "?" not in said


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (networks.chain(), "no operation that is a convolution or a matrix product"),
        (networks.unet(), "convolution 'up.3.upsample.convolution': 1,073,741,824 FLOP"),
    ],
)
def test_what_a_graph_does_not_determine_is_named(graph: OperationGraph, said: str) -> None:
    with pytest.raises(InputError, match="mine: ") as error:
        from_graph(imported(graph), "mine")
    assert said in str(error.value) and error.value.remedy


@pytest.mark.parametrize(
    "given",
    [
        (0, 8, [8], 8, 4),
        (8, 8, [], 8, 4),
        (8, 8, [8], 0, 4),
        (8, 8, [9], 8, 4),
        (10**15, 1, [7], 13, 1),
        (2, 0, [0], 1, 1),
    ],
)
def test_figures_that_fit_nothing(given: tuple[Any, ...]) -> None:
    assert product(*given) is None
    assert convolution(*given) is None
