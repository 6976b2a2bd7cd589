"""Neighbourhoods of adjacent chips alone (``ring/windows``), from greedy's mapping: how far they bring it.

    python -m benchmarks.ring_windows [--limit SECONDS] [--chain SECONDS] [--only NAME ...] [--markdown FILE]

The rows' graphs are read from $CHIPMAP_DATA, else ../shared/data; without them only the generated ones are there. The
programs over ideals, slicing and the station search are not used, but for the last two columns: what the best chain
(``ring/auto``) has after ``--chain`` seconds.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ring_reference import DATA, instance_of
from benchmarks.ring_wide import LINK, profile
from chipmap.inputs.reading import shipped_entry
from chipmap.instances.ring import RingInstance
from chipmap.methods.ring.neighbourhoods import SOURCE
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve

TICKS_PER_US = 100_000
GENERATED = ("bert-large-36", "resnet152-36", "densenet121-36")
#: Published graphs: folder, name and variant (``benchmarks/ring_reference.py``; profiles: links only).
PUBLISHED = (
    ("torchvision-like", "deeplabv3_mobilenet_v3_large", "sum"),
    ("torchvision-like", "deeplabv3_mobilenet_v3_large", "sum_forward"),
    ("torchvision-like", "inception_v3", "sum"),
    ("torchvision-like", "densenet121", "links"),
    ("pipedream", "nasnetamobile", "links"),
    ("pipedream", "gnmt", "links"),
)


def instances() -> Iterator[tuple[str, RingInstance]]:
    """(row name, instance)."""
    for name in GENERATED:
        entry = shipped_entry(f"ring/{name}")
        assert entry is not None
        instance = entry()
        assert isinstance(instance, RingInstance)
        yield instance.name, instance
    for folder, name, variant in PUBLISHED:
        if (DATA / folder).is_dir():
            traced = folder != "pipedream"
            path = DATA / folder / (f"{name}.json" if traced else f"{name}.graph.txt")
            yield f"{name}, {variant}", instance_of(path, variant) if traced else profile(path, LINK)


def row(name: str, alone: Result, chain: Result) -> str:
    """One line of the table; values in microseconds."""
    values = [event.value for event in alone.trace if event.event == "solution"]
    counted = next(
        (re.findall(r"\d+", note.text) for note in alone.notes if note.text.startswith(SOURCE)), ["0", "0", "0"]
    )
    last = max((event.seconds for event in alone.trace if event.event == "solution"), default=0.0)
    numbers = (values[0], alone.objective, chain.objective, chain.bound)
    cells = [f"{(number or 0) / TICKS_PER_US:.3f}" for number in numbers]
    return f"| {' | '.join([name, *cells, *counted, f'{last:.1f}', f'{alone.seconds:.1f}'])} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--chain", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    lines = [
        "| instance | greedy, us | after windows | chain | its bound | tried | gained | undecided | last gain, s | s |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    print("\n".join(lines))
    for name, instance in instances():
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        options = SolveOptions(time_limit=arguments.limit, threads=1)
        alone = solve(instance, method="ring/windows", options=options, isolate=True)
        options = SolveOptions(time_limit=arguments.chain, threads=1)
        chain = solve(instance, options=options, isolate=True)
        lines.append(row(name, alone, chain))
        print(lines[-1], flush=True)
    if arguments.markdown:
        head = f"`python -m benchmarks.ring_windows --limit {arguments.limit:g} --chain {arguments.chain:g}` on "
        head += f"{os.cpu_count()} cores, Python {platform.python_version()}, one thread; load average at the end "
        head += f"{os.getloadavg()[0]:.1f}.\n\n"
        arguments.markdown.write_text(
            "# Windows of adjacent chips from greedy's mapping\n\n" + head + "\n".join(lines) + "\n"
        )


if __name__ == "__main__":
    main()
