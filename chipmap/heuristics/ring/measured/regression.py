"""Bayesian least squares where each observation is the largest of several linear forms, and it isn't told which.

Observation i: z_i = max over k of f_ik, with f_ik = row_ik · θ + constant_ik + θ_τ · max(0, held_ik - τ), up to a
relative error of standard deviation ``noise``. All θ are independent and normal around 0, and τ is one of some
thresholds, each as likely. So all forms are jointly normal given τ; f, row and constant are divided by z here, so that
every observed value is 1.

A :class:`Reading` says which form is the largest of each observation, and τ. Given these, the observation is worth an
equation for the largest form and an inequality f <= 1 for each other one. The estimate of θ minimises

    θ · θ / deviation² + sum over i of (f_i,largest - 1)² / noise² + sum over the others of max(0, f_ik - 1)² / noise²,

a convex problem (an active set of inequalities is treated as equations until it agrees with itself). A reading is
improved by Gibbs sampling: the largest form of one observation anew, given the rest, then τ by its likelihood.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.ring.problem import IntArray

Floats = NDArray[np.float64]

#: Rounds of the active set; it mostly agrees with itself after three.
ROUNDS = 12
#: Other thresholds that may replace one at a time.
TRIED = 8


class Forms:
    """The forms of all observations so far, [M] in one row: what readings share."""

    def __init__(self, deviation: Floats, beyond: float, thresholds: Floats, noise: float) -> None:
        """``deviation`` [θ] and ``beyond``: standard deviations of θ and θ_τ; ``thresholds`` [T]."""
        self.variance, self.beyond, self.thresholds, self.noise = deviation**2, beyond**2, thresholds, noise
        self.rows = np.zeros((0, len(deviation)))
        self.constants = np.zeros(0)
        #: [T, M]: max(0, held - τ).
        self.over = np.zeros((len(thresholds), 0))
        #: [M, M] covariances without the part of θ_τ.
        self.covariance = np.zeros((0, 0))
        #: Observation i has the forms parts[i].
        self.parts: list[slice] = []

    def observe(self, rows: Floats, constants: Floats, held: Floats, value: float) -> None:
        """The forms of one more observation [k, θ], [k], [k] and its ``value`` > 0."""
        start, rows = len(self.constants), rows / value
        cross = (rows * self.variance) @ np.concatenate((self.rows, rows)).T
        self.covariance = np.block([[self.covariance, cross[:, :start].T], [cross[:, :start], cross[:, start:]]])
        self.rows = np.concatenate((self.rows, rows))
        self.constants = np.concatenate((self.constants, constants / value))
        over = np.maximum(0.0, held - self.thresholds[:, None]) / value
        self.over = np.concatenate((self.over, over), axis=1)
        self.parts.append(slice(start, len(self.constants)))

    def covariances(self, first: IntArray | slice, second: IntArray, which: int) -> Floats:
        """[a, b] covariances of two sets of forms under the threshold of that number."""
        plain = self.covariance[first][:, second]
        found: Floats = plain + self.beyond * np.outer(self.over[which, first], self.over[which, second])
        return found


class Weights(NamedTuple):
    """θ is the sum over ``forms`` of ``alpha`` · variance · row, plus what it started from; ``loss``: the minimum."""

    forms: IntArray
    alpha: Floats
    loss: float


class Reading:
    """Which form is the largest of each observation, and which threshold it is: one state of the Gibbs sampler."""

    def __init__(self, forms: Forms, random: np.random.Generator) -> None:
        self._forms, self._random = forms, random
        self.which = int(random.integers(len(forms.thresholds)))
        self.largest: list[int] = []
        self._solved: Weights | None = None
        #: The forms that were equations in the last estimate: where the next active set begins.
        self._active = np.zeros(0, dtype=np.int64)

    def improve(self, sweeps: int) -> None:
        """Read observations that are new, ``sweeps`` others anew, and choose the threshold anew."""
        while len(self.largest) < len(self._forms.parts):
            self._read(len(self.largest))
        for i in self._random.permutation(len(self.largest))[:sweeps].tolist():
            self._read(i)
        self._choose_threshold()

    def estimate(self) -> tuple[Floats, float]:
        """θ [θ] and θ_τ that agree best with this reading."""
        return self._theta(self._weights(), np.zeros(self._forms.rows.shape[1]), 0.0)

    def draw(self) -> tuple[Floats, float]:
        """θ and θ_τ from their distribution given this reading: the estimate from randomly disturbed data."""
        forms, random = self._forms, self._random
        theta = random.standard_normal(forms.rows.shape[1]) * np.sqrt(forms.variance)
        beyond = float(random.standard_normal() * np.sqrt(forms.beyond))
        shift = forms.rows @ theta + beyond * forms.over[self.which]
        shift = shift + forms.noise * random.standard_normal(len(shift))
        return self._theta(self._solve(shift), theta, beyond)

    @property
    def score(self) -> float:
        """Logarithm of the reading's likelihood, up to a constant: the loss and the volume of what it leaves free."""
        return self._score(self._weights(), self.which)

    def _score(self, solved: Weights, which: int) -> float:
        named = np.array(self.largest, dtype=np.int64)
        covariance = self._forms.covariances(named, named, which) + self._forms.noise**2 * np.eye(len(named))
        return -solved.loss / 2 - float(np.linalg.slogdet(covariance)[1]) / 2

    def _weights(self) -> Weights:
        if self._solved is None:
            self._solved = self._solve(np.zeros(len(self._forms.constants)))
            self._active = self._solved.forms
        return self._solved

    def _theta(self, solved: Weights, theta: Floats, beyond: float) -> tuple[Floats, float]:
        forms, part = self._forms, solved.forms
        moved = theta + forms.variance * (solved.alpha @ forms.rows[part])
        return moved, beyond + forms.beyond * float(solved.alpha @ forms.over[self.which, part])

    def _solve(self, shift: Floats, without: int = -1, which: int | None = None) -> Weights:
        """The estimate where the forms are ``shift`` [M] higher at θ = 0, ``without`` one of the observations."""
        forms, which = self._forms, self.which if which is None else which
        equal = np.zeros(len(shift), dtype=bool)
        equal[[k for i, k in enumerate(self.largest) if i != without]] = True
        seen = np.zeros(len(shift), dtype=bool)
        seen[: forms.parts[len(self.largest) - 1].stop if self.largest else 0] = True
        if without >= 0:
            seen[forms.parts[without]] = False
        missing, active = 1.0 - forms.constants - shift, equal.copy()
        active[self._active] = True
        active &= seen
        for _ in range(ROUNDS):
            part = np.flatnonzero(active)
            covariance = forms.covariances(part, part, which) + forms.noise**2 * np.eye(len(part))
            alpha: Floats = np.linalg.solve(covariance, missing[part]).astype(np.float64)
            moved = forms.covariances(slice(None), part, which) @ alpha - missing
            fresh = equal | (seen & ~active & (moved > 1e-9))
            fresh[part[alpha < 0.0]] = True
            if (fresh == active).all():
                break
            active = fresh
        return Weights(part, alpha, float(missing[part] @ alpha))

    def _read(self, i: int) -> None:
        """Draw the largest form of observation i given the other observations; the last one may be new."""
        forms, part = self._forms, self._forms.parts[i]
        solved = self._solve(np.zeros(len(forms.constants)), without=i) if self.largest else None
        prior = forms.beyond * forms.over[self.which, part] ** 2 + np.diag(forms.covariance)[part]
        mean, variance = forms.constants[part].copy(), prior
        if solved is not None and len(solved.forms):
            cross = forms.covariances(part, solved.forms, self.which)
            known = forms.covariances(solved.forms, solved.forms, self.which)
            known += forms.noise**2 * np.eye(len(known))
            mean += cross @ solved.alpha
            variance = np.maximum(0.0, prior - np.einsum("km,mk->k", cross, np.linalg.solve(known, cross.T)))
        deviation = np.sqrt(variance + forms.noise**2)
        away = (1.0 - mean) / deviation
        below = log_below(away)
        chance = -(away**2) / 2 - np.log(deviation) + below.sum() - below
        chance = np.exp(chance - chance.max())
        named = part.start + int(self._random.choice(len(chance), p=chance / chance.sum()))
        if i == len(self.largest):
            self.largest.append(named)
        else:
            self.largest[i] = named
        self._solved = None

    def _choose_threshold(self) -> None:
        """Draw the threshold by its likelihood from the one so far and a few others."""
        forms = self._forms
        few = self._random.permutation(len(forms.thresholds))[:TRIED]
        tried = np.unique(np.append(few, self.which)).tolist()
        nothing = np.zeros(len(forms.constants))
        solved = [self._solve(nothing, which=t) for t in tried]
        score = np.array([self._score(one, t) for t, one in zip(tried, solved, strict=True)])
        chance = np.exp(score - score.max())
        drawn = int(self._random.choice(len(chance), p=chance / chance.sum()))
        self.which, self._solved = tried[drawn], solved[drawn]
        self._active = solved[drawn].forms


def log_below(away: Floats) -> Floats:
    """log Φ: the logarithm of the chance that a normal variable is below so many standard deviations."""
    from scipy.special import log_ndtr

    found: Floats = log_ndtr(away)
    return found
