"""The archives below a directory: the results that are whole, and a word about those that are not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chipmap import archive
from chipmap.records import ChipmapError, InputError
from chipmap.result import Result


@dataclass(frozen=True)
class Entry:
    """One archive: its directory and its result, or (``result`` None) why it is not read."""

    path: Path
    result: Result | None
    problem: str = ""

    @property
    def plot(self) -> Path | None:
        """The plot that lies in the archive, if any (SVG before PNG)."""
        return next((found for end in ("svg", "png") for found in sorted(self.path.glob(f"*.{end}"))), None)


def collect(folder: str | Path) -> list[Entry]:
    """The archives at or below ``folder``, sorted by instance, method and path; those that can't be read last.

    A half-written or damaged archive is listed and never read as whole. Raises :class:`InputError` if ``folder`` is no
    directory or holds no archive at all.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError("is no directory", str(root), "Name a directory that `chipmap solve --out` has written.")
    below = sorted(path for path in root.rglob("*") if path.is_dir())
    names = ("result.json", archive.ENVIRONMENT)
    holding = (p for p in (root, *below) if archive.is_partial(p) or any((p / name).is_file() for name in names))
    entries = [_entry(path) for path in holding]
    if not entries:
        raise InputError("holds no archive", str(root), "`chipmap solve INSTANCE --out DIR` writes one.")
    return sorted(entries, key=_order)


def _entry(path: Path) -> Entry:
    try:
        return Entry(path, archive.load(path).result)
    except InputError as error:
        return Entry(path, None, error.what)
    except ChipmapError as error:
        return Entry(path, None, str(error))


def _order(entry: Entry) -> tuple[bool, str, str, str]:
    result = entry.result
    if result is None:
        return (True, "", "", str(entry.path))
    return (False, result.instance, result.method, str(entry.path))
