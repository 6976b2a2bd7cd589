"""Cuts of a chain that know how wrong the predicted times may be, beside those by the predictions alone.

ln(t / guess) of an operation is modelled as the sum of two normal draws: one that all operations of its operator in a
network share, and one that all operations of the same work share. Their variances are those of the architectures that
the model has seen, each predicted by the others. A cut is then judged by samples of all times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.instances.learned import Network, model_of
from chipmap.instances.learned_model import cut
from chipmap.networks.works import Work

Array = Any
SAMPLES = 200
#: Networks that count as much as all operators' mean variance; the power of stage times that is summed.
PRIOR, POWER = 4.0, 8
#: The number of the architecture that chains of a sweep are counted as.
SWEPT = 10**6
#: How often each end is moved at most, one after the other.
ROUNDS = 20


class Errors(NamedTuple):
    """Variances by operator and sort: what its operations in a network share, and what those of the same work share."""

    shared: dict[str, float]
    own: dict[str, float]
    others: tuple[float, float]

    def draws(self, works: list[Work], seed: int, kinds: bool, same: bool) -> Array:
        """Factors of times [S, n]. Without ``kinds`` nothing is shared by operators; without ``same`` each operation
        has a draw of its own. The whole variance stays."""
        draw = np.random.default_rng(seed)
        sorts = [one.group for one in works]
        shared = np.array([self.shared.get(one, self.others[0]) for one in sorts])
        own = np.array([self.own.get(one, self.others[1]) for one in sorts])
        of_kind = np.unique(sorts, return_inverse=True)[1]
        numbers: dict[Work, int] = {}
        of_work = np.array([numbers.setdefault(one, len(numbers)) for one in works])
        if not same:
            of_work = np.arange(len(works))
        if not kinds:
            own, shared = own + shared, np.zeros(len(works))
        by_kind = draw.standard_normal((SAMPLES, int(of_kind.max()) + 1))[:, of_kind]
        by_work = draw.standard_normal((SAMPLES, int(of_work.max()) + 1))[:, of_work]
        return np.exp(by_kind * np.sqrt(shared) + by_work * np.sqrt(own))


def errors_of(found: list[Network], numbers: list[int], swept: list[Network]) -> Errors:
    """The errors of the model of these networks, where each architecture is predicted by the others and a sweep."""
    model = model_of([*found, *swept], [*numbers, *[SWEPT] * len(swept)], False)
    means: dict[str, list[float]] = {}
    left: dict[str, list[float]] = {}
    for architecture in sorted(set(numbers)):
        apart = model.without(architecture)
        for network, number in zip(found, numbers, strict=True):
            if number != architecture:
                continue
            alike: dict[Work, list[float]] = {}
            for work, ns in zip(network.works, network.ns, strict=True):
                alike.setdefault(work, []).append(ns)
            rest: dict[str, list[float]] = {}
            guess = apart.guesses(list(alike))
            for (work, times), by in zip(alike.items(), guess, strict=True):
                rest.setdefault(work.group, []).append(float(np.log(np.median(times) / by)))
            for kind, values in rest.items():
                means.setdefault(kind, []).append(float(np.median(values)))
                left.setdefault(kind, []).extend((np.array(values) - np.median(values)).tolist())
    common = [_variance(np.concatenate([np.array(one) for one in of.values()])) for of in (means, left)]

    def drawn(of: dict[str, list[float]], all_: float) -> dict[str, float]:
        return {
            kind: (len(values) * _variance(np.array(values)) + PRIOR * all_) / (len(values) + PRIOR)
            for kind, values in of.items()
        }

    return Errors(drawn(means, common[0]), drawn(left, common[1]), (common[0], common[1]))


def _variance(x: Array) -> float:
    """The square of 1.48 medians of the absolute values: a few wild ones don't count."""
    return float((1.48 * np.median(np.abs(x))) ** 2)


def by_powers(ns: Array, stages: int) -> list[int]:
    """The ends of so many pieces at most with the least sum of powers: nearly the least largest one, and the others
    balanced."""
    total = np.concatenate([[0.0], np.cumsum(ns)]) / ns.sum()
    piece = np.where(total[None, :] >= total[:, None], np.abs(total[None, :] - total[:, None]) ** POWER, np.inf)
    best, before = piece[0], list[Array]()
    for _ in range(stages - 1):
        every = best[:, None] + piece
        before.append(every.argmin(axis=0))
        best = every.min(axis=0)
    ends = [len(ns)]
    for one in reversed(before):
        ends.append(int(one[ends[-1]]))
    return [end for end in reversed(ends) if end > 0]


def by_samples(samples: Array, start: list[int], stages: int) -> list[int]:
    """Ends with the least mean of the largest piece over samples [S, n], by moving one end at a time."""
    total = np.concatenate([np.zeros((len(samples), 1)), np.cumsum(samples, axis=1)], axis=1)
    count = samples.shape[1]
    ends = [0, *start]
    while len(ends) < stages + 1:
        ends.insert(1, ends[1])
    for _ in range(ROUNDS):
        moved = False
        for k in range(1, len(ends) - 1):
            places = np.arange(ends[k - 1], ends[k + 1] + 1)
            rest = np.diff(total[:, [end for j, end in enumerate(ends) if j <= k - 1]], axis=1)
            behind = np.diff(total[:, [end for j, end in enumerate(ends) if j >= k + 1]], axis=1)
            fixed = np.concatenate([rest, behind, np.zeros((len(samples), 1))], axis=1).max(axis=1)
            here = total[:, places]
            value = np.maximum(
                np.maximum(here - total[:, [ends[k - 1]]], total[:, [ends[k + 1]]] - here), fixed[:, None]
            ).mean(axis=0)
            at = int(places[value.argmin()])
            if value.min() < value[ends[k] - ends[k - 1]] * (1 - 1e-12):
                ends[k], moved = at, True
        if not moved:
            break
    return sorted({end for end in ends if 0 < end <= count})


def all_cuts(works: list[Work], guess: Array, high: Array, errors: Errors, stages: int) -> dict[str, list[int]]:
    """The cuts that are compared."""
    point, powers = cut(guess, stages), by_powers(guess, stages)
    found = {"point": point, "high ends": cut(high, stages), "powers": powers}
    for name, kinds, same in (
        ("samples, each alone", False, False),
        ("samples, by work", False, True),
        ("samples, by work and operator", True, True),
    ):
        samples = guess * errors.draws(works, 0, kinds, same)
        some = [by_samples(samples, start, stages) for start in (point, powers)]
        found[name] = min(some, key=lambda ends: _mean(samples, ends))
    return found


def _mean(samples: Array, ends: list[int]) -> float:
    total = np.concatenate([np.zeros((len(samples), 1)), np.cumsum(samples, axis=1)], axis=1)
    return float(np.diff(total[:, [0, *ends]], axis=1).max(axis=1).mean())
