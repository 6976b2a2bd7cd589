"""Networks for vision, language and speech: weights and FLOP against the papers and counts by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chipmap.networks import generators as networks
from chipmap.networks.graph import OperationGraph

#: Weights as published with the usual implementations, buffers of batch norms (mean, variance) included; giga-FLOP, two
#: for each multiply-add of the paper's table.
CASES = [
    (networks.vgg, {}, 138_357_544, 30.96),
    (networks.mobilenet, {}, 4_231_976 + 21_888, 1.148),
    (networks.mobilenet, {"version": 2}, 3_504_872 + 34_112, 0.615),
    (networks.squeezenet, {}, 1_248_424, 1.785),
    (networks.squeezenet, {"bypass": True}, 1_248_424, 1.786),
    (networks.googlenet, {}, 6_998_552, 3.174),
    (networks.mixer, {}, 59_880_472, 25.22),
]
#: A function that makes a network. It is called by the test: collecting all tests makes none.
Maker = Callable[..., OperationGraph]


@pytest.mark.parametrize(
    ("make", "fields", "weights", "giga"), CASES, ids=[f"{case[0].__name__}-{k}" for k, case in enumerate(CASES)]
)
def test_weights_and_flop(make: Maker, fields: dict[str, Any], weights: int, giga: float) -> None:
    graph = make(**fields)
    assert sum(operation.weight_bytes for operation in graph.operations) == 2 * weights
    assert sum(operation.flop for operation in graph.operations) / 1e9 == pytest.approx(giga, rel=1e-3)


def test_a_depthwise_convolution_by_hand() -> None:
    """The first pair's on 112 × 112 positions of 32 channels: 9 multiply-adds each."""
    graph = networks.mobilenet()
    (found,) = [operation for operation in graph.operations if operation.name == "pair.0.depthwise.conv.convolution"]
    assert found.flop == 2 * 9 * 32 * 112 * 112
    assert found.weight_bytes == 2 * 9 * 32


QWEN2: dict[str, Any] = {
    "layers": 24,
    "hidden": 896,
    "heads": 14,
    "kv_heads": 2,
    "intermediate": 4864,
    "vocabulary": 151936,
}
QWEN3: dict[str, Any] = {
    "layers": 28,
    "hidden": 1024,
    "heads": 16,
    "kv_heads": 8,
    "head_width": 128,
    "intermediate": 3072,
    "vocabulary": 151669,
}


@pytest.mark.parametrize(
    ("make", "fields", "weights"),
    [
        (networks.decoder, {}, 1_235_814_400),
        (networks.decoder, {**QWEN2, "style": "qwen2"}, 494_032_768),
        (networks.decoder, {**QWEN3, "style": "qwen3", "head": "none"}, 595_776_512),
        (networks.t5, {}, 222_903_552 - 2 * 12 * 32),  # less the tables of positions, known before the run
        (networks.whisper, {}, 241_734_912 - (448 - 128) * 768),  # less the rows of positions that no token has
        (networks.mamba, {"layers": 24}, 129_135_360 - 24 * 1536 * 16),  # less the rates, known before the run
    ],
    ids=["Llama 3.2 1B", "Qwen2 0.5B", "Qwen3 Embedding 0.6B", "T5 base", "Whisper small", "Mamba 130M"],
)
def test_published_parameters_of_language_models(make: Maker, fields: dict[str, Any], weights: int) -> None:
    graph = make(**fields)
    kept = sum(operation.weight_bytes for operation in graph.operations)
    made = [(graph.operations[t.producer], t.bytes) for t in graph.tensors]
    kept += sum(size for operation, size in made if operation.kind == "parameter")
    assert kept == 2 * weights


def test_flop_of_language_models_by_hand() -> None:
    """Products only: 2 FLOP per weight and token, and attention's 4 · tokens · keys · width."""

    def products(graph: OperationGraph) -> int:
        return sum(operation.flop for operation in graph.operations if operation.kind in ("mm", "addmm", "bmm"))

    layer = 2 * 512 * (2 * 2048 * (32 + 8) * 64 + 3 * 2048 * 8192) + 4 * 512 * 512 * 2048
    assert products(networks.decoder()) == 16 * layer + 2 * 512 * 2048 * 128256
    width, encoder, decoder = 768, 512, 128
    ff = 2 * width * 3072 * 2
    t5 = 12 * encoder * (8 * width**2 + ff) + 12 * 4 * encoder**2 * width
    t5 += 12 * decoder * (8 * width**2 + ff + 4 * width**2) + 12 * encoder * 4 * width**2
    t5 += 12 * 4 * width * (decoder**2 + decoder * encoder) + 2 * decoder * width * 32128
    assert products(networks.t5()) == t5
    inner, rank = 1536, 48
    mamba = 2 * 768 * 2 * inner + 2 * inner * (rank + 32) + 2 * rank * inner + 2 * inner * 16 + 2 * inner * 768
    for decomposed in (True, False):
        assert products(networks.mamba(layers=2, decomposed=decomposed)) == 64 * (2 * mamba + 2 * 768 * 50280)


def test_conv_tasnet_by_hand() -> None:
    """Weights and multiply-adds of its convolutions: a block's, over 3,999 frames."""
    graph = networks.conv_tasnet()
    found = {o.name: o for o in graph.operations if o.kind == "convolution" and ".block.1." in o.name}
    assert sorted(operation.flop for operation in found.values()) == sorted(
        2 * 3999 * size for size in (128 * 512, 3 * 512, 512 * 128, 512 * 128)
    )
    assert sum(operation.weight_bytes for operation in graph.operations) == 2 * 4_984_881
    assert len([o for o in graph.operations if o.role == "compute"]) == 245


def test_coat_by_hand() -> None:
    """Weights of CoaT Tiny (published: 5.5 million), and multiply-adds of a block's products and convolutions."""
    graph = networks.coat()
    made = [(graph.operations[t.producer], t.bytes) for t in graph.tensors]
    kept = sum(operation.weight_bytes for operation in graph.operations)
    kept += sum(size for operation, size in made if operation.kind == "parameter")
    width, attention, mlp = 152, 4 * 152 * 152 + 4 * 152, 8 * 152 * 152 + 5 * 152
    patches = width * (3 * 16 + 1) + 3 * width * (4 * width + 1) + 4 * 2 * width
    shared = 4 * (width + 10 * width + 38 * 10 + 57 * 26 + 57 * 50)
    serial, parallel = 8 * (4 * width + attention + mlp), 6 * (3 * 4 * width + 3 * attention + mlp)
    assert kept == 2 * (patches + shared + serial + parallel + 3 * 2 * width + 4 + 1000 * (width + 1)) == 2 * 5_498_540
    flop = {operation.name: operation.flop for operation in graph.operations}
    scope, tokens, places = "scale.1.block.0", 1 + 28 * 28, 28 * 28
    assert flop[f"{scope}.attention.qkv.addmm"] == 2 * tokens * width * 3 * width
    assert flop[f"{scope}.attention.bmm"] == flop[f"{scope}.attention.bmm_1"] == 2 * tokens * width * 19
    assert flop[f"{scope}.attention.windows.convolution_2"] == 2 * 49 * 57 * places
    assert len([o for o in graph.operations if o.role == "compute"]) == 780


def test_mspn_by_hand() -> None:
    """Two ResNet-50 bodies on 64 × 48 places, eight heads, skips and a crossing between the stages."""
    graph = networks.mspn()
    computing = [operation for operation in graph.operations if operation.role == "compute"]
    body = 16 * 10 + 4 * 2
    assert len(computing) == 4 + 2 * (body + 4 * 2 + 3 * 4 + 4) + 4 * 6 + 3 + 4 * 2 + 8 * 6 == 471
    flop = {operation.name: operation.flop for operation in computing}
    assert flop["stage.1.down.0.block.0.conv1.convolution"] == 2 * 64 * 64 * 64 * 48
    assert flop["stage.0.head.3.conv2.convolution"] == 2 * 9 * 256 * 17 * 64 * 48
