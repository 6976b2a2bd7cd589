"""Lower bounds on the step time of family ``placement``, from the cheapest to the dearest."""

from __future__ import annotations

from collections.abc import Callable

from chipmap.deadline import Deadline
from chipmap.formulations.placement.narrowing import Narrowing
from chipmap.heuristics.placement import ancestors, sides, unequal
from chipmap.heuristics.placement import bounds as lower
from chipmap.heuristics.placement.bounds import Windows
from chipmap.heuristics.placement.packing import packing
from chipmap.methods.chain import Turn
from chipmap.methods.placement.stages import Stages

#: Operations up to which sides are probed, and the share of the time that is left for it.
PROBED, SHARE = 4_000, 0.1


def bound_by_windows(stages: Stages, turn: Turn) -> None:
    """Heads and tails with communication, raised step by step, then what can't be cut at a target."""
    if not stages.problem.timed:
        return
    problem, deadline = stages.problem, turn.deadline
    windows = stages.windows(deadline)
    turn.bound(lower.path(windows), "path")
    turn.bound(lower.group(problem, windows), "groups")
    turn.bound(max(lower.interval(problem, windows), unequal.interval(problem, windows)), "interval")
    steps: list[tuple[str, Callable[[Windows, Deadline], Windows]]] = [
        ("sides", lambda w, until: sides.raised(problem, w, False, until)),
        ("ancestors", lambda w, until: ancestors.raised(problem, w, until)),
        ("probing", lambda w, until: sides.raised(problem, w, True, until.share(SHARE))),
    ]
    for name, raised in steps[: 2 if problem.operations > PROBED else 3]:
        if settled(turn):
            return
        windows = stages.raise_windows(raised(windows, deadline))
        shared = max(lower.interval(problem, windows), unequal.interval(problem, windows))
        turn.bound(max(lower.path(windows), shared), name)
    low = turn.run.lower.value if turn.run.lower is not None else 0
    high = turn.run.upper if turn.run.upper is not None else problem.horizon
    if low < high:
        low = lower.target(problem, windows, low, high, deadline)
        turn.bound(low, "target")
        turn.bound(packing(problem, windows, low, high, deadline), "memory")


def narrowing(stages: Stages, turn: Turn) -> Narrowing:
    """What holds in every schedule that is as good as the best so far: windows, and operations that share a device."""
    problem, run = stages.problem, turn.run
    limits = (run.upper, problem.instance.task.limit_ns, problem.horizon)
    upper = min(limit for limit in limits if limit is not None)
    windows = stages.windows(turn.deadline)
    part = lower.parts(problem, windows, upper)
    low = run.lower.value if run.lower is not None else 0
    return Narrowing(upper, tuple(windows.head.tolist()), tuple(windows.tail.tolist()), tuple(part.tolist()), low)


def settled(turn: Turn) -> bool:
    """Whether the best placement is known to be optimal."""
    run = turn.run
    return run.lower is not None and run.upper is not None and run.lower.value >= run.upper
