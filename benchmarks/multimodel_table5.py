"""SCAR's table V (scenarios 6 to 10, EDP search, whole batches): the published figures beside ours.

Latency and EDP are relative to those of NVDLA-like chiplets with each model on one of them, as in the paper. Of ours:
SCAR's search with its four splits, the best of none to four splits, and on the two mixed modules `multimodel/auto`
within ``--seconds`` each, with its gap.

    python benchmarks/multimodel_table5.py [--seconds 60] [--scenarios 6,7,8,9,10] [--explain]

``--explain`` prints two other readings instead, which account for most of the large differences: ShiDianNao-like
chiplets write half as many partial sums; and in Algorithm 1 a layer longer than a window may begin one.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
#: Strategy -> (pattern of the module, our method, published relative latencies and EDPs of scenarios 6 to 10).
STRATEGIES: dict[str, tuple[str, str, str, str]] = {
    "Stand.(Shi)": ("second", "standalone", "1.7 1.7 .96 .36 1.24", "2.32 2.26 1.22 .45 1.71"),
    "Stand.(NVD)": ("first", "standalone", "1 1 1 1 1", "1 1 1 1 1"),
    "Simba(Shi)": ("second", "simba", "1.72 1.75 .97 .36 1.28", "2.36 2.33 1.24 .47 1.78"),
    "Simba(NVD)": ("first", "simba", "1.01 1 .99 1.07 1", "1.01 1.01 1 1.08 1.02"),
    "Het-CB": ("checkerboard", "scar", "1.01 1.03 .78 .4 .77", "1.09 1.09 .83 .43 .82"),
    "Het-Sides": ("sides", "scar", "1 .99 .78 .41 .75", "1.05 1.03 .83 .45 .79"),
}
#: Differences above this are marked.
LARGE = 0.1


class Found(NamedTuple):
    """T1 and T1 · T2 of a schedule, and its gap."""

    latency: float
    edp: float
    gap: float | None


def found(number: int, pattern: str, method: str, seconds: float | None = None) -> Found:
    """What a method finds on a scenario with whole batches."""
    from chipmap.instances.multimodel.generators import scenario
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    instance = scenario(number, pipelined=False, pattern=pattern)
    options = SolveOptions.make(time_limit=seconds, warm_start="none", threads=1)
    result = solve(instance, f"multimodel/{method}", options)
    assert result.certificate is not None and result.certificate.feasible
    terms = result.certificate.terms
    return Found(terms["T1"], float(terms["T1"] * terms["T2"]), result.gap)


def cell(ours: float, published: float) -> str:
    """Our figure with its difference, marked where that is large."""
    off = ours / published - 1
    return f"{ours:.3f} | {'**' if abs(off) > LARGE else ''}{off:+.0%}{'**' if abs(off) > LARGE else ''}"


def row(number: int, strategy: str, base: Found, seconds: float) -> tuple[str, int]:
    """A line of the table, and how many of its default's figures are far off."""
    pattern, method, latencies, products = STRATEGIES[strategy]
    published = [float(figures.split()[number - 6]) for figures in (latencies, products)]
    default = found(number, pattern, method)
    best = default if method == "standalone" else found(number, pattern, "scar-best")
    auto = found(number, pattern, "auto", seconds) if method == "scar" else None
    line, large = f"| {number} | {strategy} ", 0
    for k, paper in enumerate(published):

        def relative(one: Found, k: int = k) -> float:
            return one[:2][k] / base[:2][k]

        ours = [relative(one) for one in (default, best)]
        large += abs(ours[0] / paper - 1) > LARGE
        line += f"| {paper:g} | {cell(ours[0], paper)} | {cell(ours[1], paper)} | "
        line += f"{relative(auto):.3f} " if auto is not None else " "
    gap = f"{auto.gap:.1%}" if auto is not None and auto.gap is not None else ""
    return f"{line}| {gap} |", large


def half_as_many_sums() -> None:
    """Latency and EDP of the ShiDianNao-like module if its partial sums were written half as often."""
    from chipmap.instances.multimodel import costs

    before = costs._DATAFLOWS["shidiannao"]

    def fewer(shape: costs.Shape, hardware: costs.Hardware) -> tuple[int, int, int, int]:
        cycles, read, weights, made = before(shape, hardware)
        return cycles, read, weights, made // 2

    print("| scenario | strategy | EDP: paper | ours | off | half as many partial sums | off |")
    print(f"|--:|---|{'--:|' * 5}")
    for number in range(6, 11):
        for strategy in ("Stand.(Shi)", "Simba(Shi)"):
            pattern, method, _, products = STRATEGIES[strategy]
            published = float(products.split()[number - 6])
            base = found(number, "first", "standalone")
            usual = found(number, pattern, method)
            with patch.dict(costs._DATAFLOWS, {"shidiannao": fewer}):
                other = found(number, pattern, method)
            pair = " | ".join(cell(one.edp / base.edp, published) for one in (usual, other))
            print(f"| {number} | {strategy} | {published:g} | {pair} |")


def pack_long(times: Sequence[Sequence[int]], splits: int) -> list[list[tuple[int, int] | None]]:
    """Algorithm 1, but that a layer longer than a window may begin one (a window still ends when it ends)."""
    count, horizon = splits + 1, max(sum(own) for own in times)
    windows: list[list[tuple[int, int] | None]] = [[None] * len(times) for _ in range(count)]
    for m, own in enumerate(times):
        window = used = begun = 0
        for layer, time in enumerate(own):
            fresh = begun == layer and used == window * horizon
            while window < splits and used + count * time > (window + 1) * horizon and not fresh:
                if begun < layer:
                    windows[window][m] = (begun, layer - 1)
                window, used, begun = window + 1, (window + 1) * horizon, layer
                fresh = True
            used += count * time
        windows[window][m] = (begun, len(own) - 1)
    return [window for window in windows if any(window)]


def long_layers() -> None:
    """Latency and EDP of SCAR's search with the other packing."""
    from chipmap.heuristics.multimodel.published import scar

    print(
        "\n| scenario | strategy | latency: paper | scar | off | long layers | off | EDP: paper | scar | off "
        "| long layers | off |"
    )
    print(f"|--:|---|{'--:|' * 10}")
    for number in range(6, 11):
        base = found(number, "first", "standalone")
        for strategy in ("Simba(NVD)", "Het-CB", "Het-Sides"):
            pattern, method, latencies, products = STRATEGIES[strategy]
            usual = found(number, pattern, method)
            with patch.object(scar, "pack", pack_long):
                other = found(number, pattern, method)
            line = f"| {number} | {strategy} "
            for k, figures in enumerate((latencies, products)):
                published = float(figures.split()[number - 6])
                pair = " | ".join(cell(one[:2][k] / base[:2][k], published) for one in (usual, other))
                line += f"| {published:g} | {pair} "
            print(f"{line}|", flush=True)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--scenarios", default="6,7,8,9,10")
    parser.add_argument("--explain", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if args.explain:
        half_as_many_sums()
        long_layers()
        return 0
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}\n")
    parts = " | ".join(f"{what}: paper | scar | off | scar-best | off | auto" for what in ("latency", "EDP"))
    print(f"| scenario | strategy | {parts} | gap |\n|--:|---|{'--:|' * 13}")
    large = 0
    for number in map(int, args.scenarios.split(",")):
        base = found(number, "first", "standalone")
        for strategy in STRATEGIES:
            line, more = row(number, strategy, base, args.seconds)
            large += more
            print(line, flush=True)
    print(f"\n{large} figures of the default are more than {LARGE:.0%} off.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
