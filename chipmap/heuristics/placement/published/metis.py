"""Placements by METIS: a partition of the graph with parts of equal weight and few cut edges (Karypis & Kumar, 1998).

The vertices are the groups of C1, and there is an edge for each storage and reader (METIS has no edges with several
ends, and knows neither order nor time). By ``time`` a vertex weighs the time of its operations, an edge that of sending
the storage (ns, mean over the routes), and a device's share of all weight goes by its speed. By ``bytes`` a vertex
weighs its static bytes, an edge the bytes of the storage, and shares go by memory.

METIS (extra ``metis``: package ``pymetis``) can't be interrupted, and ends the process if it fails. It works in a
process of its own, which the deadline ends.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.keys import mean_sends
from chipmap.heuristics.placement.starts.human import allow
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.records import SolverUnavailableError

#: What the parts are equal in.
WEIGHTS = ("time", "bytes")
#: METIS counts in 32 bits: all weights of vertices together, and of edges, are scaled to this.
SCALE = 2**28
#: Seconds between two looks at the deadline.
TICK = 0.05
#: What the process does: arrays in, parts out.
_SCRIPT = """
import io, sys
import numpy as np
import pymetis
given = np.load(io.BytesIO(sys.stdin.buffer.read()))
options = pymetis.Options(seed=int(given["seed"]))
_, parts = pymetis.part_graph(
    int(given["parts"]), xadj=given["first"].tolist(), adjncy=given["to"].tolist(),
    vweights=given["vertex"].tolist(), eweights=given["edge"].tolist(), tpwgts=given["share"].tolist(), options=options,
)
np.save(sys.stdout.buffer, np.array(parts, dtype=np.int64))
"""


class MetisError(Exception):
    """METIS ended without a partition."""


def require() -> None:
    """Raise unless METIS is installed."""
    if find_spec("pymetis") is None:
        raise SolverUnavailableError(
            'METIS (package pymetis) is not installed\n  Install it: pip install "chipmap[metis]"'
        )


class Graph(NamedTuple):
    """V vertices. The neighbours of vertex i are ``to[first[i]:first[i + 1]]``; ``edge`` weighs those edges.

    ``vertex`` [V]; ``share`` [D] of all weight; ``of`` [N]: the vertex of each operation.
    """

    first: IntArray
    to: IntArray
    edge: IntArray
    vertex: IntArray
    share: NDArray[np.float64]
    of: IntArray


def graph(problem: PlacementProblem, kind: str) -> Graph:
    """What METIS gets, with vertices that weigh their ``time`` or ``bytes``."""
    storages, devices = problem.storages, problem.devices
    _, of = np.unique(problem.group, return_inverse=True)
    count = int(of.max(initial=-1)) + 1
    if kind == "time":
        cost = mean_sends(problem)
        load, speed = problem.time.min(axis=1), 1 / np.maximum(1, problem.time.sum(axis=0))
    else:
        load, cost = problem.weights.copy(), storages.bytes
        np.add.at(load, storages.producer, storages.bytes)
        speed = problem.memory if (problem.memory > 0).all() else np.ones(devices)
    vertex = np.zeros(count, dtype=np.int64)
    np.add.at(vertex, of, load)
    u, v, cost = of[storages.sources], of[storages.readers], cost[storages.read]
    cut = u != v
    ends = (np.concatenate([u[cut], v[cut]]), np.concatenate([v[cut], u[cut]]))
    both = coo_array((np.concatenate([cost[cut], cost[cut]]), ends), shape=(count, count)).tocsr()
    return Graph(
        first=both.indptr.astype(np.int64),
        to=both.indices.astype(np.int64),
        edge=np.maximum(1, _scaled(both.data)),
        vertex=_scaled(vertex),
        share=speed / speed.sum(),
        of=of,
    )


def _scaled(weights: IntArray) -> IntArray:
    """Weights that together are no more than :data:`SCALE`."""
    total = int(weights.sum())
    found: IntArray = weights if total <= SCALE else (weights.astype(float) * (SCALE / total)).astype(np.int64)
    return found


def partition(problem: PlacementProblem, kind: str, seed: int = 0, deadline: Deadline = Deadline()) -> IntArray:
    """The devices [N] of METIS's partition into one part per device, with equal ``time`` or ``bytes``.

    What may not run on its device goes to the next one that allows it. Raises :class:`~chipmap.deadline.Stop` at the
    deadline, :class:`MetisError` where METIS fails, and an error that names the extra without ``pymetis``.
    """
    require()
    made = graph(problem, kind)
    if problem.devices == 1 or len(made.vertex) <= problem.devices:
        return allow(problem, made.of % problem.devices)
    parts = _run(made, problem.devices, seed, deadline)
    return allow(problem, parts[made.of])


def _run(made: Graph, parts: int, seed: int, deadline: Deadline) -> IntArray:
    """The part of each vertex. Files carry arrays there and back, so that nothing blocks while the clock runs."""
    with TemporaryFile() as given, TemporaryFile() as taken, TemporaryFile() as said:
        np.savez(given, **made._asdict(), parts=parts, seed=seed)
        given.seek(0)
        process = subprocess.Popen([sys.executable, "-c", _SCRIPT], stdin=given, stdout=taken, stderr=said)
        try:
            while process.poll() is None:
                deadline.check()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(TICK)
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            said.seek(0)
            lines = said.read().decode(errors="replace").splitlines() or [f"code {process.returncode}"]
            raise MetisError(f"METIS failed: {lines[-1]}")
        taken.seek(0)
        found: IntArray = np.load(taken)
        return found
