"""A result beside what is known of its instance: equal, better, worse, or impossible."""

from __future__ import annotations

from dataclasses import dataclass

from chipmap.known.records import Entry
from chipmap.known.registry import excluded, look_up
from chipmap.result import Result
from chipmap.run import contradict


@dataclass(frozen=True)
class Comparison:
    """A result and the registry's entry of its instance.

    ``above`` is (objective - best known) / |best known|, below 0 where the result is better, None where a side is
    missing. ``impossible``: a proof on one side rules out a checked solution on the other.
    """

    result: Result
    entry: Entry

    @property
    def above(self) -> float | None:
        """By which share the objective lies above the best known one."""
        return above(self.result.objective, self.entry.objective)

    @property
    def impossible(self) -> bool:
        """Whether one of the two must be wrong."""
        ours, best = self.result, self.entry.objective
        refuted = best is not None and (
            ours.status == "infeasible" or (ours.bound is not None and contradict(best, ours.bound))
        )
        return refuted or excluded(self.entry, ours.objective)

    @property
    def improves(self) -> bool:
        """Whether the objective is better than that of any known solution."""
        objective, best = self.result.objective, self.entry.objective
        return objective is not None and (best is None or objective < best)

    @property
    def tightens(self) -> bool:
        """Whether the bound is better than any known one."""
        bound, best = self.result.bound, self.entry.bound
        return bound is not None and (best is None or bound > best)

    @property
    def below_report(self) -> bool:
        """Whether a better value is reported, without its solution."""
        objective, said = self.result.objective, self.entry.reported
        return objective is not None and said is not None and objective > said.ticks

    @property
    def below_reported_bound(self) -> bool:
        """Whether a better bound is reported."""
        bound, said = self.result.bound, self.entry.reported_bound
        return bound is not None and said is not None and bound < said.ticks


def compared(result: Result) -> Comparison | None:
    """The result beside its instance's entry; None where nothing is known, or where a constraint of the user's own (an
    oracle) makes it another problem, an evaluator made another cost count, or the result is in other ticks."""
    apart = "oracle" in result.provenance or result.evaluation is not None
    entry = None if apart else look_up(result.family, result.instance_hash)
    if entry is None or (result.units is not None and result.units.objective != entry.unit):
        return None
    return Comparison(result, entry)


def above(objective: int | None, best: int | None) -> float | None:
    """(objective - best) / |best|: how much worse than the best known value.

    >>> above(179, 100), above(99, 100), above(None, 100)
    (0.79, -0.01, None)
    """
    if objective is None or best is None or (best == 0 and objective != 0):
        return None
    return (objective - best) / abs(best) if best else 0.0


def told(one: Comparison, best: str, share: str, reported: str = "") -> list[str]:
    """What to say of a result: ``best`` is the best known value with its unit, ``share`` the result's distance, and
    ``reported`` the value that is reported without its solution."""
    entry, ours, lines = one.entry, one.result, list[str]()
    if one.impossible:
        return [f"contradicts what is known ({entry.found or entry.proved}): one of the two is wrong, please report it"]
    what, more = "value", ""
    if one.below_report and entry.reported is not None:
        what, more = "solution", f"; {reported} is reported without a solution ({entry.reported.page})"
    if one.improves:
        known = f"improves the best known {what}, {best}, by {share}" if entry.found else f"the first known {what}"
        lines.append(known + more)
    elif ours.objective is not None and ours.objective == entry.objective:
        known = f"equals the best known {what}" if more else "equals best known"
        lines.append(known + (", which is proved optimal" if entry.optimal else "") + more)
    elif ours.objective is not None:
        lines.append(f"{share} above best known, {best} by {entry.found}{more}")
    if one.tightens and entry.bound is not None:
        said = entry.reported_bound if one.below_reported_bound else None
        better = f"; {said.page} reports a better one" if said is not None else ""
        lines.append(f"improves the best known bound, by {entry.proved}{better}")
    return lines
