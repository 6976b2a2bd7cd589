"""The wheel as strangers meet it: ``make wheel``.

Builds ``dist/chipmap-….whl`` as pip does in a fresh checkout, compares its contents with the sources, installs it with
the locked versions for every supported Python that is found (``.venv/wheels/3.12-locked`` and so on), and there runs
:data:`COMMANDS` and :data:`TESTS`. They run in a folder of their own without the sources, so that only the installed
package can be imported.

So does ``make versions`` with the lowest versions that ``pyproject.toml`` allows, on the oldest Python, and with the
newest, on the newest Python: in both :data:`LIMITS` run as well. It is a part of ``make wheel``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from tests.lock import LOCK, LOCK_DEV, entries_of

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".venv" / "wheels"
#: What ``pip wheel`` reads; everything else is left out of the copy that it builds from.
SOURCES = ("chipmap", "pyproject.toml", "README.md", "LICENSE", "NOTICE")
#: What the tests of the lane and their folder need beside ``tests``.
BESIDE = ("pyproject.toml", "README.md", "docs", "examples", "benchmarks")
#: The part of the lock for developers that the lane needs.
TOOLS = ("pytest", "hypothesis")

#: From a graph of one's own and a shipped instance to certificate, picture and report. Each is to end with 0.
COMMANDS = """
chipmap --version
chipmap doctor
chipmap info ring
chipmap generate chain --set operations=6 --out chain.json
chipmap solve ring/tiny-skip --out runs/skip
chipmap solve wafer/tiny-adapters --out runs/adapters
chipmap check ring/tiny-skip runs/skip
chipmap bound ring/tiny-skip
chipmap explain ring/tiny-skip runs/skip
chipmap emit runs/skip --as device-map --out skip.json
chipmap adopt ring/tiny-skip skip.json
chipmap export ring/tiny-skip --formulation ring/mip --to skip.lp
chipmap calibrate examples/links.csv
chipmap calibrate examples/kernels.csv --system h100-sxm --out h100.json
chipmap show runs/skip --no-open
chipmap check wafer/tiny-adapters runs/adapters/result.json
chipmap convert examples/mine.csv --family ring --set package.chips=4 --out mine.json
chipmap solve mine.json --method ring/greedy --out runs/mine
chipmap plot ring/tiny-skip runs/skip --out skip.png
chipmap report runs --html report.html
chipmap completion bash
""".strip().splitlines()

#: Tests that need no compiling, of every layer from records to command line.
TESTS = (
    "tests/test_records.py",
    "tests/test_deadline.py",
    "tests/cli/test_as_people_write.py",
    "tests/instances/test_own_graphs.py",
)


#: Tests of what stands between chipmap and other packages, for the lowest and the newest versions; the quick lane's
#: sample of each.
LIMITS = (
    "tests/solvers",
    "tests/conformance/test_models.py",
    "tests/dataflow/test_relaxation.py::test_no_degrees_have_no_bound",
    "tests/dataflow/test_relaxation.py::test_loads_are_the_checkers",
)
#: Seconds for a command: some 30 on a quiet machine for the tests of :data:`LIMITS`.
PATIENCE = 1800
#: The extras that these need.
EXTRAS = ("gurobi", "relaxation")


class Lane(NamedTuple):
    """A Python, by version and path, and the versions of packages: ``locked``, ``lowest`` or ``newest``."""

    version: str
    python: str
    packages: str

    def __str__(self) -> str:
        return f"Python {self.version}, {self.packages} versions"


def main(arguments: Sequence[str] = ()) -> int:
    """Build, compare, and try with every Python that is found; what is wrong ends as a message and 1.

    With ``--limits`` only the lowest and the newest versions; with ``--one`` only the commands, with those of the lock
    files and the newest Python: the suite that runs beside them has the tests.
    """
    try:
        wheel = build(ROOT / "dist")
        wrong = list(misfits(wheel))
        if wrong:
            raise WheelError(f"{wheel.name}: " + "; ".join(wrong))
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB, contents as they should be", flush=True)
        found = {version: interpreter(version) for version in supported()}
        for version in [version for version, python in found.items() if python is None]:
            print(f"Python {version}: not found, not tried", flush=True)
        pythons = {version: python for version, python in found.items() if python}
        if not pythons:
            raise WheelError("no supported Python was found")
        todo = chosen(lanes(pythons), arguments)
        with ThreadPoolExecutor(min(len(todo), os.cpu_count() or 1)) as pool:
            for line in pool.map(lambda lane: tried(wheel, lane, "--one" not in arguments), todo):
                print(line, flush=True)
    except WheelError as failure:
        print(f"make wheel: {failure}", file=sys.stderr)
        return 1
    return 0


def lanes(pythons: Mapping[str, str]) -> list[Lane]:
    """The longest first: the newest versions on the newest Python that is found, the lowest on the oldest supported one
    (younger ones have no wheels of them), the lock on each."""
    oldest, newest = supported()[0], list(pythons)[-1]
    limits = [Lane(newest, pythons[newest], "newest")]
    if oldest in pythons:
        limits.append(Lane(oldest, pythons[oldest], "lowest"))
    return [*limits, *(Lane(version, python, "locked") for version, python in pythons.items())]


def chosen(every: Sequence[Lane], arguments: Sequence[str]) -> list[Lane]:
    """The lanes that the command's arguments leave."""
    if "--one" in arguments:
        return [lane for lane in every if lane.packages == "locked"][-1:]
    return [lane for lane in every if lane.packages != "locked" or "--limits" not in arguments]


class WheelError(Exception):
    """What didn't work, with the output of the command that ended otherwise than it should."""


def supported() -> list[str]:
    """The Python versions that the classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [line.rsplit(" ", 1)[-1] for line in project["classifiers"] if line.startswith("Programming Language")]


def build(folder: Path) -> Path:
    """The wheel, built from a copy (a ``build`` folder left in the checkout would bring back modules that are gone)."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "chipmap"
        copy.mkdir()
        for source in SOURCES:
            _copied(ROOT / source, copy / source)
        run([sys.executable, *_PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(copy)], copy)
    (wheel,) = folder.glob("*.whl")
    return wheel


def misfits(wheel: Path) -> Iterator[str]:
    """How the wheel's contents differ from the package's sources, data and licences."""
    with zipfile.ZipFile(wheel) as opened:
        held = set(opened.namelist())
        (metadata,) = (name for name in held if name.endswith(".dist-info/METADATA"))
        headers = opened.read(metadata).decode()
    info = metadata.rpartition("/")[0]
    wanted = {path.relative_to(ROOT).as_posix() for path in _sources(ROOT / "chipmap")}
    licences = {f"{info}/licenses/{name}" for name in ("LICENSE", "NOTICE")}
    package = {name for name in held if not name.startswith(f"{info}/")}
    if missing := sorted((wanted | licences) - held):
        yield f"lacks {_some(missing)}"
    if more := sorted(package - wanted):
        yield f"holds {_some(more)}"
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    for line in ["License-Expression: Apache-2.0", *(f"Project-URL: {name}, {url}" for name, url in urls.items())]:
        if line not in headers.splitlines():
            yield f"METADATA lacks {line!r}"


def _sources(folder: Path) -> Iterator[Path]:
    """The files that belong into the wheel: all of the package's but what Python and numba leave behind."""
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def interpreter(version: str) -> str | None:
    """The path of a Python of this version: the running one, on the PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = (Path(folder) / f"python{version}" for folder in os.get_exec_path())
    candidates = [Path(sys.executable), *on_path, *sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)]
    return next((str(python) for python in candidates if python.exists() and _version(python) == version), None)


def _version(python: Path) -> str:
    """``3.12`` of a Python that starts and can make environments; empty for others, as pyenv's idle shims."""
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, env=_plain())
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def tried(wheel: Path, lane: Lane, tests: bool = True) -> str:
    """Install ``wheel`` for the lane's Python, run commands and ``tests``; a sentence about it."""
    home = environment(lane)
    own = home / "bin" / "python"
    # into the environment by the checkout's pip: an own one takes seconds to install
    pip = [sys.executable, *_PIP, "--python", str(own)]
    run([*pip, "install", "--no-deps", "--force-reinstall", str(wheel)], home)
    run([*pip, "check"], home)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in ("tests", *BESIDE):
            _copied(ROOT / source, folder / source)
        code = "import chipmap, pathlib; print(pathlib.Path(chipmap.__file__).resolve())"
        where = run([str(own), "-c", code], folder).strip()
        if not Path(where).is_relative_to(home.resolve()):
            raise WheelError(f"{lane}: imports {where}, not the wheel")
        for command in COMMANDS:
            program, *arguments = command.split()
            run([str(home / "bin" / program), *arguments], folder)
        said, pytest = [f"{len(COMMANDS)} commands"], [str(own), "-m", "pytest", "-p", "no:cacheprovider"]
        if tests:
            said.append(_summary(run([*pytest, *TESTS], folder)))
        if lane.packages != "locked":
            said.append(_summary(run([*pytest, "--quick", *LIMITS], folder)))
    return f"{lane}: {', '.join(said)}"


def environment(lane: Lane) -> Path:
    """An environment with the lane's versions; one that an earlier run made for the same list is taken again.

    What is newest may have changed since: there pip looks again.
    """
    home, wanted = ENVIRONMENTS / f"{lane.version}-{lane.packages}", requirements(lane.packages)
    stamp = home / "made-for"
    digest = hashlib.sha256((wanted + lane.python).encode()).hexdigest()
    there = stamp.exists() and stamp.read_text() == digest
    if there and lane.packages != "newest":
        return home
    if not there:
        shutil.rmtree(home, ignore_errors=True)
        run([lane.python, "-m", "venv", "--without-pip", str(home)], ROOT)
    listed = home / "requirements.txt"
    listed.write_text(wanted, encoding="utf-8")
    # byte code is left to the imports: most modules of the solvers' packages are never imported
    pip = [sys.executable, *_PIP, "--python", str(home / "bin" / "python"), "install", "--no-compile"]
    how = ["--require-hashes"] if lane.packages == "locked" else ["--only-binary", ":all:", "--upgrade"]
    run([*pip, *how, "--requirement", str(listed)], home)
    stamp.write_text(digest)
    return home


def requirements(packages: str) -> str:
    """What pip is to install for these versions: lines of the lock, or what ``pyproject.toml`` asks for."""
    if packages == "locked":
        return "".join(lane_lock())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [
        Requirement(line) for line in [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    ]
    tools = [f"{entry.name}=={entry.version}" for entry in entries_of(LOCK_DEV) if entry.name in TOOLS]
    return "\n".join([*(str(one) if packages == "newest" else lowest(one) for one in asked), *tools])


def lowest(asked: Requirement) -> str:
    """The requirement of the lowest version that is allowed; of any, where no limit is set."""
    (least,) = [one.version for one in asked.specifier if one.operator in (">=", "==")] or [""]
    return f"{asked.name}=={least}" if least else asked.name


def lane_lock() -> list[str]:
    """The lock for users, and of the lock for developers what :data:`TOOLS` need."""
    users, developers = entries_of(LOCK), entries_of(LOCK_DEV)
    names = {entry.name for entry in users}
    wanted, found = {*TOOLS}, set[str]()
    while wanted != found:
        found = set(wanted)
        wanted |= {entry.name for entry in developers if found & set(entry.wanted_by)}
    return [entry.text for entry in [*users, *(one for one in developers if one.name in wanted - names)]]


_PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def _plain() -> Mapping[str, str]:
    """The environment without what would bring another Python's modules in."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def run(command: Sequence[str], folder: Path) -> str:
    """Standard output of a command that ends with 0; :class:`WheelError` says how another ended."""
    try:
        done = subprocess.run(command, cwd=folder, env=_plain(), capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise WheelError(f"{' '.join(command)}\ndidn't end within {PATIENCE} s") from None
    if done.returncode:
        raise WheelError(f"{' '.join(command)}\n{done.stdout}{done.stderr}ended with {done.returncode}")
    return done.stdout


def _copied(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "results"))
    else:
        shutil.copy(source, target)


def _summary(said: str) -> str:
    """What pytest says at the end: ``61 passed in 3.21s``."""
    lines = re.findall(r"^.*\d+ passed.*$", said, re.MULTILINE)
    return lines[-1].strip("= ") if lines else "no test ran"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
