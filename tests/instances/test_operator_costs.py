"""What single operators cost: FLOP and bytes moved by hand, of operators of both frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from chipmap.instances.ring.from_graph import from_graph
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.importers.operators import aten
from chipmap.networks.importers.operators import onnx as onnx_operators
from chipmap.networks.importers.operators.rules import Work
from chipmap.networks.importers.program import Program, Step, imported
from chipmap.networks.importers.reading import import_graph
from chipmap.networks.importers.steps import Value, words
from tests.instances.programs import pt2

Shapes = list[tuple[int, ...]]


def values(shapes: Shapes, bits: int = 32) -> list[Value]:
    return [Value(f"v{i}", shape, bits) for i, shape in enumerate(shapes)]


def indices(*shape: int) -> Value:
    return Value("indices", shape, 64)


def of_aten(kind: str, read: Sequence[Value | tuple[int, ...]], made: Shapes, **arguments: Any) -> Work:
    operands = [v if isinstance(v, Value) else values([v])[0] for v in read]
    return aten.work(kind, operands, values(made), arguments)


def of_onnx(kind: str, read: Sequence[Value | tuple[int, ...] | None], made: Shapes, **arguments: Any) -> Work:
    operands = [v if isinstance(v, Value) or v is None else values([v])[0] for v in read]
    return onnx_operators.work(kind, operands, values(made), arguments)


TABLE, ROWS = Value("table", (1000, 8), 32), Value("rows", (2, 3, 8), 32)


@pytest.mark.parametrize(
    ("kind", "read", "made", "elements", "moved"),
    [
        ("embedding", [TABLE, indices(2, 3)], (2, 3, 8), 48, 6 * 8 + 2 * 48 * 4),
        ("index", [TABLE, indices(5)], (5, 8), 40, 5 * 8 + 2 * 40 * 4),
        ("index_select", [TABLE, indices(5)], (5, 8), 40, 5 * 8 + 2 * 40 * 4),
        ("gather", [TABLE, indices(1, 8)], (1, 8), 8, 8 * 8 + 2 * 8 * 4),
        ("take", [TABLE, indices(7)], (7,), 7, 7 * 8 + 2 * 7 * 4),
        # two bags of three rows each: six rows are read, two made
        ("embedding_bag", [TABLE, indices(6), indices(2)], (2, 8), 48, 8 * 8 + 48 * 4 + 16 * 4),
        # updates in place: indices, and numbers read and written; what is added to is read as well
        ("index_copy_", [TABLE, indices(5), Value("new", (5, 8), 32)], (1000, 8), 40, 5 * 8 + 2 * 40 * 4),
        ("index_put_", [TABLE, indices(5), Value("new", (5, 8), 32)], (1000, 8), 40, 5 * 8 + 2 * 40 * 4),
        ("index_add_", [TABLE, indices(5), Value("new", (5, 8), 32)], (1000, 8), 40, 5 * 8 + 3 * 40 * 4),
        ("scatter_", [TABLE, indices(3, 8), Value("new", (5, 8), 32)], (1000, 8), 24, 24 * 8 + 2 * 24 * 4),
        ("scatter_add_", [TABLE, indices(3, 8), Value("new", (5, 8), 32)], (1000, 8), 24, 24 * 8 + 3 * 24 * 4),
        ("copy_", [ROWS, Value("new", (2, 3, 8), 16)], (2, 3, 8), 48, 48 * 2 + 48 * 4),
        # an update that makes a new tensor moves all of it, as does one whose number of rows isn't told
        ("index_copy", [TABLE, indices(5), Value("new", (5, 8), 32)], (1000, 8), 8000, None),
        ("slice_scatter", [TABLE, Value("new", (5, 8), 32)], (1000, 8), 8000, None),
        ("index_put_", [TABLE, indices(5), Value("one", (), 32)], (1000, 8), 8000, None),
        ("masked_scatter", [TABLE, indices(1000, 8), Value("new", (5, 8), 32)], (1000, 8), 8000, None),
        ("slice", [TABLE], (5, 8), 8000, None),
    ],
)
def test_look_ups_and_updates(kind: str, read: list[Value], made: tuple[int, ...], elements: int, moved: int) -> None:
    work = of_aten(kind, read, [made])
    assert (work.flop, work.moved) == (elements, moved)
    assert work.known


@pytest.mark.parametrize("kind", ["Gather", "GatherElements", "GatherND"])
def test_look_ups_of_onnx(kind: str) -> None:
    work = of_onnx(kind, [TABLE, indices(5, 1)], [(5, 8)])
    assert (work.flop, work.moved, work.known) == (40, 40 + 320, True)


def test_a_cache_that_is_updated_in_place() -> None:
    cache, new = Value("cache", (1, 4, 100, 8), 16), Value("new", (1, 4, 1, 8), 16)
    work = of_onnx("TensorScatter", [cache, new, indices(1)], [(1, 4, 100, 8)])
    assert (work.flop, work.moved) == (32, 8 + 2 * 64)
    assert of_onnx("ScatterND", [cache, indices(1, 4), new], [(1, 4, 100, 8)]).moved is None


def test_a_look_up_takes_the_time_of_its_rows() -> None:
    """The table rests in memory and counts there; the time is that of indices and rows."""
    program = Program("p", "by hand")
    program.values = {v.name: v for v in (TABLE, Value("x", (2, 3), 64), ROWS, Value("part", (2, 8), 32))}
    program.inputs, program.parameters, program.outputs = ["x"], ["table"], ["rows"]
    work = of_aten("embedding", [TABLE, indices(2, 3)], [(2, 3, 8)])
    program.steps = [Step("rows", "embedding", ("table", "x"), ("rows",), work.flop, moved=work.moved)]
    problem = ring_problem(from_graph(imported(program, "here", "test"), "p"))
    assert problem.weight_bytes.tolist()[-1] == 32000
    assert problem.ticks.tolist()[-1] == (48 + 384) * 100 // 200
    # a part of a table that an input chooses is a look-up as well, whatever makes it
    program.steps = [Step("part", "slice", ("table", "x"), ("part",), 8000, view=True)]
    program.outputs = ["part"]
    made = imported(program, "here", "test").graph.operations[-1]
    assert (made.role, made.flop, made.moved_bytes, made.weight_bytes) == ("compute", 16, 48 + 128, 32000)


def test_a_buffer_that_a_decomposed_program_changes_is_updated_in_place() -> None:
    """After decomposition an update makes a new tensor, and the signature says that this takes the buffer's place."""
    call = {
        "target": "torch.ops.aten.index_put.default",
        "inputs": [
            {"name": name, "arg": {kind: value}}
            for name, kind, value in (
                ("self", "as_tensor", {"name": "cache"}),
                ("indices", "as_optional_tensors", [{"as_none": True}, {"as_tensor": {"name": "at"}}]),
                ("values", "as_tensor", {"name": "new"}),
            )
        ],
        "outputs": [{"as_tensor": {"name": "put"}}],
        "name": "put",
    }
    shapes = {"cache": (4, 100, 8), "at": (2,), "new": (4, 2, 8), "put": (4, 100, 8)}
    tensors = {
        name: {"dtype": 5 if name == "at" else 7, "sizes": [{"as_int": n} for n in shape]}
        for name, shape in shapes.items()
    }
    graph = {
        "inputs": [{"as_tensor": {"name": name}} for name in ("cache", "at", "new")],
        "outputs": [{"as_tensor": {"name": "put"}}],
        "nodes": [call],
        "tensor_values": tensors,
    }
    for replaced, moved in (({"buffer_mutation": {"arg": {"name": "put"}}}, 16 + 2 * 256), ({}, None)):
        signature = {"input_specs": [{"buffer": {"arg": {"name": "cache"}}}, {}, {}], "output_specs": [replaced]}
        data = pt2({"graph_module": {"graph": graph, "signature": signature}})
        update = import_graph("cache.pt2", data).graph.operations[-1]
        assert (update.kind, update.weight_bytes, update.moved_bytes) == ("index_put", 12800, moved)


def product(m: int, k: int, n: int) -> int:
    return 2 * m * k * n


#: Heads of 8 features: 2 samples, 4 heads, 6 queries, 10 keys.
QUERY, KEY, SCORED = (2, 4, 6, 8), (2, 4, 10, 8), 4 * 2 * 4 * 6 * 10 * 8
#: The same with places before heads, as flash attention's inner operators have them.
TURNED_QUERY, TURNED_KEY = (2, 6, 4, 8), (2, 10, 4, 8)
RAGGED: dict[str, Any] = {"max_q": 6, "max_k": 10}
ATEN: list[tuple[str, Shapes, Shapes, dict[str, Any], int]] = [
    ("mm", [(5, 3), (3, 7)], [(5, 7)], {}, product(5, 3, 7)),
    ("bmm", [(2, 5, 3), (2, 3, 7)], [(2, 5, 7)], {}, 2 * product(5, 3, 7)),
    ("addmm", [(7,), (5, 3), (3, 7)], [(5, 7)], {}, product(5, 3, 7)),
    ("addmm_", [(5, 7), (5, 3), (3, 7)], [(5, 7)], {}, product(5, 3, 7)),
    ("baddbmm", [(2, 5, 7), (2, 5, 3), (2, 3, 7)], [(2, 5, 7)], {}, 2 * product(5, 3, 7)),
    ("addbmm", [(5, 7), (2, 5, 3), (2, 3, 7)], [(5, 7)], {}, 2 * product(5, 3, 7)),
    ("linear", [(2, 5, 3), (7, 3), (7,)], [(2, 5, 7)], {}, product(10, 3, 7)),
    ("dot", [(9,), (9,)], [()], {}, 18),
    ("tensordot", [(2, 3, 4), (4, 3, 5)], [(2, 5)], {}, product(2, 12, 5)),
    ("bilinear", [(6, 3), (6, 4), (5, 3, 4)], [(6, 5)], {}, 2 * 6 * 5 * (12 + 4)),
    ("cdist", [(2, 6, 3), (2, 7, 3)], [(2, 6, 7)], {}, 3 * 84 * 3),
    ("_scaled_mm", [(5, 3), (3, 7), (), ()], [(5, 7)], {}, product(5, 3, 7)),
    ("_int_mm", [(5, 3), (3, 7)], [(5, 7)], {}, product(5, 3, 7)),
    ("_weight_int4pack_mm", [(5, 64), (1, 2, 32, 4), (2, 7, 2)], [(5, 7)], {}, product(5, 64, 7)),
    ("_weight_int8pack_mm", [(5, 3), (7, 3), (7,)], [(5, 7)], {}, product(5, 3, 7)),
    ("quantized.linear", [(5, 3)], [(5, 7)], {}, product(5, 3, 7)),
    # rows that are sorted by expert, whatever their number per expert
    ("_grouped_mm", [(10, 3), (4, 3, 7), (4,)], [(10, 7)], {}, product(10, 3, 7)),
    ("_grouped_mm", [(4, 5, 3), (3, 28), (4,)], [(5, 28)], {}, product(5, 3, 28)),
    ("_grouped_mm", [(5, 12), (12, 7), (4,)], [(4, 5, 7)], {}, product(5, 12, 7)),
    ("_scaled_grouped_mm", [(10, 3), (4, 3, 7), (10,), (4, 7), (4,)], [(10, 7)], {}, product(10, 3, 7)),
    ("transformers.grouped_mm_fallback", [(10, 3), (4, 3, 7), (4,)], [(10, 7)], {}, product(10, 3, 7)),
    ("convolution", [(2, 4, 9, 9), (6, 2, 3, 3), (6,)], [(2, 6, 7, 7)], {"transposed": False}, 2 * 588 * 18),
    ("convolution", [(2, 4, 5, 5), (4, 3, 2, 2)], [(2, 6, 10, 10)], {"transposed": True}, 2 * 200 * 12),
    (
        "convolution_backward",
        [(2, 6, 7, 7), (2, 4, 9, 9), (6, 4, 3, 3)],
        [(2, 4, 9, 9), (6, 4, 3, 3)],
        {"transposed": False, "output_mask": [True, True, False]},
        2 * (2 * 588 * 36),
    ),
    ("scaled_dot_product_attention", [QUERY, KEY, KEY], [QUERY], {}, SCORED),
    # keys shared by two heads each
    ("scaled_dot_product_attention", [QUERY, (2, 2, 10, 8), (2, 2, 10, 8)], [QUERY], {"enable_gqa": True}, SCORED),
    ("_scaled_dot_product_flash_attention", [QUERY, KEY, KEY], [QUERY, (2, 4, 6)], {}, SCORED),
    ("_scaled_dot_product_efficient_attention", [QUERY, KEY, KEY], [QUERY, (2, 4, 6)], {}, SCORED),
    ("_scaled_dot_product_cudnn_attention", [QUERY, KEY, KEY], [QUERY, (2, 4, 6)], {}, SCORED),
    ("_scaled_dot_product_flash_attention_for_cpu", [QUERY, KEY, KEY], [QUERY, (2, 4, 6)], {}, SCORED),
    ("higher_order.flex_attention", [QUERY, KEY, KEY], [QUERY, (2, 4, 6)], {}, SCORED),
    ("_flash_attention_forward", [TURNED_QUERY, TURNED_KEY, TURNED_KEY], [TURNED_QUERY], RAGGED, SCORED),
    ("_efficient_attention_forward", [TURNED_QUERY, TURNED_KEY, TURNED_KEY], [TURNED_QUERY], {}, SCORED),
    # two packed sequences of at most 6 queries and 10 keys
    ("_flash_attention_forward", [(9, 4, 8), (15, 4, 8), (15, 4, 8)], [(9, 4, 8)], RAGGED, 4 * 9 * 4 * 10 * 8),
    # five products where there were two
    ("_scaled_dot_product_flash_attention_backward", [QUERY, QUERY, KEY, KEY], [QUERY], {}, SCORED * 5 // 2),
    ("_scaled_dot_product_efficient_attention_backward", [QUERY, QUERY, KEY, KEY], [QUERY], {}, SCORED * 5 // 2),
    ("_scaled_dot_product_cudnn_attention_backward", [QUERY, QUERY, KEY, KEY], [QUERY], {}, SCORED * 5 // 2),
    (
        "_flash_attention_backward",
        [TURNED_QUERY, TURNED_QUERY, TURNED_KEY, TURNED_KEY],
        [TURNED_QUERY],
        {},
        SCORED * 5 // 2,
    ),
    ("higher_order.flex_attention_backward", [QUERY, KEY, KEY, QUERY], [QUERY], {}, SCORED * 5 // 2),
    # width 8: four projections of 5 tokens, scores of 5 x 5 places
    (
        "_native_multi_head_attention",
        [(1, 5, 8)] * 3 + [(24, 8), (24,), (8, 8), (8,)],
        [(1, 5, 8), (1, 5, 5)],
        {},
        2 * 5 * 8 * 8 * 4 + 4 * 5 * 5 * 8,
    ),
    (
        "_transformer_encoder_layer_fwd",
        [(1, 5, 8), (24, 8), (24,), (8, 8), (8,), (8,), (8,), (8,), (8,), (16, 8), (16,), (8, 16), (8,)],
        [(1, 5, 8)],
        {},
        2 * 5 * 8 * 8 * 4 + 4 * 5 * 5 * 8 + 2 * 5 * 8 * 16 * 2,
    ),
    # two directions of 8 units for 5 features: input, two states, then weights and biases
    (
        "lstm",
        [(6, 2, 5), (2, 2, 8), (2, 2, 8), *[(32, 5), (32, 8), (32,), (32,)] * 2],
        [(6, 2, 16)],
        {},
        2 * 12 * 32 * (5 + 8) * 2,
    ),
    ("lstm", [(6, 5), (1, 8), (1, 8), (32, 5), (32, 8), (32,), (32,)], [(6, 8)], {}, 2 * 6 * 32 * 13),
    ("gru", [(6, 2, 5), (1, 2, 8), (24, 5), (24, 8)], [(6, 2, 8)], {}, 2 * 12 * 24 * 13),
    ("rnn_tanh", [(6, 2, 5), (1, 2, 8), (8, 5), (8, 8)], [(6, 2, 8)], {}, 2 * 12 * 8 * 13),
    ("lstm_cell", [(2, 5), (2, 8), (2, 8), (32, 5), (32, 8)], [(2, 8), (2, 8)], {}, 2 * 2 * 32 * 13),
    ("gru_cell", [(2, 5), (2, 8), (24, 5), (24, 8)], [(2, 8)], {}, 2 * 2 * 24 * 13),
    ("mkldnn_rnn_layer", [(6, 2, 5), (32, 5), (32, 8), (32,), (32,)], [(6, 2, 8)], {}, 2 * 12 * 32 * 13),
    ("_C.selective_scan_fwd", [(2, 16, 5), (2, 16, 5), (16, 4), (2, 4, 5), (2, 4, 5)], [], {}, 8 * 160 * 4),
    ("DaoAILab._causal_conv1d_fwd_cpp", [(2, 16, 5), (16, 4), (16,)], [], {}, 2 * 160 * 4),
    ("fft_fft", [(3, 16)], [(3, 16)], {}, 3 * 5 * 16 * 4),
    ("_fft_c2c", [(3, 16, 4)], [(3, 16, 4)], {"dim": [1, 2]}, 3 * 5 * 64 * 6),
    ("_fft_r2c", [(3, 16)], [(3, 9)], {"dim": [1]}, 3 * 5 * 16 * 4 // 2),
    ("_fft_c2r", [(3, 9)], [(3, 16)], {"dim": [1]}, 3 * 5 * 16 * 4 // 2),
    ("fft_rfft2", [(3, 16, 4)], [(3, 16, 3)], {}, 3 * 5 * 64 * 6 // 2),
    ("stft", [(2, 100), (16,)], [(2, 9, 22)], {"n_fft": 16, "return_complex": True}, 2 * 22 * 5 * 16 * 4 // 2),
    ("stft", [(100,)], [(9, 22, 2)], {"n_fft": 16, "return_complex": False}, 22 * 5 * 16 * 4 // 2),
    ("istft", [(2, 9, 22), (16,)], [(2, 100)], {"n_fft": 16}, 2 * 22 * 5 * 16 * 4 // 2),
    ("linalg_cholesky", [(2, 6, 6)], [(2, 6, 6)], {}, 2 * 72),
    ("linalg_det", [(2, 6, 6)], [(2,)], {}, 2 * 144),
    ("linalg_inv", [(2, 6, 6)], [(2, 6, 6)], {}, 2 * 432),
    ("linalg_solve", [(6, 6), (6, 5)], [(6, 5)], {}, 144 + 2 * 36 * 5),
    ("linalg_qr", [(9, 6)], [(9, 6), (6, 6)], {}, 2 * 9 * 36 - 144),
    ("softmax", [(7, 6)], [(7, 6)], {}, 42),
    ("native_layer_norm", [(7, 6), (6,), (6,)], [(7, 6), (7, 1), (7, 1)], {}, 42 + 14),
    ("sum", [(7, 6)], [(7,)], {}, 42),
    ("topk", [(7, 100)], [(7, 5), (7, 5)], {}, 700),
    ("upsample_nearest2d", [(1, 2, 3, 3)], [(1, 2, 6, 6)], {}, 72),
    ("quantized_decomposed.quantize_per_tensor", [(7, 6)], [(7, 6)], {}, 42),
]


@pytest.mark.parametrize(("kind", "read", "made", "arguments", "flop"), ATEN, ids=[row[0] for row in ATEN])
def test_flop_of_aten(kind: str, read: Shapes, made: Shapes, arguments: dict[str, Any], flop: int) -> None:
    work = of_aten(kind, read, made, **arguments)
    assert (work.flop, work.known) == (flop, True)


ONNX: list[tuple[str, list[tuple[int, ...] | None], Shapes, dict[str, Any], int]] = [
    ("MatMul", [(2, 5, 3), (3, 7)], [(2, 5, 7)], {}, product(10, 3, 7)),
    ("Gemm", [(3, 5), (3, 7)], [(5, 7)], {"transA": 1}, product(5, 3, 7)),
    ("QLinearMatMul", [(5, 3), (), (), (3, 7), (), (), (), ()], [(5, 7)], {}, product(5, 3, 7)),
    ("QLinearConv", [(1, 4, 5, 5), (), (), (6, 4, 3, 3), (), (), (), ()], [(1, 6, 3, 3)], {}, 2 * 54 * 36),
    ("ConvTranspose", [(1, 3, 4, 4), (3, 2, 2, 2)], [(1, 2, 8, 8)], {}, 2 * 48 * 8),
    ("LSTM", [(6, 2, 5), (2, 32, 5), (2, 32, 8), None, None], [(6, 2, 2, 8)], {}, 2 * 12 * 2 * 32 * 13),
    ("Attention", [QUERY, KEY, KEY], [QUERY], {}, SCORED),
    # six keys of before, four new ones; three dimensions hold heads and features together
    ("Attention", [QUERY, (2, 4, 4, 8), (2, 4, 4, 8), None, (2, 4, 6, 8), (2, 4, 6, 8)], [QUERY], {}, SCORED),
    ("Attention", [(2, 6, 32), (2, 10, 32), (2, 10, 32)], [(2, 6, 32)], {"q_num_heads": 4}, SCORED),
    ("LinearAttention", [(2, 6, 32), (2, 6, 32), (2, 6, 64)], [(2, 6, 64)], {"q_num_heads": 4}, 4 * 768 * 8),
    ("CausalConvWithState", [(2, 16, 5), (16, 1, 4)], [(2, 16, 5)], {}, 2 * 160 * 4),
    ("DFT", [(3, 16, 2)], [(3, 16, 2)], {"axis": 1}, 3 * 5 * 16 * 4),
    ("DFT", [(3, 16, 1)], [(3, 9, 2)], {"axis": 1, "onesided": 1}, 3 * 5 * 16 * 4 // 2),
    ("STFT", [(2, 64, 1), (), (16,)], [(2, 7, 9, 2)], {}, 14 * 5 * 16 * 4 // 2),
    ("Det", [(2, 6, 6)], [(2,)], {}, 2 * 144),
    ("LayerNormalization", [(7, 6), (6,)], [(7, 6)], {}, 42),
]


@pytest.mark.parametrize(("kind", "read", "made", "arguments", "flop"), ONNX, ids=[row[0] for row in ONNX])
def test_flop_of_onnx(
    kind: str, read: list[tuple[int, ...] | None], made: Shapes, arguments: dict[str, Any], flop: int
) -> None:
    work = of_onnx(kind, read, made, **arguments)
    assert (work.flop, work.known) == (flop, True)


def test_a_grouped_product_reads_no_more_experts_than_it_has_rows() -> None:
    """Two rows of a mixture of 64 experts read two of their matrices."""
    few = of_aten("_grouped_mm", [(2, 16), (64, 16, 8), (64,)], [(2, 8)])
    assert few.moved == 4 * (2 * 16 + 2 * 16 * 8 + 64 + 2 * 8)
    many = of_aten("_grouped_mm", [(640, 16), (64, 16, 8), (64,)], [(640, 8)])
    assert many.moved is None


#: What the counter of torch 2.13 counts.
COUNTED_BY_TORCH = words(
    """mm addmm bmm baddbmm _scaled_mm convolution _convolution cudnn_convolution convolution_overrideable
    _slow_conv2d_forward convolution_backward _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention _scaled_dot_product_cudnn_attention
    _scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_cudnn_attention_backward _flash_attention_forward _efficient_attention_forward
    _flash_attention_backward _efficient_attention_backward higher_order.flex_attention
    higher_order.flex_attention_backward"""
)


def test_what_torch_counts_has_a_rule() -> None:
    assert not [name for name in COUNTED_BY_TORCH if name not in aten.RULES]


def test_what_the_installed_torch_counts_has_a_rule() -> None:
    pytest.importorskip("torch", reason="needs the extra learned")
    from torch.utils.flop_counter import flop_registry

    names = [aten.kind_of(str(target)) if "." in str(target) else f"higher_order.{target}" for target in flop_registry]
    assert len(names) > 15
    assert not [name for name in names if name not in aten.RULES]


#: Operators that return their operand's storage and yet aren't views: of sparse, nested and dual tensors and lists,
#: conversions of type or device (which return the operand only where nothing changes), and checks.
NO_VIEWS = words(
    """__getitem__ _autocast_to_full_precision _autocast_to_reduced_precision _fw_primal _grad_sum_to_size _indices
    _make_dual _ncf_unsqueeze _ncf_view _nested_get_values _nested_view_from_buffer _nested_view_from_jagged
    _sparse_broadcast_to _test_autograd_multiple_dispatch_view _unpack_dual _unwrap_optional _values as_tensor
    ccol_indices coalesce col_indices cpu crow_indices cuda get indices keys local_value pin_memory pop resolve_conj
    resolve_neg row_indices setdefault to_here values"""
)


def test_what_the_installed_torch_declares_a_view_is_one() -> None:
    """PyTorch's schemas say which results share their operand's storage without changing it."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    alias = [
        schema.name.removeprefix("aten::")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::")
        and any(made.alias_info is not None and not made.alias_info.is_write for made in schema.returns)
    ]
    assert len(alias) > 50
    assert not {*alias} - NO_VIEWS - aten.VIEWS - aten.CONVERSIONS


def test_what_the_installed_torch_does_element_by_element_is_known() -> None:
    """All that core programs can hold; special functions by their full name (``special_bessel_j0``) stay unknown."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    kinds = [name for name in dir(torch.ops.aten) if not name.startswith(("__", "special_"))]
    packets = {name: getattr(torch.ops.aten, name) for name in kinds}
    pointwise = [
        name
        for name, packet in packets.items()
        if hasattr(packet, "overloads")
        and any(torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads())
    ]
    assert len(pointwise) > 150
    assert not [name for name in pointwise if aten.rule_of(name) is None]


@pytest.mark.parametrize(
    ("kind", "read", "made"),
    [
        ("mm", [], []),
        ("mm", [(5, 3)], []),
        ("convolution", [(5,), (3,)], [(5,)]),
        ("einsum", [(5, 3)], [(5,)]),
        ("lstm", [(6, 2, 5), (1, 2, 8), (1, 2, 8)], [(6, 2, 8)]),
        ("mine.op", [(5, 3)], [(7,)]),
    ],
)
def test_what_no_rule_fits_is_not_known(kind: str, read: Shapes, made: Shapes) -> None:
    for arguments in ({}, {"dim": "x", "max_k": -1, "equation": "a,b"}, {"dim": [7, None], "output_mask": 3}):
        work = of_aten(kind, read, made, **arguments)
        assert (work.known, work.moved) == (False, None)
        assert work.flop == max(
            [15 if (5, 3) in read else 0, *(Value("", s, 8).elements for s in [*read, *made])], default=0
        )
