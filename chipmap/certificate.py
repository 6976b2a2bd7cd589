"""The checker's verdict on a solution: feasible, or which constraints are violated where and by how much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from chipmap.records import InTicks, Record, Units, counted, html_row
from chipmap.records.quantities import number, smaller


class Violation(Record, frozen=True, kw_only=True):
    """One violated constraint: its label on the family's page, where, by how much, in which unit, in words."""

    label: str
    where: str
    amount: float
    unit: str
    message: str


class Prediction(InTicks, frozen=True, kw_only=True):
    """What a measured profile of the machine says of the same mapping, where the objective is a limit by data sheets.

    ``objective`` is in the family's tick, ``headline`` says the figures that matter most, ``profile`` is the name of
    the profiled machine. ``fitted_to`` says in words what its numbers come from, ``beyond`` what of this instance it
    wasn't fitted to (empty: nothing is known). So many measured ``rows`` that it isn't fitted to are off by
    ``median_error`` and at most by ``worst_error``, as shares; ``source`` is where they stand. No bound and no gap is
    of it.
    """

    profile: str
    objective: int
    headline: str = ""
    fitted_to: str
    beyond: str = ""
    rows: int
    median_error: float
    worst_error: float
    source: str

    @property
    def value(self) -> float:
        """The predicted objective in :attr:`unit`."""
        return self.in_unit(self.objective) or 0.0

    @property
    def amount(self) -> str:
        """The predicted objective in three digits, with its unit: ``52.1 ms``."""
        units: Units | None = self.__dict__.get("_units")
        if units is None:
            return f"{self.objective:,} ticks"
        steps, name = smaller(self.value, units.objective.name, 1.0)
        return f"{number(float(f'{self.value * 1000**steps:.3g}'))} {name}"

    def told(self, objective: int | None = None) -> str:
        """All of it in a sentence; beside an ``objective`` in ticks, how many times as much is predicted."""
        times = f", {self.objective / objective:.3g} times the limit" if objective else ""
        figures = f" ({self.headline})" if self.headline else ""
        errors = f"{self.median_error:.1%} as a median and {self.worst_error:.1%} at worst"
        beyond = f"; not fitted to {self.beyond}" if self.beyond else ""
        return (
            f"predicted: about {self.amount}{times}{figures}, by {self.profile}: {self.fitted_to}; "
            f"off by {errors} on {self.rows} measured rows that it isn't fitted to{beyond}. "
            f"For a mapping that suits these costs, solve on {self.profile}"
        )


class Certificate(InTicks, frozen=True, kw_only=True):
    """What the independent checker found.

    ``objective`` (integer, in the family's tick) and ``terms`` (ticks, by name T1, T2 …) are recomputed from the
    instance and the solution; they are None and empty when a violation leaves them undefined. ``grade`` names how
    memory was checked; ``figures`` holds derived figures in natural units (chips used, latency …);
    ``headline`` says the few that matter most, in words;
    ``oracle`` names the user's function that was asked, with its version (empty: none). ``prediction`` is what a
    measured profile of the machine says of the solution, where the family has one (``dataflow``); ``check`` and
    ``solve`` put it there.
    """

    instance_hash: str
    solution_hash: str
    feasible: bool
    objective: int | None = None
    terms: dict[str, int] = {}
    violations: tuple[Violation, ...] = ()
    grade: str = ""
    figures: dict[str, float] = {}
    headline: str = ""
    oracle: str = ""
    prediction: Prediction | None = None

    def told_in(self, units: Units | None) -> Self:
        """The certificate, whose amounts are told in these units from now on, those of its prediction too."""
        if self.prediction is not None:
            self.prediction.told_in(units)
        return super().told_in(units)

    @property
    def outlook(self) -> str:
        """What is predicted, in a sentence, beside the objective; empty where no profile of the machine applies."""
        return "" if self.prediction is None else self.prediction.told(self.objective)

    @property
    def value(self) -> float | None:
        """The objective in :attr:`unit`; None where a violation leaves it undefined."""
        return self.in_unit(self.objective)

    def _verdict(self) -> str:
        return "valid" if self.feasible else f"refused, {counted(len(self.violations), 'violation')}"

    def _amount(self) -> str:
        return "no objective" if self.value is None else f"{self.value:.7g} {self.unit}"

    def __repr__(self) -> str:
        """One line: ``<Certificate: valid, 9 us>``."""
        labels = ", ".join(dict.fromkeys(one.label for one in self.violations))
        return f"<Certificate: {self._verdict()}{f' ({labels})' if labels else ''}, {self._amount()}>"

    def _repr_html_(self) -> str:
        cells = {"verdict": self._verdict(), "objective": self._amount(), "figures": self.headline}
        cells |= {"prediction": self.outlook} if self.outlook else {}
        return html_row({**cells, "violations": "; ".join(one.message for one in self.violations[:5])})


def with_prediction(
    certificate: Certificate,
    instance: Any,
    solution: Any,
    predict: Callable[[Any], Any],
    check: Callable[[Any, Any], Certificate],
) -> Certificate:
    """A valid solution's certificate with what a profile of the machine predicts: ``check`` judges the same solution
    on the profiled machine.

    ``predict``: (instance) -> the profiled ``instance`` with ``facts``, which are the prediction's other fields, or why
    there is none, in words that the headline then says ("": nothing to say).
    """
    found = predict(instance) if certificate.feasible else ""
    if isinstance(found, str):
        said = certificate.headline and found
        return certificate.replace(headline=f"{certificate.headline}; {found}") if said else certificate
    judged = check(found.instance, solution)
    if judged.objective is None:
        return certificate
    headline = judged.headline.partition(" predicted")[0]
    return certificate.replace(prediction=Prediction(objective=judged.objective, headline=headline, **found.facts))
