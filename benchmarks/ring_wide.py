"""Wide graphs: the 66 graphs of three collections on 36 chips, C1 to C3, links free; the widest ones with links too.

    python -m benchmarks.ring_wide [--limit SECONDS] [--only NAME ...] [--links] [--markdown FILE]

Graphs are read from $CHIPMAP_DATA, else ../shared/data. Traced graphs count traffic as ``twice_out``; profiles have
measured forward times (of training batches, so that they get no links unless named in ``LINKED``). Values are in units
of total work / 36. ``--links`` runs only the rows with links of 32 bytes/ns.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ring_reference import CHIPS, DATA, instance_of
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.from_graph import from_graph
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.importers.reading import import_graph
from chipmap.run import SolveOptions
from chipmap.solve import solve

TRACED = ("torchvision-like", "transformers-like")
#: The graphs that are also solved with links, by folder.
LINKED = (
    ("torchvision-like", "inception_v3"),
    ("torchvision-like", "googlenet"),
    ("torchvision-like", "deeplabv3_mobilenet_v3_large"),
    ("pipedream", "inception_v3"),
    ("pipedream", "nasnetamobile"),
)
LINK = 32.0


def profile(path: Path, link: float | None) -> RingInstance:
    """A measured profile: forward times, no memory constraint."""
    name = f"pipedream/{path.name.removesuffix('.graph.txt')}"
    instance = from_graph(import_graph(str(path)), name)
    changes = {"chips": CHIPS, "link_bytes_per_ns": link}
    package = type(instance.package).make(**{**_fields(instance.package), **changes})
    return RingInstance.make(**{**_fields(instance), "package": package})


def _fields(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__}  # type: ignore[attr-defined]


def instances(links_only: bool) -> Iterator[tuple[str, RingInstance]]:
    """(row name, instance) of every row, free links first."""
    if not links_only:
        for folder in TRACED:
            for path in sorted((DATA / folder).glob("*.json")):
                yield path.stem, instance_of(path, "compute")
        for path in sorted((DATA / "pipedream").glob("*.graph.txt")):
            instance = profile(path, None)
            yield instance.name, instance
    for folder, name in LINKED:
        if folder == "pipedream":
            yield f"pipedream/{name}, links", profile(DATA / folder / f"{name}.graph.txt", LINK)
        else:
            yield f"{name}, links", instance_of(DATA / folder / f"{name}.json", "links")


def main() -> None:
    """Solve and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--links", action="store_true")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    lines = ["| graph | value | bound | gap | s | found by | bound by |", "| --- | --: | --: | --: | --: | --- | --- |"]
    print("\n".join(lines))
    graphs = optimal = 0
    widest = 0.0
    for name, instance in instances(arguments.links):
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        unit = ring_problem(instance).total_ticks / CHIPS
        result = solve(instance, options=SolveOptions(time_limit=arguments.limit, threads=2), isolate=True)
        bound_by = max(result.bounds, key=lambda bound: bound.value).source if result.bounds else ""
        graphs += 1
        optimal += result.status == "optimal"
        widest = max(widest, 1.0 if result.gap is None else result.gap)
        lines.append(
            f"| {name} | {(result.objective or 0) / unit:.4f} | {(result.bound or 0) / unit:.4f} "
            f"| {'n/a' if result.gap is None else f'{result.gap:.2%}'} | {result.seconds:.2f} "
            f"| {result.incumbent_source} | {bound_by} |"
        )
        print(lines[-1], flush=True)
    summary = f"rows {graphs}, proved optimal {optimal}, largest gap {widest:.2%}"
    print(summary)
    if arguments.markdown:
        head = f"`python -m benchmarks.ring_wide --limit {arguments.limit:g}` on {os.cpu_count()} cores, "
        title = f"# Wide graphs on {CHIPS} chips, C1 to C3\n\n"
        version = f"Python {platform.python_version()}; {summary}.\n\n"
        arguments.markdown.write_text(title + head + version + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
