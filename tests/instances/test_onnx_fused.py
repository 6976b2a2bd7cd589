"""Fused and quantised ONNX operators: shapes of results, FLOP and bytes moved, each by hand."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
from onnx import TensorProto, helper  # noqa: E402 (after the check that it is there)

F, U8, I8, I64, H = (getattr(TensorProto, name) for name in ("FLOAT", "UINT8", "INT8", "INT64", "FLOAT16"))
MICROSOFT = "com.microsoft"


def x(*shape: int, kind: int = F) -> Any:
    """An input."""
    return (shape, kind, False)


def w(*shape: int, kind: int = F) -> Any:
    """A weight, whose data lies in another file."""
    return (shape, kind, True)


def converted(operator: str, operands: list[Any], results: int = 1, domain: str = MICROSOFT, **attributes: Any) -> Any:
    """The operation that a model of one node becomes, and the bytes of its results."""
    inputs, weights, names = [], [], []
    for i, operand in enumerate(operands):
        names.append(f"i{i}" if operand else "")
        if operand:
            shape, kind, stored = operand
            if stored:
                held = TensorProto(name=names[-1], data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
                weights.append(held)
            else:
                inputs.append(helper.make_tensor_value_info(names[-1], kind, shape))
    made = [f"y{i}" for i in range(results)]
    node = helper.make_node(operator, names, made, domain=domain, name="node", **attributes)
    outputs = [helper.make_tensor_value_info(name, 0, None) for name in made]
    graph = helper.make_graph([node], "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid(MICROSOFT, 1)]
    imported = import_graph("m.onnx", helper.make_model(graph, opset_imports=opsets).SerializeToString())
    assert not any("not known" in note for note in imported.notes)
    place = next(v for v, op in enumerate(imported.graph.operations) if op.name == "node")
    sizes = [tensor.bytes for tensor in imported.graph.tensors if tensor.producer == place]
    return imported.graph.operations[place], sizes


# 2 samples, 5 tokens, 16 features in 4 heads of 4
B, S, D, N = 2, 5, 16, 4
TOKENS = x(B, S, D)
SCALE, ZERO = w(), w(kind=U8)


@pytest.mark.parametrize(
    ("operator", "operands", "attributes", "flop", "sizes"),
    [
        ("MatMulNBits", [TOKENS, w(32, 1, 8, kind=U8), w(32)], {"K": D, "N": 32, "bits": 4}, 2 * 10 * 16 * 32, [1280]),
        ("DynamicQuantizeMatMul", [x(S, D), w(D, 32, kind=I8), w(1)], {}, 2 * 5 * 16 * 32, [640]),
        ("MatMulIntegerToFloat", [x(S, D, kind=U8), w(D, 32, kind=I8), w(1), w(1)], {}, 2 * 5 * 16 * 32, [640]),
        ("FusedMatMul", [x(B, D, S), x(B, D, 7)], {"transA": 1}, 2 * 2 * 5 * 7 * 16, [280]),
        ("FusedMatMul", [x(B, S, D), x(B, 7, D)], {"transB": 1}, 2 * 2 * 5 * 7 * 16, [280]),
        ("FusedGemm", [x(S, D), w(D, 7), w(7)], {"activation": "Relu"}, 2 * 5 * 7 * 16, [140]),
        ("QGemm", [x(S, D, kind=U8), SCALE, ZERO, w(D, 7, kind=U8), SCALE, ZERO], {}, 2 * 5 * 7 * 16, [35]),
        ("FusedConv", [x(1, 3, 8, 8), w(4, 3, 3, 3)], {"pads": [1] * 4, "activation": "Relu"}, 2 * 256 * 27, [1024]),
        ("NhwcConv", [x(1, 8, 8, 3), w(4, 3, 3, 3)], {"pads": [1] * 4, "strides": [2, 2]}, 2 * 64 * 27, [256]),
        # three projections of 16 columns, then scores and sums over 5 keys, or over 7 past ones as well
        ("Attention", [TOKENS, w(D, 48), w(48)], {"num_heads": N}, 2 * 10 * 16 * 48 + 2 * 2 * 5 * 5 * 32, [640]),
        (
            "Attention",
            [TOKENS, w(D, 48), w(48), None, x(2, B, N, 7, 4)],
            {"num_heads": N, "results": 2},
            2 * 10 * 16 * 48 + 2 * 2 * 5 * 12 * 32,
            [640, 2 * B * N * 12 * 4 * 4],
        ),
        (
            "QAttention",
            [x(B, S, D, kind=U8), w(D, 48, kind=I8), w(48), w(), w()],
            {"num_heads": N},
            2 * 10 * 16 * 48 + 2 * 2 * 5 * 5 * 32,
            [640],
        ),
        ("MultiHeadAttention", [TOKENS, x(B, 7, D), x(B, 7, D)], {"num_heads": N}, 2 * 2 * 4 * 5 * 7 * 8, [640]),
        ("MultiHeadAttention", [x(B, S, N, 3, 4)], {"num_heads": N}, 2 * 2 * 4 * 5 * 5 * 8, [640]),
        (
            "GroupQueryAttention",  # 2 heads of keys for 4 of queries, 9 past keys
            [TOKENS, x(B, S, 8), x(B, S, 8), x(B, 2, 9, 4), x(B, 2, 9, 4)],
            {"num_heads": N, "kv_num_heads": 2, "results": 3},
            2 * 2 * 4 * 5 * 14 * 8,
            [640, 2 * 2 * 14 * 4 * 4, 2 * 2 * 14 * 4 * 4],
        ),
        ("GroupQueryAttention", [x(B, S, 32)], {"num_heads": N, "kv_num_heads": 2}, 2 * 2 * 4 * 5 * 5 * 8, [640]),
        ("SkipLayerNormalization", [TOKENS, TOKENS, w(D), w(D)], {}, 160, [640]),
        # result, two statistics per token, and the sum
        ("SkipSimplifiedLayerNormalization", [TOKENS, TOKENS, w(D)], {"results": 4}, 340, [640, 40, 40, 640]),
        ("FastGelu", [TOKENS, w(D)], {}, 160, [640]),
        ("BiasGelu", [TOKENS, w(D)], {}, 160, [640]),
        ("BiasSplitGelu", [TOKENS, w(D)], {}, 160, [320]),
        ("QuickGelu", [TOKENS], {}, 160, [640]),
        ("QLinearAdd", [x(B, S, kind=U8), SCALE, ZERO, x(B, S, kind=U8), SCALE, ZERO, SCALE, ZERO], {}, 10, [10]),
        ("QLinearGlobalAveragePool", [x(B, 8, 4, 4, kind=U8), SCALE, ZERO, SCALE, ZERO], {}, 256, [16]),
        ("QuantizeLinear", [TOKENS, SCALE, ZERO], {}, 160, [160]),
        ("DequantizeLinear", [x(B, S, kind=U8), SCALE, ZERO], {}, 10, [40]),
        ("DynamicQuantizeLSTM", [x(S, B, D), w(1, D, 32, kind=I8), w(1, 8, 32, kind=I8)], {}, 2 * 10 * 32 * 24, [320]),
    ],
)  # fmt: skip
def test_operators_of_onnx_runtime(
    operator: str, operands: list[Any], attributes: dict[str, Any], flop: int, sizes: list[int]
) -> None:
    operation, made = converted(operator, operands, **attributes)
    assert (operation.flop, made) == (flop, sizes)
    assert operation.weight_bytes == sum(weight_bytes(operand) for operand in operands if operand)


def weight_bytes(operand: Any) -> int:
    shape, kind, stored = operand
    count = 1
    for size in shape:
        count *= size
    return count * {F: 4, H: 2}.get(kind, 1) if stored else 0


@pytest.mark.parametrize(
    ("operator", "operands", "attributes", "flop", "sizes"),
    [
        ("Attention", [x(B, N, S, 4), x(B, 2, 7, 4), x(B, 2, 7, 4)], {}, 2 * 2 * 4 * 5 * 7 * 8, [640]),
        ("RMSNormalization", [TOKENS, w(D)], {}, 160, [640]),
        ("GroupNormalization", [x(B, 8, 4, 4), w(8), w(8)], {"num_groups": 2}, 256, [1024]),
        ("GRU", [x(S, B, D), w(2, 24, D), w(2, 24, 8)], {"direction": "bidirectional"}, 2 * 10 * 48 * 24, [640]),
        ("SimplifiedLayerNormalization", [TOKENS, w(D)], {}, 160, [640]),
    ],
)
def test_newer_operators_of_the_standard(
    operator: str, operands: list[Any], attributes: dict[str, Any], flop: int, sizes: list[int]
) -> None:
    more = {"hidden_size": 8} if operator == "GRU" else {}
    operation, made = converted(operator, operands, domain="", **attributes, **more)
    assert (operation.flop, made) == (flop, sizes)


@pytest.mark.parametrize(
    ("operator", "operands", "attributes", "flop"),
    [
        # of 8 experts [64, 16] and [16, 64] each of 10 tokens meets 2
        ("MoE", [TOKENS, x(10, 8), w(8, 64, D), None, w(8, D, 64)], {"k": 2}, 10 * 2 * 2 * 2 * 64 * 16),
        (
            "QMoE",
            [
                x(B, S, D, kind=H),
                x(10, 8, kind=H),
                w(8, 64, 8, kind=U8),
                w(8, 64, kind=H),
                None,
                w(8, D, 32, kind=U8),
                w(8, D, kind=H),
            ],
            {"k": 2, "expert_weight_bits": 4},
            10 * 2 * 2 * 2 * 64 * 16,
        ),
    ],
)
def test_tokens_meet_a_few_experts(operator: str, operands: list[Any], attributes: dict[str, Any], flop: int) -> None:
    operation, _ = converted(operator, operands, **attributes)
    assert operation.flop == flop
    # a single token reads no more than two of eight experts
    token, scores = ((shape, *operand[1:]) for shape, operand in zip([(1, 1, D), (1, 8)], operands, strict=False))
    alone, _ = converted(operator, [token, scores, *operands[2:]], **attributes)
    assert alone.moved_bytes is not None
    assert alone.moved_bytes < alone.weight_bytes / 4 + 1000


def test_look_ups_move_rows() -> None:
    ids = x(B, S, kind=TensorProto.INT32)
    tables = [w(1000, D), w(512, D), w(2, D), w(D), w(D)]
    embedded, sizes = converted("EmbedLayerNormalization", [ids, ids, *tables])
    assert sizes == [640]
    assert embedded.moved_bytes == 2 * 40 + 3 * 640 + 2 * 64 + 640
    positions = x(B, S, kind=I64)
    rotated, _ = converted("RotaryEmbedding", [TOKENS, positions, w(512, 2), w(512, 2)])
    assert (rotated.flop, rotated.moved_bytes) == (160, 640 + 80 + 2 * 10 * 8 + 640)
    heads = x(B, N, S, 4)
    rotated, _ = converted("RotaryEmbedding", [heads, w(512, 2), w(512, 2), positions], domain="")
    assert (rotated.flop, rotated.moved_bytes) == (160, 640 + 80 + 2 * 10 * 8 + 640)
    table = [w(1000, 8, kind=U8), positions, w(1000, 1)]  # 16 numbers of 4 bits and a scale per row
    found, sizes = converted("GatherBlockQuantized", table, bits=4, block_size=16, quantize_axis=1)
    assert (sizes, found.moved_bytes) == ([640], 80 + 10 * 8 + 10 * 4 + 640)


def test_operands_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"the shape of tensor 'y0' .* is not known"):
        converted("FusedMatMul", [x(B, S, D), x(B, 7, D)])
    with pytest.raises(InputError, match="Incompatible dimensions") as error:
        converted("MatMul", [x(B, S, D), x(B, 7, D)], domain="")
    assert "--dim" in error.value.remedy
