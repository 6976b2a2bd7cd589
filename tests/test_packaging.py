"""What the package says of itself, and where it can't run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.judges import PACKAGES
from chipmap.family import FAMILY_NAMES
from tests.conftest import lacking, wanting
from tests.lock import LOCK, LOCK_DEV, LOCK_DOCS, Entry, entries_of
from tests.needs import needing
from tests.wheel import COMMANDS, LIMITS, TESTS, chosen, lane_lock, lanes, lowest, requirements, supported

ROOT = Path(__file__).resolve().parents[1]


def test_off_posix_the_import_says_what_it_needs() -> None:
    """Without ``fcntl``, as on Windows, the import ends with our sentence and no other error behind it."""
    code = "import sys; sys.modules['fcntl'] = None; import chipmap"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: chipmap needs a POSIX system")
    assert "During handling" not in done.stderr and "direct cause" not in done.stderr


def test_each_supported_python_has_its_classifier() -> None:
    """``requires-python`` and the classifiers name the same versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    least, below = (int(bound.split(".")[-1]) for bound in project["requires-python"].split(","))
    named = [line.rsplit(" ", 1)[-1] for line in project["classifiers"] if line.startswith("Programming Language")]
    assert named == [f"3.{minor}" for minor in range(least, below)]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = supported()


#: The extras that ``make test`` installs beside ``dev``.
DEVELOPERS = ("gurobi", "metis", "onnx", "relaxation")


def asked(*extras: str) -> list[Requirement]:
    """What the package, its build and these extras ask for."""
    listed = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    listed += [line for extra in extras for line in PROJECT["project"]["optional-dependencies"][extra]]
    return [Requirement(line) for line in listed]


def holding(entries: list[Entry], name: str, python: str) -> list[Entry]:
    """The entries of a package that this Python takes on Linux."""
    machine = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    named = [entry for entry in entries if entry.name == canonicalize_name(name)]
    return [entry for entry in named if entry.marker is None or entry.marker.evaluate(machine)]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("lock", "extras"), [(LOCK, ()), (LOCK_DEV, ("dev", *DEVELOPERS))], ids=["users", "dev"])
def test_the_lock_has_one_version_of_everything_asked_for(python: str, lock: Path, extras: tuple[str, ...]) -> None:
    """Whatever pyproject.toml asks for is locked, once for each Python, within the limits that it sets there."""
    entries = entries_of(lock)
    for requirement in asked(*extras):
        (held,) = holding(entries, requirement.name, python)
        assert requirement.specifier.contains(held.version), f"make lock: {requirement} and {held.version}"


def test_the_lock_has_hashes_and_no_places() -> None:
    """Every entry has hashes, and no line names an index or a file: each machine takes its own."""
    for lock in (LOCK, LOCK_DEV, LOCK_DOCS):
        assert all(entry.hashes for entry in entries_of(lock))
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text and "--index" not in text and "--find-links" not in text
    assert all(entry.name != "torch" for entry in entries_of(LOCK_DEV))


def test_users_and_developers_have_the_same_versions() -> None:
    """The lock for users is a part of the one for developers."""
    pinned = {(entry.name, entry.version, str(entry.marker)) for entry in entries_of(LOCK_DEV)}
    assert not [
        entry.name for entry in entries_of(LOCK) if (entry.name, entry.version, str(entry.marker)) not in pinned
    ]


def test_the_judges_are_installed_as_the_extra_says() -> None:
    """Each package that ``make judges`` asks about is in its extra, as other extras allow it; torch comes first."""
    extra = {Requirement(line).name: line for line in PROJECT["project"]["optional-dependencies"]["judges"]}
    assert set(PACKAGES) <= extra.keys() and all("=" in line for line in extra.values())
    first = re.findall(r"^\t\$\(JUDGES\)\S+ -m pip .*install (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert first[0] == extra["torch"]
    for extras in ("learned", "zoo", "jax", "metis", "onnx", "pandas", "cluster"):
        for asked_for in map(Requirement, PROJECT["project"]["optional-dependencies"][extras]):
            tried = next(iter(Requirement(extra[asked_for.name]).specifier)).version.removesuffix(".*")
            assert asked_for.specifier.contains(tried), f"{asked_for} was tried with {tried}"


def test_what_a_test_needs_is_found_through_what_it_calls() -> None:
    """By an import in the file, in the function, and in a helper of another file; not where types alone need it."""
    found = needing({"torch", "onnx", "jax"})
    assert found["tests/learned/test_policy.py::test_advantages"] == {"torch"}
    assert found["tests/instances/test_counting.py::test_the_counter_itself"] == {"torch"}
    assert found["tests/dataflow/test_from_graph.py::test_most_work_of_current_networks_can_be_split"] == {"onnx"}
    of_jax = [name for name, wanted in found.items() if "jax" in wanted]
    files = (
        "tests/placement/test_jax_gradients.py",
        "tests/dataflow/test_exchanges_jax.py",
        "tests/dataflow/test_experts_jax.py",
        "tests/dataflow/test_meshes_jax.py",
        "tests/plans/test_jax_programs.py",
    )
    assert of_jax == [name for name in found if name.startswith(files)]
    assert {name.partition("::")[0] for name in of_jax} == set(files)
    assert not [name for name in found if "/test_weights.py" in name]


def test_skipped_tests_are_counted_by_what_they_lack() -> None:
    """A file that is skipped whole counts with all its functions, and once, whichever workers say it."""

    def skipped(nodeid: str, reason: str) -> pytest.CollectReport:
        return pytest.CollectReport(nodeid, "skipped", ("file", 1, f"Skipped: {reason}"), [])

    missing = "could not import 'jax': No module named 'jax'"
    reports = [skipped("tests/placement/test_jax_gradients.py", missing)] * 2
    reports += [skipped("tests/a.py::test_b", "could not import 'onnx': No module named 'onnx'")]
    reports += [skipped("tests/a.py::test_c[1]", "needs the extra learned"), skipped("tests/a.py::test_d", "other")]
    assert lacking(reports) == {"judges": 2, "onnx": 1, "": 1}
    assert wanting("Skipped: needs the extra pandas") == "pandas" and wanting("Skipped: no such system") == ""


def test_the_build_group_is_what_builds() -> None:
    """``make lock`` reads the group; pip reads ``build-system``."""
    assert PROJECT["dependency-groups"]["build"] == PROJECT["build-system"]["requires"]


def test_the_site_is_built_with_its_extra_and_what_chipmap_imports() -> None:
    """The group that ``make lock`` reads is the extra and what ``import chipmap`` needs; all is locked once."""
    group, extra = PROJECT["dependency-groups"]["docs"], PROJECT["project"]["optional-dependencies"]["docs"]
    assert set(group) - set(extra) == {line for line in PROJECT["project"]["dependencies"] if "msgspec" in line}
    assert set(extra) <= set(group)
    for python, requirement in product(PYTHONS, map(Requirement, group)):
        (held,) = holding(entries_of(LOCK_DOCS), requirement.name, python)
        assert requirement.specifier.contains(held.version, prereleases=True)


def test_the_lane_of_the_wheel_is_whole() -> None:
    """Its tests are there, its commands are chipmap's, and its environment has pytest and all that pytest needs."""
    assert all((ROOT / name).is_file() for name in TESTS)
    assert all(command.startswith("chipmap ") for command in COMMANDS)
    held = {text.partition("==")[0] for text in lane_lock()}
    assert {"pytest", "pluggy", "iniconfig", "hypothesis", "sortedcontainers", "numpy"} <= held
    assert not held & {"mypy", "ruff", "onnx"}


def test_the_lowest_and_the_newest_versions_are_tried() -> None:
    """The lowest on the oldest Python, the newest on the newest; both with what HiGHS shares a process with."""
    found = {version: f"/{version}" for version in PYTHONS}
    limits = {lane.packages: lane.version for lane in lanes(found) if lane.packages != "locked"}
    assert limits == {"lowest": PYTHONS[0], "newest": PYTHONS[-1]}
    assert [lane.version for lane in lanes(found) if lane.packages == "locked"] == PYTHONS
    assert [lane.packages for lane in lanes({PYTHONS[-1]: "/"})] == ["newest", "locked"]
    assert chosen(lanes(found), ()) == lanes(found)
    assert {lane.packages for lane in chosen(lanes(found), ("--limits",))} == {"lowest", "newest"}
    assert [tuple(lane) for lane in chosen(lanes(found), ("--one",))] == [(PYTHONS[-1], f"/{PYTHONS[-1]}", "locked")]
    asked_for = {one.name: one for one in asked("gurobi", "relaxation")}
    low, high = (requirements(packages).splitlines() for packages in ("lowest", "newest"))
    for name in ("highspy", "cvxpy", "ortools", "gurobipy", "numpy"):
        (least,) = [Requirement(line).specifier for line in low if Requirement(line).name == name]
        assert str(least).startswith("==") and asked_for[name].specifier.contains(str(least).removeprefix("=="))
        assert str(asked_for[name]) in high
    for name in LIMITS:
        file, _, function = name.partition("::")
        assert (ROOT / file).exists() and f"def {function}" in ((ROOT / file).read_text() if function else "def ")
    assert lowest(Requirement("one>=1.2,!=1.3.*,<2")) == "one==1.2" and lowest(Requirement("one")) == "one"


def test_each_family_has_its_paper_and_the_page_names_it() -> None:
    """The URLs of pyproject.toml stand in ``docs/data.md``, one for each family."""
    urls = PROJECT["project"]["urls"]
    assert set(urls) == {f"Paper of family {name}" for name in FAMILY_NAMES}
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert not [url for url in urls.values() if f"<{url}>" not in page]


def test_the_page_on_data_names_what_is_there() -> None:
    """Every module that it names exists, and every room with figures of others is named."""
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:instances|networks)/[\w/.]+)`", page)
    assert named and not [name for name in named if not (ROOT / "chipmap" / name).exists()]
    rooms = ["networks/generators", *(f"instances/{name}" for name in ("dataflow", "multimodel", "placement", "wafer"))]
    assert not [room for room in rooms if not any(name.startswith(room) for name in named)]


def test_the_notice_goes_with_the_package() -> None:
    """Projects whose tables were followed under a licence stand in the NOTICE, which the wheel holds."""
    assert PROJECT["project"]["license-files"] == ["LICENSE", "NOTICE"]
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert "Copyright (c) 2019 GT Synergy Lab" in notice and "Copyright (c) 2023 XRBench" in notice
    assert "Permission is hereby granted" in notice
    assert "Copyright (c) 2019 GT Synergy Lab" in page and "Copyright (c) 2023 XRBench" in page
