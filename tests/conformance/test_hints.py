"""What a solve says of an infeasible instance: a hint that promises a mapping keeps its promise, and there is no bound.

Hints of the form ``N bytes do: --set path=N`` promise; ``at least N`` and ``maybe`` don't.
"""

from __future__ import annotations

import re

import pytest

from chipmap.explain import explain
from chipmap.inputs.reading import read
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve

SRAM, DRAM = "system.chip.sram_bytes", "system.memory.capacity_bytes"
PINS = 'task.together=[["a","b"]]'
CHIPLETS = ["module.chiplets.0.sram_bytes", "module.chiplets.1.sram_bytes"]
#: Instances of all families without a mapping: several with more than one constraint in the way.
CASES: list[tuple[str, list[str]]] = [
    ("dataflow/tiny-sram", []),
    ("dataflow/tiny-together", []),
    ("dataflow/tiny-chain", ["task.partitions=1"]),
    ("dataflow/tiny-chain", [f"{SRAM}=50000", PINS]),
    ("dataflow/tiny-chain", [f"{SRAM}=50000", f"{DRAM}=1000"]),
    ("dataflow/tiny-chain", [f"{DRAM}=1000"]),
    ("dataflow/tiny-chain", [f"{DRAM}=1000", "task.partitions=1"]),
    ("dataflow/tiny-chain", ["task.partitions=1", "task.exactly=true", f"{SRAM}=120000"]),
    ("dataflow/tiny-phases", [f"{SRAM}=2000", "task.partitions=1"]),
    ("dataflow/moe-3-experts", [f"{SRAM}=100000"]),
    ("dataflow/resnet50-8", [f"{SRAM}=100000"]),
    ("multimodel/tiny-memory", [f"{path}=1000" for path in CHIPLETS]),
    ("multimodel/tiny-two", ["task.latency_limit_ns=10"]),
    ("multimodel/tiny-two", ["task.latency_limit_ns=100000"]),
    ("multimodel/tiny-two", ["task.energy_limit_pj=1000"]),
    ("multimodel/tiny-two", [*(f"{path}=600000" for path in CHIPLETS), "task.latency_limit_ns=90000"]),
    ("wafer/tiny-memory", []),
    ("wafer/tiny-fabric", []),
    ("wafer/tiny-chain", ["fabric.width=2"]),
    ("wafer/tiny-chain", ["fabric.memory_words=2"]),
    ("placement/tiny-live", []),
    ("placement/tiny-bus", ["task.limit_ns=5"]),
    ("ring/tiny-infeasible", []),
    ("ring/tiny-memory", ["package.sram_bytes=100000"]),
]
NAMES = [f"{name} {' '.join(settings)}".strip() for name, settings in CASES]


@pytest.fixture(scope="module")
def solved() -> dict[str, Result]:
    """The results by case, each made when it is first asked for."""
    return {}


def result(solved: dict[str, Result], name: str, settings: list[str]) -> Result:
    key = f"{name} {' '.join(settings)}"
    if key not in solved:
        solved[key] = solve(read(name, settings), time_limit=60)
    return solved[key]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=NAMES)
def test_a_promise_is_kept(name: str, settings: list[str], solved: dict[str, Result]) -> None:
    found = result(solved, name, settings)
    assert found.status == "infeasible" and found.bound is None and found.gap is None and found.infeasibility
    for remedy in (remedy for reason in found.infeasibility for remedy in reason.remedies):
        promised = re.findall(r"--set ([\w.]+)=(\S+)", remedy)
        assert not (promised and re.search("maybe|at least", remedy)), remedy
        for path, value in promised:
            assert result(solved, name, [*settings, f"{path}={value}"]).status in ("optimal", "feasible"), remedy


@pytest.mark.parametrize(("name", "settings"), CASES, ids=NAMES)
def test_what_is_needed_at_least_is_needed(name: str, settings: list[str], solved: dict[str, Result]) -> None:
    """One less of what a hint says is needed at least is infeasible as well."""
    for reason in result(solved, name, settings).infeasibility:
        for remedy in reason.remedies:
            for amount, path in re.findall(r"^at least ([\d,]+) \w+ \(([\w.]+)\)", remedy):
                less = int(amount.replace(",", "")) - 1
                assert result(solved, name, [*settings, f"{path}={less}"]).status == "infeasible", remedy


@pytest.mark.parametrize(
    ("name", "settings"), [case for case in CASES if case[0].partition("/")[0] in ("ring", "multimodel")]
)
def test_a_solve_and_explain_say_the_same(name: str, settings: list[str], solved: dict[str, Result]) -> None:
    """What is short, by name of the constraint, and no change that is proved to be useless is a hint."""
    told = explain(read(name, settings), options=SolveOptions(time_limit=20.0))
    reasons = result(solved, name, settings).infeasibility
    assert told.status == "infeasible"
    labels = {one.label for one in told.statements if one.topic == "clash" and one.label}
    assert not labels or labels == {reason.label for reason in reasons}
    useless = [change.what for change in told.changes if change.standing == "infeasible"]
    for hint in (hint for reason in reasons for hint in reason.remedies):
        assert "explain" in hint or not any(change in hint for change in useless)


def test_one_is_no_plural(solved: dict[str, Result]) -> None:
    for name, settings in CASES:
        for reason in result(solved, name, settings).infeasibility:
            for text in (reason.message, *reason.remedies):
                assert not re.search(
                    r"(?<![\d.,])1 (partitions|windows|chips|models|segments|chiplets|layers)\b", text
                ), text
