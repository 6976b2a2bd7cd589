"""What the explanations of several families share: statements, the outcome of a change, two solutions side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chipmap.certificate import Certificate
from chipmap.explanation import Difference, Side, Statement
from chipmap.run import Run

#: Quantities of a solution by (resource, quantity).
Figures = Mapping[tuple[str, str], float]


def statement(topic: str, message: str, label: str = "", **figures: Any) -> Statement:
    """A statement, ended by a full stop."""
    return Statement(topic=topic, label=label, message=f"{message}.", figures=figures)


def outcome(run: Run, reason: str, before: int | None) -> dict[str, Any]:
    """The fields of a :class:`~chipmap.explanation.Change` whose instance was solved in ``run``, which ended for
    ``reason``; ``before`` is the objective of the instance as it is."""
    standings = {"optimal": "proved", "feasible": "best found", "infeasible": "infeasible"}
    least = None if run.lower is None or run.proved_infeasible else run.lower.value
    least = least if least is None or run.upper is None else min(least, run.upper)
    gain = None if run.upper is None or not before else (before - run.upper) / before
    return {"standing": standings.get(reason, "unknown"), "objective": run.upper, "bound": least, "gain": gain}


def side(certificate: Certificate) -> Side:
    """The checker's word on one solution."""
    return Side(**{field: getattr(certificate, field) for field in Side.__struct_fields__})


def side_by_side(judged: tuple[Certificate, Certificate], before: Figures, after: Figures) -> Difference:
    """Two solutions with what the checker says of each, and the quantities in which they differ."""
    rows = [
        {"resource": key[0], "quantity": key[1], "before": before.get(key, 0.0), "after": after.get(key, 0.0)}
        for key in {**before, **after}
        if before.get(key, 0.0) != after.get(key, 0.0)
    ]
    return Difference(before=side(judged[0]), after=side(judged[1]), resources=tuple(rows))
