"""What the CP-SAT models of all families have in common: names, literals, and assumptions by label."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ortools.sat.python import cp_model

from chipmap.deadline import look

#: A literal, or a Boolean known when the model is built.
Literal = Any


class LabelledModel:
    """A ``CpModel`` on its way, with ``prefix`` before the names of its variables.

    With ``assume``, each label has a literal in ``assumptions`` that enforces its constraints, so that an infeasible
    model names those that clash.
    """

    def __init__(self, model: cp_model.CpModel, prefix: str, assume: bool) -> None:
        self.model, self.prefix, self.assume = model, prefix, assume
        self.assumptions: dict[str, Any] = {}

    def integer(self, low: int, high: int, name: str) -> cp_model.IntVar:
        """A new integer variable."""
        look()
        return self.model.new_int_var(low, high, self.prefix + name)

    def literal(self, name: str, value: int | None = None) -> cp_model.IntVar:
        """A new Boolean variable, perhaps fixed."""
        return self.integer(value or 0, 1 if value is None else value, name)

    def clause(self, label: str, literals: Iterable[Literal]) -> None:
        """At least one of ``literals`` holds (nothing to add where one is known to)."""
        look()
        unknown = [literal for literal in literals if literal is not False]
        if not any(literal is True for literal in unknown):
            self.enforce(label, self.model.add_bool_or(unknown))

    def assumption(self, label: str) -> list[Any]:
        """The literals that enforce constraints of ``label``: one, if assumed.

        ``def_``, ``sym_`` and ``cut_`` are no demands of the user: they hold always.
        """
        if not self.assume or label.startswith(("def_", "sym_", "cut_")):
            return []
        if label not in self.assumptions:
            self.assumptions[label] = self.literal(f"assume {label}")
        return [self.assumptions[label]]

    def enforce(self, label: str, constraint: cp_model.Constraint) -> None:
        """Put a constraint that has no enforcement yet under ``label``'s assumption, if there is one."""
        if under := self.assumption(label):
            constraint.only_enforce_if(under)


def no(literal: Literal) -> Literal:
    """The opposite of a literal or of a known Boolean."""
    return not literal if isinstance(literal, bool) else ~literal
