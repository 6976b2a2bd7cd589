"""Typical profiles, fitted to the half of the published static batches that may be fitted, of both machines together.

``python benchmarks/dataflow_static_batches.py --fit`` prints them (three seconds). Two numbers are common to both
machines, as the same code ran there: the share of its vector peak that attention with a KV cache reaches (these
versions compute it there, query head by query head), and the latency of a step of a collective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.dataflow_static_batches import FORMATS, MACHINES, Row, halves, step
from chipmap.instances.dataflow.machines import machine
from chipmap.instances.dataflow.profiles import Profile
from chipmap.instances.dataflow.system import System
from chipmap.validation.dataflow.checker import breakdown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

#: Where the fit begins, and what it stays near where rows don't tell: shares of products, attention, DRAM, its part for
#: caches, links; nanoseconds of a launch, a start, a micro-batch.
SHARES, TIMES = (0.6, 0.3, 0.85, 0.8, 0.5), (4e3, 1e4, 3e5)
#: The same of both machines: a share of the vector peak, and the latency of a step on NVLink. The latter is NCCL's own
#: estimate of a ring with its protocol LL128 (src/graph/tuning.cc, 1.9 us).
VECTOR, LATENCY = 0.12, 1.9e3
#: Weight of a number's distance from where the fit begins; a share that tells what is fetched.
NEAR, HALF = 0.1, ((0.0, 0.5),)
PRODUCTS = ("QKV", "Proj", "FFN0", "FFN1", "Sum1", "Sum2")


class Pass(NamedTuple):
    """Nanoseconds of each kernel of a pass at the data sheet's peaks and rates: compute, DRAM but for caches, caches,
    network; steps of its collective. ``kind``: product, attention, attention with a cache, element-wise. How often
    the pass runs, and layers."""

    runs: float
    layers: int
    kind: NDArray[np.int64]
    compute: Vector
    memory: Vector
    fetch: Vector
    network: Vector
    steps: Vector


def passes(row: Row) -> list[Pass]:
    """The prefill, and decode steps with the first, middle and last context by Simpson's rule."""
    found = [_pass(row, 1.0, row.prompt, 0)]
    if row.output > 1:
        last, weight = row.prompt + row.output - 1, (row.output - 1) / 6
        for times, context in ((1, row.prompt), (4, (row.prompt + last) // 2), (1, last)):
            found.append(_pass(row, times * weight, 1, context))
    return found


def _pass(row: Row, runs: float, tokens: int, context: int) -> Pass:
    instance, mapping = step(row.machine, row.model, row.tensor, row.batch, tokens, context)
    sheet = machine(MACHINES[row.machine], (row.tensor,))

    def parts(system: System) -> Vector:
        each = breakdown(instance.replace(system=system), mapping)
        return np.array([each[p] for p in sorted(each)], dtype=float) / 1e3

    plain = parts(sheet)
    fetch = parts(sheet.replace(memory=sheet.memory.replace(fetch_efficiency={"": HALF})))[:, 1] - plain[:, 1]
    late = [one.replace(latency_ns=1e6) for one in sheet.network]
    steps = (parts(sheet.replace(network=late))[:, 2] - plain[:, 2]) / 1e6
    names = [kernel.name for kernel in instance.workload.kernels]
    kind = np.array([0 if n in PRODUCTS else 1 + (context > 0) if n == "Attend" else 3 for n in names])
    return Pass(runs, instance.workload.layers, kind, plain[:, 0], plain[:, 1] - fetch, fetch, plain[:, 2], steps)


def ratio(row: Row, each: list[Pass], by: Profile) -> float:
    """How many times as fast as measured a row is by a profile."""
    whole = 0.0
    for one in each:
        compute = one.compute / np.array([by.products, by.attention, by.cached, 1.0])[one.kind]
        memory = (one.memory + one.fetch / by.fetch) / by.memory
        collective = one.network / by.links + one.steps * by.latency_ns + by.start_ns
        network = np.where(one.network > 0, collective, 0.0)
        longest = np.maximum(np.maximum(compute, memory), network)
        whole += one.runs * (one.layers * float((by.launch_ns + longest).sum()) + by.step_ns)
    if row.output == 1:
        return row.measured / (whole / 1e6)
    return row.batch * row.output / (whole / 1e9) / row.tensor / row.measured


def profiles(x: Vector, digits: int = 3) -> dict[str, Profile]:
    """What a vector of distances stands for: shares move in their log odds, times in their logarithm; eight numbers of
    each machine, then the two common ones; so many significant digits."""

    def share(start: float, by: float) -> float:
        return float(1 / (1 + (1 / start - 1) * np.exp(-by)))

    vector, latency = share(VECTOR, x[-2]), LATENCY * float(np.exp(x[-1]))
    found = {}
    for i, name in enumerate(MACHINES):
        mine = x[8 * i : 8 * i + 8]
        products, attention, memory, fetch, links = (share(*one) for one in zip(SHARES, mine[:5], strict=True))
        launch, start, late = (one * float(np.exp(by)) for one, by in zip(TIMES, mine[5:], strict=True))
        chip = machine(MACHINES[name]).chip
        assert chip.vector_tflops is not None
        cached = vector * chip.vector_tflops / chip.peaks[FORMATS[name]]  # type: ignore[index]
        every = (products, attention, cached, memory, fetch, links, launch, start, late, latency)
        found[name] = Profile(*(float(f"{one:.{digits}g}") for one in every))
    return found


def fitted() -> dict[str, Profile]:
    """The profiles with the least squares of log(predicted / measured) over the halves to fit, and a hundredth of those
    of each number's distance from where it began."""
    from scipy.optimize import least_squares

    known = {row: passes(row) for name in MACHINES for row in halves(name)[0]}

    def errors(x: Vector) -> Vector:
        by = profiles(x, 15)
        return np.array([*(np.log(ratio(row, each, by[row.machine])) for row, each in known.items()), *(NEAR * x)])

    best: Any = least_squares(errors, np.zeros(8 * len(MACHINES) + 2), diff_step=1e-3, max_nfev=200)
    return profiles(best.x)
