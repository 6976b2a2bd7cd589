"""``--costs learned:FILE``: times of operations that weren't measured, from a table of those that were.

FILE is a table of ``chipmap measure`` of other networks. It has the work of each operation beside its time
(:mod:`chipmap.networks.works`), from which :mod:`.learned_model` predicts. Graphs with mostly the same modules (their
numbers left out) are one architecture. How far to trust a period is learned as well: each network is predicted by the
other architectures, and cut into 1, 2, 4 and 8 consecutive stages; of the measured periods of these plans, as shares of
the predicted ones, the 5% and the 95% quantile are the spread, 1 within it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import numpy as np

from chipmap.instances.learned_model import Model, cut, period
from chipmap.instances.measured_trace import unpacked
from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.common import MAX_NS
from chipmap.networks.works import Work, canonical, works
from chipmap.records import InputError, Source, counted, listed
from chipmap.records.quantities import share

PREFIX = "learned:"
STAGES = (1, 2, 4, 8)
#: Shares of networks' plans whose periods lie below and above the spread.
TAIL = 0.05
#: Graphs with so large a part of their modules in common are of one architecture.
ALIKE = 0.5
#: The most FLOP and bytes of an operation.
MOST = 10**24
_NEEDED = ("graph", "operator", "flop", "read", "weights", "written", "ns")
_REMEDY = "Give a table of `chipmap measure`; an old one gets these columns when the same command is run again."


@dataclass
class Network:
    """The measured operations of a graph in their order: works, ns, and their modules without numbers."""

    works: list[Work] = field(default_factory=list)
    ns: list[float] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)


def source_of(text: str) -> Source:
    """The file that a value of ``--costs`` names, behind ``learned:`` too.

    Raises :class:`InputError` for no name, and for the name of a preset.
    """
    name = text.removeprefix(PREFIX)
    if not name:
        raise InputError(f"{text!r} names no file", "--costs", "Name a table: --costs times.csv.")
    if not PurePath(name).suffix and not Path(name).exists():
        remedy = "Name a table of times. Presets such as roofline are for family 'multimodel' alone."
        raise InputError(f"no file is called {name!r}", "--costs", remedy)
    return unpacked(Source(name))


def networks(file: str) -> dict[str, dict[str, Network]]:
    """The measured networks of a table by class of devices and graph. Raises :class:`InputError`."""
    source = source_of(file)
    table = csv.DictReader(io.StringIO(source.content().decode("utf-8-sig", "replace"), newline=""))
    lacking = [name for name in _NEEDED if name not in (table.fieldnames or ())]
    if lacking:
        raise InputError(f"can't be learned from: it has no columns {listed(lacking, 8)}", source.where, _REMEDY)
    found: dict[str, dict[str, Network]] = {}
    for row in table:
        network = found.setdefault(row.get("class") or "", {}).setdefault(row["graph"], Network())
        try:
            flop, read, weights, written = sizes = [int(row[name]) for name in ("flop", "read", "weights", "written")]
            sizes.append(parts := int(row.get("parts") or 1))
            way = [int(row.get(name) or least) for name, least in (("row", 1), ("apart", 1), ("turned", 0))]
            network.ns.append(float(row["ns"]))
        except (TypeError, ValueError):
            what = "has a size or a time that is no number"
            raise InputError(what, f"{source.where}: line {table.line_num}", _REMEDY) from None
        if not (0 <= network.ns[-1] <= MAX_NS and all(0 <= size <= MOST for size in (*sizes, *way))):
            what = f"has a time that isn't 0 to {MAX_NS:g} ns, or a size that isn't 0 to {MOST:g}"
            raise InputError(what, f"{source.where}: line {table.line_num}", _REMEDY)
        kind, sort = canonical(row["operator"], weights), row.get("sort") or ""
        network.works.append(Work(kind, flop, read, weights, written, sort, parts, *way))
        network.modules.add(re.sub(r"\d+", "#", row.get("module") or ""))
    if not found:
        raise InputError("has no times to learn from", source.where, _REMEDY)
    return found


def architectures(found: Mapping[str, Network]) -> list[int]:
    """The number of each network's architecture: that of the first network that it has most modules in common with."""
    first: list[set[str]] = []
    numbers = []
    for network in found.values():
        mine = network.modules
        at = next((i for i, one in enumerate(first) if len(mine & one) > ALIKE * len(mine | one)), len(first))
        if at == len(first):
            first.append(mine)
        numbers.append(at)
    return numbers


def model_of(found: Sequence[Network], numbers: Sequence[int], calibrate: bool = True) -> Model:
    """The model of networks of these architectures: equal operations of a network count once, with their median."""
    rows: list[Work] = []
    ns: list[float] = []
    of: list[int] = []
    for network, number in zip(found, numbers, strict=True):
        alike: dict[Work, list[float]] = {}
        for work, time in zip(network.works, network.ns, strict=True):
            alike.setdefault(work, []).append(time)
        rows += alike
        ns += [float(np.median(times)) for times in alike.values()]
        of += [number] * len(alike)
    return Model(rows, ns, of, calibrate)


def spread_of(found: Sequence[Network], numbers: Sequence[int], model: Model) -> tuple[float, float] | None:
    """What of the predicted periods the measured ones are, from and to; None for a single architecture."""
    if len(set(numbers)) < 2:
        return None
    shares = []
    for network, number in zip(found, numbers, strict=True):
        guess = model.without(number).guesses(network.works)
        for stages in STAGES:
            ends = cut(guess, stages)
            shares.append(period(network.ns, ends) / period(guess, ends))
    low, high = np.quantile(shares, [TAIL, 1 - TAIL]).tolist()
    return min(round(low, 4), 1.0), max(round(high, 4), 1.0)


@dataclass(frozen=True)
class Learned:
    """Predicted ns of operations (None: it computes nothing), by class; the spread of periods; what to say."""

    by_class: dict[str, tuple[float | None, ...]]
    spread: tuple[float, float] | None
    note: str


def learned(graph: OperationGraph, file: str) -> Learned:
    """The predicted times of a graph's computing operations from a table of other networks."""
    all_works = works(graph)
    at = [v for v, operation in enumerate(graph.operations) if operation.role == "compute"]
    own = [all_works[v] for v in at]
    by_class: dict[str, tuple[float | None, ...]] = {}
    spreads, notes = list[tuple[float, float]](), list[str]()
    for kind, found in networks(file).items():
        numbers = architectures(found)
        model = model_of(list(found.values()), numbers, calibrate=False)
        guess = model.guesses(own)
        given: list[float | None] = [None] * len(graph.operations)
        for v, ns in zip(at, guess.tolist(), strict=True):
            given[v] = round(ns, 1)
        by_class[kind] = tuple(given)
        spread = spread_of(list(found.values()), numbers, model)
        told = f"learned times from {counted(len(found), 'network')} of {counted(len(set(numbers)), 'architecture')}"
        if spread is not None:
            spreads.append(spread)
            told += f"; 9 of 10 periods of others were measured at {spread[0]:.2f} to {spread[1]:.2f} of the predicted"
        unknown = [i for i, one in enumerate(own) if one.kind not in model.operators]
        if unknown:
            names = listed(sorted({own[i].kind for i in unknown}), 4)
            part = share(float(guess[unknown].sum()), float(guess.sum()))
            told += f"; {counted(len(unknown), 'operation')} with {part} of the time are of operators that weren't "
            told += f"measured ({names}): by the fit of all"
        notes.append(told)
    low_high = (min(one for one, _ in spreads), max(one for _, one in spreads)) if spreads else None
    return Learned(by_class, low_high, "; ".join(notes))
