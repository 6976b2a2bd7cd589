"""Which constraints contradict each other, once an instance is proved to have no solution.

Labels are asked of the family's CP-SAT model, each under an assumption of its own: some set of them is proved
infeasible, then each label is left out in turn (deletion filter). Work is counted in CP-SAT's own unit, so that the
answer doesn't depend on the machine's speed, and the run's time limit holds all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from chipmap.deadline import Stop
from chipmap.family import Model
from chipmap.records import InputError
from chipmap.run import Run
from chipmap.solvers import infeasible_labels
from chipmap.solvers.outcome import SolveRequest

#: CP-SAT's deterministic seconds for one question, and the share of the time left that all of them may take.
WORK, SHARE = 2.0, 0.5


def clashing(run: Run, build: Callable[[], Model]) -> tuple[str, ...]:
    """The names of constraints (``c6_memory``) in ``build()`` that are proved to contradict each other.

    No smaller set does where the work allows to ask. Empty where nothing is proved within it, or where the model can't
    be stated. The user's native options play no part: they may cut solutions off.
    """
    found: tuple[str, ...] = ()
    deadline = run.deadline if run.options.deterministic else run.deadline.share(SHARE)
    with suppress(Stop, InputError), deadline.heeded():
        model = build()
        seconds = None if deadline.seconds == float("inf") else deadline.seconds
        request = SolveRequest(
            time_limit=seconds,
            work_limit=WORK,
            deterministic=True,
            should_stop=lambda: not deadline.keep_going(),
        )
        found = infeasible_labels(model, request)
    return found


def labels_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """The labels in ``names`` of constraints: C6 of ``c6_memory``, each once."""
    return tuple(sorted({name.partition("_")[0].upper() for name in names}))


def not_known(run: Run, what: str) -> None:
    """Say that there is a proof that ``what`` doesn't exist, and no reason that is proved as well."""
    run.note("left out", f"no {what} exists; which constraints contradict each other isn't known")
