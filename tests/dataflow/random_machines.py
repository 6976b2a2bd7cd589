"""Random machines under an instance: peaks by format, vector units, shares of peaks and rates, launches, switches that
reduce, and workloads that name number formats."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.formats import Format
from tests.dataflow.random_instances import with_little_dram

FORMATS: tuple[Format, ...] = ("", "", "fp16", "fp8", "fp4")
#: Lines of a table of shares by FLOP; kernels of the random instances have some 10⁵ to 10⁸ of them.
SHARES = ((0.0, 0.25), (10**6, 0.5), (3 * 10**7, 0.9))

#: Blocks of products; those of the random instances have a few to some hundred rows and columns.
BLOCKS = ((64, 16, 0.9), (8, 4, 0.55))


def on_machine(instance: DataflowInstance, random: Random, dram: bool = True) -> DataflowInstance:
    """``instance`` with some of these; where DRAM is limited and ``dram``, limited anew."""
    formats: dict[str, Format] = {
        f"{what}_format": random.choice(FORMATS) for what in ("weight", "activation", "cache")
    }
    chip: dict[str, Any] = {"launch_ns": random.choice((0.0, 0.3, 700.0, 5000.0)), "streams": random.random() < 0.2}
    if instance.task.utilisation is not None:
        if random.random() < 0.7:
            chip |= {"tiles": 0, "lanes": 0, "stages": 0, "ghz": 0.0, "tflops": random.choice((1.5, 300.0))}
        if random.random() < 0.5:
            chip |= {"vector_tflops": random.choice((0.1, 30.0))}
        if random.random() < 0.6:
            chip |= {"peaks": {"fp16": 200.0, "fp8": 401.0, "fp4": 2.5}}
        if random.random() < 0.6:
            chip |= {"efficiency": random.choice((SHARES, SHARES[1:], SHARES[:1]))}
    system, physical = instance.system, instance.mode == "physical"
    network = [
        one.replace(reduces=physical and one.topology == "switch" and random.random() < 0.7) for one in system.network
    ]
    memory = system.memory.replace(efficiency=random.choice((1.0, 0.83, 0.5)))
    made = instance.replace(
        workload=instance.workload.replace(**formats),
        system=system.replace(chip=system.chip.replace(**chip), memory=memory, network=network),
    )
    made.check()
    return with_little_dram(made, random) if dram and memory.capacity_bytes is not None else made


#: Lines of shares by bytes of a KV cache, by format.
CACHE_SHARES: dict[Format, tuple[tuple[float, float], ...]] = {
    "": ((0.0, 0.3), (2000.0, 0.55)), "fp8": ((0.0, 0.1), (500.0, 0.2), (10**5, 1.0)),
}  # fmt: skip


def with_fixed_costs(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """``instance`` on a machine with costs per collective and micro-batch, and shares of attention of their own."""
    system, share = instance.system, instance.task.utilisation is not None
    chip: dict[str, Any] = dict.fromkeys(("attention", "attention_cached"), ()) if share else {}
    chip = {name: SHARES[: random.randint(0, 2)] for name in chip}
    network = [
        one.replace(start_ns=random.choice((0.0, 70.0, 2500.0)), efficiency=random.choice((1.0, 0.7)))
        for one in system.network
    ]
    layered = instance.task.stages == "layers"
    made = instance.replace(
        system=system.replace(
            chip=system.chip.replace(**chip),
            memory=system.memory.replace(fetch_efficiency=random.choice(({}, CACHE_SHARES))),
            network=network,
            step_ns=random.choice((0.0, 0.7, 9000.0)) if layered else 0.0,
        )
    )
    made.check()
    return made


def in_blocks(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """``instance``, whose chips have a peak in TFLOP/s, with products in blocks instead of shares by FLOP."""
    chip = instance.system.chip
    blocks: dict[str, Any] = {"units": random.choice((1, 3, 108)), "blocks": random.choice((BLOCKS, BLOCKS[:1]))}
    speed: dict[str, Any] = {"tiles": 0, "lanes": 0, "stages": 0, "ghz": 0.0, "tflops": chip.tflops or 1.5}
    own = chip.replace(efficiency=(), block_start=random.choice((0, 7)), **blocks, **speed)
    made = instance.replace(
        task=instance.task.replace(utilisation=instance.task.utilisation or 0.75),
        system=instance.system.replace(chip=own),
    )
    made.check()
    return made
