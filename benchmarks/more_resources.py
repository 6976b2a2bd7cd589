"""Whether more of a resource ends worse: the best chain of each family on an instance, and on one that has more.

    python -m benchmarks.more_resources [--seconds 10] [--tiny] [--only TEXT ...] [--rows FILE] [--markdown FILE]

Each pair is an instance and the same instance with more chips, memory, windows, devices, fabric or faster links. Every
mapping of the first is a mapping of the second that costs no more: the checker says so for each pair. So the chain has
missed something wherever it ends worse with more. Both get the same seconds of CPU, one thread, in a fresh process.
``--tiny``: the tiny shipped instances, each with more of everything that it has.

Each row goes to FILE as a line of JSON; a later run with the same FILE makes only the rows that are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import chipmap
from benchmarks.best_known import submit
from chipmap.family import get_family, resolve
from chipmap.inputs.reading import generate
from chipmap.records import Record
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve

#: A shipped instance, or a generator and its fields.
Made = str | tuple[str, dict[str, Any]]
#: Instance, resource, its amount in the smaller instance (None: as it is) and in the larger one.
Pair = tuple[Made, str, Any, Any]


def _ring(instance: Any, what: str, amount: Any) -> Any:
    return instance.replace(package=instance.package.replace(**{what: amount}))


def _wafer(instance: Any, what: str, amount: Any) -> Any:
    return instance.replace(fabric=instance.fabric.replace(**{what: amount}))


def _multimodel(instance: Any, what: str, amount: Any) -> Any:
    if what == "windows":
        return instance.replace(task=instance.task.replace(windows=amount))
    if what == "chiplets":
        kept = instance.module.chiplets[:amount]
        names = {one.name for one in kept}
        links = tuple(link for link in instance.module.links if names.issuperset(link))
        return instance.replace(module=instance.module.replace(chiplets=kept, links=links))
    return instance.replace(module=instance.module.replace(**{what: amount}))


def _placement(instance: Any, what: str, amount: Any) -> Any:
    system = instance.system
    if what == "devices":
        further = tuple(system.devices[-1].replace(name=f"further {i}") for i in range(len(system.devices), amount))
        return instance.replace(system=system.replace(devices=(*system.devices[:amount], *further)))
    if what == "memory_bytes":
        devices = tuple(one.replace(memory_bytes=amount) for one in system.devices)
        return instance.replace(system=system.replace(devices=devices))
    return instance.replace(system=system.replace(links=system.links.replace(**{what: amount})))


def _dataflow(instance: Any, what: str, amount: Any) -> Any:
    system = instance.system
    if what == "sram_bytes":
        return instance.replace(system=system.replace(chip=system.chip.replace(sram_bytes=amount)))
    if what == "partitions":
        return instance.replace(task=instance.task.replace(partitions=amount))
    if what == "network":
        network = tuple(one.replace(bytes_per_ns=one.bytes_per_ns * amount) for one in system.network)
        return instance.replace(system=system.replace(network=network))
    return instance.replace(system=system.replace(memory=system.memory.replace(**{what: amount})))


CHANGES: dict[str, Callable[[Any, str, Any], Any]] = {
    "ring": _ring,
    "dataflow": _dataflow,
    "wafer": _wafer,
    "multimodel": _multimodel,
    "placement": _placement,
}
MIB, GIB = 2**20, 2**30


def _more(family: str, instance: Any) -> Iterator[tuple[str, Any]]:
    """What ``instance`` can have more of, and how much it has then."""
    if family == "ring":
        package = instance.package
        yield from (("chips", package.chips + 1), ("chips", 4 * package.chips), ("sram_bytes", 2 * package.sram_bytes))
        if package.link_bytes_per_ns is not None:
            yield from (("link_bytes_per_ns", 3 * package.link_bytes_per_ns), ("link_bytes_per_ns", None))
    elif family == "dataflow":
        system, task = instance.system, instance.task
        yield from (("sram_bytes", 2 * system.chip.sram_bytes), ("network", 2))
        yield "bytes_per_ns", 2 * system.memory.bytes_per_ns
        if task.partitions is not None and not task.exactly:
            yield "partitions", task.partitions + 1
    elif family == "wafer":
        for side in ("width", "height"):
            tiles = getattr(instance.fabric, side)
            yield from ((side, tiles + 1), (side, 2 * tiles))
        yield "memory_words", 2 * instance.fabric.memory_words
    elif family == "multimodel":
        yield "windows", instance.task.windows + 1
        for rate in ("nop_bytes_per_ns", "dram_bytes_per_ns"):
            yield rate, 2 * getattr(instance.module, rate)
    else:
        system = instance.system
        yield "devices", len(system.devices) + 1
        if all(one.memory_bytes is not None for one in system.devices):
            yield "memory_bytes", 2 * max(one.memory_bytes for one in system.devices)
        if system.links is not None and system.links.bytes_per_ns is not None:
            yield "bytes_per_ns", 2 * system.links.bytes_per_ns


def tiny(family: str) -> list[Pair]:
    """The tiny shipped instances of a family, each with more of each thing."""
    names = [name for name in resolve(get_family(family).shipped) if "/tiny-" in name]
    return [(name, what, None, amount) for name in names for what, amount in _more(family, chipmap.read(name))]


def _layered(operations: int, width: int, **more: Any) -> Made:
    return "layered", {"operations": operations, "width": width, "seed": 3, **more}


def _wild(operations: int, seed: int, **more: Any) -> Made:
    return "random", {"operations": operations, "reach": 40, "density": 0.05, "seed": seed, **more}


RING: list[Pair] = [
    (_wild(400, 5, sram_mib=32.0), "chips", 8, 36),
    (_wild(400, 5, sram_mib=32.0), "chips", 12, 24),
    (_wild(250, 6, sram_mib=32.0), "chips", 6, 36),
    (_wild(150, 7), "chips", 4, 16),
    (_wild(300, 8, cost_mode="sum"), "chips", 8, 36),
    (_layered(200, 8), "chips", 8, 36),
    (_layered(200, 16), "chips", 8, 36),
    (_layered(200, 16), "chips", 5, 10),
    (_layered(300, 6, cost_mode="sum_forward"), "chips", 8, 36),
    (_layered(120, 12), "link_bytes_per_ns", 8.0, 32.0),
    (_layered(120, 12), "link_bytes_per_ns", 32.0, 64.0),
    (_layered(120, 12), "sram_bytes", 24 * MIB, 64 * MIB),
    ("ring/bert-large-36", "chips", 12, 36),
    ("ring/bert-large-36", "chips", 35, 36),
    ("ring/bert-base-36", "sram_bytes", 32 * MIB, 48 * MIB),
    ("ring/gpt2-36", "link_bytes_per_ns", 16.0, 32.0),
    ("ring/gpt2-36", "chips", 36, 72),
    ("ring/densenet121-36", "chips", 8, 36),
    ("ring/resnet152-36", "chips", 18, 36),
    ("ring/unet-12", "chips", 6, 12),
    ("ring/random-12", "chips", 6, 24),
    ("ring/rnn-36", "link_bytes_per_ns", 16.0, 32.0),
]
DATAFLOW: list[Pair] = [
    *(("dataflow/table6-free-8x1", "sram_bytes", 80 * MIB, high * MIB) for high in (160, 320, 640)),
    *(("dataflow/table6-free-4x2", "network", 1, high) for high in (2, 4)),
    ("dataflow/gpt3-175b-96-layers-8x1", "sram_bytes", 320 * MIB, 640 * MIB),
    ("dataflow/gpt3-1t-sn30-1024", "network", 1, 2),
    ("dataflow/gpt3-1t-sn30-1024", "bytes_per_ns", 200.0, 400.0),
    ("dataflow/dlrm-793b-sn30-32x32", "network", 1, 2),
    ("dataflow/hpl-5m-sn30-32x32", "sram_bytes", 320 * MIB, 640 * MIB),
    ("dataflow/fft-2e40-sn30-32x32", "bytes_per_ns", 100.0, 200.0),
    ("dataflow/resnet50-8", "sram_bytes", 24 * MIB, 48 * MIB),
    ("dataflow/resnet50-8", "network", 1, 4),
    ("dataflow/moe-3-experts", "network", 1, 2),
    ("dataflow/moe-8-experts", "network", 1, 2),
    ("dataflow/moe-8-experts", "sram_bytes", 256 * MIB, 512 * MIB),
    ("dataflow/moe-64-experts", "network", 1, 2),
    ("dataflow/moe-64-experts", "bytes_per_ns", 500.0, 1000.0),
    ("dataflow/gpt3-175b-12-layers-8x5", "network", 1, 2),
    ("dataflow/llama3-8b-prefill-sn40l-16", "sram_bytes", 260 * MIB, 520 * MIB),
]
WAFER: list[Pair] = [
    *((f"wafer/ispd2020-{case}", "width", 633, 640) for case in "ACEGI"),
    *((f"wafer/ispd2020-{case}", "height", 633, 700) for case in "BDFH"),
    *((f"wafer/ispd2020-{case}", "memory_words", 24_576, 32_768) for case in "JKMO"),
    ("wafer/ispd2020-Q", "width", 633, 634),
    ("wafer/ispd2020-T", "width", 633, 900),
    ("wafer/bert-large", "height", 633, 640),
    ("wafer/gpt2", "width", 633, 640),
    ("wafer/gpt2", "memory_words", 24_576, 49_152),
    ("wafer/bert-large-heads", "width", 633, 700),
    ("wafer/resnet-1000", "height", 633, 640),
]
MULTIMODEL: list[Pair] = [
    *(
        (f"multimodel/scar-{case}", "windows", low, high)
        for case in ("8-whole", "9-whole")
        for low, high in ((1, 2), (5, 8))
    ),
    *((f"multimodel/scar-{case}", "windows", 3, 5) for case in ("3-whole", "10-pipelined", "6-pipelined")),
    *((f"multimodel/scar-{case}", "nop_bytes_per_ns", 50.0, 100.0) for case in ("2-whole", "4-whole", "8-pipelined")),
    *((f"multimodel/scar-{case}", "chiplets", 6, 9) for case in ("1-whole", "4-whole", "5-pipelined", "9-whole")),
    *((f"multimodel/scar-4-{case}", "dram_bytes_per_ns", 32.0, 64.0) for case in ("whole", "whole-cross-6x6-3")),
    ("multimodel/scar-4-pipelined-cross-6x6-4", "windows", 1, 4),
    ("multimodel/resnet50-unet", "windows", 2, 11),
    ("multimodel/four-models", "windows", 4, 7),
    ("multimodel/four-models", "chiplets", 6, 9),
]
PLACEMENT: list[Pair] = [
    *(
        (f"placement/{name}-4-pcie", "devices", 2, 4)
        for name in ("rnnlm", "gnmt", "transformer-xl", "amoebanet", "wavenet")
    ),
    *((f"placement/{name}-4-nvlink", "devices", 3, 4) for name in ("rnnlm", "gnmt", "transformer-xl", "wavenet")),
    *((f"placement/{name}-8-pcie", "devices", 4, 8) for name in ("gnmt", "transformer-xl")),
    *((f"placement/{name}-2-pcie", "devices", 1, 2) for name in ("inception", "wavenet", "rnnlm")),
    *((f"placement/{name}-2-pcie", "bytes_per_ns", 6.0, 12.0) for name in ("rnnlm", "transformer-xl", "inception")),
    *((f"placement/{name}-2-nvlink", "memory_bytes", 12 * GIB, 24 * GIB) for name in ("gnmt", "wavenet")),
    ("placement/rnnlm-2-nvlink", "memory_bytes", 6 * GIB, 12 * GIB),
]
PAIRS = {"ring": RING, "dataflow": DATAFLOW, "wafer": WAFER, "multimodel": MULTIMODEL, "placement": PLACEMENT}


def name(family: str, pair: Pair) -> str:
    """What a pair is called."""
    made, what, low, high = pair
    said = made if isinstance(made, str) else f"{family}: {made[0]} {' '.join(f'{k}={v}' for k, v in made[1].items())}"
    amounts = ["as it is" if low is None else f"{low:,}", "without limit" if high is None else f"{high:,}"]
    return f"{said}, {what} {amounts[0]} to {amounts[1]}"


def both(family: str, pair: Pair) -> tuple[Any, Any]:
    """The two instances of a pair."""
    made, what, low, high = pair
    instance = chipmap.read(made) if isinstance(made, str) else generate(made[0], **made[1])
    less = instance if low is None else CHANGES[family](instance, what, low)
    return less, CHANGES[family](instance, what, high)


def row(family: str, pair: Pair, seconds: float) -> dict[str, Any]:
    """Solve both instances of a pair. ``carried`` is the objective of the smaller one's mapping on the larger one."""
    time.monotonic = time.process_time
    load, ends, begun = os.getloadavg()[0], list[Result](), time.process_time()
    instances = both(family, pair)
    for instance in instances:
        ends.append(solve(instance, options=SolveOptions(time_limit=seconds, threads=1), isolate=False))
    low, high = ends
    submit(ends)
    return {
        "family": family,
        "pair": name(family, pair),
        "limit": seconds,
        "small": low.objective,
        "large": high.objective,
        "small status": low.status,
        "large status": high.status,
        "carried": _carried(instances[1], low.solution),
        "bound": high.bound,
        "found by": [low.incumbent_source, high.incumbent_source],
        "seconds": time.process_time() - begun,
        "load": load,
    }


def _carried(instance: Record, solution: Any) -> int | None:
    return None if solution is None else chipmap.check(instance, solution).objective


def worse(row: dict[str, Any]) -> bool:
    """Whether the larger instance ended worse than the smaller one's mapping is on it."""
    return row["carried"] is not None and (row["large"] is None or row["large"] > row["carried"])


def main() -> None:
    """Make the rows that are missing, print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--rows", type=Path, default=Path("more-resources.jsonl"))
    parser.add_argument("--markdown", type=Path)
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.rows.read_text().splitlines()] if asked.rows.exists() else []
    done = {(one["pair"], one["limit"]) for one in rows}
    for family, pairs in {family: tiny(family) for family in PAIRS}.items() if asked.tiny else PAIRS.items():
        for pair in pairs:
            said = f"{family} {name(family, pair)}"
            if (name(family, pair), asked.seconds) in done or (asked.only and not any(t in said for t in asked.only)):
                continue
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                try:
                    one = pool.submit(row, family, pair, asked.seconds).result()
                except Exception as error:
                    print(f"FAILED {said}: {type(error).__name__}: {error}", flush=True)
                    continue
            rows.append(one)
            with asked.rows.open("a") as file:
                file.write(json.dumps(one) + "\n")
            print(f"{'WORSE ' if worse(one) else ''}{said}: {one['carried']} -> {one['large']}", flush=True)
    if asked.markdown:
        asked.markdown.write_text(page([one for one in rows if one["limit"] == asked.seconds], asked.seconds))


def page(rows: list[dict[str, Any]], seconds: float) -> str:
    """The page of results."""
    bad, load = sum(map(worse, rows)), [one["load"] for one in rows]
    cut = sum(worse(one) and one["large status"] == "feasible" for one in rows)
    head = f"""# More of a resource

The best chain of each family on {len(rows)} pairs of instances, where the second one has more of a resource. Every
mapping of the first is a mapping of the second that costs no more. {seconds:g} CPU seconds and one thread for each;
Python {platform.python_version()}, load {min(load):.0f} to {max(load):.0f}.
Made by `python -m benchmarks.more_resources --seconds {seconds:g}`.

With more, the chain ends worse on **{bad}** of {len(rows)}. In {cut} of these the limit cut off the search.

| pair | with less | with more | change | found by |
|---|--:|--:|--:|---|
"""
    lines = []
    for one in rows:
        small, large = one["carried"], one["large"]
        change = "" if small is None or large is None else f"{(large / small - 1) * 100:+.2f}%" if small else "0%"
        said = [("none" if value is None else f"{value:,}") for value in (small, large)]
        lines.append(f"| {one['pair']} | {said[0]} | {said[1]} | {change} | {' / '.join(map(str, one['found by']))} |")
    return head + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
