"""High Performance LINPACK as kernels: the updates of a blocked LU decomposition, one after the other."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from msgspec import Meta

from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.instances.dataflow.workloads.layer import WordBytes
from chipmap.records import InputError, counted


def hpl_network(
    n: Annotated[int, Meta(ge=1, le=100_000_000)] = 5_242_880,
    block: Annotated[int, Meta(ge=1, le=1_000_000)] = 2048,
    kernels: Annotated[int, Meta(ge=1, le=10_000)] = 64,
    steps: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None,
    samples: Annotated[int, Meta(ge=1, le=10_000_000)] = 1024,
    grid: Annotated[int, Meta(ge=1, le=100_000)] = 32,
    word_bytes: WordBytes = 2,
) -> Workload:
    """LU of an n x n matrix in steps of ``block`` columns, as a chain of ``kernels`` that stand for equally many steps.

    A step with ``side`` rows left takes 2 · side² · block FLOP and hands on a panel of side · block words: each chip of
    a row of the process grid gets 1/``grid`` of it by a broadcast, and keeps it. The work is cut into ``samples`` equal
    parts: set the task's batch to them. ``steps``: only the first ones. Source: DFModel, section VI-C (5 million
    squared) and its published input (the first 64 steps of n = 2^20); the process grid is that of the HPL benchmark.
    """
    if n % block or not 1 <= (taken := steps or n // block) <= n // block or taken % kernels:
        parts = counted(kernels, "equal part")
        words = f"{n} / {block} = {n / block:g} steps ({steps or 'all'} of them) are not {parts}"
        raise InputError(words, "kernels", "Give a block that divides n, and a divisor of the number of steps.")
    each = taken // kernels
    chain = []
    for k in range(kernels):
        sides = [n - i * block for i in range(k * each, (k + 1) * each)]
        panel = -(-sum(side * block * word_bytes for side in sides) * grid // samples)
        chain.append(
            Kernel(
                name=f"Update_{k + 1}",
                kind="opaque",
                flop=-(-sum(2 * side * side * block for side in sides) // samples),
                output_bytes=panel,
                weight_bytes=0,
                schemes=("M",),
                exchange="broadcast",
                exchange_bytes=panel,
            )
        )
    names = [kernel.name for kernel in chain]
    return Workload(
        name=f"hpl-{n}",
        kernels=tuple(chain),
        edges=tuple(pairwise(names)),
        word_bytes=word_bytes,
        tokens=block,
        counted="samples",
    )
