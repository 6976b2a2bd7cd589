"""``chipmap calibrate``: latency and rate of links from measured transfers."""

from __future__ import annotations

import argparse
from typing import Any

from chipmap.cli.common import say, write_file

EXAMPLES = (
    "chipmap calibrate transfers.csv",
    "chipmap calibrate transfers.csv --system p100-pcie-4 --out system.json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Fit latency and rate of a link to measured transfers (family placement): a CSV file with columns bytes and ns;
    with source and target as well, a route for each pair. Print the fit and its error, and write `links` (or `routes`)
    for the system of an instance, or with --system that system with them."""
    parser.add_argument("measured", metavar="CSV", help="measured transfers: a line bytes,ns and a line for each")
    what = "write this system with the fitted links: a file, or a name such as p100-pcie-4"
    parser.add_argument("--system", metavar="FILE|NAME", help=what)
    parser.add_argument("--out", metavar="FILE", default="-", help="the file to write (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Read, fit, say, write."""
    from chipmap.instances.placement.calibrate import fit, measured, measured_pairs
    from chipmap.instances.placement.presets import system
    from chipmap.instances.placement.system import Links
    from chipmap.records import InputError
    from chipmap.records.quantities import share

    whole = system(args.system) if args.system is not None else None
    if pairs := measured_pairs(args.measured):
        return _pairs(args, pairs, whole)
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


def _pairs(args: argparse.Namespace, pairs: dict[tuple[str, str], list[tuple[float, float]]], whole: Any) -> int:
    """Fit a route for each pair, and write the system with them in front of its links, or the routes alone."""
    import msgspec

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
    if whole is None:
        write_file(args.out, msgspec.json.format(msgspec.json.encode(routes), indent=1) + b"\n")
        return 0
    others = [one for one in whole.routes if (one.source, one.target) not in pairs]
    made = whole.replace(routes=[*routes, *others])
    made.check()
    write_file(args.out, made.to_json(indent=1))
    return 0
