"""Operation graphs as kernel graphs: shapes from FLOP and bytes, and what flows between kernels."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.products import convolution, product
from chipmap.instances.wafer.from_graph import from_graph, shaped
from chipmap.networks import generators as networks
from chipmap.networks.graph import Loops, OperationGraph
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError
from tests.instances.samples import SAMPLES


def imported(graph: OperationGraph) -> ImportedGraph:
    return ImportedGraph(graph, None, "traced", ("a note",))


def traced(graph: OperationGraph) -> OperationGraph:
    """The graph without loop nests, as a trace has it."""
    return graph.replace(operations=[operation.replace(loops=None) for operation in graph.operations])


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


@pytest.mark.parametrize("trace", [False, True])
def test_a_residual_network(trace: bool) -> None:
    """54 kernels and 69 edges; the shortcut's sum runs in the block's last convolution."""
    instance = from_graph(imported(traced(networks.resnet()) if trace else networks.resnet()), "mine")
    assert (instance.name, len(instance.kernels), len(instance.edges)) == ("mine", 54, 69)
    assert instance.notes.startswith("a note; numbers of 2 bytes" if trace else "a note; 1")
    by_name = {kernel.name: kernel.arguments for kernel in instance.kernels}
    assert by_name["stem.conv.convolution"] == {"H": 224, "W": 224, "C": 3, "K": 64, "R": 7, "S": 7, "T": 2, "U": 2}
    graph = networks.resnet()
    flop = sum(op.flop for op in graph.operations if op.kind in ("convolution", "addmm"))
    work = sum(2 * prod(a[key] for key in "HWCKRS") // a["T"] ** 2 for a in by_name.values())
    assert work == flop
    readers = [v for u, v in instance.edges if u == "stage.0.block.1.conv3.convolution"]
    assert readers == ["stage.0.block.2.conv1.convolution", "stage.0.block.2.conv3.convolution"]


@pytest.mark.parametrize("trace", [False, True])
def test_a_transformer(trace: bool) -> None:
    graph = networks.bert_encoder(layers=2)
    instance = from_graph(imported(traced(graph) if trace else graph), "mine")
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
        (traced(networks.unet()), "convolution 'up.3.upsample.convolution': 1,073,741,824 FLOP"),
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


def test_shapes_of_loop_nests() -> None:
    """Filters that are no squares, batches, groups, lines, transposed windows: FLOP and weights are the operation's."""
    square: dict[str, Any] = {"weights": True, "columns": 2 * 6 * 10, "places": (6, 10)}
    square |= {"window": (3, 5), "stride": (2, 2)}
    plain = Loops(rows=16, inner=4 * 15, **square)
    assert shaped(plain) == {"H": 24, "W": 20, "C": 4, "K": 16, "R": 3, "S": 5, "T": 2, "U": 2}
    grouped = Loops(outer=8, rows=2, inner=15, **square)
    assert shaped(grouped) == {"H": 24, "W": 20, "C": 1, "K": 16, "R": 3, "S": 5, "T": 2, "U": 2}
    line = Loops(rows=8, inner=12, columns=50, weights=True, window=(3,), stride=(2,), places=(50,))
    assert shaped(line) == {"H": 100, "W": 2, "C": 4, "K": 8, "R": 3, "S": 1, "T": 2, "U": 2}
    turned = Loops(rows=32, inner=8, columns=25, weights=True, transposed=True, window=(2, 2), stride=(2, 2))
    assert shaped(turned) == {"H": 5, "W": 5, "C": 8, "K": 32, **dict.fromkeys("RSTU", 1)}
    heads = Loops(outer=12, rows=64, inner=32, columns=128)
    assert shaped(heads) == {"H": 128, "W": 12, "C": 32, "K": 64, **dict.fromkeys("RSTU", 1)}
    experts = Loops(outer=4, rows=64, inner=32, columns=100, weights=True)
    assert shaped(experts) == {"H": 10, "W": 10, "C": 32, "K": 256, **dict.fromkeys("RSTU", 1)}
    for loops in (plain, grouped, line, turned, heads, experts):
        a = shaped(loops)
        assert a is not None
        assert prod(a[key] for key in "HWCKRS") == loops.outer * loops.rows * loops.inner * loops.columns * a["T"] ** 2
        if loops.weights:
            assert prod(a[key] for key in "CKRS") == loops.outer * loops.rows * loops.inner
    assert shaped(plain.replace(stride=(1, 2))) is None
    assert shaped(Loops(rows=2, inner=27, columns=8, weights=True, window=(3, 3, 3), stride=(1,) * 3)) is None


def test_a_network_that_only_loop_nests_determine() -> None:
    """A U-Net's transposed convolutions are kernels, and the work of all of them is the operations'."""
    graph = networks.unet()
    instance = from_graph(imported(graph), "mine")
    work = sum(2 * prod(k.arguments[key] for key in "HWCKRS") // k.arguments["T"] ** 2 for k in instance.kernels)
    names = {kernel.name for kernel in instance.kernels}
    assert work == sum(operation.flop for operation in graph.operations if operation.name in names)
    assert "up.3.upsample.convolution" in names


def test_what_no_kernel_computes_is_refused() -> None:
    graph = networks.resnet()
    operations = [
        o.replace(loops=o.loops.replace(stride=(1, 2))) if o.name == "stem.conv.convolution" and o.loops else o
        for o in graph.operations
    ]
    with pytest.raises(InputError, match=r"no kernel of the fabric computes it \(window \[7, 7\], stride \[1, 2\]\)"):
        from_graph(imported(graph.replace(operations=operations)), "mine")
