"""``chipmap info``: what there is (families, instances, methods …), figures of an instance, JSON Schemas."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

from chipmap.cli.common import add_family, add_format, add_set, columns, put, read_instance
from chipmap.family import FAMILY_NAMES, get_family
from chipmap.records import InputError, Record, choices, natural, shortened

EXAMPLES = (
    "chipmap info",
    "chipmap info ring",
    "chipmap info ring/bert-large-36",
    "chipmap info machines",
    "chipmap info --schema ring",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """List the families with their instances, generators, methods and formulations; of one FAMILY, or, for an INSTANCE,
    its figures."""
    what = "the name of a family (ring), or an instance: a file, an archive, a shipped name, or -"
    parser.add_argument("instances", metavar="FAMILY|INSTANCE", nargs="*", help=what)
    add_set(parser)
    add_family(parser)
    parser.add_argument(
        "--schema", metavar="NAME", help="print a JSON Schema: a family's name (ring), ring-solution, result"
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was asked for."""
    if args.schema is not None:
        import msgspec

        print(json.dumps(msgspec.json.schema(_record(args.schema)), indent=1))
    elif not args.instances:
        put(args.format, catalogue(), _catalogue_text)
    for source in args.instances:
        if source == "machines" and not Path(source).is_file():
            put(args.format, machines(), _machines_text)
            continue
        if source in FAMILY_NAMES and not Path(source).is_file():
            put(args.format, catalogue(source), _catalogue_text)
            continue
        put(args.format, figures(source, args.set, args.family), _figures_text)
    return 0


def machines() -> dict[str, Any]:
    """The machines by name: the families that take them (``--system`` of ``placement`` and ``multimodel``, ``machine``
    of ``dataflow``'s generators), a chip's peak, memory and link, the profiles that predict beside their limits, and
    where they are stated."""
    from chipmap.instances.dataflow.machines import MACHINES
    from chipmap.instances.dataflow.profiles import ENDINGS
    from chipmap.instances.multimodel.modules import PATTERNS
    from chipmap.instances.placement.presets import PRESETS, preset

    shown: dict[str, Any] = {}
    for name in [*PRESETS, *MACHINES]:
        system, of_dataflow = preset(name), name in MACHINES
        kinds = {device.kind: device.memory_bytes for device in system.devices}
        shown[name] = {
            "families": ["placement", "dataflow"] if of_dataflow else ["placement"],
            "tflops": {one.name: one.flop_per_ns / 1000 for one in system.classes},
            "memory_bytes": kinds,
            "memory_bytes_per_ns": {one.name: one.memory_bytes_per_ns for one in system.classes},
            "link_bytes_per_ns": system.links.bytes_per_ns if system.links else None,
            "profiles": [f"{name}{ending}" for ending, known in ENDINGS.items() if name in known],
            "source": MACHINES[name].source if of_dataflow else "docs/families/placement-files.md",
        }
    return shown | {name: {"families": ["multimodel"], "source": "docs/families/multimodel.md"} for name in PATTERNS}


def _machines_text(shown: dict[str, Any]) -> str:
    from chipmap.records.quantities import size

    head = ("name", "families", "TFLOP/s", "memory", "its GB/s", "link GB/s", "predicted by")
    rows: list[tuple[str, ...]] = [head]
    for name, one in shown.items():
        peaks = ", ".join(f"{value:g}" for value in one.get("tflops", {}).values())
        memory = ", ".join("any" if n is None else size(n) for n in one.get("memory_bytes", {}).values())
        rates = ", ".join(f"{value:g}" for value in one.get("memory_bytes_per_ns", {}).values())
        link = one.get("link_bytes_per_ns")
        profiles = ", ".join(one.get("profiles", ()))
        links = "" if link is None else f"{link:g}"
        rows.append((name, ", ".join(one["families"]), peaks, memory, rates, links, profiles))
    return columns(rows)


def catalogue(*names: str) -> dict[str, Any]:
    """By family (all, or those named): title, schema, constraints, terms, and the names of all that it has."""
    from chipmap.bench.sweep import shipped_sweeps
    from chipmap.inputs.reading import shipped_names

    shown: dict[str, Any] = {}
    for name in names or FAMILY_NAMES:
        family = get_family(name)
        shown[name] = {
            "title": family.title,
            "schema": family.schema,
            "objective": f"minimised, in {family.unit} (1 tick = {family.tick})",
            "constraints": dict(family.constraints),
            "terms": dict(family.terms),
            "instances": {full: "" for full in shipped_names() if full.startswith(f"{name}/")},
            "generators": {generator.name: generator.summary for generator in family.generators},
            "methods": {method.name: method.summary for method in family.methods},
            "warm starts": dict.fromkeys(family.warm_starts, ""),
            "sweeps": {one: fields["notes"] for one, fields in shipped_sweeps(family).items()},
            "formulations": {one.name: f"{one.kind}; {one.citation}" for one in family.formulations},
        }
    return shown


def figures(source: str, settings: list[str], family_name: str | None) -> dict[str, Any]:
    """Name, schema and hash of an instance, and the family's own figures of it."""
    from chipmap.family import family_of

    instance = read_instance(source, settings, family_name)
    family = family_of(instance)
    shown = {"instance": str(getattr(instance, "name", "")), "schema": family.schema, "hash": instance.content_hash}
    return {**shown, **family.figures(instance), **_known(instance)}


def _known(instance: Record) -> dict[str, Any]:
    """What the registry knows of the instance: values in natural units, and where they come from."""
    from chipmap.known.registry import known

    entry = known(instance)
    if entry is None:
        return {}
    shown: dict[str, Any] = {"best_known": entry.value, "unit": entry.unit.name, "found_by": str(entry.found or "")}
    if entry.infeasible:
        return {"best_known": "infeasible", "proved_by": str(entry.proved)}
    shown |= {"best_known_bound": entry.lower, "best_known_gap": entry.gap, "proved_by": str(entry.proved or "")}
    for name, said in (("reported", entry.reported), ("reported_bound", entry.reported_bound)):
        if said is not None:
            shown |= {name: natural(said.ticks, entry.unit.per_tick), f"{name}_by": said.page}
    return shown


def _record(name: str) -> type[Record]:
    from chipmap.bench.sweep import Sweep
    from chipmap.family import resolve
    from chipmap.result import Result

    records: dict[str, Any] = {"result": Result, "sweep": Sweep}
    for family_name in FAMILY_NAMES:
        family = get_family(family_name)
        records |= {family_name: resolve(family.instance), f"{family_name}-solution": resolve(family.solution)}
    plain = name.partition("/")[0]
    if plain not in records:
        raise InputError(f"no schema is called {name!r}", "--schema", choices(name, records))
    record: type[Record] = records[plain]
    return record


def _catalogue_text(shown: dict[str, Any]) -> str:
    from chipmap.report.tables import terminal_width

    text, width = "", terminal_width()
    for name, family in shown.items():
        head = f"{name}: {family['title']} (schema {family['schema']}; objective {family['objective']})"
        text += (textwrap.fill(head, width, subsequent_indent="  ") if width else head) + "\n"
        for part, entries in family.items():
            if isinstance(entries, dict) and entries:
                text += f"\n {part}\n{columns(entries.items())}"
    return text


def _figures_text(shown: dict[str, Any]) -> str:
    rows = [(key, _cell(value)) for key, value in shown.items() if key != "instance"]
    return f"{shown['instance']}\n{columns(rows)}"


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{shortened(str(key), 100)} {_cell(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return shortened(", ".join(map(_cell, value)), 200)
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int | float):
        from chipmap.records.quantities import number

        return f"{value:,}" if isinstance(value, int) else number(value)
    return shortened(str(value), 200)
