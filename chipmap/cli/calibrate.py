"""``chipmap calibrate``: links from measured transfers; a machine from measured kernels, collectives and steps."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chipmap.cli import parsing
from chipmap.cli.common import say, write_file

if TYPE_CHECKING:
    from chipmap.instances.dataflow.machine_fit import Errors
    from chipmap.instances.placement.system import Route, System

    Pairs = dict[tuple[str, str], list[tuple[float, float]]]

EXAMPLES = (
    "chipmap calibrate transfers.csv",
    "chipmap calibrate transfers.csv --system p100-pcie-4 --out system.json",
    "chipmap calibrate pairs.csv --tree gpu0=pcie,gpu1=pcie,host=pcie",
    "chipmap calibrate kernels.csv collectives.csv steps.csv --system h100-sxm --out mine.json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Fit latency and rate of a link to measured transfers (family placement), a CSV file with columns bytes and ns.
    With source and target as well, fit a route for each pair. With --tree, fit the links that pairs share, and make a
    route for each two devices. Print the fit and its error, and write `links` (or `routes`) for the system of an
    instance, or with --system that system with them.
    Files with a column kernel, collective or busy_ns are measured on a machine of family dataflow: write the machine of
    --system with costs and shares that are fitted to them, and print the errors of the rows that weren't fitted."""
    what = "measured transfers: a line bytes,ns and a line for each; or several files of kernels, collectives and steps"
    parser.add_argument("measured", metavar="CSV", nargs="+", help=what)
    what = "write this system with what is fitted: a file, or a name such as p100-pcie-4 or h100-sxm"
    parser.add_argument("--system", metavar="FILE|NAME", help=what)
    what = "the tree of links that the devices hang on: each of its nodes but the root with the one above it"
    parser.add_argument("--tree", metavar="NODE=PARENT,...", help=what)
    what = "of a machine: how many units compute blocks of a product (132); products are then fitted by their shape"
    parser.add_argument("--units", metavar="N", type=parsing.whole, default=0, help=what)
    what = "of a machine: fit products and attention of this number format alone (may be repeated)"
    parser.add_argument("--format", metavar="NAME", action="append", default=[], help=what)
    parser.add_argument("--out", metavar="FILE", default="-", help="the file to write (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Read, fit, say, write."""
    from chipmap.instances.dataflow.machine_rows import is_machine
    from chipmap.instances.placement.calibrate import fit, measured, measured_pairs
    from chipmap.instances.placement.presets import system
    from chipmap.instances.placement.system import Links
    from chipmap.records import InputError
    from chipmap.records.quantities import share

    if any(map(is_machine, args.measured)):
        return _machine(args)
    if len(args.measured) > 1:
        remedy = "Give one file of transfers, or files of a machine: with a column kernel, collective or busy_ns."
        raise InputError("are several files of transfers", "CSV", remedy)
    args.measured = args.measured[0]
    whole = system(args.system) if args.system is not None else None
    pairs = measured_pairs(args.measured)
    if args.tree is not None:
        if not pairs:
            raise InputError(
                "needs columns source and target", args.measured, "Begin with a line: source,target,bytes,ns"
            )
        return _write(args, _tree(args, pairs, whole), whole)
    if pairs:
        return _write(args, _pairs(args, pairs), whole)
    if whole is not None and whole.routes:
        remedy = "Fit each route by itself, and write the numbers into it."
        raise InputError("has single routes, which the fit says nothing of", "--system", remedy)
    found = fit(measured(args.measured), args.measured)
    size, time, guess = found.worst
    say(f"latency {found.latency_ns:g} ns, rate {found.bytes_per_ns:g} bytes/ns (GB/s), from {found.points} transfers")
    say(f"error: {share(found.rms)} (root of the mean square), at most {share(abs(guess / time - 1))} "
        f"({size:g} bytes: {time:g} ns measured, {guess:.6g} ns fitted)")  # fmt: skip
    if found.cut:
        say("note: the best line has a latency below 0; it is taken as 0")
    links = found.links(Links() if whole is None or whole.links is None else whole.links)
    write_file(args.out, (links if whole is None else whole.replace(links=links)).to_json(indent=1))
    return 0


def _machine(args: argparse.Namespace) -> int:
    """A machine of family ``dataflow`` from measured kernels, collectives and steps."""
    from chipmap.instances.dataflow.equipping import named
    from chipmap.instances.dataflow.machine_fit import calibrated
    from chipmap.instances.dataflow.machine_rows import read_rows
    from chipmap.records import InputError

    if args.tree is not None:
        raise InputError("is for transfers between devices", "--tree", "Leave it out.")
    if args.system is None:
        remedy = "Give --system: a machine such as h100-sxm, or a file with your own peaks and rates."
        raise InputError("needs a machine's peaks and rates", "CSV", remedy)
    found = calibrated(named(args.system), read_rows(args.measured), args.units, args.format)
    say(*map(_errors, found.errors), *(f"note: {note}" for note in found.notes))
    chip, memory = found.system.chip, found.system.memory
    say(f"launch {chip.launch_ns:g} ns, {memory.efficiency:.3g} of DRAM's rate, step {found.system.step_ns:g} ns")
    for i, one in enumerate(found.system.network, 1):
        if one.start_ns or one.efficiency < 1:
            rate = f"{one.efficiency:.3g} of its rate"
            say(f"dimension {i}: start {one.start_ns:g} ns, latency {one.latency_ns:g} ns a step, {rate}")
    write_file(args.out, found.system.to_json(indent=1))
    return 0


def _errors(one: Errors) -> str:
    """A line about a group of rows."""
    from chipmap.records.quantities import share

    rows = f"{one.fitted} rows fitted, {one.judged} judge" if one.judged else f"{one.fitted} rows fitted, none judges"
    fit = f"error {share(one.median)} (median), {share(one.worst)} (most)"
    return f"{one.group}: {rows}: {fit}; by the data sheet {share(one.sheet_median)}, {share(one.sheet_worst)}"


def _pairs(args: argparse.Namespace, pairs: Pairs) -> list[Route]:
    """A route for each pair, fitted by itself."""
    from chipmap.instances.placement.calibrate import fit
    from chipmap.instances.placement.system import Route
    from chipmap.records.quantities import share

    routes = []
    for (source, target), points in pairs.items():
        found = fit(points, f"{args.measured}: {source} -> {target}")
        rate = f"latency {found.latency_ns:g} ns, rate {found.bytes_per_ns:g} bytes/ns (GB/s)"
        say(f"{source} -> {target}: {rate}, from {found.points} transfers, error {share(found.rms)}")
        ends = {"source": source, "target": target, "channels": (f"{source} -> {target}",)}
        routes.append(Route.make(**ends, latency_ns=found.latency_ns, bytes_per_ns=found.bytes_per_ns))
    return routes


def _tree(args: argparse.Namespace, pairs: Pairs, whole: System | None) -> list[Route]:
    """A route for each two devices, along the links of a tree that all pairs are fitted by together."""
    from itertools import permutations

    from chipmap.instances.placement.link_tree import LinkTree, fit_tree, root_mean_square
    from chipmap.records import listed
    from chipmap.records.quantities import share

    tree = LinkTree.read(args.tree)
    found = fit_tree(pairs, tree)
    for link, above in tree.parents.items():
        slope = found.ns_per_byte[link]
        rate = f"rate {1 / slope:.6g} bytes/ns (GB/s)" if slope > 0 else "no time per byte"
        say(f"{link} - {above}: latency {found.latency_ns[link]:.6g} ns, {rate}")
    for (source, target), errors in found.errors.items():
        worst = max(abs(error) for error in errors)
        say(f"{source} -> {target}: error {share(root_mean_square(errors))}, at most {share(worst)}")
    say(f"error of all {sum(map(len, found.errors.values()))} transfers: {share(found.rms)} (root of the mean square)")
    if found.mixed:
        say(f"note: these pairs don't tell {listed(found.mixed, 6)} apart: only sums along measured paths are known")
    devices = [one.name for one in whole.devices] if whole is not None else dict.fromkeys(n for p in pairs for n in p)
    inside = [name for name in devices if name in {*tree.parents, *tree.parents.values()}]
    return [found.route(source, target) for source, target in permutations(inside, 2)]


def _write(args: argparse.Namespace, routes: list[Route], whole: System | None) -> int:
    """Write the system with the routes in front of its links, or the routes alone."""
    import msgspec

    if whole is None:
        write_file(args.out, msgspec.json.format(msgspec.json.encode(routes), indent=1) + b"\n")
        return 0
    fitted = {(one.source, one.target) for one in routes}
    others = [one for one in whole.routes if (one.source, one.target) not in fitted]
    made = whole.replace(routes=[*routes, *others])
    made.check()
    write_file(args.out, made.to_json(indent=1))
    return 0
