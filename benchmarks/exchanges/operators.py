"""The arithmetic of each kernel on one chip's parts of its operands, arrays of rows x experts x columns.

``total`` adds over chips what a chip has of a column's statistics, where its rows are split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.exchanges.plan import Run
from benchmarks.exchanges.steps import Layer
from chipmap.instances.dataflow.workloads.layer import LAYER_NORM
from chipmap.records import InputError

try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError as error:  # told in one sentence, with the extra that has it
    raise InputError(
        "JAX isn't installed", "jax", "Install the extra judges: pip install 'chipmap[judges]'."
    ) from error

Array = Any
Total = Callable[[Array], Array]
EPSILON = 1e-5


def compute(layer: Layer, run: Run, inputs: Sequence[Array], parameters: Array | None, place: Array | int) -> Array:
    """The output of a kernel on a chip; ``place`` is the number of the chip's part of tokens, rows or experts."""
    step = run.step
    total: Total = _over_chips if run.made.layout.kind == "SR" else lambda one: one
    first = len(inputs) - len(step.operands)
    arguments = [sum(inputs[1:first], inputs[0])] if first else []
    arguments += [*inputs[first:], *([] if parameters is None else [parameters])]
    made: Array = getattr(_Kernel(layer, run, total, place), f"do_{step.operator}")(*arguments)
    return made


def _over_chips(one: Array) -> Array:
    return jax.lax.psum(one, "x")


class _Kernel:
    def __init__(self, layer: Layer, run: Run, total: Total, place: Array | int) -> None:
        self.layer, self.run, self.step, self.total, self.place = layer, run, run.step, total, place
        self.kernel = run.step.kernel

    def do_sum(self, *terms: Array) -> Array:
        return sum(terms[1:], terms[0])

    do_loss = do_sum

    def do_linear(self, x: Array, w: Array) -> Array:
        return jnp.einsum("rek,kes->res", w, x)

    def do_transposed(self, g: Array, w: Array) -> Array:
        return jnp.einsum("rek,res->kes", w, g)

    def do_update(self, g: Array, x: Array) -> Array:
        return jnp.einsum("res,kes->rek", g, x)

    # products of two activations: heads of rows

    def _by_heads(self, x: Array, rows: int) -> Array:
        return x.reshape(x.shape[0] // rows, rows, x.shape[-1])

    def do_product(self, right: Array, left: Array) -> Array:
        kernel, name = self.kernel, (*self.step.sources, *self.step.operands)[1]
        heads = self.layer.step(name).heads
        rows, _, columns = self.layer.sizes[name]
        plain = (rows // heads, columns) == (kernel.M, kernel.K)
        b, a = self._by_heads(right, kernel.K), self._by_heads(left, rows // heads)
        b = b.reshape(a.shape[0], -1, *b.shape[1:])  # several heads of one operand may share one of the other
        out = jnp.einsum("hmk,hqkn->hqmn" if plain else "hkm,hqkn->hqmn", a, b)
        return out.reshape(-1, 1, out.shape[-1])

    def do_outer(self, g: Array, x: Array) -> Array:
        kernel, heads = self.kernel, self.step.heads
        names = (*self.step.sources, *self.step.operands)
        per_head = [self.layer.sizes[u][0] // kernel.outer for u in names]
        parts = [self._by_heads(one, rows) for one, rows in zip((g, x), per_head, strict=True)]
        first, second = parts if per_head[0] == kernel.M else parts[::-1]
        out = jnp.einsum("hmk,hnk->hmn", first, second)
        group = min(kernel.outer // heads, out.shape[0])
        out = out.reshape(-1, group, *out.shape[1:]).sum(axis=1)
        return out.reshape(-1, 1, out.shape[-1])

    # element-wise kernels

    def _root(self, x: Array) -> Array:
        return jax.lax.rsqrt(self.total((x * x).sum(axis=0, keepdims=True)) / self.kernel.M + EPSILON)

    def _means(self, *of: Array) -> Array:
        return self.total(jnp.stack([one.sum(axis=0) for one in of])) / self.kernel.M

    @property
    def _centred(self) -> bool:
        """Whether a norm takes off the mean as well."""
        return self.layer.step(self.step.of or self.step.name).kernel.statistics == LAYER_NORM

    def do_norm(self, x: Array) -> Array:
        if not self._centred:
            return x * self._root(x)
        mean, square = self._means(x, x * x)
        return (x - mean) * jax.lax.rsqrt(square - mean**2 + EPSILON)

    def do_norm_b(self, g: Array, x: Array) -> Array:
        if self._centred:
            mean, square, slope, product = self._means(x, x * x, g, g * x)
            root = jax.lax.rsqrt(square - mean**2 + EPSILON)
            return root * (g - slope - (x - mean) * root**2 * (product - mean * slope))
        sums = self.total(jnp.stack([(x * x).sum(axis=0), (g * x).sum(axis=0)]))
        root = jax.lax.rsqrt(sums[0] / self.kernel.M + EPSILON)
        return root * g - x * root**3 * sums[1] / self.kernel.M

    def _scale(self) -> float:
        """Of scores before a softmax: 1 / the root of a head's size."""
        of = self.layer.step(self.step.of or self.step.name)
        return float(self.layer.step(of.operands[0]).kernel.K) ** -0.5

    def do_softmax(self, x: Array) -> Array:
        heads = self._by_heads(x, self.kernel.M)
        return jax.nn.softmax(heads * self._scale(), axis=1).reshape(x.shape)

    def do_softmax_b(self, g: Array, p: Array) -> Array:
        a, b = self._by_heads(g, self.kernel.M), self._by_heads(p, self.kernel.M)
        return (self._scale() * b * (a - (a * b).sum(axis=1, keepdims=True))).reshape(g.shape)

    def do_choice(self, x: Array) -> Array:
        # scores of experts are small: their largest needn't be taken off, which would be one more exchange
        grown = jnp.exp(x)
        return grown / self.total(grown.sum(axis=0, keepdims=True))

    def do_choice_b(self, g: Array, p: Array) -> Array:
        return p * (g - self.total((g * p).sum(axis=0, keepdims=True)))

    def do_gated(self, up: Array, gate: Array) -> Array:
        return up * jax.nn.silu(gate)

    def do_gated_b(self, g: Array, *operands: Array) -> Array:
        if self.step.which == 1:
            (gate,) = operands
            return self.do_gated(g, gate)
        up, gate = operands
        return jax.vjp(partial(self.do_gated, up), gate)[1](g)[0]

    def do_gelu(self, x: Array) -> Array:
        return jax.nn.gelu(x)

    def do_gelu_b(self, g: Array, x: Array) -> Array:
        return jax.vjp(jax.nn.gelu, x)[1](g)[0]

    def _positions(self, x: Array) -> tuple[Array, Array]:
        """Rows and columns of a chip's part, counted in the whole tensor."""
        kind = self.run.made.layout.kind
        rows = jnp.arange(x.shape[0]) + (self.place * x.shape[0] if kind == "SR" else 0)
        columns = jnp.arange(x.shape[2]) + (self.place * x.shape[2] if kind == "RS" else 0)
        return rows, columns

    def do_dropout(self, x: Array) -> Array:
        # a mask that the backward phase makes anew from positions alone, as from a seed
        rows, columns = self._positions(x)
        mask = (rows[:, None] * 7 + columns[None, :] * 13) % 10 != 0
        return x * mask[:, None, :] / 0.9

    do_dropout_b = do_dropout

    def do_rotary(self, x: Array, sign: float = 1.0) -> Array:
        half, columns = self.kernel.M // 2, self._positions(x)[1]
        angle = sign * columns[None, :] / 10_000 ** (jnp.arange(half) / half)[:, None]
        pair = x.reshape(-1, 2, half, x.shape[-1])
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        turned = [pair[:, 0] * cos - pair[:, 1] * sin, pair[:, 1] * cos + pair[:, 0] * sin]
        return jnp.stack(turned, axis=1).reshape(x.shape)

    def do_rotary_b(self, g: Array) -> Array:
        return self.do_rotary(g, -1.0)

    # experts: copy j of token q · E + r goes to expert (r + j · E / k) mod E, a choice that loads all alike

    @property
    def _copies(self) -> int:
        return next(k.active for k in self.layer.workload.kernels if k.active)

    def _shift(self, copy: int) -> int:
        return copy * self.layer.experts // self._copies

    def do_dispatch(self, x: Array) -> Array:
        experts, rows = self.layer.experts, x.shape[0]
        tokens = x.reshape(rows, -1, experts)
        copies = jnp.stack([jnp.roll(tokens, self._shift(j), axis=2) for j in range(self._copies)], axis=-1)
        return copies.transpose(0, 2, 1, 3).reshape(rows, experts, -1)

    def _gathered(self, y: Array) -> Array:
        """The sum of a token's copies."""
        if self.run.at_experts:
            y = self._among_all(y)
        rows, experts = y.shape[:2]
        copies = y.reshape(rows, experts, -1, self._copies)
        tokens = [jnp.roll(copies[..., j], -self._shift(j), axis=1) for j in range(self._copies)]
        return sum(tokens[1:], tokens[0]).transpose(0, 2, 1).reshape(rows, 1, -1)

    def _among_all(self, y: Array) -> Array:
        """The outputs of a chip's own experts, with zeros for those of others."""
        whole = jnp.zeros((y.shape[0], self.layer.experts, y.shape[2]), y.dtype)
        return jax.lax.dynamic_update_slice(whole, y, (0, self.place * y.shape[1], 0))

    def _own(self, y: Array, experts: int) -> Array:
        """The part of a chip's own experts."""
        return jax.lax.dynamic_slice_in_dim(y, self.place * experts, experts, axis=1)

    def _weights(self, gate: Array) -> Array:
        """The weight of each copy of a token: that of the expert that it went to."""
        experts = self.layer.experts
        gate = gate.reshape(experts, -1, experts)  # expert, q, r
        chosen = [
            gate[np.arange(experts), :, (np.arange(experts) - self._shift(j)) % experts] for j in range(self._copies)
        ]
        return jnp.stack(chosen, axis=-1).reshape(1, experts, -1)

    def do_dispatch_b(self, g: Array) -> Array:
        return self._gathered(g)

    def do_combine(self, down: Array, gate: Array, *shared: Array) -> Array:
        given = self._weights(gate)
        chips = self.layer.experts // down.shape[1]  # each of which adds its part of what all have
        if chips > 1:
            given = self._own(given, down.shape[1])
        return sum((one / chips for one in shared), self._gathered(down * given))

    def do_combine_b(self, g: Array, other: Array) -> Array:
        if self.step.which == 1:
            return self.do_dispatch(g) * self._weights(other)
        copies = self.do_dispatch(g)
        if self.run.at_experts:
            dots = (self._own(copies, other.shape[1]) * other).sum(axis=0, keepdims=True)
            dots = jax.lax.all_gather(dots, "x", axis=1, tiled=True)
        else:
            dots = self.total((copies * other).sum(axis=0, keepdims=True))
        gate = jnp.zeros((self.layer.experts, 1, g.shape[2]), g.dtype)
        return self._mine(jax.vjp(self._weights, gate)[1](dots)[0])

    def _mine(self, gate: Array) -> Array:
        """The part that a chip is to have of what it has made whole."""
        layout, axis = self.run.made.layout, {"SR": 0, "RS": 2}
        if layout.kind not in axis or (layout.kind == "RS" and not self.run.at_experts):
            return gate
        size = gate.shape[axis[layout.kind]] // layout.parts
        return jax.lax.dynamic_slice_in_dim(gate, self.place * size, size, axis=axis[layout.kind])
