"""Which operations of a forward graph multiply, and what their gradients compute."""

from __future__ import annotations

from chipmap.networks.graph import Operation
from chipmap.networks.importers.steps import words

#: Kinds that sum up over an inner range, where no loop nest says so.
PRODUCTS = words(
    """product matmul mm addmm bmm baddbmm addbmm linear gemm einsum mv addmv dot tensordot bilinear conv conv1d conv2d
    conv3d convolution _convolution convtranspose conv_transpose1d conv_transpose2d conv_transpose3d"""
)
#: Those of two operands, to whose product a third may be added: a bias, even if both operands are computed.
BIASED = PRODUCTS - words("product matmul mm bmm einsum mv dot tensordot bilinear")
#: Layers of products in one operation.
RECURRENT = words("lstm gru rnn rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell")


def _fused_attention(one: Operation) -> bool:
    return "attention" in one.kind.lower()


def is_product(one: Operation) -> bool:
    """Whether each operand of an operation has a gradient of the operation's FLOP."""
    return not _fused_attention(one) and (
        one.kind.lower() in PRODUCTS or (one.loops is not None and one.loops.inner > 0)
    )


def backward_flop(one: Operation) -> int:
    """FLOP of the gradients of an operation that is no product."""
    if _fused_attention(one):
        return one.flop * 5 // 2
    return one.flop * (2 if one.kind.lower() in RECURRENT else 1)
