"""Networks as kernel graphs: ResNets and U-Nets of convolutions, fully connected layers, transformers of products.

The ISPD 2020 contest's graphs are among them; :mod:`chipmap.instances.wafer.shipped` names their parameters. Kernels
are called ``k0``, ``k1`` … in the order in which they stand, except where a function says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec

from chipmap.instances.wafer.instance import Kernel, KernelKind
from chipmap.networks.generators.parameters import Count, Size, require, require_divisible

Edge = tuple[str, str]
#: Blocks after the first of each stage.
Stages = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=1000)], ...], msgspec.Meta(min_length=1, max_length=12)]


class KernelGraph:
    """Kernels, and (producer, consumer) names: collected one by one."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.edges: list[Edge] = []

    def add(self, kind: KernelKind, name: str = "", shape: Sequence[int] = (), **arguments: int) -> str:
        """Add a kernel; returns its name."""
        name = name or f"k{len(self.kernels)}"
        self.kernels.append(Kernel(name=name, kind=kind, arguments=arguments, shape=tuple(shape)))
        return name

    def conv(self, size: int, filter_side: int, inputs: int, outputs: int, stride: int = 1, name: str = "") -> str:
        """Add a convolution of a square tensor with a square filter."""
        side, step = filter_side, stride
        return self.add("conv", name, H=size, W=size, R=side, S=side, C=inputs, K=outputs, T=step, U=step)

    def product(self, rows: tuple[int, int], inputs: int, outputs: int, name: str, *reads: str) -> str:
        """Add a matrix product of rows[0] · rows[1] rows: a 1 × 1 convolution; it reads what ``reads`` name."""
        self.add("conv", name, H=rows[0], W=rows[1], R=1, S=1, C=inputs, K=outputs, T=1, U=1)
        self.edges += [(producer, name) for producer in reads]
        return name


def resnet(
    *,
    stages: Stages = (2, 3, 5, 2),
    filters: Size = 256,
    image: Size = 112,
    first: Literal["halves", "keeps"] = "halves",
    level: Literal["block", "convolution"] = "block",
    channels: Size = 128,
) -> KernelGraph:
    """A ResNet of bottlenecks: in each stage a cblock (which halves the image) and then ``stages[s]`` dblocks.

    Stage s has ``filters`` · 2^s filters. ``image`` is the side of the input, ``channels`` what the file says of its
    depth. In stage 0 the cblock takes the whole image, or with ``first = "keeps"`` the halved one that its dblocks
    take. At level ``convolution`` a block is its three or four convolutions: a, b, c in a row and a to c past b; in a
    cblock a to c by way of d. First come the cblocks, then the dblocks, both from the last stage to the first, each
    stage's dblocks from its end to its beginning.
    """
    count = len(stages)
    require_divisible("image", image, "2^stages", 2**count)
    require(filters * 2**count <= 10**6, f"is {filters}", "filters", "Give at most 1,000,000 / 2^stages.")
    require_divisible("filters", filters, "4", 4)
    made = KernelGraph()
    source = made.add("input", shape=(image, image, channels))
    sizes = [image // 2 ** (s + 1) for s in range(count)]
    entering = [sizes[0] if s == 0 and first == "keeps" else 2 * sizes[s] for s in range(count)]
    block = _block if level == "block" else _convolutions
    heads = {s: block(made, "cblock", entering[s], filters * 2**s) for s in reversed(range(count))}
    bodies = {
        s: [block(made, "dblock", sizes[s], filters * 2**s) for _ in range(stages[s])] for s in reversed(range(count))
    }
    sink = made.add("output", shape=(sizes[-1], sizes[-1], filters * 2 ** (count - 1)))
    chain = [ends for s in range(count) for ends in (heads[s], *reversed(bodies[s]))]
    follows = {a[1]: b[0] for a, b in pairwise(chain)} | {chain[-1][1]: sink}
    made.edges.append((source, chain[0][0]))
    made.edges += [(kernel.name, follows[kernel.name]) for kernel in made.kernels if kernel.name in follows]
    return made


def _block(made: KernelGraph, kind: Literal["cblock", "dblock"], size: int, filters: int) -> tuple[str, str]:
    name = made.add(kind, H=size, W=size, F=filters)
    return name, name


def _convolutions(made: KernelGraph, kind: Literal["cblock", "dblock"], size: int, filters: int) -> tuple[str, str]:
    """The convolutions of a block; returns the first and the last."""
    quarter, stride = filters // 4, 2 if kind == "cblock" else 1
    inputs = filters // stride
    a = made.conv(size, 1, inputs, quarter)
    b = made.conv(size, 3, quarter, quarter, stride)
    c = made.conv(size // stride, 1, quarter, filters)
    made.edges += [(a, b), (b, c)]
    if kind == "cblock":
        d = made.conv(size, 1, inputs, filters, 2)
        made.edges += [(a, d), (d, c)]
    else:
        made.edges.append((a, c))
    return a, c


def unet(
    *, levels: Count = 4, image: Size = 512, channels: Size = 64, image_channels: Size = 1, classes: Size = 2
) -> KernelGraph:
    """A U-Net: per level two 3 × 3 convolutions down, a 2 × 2 and two 3 × 3 up; two 3 × 3 at the bottom.

    The last convolution of a level on the way down also feeds the first 3 × 3 of that level on the way up.
    """
    require(levels <= 10, f"is {levels}", "levels", "Give at most 10.")
    require_divisible("image", image, "2^levels", 2**levels)
    made = KernelGraph()
    chain = [made.add("input", shape=(image, image, image_channels))]
    down, depth = [], image_channels
    for s in range(levels):
        width, size = channels * 2**s, image // 2**s
        chain += [made.conv(size, 3, depth, width), made.conv(size, 3, width, 2 * width)]
        down.append(chain[-1])
        depth = 2 * width
    size, skips = image // 2**levels, []
    chain += [made.conv(size, 3, depth, depth), made.conv(size, 3, depth, depth)]
    for s in reversed(range(levels)):
        chain.append(made.conv(image // 2 ** (s + 1), 2, depth, depth))
        chain.append(made.conv(image // 2**s, 3, depth, depth // 2))
        skips.append((down[s], chain[-1]))
        depth //= 2
        chain.append(made.conv(image // 2**s, 3, depth, depth))
    chain.append(made.conv(image, 1, depth, classes))
    chain.append(made.add("output", shape=(image, image, classes)))
    made.edges += [*pairwise(chain), *reversed(skips)]
    return made


def fully_connected(*, smallest: Size = 2, largest: Size = 8192, outputs: Size = 16) -> KernelGraph:
    """Fully connected layers s to s and s to 2s, s doubling from ``smallest`` to ``largest``; then the outputs."""
    doublings = max(largest // smallest, 1).bit_length() - 1
    near = smallest * 2**doublings
    require(near == largest, f"is {largest}", "largest", f"Give smallest times a power of 2, such as {near}.")
    made = KernelGraph()
    chain = [made.add("input", shape=(1, 1, smallest))]
    for s in (smallest * 2**i for i in range(doublings + 1)):
        chain += [made.conv(1, 1, s, s), made.conv(1, 1, s, 2 * s if s < largest else outputs)]
    chain.append(made.add("output", shape=(1, 1, outputs)))
    made.edges += pairwise(chain)
    return made


def transformer(
    *,
    layers: Count = 24,
    hidden: Size = 1024,
    heads: Size = 16,
    expansion: Count = 4,
    sequence: Size = 512,
    batch: Size = 1,
    vocabulary: Annotated[int, msgspec.Meta(ge=0, le=10**6)] = 0,
    split: Literal["none", "attention", "heads"] = "none",
) -> KernelGraph:
    """The matrix products of a transformer; a product with M rows is a 1 × 1 convolution with H · W = M.

    A layer has query, key and value, scores (Q · Kᵀ) and context (scores · V) of all heads, the projection, and the
    two products of the feed-forward part; what enters the layer also feeds the projection, and the projection's result
    the last product (the sums with the shortcuts). With ``split = "attention"`` scores and context are kernels of one
    head each, with ``heads`` query, key and value as well. ``vocabulary`` above 0 adds the product with the word table.
    """
    require_divisible("hidden", hidden, "heads", heads)
    require(layers * heads <= 2000, f"is {heads}", "heads", "Give at most 2,000 heads in all layers together.")
    made, rows = KernelGraph(), (sequence, batch)
    x = made.add("input", "tokens", shape=(sequence, batch, hidden))
    for number in range(layers):
        context = _attention(made, f"layer{number}", x, (sequence, batch, hidden, heads), split)
        y = made.product(rows, hidden, hidden, f"layer{number}.projection", *context, x)
        up = made.product(rows, hidden, expansion * hidden, f"layer{number}.up", y)
        x = made.product(rows, expansion * hidden, hidden, f"layer{number}.down", up, y)
    if vocabulary:
        x = made.product(rows, hidden, vocabulary, "words", x)
    made.edges.append((x, made.add("output", "result", shape=(sequence, batch, vocabulary or hidden))))
    return made


def _attention(made: KernelGraph, layer: str, x: str, sizes: tuple[int, int, int, int], split: str) -> list[str]:
    """The kernels of one attention; returns those that hold the contexts."""
    sequence, batch, hidden, heads = sizes
    depth, rows = hidden // heads, (sequence, batch)
    parts = [""] if split == "none" else [f".{head}" for head in range(heads)]
    width = hidden // len(parts)
    found = []
    whole: dict[str, str] = {}
    for part in parts:
        names = {}
        for one in ("query", "key", "value"):
            if split == "heads":
                names[one] = made.product(rows, hidden, width, f"{layer}.{one}{part}", x)
            else:
                names[one] = whole.get(one) or made.product(rows, hidden, hidden, f"{layer}.{one}", x)
                whole[one] = names[one]
        tall = (sequence, batch * heads // len(parts))
        scores = made.product(tall, depth, sequence, f"{layer}.scores{part}", names["query"], names["key"])
        found.append(made.product(tall, sequence, depth, f"{layer}.context{part}", scores, names["value"]))
    return found


def explicit(*, kernels: dict[str, dict[str, Any]], edges: tuple[Edge, ...] = ()) -> KernelGraph:
    """A kernel graph in words: of each kernel its ``kind`` (conv) and arguments; R, S, T and U of a conv are 1.

    A kernel of kind ``table`` has ``choices``.
    """
    made = KernelGraph()
    for name, given in kernels.items():
        values = dict(given)
        kind, shape, choices = values.pop("kind", "conv"), values.pop("shape", ()), values.pop("choices", ())
        arguments = {**dict.fromkeys("RSTU", 1), **values} if kind == "conv" else values
        made.kernels.append(Kernel.make(name=name, kind=kind, arguments=arguments, shape=shape, choices=choices))
    made.edges += edges
    return made
