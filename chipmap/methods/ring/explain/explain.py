"""``explain`` for family ``ring``: why the period is what it is or why there is no mapping, and what would help.

The instance is solved, then each change that might help is made and solved as an instance of its own. What is said
about a change is the checker's objective for the changed instance; ``proved`` stands where its bound meets it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from chipmap.deadline import Deadline
from chipmap.explanation import Change, Explanation, Statement, Step
from chipmap.heuristics.ring.bounds.simple import largest
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring.explain import changes, reasons, shortages
from chipmap.methods.ring.explain.difference import difference, placed, side
from chipmap.methods.ring.explain.reasons import statement
from chipmap.methods.ring.explain.solved import LEAST_SECONDS, Case, Solved, Trial, Tried, attempt, solve_within
from chipmap.methods.ring.explain.text import TICKS_PER_US, us
from chipmap.records import counted
from chipmap.records.quantities import share
from chipmap.result import Note
from chipmap.run import SolveOptions

#: The share of the time that solving the instance itself may take.
OWN_SHARE = 0.4
Progress = Callable[[Step], None]


def explain(
    instance: RingInstance,
    solution: RingSolution | None = None,
    options: SolveOptions | None = None,
    against: RingSolution | None = None,
    progress: Progress | None = None,
    told: Callable[[Explanation], None] | None = None,
) -> Explanation:
    """The explanation of ``instance``, and of ``solution`` if one is given; its difference to ``against``.

    Runs in this process; the time limit is kept between the steps of programs and solvers. ``told`` hears the
    explanation as far as it has come, whenever there is more. Raises :class:`InputError` for a solution that doesn't
    place every computing operation on a chip.
    """
    options = options or SolveOptions()
    options.check()
    deadline = Deadline.after(options.time_limit)
    started = time.monotonic()
    for given, which in ((solution, "SOLUTION"), (against, "--against")):
        if given is not None:
            placed(ring_problem(instance), given, which)
    say = progress or (lambda _: None)
    say(Step(kind="instance"))
    starts = [given for given in (solution, against) if given is not None]
    base = solve_within(instance, options, OWN_SHARE * deadline.seconds, starts)
    work = _Work(Case(instance), base, options, deadline, started, say, (solution, against), told or (lambda _: None))
    if solution is not None:
        work.say_all(work.about_given(solution))
    work.told(work.explanation())
    if not work.case.problem.n:
        work.say_all([statement("verdict", "No operation computes anything, so there is nothing to map")])
    elif base.status == "infeasible":
        work.infeasible()
    elif base.objective is None:
        work.unknown()
    else:
        work.feasible()
    return work.explanation()


@dataclass
class _Work:
    """One explanation in progress: the solved instance, what has been said, and the changes tried so far."""

    case: Case
    base: Solved
    options: SolveOptions
    deadline: Deadline
    started: float
    say: Progress
    given: tuple[RingSolution | None, RingSolution | None]
    told: Callable[[Explanation], None]
    said: list[Statement] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def instance(self) -> RingInstance:
        """The instance that is explained."""
        return self.case.instance

    def explanation(self) -> Explanation:
        """What is known by now."""
        base, instance, (solution, against) = self.base, self.instance, self.given
        both = solution is not None and against is not None
        return Explanation(
            instance=instance.name,
            instance_hash=instance.content_hash,
            family="ring",
            status=base.status,
            objective=base.objective,
            bound=base.bound,
            terms=base.certificate.terms if base.certificate else {},
            given=side(instance, solution) if solution is not None else None,
            statements=tuple(self.said),
            infeasibility=tuple(base.run.infeasibility),
            changes=tuple(self.ranked()),
            difference=difference(instance, solution, against) if both else None,  # type: ignore[arg-type]
            notes=tuple(self.notes),
            seconds=round(time.monotonic() - self.started, 3),
        )

    def say_all(self, statements: Iterable[Statement]) -> None:
        """Add statements to what has been said."""
        self.said += statements

    def attempt(self, trials: list[Trial]) -> list[Tried]:
        """Solve each of ``trials`` within a fair share of the time that is left; those out of time are noted."""
        done: list[Tried] = []
        starts = [self.base.solution] if self.base.solution is not None else []
        for i, trial in enumerate(trials):
            if self.deadline.seconds <= 0.0:
                left = [skipped.what for skipped in trials[i:]]
                text = f"not tried for lack of time: {'; '.join(left)}"
                self.notes.append(Note(kind="left out", text=text, data={"changes": left}))
                break
            self.say(Step(kind="change", what=trial.what))
            found = attempt(trial, self.options, self.deadline.seconds / (len(trials) - i), starts)
            if found is not None:
                done.append(found)
                self.tried.append(found)
                self.told(self.explanation())
        return done

    def again(self, tried: list[Tried]) -> list[Tried]:
        """``tried`` with those that are still open solved once more, from what they have, within the time left over."""
        still = [t for t in tried if not t.solved.proved and t.solved.status != "infeasible"]
        better = {}
        for i, one in enumerate(still):
            if self.deadline.seconds <= 2 * LEAST_SECONDS:
                break
            self.say(Step(kind="change", what=one.trial.what, again=True))
            starts = [one.solved.solution] if one.solved.solution is not None else []
            found = attempt(one.trial, self.options, self.deadline.seconds / (len(still) - i), starts)
            if found is not None and (found.solved.bound or 0) >= (one.solved.bound or 0):
                better[id(one)] = found
        self.tried = [better.get(id(one), one) for one in self.tried]
        return [better.get(id(one), one) for one in tried]

    def ranked(self) -> Iterator[Change]:
        """The changes, those with the least period first, then the unknown ones, then those without a mapping."""
        order = {"proved": 0, "best found": 0, "unknown": 1, "infeasible": 2}
        changes = [tried.change(self.base.objective) for tried in self.tried]
        yield from sorted(changes, key=lambda change: (order[change.standing], change.objective or 0))

    def about_given(self, solution: RingSolution) -> Iterator[Statement]:
        """What the checker says of the solution that was given, and how far it is from the best one known."""
        given, base = side(self.instance, solution), self.base
        if not given.feasible:
            first = given.violations[0]
            count = len(given.violations)
            text = f"The mapping given is refused ({counted(count, 'violation')}): {first.label} {first.message}"
            yield statement("given", text, first.label, violations=count)
        elif given.objective is not None and base.objective is not None:
            above = given.objective - base.objective
            best = "the least there is (proved)" if base.proved else "the best known"
            far = f"{share(above, base.objective)} above {best}, {us(base.objective)}" if above else f"which is {best}"
            text, scale = f"The mapping given has a period of {us(given.objective)}, {far}", TICKS_PER_US
            yield statement("given", text, period_us=given.objective / scale, best_us=base.objective / scale)

    def feasible(self) -> None:
        """What holds the period up; fills the changes."""
        case, base, instance = self.case, self.base, self.instance
        self.say_all([reasons.verdict(base)])
        self.say_all(reasons.busiest(case, base))
        self.say_all(reasons.bounds(case, base))
        self.told(self.explanation())
        least = reasons.enough(case, base, self.deadline)
        relaxed = self.attempt([*changes.relaxations(instance), *changes.sites(instance)])
        self.say_all(reasons.costs(base, relaxed))
        self._sufficient(relaxed)
        longest_decides = base.objective == largest(case.problem)  # then nothing but splitting that operation can help
        clones = [] if longest_decides else changes.clones(case, base.objective)
        later = self.attempt([*changes.splits(case, base), *clones, *changes.chips(instance, least[1])])
        later = self.again(later)
        chips = [tried for tried in later if tried.trial.kind == "chips"]
        more = [tried for tried in chips if tried.solved.instance.package.chips > instance.package.chips]
        self.say_all(reasons.unused(case, base, least, more[-1] if more else None))

    def _sufficient(self, relaxed: list[Tried]) -> None:
        """Where memory or links cost something: the SRAM that the mapping without C4 fits, links twice as fast."""
        trials = []
        for tried in relaxed:
            solved = tried.solved
            if solved.objective is None or solved.objective >= (self.base.objective or 0) or solved.solution is None:
                continue
            if tried.trial.left_out == "C4" and solved.certificate is not None:
                enough = int(solved.certificate.figures["max_memory_bytes"])
                trials.append(replace(changes.sram_trial(self.instance, enough), start=solved.solution))
            elif tried.trial.left_out == "links":
                trials.append(changes.link_trial(self.instance, 2))
        self.attempt(trials)

    def infeasible(self) -> None:
        """What is short; fills the changes."""
        case, instance = self.case, self.instance
        self.say_all([statement("verdict", "No mapping exists (proved)")])
        self.say_all(statement("clash", reason.message, reason.label) for reason in self.base.run.infeasibility)
        self.say_all([*shortages.memory(case), *shortages.sites(instance)])
        needs, trials = shortages.needs(case, self.deadline)
        self.say_all(needs)
        relaxed = self.attempt([*changes.relaxations(instance), *changes.sites(instance)])
        changed = self.attempt([*trials, *changes.splits(case, self.base), *changes.clones(case, None)])
        stuck = [t for t in changed if t.trial.kind == "split" and t.solved.status == "infeasible"]
        more = [shortages.with_chips(tried, self.deadline) for tried in stuck]
        self.attempt([trial for trial in more if trial is not None])
        for tried in relaxed:
            if tried.solved.status == "infeasible":
                self.say_all([statement("cost", f"{tried.trial.what} there is still no mapping (proved)")])

    def unknown(self) -> None:
        """Neither a mapping nor a proof: what is short by simple bounds, and which relaxation has a mapping."""
        self.say_all([statement("verdict", "No mapping was found in the time, and no proof that there is none")])
        self.say_all([*shortages.memory(self.case), *shortages.sites(self.instance)])
        self.attempt([*changes.relaxations(self.instance), *changes.sites(self.instance)])
