"""How well times of operations of an unknown architecture are predicted: operations, totals, intervals, plans.

Each network is predicted by all other architectures. Baselines are a data sheet, a roofline with a constant, the fit of
each operator with its constant, the nearest measured operation as it is, and the measurement of another occasion (the
passes between, against every second one).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from benchmarks.costs import cuts
from chipmap.instances.learned import Network, model_of
from chipmap.instances.learned_model import Model, cut, period
from chipmap.networks.works import Work

Array = Any
#: One core of the processor that measured: 32 FLOP in each of 3.7 · 10⁹ cycles, and its part of DDR5-4800, in bytes.
FLOP_PER_NS, BYTES_PER_NS = 118.4, 38.4
LONG, SHORT = 200_000.0, 20_000.0
STAGES, PLANS = (2, 4, 8), 50
PREDICTORS = ("data sheet", "roofline fitted", "fit per operator", "nearest", "learned", "one sort", "repeat")


@dataclass
class Case:
    """A measured network: its name and architecture, two occasions, whole passes, and predictions by name.

    ``cuts``: by the number of stages and the way of cutting (:mod:`benchmarks.costs.cuts`).
    """

    name: str
    architecture: str
    network: Network
    ns: Array
    other: Array
    guesses: dict[str, Array]
    low: Array
    high: Array
    cuts: dict[int, dict[str, list[int]]]


def sheet(works: list[Work]) -> Array:
    """ns by the data sheet: the larger of FLOP and bytes by their rates."""
    flop = np.array([one.flop for one in works]) / FLOP_PER_NS
    moved = np.array([one.read + one.weights + one.written for one in works]) / BYTES_PER_NS
    return np.maximum(np.maximum(flop, moved), 1.0)


def roofline(works: list[Work], ns: Array) -> Callable[[list[Work]], Array]:
    """c + max(FLOP / a, bytes / b) of least squares of the logarithm."""

    def at(parameters: Array, ones: list[Work]) -> Array:
        flop = np.array([one.flop for one in ones], dtype=float)
        moved = np.array([one.read + one.weights + one.written for one in ones], dtype=float)
        a, b, c = np.exp(parameters)
        return c + np.maximum(flop / a, moved / b)

    start = np.log([50.0, 10.0, 2000.0])
    found = least_squares(lambda p: np.log(at(p, works)) - np.log(ns), start, loss="soft_l1").x
    return lambda ones: at(found, ones)


def _together(found: list[Network]) -> list[Network]:
    """The same with one sort of convolutions."""
    return [Network([one._replace(sort="") for one in network.works], network.ns, set()) for network in found]


def cases(
    named: list[tuple[str, str, Network, Array, Array]],
    swept: list[Network],
    judged: list[tuple[str, str, Network, Array, Array]],
) -> Iterator[Case]:
    """Each judged network (name, architecture, works and medians, two occasions), predicted by the other architectures
    among ``named`` and by the networks of a sweep."""
    names = sorted({one[1] for one in (*named, *judged)})
    numbers = [names.index(one[1]) for one in named]
    halves = [Network(one[2].works, list(one[3]), one[2].modules) for one in named]
    made: dict[tuple[int, ...], tuple[Model, cuts.Errors, Model, Callable[[list[Work]], Array]]] = {}
    for one in judged:
        others = tuple(i for i in range(len(named)) if names[numbers[i]] != one[1])
        if others not in made:
            seen, of = [halves[i] for i in others], [numbers[i] for i in others]
            more = [*seen, *swept], [*of, *[cuts.SWEPT] * len(swept)]
            model, wrong = model_of(*more), cuts.errors_of(seen, of, swept)
            plain = model_of(_together(more[0]), more[1], False)
            made[others] = model, wrong, plain, roofline(model.works, model.ns)
        model, wrong, plain, line = made[others]
        found = _case(one, one[1], model, line, wrong)
        found.guesses["one sort"] = plain.guesses(_together([one[2]])[0].works)
        yield found


def _case(
    one: tuple[str, str, Network, Array, Array],
    architecture: str,
    model: Model,
    line: Callable[[list[Work]], Array],
    wrong: cuts.Errors,
) -> Case:
    name, _, network, ns, other = one
    works = network.works
    low, high = model.intervals(works)
    guesses = {
        "data sheet": sheet(works),
        "roofline fitted": line(works),
        "fit per operator": model.fits(works),
        "nearest": model.guesses(works, 1, 0.0),
        "learned": model.guesses(works),
        "repeat": other,
    }
    ways = {stages: cuts.all_cuts(works, guesses["learned"], high, wrong, stages) for stages in STAGES}
    for stages, found in ways.items():
        found["repeat, point"], found["repeat, powers"] = cut(other, stages), cuts.by_powers(other, stages)
    return Case(name, architecture, network, ns, other, guesses, low, high, ways)


def errors(found: list[Case], predictor: str) -> dict[str, float]:
    """Median errors of operations by their time, weighted by it, and errors of totals; shares."""
    ns = np.concatenate([one.ns for one in found])
    guess = np.concatenate([one.guesses[predictor] for one in found])
    error = np.abs(guess / ns - 1)
    order = np.argsort(error)
    whole = np.cumsum(ns[order])
    totals = [abs(one.guesses[predictor].sum() / one.ns.sum() - 1) for one in found]
    return {
        "long": float(np.median(error[ns > LONG])),
        "short": float(np.median(error[(ns > SHORT) & (ns <= LONG)])),
        "weighted": float(error[order][np.searchsorted(whole, whole[-1] / 2)]),
        "mean": float((error * ns).sum() / ns.sum()),
        "totals": float(np.median(totals)),
        "totals90": float(np.quantile(totals, 0.9)),
    }


def covered(found: list[Case]) -> dict[str, float]:
    """The share of operations within their intervals (mean over networks; weighted by time), and high / low."""
    inside = [(one.low <= one.ns) & (one.ns <= one.high) for one in found]
    shares = [float(one.mean()) for one in inside]
    by_time = [float((here * one.ns).sum() / one.ns.sum()) for here, one in zip(inside, found, strict=True)]
    wide = np.concatenate([one.high / one.low for one in found])
    ns = np.concatenate([one.ns for one in found])
    return {
        "operations": float(np.mean(shares)),
        "by time": float(np.mean(by_time)),
        "high/low": float(np.median(wide)),
        "high/low, over 20 µs": float(np.median(wide[ns > SHORT])),
    }


def losses(found: list[Case], predictor: str, stages: int) -> list[float]:
    """For each network how much longer than the best chain cut the one by predicted times takes, by measured ones."""
    lost = []
    for one in found:
        best = period(one.ns, cut(one.ns, stages))
        lost.append(period(one.ns, cut(one.guesses[predictor], stages)) / best - 1)
    return lost


def losses_of_cuts(found: list[Case], way: str, stages: int) -> list[float]:
    """The same for a way of cutting by the learned times, or by the repeat."""
    every = ((period(one.ns, one.cuts[stages][way]), period(one.ns, cut(one.ns, stages))) for one in found)
    return [mine / best - 1 for mine, best in every]


def ranks(found: list[Case], predictor: str, stages: int = 4) -> list[float]:
    """For each network the rank correlation of predicted and measured periods over plans with random cuts."""
    figures = []
    for one in found:
        draw = random.Random(one.name)
        plans = [[*sorted(draw.sample(range(1, len(one.ns)), stages - 1)), len(one.ns)] for _ in range(PLANS)]
        given = [[period(ns, ends) for ends in plans] for ns in (one.ns, one.guesses[predictor])]
        figures.append(float(spearmanr(*given).statistic))
    return figures
