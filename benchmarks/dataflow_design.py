"""Tiles by the cycle formula, and which chip of the same price or power would run GPT3 1T fastest.

The first table solves GPT3 175B on eight SN10 with the kernels sharing tiles, for tiles of 1 to 256 tokens. The second
balances tiles, DRAM and links of an SN30 for GPT3 1T on 1,024 of them within the price or the power of the real one,
rounds the chip down to whole tiles and solves the mapping again for it, in turn until that gains nothing.

    python benchmarks/dataflow_design.py
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOKENS = (1, 6, 12, 24, 48, 96, 192)
ROUNDS = 6


def solved(instance: Any) -> Any:
    """The result of the exact program, which must be a proved optimum."""
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1))
    assert result.status == "optimal" and result.certificate is not None, result.status
    return result


def tiles_table() -> None:
    """Print how long the batch takes by the tokens that stream at a time."""
    from chipmap.inputs.reading import read

    print("| tokens at a time | batch | share of the peak while computing | of the whole time | partitions |")
    print("|--:|--:|--:|--:|--:|")
    given = solved(read("dataflow/table6-free-8x1"))
    print(f"| utilisation 0.9 given | {given.objective / 1e12:,.3f} s | 90.0 % |", end=" ")
    print(f"{given.certificate.figures['utilisation']:.1%} | {given.certificate.figures['partitions']:.0f} |")
    base: Any = read("dataflow/gpt3-175b-tiles-8x1")
    for tokens in TOKENS:
        figures = (result := solved(base.replace(task=base.task.replace(tile_tokens=tokens)))).certificate.figures
        print(f"| {tokens} | {result.objective / 1e12:,.3f} s | {figures['compute_utilisation']:.1%} |", end=" ")
        print(f"{figures['utilisation']:.1%} | {figures['partitions']:.0f} |")


def on_chip(instance: Any, tiles: int, memory: float, link: float) -> Any:
    """``instance`` with so many tiles and such rates."""
    system = instance.system
    network = tuple(
        dimension.replace(bytes_per_ns=link) if use == "tensor" else dimension
        for dimension, use in zip(system.network, instance.task.degrees.dimensions, strict=True)
    )
    chip, dram = system.chip.replace(tiles=tiles), system.memory.replace(bytes_per_ns=memory)
    return instance.replace(system=system.replace(chip=chip, memory=dram, network=network))


def spent(rates: Any, design: Any, links: float) -> float:
    """What a chip of ``design`` with so many links costs, in the unit of ``rates``."""
    return rates.tile * design.tiles + rates.memory * design.memory_gbps + rates.link * links * design.link_gbps


def design_table() -> None:
    """Print the real chip and balanced ones of its price and power."""
    from chipmap.formulations.dataflow.relaxation import Design, Rates, balanced, tensor_links
    from chipmap.inputs.reading import read
    from chipmap.instances.dataflow import DataflowSolution
    from chipmap.instances.dataflow.systems import CHIPS, LINKS, MEMORIES

    chip, ddr, (_, link_usd, link_watts) = CHIPS["sn30"], MEMORIES["ddr"], LINKS["pcie"]
    dollars = Rates(tile=chip.price_usd / chip.tiles, memory=ddr.usd_per_gbps, link=link_usd)
    watts = Rates(tile=chip.watts / chip.tiles, memory=ddr.watts_per_gbps, link=link_watts)
    print("| sharding | chip | tiles | DRAM GB/s | link GB/s | price | power | batch | gain |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    published: Any = read("dataflow/gpt3-1t-sn30-1024")
    free = published.replace(task=published.task.replace(schemes={}))
    for words, real in (("published", published), ("free", free)):
        first = solved(real)
        mapping = DataflowSolution.make(**first.solution)
        links = tensor_links(real, mapping)

        def row(name: str, design: Design, base: float, words: str = words, links: float = links) -> None:
            costs = f"${spent(dollars, design, links):,.0f} | {spent(watts, design, links):.1f} W"
            rates = f"{design.memory_gbps:.1f} | {design.link_gbps:.1f}"
            gain = f"{base / design.seconds:.3f}"
            print(f"| {words} | {name} | {design.tiles:,.0f} | {rates} | {costs} | {design.seconds:.3f} s | {gain} |")

        now = Design(tiles=chip.tiles, memory_gbps=300.0, link_gbps=50.0, seconds=first.objective / 1e12)
        row("real", now, now.seconds)
        budgets = {
            "same price": [(dollars, spent(dollars, now, links))],
            "same power": [(watts, spent(watts, now, links))],
            "neither more": [(dollars, spent(dollars, now, links)), (watts, spent(watts, now, links))],
        }
        for name, limits in budgets.items():
            best, instance, solution = now, real, mapping
            for _ in range(ROUNDS):
                design = balanced(instance, solution, limits)
                instance = on_chip(real, int(design.tiles), design.memory_gbps, design.link_gbps)
                result = solved(instance)
                solution = DataflowSolution.make(**result.solution)
                if result.objective / 1e12 >= best.seconds * (1 - 1e-4):
                    break
                rates = {"memory_gbps": design.memory_gbps, "link_gbps": design.link_gbps}
                best = Design(tiles=int(design.tiles), seconds=result.objective / 1e12, **rates)
            row(name, best, now.seconds)


def main() -> int:
    """Print both tables."""
    sys.path.insert(0, str(ROOT))
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores\n")
    tiles_table()
    print()
    design_table()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
