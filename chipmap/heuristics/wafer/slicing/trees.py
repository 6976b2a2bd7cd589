"""Slicing trees: as arrays, as states of the compiled search, and as floorplans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipmap.heuristics.wafer.slicing import annealing_kernel as kernel
from chipmap.heuristics.wafer.slicing import moves_kernel
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import TICKS, IntArray
from chipmap.instances.wafer.shapes import place
from chipmap.kernels.annealing import seeded


@dataclass(frozen=True, eq=False)
class Tree:
    """A slicing tree over n kernels: nodes 0 .. n-1 are the kernels, n .. 2n-2 the cuts, ``root`` the whole.

    ``left`` and ``right`` [2n - 1] are -1 for kernels; ``cut`` [2n - 1] is 0 where the left part lies left of the
    right one, 1 where it lies below it.
    """

    left: IntArray
    right: IntArray
    cut: IntArray
    root: int

    @classmethod
    def empty(cls, n: int) -> Tree:
        """No cuts yet."""
        size = 2 * n - 1
        return cls(np.full(size, -1), np.full(size, -1), np.zeros(size, np.int64), 0 if n == 1 else n)


def floor_of(sizing: Sizing, taus: IntArray) -> moves_kernel.Floor:
    """The problem as the compiled search reads it, with a grid of target times."""
    problem = sizing.problem
    both = np.concatenate([problem.edges, problem.edges[:, ::-1]]) if len(problem.edges) else problem.edges
    both = both[np.argsort(both[:, 0], kind="stable")]
    weights = problem.instance.weights
    curves, choices = zip(*(sizing.choices(int(tau)) for tau in taus), strict=True)
    return moves_kernel.Floor(
        numbers=np.array([problem.width, problem.height, weights.time, 2 * weights.wire, TICKS * weights.adapter, 0]),
        types=problem.types,
        edges=problem.edges,
        start=np.searchsorted(both[:, 0], np.arange(problem.n + 1)),
        near=np.ascontiguousarray(both[:, 1]),
        taus=taus,
        table=np.stack(curves),
        choice=np.stack(choices),
        arguments=sizing.options.arguments,
    )


def state_of(
    sizing: Sizing, tree: Tree, time: int, seed: int, align: IntArray | int = 1
) -> moves_kernel.SlicingTreeState:
    """A state at the given tree and index of the target time, its rectangles aligned low (0), in the middle or high."""
    size = len(tree.left)
    nodes = np.full((5, size + 1), -1)
    nodes[[moves_kernel.LEFT, moves_kernel.RIGHT, moves_kernel.CUT], :-1] = tree.left, tree.right, tree.cut
    nodes[moves_kernel.ALIGN, :-1] = align
    nodes[:3, -1] = tree.root, time, sizing.problem.height
    for node in np.flatnonzero(tree.left >= 0):
        nodes[moves_kernel.PARENT, tree.left[node]] = nodes[moves_kernel.PARENT, tree.right[node]] = node
    return moves_kernel.SlicingTreeState(
        tree=nodes,
        saved=nodes.copy(),
        best=nodes.copy(),
        curves=np.zeros((2, 2, size, sizing.limit + 1), np.int32),
        work=np.zeros((11, 2 * size + 2), np.int64),
        plan=np.full(4, -1),
        score=np.array([moves_kernel.WORST, moves_kernel.WORST]),
        random=seeded(seed),
    )


def boxes_of(sizing: Sizing, tree: Tree, tau: int, align: IntArray | int = 0, height: int | None = None) -> IntArray:
    """[n, 4] left, bottom, width and height of the tree's kernels at ``tau`` quarters, within ``height`` or the fabric.

    Each rectangle takes its least width for its height.
    """
    problem = sizing.problem
    floor, state = floor_of(sizing, np.array([tau])), state_of(sizing, tree, 0, 0, align)
    kernel.restart(state, floor)
    kernel.lay_out(state, problem.width, problem.height if height is None else height)
    rows = [moves_kernel.X, moves_kernel.Y, moves_kernel.W, moves_kernel.H]
    return np.ascontiguousarray(state.work[rows, : problem.n].T)


def layout(sizing: Sizing, tau: int, found: IntArray) -> WaferSolution:
    """The solution with kernels in the boxes ``found`` [n, 4] at ``tau`` quarters."""
    problem = sizing.problem
    placements = []
    _, choices = sizing.choices(tau)
    for i, (x, y, width, height) in enumerate(found.tolist()):
        kind = int(problem.types[i])
        shape = sizing.shape(tau, int(choices[kind, height]), kind, width, height)
        placements.append(place(problem, i, shape, tau, x, y))
    return WaferSolution(instance=problem.instance.name, placements=tuple(placements))
