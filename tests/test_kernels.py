"""The cache of compiled functions on disk: damaged, unwritable or old, it costs time and never a result."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from chipmap import kernels
from chipmap.kernels import folders, njit
from chipmap.kernels.folders import sealed, trusted
from chipmap.kernels.sorting import argsort, position

ROOT = Path(__file__).parents[1]
KERNEL = """
from chipmap.kernels import njit

@njit(cache=True)
def triple(x):
    return 3 * x
"""
#: Calls kernels in a package of the test's own; says what each gives, whether it was loaded, and what went wrong.
CALL = """
import json, sys
from pathlib import Path
from chipmap import kernels
kernels._ROOMS = (Path(sys.argv[1]),)
import family.kernel
called = [getattr(family.kernel, name) for name in sys.argv[2:]]
values = [kernel(14) for kernel in called]
print(json.dumps([values, [sum(kernel.stats.cache_hits.values()) for kernel in called], list(kernels.TROUBLE)]))
"""


#: Makes the folder of the sources one that this process can't write, for root as well.
UNWRITABLE = """
import os, tempfile
from chipmap.kernels import folders
real, access = tempfile.TemporaryFile, os.access
inside = lambda path: str(path).startswith(os.path.join(sys.argv[1], "family"))
def temporary(*args, dir=None, **rest):
    if inside(dir):
        raise PermissionError(13, "not here")
    return real(*args, dir=dir, **rest)
tempfile.TemporaryFile = temporary
os.access = lambda path, mode: access(path, mode) and not inside(path)
tempfile.gettempdir = lambda: "/nowhere"
"""


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder with one family, which has one kernel."""
    (tmp_path / "family").mkdir()
    (tmp_path / "family" / "__init__.py").touch()
    (tmp_path / "family" / "kernel.py").write_text(KERNEL)
    return tmp_path


def call(room: Path) -> tuple[int, int, list[str]]:
    """The value of the kernel, how many functions came from disk, and what was wrong there; in a process of its own."""
    (value,), (hits,), trouble = calls(room, ["triple"])
    return value, hits, trouble


def calls(room: Path, names: list[str]) -> tuple[list[int], list[int], list[str]]:
    """The same of several kernels in one process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(room), str(ROOT)])}
    environment.pop("NUMBA_CACHE_DIR", None)
    ran = subprocess.run(
        [sys.executable, "-c", CALL, room, *names], env=environment, capture_output=True, check=True, text=True
    )
    values, hits, trouble = json.loads(ran.stdout)
    return values, hits, trouble


def kept(room: Path, ending: str, name: str) -> Path:
    """The one file of a kernel's cache with that ending."""
    (path,) = (room / "family" / "__pycache__").glob(f"kernel.{name}-*.{ending}")
    return path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def changed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def test_a_damaged_file_is_said_and_replaced(room: Path) -> None:
    """Six kernels, a file of each damaged in another way: each is compiled again, and it is said of each."""
    damages = [(damage, ending) for damage in (cut, emptied, changed) for ending in ("nbi", "nbc")]
    names = [f"triple{i}" for i in range(len(damages))]
    (room / "family" / "kernel.py").write_text("".join(KERNEL.replace("triple", name) for name in names))
    assert calls(room, names) == ([42] * 6, [0] * 6, [])
    for name, (damage, ending) in zip(names, damages, strict=True):
        damage(kept(room, ending, name))
    values, hits, trouble = calls(room, names)
    assert (values, hits) == ([42] * 6, [0] * 6)
    assert len(trouble) == 6 and all(any(name in said for said in trouble) for name in names)
    assert calls(room, names) == ([42] * 6, [1] * 6, [])


class _Evil:
    """What makes a folder when it is unpickled."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self.folder,)


def test_nothing_is_unpickled_before_the_digest_is_compared(tmp_path: Path) -> None:
    """A pickle can run code: what isn't as it was written is never given to it, at whatever place of the file."""
    from chipmap.kernels.compiled import _File

    said, mark = list[str](), tmp_path / "executed"
    file = _File(str(tmp_path), "name", "stamp", said.append)
    file._save_index({"key": "data"})
    file._save_data("data", (1, 2))
    assert file._load_index() == {"key": "data"} and file._load_data("data") == (1, 2) and not said
    evil = pickle.dumps(_Evil(str(mark)))
    for path in (Path(file._index_path), Path(file._data_path("data"))):
        good = path.read_bytes()
        for data in (evil, evil + good, good[:32] + evil, good + evil, evil + bytes(32), b""):
            path.write_bytes(data)
            if path.name == "data":
                with pytest.raises(ValueError, match="is not as it was written"):
                    file._load_data("data")
            else:
                assert file._load_index() == {} and "is not as it was written" in said.pop()
            assert not mark.exists()
    assert pickle.loads(evil) is None and mark.exists()  # it would have


def test_what_older_sources_named_is_not_unpickled(tmp_path: Path) -> None:
    """An index of other sources may name types that are no more: it is old, and nothing is wrong."""
    from chipmap.kernels.compiled import _File

    said, mark = list[str](), tmp_path / "executed"
    file = _File(str(tmp_path), "name", "now", said.append)
    old = pickle.dumps(file._version) + pickle.dumps("before") + pickle.dumps(_Evil(str(mark)))
    Path(file._index_path).write_bytes(sealed(old))
    assert file._load_index() == {} and not said and not mark.exists()


def test_a_folder_that_others_can_write_is_not_used(room: Path) -> None:
    folder = room / "family" / "__pycache__"
    folder.mkdir()
    folder.chmod(0o777)
    value, hits, trouble = call(room)
    assert (value, hits) == (42, 0) and "can be written by others" in trouble[0]
    assert not list(folder.glob("*.nb?"))


def test_without_a_home_there_is_a_folder_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the user's own, among the temporary files; another user's isn't taken."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "so that it is as it was afterwards")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(folders.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(folders, "user_cache", list)
    package = tmp_path / "package"
    package.mkdir()
    assert not folders.provide(package), "it can be written"
    package = tmp_path / "file" / "package"
    package.parent.write_text("no folder")
    own = tmp_path / f"chipmap-{os.geteuid()}"
    own.mkdir()
    own.chmod(0o777)
    assert not folders.provide(package) and "NUMBA_CACHE_DIR" not in os.environ
    own.rmdir()
    assert folders.provide(package) and os.environ["NUMBA_CACHE_DIR"] == str(own)
    assert own.stat().st_mode & 0o777 == 0o700 and not folders.provide(package), "once"


def test_folders_of_the_user_and_of_root_are_trusted(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir(mode=0o755)
    assert trusted(inner) and not trusted(tmp_path / "missing")
    link = tmp_path / "link"
    link.symlink_to(inner)
    assert trusted(link)
    tmp_path.chmod(0o777)
    assert not trusted(inner)  # others can put another folder into its place
    tmp_path.chmod(0o1777)
    assert trusted(inner) and not trusted(tmp_path)
    tmp_path.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(inner, 12345, 0)
        assert not trusted(inner)
        os.chown(inner, 0, 12345)
        inner.chmod(0o775)
        assert not trusted(inner)


def test_a_second_process_compiles_only_what_another_file_of_the_family_changes(room: Path) -> None:
    (room / "family" / "factor.py").write_text("from chipmap.kernels import njit\n\n@njit\ndef f():\n    return 2\n")
    (room / "family" / "kernel.py").write_text(
        KERNEL.replace("3 * x", "f() * x").replace("import njit", "import njit\nfrom family.factor import f")
    )
    assert call(room) == (28, 0, [])
    assert call(room) == (28, 1, [])
    (room / "family" / "factor.py").write_text("from chipmap.kernels import njit\n\n@njit\ndef f():\n    return 5\n")
    assert call(room) == (70, 0, [])


def test_where_nothing_can_be_written_the_function_runs_all_the_same(room: Path) -> None:
    folder = room / "family" / "__pycache__"
    call(room)
    for path in folder.glob("*.nb?"):
        path.unlink()
        path.mkdir()  # a rename to a directory fails, for root as well
    value, hits, trouble = call(room)
    assert (value, hits) == (42, 0)
    assert trouble


def test_what_others_have_put_where_one_cannot_write_is_read(room: Path) -> None:
    """An image made by root: its functions are loaded, though this user's go elsewhere, or nowhere."""
    assert call(room) == (42, 0, [])
    code = CALL.replace("import family.kernel\n", UNWRITABLE + "import family.kernel\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(room), str(ROOT)])}
    environment.pop("NUMBA_CACHE_DIR", None)
    for home in (str(room / "home"), str(room / "family" / "kernel.py")):  # the second one is no folder
        environment |= {"XDG_CACHE_HOME": home, "TMPDIR": str(room / "none")}
        ran = subprocess.run([sys.executable, "-c", code, room, "triple"], env=environment, capture_output=True)
        (value,), (hits,), trouble = json.loads(ran.stdout)
        assert (value, hits) == (42, 1), trouble
    kept(room, "nbi", "triple").unlink()
    ran = subprocess.run([sys.executable, "-c", code, room, "triple"], env=environment, capture_output=True)
    (value,), (hits,), trouble = json.loads(ran.stdout)
    assert (value, hits) == (42, 0) and "no folder can be written" in trouble[0]


def twice(x: Any) -> Any:
    return x + x


def test_a_kernel_runs_plainly_where_it_is_told_to() -> None:
    kernel = kernels.njit(twice)
    with kernels.plainly():
        assert kernel("ab") == "abab"
        assert kernel._compiled is None
    assert kernel(21) == 42
    assert kernel._compiled is not None


def test_what_ran_compiled_does_so_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not within a limit that compiling would count in, as it may be called with other types now."""
    kernel, plain = kernels.njit(twice), list[int]()

    def noting(x: int) -> int:
        plain.append(x)
        return x + x

    monkeypatch.setattr(kernel, "py_func", noting)
    with kernels.plainly():
        assert kernel(1) == 2 and plain == [1]
    kernel._compiled = twice
    with kernels.plainly(ready=True):
        assert kernel(2) == 4 and plain == [1, 2], "made, but not called yet"
    assert kernel(3) == 6 and plain == [1, 2]
    with kernels.plainly(ready=True):
        assert kernel(4) == 8 and plain == [1, 2]
    with kernels.plainly(ready=False):
        assert kernel(5) == 10 and plain == [1, 2, 5]
    with kernels.uncompiled():
        assert kernel(6) == 12 and plain == [1, 2, 5, 6]


def test_what_may_not_run_compiled_may_not_within_another_limit_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part with seconds of its own, in a run that may not compile yet, and where numba isn't to be imported."""
    monkeypatch.setattr(kernels, "PLAIN", 0.0)
    kernel = kernels.njit(twice)
    with kernels.plainly(ready=False), kernels.plainly(), pytest.raises(kernels.Unready):
        kernel(21)
    with kernels.uncompiled(), kernels.plainly():
        assert kernel(21) == 42
    assert kernel._compiled is None


def test_plain_numbers_are_python_s_own() -> None:
    class Pair(NamedTuple):
        one: Any
        two: Any

    kernel = kernels.njit(lambda: Pair(np.int64(3), (np.float64(0.5), np.bool_(True), np.zeros(2))))
    with kernels.plainly():
        one, (half, yes, zeros) = kernel()
    assert [type(value) for value in (one, half, yes)] == [int, float, bool]
    assert zeros.shape == (2,)


def test_what_overflows_wraps_around_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    kernel = kernels.njit(twice)
    with kernels.plainly():
        assert kernel(np.int64(2**62)) == -(2**63)
    assert not recwarn.list


@pytest.mark.parametrize("spent", [False, True], ids=["long", "spent"])
def test_what_must_run_compiled_says_so_within_a_limit(spent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "PLAIN", 0.0 if spent else 1e6)
    kernel = kernels.njit(twice, long=not spent)
    with kernels.plainly(ready=False), pytest.raises(kernels.Unready):
        kernel(21)
    with kernels.plainly(ready=True):
        assert kernel(21) == 42
    assert kernel._compiled is not None


def test_a_kernel_within_a_kernel_is_compiled_with_it() -> None:
    inner = kernels.njit(twice)
    outer = kernels.njit(lambda x: inner(x) + 1)
    assert outer(3) == 7
    with kernels.plainly():
        assert outer(3) == 7


SOLVED = """
import json
from chipmap import kernels
from chipmap.family import get_family
from chipmap.process.warming import is_warm
from chipmap.run import SolveOptions
from chipmap.solve import solve
kernels.PLAIN = {seconds}
result = solve("wafer/tiny-adapters", "rows", SolveOptions(threads=1), isolate=False)
notes = [note.text for note in result.notes if note.kind == "cache"]
print(json.dumps([result.solution, result.objective, notes, is_warm(get_family("wafer"))]))
"""


def test_without_compiling_results_are_the_same_and_it_is_said() -> None:
    """NUMBA_DISABLE_JIT makes everything slow, not wrong: what was compiled gives what it gives as plain Python."""
    found = []
    for setting, seconds in (("0", 1e9), ("1", 0.0)):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": setting}
        code = SOLVED.format(seconds=seconds)
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
        assert "Warning" not in ran.stderr
        found.append(json.loads(ran.stdout))
    (solution, objective, notes, _), (other, its, said, warm) = found
    assert (solution, objective) == (other, its) and solution is not None
    assert not any("NUMBA_DISABLE_JIT" in note for note in notes)
    assert len(said) == 1 and "NUMBA_DISABLE_JIT is set" in said[0] and "slower" in said[0]
    assert warm  # nothing is compiled before a run, and no marker says that it was


@njit(part=True)
def added(values: Any, a: int, b: int, twice: bool) -> int:
    """A part: a value and a number, or the double of it."""
    found = values[a] + b
    return int(2 * found if twice else found)


@njit
def adding(values: Any, short: Any) -> int:
    """Calls a part with constants, and with integers of two widths."""
    return int(added(values, 0, 1, True) + added(values, 1, values[0], False) + added(values, short[0], 5, False))


def test_a_part_is_compiled_once_whatever_calls_it() -> None:
    """Constants and shorter integers are no types of their own; without machine code, it runs plainly from Python."""
    values, short = np.array([3, 10], dtype=np.int64), np.ones(1, dtype=np.int32)
    assert adding(values, short) == 8 + 13 + 15 == adding.py_func(values, short)
    assert len(added.compiled.signatures) == 1
    assert added(values, 0, 1, True) == 8


@njit
def ordered(values: Any, wanted: Any) -> Any:
    """The order of values either way, and where others belong before or behind their equals."""
    up, down = argsort(values, len(values), 1), argsort(values, len(values), -1)
    places = np.empty((2, len(wanted)), np.int64)
    for i in range(len(wanted)):
        places[0, i] = position(values[up], len(values), wanted[i], False)
        places[1, i] = position(values[up], len(values), wanted[i], True)
    return up, down, places


@pytest.mark.parametrize("size", [0, 1, 2, 15, 16, 17, 200, 1_000])
def test_the_order_of_values(size: int) -> None:
    """As numpy's, compiled and plain: values rise or fall, and places are those of ``searchsorted``."""
    random = np.random.default_rng(size)
    for most in (2, 10, 10**6):
        values, wanted = random.integers(0, most, size), random.integers(-1, most + 1, 20).astype(np.float64)
        for found in (ordered(values, wanted), ordered.py_func(values, wanted)):
            up, down, places = found
            assert sorted(up.tolist()) == list(range(size)) == sorted(down.tolist())
            assert values[up].tolist() == sorted(values) and values[down].tolist() == sorted(values, reverse=True)
            assert places[0].tolist() == np.searchsorted(np.sort(values), wanted).tolist()
            assert places[1].tolist() == np.searchsorted(np.sort(values), wanted, side="right").tolist()
