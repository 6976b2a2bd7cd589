"""The paper's two passes as instances of the family: the inter-chip pass (section IV) alone.

What it leaves to choose is the intra-chip pass (section V): the models with the choice ``given``. The family's own
problem is both at once.
"""

from __future__ import annotations

from chipmap.instances.dataflow.instance import DataflowInstance

#: SRAM in bytes and DRAM in bytes per nanosecond that no partition ever waits for.
ENOUGH_BYTES, ENOUGH_RATE = 10**15, 1e12


def inter_chip(instance: DataflowInstance) -> DataflowInstance:
    """``instance`` as the inter-chip pass sees it: sharding and stages, but nothing of what is inside a chip.

    One partition per stage (per phase, where stages are layers) on a chip whose SRAM holds it, and whose DRAM takes
    next to no time (a picosecond for each tensor and weight, as all times are rounded up) and has no limit. Partitions
    start at once. A stage takes max(Σ compute, Σ collectives and changes of layout), and a step the longest stage or
    transfer: equation 7. Without a utilisation compute reaches the peak. Kernels that are pinned together aren't: that
    is inside a chip. So is which of some kernels are recomputed: all are, or none.
    """
    task, system = instance.task, instance.system
    return instance.replace(
        name=f"{instance.name} (inter-chip)",
        task=task.replace(
            partitions=1,
            exactly=False,
            fused=True,
            together=(),
            pins=(),
            forbidden=(),
            apart=(),
            recompute=task.recompute if task.recompute in (True, "full") else False,
            utilisation=1.0 if task.utilisation is None else task.utilisation,
        ),
        system=system.replace(
            chip=system.chip.replace(sram_bytes=ENOUGH_BYTES, fused=True, launch_ns=0.0),
            memory=system.memory.replace(bytes_per_ns=ENOUGH_RATE, efficiency=1.0, capacity_bytes=None),
        ),
    )
