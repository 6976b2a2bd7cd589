"""What type checkers, notebooks and ``print`` make of the Python API."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import chipmap
from chipmap.records import InputError
from chipmap.run import OptionsByName, SolveOptions

#: A page of user code without a mistake.
RIGHT = """
import chipmap

instance = chipmap.read("ring/tiny-skip", ["package.chips=3"], family="ring")
chips: int = instance.package.chips
result = chipmap.solve(instance, time_limit=5, gap=0.01, threads=1, solver="highs", seed=3)
value: float | None = result.value
unit: str = result.unit
certificate = chipmap.check(instance, {"chips": [0, 0, 0, 0]})
if certificate.feasible and certificate.value is not None:
    print(certificate.value + 1.0, certificate.unit)
for bound in result.bounds:
    print(bound.amount, bound.unit, bound.source)
lower = chipmap.bound("ring/tiny-skip", time_limit=2.5)
found = chipmap.explain(instance)
print(found, found.value, found.unit, [change.what for change in found.changes])
other = chipmap.read("placement/tiny-pair", family="placement")
print(other.task.objective, [device.name for device in other.system.devices])
"""
#: Ten mistakes, each a line of its own.
WRONG = """
import chipmap

instance = chipmap.read("ring/tiny-skip", family="ring")
chipmap.solve(instance, timelimit=5)
chipmap.solve(instance, time_limit="5s")
chipmap.solve(instance, threads="2")
chipmap.solve(instance, solver="cplex")
chipmap.bound(instance, gap="1%")
instance.package.chps
chipmap.read("placement/tiny-pair", family="placement").package
chipmap.check(instance).feasible
chipmap.solve(instance).value + 1.0
chipmap.solve(instance).bounds[0].sources
"""


#: What ``mypy --strict`` asks of a file.
STRICT = (
    *("check_untyped_defs", "disallow_any_generics", "disallow_incomplete_defs", "disallow_subclassing_any"),
    *("disallow_untyped_calls", "disallow_untyped_decorators", "disallow_untyped_defs", "extra_checks"),
    *("no_implicit_reexport", "strict_equality", "warn_return_any", "warn_unused_ignores"),
)


def checked(pages: dict[str, str], folder: Path) -> dict[str, list[int]]:
    """The lines of each page of which ``mypy --strict`` says something.

    Of chipmap it asks what ``make lint`` does, so that both have one cache.
    """
    root = Path(chipmap.__file__).parents[1]
    here = (root / "pyproject.toml").is_file()
    usual = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mypy"] if here else {}
    lines = [f"{name} = {value}" for name, value in usual.items() if name != "packages"]
    for name, code in pages.items():
        (folder / f"{name}.py").write_text(code)
        lines += [f"[mypy-{name}]", *(f"{one} = True" for one in STRICT)]
    (folder / "mypy.ini").write_text("\n".join(["[mypy]", *lines, ""]))
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--config-file", str(folder / "mypy.ini")]
    command += ["--cache-dir", str(root / ".mypy_cache" if here else folder / "cache")]
    command += [str(folder / f"{name}.py") for name in pages]
    environment = {**os.environ, "MYPYPATH": str(root), "PYTHONPATH": str(root)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, timeout=600, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    said = re.findall(r"(\w+)\.py:(\d+): error: ", done.stdout)
    return {name: sorted({int(line) for page, line in said if page == name}) for name in pages}


def test_mypy_finds_the_mistakes_and_no_others(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="a tool of those who work on chipmap")
    first = WRONG.splitlines().index("chipmap.solve(instance, timelimit=5)") + 1
    found = checked({"wrong_page": WRONG, "right_page": RIGHT}, tmp_path)
    assert found == {"wrong_page": list(range(first, first + 10)), "right_page": []}


def test_options_by_name_are_those_of_a_solve() -> None:
    """All but those that the functions name themselves."""
    assert {*OptionsByName.__annotations__, "oracle", "evaluator"} == set(SolveOptions.__struct_fields__)


def test_amounts_have_units() -> None:
    instance = chipmap.read("placement/tiny-pair", family="placement")
    result = chipmap.solve(instance, isolate=False, threads=1)
    assert result.certificate is not None and result.value is not None
    assert (result.certificate.value, result.certificate.unit) == (result.value, "ms") == (1.2e-05, "ms")
    best = max(result.bounds, key=lambda one: one.value)
    assert (best.amount, best.unit) == (result.lower, "ms") and best.value == 12
    assert {(one.unit, one.amount) for one in result.trace if one.value == 12} == {("ms", 1.2e-05)}
    again = type(result).from_json(result.to_json())
    assert again == result and again.bounds[0].unit == "ms"
    alone = chipmap.check(instance, result)
    assert (alone.value, alone.unit) == (1.2e-05, "ms")
    assert "_units" not in str(result.to_json())


def test_short_reprs_and_tables() -> None:
    instance = chipmap.read("ring/tiny-skip")
    result = chipmap.solve(instance, isolate=False, threads=1)
    found = chipmap.explain(instance, options=SolveOptions(threads=1))
    assert repr(instance) == f"<RingInstance ring/tiny-skip: {len(instance.graph.operations)} operations>"  # type: ignore[attr-defined]
    for one in (instance, result.certificate, result.bounds[0], found):
        assert len(repr(one)) < 200 and repr(one).startswith("<") and "\n" not in repr(one)
        table = one._repr_html_()  # type: ignore[union-attr]
        assert table is not None and table.startswith("<table><tr><th>")
    assert repr(result.certificate) == f"<Certificate: valid, {result.value:.7g} {result.unit}>"


def test_an_explanation_prints_as_the_command_does(capsys: pytest.CaptureFixture[str]) -> None:
    from chipmap.cli import main

    assert main(["explain", "ring/tiny-skip", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert str(chipmap.explain("ring/tiny-skip")) == printed.rstrip("\n") and "- " in printed


def test_an_instance_of_another_family_is_refused() -> None:
    with pytest.raises(InputError, match="is an instance of family 'ring'"):
        chipmap.read("ring/tiny-skip", family="placement")
