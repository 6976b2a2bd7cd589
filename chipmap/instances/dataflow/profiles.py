"""Profiles of shipped machines: measured costs and shares that no data sheet has.

A typical one is fitted to every other row of published static batches (``benchmarks/dataflow_static_batches.py``, which
says how far the other rows are off), or to one of two published models (``benchmarks/dataflow_palm.py``); a calibrated
one to kernels of one card (``benchmarks/calibrated_machines.py``).
``docs/families/dataflow-machines.md``, "Typical profiles" and "Calibrated machines".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chipmap.instances.dataflow.system import System

Lines = tuple[tuple[float, float], ...]


class Profile(NamedTuple):
    """Shares of the peak that products with weights, attention without and with a KV cache reach; of DRAM's rate, of
    that for KV caches, and of a link's rate; nanoseconds of a launch, of a collective's start, of a micro-batch, and
    of a collective's step."""

    products: float
    attention: float
    cached: float
    memory: float
    fetch: float
    links: float
    launch_ns: float
    start_ns: float
    step_ns: float
    latency_ns: float

    def on(self, system: System) -> System:
        """``system`` with these costs and shares."""
        lists = {name: ((0.0, getattr(self, name)),) for name in ("products", "attention", "cached", "fetch")}
        named = {"efficiency": "products", "attention": "attention", "attention_cached": "cached"}
        chip = system.chip.replace(launch_ns=self.launch_ns, **{field: lists[one] for field, one in named.items()})
        memory = system.memory.replace(efficiency=self.memory, fetch_efficiency={"": lists["fetch"]})
        links = {"efficiency": self.links, "start_ns": self.start_ns, "latency_ns": self.latency_ns}
        network = [one.replace(**links) for one in system.network]
        return system.replace(chip=chip, memory=memory, network=network, step_ns=self.step_ns)


#: Profiles by the name of their machine.
PROFILES = {
    "h100-sxm": Profile(0.64, 0.347, 0.0047, 0.943, 0.935, 0.153, 15_400.0, 8_580.0, 511_000.0, 2_100.0),
    "a100-80gb": Profile(0.806, 0.317, 0.00868, 0.926, 0.921, 0.627, 22_500.0, 8_640.0, 343_000.0, 2_100.0),
    "tpu-v4": Profile(0.492, 0.3, 0.3, 0.858, 1.0, 0.547, 2_930.0, 5_020.0, 285_000.0, 1_000.0),
}


class Curves(NamedTuple):
    """Nanoseconds of a launch, the share of DRAM's rate, and lines of shares: of products and of attention by FLOP, of
    what is read from KV caches by bytes. Nothing of links, and no cost of a step."""

    launch_ns: float
    memory: float
    products: Lines
    attention: Lines
    fetch: Lines

    def on(self, system: System) -> System:
        """``system`` with these costs and shares."""
        curves = {"efficiency": self.products, "attention": self.attention, "attention_cached": self.attention}
        memory = system.memory.replace(efficiency=self.memory, fetch_efficiency={"": self.fetch})
        return system.replace(chip=system.chip.replace(launch_ns=self.launch_ns, **curves), memory=memory)


#: Machines calibrated from the kernels of one card, in bf16.
CALIBRATED = {
    "h100-sxm": Curves(
        3_390.0,
        0.8678,
        (
            (0.0, 0.4131),
            (10000000.0, 0.4462),
            (100000000.0, 0.4797),
            (1000000000.0, 0.5545),
            (10000000000.0, 0.7698),
            (100000000000.0, 0.7757),
        ),
        ((0.0, 0.2323), (10000000000.0, 0.4409), (100000000000.0, 0.5605), (1000000000000.0, 0.5682)),
        ((0.0, 0.4611), (10000000.0, 0.8611), (100000000.0, 0.9996), (1000000000.0, 1.0)),
    ),
    "h200": Curves(
        3_895.0,
        0.8903,
        ((0.0, 0.6084), (10000000.0, 0.6371), (100000000.0, 0.6649), (10000000000.0, 0.775), (100000000000.0, 0.7803)),
        ((0.0, 0.2394), (10000000000.0, 0.4412), (100000000000.0, 0.5643), (1000000000000.0, 0.5762)),
        ((0.0, 0.3768), (10000000.0, 0.8019), (100000000.0, 0.9994), (1000000000.0, 1.0)),
    ),
}
#: What stands behind the name of a machine that has such a profile, and those that have one.
ENDINGS: dict[str, Mapping[str, Profile | Curves]] = {"-typical": PROFILES, "-calibrated": CALIBRATED}
#: All names of machines with a profile: the machine's own name, and the profile.
PROFILED: dict[str, tuple[str, Profile | Curves]] = {
    f"{name}{ending}": (name, one) for ending, known in ENDINGS.items() for name, one in known.items()
}
