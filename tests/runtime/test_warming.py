"""What is compiled once is compiled before the clock starts; whatever goes wrong there costs time only."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import chipmap
from chipmap.family import FAMILY_NAMES, Family, get_family, resolve
from chipmap.instances.ring import RingInstance
from chipmap.kernels.folders import SHARED
from chipmap.process import warming
from chipmap.process.demand import Compiling
from chipmap.run import SolveOptions


@pytest.fixture
def family() -> Family:
    """Ring, of which compiling means one greedy mapping of five operations."""
    return replace(get_family("ring"), warm=(("ring/tiny-skip", "greedy"),))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers go to a folder of the test's own."""

    def folders(family: Family) -> Iterator[Path]:
        yield tmp_path / "cache"

    monkeypatch.setattr(warming, "_folders", folders)


def test_once_and_with_a_word_about_it(family: Family) -> None:
    heard: list[Compiling] = []
    assert warming.warm(family, heard.append) > 0.0
    assert all(now.family == "ring" and now.left >= 1 for now in heard) and "family ring" in str(heard[0])
    count = len(heard)
    assert warming.warm(family, heard.append) == 0.0 and len(heard) == count


def test_other_sources_are_another_time(family: Family, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    warming.warm(family)
    (tmp_path / "heuristics" / "ring").mkdir(parents=True)
    (tmp_path / "kernels").mkdir()
    for kernels in ("heuristics/ring/kernel.py", *(f"kernels/{name}" for name in SHARED)):
        (tmp_path / kernels).touch()
    monkeypatch.setattr(warming, "_PACKAGE", tmp_path)
    assert warming.warm(family) > 0.0


def test_what_failed_is_tried_again(family: Family, tmp_path: Path) -> None:
    broken = replace(family, warm=(("ring/tiny-skip", "no such method"),))
    assert warming.warm(broken) > 0.0
    assert not list((tmp_path / "cache").glob("warm-*.nbi"))
    assert warming.warm(broken) > 0.0


def test_what_was_done_before_a_failure_stays_done(family: Family) -> None:
    half = replace(family, warm=(*family.warm, ("ring/tiny-skip", "no such method")))
    assert warming.warm(half) > 0.0
    assert warming.warm(family) == 0.0 and not warming.is_warm(half)


def test_a_method_that_only_bounds_counts(family: Family) -> None:
    bounding = replace(family, warm=(("ring/tiny-skip", "bounds"), ("wafer/tiny-adapters", "bounds")))
    assert warming.warm(bounding) > 0.0
    assert warming.warm(bounding) == 0.0


def test_its_limit_is_one_of_the_processor(family: Family, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(warming, "MOST", 1)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "compiled"))
    warming.warm(replace(family, warm=(("ring/tiny-diamond", "stations"),)))
    assert not list((tmp_path / "cache").glob("warm-*.nbi"))


def test_what_is_kept_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of other sources aren't."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    ring = get_family("ring")
    assert warming.kept(ring)[2:] == (0, 0, 0.0, ())
    code = "import numpy as np\nfrom chipmap.heuristics.ring.programs.triangle_kernel import fewest_after\n"
    code += "one = np.zeros(1, np.int64)\nfewest_after(0, one, one, one)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    found = warming.kept(ring)
    assert found.functions == 1 and found.bytes > 0 and found.seconds > 0.0 and found.folders == (str(tmp_path),)
    (index,) = tmp_path.rglob("*.digest.nbi")
    index.write_bytes(index.read_bytes()[:-1])
    assert warming.kept(ring).functions == 0


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
def test_what_a_killed_command_began_is_ended_without_it(tmp_path: Path) -> None:
    command = """
from dataclasses import replace
from chipmap.family import get_family
from chipmap.process.warming import warm
warm(replace(get_family("wafer"), warm=(("wafer/tiny-adapters", "greedy"),)))
"""
    cache = tmp_path / "compiled"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    parent = subprocess.Popen([sys.executable, "-c", command], env=environment)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    while not children.read_text().strip():
        assert parent.poll() is None
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    with open(cache / "warm-wafer.lock", "wb") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        before = len(list(cache.rglob("*.nbi")))
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert len(list(cache.rglob("*.nbi"))) > before
    assert len(list(cache.glob("warm-*.nbi"))) == 1, "the next command has nothing left to do"


def test_a_stopped_command_waits_for_nobody(family: Family, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    with open(tmp_path / "cache" / "warm-ring.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warming.warm(family, stopped=lambda: True)
    assert not list((tmp_path / "cache").glob("warm-*.nbi"))


def test_where_nothing_can_be_kept_nothing_is_compiled(family: Family, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert warming.warm(family, lambda now: pytest.fail(str(now))) == 0.0


def test_the_time_limit_starts_afterwards(instance: RingInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(family: Family, *heard: Callable[..., Any]) -> float:
        time.sleep(0.6)
        return 0.6

    monkeypatch.setattr(sys.modules["chipmap.solve"], "warm", slow)
    result = chipmap.solve(
        instance, "wait", SolveOptions(time_limit=0.5, warm_start="none", compile="first"), isolate=False
    )
    assert (result.termination.limit, result.objective is not None) == ("time", True)
    monkeypatch.setattr(sys.modules["chipmap.solve"], "warm", lambda family, *heard: 1000.0)
    result = chipmap.solve(instance, "bounds", SolveOptions(time_limit=20.0, compile="first"), isolate=False)
    assert result.seconds < 0.0 and result.termination.limit == "none", "what compiling took is no part of it"


def test_an_explanation_starts_afterwards_too(instance: RingInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def slow(family: Family) -> float:
        asked.append(family.name)
        return 1e6

    monkeypatch.setattr(sys.modules["chipmap.explain"], "warm", slow)
    found = chipmap.explain(instance, options=SolveOptions(time_limit=20), isolate=True)
    assert (asked, found.status) == (["ring"], "optimal")


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_every_family_names_solves_that_exist(name: str) -> None:
    family = get_family(name)
    assert family.warm
    shipped = resolve(family.shipped)
    for instance, method in family.warm:
        assert instance in shipped
        assert resolve(method) if ":" in method else family.method(method)
