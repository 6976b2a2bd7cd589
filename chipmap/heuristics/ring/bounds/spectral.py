"""A lower bound from eigenvalues, in the mode ``sum``: chips pay for what they send and receive.

It needs no constraint but that there are C chips. Let S_0 … S_C-1 be the operations on the chips, x_c their indicator
vectors, and for a storage s with m ends (its producer and its readers) L_s the Laplacian of the complete graph on these
ends with the weight ticks(s) / ⌊m²/4⌋ on each edge. A chip with k of the ends cuts k · (m - k) edges, none if k is 0 or
m, and ⌊m²/4⌋ at most: so x' L_s x <= ticks(s) where chip c pays for s, 0 elsewhere. With A = Σ L_s + diag(time),

    x_c' A x_c <= what chip c pays <= T.

Take any d_v > 0, D = diag(d), d(S) the sum over S, and the eigenvalues 0 < mu_1 <= mu_2 <= … of A v = mu D v. Then

    T >= d(V) / Σ over k = 1 … C of 1 / mu_k.

Proof: chips that run something have vectors x_c / sqrt(d(S_c)) that are orthonormal in D (the S_c are disjoint). With
r_c = x_c' A x_c / d(S_c), any m of them have Σ r_c >= mu_1 + … + mu_m (Ky Fan 1949). 1/r is convex and falls, so that
Σ 1/r_c <= Σ 1/mu_k over as many k (majorisation). As d(S_c) <= T / r_c, d(V) <= T · Σ 1/mu_k. (After Donath and
Hoffman, *Lower bounds for the partitioning of graphs*, IBM J. Res. Dev. 17, 1973, who bound the sum of all cuts.)

d is looked for by L-BFGS over log d. Each d on the way gives a bound; d = time gives the mean work or more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline, Stop
from chipmap.instances.ring.problem import IntArray, RingProblem

#: Operations at most: matrices are dense, and take 8 bytes times their square, a few times.
MOST_OPERATIONS = 2500
#: Steps of L-BFGS at most.
STEPS = 20
#: Logarithms of d stay within this.
LARGEST = 30.0
#: d begins as the time and this share of the diagonal of A.
START = 0.3
#: By what share of the matrix's norm, times the operations, each eigenvalue may be wrong (LAPACK's backward error), by
#: what share all other rounding may change the bound, and what d and the bound are at least.
ERROR, ROUNDING, TINY = 1e-15, 1e-9, 1e-12

Floats = NDArray[np.float64]


def spectral_bound(
    problem: RingProblem, deadline: Deadline = Deadline(), report: Callable[[int], object] = lambda bound: None
) -> int:
    """The bound in ticks, 0 where it doesn't apply; ``report(bound)`` hears of each better one on the way."""
    from scipy.optimize import minimize

    operations = np.flatnonzero(problem.computing)
    if problem.cost_mode != "sum" or not problem.total_ticks or not 0 < len(operations) <= MOST_OPERATIONS:
        return 0
    unit = problem.total_ticks / problem.chips
    matrix = paid(problem, operations) / unit
    best = 0

    def step(logs: Floats) -> tuple[float, Floats]:
        """-log of the bound at d = exp(``logs``), and its gradient."""
        nonlocal best
        deadline.check()
        found, gradient = value(matrix, logs, problem.chips)
        if (bound := int(np.ceil(found * unit * (1.0 - ROUNDING)))) > best:
            best = bound
            report(best)
        return -np.log(max(found, TINY)), -gradient

    start = problem.ticks[operations] / unit + START * matrix.diagonal()
    first = np.log(np.maximum(start, TINY))
    bounds = [(-LARGEST, LARGEST)] * len(first)
    with suppress(Stop):
        minimize(step, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    return best


def paid(problem: RingProblem, operations: IntArray) -> Floats:
    """A [n, n] of the computing ``operations`` [n], in ticks."""
    index = np.full(problem.n, -1)
    index[operations] = np.arange(len(operations))
    matrix = np.diag(problem.ticks[operations].astype(float))
    for storage in problem.storages:
        ends = index[[storage.producer, *storage.readers]]
        weight = storage.ticks / (len(ends) ** 2 // 4)
        matrix[np.ix_(ends, ends)] -= weight
        matrix[ends, ends] += weight * len(ends)
    return matrix


def value(matrix: Floats, logs: Floats, chips: int) -> tuple[float, Floats]:
    """d(V) / Σ 1/mu_k at d = exp(``logs``) [n], with each mu_k as small as rounding allows (0 where one may be 0), and
    the gradient of its logarithm.
    """
    from scipy.linalg import eigh

    roots = np.exp(logs / 2)
    scaled = matrix / roots / roots[:, None]
    few = min(chips, len(logs))
    found, vectors = eigh(scaled, subset_by_index=(0, few - 1))
    safe = found - ERROR * len(logs) * np.abs(scaled).sum(axis=1).max()
    if safe[0] <= 0.0:
        return 0.0, np.zeros(len(logs))
    total, shares = float((1.0 / safe).sum()), roots**2 / (roots**2).sum()
    return float((roots**2).sum()) / total, shares - (vectors**2 / safe).sum(axis=1) / total
