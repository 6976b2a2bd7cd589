"""The backward kernels of a layer, made from its forward ones; embedding and head, shared out over the layers.

Gradients are named after the kernel whose backward pass makes them. For a kernel v with the gradient g of its output:

- a product with weights: ``v_b`` (Wᵀ g, what the kernel before gets) and ``v_u`` (g xᵀ, the weight update's product);
- a product of two activations: ``v_b1`` and ``v_b2``, one for each operand;
- an element-wise kernel: ``v_b``, or ``v_b1``, ``v_b2`` ... where it read several tensors; twice the FLOP in all;
- a sum hands g on. Where gradients of several readers meet, ``v_b`` adds them up.

So products take twice the FLOP of the forward pass. A backward kernel reads the forward tensors that its formula needs,
which stay in DRAM until then, as :mod:`chipmap.instances.saved` has it: operands of products, inputs of element-wise
kernels, of a softmax its output. A dropout's mask is made anew from its seed, as DFModel's backward graph has it.
"""

from __future__ import annotations

from collections.abc import Collection

from chipmap.instances.dataflow.sizes import flop
from chipmap.instances.dataflow.workload import Kernel
from chipmap.instances.dataflow.workloads.layer import SOFTMAX, Layer
from chipmap.instances.saved import saves

Edge = tuple[str, str]

#: Sums: their operands get the gradient as it is.
_SUMS = ("Add_Prev", "Add1", "Add2")
#: How the names of a dense layer's kernels begin, where a layer with experts follows it.
DENSE = "Dense_"
#: Products of two operands: the gradient of one is that of the result times the other one.
_PRODUCTS = ("Combine", "Scale")
#: Gated units x · f(y) of two operands: the gradient of x needs y alone, that of y both.
_GATED = ("SiLU", "Experts_Act", "Shared_Act")
_SOFTMAX = ("Softmax", "Gate", "Logits")
#: Operands of other kernels that get the gradient as it is, and those that get none (a choice has no derivative).
_HANDED_ON: tuple[Edge, ...] = (("Shared_Down", "Combine"),)
_CHOICES: tuple[Edge, ...] = (("Gate", "Dispatch"),)
#: The operators that element-wise kernels are, by how their names begin; others keep what they read.
_OPERATORS = {"Softmax": "softmax", "Gate": "softmax", "Logits": "softmax", "Dropout": "dropout", "Rotary": "rotary"}


def add_ends(layer: Layer, first: Kernel, words: int, layers: int, word_bytes: int, predict: int = 0) -> None:
    """``Embed``, ``Head`` and ``Logits`` (a softmax), an equal part of each in every one of ``layers`` layers.

    ``first`` is the kernel that reads the layer's input. Each of ``predict`` further tokens is embedded and ranked as
    well, with the same parameters; ``MTP_Proj`` makes the input of its layer of both.

    The head's product takes 2 · hidden · words FLOP per token, a token's embedding fetches ``hidden`` words. As a layer
    stands for all, each has one of ``layers`` parts of the table's and the head's rows, rounded up.
    """
    hidden, columns = first.M, layer.tokens * (1 + predict)
    rows, fetched = -(-words // layers), -(-hidden * columns // layers)
    part = {"output_bytes": fetched * word_bytes, "fetch_bytes": fetched * word_bytes, "flop": 0}
    layer.element("Embed", hidden, table_bytes=rows * hidden * word_bytes, **part)
    layer.edges.append(("Embed", first.name))
    if predict:
        layer.linear("MTP_Proj", -(-hidden * predict // layers), 2 * hidden, "Embed")
        layer.edges.append(("MTP_Proj", first.name))
    layer.linear("Head", rows, hidden, "Add2", N=columns)
    layer.element("Logits", rows, "Head", N=columns, statistics=SOFTMAX)


def add_backward(layer: Layer, word_bytes: int, first: str = "Add_Prev") -> Edge:
    """Append the backward kernels of ``layer``, whose forward ones start at ``first`` and end at ``Add2``.

    ``Loss_b`` takes the gradient of the layer's output. Returns the carried gradient's maker and that reader.
    """
    return _Backward(layer, word_bytes).run(first)


class _Backward:
    """Goes through forward kernels from last to first; ``gradients`` are the makers of the gradient of each output."""

    def __init__(self, layer: Layer, word_bytes: int) -> None:
        self.layer, self.word_bytes = layer, word_bytes
        self.made = Layer(layer.tokens, "backward")
        self.kernels = {kernel.name: kernel for kernel in layer.kernels}
        self.gradients: dict[str, list[str]] = {name: [] for name in self.kernels}
        self.operands: dict[str, list[str]] = {name: [] for name in self.kernels}
        for source, name in layer.edges:
            self.operands[name].append(source)

    def run(self, first: str) -> Edge:
        """As :func:`add_backward`."""
        self.made.element("Loss_b", self.kernels["Add2"].M, "Add2")
        self.gradients["Add2"].append("Loss_b")
        for kernel in self._last_first():
            self._kernel(kernel)
        self._name_what_is_added()
        self.layer.kernels += self.made.kernels
        self.layer.edges += self.made.edges
        return self.gradients[first][0], "Loss_b"

    def _last_first(self) -> list[Kernel]:
        """Readers before what they read: as they were added, but the two ends, which stand apart."""
        first, last = ("Patches", "MTP_Proj", "Embed"), ("Logits", "Head")
        inner = [kernel for kernel in reversed(self.layer.kernels) if kernel.name not in (*first, *last)]
        return [self.kernels[name] for name in last if name in self.kernels] + [
            *inner,
            *(self.kernels[name] for name in first if name in self.kernels),
        ]

    def _kernel(self, kernel: Kernel) -> None:
        name, sources = kernel.name, self.gradients[kernel.name]
        apart = _is_sum(name) or kernel.kind == "gemm"
        if len(sources) > 1 and apart:
            total = f"{name}_b" if _is_sum(name) else f"{name}_sum"
            self._like(kernel, total, sources, flop=(len(sources) - 1) * _elements(kernel))
            self.gradients[name] = [total]
        if name == "Embed":
            self._table(kernel)
        elif kernel.weights:
            self._linear(kernel)
        elif kernel.kind == "gemm":
            self._product(kernel)
        else:
            self._element(kernel)

    def _like(self, kernel: Kernel, name: str, reads: Collection[str], **fields: int | None) -> None:
        """An element-wise kernel that makes as much as ``kernel``."""
        sizes = {"outer": kernel.outer, "N": kernel.N, "output_bytes": kernel.output_bytes}
        self.made.element(name, kernel.M, *dict.fromkeys(reads), **{**sizes, **fields})

    def _name_what_is_added(self) -> None:
        """State of each kernel which products with parameters it alone reads and adds up, two or more."""
        readers: dict[str, list[str]] = {}
        for maker, reader in self.made.edges:
            readers.setdefault(maker, []).append(reader)
        added: dict[str, list[str]] = {}
        for kernel in self.made.kernels:
            if kernel.weights and len(found := readers.get(kernel.name, [])) == 1:
                added.setdefault(found[0], []).append(kernel.name)
        self.made.kernels = [
            kernel.replace(adds=makers) if len(makers := added.get(kernel.name, [])) > 1 else kernel
            for kernel in self.made.kernels
        ]

    def _linear(self, kernel: Kernel) -> None:
        """Wᵀ g for what the kernel read, g xᵀ for its weights."""
        name, rows, read = kernel.name, kernel.outer * kernel.M, self.operands[kernel.name]
        sources, routed = self.gradients[name], {"experts": kernel.experts, "active": kernel.active}
        weights = kernel.weight_bytes
        part = {"output_bytes": self._head_part(kernel)} if name == "Head" else {}
        same = {"N": kernel.N, "weight_bytes": weights, **routed, **part}
        if read:  # an image needs no gradient
            heads = self.kernels[read[0]].outer
            heads = heads if heads > 1 and kernel.K % heads == 0 else 0
            self.made.linear(f"{name}_b", kernel.K, rows, *sources, **same, heads=heads, parameters_of=name)
            self.gradients[read[0]].append(f"{name}_b")
        fields = {"N": kernel.K, "update": True, "output_bytes": weights, "parameters_of": name}
        operand = read[0] if read and read[0] not in sources else ""
        self.made.gemm(f"{name}_u", rows, kernel.N, *sources, *read, **fields, operand=operand)

    def _head_part(self, head: Kernel) -> int:
        """Bytes of the gradient that an equal part of the head leaves, an equal part of one: as much as is embedded, or
        as many rows as the part of the patches' embedding has."""
        if "Embed" in self.kernels:
            return self.kernels["Embed"].output_bytes or 0
        return self.kernels["Patches"].M * head.N * self.word_bytes

    def _product(self, kernel: Kernel) -> None:
        """The gradients of the K x N operand, which is read first, and of the (outer · M) x K one."""
        name, sources = kernel.name, self.gradients[kernel.name]
        second, *first = self.operands[name]
        self.made.gemm(f"{name}_b1", kernel.K, kernel.M, *sources, *first, outer=kernel.outer, N=kernel.N)
        self.gradients[second].append(f"{name}_b1")
        # tokens stay columns: the operand lies transposed where the product reads tokens as its rows
        rows, columns = (kernel.K, kernel.M) if self.layer.tokens == kernel.M else (kernel.M, kernel.K)
        maker = self.kernels[first[0]]
        # several query heads share a key head: what is left is the sum over them
        shared = {"output_bytes": maker.outer * rows * columns * self.word_bytes, "heads": maker.outer}
        shared = shared if maker.outer < kernel.outer else {}
        reads = (*sources, second)
        self.made.gemm(f"{name}_b2", rows, kernel.N, *reads, outer=kernel.outer, N=columns, **shared)
        for one in first:
            self.gradients[one].append(f"{name}_b2")

    def _element(self, kernel: Kernel) -> None:
        """The gradients of what the kernel read, each of its own."""
        name, sources = kernel.name, self.gradients[kernel.name]
        apart = []
        for read in self.operands[name]:
            if _is_sum(name) or (read, name) in _HANDED_ON:
                self.gradients[read] += sources
            elif (read, name) not in _CHOICES:
                apart.append(read)
        needs = self._kept(kernel, apart)
        # handing out copies is no work, adding up their gradients is
        work = 2 * flop(kernel) // max(len(apart), 1) or _elements(kernel)
        for i, read in enumerate(apart, start=1):
            own = f"{name}_b{i if len(apart) > 1 else ''}"
            linear = _is_product(name) or (_is_gated(name) and len(apart) == 2 and i == 1)
            reads = [u for u in needs if u != read] if linear else needs
            statistics = self._statistics(kernel, i, bool(sources))
            self._like(self.kernels[read], own, (*sources, *reads), flop=work, statistics=statistics)
            self.gradients[read].append(own)

    def _statistics(self, kernel: Kernel, which: int, given: bool) -> int:
        """Sums over rows of a column in the derivative by the operand ``which``: of a norm its statistics again and as
        many of the gradient, of a softmax (which is kept) one of the gradient that is ``given``; of the weights of
        copies of tokens one for each copy."""
        plain = kernel.name.removeprefix(DENSE)
        if plain == "Combine":
            return max(one.active for one in self.kernels.values()) if which == 2 else 0
        if plain.startswith(_SOFTMAX):
            return int(given)
        return 2 * kernel.statistics if which == 1 else 0

    def _kept(self, kernel: Kernel, apart: list[str]) -> list[str]:
        """The forward kernels whose outputs a derivative needs, where those it reads ``apart`` have a gradient."""
        if flop(kernel) == 0:
            return []
        plain = kernel.name.removeprefix(DENSE)
        what = saves(next((kind for start, kind in _OPERATORS.items() if plain.startswith(start)), ""))
        operands = [] if what.operands in ("none", "indices") else apart
        return [*operands, kernel.name] if what.result else operands

    def _table(self, kernel: Kernel) -> None:
        """The gradient of the embedded rows, added to that of the table."""
        table, sources = kernel.table_bytes, self.gradients["Embed"]
        added = len(sources) * (kernel.output_bytes or 0) // self.word_bytes
        fields = {"flop": added, "output_bytes": table, "weight_bytes": 0, "schemes": ("M", "NONE")}
        self.made.add("Embed_u", "opaque", 1, *sources, update=True, parameters_of="Embed", **fields)


def _is_sum(name: str) -> bool:
    return name.removeprefix(DENSE) in _SUMS


def _is_product(name: str) -> bool:
    return name.removeprefix(DENSE).startswith(_PRODUCTS)


def _is_gated(name: str) -> bool:
    return name.removeprefix(DENSE).startswith(_GATED)


def _elements(kernel: Kernel) -> int:
    return kernel.outer * kernel.M * kernel.N
