"""Solutions that solvers wrote of exported models: read by name or by place, refused with what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.family import FAMILY_NAMES, family_of, get_family, resolve
from chipmap.inputs.reading import read
from chipmap.plans.emission import listed
from chipmap.plans.reading import read_plan, recognised
from chipmap.records import InputError
from chipmap.solvers.export import export

RING = "ring/tiny-diamond"


def solved(instance: Any, formulation: str, fixed: dict[str, float], path: Path) -> dict[str, float]:
    """Values by name of a solution of an exported model in which some variables are fixed, by HiGHS."""
    import highspy

    form = family_of(instance).formulation(formulation)
    export(resolve(form.build)(instance, form.choices), path)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(path))
    names = list(highs.getLp().col_names_)
    for name, value in fixed.items():
        if name in names:
            highs.changeColBounds(names.index(name), value, value)
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return dict(zip(names, highs.getSolution().col_value, strict=True))


@pytest.fixture
def values_of(tmp_path: Path) -> Callable[..., dict[str, float]]:
    """Values by name: the step variables are fixed for some chips (the page's definition)."""

    def made(instance: Any, chips: tuple[int, ...], formulation: str = "ring/mip") -> dict[str, float]:
        steps = {f"ring_step_{v}_{c}": float(chip <= c) for v, chip in enumerate(chips) for c in range(4)}
        return solved(instance, formulation, steps, tmp_path / "model.mps")

    return made


Values = Callable[..., dict[str, float]]


def written(values: dict[str, float], form: str) -> bytes:
    """A solution as a solver writes it."""
    lines = [f"{name} {value:g}" for name, value in values.items()]
    if form == "highs":
        head = ["Model status", "Optimal", "", "# Primal solution values", "Feasible", "Objective 5"]
        tail = ["# Rows 1", "ring_def_step_0_0 7", "", "# Dual solution values", "None"]
        lines = [*head, f"# Columns {len(lines)}", *lines, *tail]
    elif form == "highs, style 4":
        filled = [f"{name} {value:g} {place}" for place, (name, value) in enumerate(values.items()) if value]
        lines = ["Model status", "Optimal", "", "# Primal solution values", "Feasible", f"# Columns -{len(filled)}"]
        lines += [*filled, "# Rows -1", "ring_def_step_0_0 7 0"]
    elif form == "gurobi":
        lines = ["# Solution for model obj", "# Objective value = 5", *lines]
    elif form == "scip":
        filled = [f"{name:<40} {value:g} \t(obj:0)" for name, value in values.items() if value]
        lines = ["solution status: optimal solution found", "objective value:     5", *filled]
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize("form", ["highs", "highs, style 4", "gurobi", "scip", "lines"])
def test_values_by_name_are_a_mapping(form: str, values_of: Values) -> None:
    """Values of one's own variables are counted, not read."""
    instance = read(RING)
    chips = (0, 1, 2, 3, 3)
    data = written(values_of(instance, chips) | {"my_budget[0]": 4.5}, form)
    found = recognised(data, "x.sol", instance)
    assert (found.name if found else "") == ("" if form == "lines" else "solver")
    _, plan = read_plan(data, "x.sol", instance, "solver")
    assert plan.solution.chips == chips
    assert plan.notes[0] == "values of the variables of ring/mip"
    assert plan.notes[1:] == ("1 value of other variables in the file, which aren't read",)


def test_values_tell_which_model_they_are_of(values_of: Values) -> None:
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
        ({"ring_step_2_1": 0.5}, "has 0.5 for ring_step_2_1, which must be whole"),
        ({"ring_step_2_1": 2.0}, "has 2 for ring_step_2_1, which ring/mip of this instance doesn't allow"),
        ({"ring_step_2_1": -1.0}, "has -1 for ring_step_2_1, which ring/mip of this instance doesn't allow"),
        ({"ring_step_0_0": 0.0}, "breaks the constraint .* of ring/mip: it is of another instance"),
        ({"ring_step_2_1": float("nan")}, "'nan' is no value of ring_step_2_1"),
    ],
)
def test_what_is_no_solution_of_the_model_is_refused(
    change: dict[str, float | None], said: str, values_of: Values
) -> None:
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
        ("Columns\n    Index Status        Lower        Upper\n", "is a table for people"),
        ("status: MODEL_INVALID\n", r"holds no solution \(status: MODEL_INVALID\)"),
    ],
)
def test_files_without_a_whole_solution_are_refused(data: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        read_plan(data.encode(), "x.sol", read(RING))
    assert refused.value.remedy


@pytest.mark.parametrize("mark", ["bytes", "ends"])
def test_other_ways_to_save_text(mark: str, values_of: Values) -> None:
    """With a byte order mark, and with the ends of lines of Windows."""
    instance = read(RING)
    data = written(values_of(instance, (0, 1, 2, 3, 3)), "highs")
    data = b"\xef\xbb\xbf" + data if mark == "bytes" else data.replace(b"\n", b"\r\n")
    assert read_plan(data, "x.sol", instance)[1].solution.chips == (0, 1, 2, 3, 3)


@pytest.mark.parametrize("form", ["highs", "scip"])
@pytest.mark.parametrize("settings", [["package.chips=5"], ["package.chips=3"]])
def test_a_solution_of_another_instance_is_refused(form: str, settings: list[str], tmp_path: Path) -> None:
    """With more chips it has variables that the model hasn't; with fewer it lacks some, or breaks rows without them."""
    values = solved(read(RING, settings), "ring/mip", {}, tmp_path / "other.mps")
    with pytest.raises(InputError, match="Export the model of this very instance"):
        read_plan(written(values, form), "x.sol", read(RING))


def response(name: str, formulation: str = "ring/cpsat", settings: tuple[str, ...] = (), named: bool = False) -> bytes:
    """CP-SAT's response to an exported model, or its values by name."""
    from ortools.sat.python import cp_model

    instance = read(name, settings)
    form = family_of(instance).formulation(formulation)
    native = resolve(form.build)(instance, form.choices).native
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.solve(native)
    if not named:
        return str(solver.response_proto).encode()
    values = zip(native.proto.variables, solver.response_proto.solution, strict=True)
    return "".join(f"{variable.name}\t{value}\n" for variable, value in values).encode()


@pytest.mark.parametrize(
    ("name", "settings"), [("ring/tiny-skip", ()), (RING, ("package.chips=5",)), (RING, ("package.chips=6",))]
)
def test_a_response_to_another_model_is_refused(name: str, settings: tuple[str, ...]) -> None:
    """Its values are told by their place alone: they must keep to the model."""
    with pytest.raises(InputError, match="Export the model of this very instance"):
        read_plan(response(name, settings=settings), "x.pbtxt", read(RING))


@pytest.mark.parametrize("name", ["ring/tiny-diamond", "multimodel/tiny-two"])
def test_values_of_cpsat_by_name(name: str) -> None:
    """Names with commas and spaces, a tab before the value; a value outside its variable's domain is refused."""
    instance, formulation = read(name), f"{name.partition('/')[0]}/cpsat"
    data = response(name, formulation, named=True)
    _, plan = read_plan(data, "x.txt", instance, "solver")
    assert plan.solution == read_plan(response(name, formulation), "x.txt", instance)[1].solution
    line = next(line for line in data.split(b"\n") if line.endswith(b"\t1"))
    for value, said in ((b"-9", "doesn't allow"), (b"0.5", "must be whole")):
        with pytest.raises(InputError, match=f"{said}"):
            read_plan(data.replace(line + b"\n", line[:-1] + value + b"\n"), "x.txt", instance, "solver")


def test_a_model_stated_for_degrees_says_them() -> None:
    instance = read("dataflow/tiny-chain")
    _, plan = read_plan(response("dataflow/tiny-chain", "dataflow/cpsat"), "x.pbtxt", instance)
    assert plan.notes[0].startswith("values of the variables of dataflow/cpsat for tensor 2, pipeline 1")


@pytest.mark.parametrize("data", [b"status: OK\n", b"Columns\na,b\n", b"# Objectives\n", b"status: OPTIMAL, all\n"])
def test_other_files_are_not_taken_for_solutions(data: bytes) -> None:
    assert recognised(data, "x.txt", read(RING)) is None


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
