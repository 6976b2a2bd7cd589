"""Small programs that NumPy executes, and what one chip of n can compute of them: a second statement of ``splits``.

Nothing here knows a rule. A chip that holds a part of a tensor has NaN everywhere else. What it computes from that is
right where it is equal to what the whole tensor gives. Which elements belong to which chip is known from the test's own
definition of a layout's block, and is carried through views by executing them on the chips' numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipmap.networks.graph import Loops
from chipmap.networks.importers.loops import followed
from chipmap.networks.importers.loops.layouts import Split
from chipmap.networks.importers.steps import Program, Step, Value

Array = NDArray[np.float64]
Function = Callable[..., Any]


@dataclass
class Net:
    """A program that is executed while it is built: every call adds a step and computes its results."""

    seed: int = 0
    program: Program = field(default_factory=lambda: Program("net", "test"))
    arrays: dict[str, Array] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def _add(self, name: str, array: Array) -> str:
        self.arrays[name] = array
        self.program.values[name] = Value(name, array.shape, 32)
        return name

    def input(self, *shape: int) -> str:
        """An input of random numbers."""
        self.program.inputs.append(self._add(f"in{len(self.arrays)}", self.random.normal(size=shape)))
        return self.program.inputs[-1]

    def parameter(self, *shape: int) -> str:
        """A parameter of random numbers."""
        self.program.parameters.append(self._add(f"p{len(self.arrays)}", self.random.normal(size=shape)))
        return self.program.parameters[-1]

    def call(
        self,
        kind: str,
        function: Function,
        *reads: str,
        inner: int = 0,
        view: bool = False,
        several: bool = False,
        **arguments: Any,
    ) -> Any:
        """The result of ``function`` of the arrays (a list of them if ``several``), as a step of that kind.

        Each number of the result is a sum of ``inner`` products (0: one FLOP).
        """
        name = f"{kind}{len(self.program.steps)}"
        made = function(*(self.arrays[read] for read in reads))
        names = [self._add(f"{name}.{i}", array) for i, array in enumerate(made if several else [made])]
        flop = sum(self.arrays[made].size for made in names) * (2 * inner or 1)
        step = Step(name, kind, tuple(reads), tuple(names), flop, view, arguments=arguments)
        self.program.steps.append(step)
        self.functions[name] = function
        return names if several else names[0]

    # What networks are made of, in PyTorch's names.

    def linear(self, x: str, features: int, bias: bool = True) -> str:
        """x · Wᵀ + b."""
        weights = [self.parameter(features, self.arrays[x].shape[-1]), *([self.parameter(features)] if bias else [])]
        return str(self.call("linear", lambda x, w, b=0.0: x @ w.T + b, x, *weights, inner=self.arrays[x].shape[-1]))

    def matmul(self, a: str, b: str, kind: str = "matmul") -> str:
        """Product of two activations."""
        return str(self.call(kind, np.matmul, a, b, inner=self.arrays[a].shape[-1]))

    def view(self, x: str, *shape: int, kind: str = "view") -> str:
        """The same elements in another shape."""
        return str(self.call(kind, lambda x: x.reshape(shape), x, view=True))

    def permute(self, x: str, *axes: int) -> str:
        """Axes in another order."""
        return str(self.call("permute", lambda x: x.transpose(axes), x, view=True, dims=list(axes)))

    def transpose(self, x: str, one: int, two: int) -> str:
        """Two axes change places."""
        return str(self.call("transpose", lambda x: x.swapaxes(one, two), x, view=True, dim0=one, dim1=two))

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        """A range along one axis."""

        def cut(x: Array) -> Array:
            return x[(np.s_[:],) * axis + (np.s_[start:end],)]

        return str(self.call("slice", cut, x, view=True, dim=axis, start=start, end=end))

    def split(self, x: str, size: int, axis: int) -> list[str]:
        """Equal pieces along one axis."""

        def pieces(x: Array) -> list[Array]:
            return np.split(x, range(size, x.shape[axis], size), axis)

        return list(self.call("split", pieces, x, view=True, several=True, split_size=size, dim=axis))

    def select(self, x: str, axis: int, index: int) -> str:
        """One index along an axis."""
        return str(self.call("select", lambda x: x.take(index, axis), x, view=True, dim=axis, index=index))

    def expand(self, x: str, *shape: int) -> str:
        """Axes of extent 1 spread."""
        return str(self.call("expand", lambda x: np.broadcast_to(x, shape), x, view=True, size=list(shape)))

    def point(self, kind: str, function: Function, *reads: str) -> str:
        """Element by element."""
        return str(self.call(kind, function, *reads))

    def add(self, x: str, y: str) -> str:
        """A sum."""
        return self.point("add", np.add, x, y)

    def mul(self, x: str, y: str) -> str:
        """A product of elements."""
        return self.point("mul", np.multiply, x, y)

    def softmax(self, x: str, axis: int = -1) -> str:
        """Softmax along an axis."""
        return str(self.call("softmax", lambda x: softmax(x, axis), x, dim=axis))

    def layer_norm(self, x: str) -> str:
        """Over the last axis, with parameters."""
        size = self.arrays[x].shape[-1]

        def norm(x: Array, w: Array, b: Array) -> Array:
            return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-3) * w + b

        return str(
            self.call("layer_norm", norm, x, self.parameter(size), self.parameter(size), normalized_shape=[size])
        )

    def mean(self, x: str, axes: Sequence[int], keep: bool = True) -> str:
        """Means over axes."""
        found = self.call("mean", lambda x: x.mean(tuple(axes), keepdims=keep), x, dim=list(axes), keepdim=keep)
        return str(found)

    def cat(self, axis: int, *reads: str) -> str:
        """Joined along an axis."""
        return str(self.call("cat", lambda *x: np.concatenate(x, axis), *reads, dim=axis))

    def convolution(self, x: str, outputs: int, side: int = 3, groups: int = 1, stride: int = 1) -> str:
        """A convolution without padding."""
        shape = (outputs, self.arrays[x].shape[1] // groups, *[side] * (self.arrays[x].ndim - 2))

        def run(x: Array, w: Array, b: Array) -> Array:
            return convolved(x, w, groups, stride) + b.reshape(1, -1, *[1] * (x.ndim - 2))

        arguments: dict[str, Any] = {"stride": [stride] * (len(shape) - 2), "groups": groups, "transposed": False}
        weights = [self.parameter(*shape), self.parameter(outputs)]
        found = self.call("convolution", run, x, *weights, inner=int(np.prod(shape[1:])), **arguments)
        return str(found)

    def transposed_convolution(self, x: str, outputs: int, side: int = 2) -> str:
        """Each place becomes ``side`` × ``side`` places."""

        def run(x: Array, w: Array) -> Array:
            made = np.einsum("bchw,coij->bohiwj", x, w)
            b, o, h, _, v, _ = made.shape
            return made.reshape(b, o, h * side, v * side)

        weights = self.parameter(self.arrays[x].shape[1], outputs, side, side)
        inner = self.arrays[x].shape[1]
        return str(self.call("conv_transpose2d", run, x, weights, inner=inner, stride=[side, side]))

    def attention(self, q: str, k: str, v: str, *mask: str) -> str:
        """Fused attention; heads of keys and values are repeated where they are fewer."""

        def run(q: Array, k: Array, v: Array, mask: Array | float = 0.0) -> Array:
            times = q.shape[-3] // k.shape[-3]
            k, v = k.repeat(times, -3), v.repeat(times, -3)
            return softmax(q @ k.swapaxes(-1, -2) + mask) @ v

        return str(self.call("scaled_dot_product_attention", run, q, k, v, *mask, inner=2 * self.arrays[k].shape[-2]))

    def loops(self) -> dict[str, Loops | None]:
        """The loop nest of each step."""
        found, _ = followed(self.program)
        return {step.name: loops for step, loops in zip(self.program.steps, found, strict=True)}


def softmax(x: Array, axis: int = -1) -> Array:
    """exp(x) over its sum along an axis."""
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def convolved(x: Array, w: Array, groups: int, stride: int) -> Array:
    """x [samples, channels, places] * w [out, channels / groups, window], place by place."""
    window = w.shape[2:]
    places = [(size - side) // stride + 1 for size, side in zip(x.shape[2:], window, strict=True)]
    parts = []
    for own, kernel in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        made = np.zeros((len(x), len(kernel), *places))
        for place in product(*map(range, places)):
            ranges: Any = tuple(np.s_[p * stride : p * stride + side] for p, side in zip(place, window, strict=True))
            piece = own[(np.s_[:], np.s_[:], *ranges)]
            spot: Any = (np.s_[:], np.s_[:], *place)
            made[spot] = piece.reshape(len(x), -1) @ kernel.reshape(len(kernel), -1).T
        parts.append(made)
    return np.concatenate(parts, 1)


def owners(split: Split, shape: tuple[int, ...], n: int) -> NDArray[np.int64]:
    """The chip of n that has each element of a tensor that is split in blocks."""
    flat = np.arange(int(np.prod(shape)), dtype=np.int64)
    return ((flat % split.block) * n // split.block).reshape(shape)


def trials(net: Net) -> int:
    """Assert that every named split of ``net`` computes what the whole operator does; how many were tried."""
    found, layouts = followed(net.program)
    tried = 0
    for step, loops in zip(net.program.steps, found, strict=True):
        splits = [layouts[name] for name in (*step.reads, *step.makes) if isinstance(layouts.get(name), Split)]
        parts = [split.parts for split in splits if isinstance(split, Split)]
        for n in (2, 3, 4):
            if parts and all(part % n == 0 for part in parts):
                tried += _view(net, step, layouts, n) if step.view else _computing(net, step, loops, layouts, n)
    return tried


def _view(net: Net, step: Step, layouts: dict[str, Any], n: int) -> int:
    """A view, executed on the numbers of the chips, gives those of its result's layout."""
    source = layouts[step.reads[0]]
    if not isinstance(source, Split):
        return 0
    has = owners(source, net.arrays[step.reads[0]].shape, n)
    made = net.functions[step.name](has.astype(np.float64))
    for name, array in zip(step.makes, made if len(step.makes) > 1 else [made], strict=True):
        if isinstance(layouts[name], Split):
            assert np.array_equal(array, owners(layouts[name], array.shape, n)), step.name
        else:
            assert layouts[name] == "lost"
    return 1


def _computing(net: Net, step: Step, loops: Loops | None, layouts: dict[str, Any], n: int) -> int:
    """Each chip computes its part of the result from its parts of the operands and a share of the parameters."""
    (name,) = step.makes
    if loops is None or not loops.splits:
        assert layouts[name] == "whole", step.name  # a kernel that runs whole everywhere
        return 0
    function, tried = net.functions[step.name], 0
    whole = [net.arrays[read] for read in step.reads]
    fixed = [i for i, read in enumerate(step.reads) if read not in layouts]
    if "rows" in loops.splits or "outer" in loops.splits:
        gathered = loops.weights and "rows" in loops.splits  # the rows of a product with parameters need all operands
        has = owners(layouts[name], net.arrays[name].shape, n)
        for chip in range(n):
            own = [held(layouts.get(r), array, n, chip) for r, array in zip(step.reads, whole, strict=True)]
            local = whole if gathered else own
            mine = has == chip
            assert mine.sum() * n == has.size
            assert np.allclose(function(*local)[mine], net.arrays[name][mine], equal_nan=False), step.name
            needed = sum(_needed(function, local, i, mine) for i in fixed)
            stored = 4 * sum(whole[i].size for i in fixed)
            assert 4 * needed <= (stored - loops.whole_bytes) / n + loops.whole_bytes, step.name
        tried += 1
    if "inner" in loops.splits:
        at = next(i for i, read in enumerate(step.reads) if read in layouts)
        source = layouts[step.reads[at]]
        assert source == "whole" or isinstance(source, Split), step.name
        if isinstance(source, Split):
            tried += _sums(net, step, at, owners(source, whole[at].shape, n), fixed)
    return tried


def held(layout: Any, array: Array, n: int, chip: int) -> Array:
    """What one chip holds of an operand: all of a parameter or whole tensor, its part of a split one, else nothing."""
    if layout is None or layout == "whole":
        return array
    if not isinstance(layout, Split):
        return np.full_like(array, np.nan)
    return np.where(owners(layout, array.shape, n) == chip, array, np.nan)


def _sums(net: Net, step: Step, at: int, has: NDArray[np.int64], fixed: list[int]) -> int:
    """The partial sums of the chips, the first with what is added, add up; each needs its share of the weights.

    ``at`` is the operand of which each chip ``has`` a part.
    """
    function, n = net.functions[step.name], int(has.max()) + 1
    arrays = [net.arrays[read] for read in step.reads]
    weights = [i for i in fixed if arrays[i].ndim > 1]
    total, used = 0.0, 0
    for chip in range(n):
        local = [np.where(has == chip, array, 0.0) if i == at else array for i, array in enumerate(arrays)]
        if chip:
            local = [array if i == at or i in weights else np.zeros_like(array) for i, array in enumerate(local)]
        total = total + function(*local)
        used = sum(_needed(function, local, i, np.True_) for i in weights)
        assert used * n == sum(arrays[i].size for i in weights), step.name
    assert np.allclose(total, net.arrays[step.makes[0]]), step.name
    return 1


def _needed(function: Function, arrays: list[Array], which: int, part: Any) -> int:
    """On how many numbers of an operand a part of the result (a mask) depends."""
    before, count = function(*arrays)[part], 0
    for i in range(arrays[which].size):
        changed = arrays[which].copy()
        changed.flat[i] += 1.0
        after = function(*arrays[:which], changed, *arrays[which + 1 :])[part]
        count += not np.allclose(after, before, equal_nan=True, rtol=1e-9, atol=1e-12)
    return count
