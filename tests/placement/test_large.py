"""Thousands of operations (in the long lane 52,213): what is killed, interrupted or out of time leaves a schedule."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipmap import archive
from chipmap.deadline import Deadline, Stop, StopReason
from chipmap.heuristics.placement.bounds import ancestors, same_device_bound
from chipmap.heuristics.placement.bounds import simple as bounds
from chipmap.heuristics.placement.bounds.packing import packing
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.simulation.tables import tables
from chipmap.heuristics.placement.starts.etf import etf
from chipmap.heuristics.placement.starts.partition import partition
from chipmap.inputs.reading import read
from chipmap.instances.placement import PlacementInstance, PlacementSolution
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.validation.placement.checker import check
from tests.docs.pages import ROOT
from tests.lanes import LONG

posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")


@pytest.fixture(scope="module")
def large() -> PlacementInstance:
    found = read("placement/gnmt-8-50k-pcie") if LONG else thousands()
    assert isinstance(found, PlacementInstance)
    return found


def thousands() -> PlacementInstance:
    """Some 4,000 operations on four devices."""
    return training_step("gnmt", {"layers": 4, "steps": 30, "batch": 8, "hidden": 64}, devices=4)


@pytest.fixture(scope="module")
def file(large: PlacementInstance, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.json"
    path.write_bytes(large.to_json())
    return path


@pytest.fixture
def search(file: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A solve that has its first schedule on disk (in ``run.partial``)."""
    command = [sys.executable, "-m", "chipmap", "solve", file, "--time-limit", "300", "--out", tmp_path / "run"]
    process = subprocess.Popen(
        [str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 300
    while not (tmp_path / "run.partial" / "solution.json").exists():
        assert process.poll() is None and time.monotonic() < until, process.communicate()
        time.sleep(0.02)
    yield process
    process.kill()
    process.communicate()


def judged(run: Path, large: PlacementInstance, limit: str) -> None:
    """The archive is whole; its certificate is the checker's word on its schedule."""
    result = archive.load(run).result
    certificate = check(large, PlacementSolution.read(run / "solution.json"))
    assert certificate.feasible and result.certificate == certificate
    assert result.termination.limit == limit and result.bound is not None
    assert certificate.objective is not None and result.objective == certificate.objective >= result.bound


@posix
def test_an_interrupt_leaves_schedule_and_certificate(
    search: subprocess.Popen[str], large: PlacementInstance, tmp_path: Path
) -> None:
    search.send_signal(signal.SIGINT)
    _, errors = search.communicate(timeout=300)
    assert search.returncode == 130 and "Traceback" not in errors
    judged(tmp_path / "run", large, "interrupted")


@posix
def test_a_killed_child_leaves_schedule_and_certificate(
    search: subprocess.Popen[str], large: PlacementInstance, tmp_path: Path
) -> None:
    children = Path(f"/proc/{search.pid}/task/{search.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list a process's children")
    os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    _, errors = search.communicate(timeout=300)
    assert search.returncode == 6 and "Traceback" not in errors
    judged(tmp_path / "run", large, "memory")  # who killed it is not known: most often it is lack of memory


@posix
def test_a_killed_command_leaves_a_schedule(
    search: subprocess.Popen[str], large: PlacementInstance, tmp_path: Path
) -> None:
    search.kill()
    search.communicate(timeout=300)
    assert check(large, PlacementSolution.read(tmp_path / "run.partial" / "solution.json")).feasible
    assert not (tmp_path / "run").exists()


def parts(problem: PlacementProblem) -> dict[str, Callable[[Deadline], Any]]:
    """What takes long on a large instance."""
    known = bounds.heads_and_tails(problem, Deadline())
    made, begin, flat = units(problem), common_devices(problem).argmax(axis=1).astype(np.int64), tables(problem)
    return {
        "windows": lambda until: bounds.heads_and_tails(problem, until),
        "sides": lambda until: same_device_bound.raised(problem, known, False, until),
        "probing": lambda until: same_device_bound.raised(problem, known, True, until),
        "ancestors": lambda until: ancestors.raised(problem, known, until),
        "target": lambda until: bounds.target(problem, known, 0, problem.horizon, until),
        "packing": lambda until: packing(problem, known, 0, problem.horizon, until),
        "partition": lambda until: partition(problem, made, begin, 0, until),
        "etf": lambda until: etf(problem, flat, until),
    }


def test_every_part_looks_at_the_clock_and_ends() -> None:
    """A clock that lets a part go on for a while: each asks it more often than that, and hardly any more afterwards."""
    problem = placement_problem(thousands())
    assert problem.operations > 4_000
    for name, part in parts(problem).items():
        asked = [0]

        def ended() -> StopReason | None:
            asked[0] += 1  # noqa: B023
            return None if asked[0] <= 1 else "time"  # noqa: B023

        with suppress(Stop):
            part(Deadline(ended=ended))
        assert 2 <= asked[0] <= 4, (name, asked)
