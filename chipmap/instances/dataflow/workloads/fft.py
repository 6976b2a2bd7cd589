"""A large one-dimensional FFT as kernels: two passes over the points as a square, with an all-to-all between."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta

from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.instances.dataflow.workloads.layer import WordBytes
from chipmap.records import InputError, counted


def fft_network(
    log2_points: Annotated[int, Meta(ge=2, le=60)] = 40,
    radix: Annotated[int, Meta(ge=2, le=4096)] = 32,
    samples: Annotated[int, Meta(ge=1, le=10_000_000)] = 1024,
    word_bytes: WordBytes = 2,
) -> Workload:
    """An FFT of 2^log2_points points, the square of ``side``: FFTs of its columns, an all-to-all, FFTs of its rows.

    A pass is made of small dense transforms: 2 · points · (4 · radix · log_radix(side)) FLOP. Its columns are cut into
    ``samples`` equal parts: set the task's batch to them. Source: DFModel, section VI-C (10^12 points) and its
    published input (radix 32, points of 2 bytes).
    """
    if log2_points % 2 or (1 << log2_points) % samples:
        words = f"2^{log2_points} points are not {counted(samples, 'equal part')} of a square"
        raise InputError(words, "log2_points", "Give an even number, and samples that divide the points.")
    side, points = 1 << log2_points // 2, (1 << log2_points) // samples
    inner = int(4 * radix * (log2_points // 2) / math.log2(radix))

    def step(name: str) -> Kernel:
        """A pass; its kernels' weights are radix x radix, which is nothing."""
        return Kernel(
            name=name,
            kind="opaque",
            flop=2 * points * inner,
            output_bytes=points * word_bytes,
            weight_bytes=0,
            schemes=("M",),
        )

    second = step("Rows").replace(exchange="all_to_all", exchange_bytes=points * word_bytes)
    return Workload(
        name=f"fft-2e{log2_points}",
        kernels=(step("Columns"), second),
        edges=(("Columns", "Rows"),),
        word_bytes=word_bytes,
        tokens=max(1, side // samples),
        counted="samples",
    )
