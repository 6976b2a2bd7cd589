"""Two folders side by side: what got better, worse, faster or slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chipmap.records.quantities import number, percent, suited
from chipmap.report.page.known import problem
from chipmap.report.rows import digits, sign, units_of
from chipmap.report.tables import columns
from chipmap.result import Result

#: A time counts as another one if it differs by this factor, and by so many seconds.
FACTOR, SECONDS = 1.25, 0.5
#: The verdicts, the worst first.
VERDICTS = ("worse", "slower", "better", "faster", "same", "gone", "new")
HEAD = (
    "instance",
    "method",
    "verdict",
    "objective before",
    "after",
    "unit",
    "gap before",
    "after",
    "s before",
    "after",
)
#: Behind these where a profile of some run's machine predicts something.
PREDICTED = ("predicted before", "after")


@dataclass(frozen=True)
class Pair:
    """A run before and after; one of them is None where the other folder has no such run."""

    before: Result | None
    after: Result | None

    @property
    def verdict(self) -> str:
        """One of :data:`VERDICTS`: by the objective, then by the gap, then by the time."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        for old, new in zip(_qualities(self.before), _qualities(self.after), strict=True):
            if old != new:
                return "better" if new < old else "worse"
        a, b = self.before.seconds, self.after.seconds
        if abs(a - b) < SECONDS or max(a, b) < FACTOR * min(a, b):
            return "same"
        return "faster" if b < a else "slower"

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table shows, under :data:`HEAD`."""
        one = self.after or self.before
        assert one is not None
        unit = suited(one.objective, units_of(one).objective)
        name = " ".join([one.instance, *(f"[{change}]" for change in one.changes)])
        sides = (self.before, self.after)
        objectives = ("" if r is None else digits(r.objective, unit) for r in sides)
        gaps = ("" if r is None else percent(r.gap) for r in sides)
        seconds = ("" if r is None else number(round(r.seconds, 2)) for r in sides)
        return name, one.method, self.verdict, *objectives, sign(unit), *gaps, *seconds

    @property
    def predicted(self) -> tuple[str, str]:
        """What a profile of the machine predicts, under :data:`PREDICTED`; it decides no verdict."""
        return _predicted(self.before), _predicted(self.after)


def _predicted(result: Result | None) -> str:
    found = result.certificate.prediction if result is not None and result.certificate is not None else None
    return "" if found is None else found.amount


def _qualities(result: Result) -> tuple[tuple[bool, float], tuple[bool, float]]:
    """The objective and the gap, so that smaller is better and nothing is worst; a proof of infeasibility is as good as
    an optimum."""
    if result.status == "infeasible":
        return (False, float("-inf")), (False, 0.0)
    objective, share = result.objective, result.gap
    return (objective is None, float(objective or 0)), (share is None, round(share or 0.0, 6))


def pairs(before: Sequence[Result], after: Sequence[Result]) -> list[Pair]:
    """Runs of the same problem, method and seed in both folders, in their order; the worst verdicts first."""
    waiting: dict[tuple[str, ...], list[Result]] = {}
    for result in before:
        waiting.setdefault(_key(result), []).append(result)
    found = []
    for result in after:
        same = waiting.get(_key(result))
        found.append(Pair(same.pop(0) if same else None, result))
    found += [Pair(result, None) for left in waiting.values() for result in left]
    return sorted(found, key=lambda pair: VERDICTS.index(pair.verdict))


def _key(result: Result) -> tuple[str, ...]:
    options = result.provenance.get("options")
    seed = options.get("seed", 0) if isinstance(options, dict) else 0
    return problem(result), result.method, str(seed)


def told(found: Sequence[Pair]) -> str:
    """How many pairs have which verdict: ``1 worse, 3 better``."""
    counts = [(sum(pair.verdict == name for pair in found), name) for name in VERDICTS]
    return ", ".join(f"{count} {name}" for count, name in counts if count) or "nothing to compare"


def table(found: Sequence[Pair]) -> list[tuple[str, ...]]:
    """A line of heads, and one for each pair."""
    if not any("".join(pair.predicted) for pair in found):
        return [HEAD, *(pair.cells for pair in found)]
    return [HEAD + PREDICTED, *(pair.cells + pair.predicted for pair in found)]


def text(found: Sequence[Pair]) -> str:
    """The comparison for a terminal."""
    return f"{told(found)}\n" + columns(table([pair for pair in found if pair.verdict != "same"]))
