"""VGG, MobileNet, SqueezeNet, GoogLeNet and MLP-Mixer: weights and FLOP against the papers and counts by hand."""

from __future__ import annotations

import pytest

from chipmap.instances import networks
from chipmap.instances.graph import OperationGraph

#: Weights as published with the usual implementations, buffers of batch norms (mean, variance) included; giga-FLOP, two
#: for each multiply-add of the paper's table.
CASES = [
    (networks.vgg(), 138_357_544, 30.96),
    (networks.mobilenet(), 4_231_976 + 21_888, 1.148),
    (networks.mobilenet(version=2), 3_504_872 + 34_112, 0.615),
    (networks.squeezenet(), 1_248_424, 1.785),
    (networks.squeezenet(bypass=True), 1_248_424, 1.786),
    (networks.googlenet(), 6_998_552, 3.174),
    (networks.mixer(), 59_880_472, 25.22),
]


@pytest.mark.parametrize(
    ("graph", "weights", "giga"), CASES, ids=[f"{g.name}-{k}" for k, (g, _, _) in enumerate(CASES)]
)
def test_weights_and_flop(graph: OperationGraph, weights: int, giga: float) -> None:
    assert sum(operation.weight_bytes for operation in graph.operations) == 2 * weights
    assert sum(operation.flop for operation in graph.operations) / 1e9 == pytest.approx(giga, rel=1e-3)


def test_a_depthwise_convolution_by_hand() -> None:
    """The first pair's on 112 × 112 positions of 32 channels: 9 multiply-adds each."""
    graph = networks.mobilenet()
    (found,) = [operation for operation in graph.operations if operation.name == "pair.0.depthwise.conv.convolution"]
    assert found.flop == 2 * 9 * 32 * 112 * 112
    assert found.weight_bytes == 2 * 9 * 32
