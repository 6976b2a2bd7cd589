"""Typical profiles of shipped machines: measured costs and shares that no data sheet has.

Each is fitted to every other row of published static batches (``benchmarks/dataflow_static_batches.py``, which says how
far the other rows are off). ``docs/families/dataflow-machines.md``, "Typical profiles".
"""

from __future__ import annotations

from typing import NamedTuple

from chipmap.instances.dataflow.system import System

#: What stands behind the name of a machine that has its typical profile.
TYPICAL = "-typical"


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
}
