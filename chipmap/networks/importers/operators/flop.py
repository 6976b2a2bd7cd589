"""FLOP of products, convolutions, attention and recurrent cells from the shapes of what they read and make.

Each multiply-add counts 2, as FLOP counters do (``torch.utils.flop_counter``). Other operators count the larger of the
elements that they make and those of their largest operand.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isqrt, prod

from chipmap.networks.importers.operators.calls import Call, Count, ranked
from chipmap.networks.importers.steps import Value


def larger(call: Call) -> int:
    """max(elements made, elements of each operand)."""
    return max([sum(value.elements for value in call.made), *(value.elements for value in call.operands)])


def product(a: int = 0) -> Count:
    """2 · elements made · length of the sum, the last dimension of operand ``a``."""
    return lambda call: 2 * call.result.elements * call.operand(a).shape[-1]


def general_product(call: Call) -> int:
    """ONNX's Gemm, whose first operand may be transposed."""
    return 2 * call.result.elements * ranked(call.operand(0), 2).shape[0 if call.arguments.get("transA") else -1]


def summed_product(call: Call) -> int:
    """A sum of products of matrices (addbmm): 2 · elements of all left matrices · columns made."""
    return 2 * call.operand(1).elements * call.result.shape[-1]


def grouped_product(call: Call) -> int:
    """Rows in groups, each with a matrix of its own: 2 · rows · inner · columns, however the rows fall on the groups.

    Where the sum itself is cut into groups (two plain matrices make a stack), each group sums its part.
    """
    a, b = call.operand(0), call.operand(1)
    summed = len(a.shape) == len(b.shape) == 2
    made = prod(call.result.shape[1:]) if summed else call.result.elements
    return 2 * made * a.shape[-1]


def grouped_moved(call: Call) -> int:
    """With fewer rows than matrices no more of these are read than rows; :class:`LookupError` with more (all are)."""
    a, b = ranked(call.operand(0), 2), ranked(call.operand(1), 3)
    if len(a.shape) != 2 or b.shape[0] <= a.shape[0]:
        raise LookupError
    rest = sum(value.bytes for value in (*call.operands, *call.made)) - b.bytes
    return rest + b.bytes // b.shape[0] * a.shape[0]


def contraction(call: Call) -> int:
    """A product over any shared dimensions: 2 · √(elements of a · of b · made), the product of all ranges."""
    return 2 * isqrt(call.operand(0).elements * call.operand(1).elements * call.result.elements)


def bilinear(call: Call) -> int:
    """x₁ᵀ W x₂ with W [out, i, j]: 2 · elements made · (i · j + j)."""
    i, j = call.operand(0).shape[-1], call.operand(1).shape[-1]
    return 2 * call.result.elements * (i * j + j)


def distances(call: Call) -> int:
    """A difference, a power and a sum per coordinate: 3 · elements made · coordinates."""
    return 3 * call.result.elements * call.operand(0).shape[-1]


def causal_convolution(call: Call) -> int:
    """Every channel by itself, with a kernel [channels, width]: 2 · elements read · width."""
    return 2 * call.operand(0).elements * ranked(call.operand(1), 2).shape[-1]


def selective_scan(call: Call) -> int:
    """Per element of the sequence and state: exp(Δ A), Δ B x, the recurrence, and the sum with C, 8 in all.

    The third operand, A, is [channels, states].
    """
    return 8 * call.operand(0).elements * ranked(call.operand(2), 2).shape[-1]


def convolution(kernel: int = 1) -> Count:
    """2 · elements made · kernel elements per output channel; operand ``kernel`` is [out, in / groups, …]."""
    return lambda call: 2 * call.result.elements * prod(ranked(call.operand(kernel), 2).shape[1:])


def transposed_convolution(call: Call) -> int:
    """2 · elements read · elements made by each; the kernel is [in, out / groups, …]."""
    return 2 * call.operand(0).elements * prod(ranked(call.operand(1), 2).shape[1:])


def any_convolution(call: Call) -> int:
    """A convolution, or a transposed one where the argument ``transposed`` says so."""
    return transposed_convolution(call) if call.arguments.get("transposed") is True else convolution()(call)


def convolution_backward(call: Call) -> int:
    """As many as forward for each of the gradients of x and of the kernel that ``output_mask`` asks for."""
    gradient, x, kernel = (call.operand(i) for i in range(3))
    on = x if call.arguments.get("transposed") is True else gradient
    mask = call.arguments.get("output_mask")
    wanted = sum(map(bool, mask[:2])) if isinstance(mask, list) else 2
    return 2 * on.elements * prod(ranked(kernel, 2).shape[1:]) * wanted


def attention(keys: int = -2) -> Count:
    """Q Kᵀ and scores · V: 2 · t · (elements of Q + elements made) for t keys, dimension ``keys`` of K."""
    return lambda call: (
        2 * _keys(call, ranked(call.operand(1), 2), keys) * (call.operand(0).elements + call.result.elements)
    )


def _keys(call: Call, key: Value, dimension: int) -> int:
    """The keys that a query meets; the longest sequence's where ragged ones are packed one after the other."""
    for name in ("max_k", "max_seqlen_k"):
        longest = call.arguments.get(name)
        if isinstance(longest, int) and longest > 0:
            return longest
    return key.shape[dimension]


def attention_with_past(past: int) -> Count:
    """The same, with the keys of operand ``past`` before the others, where it is there."""

    def count(call: Call) -> int:
        query, key = call.operand(0), ranked(call.operand(1), 2)
        before = call.read[past] if past < len(call.read) else None
        keys = key.shape[-2] + (ranked(before, 2).shape[-2] if before is not None else 0)
        return 2 * keys * (query.elements + call.result.elements)

    return count


def linear_attention(call: Call) -> int:
    """A state [keys, values] per head gains k ⊗ v and is multiplied by q: 4 · elements made · features of a key.

    A rule with a delta multiplies the state by k as well.
    """
    heads = call.arguments.get("q_num_heads")
    if not isinstance(heads, int) or heads < 1:
        raise LookupError
    products = 6 if "delta" in str(call.arguments.get("update_rule", "")) else 4
    return products * call.result.elements * (call.operand(0).shape[-1] // heads)


def attention_backward(keys: int = -2, query: int = 1, like: int = 0) -> Count:
    """Scores again, and the gradients of scores, V, Q and K: 2 · t · (3 · elements of Q + 2 · elements made forward).

    Operand ``query`` is Q, K stands after it, and operand ``like`` has the shape that was made.
    """

    def count(call: Call) -> int:
        q, k = call.operand(query), ranked(call.operand(query + 1), 2)
        return 2 * _keys(call, k, keys) * (3 * q.elements + 2 * call.operand(like).elements)

    return count


def recurrent(call: Call) -> int:
    """Each matrix is applied once per step and sample: 2 · steps · elements of all matrices (of rank 2).

    Operands that follow the sequence: the state (two tensors of an LSTM), then weights.
    """
    read = call.operand(0)
    state = 2 if "lstm" in call.kind else 1
    matrices = [value for value in call.operands[1 + state :] if len(value.shape) == 2]
    if not matrices:
        raise LookupError
    return _applied(read, matrices)


def recurrent_layer(*weights: int) -> Count:
    """The same with the matrices at the operands ``weights``."""
    return lambda call: _applied(call.operand(0), [call.operand(i) for i in weights])


def _applied(read: Value, matrices: Iterable[Value]) -> int:
    steps = read.elements // max(1, read.shape[-1])
    return 2 * steps * sum(matrix.elements for matrix in matrices)


def multi_head(call: Call) -> int:
    """Attention with its projections: 2 · width · (2 |Q| + |K| + |V|) of these, 4 · |Q| · keys of attention."""
    q, k, v = (ranked(call.operand(i), 3) for i in range(3))
    return 2 * q.shape[-1] * (2 * q.elements + k.elements + v.elements) + 4 * q.elements * k.shape[-2]


def encoder(*weights: int) -> Count:
    """A transformer's layer: every token meets each of the matrices at operands ``weights``, and attention's scores."""

    def count(call: Call) -> int:
        read = ranked(call.operand(0), 3)
        return _applied(read, [call.operand(i) for i in weights]) + 4 * read.elements * read.shape[-2]

    return count
