"""What of a kernel one chip has under a sharding scheme (``docs/families/dataflow.md``, "What a chip has")."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from chipmap.instances.dataflow.instance import CostMode
from chipmap.instances.dataflow.workload import Kernel, Scheme


class Parts(NamedTuple):
    """The shares of a kernel on one of the chips that run it: of its FLOP, of the parameters that schemes divide
    (tables too), and of what it fetches."""

    work: Fraction
    weights: Fraction
    fetch: Fraction


def splits_tokens(kernel: Kernel, scheme: Scheme, mode: CostMode) -> bool:
    """Whether a scheme splits tokens, for which every chip needs all parameters: N in mode ``physical``.

    The columns of a weight update are no tokens. The published model divides the weights all the same.
    """
    return scheme == "N" and mode == "physical" and not kernel.update


def parts(kernel: Kernel, scheme: Scheme, mode: CostMode, chips: int) -> Parts:
    """The shares of ``kernel`` on each of ``chips`` chips; all of it under NONE.

    Where tokens are split, a chip has all parameters. A gemm fetches its (outer · M) × K operand, of which every column
    needs all; others fetch rows for their own tokens.
    """
    share = Fraction(1, 1 if scheme == "NONE" else chips)
    if splits_tokens(kernel, scheme, mode):
        return Parts(work=share, weights=Fraction(1), fetch=Fraction(1) if kernel.kind == "gemm" else share)
    return Parts(work=share, weights=share, fetch=share)
