"""Kernels of a layer, one after the other, with what they read; the types of the generators' parameters."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from chipmap.instances.dataflow.workload import Kernel, KernelKind, Phase

#: Length of a dimension; how often a layer repeats; bytes of a number.
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Repeats = Annotated[int, Meta(ge=1, le=10_000)]
WordBytes = Annotated[int, Meta(ge=1, le=64)]
#: Sums over a column's rows: of a norm by the root of the mean square, of one that takes off the mean as well, and of a
#: softmax (its largest number, and the sum of all).
RMS_NORM, LAYER_NORM, SOFTMAX = 1, 2, 2


class Layer:
    """Collects kernels over ``tokens`` columns (where their fields don't say otherwise), and their edges.

    Names start with ``prefix``, while it is set, those that kernels read as well.
    """

    def __init__(self, tokens: int, phase: Phase = "forward") -> None:
        self.tokens, self.phase = tokens, phase
        self.kernels: list[Kernel] = []
        self.edges: list[tuple[str, str]] = []
        self.prefix = ""

    def add(self, name: str, kind: KernelKind, rows: int, *reads: str, **fields: Any) -> None:
        """Append a kernel that reads what the kernels ``reads`` make."""
        name, fields = self.prefix + name, {"N": self.tokens, "phase": self.phase, **fields}
        self.kernels.append(Kernel(name=name, kind=kind, M=rows, **fields))
        self.edges += [(self.prefix + source, name) for source in reads]

    def element(self, name: str, rows: int, *reads: str, **fields: Any) -> None:
        """An element-wise kernel over ``rows`` of each token."""
        self.add(name, "elementwise", rows, *reads, **fields)

    def gemm(self, name: str, rows: int, inner: int, *reads: str, **fields: Any) -> None:
        """A gemm of two activations."""
        self.add(name, "gemm", rows, *reads, K=inner, **fields)

    def linear(self, name: str, rows: int, inner: int, *reads: str, **fields: Any) -> None:
        """A gemm with outer · rows × inner weights."""
        self.gemm(name, rows, inner, *reads, weights=True, **fields)
