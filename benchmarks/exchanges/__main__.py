"""Exchanges of family ``dataflow`` as its pages charge them and as JAX's compiler makes them, layer by layer.

    python -m benchmarks.exchanges [--layers NAME …] [--free SECONDS [--rivals COUNT] [--optimal]] …

Needs the extra judges (JAX). Compiles each layer at its full widths, and runs it at cut ones, on eight devices of the
host. ``--free`` also solves a layer of Llama3-8B on eight H100 with free schemes, and times its mapping with the
exchanges that it needs. ``--rivals`` compares it so with usual mappings and with this many others,
``--optimal`` judges the optimal mapping of each layer.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8".strip()

from benchmarks.exchanges.cases import BACKWARD, CHIPS, LAYERS, Layers, schemes
from benchmarks.exchanges.compared import KNOWN, Key, Row, plan_says, rows, scoped
from benchmarks.exchanges.hlo import by_kind, collectives
from chipmap.plans.jax.planning import Plan, Policy, plan
from chipmap.plans.jax.steps import layer_of

OUT = Path(__file__).resolve().parents[1] / "results" / "dataflow-exchanges.md"
MB = 10**6


class Case(NamedTuple):
    """A layer under pinned schemes: its exchanges one by one, totals, and how far its numbers are from one device's."""

    layer: str
    trained: bool
    pins: str
    rows: list[Row]
    kinds: dict[str, Fraction]
    again: Fraction
    whole: Fraction | None
    unsaid: Fraction
    difference: float

    @property
    def title(self) -> str:
        """Layer, phases and schemes."""
        return f"{self.layer}, {'forward and backward' if self.trained else 'forward'}, {self.pins}"


def compiled(of: Plan) -> tuple[dict[Key, Fraction], dict[str, Fraction]]:
    """Bytes of a plan's program by exchange and by kind."""
    from benchmarks.exchanges.written import with_shard_map

    found = collectives(with_shard_map(of).compiled(), of.chips)
    return scoped(found), {str(kind): link for kind, link in by_kind(found).items()}


def by_the_compiler(of: Plan) -> Fraction:
    """Bytes of the program on whole arrays, whose exchanges the compiler finds."""
    from benchmarks.exchanges.written import as_whole
    from chipmap.plans.jax.source import rests

    names = [step.name for step in of.layer.steps]
    alone = plan(of.layer, dict.fromkeys(names, "NONE"), 1)
    text = as_whole(alone, of.made(), rests(of), of.chips).compiled()
    return sum((one.link for one in collectives(text, of.chips, as_scatter=True)), Fraction(0))


def judged(layers: Layers, trained: bool, pins: str, numbers: bool) -> Case:
    """A layer under pinned schemes, compiled at full widths and run at cut ones."""
    from benchmarks.exchanges.numbers import compared
    from benchmarks.exchanges.written import with_shard_map

    workload = layers.full(trained)
    layer, own = layer_of(workload), schemes(workload, pins)
    kept = plan(layer, own, CHIPS, Policy(keep="step"))
    exchanges, kinds = compiled(kept)
    again, anew = sum(exchanges.values(), Fraction(0)), plan(layer, own, CHIPS, Policy(keep="phase"))
    if anew.instructions != kept.instructions:
        again = sum(compiled(anew)[0].values(), Fraction(0))
    said = plan_says(kept)
    unsaid = sum(
        (abs(exchanges.get(key, Fraction(0)) - said.get(key, Fraction(0))) for key in {*said, *exchanges}
         if key[2] != "statistics"),
        Fraction(0),
    )  # fmt: skip
    # which expert a token goes to is fixed in these programs, which the compiler would make use of
    routed = "E" in own.values()
    whole = None if routed else by_the_compiler(plan(layer, own, CHIPS, Policy(adds=False, experts=False)))
    difference = 0.0
    if numbers:
        small = layers.cut(trained)
        cut = plan(layer_of(small), schemes(small, pins), CHIPS)
        difference = max(compared(cut, with_shard_map(cut)))
    return Case(layers.name, trained, pins, rows(kept, own, exchanges), kinds, again, whole, unsaid, difference)


def said(link: Fraction | None) -> str:
    """Bytes as MB."""
    return "–" if link is None else f"{float(link) / MB:,.3f}".rstrip("0").rstrip(".")


def table(cases: list[Case]) -> str:
    """A line for each case."""
    text = (
        "| layer | phases | schemes | charged T3 | T6 | made, layouts kept | ratio | made again backward | by GSPMD "
        "| known differences | numbers |\n|---|---|---|--:|--:|--:|--:|--:|--:|---|--:|\n"
    )
    for one in cases:
        charged = {term: sum((r.charged for r in one.rows if r.term == term), Fraction(0)) for term in ("T3", "T6")}
        made, both = sum((r.compiled for r in one.rows), Fraction(0)), sum(charged.values())
        known = ", ".join(map(str, sorted({r.known for r in one.rows} - {0}))) or "none"
        ratio = f"{float(both / made):.3f}" if made else "–"
        text += (
            f"| {one.layer} | {'both' if one.trained else 'forward'} | {one.pins} | {said(charged['T3'])} "
            f"| {said(charged['T6'])} | {said(made)} | {ratio} | {said(one.again) if one.trained else '–'} "
            f"| {said(one.whole)} | {known} | {one.difference:.1e} |\n"
        )
    return text


def details(cases: list[Case]) -> str:
    """For each case its exchanges of which charged and made differ."""
    text = ""
    for one in cases:
        differing = [row for row in one.rows if row.known]
        if not differing:
            continue
        text += (
            f"\n### {one.title}\n| payer | term | tensor | charged | made | difference |\n|---|---|---|--:|--:|--:|\n"
        )
        for row in differing:
            text += f"| {row.payer} | {row.term} | {row.tensor} | {said(row.charged)} "
            text += f"| {said(row.compiled)} | {row.known} |\n"
    return text


def kinds(cases: list[Case]) -> str:
    """Bytes made by kind of collective."""
    names = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    text = "| layer, phases, schemes | " + " | ".join(names) + " |\n|---|" + "--:|" * len(names) + "\n"
    for one in cases:
        text += f"| {one.title} | " + " | ".join(said(one.kinds.get(name, Fraction(0))) for name in names) + " |\n"
    return text


def page(cases: list[Case], free: str, seconds: float) -> str:
    """The result."""
    from benchmarks.exchanges.written import jax

    known: dict[int, list[str]] = defaultdict(list)
    for one in cases:
        for number in sorted({row.known for row in one.rows} - {0}):
            known[number].append(one.title)
    unsaid = sum((one.unsaid for one in cases), Fraction(0))
    differences = "".join(
        f"{number}. {KNOWN[number]} In {len(known[number])} of the {len(cases)} rows above.\n"
        for number in KNOWN
        if known[number] or (free and number != max(KNOWN))
    )
    words = (" --free 60" if free else "") + (" --rivals 200" if "other mappings" in free else "")
    words += " --optimal" if "## Optimal" in free else ""
    return f"""# Exchanges of family `dataflow` against a compiler

Made by `python -m benchmarks.exchanges{words}`. JAX {jax.__version__}, Python {platform.python_version()}, \
{os.cpu_count()} cores, {seconds:,.0f} CPU s. One layer at its published widths on {CHIPS} chips, one sample. MB
(10^6 bytes) over a chip's link, two-byte words, as rings and switches move them.

| column | what |
|---|---|
| charged | what the family's pages count in T3 and T6, kernel by kernel, layouts kept |
| made | counted in the compiled program of `shard_map`, from the shapes of its collectives; a layout that a reader \
was sent stays for all later ones |
| made again backward | the same where a layout stays until the end of its phase alone |
| by GSPMD | each kernel's output is constrained to the layout of its scheme, and the compiler finds the exchanges |
| numbers | the largest difference of outputs and gradients from those of one device, at cut widths, over the largest \
number of each tensor |

Kernels run forward and backward under their schemes. Parameters rest where the forward kernel has them. Updates of
parameters that rest by columns run by columns.
Collectives that the compiler added, left out or changed against what was written: {said(unsaid)} MB in all rows.

Not judged: the backward phase of GPT, as its published kernels lack reads that derivatives need; sizes that eight
doesn't divide, which are padded; several samples; networks read from files, which don't say what a kernel computes.

{table(cases)}
## Known differences
In these points the pages don't charge what a compiler makes.

{differences}
{free}GSPMD isn't shown with experts of a chip's own. Which expert a token goes to is fixed in these programs, and the
compiler makes use of that. It doesn't add products before a sum over chips, as each one's layout is constrained.
Parts that several chips have (four key heads on eight chips) are whole for it.

## By kind of collective
{kinds(cases)}
## Where they differ
{details(cases)}"""


def main() -> int:
    """Print and write the page; 1 where numbers are off, a program isn't what was written, or a mapping is better than
    the optimum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="*", choices=[one.name for one in LAYERS], help="none given: all")
    parser.add_argument("--free", type=float, default=0.0, help="seconds to solve with free schemes")
    parser.add_argument("--rivals", type=int, default=0, help="mappings to compare the one with free schemes with")
    parser.add_argument("--optimal", action="store_true", help="judge the optimal mapping of each layer too")
    parser.add_argument("--no-numbers", action="store_true", help="don't run at cut widths")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    began, cases, free, stands = time.process_time(), list[Case](), "", True
    if args.free:
        from benchmarks.exchanges.free import free_schemes

        free = free_schemes(args.free)
        if args.rivals:
            from benchmarks.exchanges.rivals import rivals

            section, stands = rivals(args.free, args.rivals)
            free += section
        if args.optimal:
            from benchmarks.exchanges.optimal import optimal_layers

            section, right = optimal_layers(args.free)
            free, stands = free + section, stands and right
        print(free, flush=True)
    for layers in LAYERS:
        if args.layers and layers.name not in args.layers:
            continue
        for trained in (False, True) if layers.trained else (False,):
            for pins in layers.pins:
                if pins in BACKWARD and not trained:
                    continue
                cases.append(judged(layers, trained, pins, not args.no_numbers))
                print(table(cases[-1:]).splitlines()[-1], flush=True)
                args.out.write_text(page(cases, free, time.process_time() - began), encoding="utf-8")
    return int(not stands or any(one.difference > 2e-5 or one.unsaid for one in cases))


if __name__ == "__main__":
    sys.exit(main())
