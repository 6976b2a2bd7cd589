"""Solutions that solvers wrote of exported models: read by name or by place, refused with what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.family import FAMILY_NAMES, family_of, get_family, resolve
from chipmap.inputs.reading import read
from chipmap.plans.emission import listed
from chipmap.plans.reading import read_plan, recognised
from chipmap.records import InputError
from chipmap.solvers.export import column_names
from chipmap.solvers.lowering import lower

RING = "ring/tiny-diamond"


def values_of(instance: Any, chips: tuple[int, ...], formulation: str = "ring/mip") -> dict[str, float]:
    """Values by name: those of the step variables are of ``chips`` (the page's definition), all others are 0."""
    form = family_of(instance).formulation(formulation)
    names = column_names(lower(resolve(form.build)(instance, form.choices).native))
    steps = {f"ring_step_{v}_{c}": float(chip <= c) for v, chip in enumerate(chips) for c in range(4)}
    return {name: steps.get(name, 0.0) for name in names}


def written(values: dict[str, float], form: str) -> bytes:
    """A solution as a solver writes it."""
    lines = [f"{name} {value:g}" for name, value in values.items()]
    if form == "highs":
        head = ["Model status", "Optimal", "", "# Primal solution values", "Feasible", "Objective 5"]
        tail = [f"# Rows {1}", "ring_def_step_0_0 7", "", "# Dual solution values", "None"]
        lines = [*head, f"# Columns {len(lines)}", *lines, *tail]
    elif form == "gurobi":
        lines = ["# Solution for model obj", "# Objective value = 5", *lines]
    elif form == "scip":
        filled = [f"{name:<40} {value:g} \t(obj:0)" for name, value in values.items() if value]
        lines = ["solution status: optimal solution found", "objective value:     5", *filled]
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize("form", ["highs", "gurobi", "scip", "lines"])
def test_values_by_name_are_a_mapping(form: str) -> None:
    """Values of one's own variables are counted, not read."""
    instance = read(RING)
    chips = (0, 1, 2, 3, 3)
    data = written(values_of(instance, chips) | {"my_budget": 4.5}, form)
    found = recognised(data, "x.sol", instance)
    assert (found.name if found else "") == ("" if form == "lines" else "solver")
    _, plan = read_plan(data, "x.sol", instance, "solver")
    assert plan.solution.chips == chips
    assert plan.notes[0] == "values of the variables of ring/mip"
    assert plan.notes[1:] == ("1 value of other variables in the file, which aren't read",)


def test_values_tell_which_model_they_are_of() -> None:
    instance = read(RING)
    values = values_of(instance, (0, 0, 0, 1, 1), "ring/mip-path")
    assert len(values) < len(values_of(instance, (0, 0, 0, 1, 1)))
    _, plan = read_plan(written(values, "highs"), "x.sol", instance)
    assert plan.solution.chips == (0, 0, 0, 1, 1)
    assert plan.notes == ("values of the variables of ring/mip-path",)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ring_step_2_1": None}, "has no value of ring_step_2_1, a variable of ring/mip"),
        ({"ring_step_2_1": 0.5}, "ring_step_2_1 is 0.5, which must be whole"),
        ({"ring_step_2_1": float("nan")}, "'nan' is no value of ring_step_2_1"),
    ],
)
def test_what_is_no_solution_of_the_model_is_refused(change: dict[str, float | None], said: str) -> None:
    instance = read(RING)
    values = {name: change.get(name, value) for name, value in values_of(instance, (0, 0, 0, 0, 0)).items()}
    data = written({name: value for name, value in values.items() if value is not None}, "gurobi")
    with pytest.raises(InputError, match=said) as refused:
        read_plan(data, "x.sol", instance)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("Model status\nInfeasible\n\n# Primal solution values\nNone\n", "holds no solution"),
        ("solution status: infeasible\nno solution available\n", "holds no solution"),
        ("status: INFEASIBLE\nwall_time: 0.1\n", r"holds no solution \(status: INFEASIBLE\)"),
        ("status: OPTIMAL\nsolution: 0\nsolution: 1\n", "has 2 values, but ring/cpsat has 76 variables"),
        ("# Objective value = 5\nring_step_0_0\n", "'ring_step_0_0' is no name with a value"),
        ("# Objective value = 5\na 1\na 2\n", "a has the value 1 already"),
    ],
)
def test_files_without_a_whole_solution_are_refused(data: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        read_plan(data.encode(), "x.sol", read(RING))
    assert refused.value.remedy


def test_it_is_read_only() -> None:
    for family in map(get_family, FAMILY_NAMES):
        assert family.plan_format("solver").adopt
    instance = read(RING)
    assert "solver" not in [form.name for form, _ in listed(family_of(instance), instance, None)]


def test_export_says_what_an_optimum_is_worth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a model for some degrees, which ones; of an exact model nothing."""
    for name, formulation, said in (
        ("dataflow/tiny-chain", "dataflow/mip", "no bound of the instance)\n  it is stated for tensor 2, pipeline 1"),
        ("multimodel/tiny-two", "multimodel/mip", "no bound of the instance)\n  it is stated for T2 + 1406.499 · T1"),
        (RING, "ring/mip", "standing: exact)\n"),
    ):
        assert main(["export", name, "--formulation", formulation, "--to", str(tmp_path / "model.mps")]) == 0
        assert said in capsys.readouterr().err
