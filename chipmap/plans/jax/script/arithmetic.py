"""The arithmetic of kernels on one chip's parts of their operands, arrays of rows x experts x columns.

The parts of several chips are along one axis, ``parts`` in all (1: the chip has the whole). Each function that an
emitted program uses is copied into it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array = Any
EPSILON = 1e-5


def place(parts: int) -> Array:
    """The number of the chip's part: with fewer parts than chips, neighbours have the same one."""
    return lax.axis_index("x") * parts // lax.axis_size("x")


def own_part(x: Array, axis: int, parts: int, of: int = 1) -> Array:
    """The chip's one of ``parts``, out of the one that it has ``of`` so many."""
    each = parts // of
    size = x.shape[axis] // each
    return lax.dynamic_slice_in_dim(x, place(parts) % each * size, size, axis=axis)


def repeated(x: Array, axis: int, parts: int) -> Array:
    """Each of ``parts`` as often as chips are to have it."""
    copies = lax.axis_size("x") // parts
    return jnp.concatenate([one for one in jnp.split(x, parts, axis) for _ in range(copies)], axis)


def total(x: Array, parts: int) -> Array:
    """The sum over chips of what each has added up of its rows."""
    return x if parts == 1 else lax.psum(x, "x")


def linear(x: Array, w: Array) -> Array:
    """W x, for each expert."""
    return jnp.einsum("rek,kes->res", w, x)


def transposed(g: Array, w: Array) -> Array:
    """Transposed W times g: the gradient of what W was multiplied by."""
    return jnp.einsum("rek,res->kes", w, g)


def update(g: Array, x: Array) -> Array:
    """g times transposed x: the gradient of W."""
    return jnp.einsum("res,kes->rek", g, x)


def by_heads(x: Array, heads: int) -> Array:
    """heads x rows of each x columns."""
    return x.reshape(heads, -1, x.shape[-1])


def product(right: Array, left: Array, heads: int, groups: int, transpose: bool) -> Array:
    """For each of ``heads`` of ``right`` left (or transposed left) times right; several may share one of ``left``'s
    ``groups``."""
    a, b = by_heads(left, groups), by_heads(right, heads)
    b = b.reshape(groups, -1, *b.shape[1:])
    out = jnp.einsum("hkm,hqkn->hqmn" if transpose else "hmk,hqkn->hqmn", a, b)
    return out.reshape(-1, 1, out.shape[-1])


def outer(first: Array, second: Array, heads: int, shared: int) -> Array:
    """For each of ``heads`` first times transposed second; added up where so many shared an operand."""
    out = jnp.einsum("hmk,hnk->hmn", by_heads(first, heads), by_heads(second, heads))
    out = out.reshape(-1, shared, *out.shape[1:]).sum(axis=1)
    return out.reshape(-1, 1, out.shape[-1])


def rms_norm(x: Array, parts: int) -> Array:
    """x over the root of the mean of its squares, for each column."""
    return x * lax.rsqrt(total((x * x).sum(axis=0, keepdims=True), parts) / (x.shape[0] * parts) + EPSILON)


def rms_norm_b(g: Array, x: Array, parts: int) -> Array:
    """The derivative of ``rms_norm`` at x, times g."""
    rows = x.shape[0] * parts
    sums = total(jnp.stack([(x * x).sum(axis=0), (g * x).sum(axis=0)]), parts)
    root = lax.rsqrt(sums[0] / rows + EPSILON)
    return root * g - x * root**3 * sums[1] / rows


def means(parts: int, *of: Array) -> Array:
    """The mean of each column, of several arrays at once."""
    return total(jnp.stack([one.sum(axis=0) for one in of]), parts) / (of[0].shape[0] * parts)


def layer_norm(x: Array, parts: int) -> Array:
    """x without its mean over its standard deviation, for each column."""
    mean, square = means(parts, x, x * x)
    return (x - mean) * lax.rsqrt(square - mean**2 + EPSILON)


def layer_norm_b(g: Array, x: Array, parts: int) -> Array:
    """The derivative of ``layer_norm`` at x, times g."""
    mean, square, slope, dot = means(parts, x, x * x, g, g * x)
    root = lax.rsqrt(square - mean**2 + EPSILON)
    return root * (g - slope - (x - mean) * root**2 * (dot - mean * slope))


def softmax(x: Array, heads: int, scale: float) -> Array:
    """Over the rows of each head, of ``scale`` times x."""
    return jax.nn.softmax(by_heads(x, heads) * scale, axis=1).reshape(x.shape)


def softmax_b(g: Array, p: Array, heads: int, scale: float) -> Array:
    """The derivative of ``softmax`` where it made p, times g."""
    a, b = by_heads(g, heads), by_heads(p, heads)
    return (scale * b * (a - (a * b).sum(axis=1, keepdims=True))).reshape(g.shape)


def choice(x: Array, parts: int) -> Array:
    """A softmax over all rows; scores are small: their largest isn't taken off, which would be one more exchange."""
    grown = jnp.exp(x)
    return grown / total(grown.sum(axis=0, keepdims=True), parts)


def choice_b(g: Array, p: Array, parts: int) -> Array:
    """The derivative of ``choice`` where it made p, times g."""
    return p * (g - total((g * p).sum(axis=0, keepdims=True), parts))


def gated(up: Array, gate: Array) -> Array:
    """up times SiLU of gate."""
    return up * jax.nn.silu(gate)


def gated_gate_b(g: Array, up: Array, gate: Array) -> Array:
    """The derivative of ``gated`` by its gate, times g."""
    return jax.vjp(lambda one: gated(up, one), gate)[1](g)[0]


def gelu_b(g: Array, x: Array) -> Array:
    """The derivative of GeLU at x, times g."""
    return jax.vjp(jax.nn.gelu, x)[1](g)[0]


def positions(size: int, parts: int) -> Array:
    """Numbers of the chip's rows or columns in the whole tensor."""
    return jnp.arange(size) + (0 if parts == 1 else place(parts) * size)


def dropout(x: Array, row_parts: int, column_parts: int) -> Array:
    """A tenth of all numbers becomes 0, by a mask that the backward phase makes anew from positions, as from a seed."""
    rows, columns = positions(x.shape[0], row_parts), positions(x.shape[2], column_parts)
    mask = (rows[:, None] * 7 + columns[None, :] * 13) % 10 != 0
    return x * mask[:, None, :] / 0.9


def rotary(x: Array, heads: int, row_parts: int, column_parts: int, sign: float) -> Array:
    """Neighbouring rows of each head turned by an angle that grows with the column, backward with ``sign`` -1.

    So a chip that has a part of a head turns it alone.
    """
    rows, columns = positions(x.shape[0], row_parts)[::2], positions(x.shape[2], column_parts)
    of_head = x.shape[0] * row_parts // heads
    angle = sign * columns[None, :] / 10_000 ** (rows % of_head / of_head)[:, None]
    pair = x.reshape(-1, 2, x.shape[-1])
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    turned = [pair[:, 0] * cos - pair[:, 1] * sin, pair[:, 1] * cos + pair[:, 0] * sin]
    return jnp.stack(turned, axis=1).reshape(x.shape)


def dispatch(x: Array, experts: int, copies: int) -> Array:
    """Tokens at experts: copy j of token q * E + r goes to expert (r + j * E / k) mod E, which loads all alike."""
    tokens = x.reshape(x.shape[0], -1, experts)
    each = [jnp.roll(tokens, j * experts // copies, axis=2) for j in range(copies)]
    return jnp.stack(each, axis=-1).transpose(0, 2, 1, 3).reshape(x.shape[0], experts, -1)


def gathered(y: Array, experts: int, copies: int) -> Array:
    """The sum of a token's copies; of those of a chip's own experts, where it has not all of them."""
    if y.shape[1] < experts:
        whole = jnp.zeros((y.shape[0], experts, y.shape[2]), y.dtype)
        y = lax.dynamic_update_slice(whole, y, (0, lax.axis_index("x") * y.shape[1], 0))
    each = y.reshape(y.shape[0], experts, -1, copies)
    tokens = [jnp.roll(each[..., j], -(j * experts // copies), axis=1) for j in range(copies)]
    return sum(tokens[1:], tokens[0]).transpose(0, 2, 1).reshape(y.shape[0], 1, -1)


def given(gate: Array, experts: int, copies: int) -> Array:
    """The weight of each copy of a token: that of the expert that it went to."""
    gate, numbers = gate.reshape(experts, -1, experts), np.arange(experts)
    chosen = [gate[numbers, :, (numbers - j * experts // copies) % experts] for j in range(copies)]
    return jnp.stack(chosen, axis=-1).reshape(1, experts, -1)


def at_experts(y: Array, held: int) -> Array:
    """The part of the chip's own experts, of which it holds so many."""
    if held == y.shape[1]:
        return y
    return lax.dynamic_slice_in_dim(y, lax.axis_index("x") * held, held, axis=1)


def combine(down: Array, gate: Array, *shared: Array, experts: int, copies: int) -> Array:
    """The weighted sum of a token's copies; each chip adds its part of what all of them have."""
    held = down.shape[1]
    weighted = down * at_experts(given(gate, experts, copies), held)
    return sum((one * held / experts for one in shared), gathered(weighted, experts, copies))


def combine_down_b(g: Array, gate: Array, experts: int, copies: int) -> Array:
    """The derivative of ``combine`` by what experts made, times g."""
    return dispatch(g, experts, copies) * given(gate, experts, copies)


def combine_gate_b(g: Array, down: Array, experts: int, copies: int, parts: int) -> Array:
    """The derivative of ``combine`` by the weights of experts, times g: of all experts on each chip."""
    held = down.shape[1]
    dots = (at_experts(dispatch(g, experts, copies), held) * down).sum(axis=0, keepdims=True)
    dots = total(dots, parts) if held == experts else lax.all_gather(dots, "x", axis=1, tiled=True)
    gate = jnp.zeros((experts, 1, g.shape[2]), g.dtype)
    return jax.vjp(lambda one: given(one, experts, copies), gate)[1](dots)[0]
