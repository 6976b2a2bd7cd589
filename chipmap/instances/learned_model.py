"""A model of operations' times: a fit per operator, and the nearest measured operations scaled by it.

The fit of an operator is t = c₀ + c₁ · FLOP + c₂ · (bytes of activations) + c₃ · (bytes of parameters) + c₄ · (parts)
+ c₅ · (bytes of operands in another order), all c ≥ 0, with the least squares of (fit - t) / t over its measured
operations. c₃ is c₂ unless two architectures have parameters there: those of one, a small bias say, tell nothing of a
whole matrix. A convolution or padding has the fit of its sort (:func:`chipmap.networks.works.sort`) where so many of it
are measured. An operator with fewer than :data:`FEW` takes the fit of all. A prediction is the fit times
exp(Σ wᵢ rᵢ / (w₀ + Σ wᵢ)) over the :data:`NEAR` nearest operations of the operator or sort: rᵢ = ln(tᵢ / fitᵢ),
wᵢ = aᵢ / (ε + dᵢ²), and dᵢ is their distance. It is counted in log₂ of FLOP, the three kinds of bytes, parts, rows and
how far apart the numbers of a row lie, and in the share of what is read in another order, each times its
:data:`SCALES`. An architecture with n of them counts as √n, in fits too: aᵢ = √(m / n), where m is the least such n. So
a sweep of many chains, which counts as one architecture, doesn't outvote networks.

An operator that wasn't measured takes the nearest operations of all others, where an operator with n of them counts as
√n.

Intervals come from what the model says of each architecture when it knows the others alone. The error |ln(t / guess)|
of an operation is counted in its spread: the mean error of its neighbours. The half width is so many spreads that
:data:`COVERED` of the operations lie within, where each architecture counts the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chipmap.networks.works import Work

FEW, NEAR, AROUND = 6, 16, 8
#: w₀ and ε; the least spread, that of operators that weren't measured, and the share of operations within intervals.
PRIOR, EPSILON, LEAST_SPREAD, UNKNOWN_SPREAD, COVERED = 0.1, 0.5, 0.03, 0.7, 0.92
#: Of the fit, its terms; of places, what a doubling of each size counts, and operands in another order.
TERMS = 6
SCALES = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 2.0])
Array = np.ndarray[Any, np.dtype[np.float64]]


def _terms(works: Sequence[Work]) -> Array:
    """The rows 1, FLOP, bytes of activations, bytes of parameters, parts, turned bytes."""
    rows = [(1.0, one.flop, one.read + one.written, one.weights, one.parts, one.turned) for one in works]
    return np.array(rows, dtype=np.float64).reshape(-1, TERMS)


def _places(works: Sequence[Work]) -> Array:
    """Where operations lie among others: log₂(1 + size) of FLOP, bytes read, of parameters, written, parts, rows, how
    far apart their numbers lie; and the share that is turned. All times :data:`SCALES`."""
    rows = [(*one.sizes, one.parts, one.row, one.apart) for one in works]
    sizes = np.log2(1.0 + np.array(rows, dtype=np.float64).reshape(-1, len(SCALES) - 1))
    turned = [one.turned / (1 + one.read) for one in works]
    found: Array = np.column_stack([sizes, np.minimum(1.0, turned)]) * SCALES
    return found


def fitted(works: Sequence[Work], ns: Array, counts: Array | None = None, apart: bool = True) -> Array:
    """c₀ to c₅ of the least relative squares, of which each counts so much (once). Unless parameters are told ``apart``
    c₃ is c₂; c₄ and c₅ are 0 where all have equal parts or turned bytes."""
    from scipy.optimize import nnls

    terms, root = _terms(works), np.ones(len(ns)) if counts is None else np.sqrt(counts)
    if not apart:
        terms[:, 2], terms[:, 3] = terms[:, 2] + terms[:, 3], 0.0
    for at in (4, 5):
        if len(terms) and np.ptp(terms[:, at]) == 0:
            terms[:, at] = 0.0
    rows = terms / ns[:, None]
    scale = np.maximum(rows.max(axis=0, initial=0.0), 1e-300)
    found: Array = nnls(rows / scale * root[:, None], root)[0] / scale
    if not apart:
        found[3] = found[2]
    return found


def balanced(of: Any) -> Array:
    """What each operation counts among others by its architecture: √(m / n) (above)."""
    which = np.unique(of, return_inverse=True)[1]
    numbers = np.bincount(which)
    counts: Array = np.sqrt(numbers.min(initial=len(of) or 1) / numbers)[which]
    return counts


@dataclass
class _Operator:
    """The measured operations of an operator, its fit, and what is left of them: ln(t / fit)."""

    places: Array
    rest: Array
    fit: Array
    of: Any
    error: Array
    counts: Array

    def near(self, place: Array, count: int, without: int = -1) -> tuple[Any, Array]:
        """The nearest measured operations (none of architecture ``without``) and their weights. More parts than any of
        them has count as so many, and so do longer rows and the rest of how they go through memory."""
        place = np.concatenate([place[:4], np.minimum(place[4:], self.places[:, 4:].max(axis=0, initial=0.0))])
        apart = ((self.places - place) ** 2).sum(axis=1)
        apart[self.of == without] = np.inf
        count = min(count, int(np.isfinite(apart).sum()))
        chosen = np.argsort(apart, kind="stable")[:count]
        return chosen, self.counts[chosen] / (EPSILON + apart[chosen])


class Model:
    """What is learned of measured operations: their works and ns, and the architecture that each is of."""

    def __init__(self, works: Sequence[Work], ns: Sequence[float], of: Sequence[int], calibrate: bool = True) -> None:
        self.works, self.of = list(works), np.array(of)
        self.ns: Array = np.maximum(np.array(ns, dtype=np.float64), 1.0)
        counts = balanced(np.array([one.kind for one in self.works]))
        self.common = fitted(self.works, self.ns, counts)
        self.half_width = 0.0
        rows: dict[str, list[int]] = {}
        for i, one in enumerate(self.works):
            for name in {one.kind, one.group}:
                rows.setdefault(name, []).append(i)
        rows = {name: at for name, at in rows.items() if len(at) >= FEW or self.works[at[0]].kind == name}
        self.operators = {name: self._operator(at) for name, at in rows.items()}
        self.all = self._around(list(range(len(self.works))), self.common, counts)
        if calibrate:
            self._calibrate(rows)

    def among(self, work: Work) -> _Operator | None:
        """The measured operations of its sort, or of its operator; None if there are none."""
        return self.operators.get(work.group) or self.operators.get(work.kind)

    def _operator(self, at: list[int]) -> _Operator:
        works, ns = [self.works[i] for i in at], self.ns[at]
        counts = balanced(self.of[at])
        apart = len({of for of, one in zip(self.of[at].tolist(), works, strict=True) if one.weights}) > 1
        return self._around(at, fitted(works, ns, counts, apart) if len(at) >= FEW else self.common, counts)

    def _around(self, at: list[int], fit: Array, counts: Array) -> _Operator:
        """These measured operations, with what is left of them by a fit."""
        works = [self.works[i] for i in at]
        rest = np.log(self.ns[at] / np.maximum(_terms(works) @ fit, 1.0))
        return _Operator(_places(works), rest, fit, self.of[at], np.full(len(at), np.nan), counts)

    def without(self, architecture: int) -> Model:
        """The model that knows nothing of an architecture."""
        kept = np.flatnonzero(self.of != architecture).tolist()
        return Model([self.works[i] for i in kept], self.ns[kept].tolist(), self.of[kept].tolist(), False)

    def _calibrate(self, rows: dict[str, list[int]]) -> None:
        """Errors of each architecture by the others, and the half width that covers their share."""
        error = np.full(len(self.works), np.nan)
        for one in np.unique(self.of).tolist():
            own = np.flatnonzero(self.of == one)
            if len(own) == len(self.works):
                return
            guess = self.without(one).guesses([self.works[i] for i in own])
            error[own] = np.abs(np.log(self.ns[own] / guess))
        for kind, at in rows.items():
            self.operators[kind].error = error[at]
        spread = np.array([self._spread(one, int(of)) for one, of in zip(self.works, self.of, strict=True)])
        weight = 1.0 / np.bincount(self.of)[self.of]
        score = error / spread
        order = np.argsort(score, kind="stable")
        whole = np.cumsum(weight[order])
        self.half_width = float(score[order][min(np.searchsorted(whole, COVERED * whole[-1]), len(order) - 1)])

    def _spread(self, work: Work, without: int = -1) -> float:
        """The mean error of the nearest operations (of other architectures)."""
        found = self.among(work)
        if found is None:
            return UNKNOWN_SPREAD
        chosen, weights = found.near(_places([work])[0], AROUND, without)
        if not len(chosen) or np.isnan(found.error[chosen]).any():
            return UNKNOWN_SPREAD
        return max(LEAST_SPREAD, float(np.average(found.error[chosen], weights=weights)))

    def fits(self, works: Sequence[Work]) -> Array:
        """ns by the fit of each operator alone."""
        terms = _terms(works)
        groups = [self.among(one) for one in works]
        by = np.array([self.common if one is None else one.fit for one in groups])
        return np.maximum((terms * by.reshape(-1, TERMS)).sum(axis=1), 1.0)

    def guesses(self, works: Sequence[Work], near: int = NEAR, prior: float = PRIOR) -> Array:
        """ns of operations."""
        found, known = self.fits(works), dict[Work, float]()
        for i, (work, place) in enumerate(zip(works, _places(works), strict=True)):
            operator = self.among(work) or self.all
            if work not in known:
                chosen, weights = operator.near(place, near)
                known[work] = float(np.exp((weights * operator.rest[chosen]).sum() / (prior + weights.sum())))
            found[i] *= known[work]
        return found

    def intervals(self, works: Sequence[Work]) -> tuple[Array, Array]:
        """ns within which :data:`COVERED` of the operations of an unknown architecture are to lie."""
        guess = self.guesses(works)
        half = np.exp(self.half_width * np.array([self._spread(one) for one in works]))
        return guess / half, guess * half


def cut(ns: Sequence[float] | Array, stages: int) -> list[int]:
    """The ends of at most ``stages`` consecutive pieces whose largest sum is least (to 12 digits), by halving."""
    total = np.concatenate([[0.0], np.cumsum(np.asarray(ns, dtype=np.float64))])
    low, high = max(total[-1] / stages, float(np.max(ns, initial=0.0))), float(total[-1])

    def ends(most: float) -> list[int]:
        found = [0]
        while found[-1] < len(total) - 1 and len(found) <= stages:
            least = found[-1] + 1
            found.append(max(least, int(np.searchsorted(total, total[found[-1]] + most * (1 + 1e-12), "right")) - 1))
        return found[1:]

    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if ends(middle)[-1:] == [len(total) - 1] else (middle, high)
    return ends(high)


def period(ns: Sequence[float] | Array, ends: Sequence[int]) -> float:
    """The largest sum of the pieces that end there."""
    total = np.concatenate([[0.0], np.cumsum(np.asarray(ns, dtype=np.float64))])
    return float(np.diff(total[[0, *ends]]).max())
