"""What the links of ``wafer/auto`` have learnt of a problem, and pass on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chipmap.instances.wafer.instance import Placement, WaferSolution
from chipmap.instances.wafer.problem import WaferProblem, evaluate, in_order
from chipmap.methods.chain import Turn
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.wafer.bounds.score import BoundSearch

#: From so many kernels on, exchanges of equal kernels take the place of everything else that looks for floorplans.
MANY = 200
#: The sources of floorplans by counted cuts, by wired cuts, by rings and with fixed boxes.
COUNTED, WIRED, RINGS, FIXED = "counted cuts", "wired cuts", "rings", "fixed boxes"


class WaferChainState:
    """A problem, and what the links have learnt of it: ``rows`` are floorplans in rows, by source, ``kept`` those of
    counted cuts and rings at other times, ``fewest`` the one whose adapters have been reduced. ``path_bound`` says that
    the bound of paths is proved."""

    def __init__(self, problem: WaferProblem, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.large = problem.n >= MANY
        self.rows: dict[str, WaferSolution] = {}
        self.kept: list[WaferSolution] = []
        self.fewest: WaferSolution | None = None
        self.path_bound = False
        self._bounds: BoundSearch | None = None

    @property
    def bounds(self) -> BoundSearch:
        """The search for bounds, made once: each link goes on where the one before left it."""
        from chipmap.heuristics.wafer.bounds.score import BoundSearch

        if self._bounds is None:
            self._bounds = BoundSearch(self.problem)
        return self._bounds

    def in_rows(self, turn: Turn, placements: Sequence[Placement], source: str) -> None:
        """Hand over a floorplan in rows, and keep it for the search."""
        solution = WaferSolution(instance=self.problem.instance.name, placements=tuple(placements))
        self.rows[source] = solution
        turn.solution(solution, source)

    def score(self, solution: WaferSolution) -> int:
        """Its score in ticks."""
        return evaluate(self.problem, in_order(self.problem, solution)).score

    def start(self) -> WaferSolution | None:
        """The best floorplan in rows or of cuts that is slicing, from which a search goes on; None for none.

        Where adapters cost, cuts if they are the best, else None: a slicing tree keeps no execution arguments.
        Not the run's incumbent: which one that is depends on the moment.
        """
        from chipmap.heuristics.wafer.adapters import boxes_of
        from chipmap.heuristics.wafer.slicing.guillotine import guillotine

        found = sorted(self.rows.values(), key=self.score)
        if self.problem.instance.weights.adapter:
            return found[0] if found and found[0] in map(self.rows.get, (COUNTED, WIRED, RINGS, FIXED)) else None
        slicing = (one for one in found if guillotine(boxes_of(in_order(self.problem, one))) is not None)
        return next(slicing, None)

    def best(self, run: Run) -> WaferSolution | None:
        """The run's incumbent, or ``fewest`` where that is better (a lane's finds reach the run a moment later)."""
        known = [self.fewest, run.best.solution if run.best else None]
        return min((one for one in known if isinstance(one, WaferSolution)), key=self.score, default=None)
