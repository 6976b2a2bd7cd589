"""Bayesian least squares where each observation is the largest of several linear forms, and it isn't told which.

Observation i: z_i ~ max over k of (row_ik · θ + constant_ik), up to a relative error of standard deviation ``noise``; all
θ are independent and normal around 0. Only the largest form of an observation says something of θ. A new observation is
put down to the form that is the fewest standard deviations away from it, and to another one where the estimate
contradicts. Given these, θ is normal again: the estimate is ridge regression.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Rounds in which the largest form of each observation is named and θ is estimated.
ROUNDS = 5


class Observation(NamedTuple):
    """``rows`` [k, θ - 1] and ``constants`` [k] of the forms, and the value ``wanted`` > 0 of the largest."""

    rows: Floats
    constants: Floats
    wanted: float


class MaxRegression:
    """The estimate of θ from observations that may be shared with others; the last column is this regression's own."""

    def __init__(self, deviation: Floats, noise: float) -> None:
        """``deviation`` [θ]: standard deviations before anything is observed."""
        self._deviation, self._noise = deviation, noise
        self._observed: list[Observation] = []
        self._last: list[Floats] = []
        self._largest: list[int] = []
        #: Of the largest forms: rows and constants as shares of the observed values, [m, θ] and [m].
        self._phi = np.zeros((0, len(deviation)))
        self._given = np.zeros(0)
        self._theta = np.zeros(len(deviation))

    def observe(self, observation: Observation, last: Floats) -> None:
        """One more observation, with the last column [k] of its rows."""
        self._observed.append(observation)
        self._last.append(last)
        self._largest.append(self._likeliest(observation, last))
        self._phi = np.concatenate((self._phi, np.zeros((1, len(self._deviation)))))
        self._given = np.append(self._given, 0.0)
        self._name(len(self._observed) - 1, self._largest[-1])

    def estimate(self) -> Floats:
        """θ [θ] that agrees best with the observations."""
        for _ in range(ROUNDS if self._observed else 0):
            self._theta = self._conditioned(np.zeros_like(self._theta), np.zeros(len(self._observed)))
            if not self._corrected():
                break
        return self._theta

    def draw(self, random: np.random.Generator, wider: float = 0.0) -> Floats:
        """θ drawn from its distribution given the observations; with ``wider`` > 0 from the one before them, wider by
        this factor."""
        theta: Floats = random.standard_normal(len(self._theta)) * self._deviation * (wider or 1.0)
        if self._observed and not wider:
            theta = self._conditioned(theta, random.standard_normal(len(self._observed)) * self._noise)
        return theta

    @property
    def log_evidence(self) -> float:
        """Logarithm of the density of what was observed, given which forms are the largest."""
        if not self._observed:
            return 0.0
        factor = np.linalg.cholesky(self._covariance())
        away = np.linalg.solve(factor, 1.0 - self._given)
        misfit = sum(max(0.0, (most - 1.0) / self._noise - 1.0) ** 2 for most in self._above())
        return float(-np.log(np.diag(factor)).sum() - (away @ away + misfit) / 2 - len(away) * math.log(2 * math.pi) / 2)

    def _above(self) -> list[float]:
        """Of each observation, the largest predicted form as a share of the value."""
        return [
            float(self._predicted(one, last).max()) / one.wanted
            for one, last in zip(self._observed, self._last, strict=True)
        ]

    def _predicted(self, observation: Observation, last: Floats) -> Floats:
        """[k]: the forms under the estimate."""
        found: Floats = observation.rows @ self._theta[:-1] + last * self._theta[-1] + observation.constants
        return found

    def _name(self, i: int, k: int) -> None:
        """Form k is the largest of observation i."""
        one = self._observed[i]
        self._largest[i] = k
        self._phi[i, :-1] = one.rows[k] / one.wanted
        self._phi[i, -1] = self._last[i][k] / one.wanted
        self._given[i] = one.constants[k] / one.wanted

    def _covariance(self) -> Floats:
        """[m, m] of the observed values, as shares of them."""
        found: Floats = (self._phi * self._deviation**2) @ self._phi.T + self._noise**2 * np.eye(len(self._phi))
        return found

    def _likeliest(self, observation: Observation, last: Floats) -> int:
        """The form that a new value is due to.

        One that is predicted to be above it; else the one whose prediction is the fewest standard deviations below.
        """
        predicted, wanted = self._predicted(observation, last), observation.wanted
        most = int(np.argmax(predicted))
        if predicted[most] >= wanted:
            return most
        rows = np.column_stack((observation.rows, last))
        spread = rows * self._deviation**2
        variance = np.einsum("kt,kt->k", spread, rows)
        if len(self._phi):
            cross = spread @ self._phi.T
            variance -= np.einsum("km,mk->k", cross, np.linalg.solve(self._covariance(), cross.T))
        variance = np.maximum(variance, 0.0) + (self._noise * wanted) ** 2
        return int(np.argmin((wanted - predicted) ** 2 / variance))

    def _corrected(self) -> bool:
        """Name another largest form where one is predicted clearly above the value; whether there was any."""
        changed = False
        for i, (one, last) in enumerate(zip(self._observed, self._last, strict=True)):
            predicted = self._predicted(one, last)
            most, named = int(np.argmax(predicted)), self._largest[i]
            if most != named and predicted[most] > max(predicted[named], one.wanted) * (1 + self._noise):
                self._name(i, most)
                changed = True
        return changed

    def _conditioned(self, prior: Floats, errors: Floats) -> Floats:
        """θ as drawn (``prior``), moved to agree with the observations up to ``errors`` (shares): Matheron's rule.

        With zeros for both it is the mean of θ given the observations.
        """
        missing = 1.0 - self._given - self._phi @ prior - errors
        moved: Floats = prior + (self._phi * self._deviation**2).T @ np.linalg.solve(self._covariance(), missing)
        return moved
