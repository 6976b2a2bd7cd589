"""A lying solver: in place of every adapter, it ends as any solver may end, and says what is not so.

A :class:`Lie` sees the true adapter, the model and the session, and returns the verdict that is told. Under
:func:`lying` each solve of a run is such a lie. :func:`wrong_words` compares what the run says with the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import chipmap.solvers
from chipmap.family import Family, resolve
from chipmap.kernels import plainly
from chipmap.records import ChipmapError
from chipmap.result import Result
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.solvers.session import Verdict

Solve = Callable[[Any, Any], Verdict]
BROKEN = ("numerical_error", "other_error", "imprecise")
#: Whether something was changed in the solve that is being told.
LIED = [True]
OPTIMAL: Verdict = ("optimal", "none", "")
#: Seconds of a run, which none of them needs.
SECONDS = 20.0


@dataclass(frozen=True)
class Lie:
    """What is told instead of what the true ``solve`` says.

    ``kinds``: of which models. ``due``: a word about a failure is due (``values``: unless other values happen to be a
    valid solution). ``hidden``: it amounts to a bound that is too high, which no one can tell but by a better solution.
    """

    name: str
    tell: Callable[[Solve, Any, Any], Verdict]
    kinds: tuple[str, ...] = ("mip", "cpsat")
    due: bool = True
    values: bool = False
    hidden: bool = False


@dataclass
class Told:
    """How often a lie was told, and whether a solve had a solution to lie about."""

    times: int = 0
    models: set[str] = field(default_factory=set)


def mute(session: Any) -> None:
    """Nothing that the solver finds is heard."""
    session.solution = lambda value_of, objective: None
    session.bound = lambda value: None


def _ends(solver: str, kind: str) -> Iterator[Lie]:
    """Each end state of an adapter, after the truth and with nothing heard."""
    for name, verdict in import_module(f"chipmap.solvers.{solver}").STATUSES.items():

        def after(true: Solve, model: Any, session: Any, verdict: Verdict = verdict) -> Verdict:
            true(model, session)
            return verdict

        def silent(true: Solve, model: Any, session: Any, verdict: Verdict = verdict) -> Verdict:
            mute(session)
            return verdict

        broken, hidden = verdict[0] in BROKEN, verdict[0] == "infeasible"
        yield Lie(f"{solver} {name} after the truth", after, (kind,), broken, hidden)
        yield Lie(f"{solver} {name}, nothing heard", silent, (kind,), broken or verdict[0] == "optimal", hidden)


def _answer(
    values: Callable[[Any], Callable[[Any], float]], objective: Callable[[float], float] = lambda x: x
) -> Callable[[Solve, Any, Any], Verdict]:
    """Solutions with other values and another objective; bound and verdict are the truth's."""

    def tell(true: Solve, model: Any, session: Any) -> Verdict:
        heard, some = session.solution, list[bool]()

        def changed(value_of: Any, cost: float) -> None:
            some.append(True)
            heard(values(value_of), objective(cost))

        session.solution = changed
        verdict = true(model, session)
        LIED[0] = bool(some)
        return verdict

    return tell


def _bound(value: Callable[[float], float], first: bool) -> Callable[[Solve, Any, Any], Verdict]:
    """A bound made of the optimum, before or after the truth."""

    def tell(true: Solve, model: Any, session: Any) -> Verdict:
        if not first:
            verdict = true(model, session)
            session.bound(value(session.objective or 0.0))
            return verdict
        heard = list[tuple[Any, float]]()
        session.solution, kept = lambda *one: heard.append(one), session.solution
        verdict = true(model, session)
        session.solution = kept
        best = min((cost for _, cost in heard), default=0.0)
        session.best_bound = None
        session.bound(value(best))
        for one in heard:
            session.solution(*one)
        return verdict

    return tell


def _raise(error: Exception, when: str) -> Callable[[Solve, Any, Any], Verdict]:
    def fail(_: Any) -> float:
        LIED[0] = True
        raise error

    def tell(true: Solve, model: Any, session: Any) -> Verdict:
        if when == "before":
            raise error
        if when == "callback":
            heard = session.solution
            session.solution = lambda value_of, cost: heard(fail, cost)
            LIED[0] = False  # unless a variable is read
        verdict = true(model, session)
        if when == "after":
            raise error
        return verdict

    return tell


def _first_is_best(true: Solve, model: Any, session: Any) -> Verdict:
    """The first solution is called optimal."""
    heard = session.solution

    def once(value_of: Any, objective: float) -> None:
        if session.objective is None:
            heard(value_of, objective)

    session.solution = once
    true(model, session)
    if session.objective is None:
        return ("stopped", "time", "")
    session.bound(session.objective)
    return OPTIMAL


def _late(true: Solve, model: Any, session: Any) -> Verdict:
    """Callbacks come after the end as well."""
    conclude = session.conclude

    def concluded(*arguments: Any) -> Any:
        outcome = conclude(*arguments)
        session.bound(1e15)
        session.solution(lambda _: 0.0, -1e15)
        return outcome

    session.conclude = concluded
    return true(model, session)


def _never_called(true: Solve, model: Any, session: Any) -> Verdict:
    """No callback of the caller's is called; the answer is in the outcome alone."""
    session.request = replace(session.request, on_solution=None, on_bound=None)
    return true(model, session)


def _empty(true: Solve, model: Any, session: Any) -> Verdict:
    """Optimal, with a bound, without a solution."""
    heard, session.solution = session.bound, lambda *_: None
    true(model, session)
    heard(0.0)
    return OPTIMAL


@cache
def lies() -> tuple[Lie, ...]:
    """All lies."""
    other = (
        Lie("all values are 0", _answer(lambda _: lambda variable: 0.0), values=True),
        Lie("all values are 1", _answer(lambda _: lambda variable: 1.0), values=True),
        Lie("binary values are exchanged", _answer(lambda old: lambda variable: 1.0 - old(variable)), values=True),
        Lie("values are no numbers", _answer(lambda _: lambda variable: math.nan), values=True),
        Lie("objective halved", _answer(lambda old: old, lambda cost: cost / 2), due=False),
        Lie("objective doubled", _answer(lambda old: old, lambda cost: cost * 2 + 10), due=False),
        Lie("objective is no number", _answer(lambda old: old, lambda _: math.nan)),
        Lie("objective -inf", _answer(lambda old: old, lambda _: -math.inf)),
        Lie("bound is no number, first", _bound(lambda _: math.nan, True)),
        Lie("bound is no number, last", _bound(lambda _: math.nan, False)),
        Lie("bound inf, first", _bound(lambda _: math.inf, True), due=False),
        Lie("bound -inf, last", _bound(lambda _: -math.inf, False), due=False),
        Lie("bound too high, first", _bound(lambda best: best * 2 + 10, True), due=False, hidden=True),
        Lie("bound too high, last", _bound(lambda best: best * 2 + 10, False), due=False),
        Lie("the first solution is called optimal", _first_is_best, due=False, hidden=True),
        Lie("optimal without a solution", _empty),
        Lie("an exception before anything", _raise(RuntimeError("the solver broke"), "before")),
        Lie("an exception after the truth", _raise(RuntimeError("the solver broke"), "after")),
        Lie("no memory after the truth", _raise(MemoryError(), "after")),
        Lie("an exception in a callback", _raise(ZeroDivisionError("in a callback"), "callback")),
        Lie("callbacks after the end", _late, due=False),
        Lie("callbacks never called", _never_called, due=False),
    )
    return (*_ends("highs", "mip"), *_ends("gurobi", "mip"), *_ends("cpsat", "cpsat"), *other)


@contextmanager
def lying(lie: Lie | None) -> Iterator[Told]:
    """Within it, each solve of a model of the lie's kinds is that lie (None: the truth, counted)."""
    told, true = Told(), chipmap.solvers._adapter

    class Liar:
        """An adapter."""

        def __init__(self, module: Any) -> None:
            self.module = module

        def solve(self, model: Any, session: Any) -> Verdict:
            """What the lie says."""
            told.models.add(model.kind)
            if lie is None or model.kind not in lie.kinds:
                return self.module.solve(model, session)  # type: ignore[no-any-return]
            LIED[0] = True
            verdict = lie.tell(self.module.solve, model, session)
            told.times += LIED[0]
            return verdict

        def infeasible_labels(self, model: Any, session: Any) -> tuple[str, ...]:
            """The truth: reasons are not in question."""
            return self.module.infeasible_labels(model, session)  # type: ignore[no-any-return]

    def adapter(model: Any, solver: str | None) -> tuple[str, Any]:
        name, module = true(model, solver)
        return name, Liar(module)

    chipmap.solvers._adapter = adapter
    try:
        yield told
    finally:
        chipmap.solvers._adapter = true


@dataclass
class Answer:
    """What came of a run: its result, or the exception that it ended with; the objectives that were heard of."""

    result: Result | None
    error: BaseException | None
    heard: list[int]
    told: Told


def asked(instance: Any, method: str, lie: Lie | None, **options: Any) -> Answer:
    """A run in this process under a lie."""
    heard = list[int]()

    def listen(event: Any, _: Any) -> None:
        if event.event == "solution":
            heard.append(event.value)

    given = {"time_limit": SECONDS, "threads": 1, "warm_start": "none", **options}
    with lying(lie) as told:
        try:
            result = solve(instance, method, SolveOptions.make(**given), isolate=False, listener=listen)
        except Exception as error:
            return Answer(None, error, heard, told)
    return Answer(result, None, heard, told)


def wrong_words(answer: Answer, lie: Lie, optimum: int | None, family: Family, instance: Any) -> list[str]:
    """What is wrong about the answer, whose instance has this ``optimum`` (None: it is infeasible)."""
    result, found = answer.result, list[str]()
    if result is None:
        if answer.heard:
            found.append(f"incumbent lost: {type(answer.error).__name__}: {answer.error}")
        return found
    if answer.heard and (result.objective is None or result.objective > min(answer.heard)):
        found.append(f"incumbent lost: heard of {min(answer.heard)}, the result has {result.objective}")
    if result.solution is not None:
        solution = resolve(family.solution).make(**result.solution)
        certificate = resolve(family.check)(instance, solution)
        if not certificate.feasible or certificate.objective != result.objective:
            found.append("the checker refuses the solution")
    if result.status == "infeasible" and optimum is not None:
        found.append("infeasible")
    if (
        result.status == "optimal"
        and result.objective != optimum
        and not (lie.hidden and unseen(result, family, instance))
    ):
        found.append(f"optimal at {result.objective}, but {optimum} is")
    due = lie.due and not (lie.values and result.solution is not None)
    if answer.told.times and due and not speaks(result):
        found.append("no word about the failure")
    return found


def unseen(result: Result, family: Family, instance: Any) -> bool:
    """Whether no quick method of the family finds anything better than what is called optimal."""
    assert result.objective is not None
    for name in family.attempts:
        run = Run(instance, SolveOptions(time_limit=SECONDS, threads=1), resolve(family.check))
        try:
            with plainly(family.is_small(instance)):
                resolve(family.method(name).function)(instance, run)
        except ChipmapError:
            continue
        if run.upper is not None and run.upper < result.objective:
            return False
    return True


def speaks(result: Result) -> bool:
    """Whether the result says that something failed."""
    kinds = {note.kind for note in result.notes}
    said = bool(kinds & {"solver", "refused", "no proof", "stopped"}) or result.termination.limit == "memory"
    return bool(result.failure) or result.status == "error" or said


def start_file(folder: Path, solution: Any) -> str:
    """A warm start."""
    path = folder / f"{solution.content_hash[:12]}.json"
    path.write_bytes(solution.to_json())
    return str(path)
