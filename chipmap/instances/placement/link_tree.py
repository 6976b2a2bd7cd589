"""Latency and rate of the links of a tree, fitted to transfers between its devices.

The time of a transfer is the sum over the links on its path: t = Σ (latency + bytes / rate), as where each switch
passes a message on whole. So measured pairs share links, and a pair that wasn't measured follows from those that were.
The squares of the relative errors are summed up, as for a single link (:mod:`.calibrate`), with no latency and no time
per byte below 0: nonnegative least squares (Lawson and Hanson 1974, chapter 23).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.calibrate import DIGITS
from chipmap.instances.placement.system import Route
from chipmap.records import InputError, listed

Matrix = NDArray[np.float64]
Points = Mapping[tuple[str, str], Sequence[tuple[float, float]]]
_FORM = "Write each once with what it hangs on, one root: gpu0=switch,gpu1=switch,host=switch."


@dataclass(frozen=True)
class LinkTree:
    """A tree: ``parents`` of all nodes but the root. A link is named by its lower end."""

    parents: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> LinkTree:
        """``gpu0=switch,gpu1=switch``; :class:`InputError` for what is no tree."""
        parents: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            child, equals, parent = (one.strip() for one in part.partition("="))
            if not (child and equals and parent):
                raise InputError(f"{part[:60]!r} is no link of a tree", "--tree", _FORM)
            if child in parents:
                raise InputError(f"{child!r} hangs on two: {parents[child]!r} and {parent!r}", "--tree", _FORM)
            parents[child] = parent
        roots = {parent for parent in parents.values() if parent not in parents}
        if len(roots) != 1:
            what = f"has {len(roots)} roots: {listed(sorted(roots))}" if roots else "has no root: it is a circle"
            raise InputError(what, "--tree", _FORM)
        made = cls(parents)
        for name in parents:
            made.above(name)
        return made

    def above(self, name: str) -> list[str]:
        """``name`` and all above it, up to the root; :class:`InputError` for a circle."""
        found = [name]
        while found[-1] in self.parents:
            found.append(self.parents[found[-1]])
            if len(found) > len(self.parents) + 1:
                raise InputError(f"{name!r} hangs on itself, in a circle", "--tree", _FORM)
        return found

    def path(self, source: str, target: str) -> list[str]:
        """The nodes from one to the other, both included."""
        up, down = self.above(source), self.above(target)
        meet = next(name for name in up if name in down)
        return [*up[: up.index(meet) + 1], *reversed(down[: down.index(meet)])]

    def links(self, source: str, target: str) -> list[str]:
        """The links on the path."""
        return [a if self.parents.get(a) == b else b for a, b in pairwise(self.path(source, target))]


@dataclass(frozen=True)
class TreeFit:
    """Per link (its lower end) the latency and the time per byte, in ns; per pair the relative errors of its points.

    ``mixed``: links that these pairs can't tell apart, of which only sums are known.
    """

    tree: LinkTree
    latency_ns: Mapping[str, float]
    ns_per_byte: Mapping[str, float]
    errors: Mapping[tuple[str, str], Sequence[float]]
    mixed: tuple[str, ...]

    @property
    def rms(self) -> float:
        """Root of the mean square of all relative errors."""
        return root_mean_square([error for errors in self.errors.values() for error in errors])

    def route(self, source: str, target: str) -> Route:
        """The route along the path: its channels are the links, each in its direction, which other routes share."""
        links = self.tree.links(source, target)
        slope = sum(self.ns_per_byte[link] for link in links)
        return Route.make(
            source=source,
            target=target,
            latency_ns=_rounded(sum(self.latency_ns[link] for link in links)),
            bytes_per_ns=_rounded(1 / slope) if slope > 0 else None,
            channels=tuple(f"{a} -> {b}" for a, b in pairwise(self.tree.path(source, target))),
        )


def fit_tree(points: Points, tree: LinkTree) -> TreeFit:
    """The links of ``tree`` by the transfers of each pair; :class:`InputError` for a pair that isn't in the tree."""
    from scipy.optimize import nnls

    known = {*tree.parents, *tree.parents.values()}
    for name in dict.fromkeys(name for pair in points for name in pair):
        if name not in known:
            raise InputError(f"device {name!r} isn't in the tree", "--tree", f"Say what it hangs on: {name}=switch.")
    links = list(tree.parents)
    place = {link: j for j, link in enumerate(links)}
    paths = np.zeros((len(points), len(links)))
    for row, (source, target) in zip(paths, points, strict=True):
        row[[place[link] for link in tree.links(source, target)]] = 1
    rows, owners = [], list[tuple[str, str]]()
    for row, (pair, measured) in zip(paths, points.items(), strict=True):
        for size, time in measured:
            rows.append(np.concatenate([row, row * size]) / time)
            owners.append(pair)
    matrix = np.array(rows)
    scale = np.linalg.norm(matrix, axis=0)  # a latency in ns and a time per byte in ns are far apart
    scale[scale == 0] = 1.0
    found = nnls(matrix / scale, np.ones(len(rows)))[0] / scale
    errors: dict[tuple[str, str], list[float]] = {pair: [] for pair in points}
    for pair, error in zip(owners, (matrix @ found - 1).tolist(), strict=True):
        errors[pair].append(round(error, 9))
    count = len(links)
    latency, slope = (dict(zip(links, part.tolist(), strict=True)) for part in (found[:count], found[count:]))
    return TreeFit(tree, latency, slope, errors, tuple(_mixed(paths, links)))


def _mixed(paths: Matrix, links: list[str]) -> list[str]:
    """The links whose own share no combination of the paths tells."""
    rank = np.linalg.matrix_rank(paths)
    found = []
    for j, link in enumerate(links):
        alone = np.zeros((1, len(links)))
        alone[0, j] = 1
        if np.linalg.matrix_rank(np.vstack([paths, alone])) > rank:
            found.append(link)
    return found


def root_mean_square(errors: Sequence[float]) -> float:
    """√(Σ e² / n)."""
    return math.sqrt(sum(error**2 for error in errors) / max(1, len(errors)))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
