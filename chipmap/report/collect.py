"""What lies below a directory: archives that are whole and hold, a word about those that don't, and rows of benches.

What an archive says is checked: its instance and its solution go to the independent checker again, whose word counts.
That an archive has passed is remembered by a hash of its files and of chipmap's version, in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chipmap import __version__, archive
from chipmap.bench.matrix import stored
from chipmap.family import family_of, resolve
from chipmap.inputs.reading import read
from chipmap.known.records import Origin
from chipmap.known.registry import made
from chipmap.records import ChipmapError, InputError, Record
from chipmap.report.sweeps.tables import as_result
from chipmap.result import Result
from chipmap.solve import check, disagreements

#: The file of a bench's rows in its folder.
MATRIX = "matrix.sqlite"


@dataclass(frozen=True)
class Entry:
    """One archive: its directory and its result, or (``result`` None) why it is not read. ``of_bench``: a row of a
    bench, which has no archive; its ``origin`` says how to make the instance."""

    path: Path
    result: Result | None
    problem: str = ""
    of_bench: bool = False
    origin: Origin | None = None

    @property
    def drawable(self) -> bool:
        """Whether there is a solution, and an instance to draw it with."""
        solved = self.result is not None and self.result.solution is not None
        return solved and (not self.of_bench or self.origin is not None)

    def instance(self) -> Record:
        """The instance of the result. Raises :class:`InputError` where it can't be made again as it was."""
        found = read(self.path) if self.origin is None else made(self.origin)
        if self.origin is not None and self.result is not None and found.content_hash != self.result.instance_hash:
            raise InputError("makes another instance than it did", self.result.instance, "Solve the point again.")
        return found


def collect(folder: str | Path, trust: bool = False) -> list[Entry]:
    """Archives and rows of benches at or below ``folder``: archives sorted by instance, method and path, then the
    rows, bench by bench in their order, then archives that can't be read.

    A half-written or damaged archive, and one that the checker contradicts, is listed and never read as whole; with
    ``trust`` the checker isn't asked. Raises :class:`InputError` if ``folder`` is no directory or holds neither.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError("is no directory", str(root), "Name a directory that `chipmap solve --out` has written.")
    below = (root, *sorted(path for path in root.rglob("*") if path.is_dir()))
    names = ("result.json", archive.ENVIRONMENT)
    holding = (p for p in below if archive.is_partial(p) or any((p / name).is_file() for name in names))
    entries = sorted((_entry(path, trust) for path in holding), key=_order)
    rows = [row for path in below if (path / MATRIX).is_file() for row in _of_bench(path)]
    if not entries and not rows:
        raise InputError("holds no archive", str(root), "`chipmap solve INSTANCE --out DIR` writes one.")
    whole = [entry for entry in entries if entry.result is not None]
    return [*whole, *rows, *entries[len(whole) :]]


def _of_bench(folder: Path) -> list[Entry]:
    """The rows of a bench, which were checked when they were kept."""
    return [Entry(folder, as_result(row), of_bench=True, origin=row.origin) for row in stored(folder / MATRIX)]


def _entry(path: Path, trust: bool) -> Entry:
    try:
        result = archive.load(path).result
        wrong = [] if trust else _audited(path, result)
    except InputError as error:
        return Entry(path, None, error.what)
    except ChipmapError as error:
        return Entry(path, None, str(error))
    except Exception as error:  # one archive, of whatever kind, must not hide the others
        return Entry(path, None, f"{type(error).__name__}: {error}")
    return Entry(path, None, f"doesn't hold: {'; '.join(wrong)}") if wrong else Entry(path, result)


def _audited(path: Path, result: Result) -> list[str]:
    """Where the checker contradicts the archive at ``path``."""
    seen = hashlib.sha256(__version__.encode())
    for name in ("instance.json", "result.json", "solution.json"):
        seen.update(hashlib.sha256((path / name).read_bytes() if (path / name).exists() else b"").digest())
    passed = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "chipmap" / seen.hexdigest()
    if passed.exists():
        return []
    instance = read(path)
    kind, certificate = resolve(family_of(instance).solution), None
    wrong = []
    if result.solution is not None:
        solution = kind.make(**result.solution)
        certificate = check(instance, solution)
        if (path / "solution.json").exists() and kind.read(path / "solution.json") != solution:
            wrong = ["its result.json and its solution.json hold different solutions"]
    wrong += disagreements(result, instance, certificate)
    if not wrong:
        with suppress(OSError):
            passed.parent.mkdir(parents=True, exist_ok=True)
            passed.touch()
    return wrong


def _order(entry: Entry) -> tuple[bool, str, str, str]:
    result = entry.result
    if result is None:
        return (True, "", "", str(entry.path))
    return (False, result.instance, result.method, str(entry.path))
