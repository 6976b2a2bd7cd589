"""GPT and Llama layers as kernels: DFModel's published inputs (forward 18 kernels, with backward 41)."""

from __future__ import annotations

from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.records import InputError

#: Hidden size, heads, layers.
GPT = {"gpt3-175b": (12_288, 96, 96), "gpt3-1t": (25_600, 160, 128), "gpt3-100t": (160_000, 1000, 330)}

_FORWARD = [
    "Add_Prev",
    "LN1",
    "Q",
    "K",
    "V",
    "MHA1",
    "Softmax",
    "Dropout1",
    "MHA2",
    "Proj",
    "Dropout2",
    "Add1",
    "LN2",
    "FFN0",
    "GeLU",
    "FFN1",
    "Dropout3",
    "Add2",
]
_BACKWARD = [
    "Loss_b",
    "Dropout3_b",
    "FFN1_b",
    "GeLU_b",
    "FFN0_b",
    "LN2_b",
    "Dropout2_b",
    "Proj_b",
    "MHA2_b1",
    "MHA2_b2",
    "V_b",
    "Dropout1_b",
    "Softmax_b",
    "MHA1_b1",
    "MHA1_b2",
    "Q_b",
    "K_b",
    "FFN1_u",
    "FFN0_u",
    "Proj_u",
    "V_u",
    "K_u",
    "Q_u",
]
_NAMES = [*_FORWARD, *_BACKWARD, "LN1_b"]
#: Edges by kernel number, 1 to 18 forward and 19 to 41 backward.
_FORWARD_EDGES: tuple[tuple[int, int], ...] = (
    (1, 2), (2, 3), (2, 4), (2, 5), (3, 6), (4, 6), (6, 7), (7, 8), (8, 9), (5, 9), (9, 10), (10, 11), (11, 12),
    (1, 12), (12, 13), (13, 14), (14, 15), (15, 16), (16, 17), (17, 18), (12, 18),
)  # fmt: skip
_BACKWARD_EDGES: tuple[tuple[int, int], ...] = (
    (19, 20), (20, 21), (21, 22), (22, 23), (23, 24), (24, 25), (25, 26), (26, 27), (5, 27), (26, 28), (8, 28),
    (27, 30), (28, 29), (30, 31), (31, 32), (31, 33), (4, 32), (3, 33), (32, 34), (33, 35), (20, 36), (15, 36),
    (22, 37), (13, 37), (25, 38), (9, 38), (28, 39), (2, 39), (33, 40), (2, 40), (32, 41), (2, 41),
)  # fmt: skip
#: What the published backward graph leaves out: the layer's output to the loss, and the gradients of the two residual
#: connections; LN1_b (42) adds up the gradient of the layer's input.
_RESIDUAL_EDGES: tuple[tuple[int, int], ...] = ((18, 19), (19, 24), (24, 42), (29, 42), (34, 42), (35, 42))


def gpt_layer(
    name: str,
    *,
    hidden: int,
    heads: int,
    tokens: int,
    layers: int,
    backward: bool = False,
    residuals: bool = False,
    word_bytes: int = 2,
) -> Workload:
    """A GPT layer of ``hidden`` with ``heads`` heads over ``tokens`` tokens, with its backward kernels if asked.

    Source: DFModel, figure 2 and its published inputs; the backward edges are those of the published input, which has
    none from forward to the loss and none for the gradients of residual connections. ``residuals`` adds them, with a
    42nd kernel for the gradient of the layer's input, which is carried to the layer before. Raises :class:`InputError`
    for ``residuals`` without ``backward``.
    """
    if residuals and not backward:
        raise InputError("residual gradients need the backward kernels", "residuals", "Set backward to true.")
    kernels = _forward(hidden, heads, tokens)
    edges = _FORWARD_EDGES
    carries = [("Add2", "Add_Prev")]
    if backward:
        kernels = [*kernels, *_backward(hidden, heads, tokens)]
        edges = edges + _BACKWARD_EDGES
    if residuals:
        kernels.append(Kernel(name="LN1_b", kind="elementwise", M=hidden, N=tokens, phase="backward"))
        edges = edges + _RESIDUAL_EDGES
        carries.append(("LN1_b", "Loss_b"))
    return Workload(
        name=name,
        kernels=tuple(kernels),
        edges=tuple((_NAMES[u - 1], _NAMES[v - 1]) for u, v in edges),
        carries=tuple(carries),
        layers=layers,
        word_bytes=word_bytes,
        tokens=tokens,
    )


def _forward(hidden: int, heads: int, tokens: int) -> list[Kernel]:
    size = hidden // heads

    def linear(name: str, rows: int, columns: int, outer: int = 1) -> Kernel:
        return Kernel(name=name, kind="gemm", outer=outer, M=rows, K=columns, N=tokens, weights=True)

    def element(name: str, rows: int = hidden, outer: int = 1) -> Kernel:
        return Kernel(name=name, kind="elementwise", outer=outer, M=rows, N=tokens)

    return [
        element("Add_Prev"),
        element("LN1"),
        *(linear(name, size, hidden, heads) for name in "QKV"),
        Kernel(name="MHA1", kind="gemm", outer=heads, M=tokens, K=size, N=tokens),
        element("Softmax", tokens, heads),
        element("Dropout1", tokens, heads),
        Kernel(name="MHA2", kind="gemm", outer=heads, M=size, K=tokens, N=tokens),
        linear("Proj", hidden, hidden),
        element("Dropout2"),
        element("Add1"),
        element("LN2"),
        linear("FFN0", 4 * hidden, hidden),
        element("GeLU", 4 * hidden),
        linear("FFN1", hidden, 4 * hidden),
        element("Dropout3"),
        element("Add2"),
    ]


def _backward(hidden: int, heads: int, tokens: int) -> list[Kernel]:
    size = hidden // heads

    def linear(name: str, rows: int, columns: int, outer: int = 1) -> Kernel:
        return Kernel(name=name, kind="gemm", outer=outer, M=rows, K=columns, N=tokens, weights=True, phase="backward")

    def element(name: str, rows: int = hidden, outer: int = 1) -> Kernel:
        return Kernel(name=name, kind="elementwise", outer=outer, M=rows, N=tokens, phase="backward")

    def attention(name: str, rows: int, inner: int) -> Kernel:
        return Kernel(name=name, kind="gemm", outer=heads, M=rows, K=inner, N=tokens, phase="backward")

    def update(name: str, rows: int, columns: int) -> Kernel:
        return Kernel(name=name, kind="gemm", M=rows, K=tokens, N=columns, phase="backward", update=True)

    return [
        element("Loss_b"),
        element("Dropout3_b"),
        linear("FFN1_b", 4 * hidden, hidden),
        element("GeLU_b", 4 * hidden),
        linear("FFN0_b", hidden, 4 * hidden),
        element("LN2_b"),
        element("Dropout2_b"),
        linear("Proj_b", hidden, hidden),
        attention("MHA2_b1", tokens, size),
        attention("MHA2_b2", size, tokens),
        linear("V_b", hidden, hidden),
        element("Dropout1_b", tokens, heads),
        element("Softmax_b", tokens, heads),
        attention("MHA1_b1", size, tokens),
        attention("MHA1_b2", size, tokens),
        linear("Q_b", size, hidden, heads),
        linear("K_b", size, hidden, heads),
        update("FFN1_u", 4 * hidden, hidden),
        update("FFN0_u", hidden, 4 * hidden),
        *(update(name, hidden, hidden) for name in ("Proj_u", "V_u", "K_u", "Q_u")),
    ]
