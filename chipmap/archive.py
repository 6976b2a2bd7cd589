"""The archive of a run: one directory, written under a temporary name and renamed when whole.

``result.json``, ``solution.json`` (when one was found), ``instance.json``, ``trace.csv``, ``solver.log``, the family's
own files and, last, ``environment.json``, which lists size and SHA-256 of all others. While the run goes on, its best
solution so far stands in ``DIR.partial/solution.json``, replaced atomically; only the rename makes it an archive. If
the run is killed, that solution stays: the next run there starts from it, or keeps it as ``earlier-1.json``.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shlex
import shutil
import stat
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from chipmap.family import family_of, resolve
from chipmap.records import InputError, Record, csv_text, read_bytes
from chipmap.records.files import write_whole
from chipmap.result import Result, natural

ENVIRONMENT = "environment.json"
_PARTIAL, _OLD = ".partial", ".replaced"
#: In a directory under a temporary name: that it is ours; the older archive; the best solutions of runs cut off.
_OURS, _OLDER, _EARLIER = ".chipmap", "older", "earlier-"
_ELSEWHERE = "Name a new directory, or one that an earlier run has written."
_AGAIN = "Run `chipmap solve --out` again."


@dataclass(frozen=True)
class Archive:
    """A whole archive: where it lies and the result in it."""

    path: Path
    result: Result


class Writer:
    """Writes one archive to ``target``.

    Raises :class:`InputError` at once if ``target`` (or the name that it needs beside it) holds something else than an
    archive, or another run is writing there, and ``OSError`` when the disk refuses. ``earlier`` are the best solutions
    of runs that were cut off there: they stay, unless the caller sets
    ``superseded`` because this run has started from them.
    """

    def __init__(self, target: str | Path) -> None:
        self.target = Path(target)
        _require_replaceable(self.target)
        self.partial = self.target.with_name(self.target.name + _PARTIAL)
        _require_ours(self.partial)
        _require_ours(self.target.with_name(self.target.name + _OLD))
        try:
            self.target.absolute().parent.mkdir(parents=True, exist_ok=True)
            self._unlock = weakref.finalize(self, os.close, _locked(self.partial))
        except OSError as error:
            if is_full(error):
                raise
            below = isinstance(error, FileExistsError | NotADirectoryError)
            what = "is below a file" if below else f"can't be written: {error.strerror}"
            raise InputError(what, str(self.target), _ELSEWHERE) from None
        _restore(self.target)
        self.earlier = _set_aside(self.partial)
        self.superseded = False
        #: ``solver.log``, open for writing, unbuffered.
        self.log: BinaryIO = open(self.partial / "solver.log", "wb", buffering=0)  # noqa: SIM115 - closed by _close()

    def solution(self, solution: Record) -> None:
        """Put the best solution so far on disk, at once and whole."""
        write_whole(self.partial / "solution.json", solution.to_json() + b"\n")

    def finish(self, result: Result, instance: Record, files: Mapping[str, bytes], environment: dict[str, Any]) -> Path:
        """Write the rest and rename. Files that others put into an older archive at ``target`` move into this one."""
        contents: dict[str, bytes] = {
            "instance.json": instance.to_json(),
            "result.json": result.to_json(indent=1),
            "trace.csv": trace_csv(result),
            **files,
        }
        if result.solution is not None:
            contents["solution.json"] = msgspec.json.encode(result.solution) + b"\n"
        try:
            self._write(contents, environment)
            _replace(self.partial, self.target)
        finally:
            self._close()
        return self.target

    def _write(self, contents: dict[str, bytes], environment: dict[str, Any]) -> None:
        for name, data in contents.items():
            write_whole(self.partial / name, data)
        os.fsync(self.log.fileno())
        listed = {name: _fingerprint(self.partial / name) for name in sorted([*contents, "solver.log"])}
        about = msgspec.json.encode({**environment, "files": listed})
        write_whole(self.partial / ENVIRONMENT, msgspec.json.format(about, indent=1) + b"\n")
        for path in self.earlier if self.superseded else ():
            path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Stop writing and drop what is there, but for what earlier runs left (a full disk: the caller still has the
        result)."""
        with suppress(OSError):
            for path in self.partial.iterdir():
                if path not in self.earlier and path.name != _OURS:
                    path.unlink()
            if not self.earlier:
                shutil.rmtree(self.partial, ignore_errors=True)
        self._close()

    def _close(self) -> None:
        with suppress(OSError):
            self.log.close()
        self._unlock()


def beside(result: Result, instance: Record) -> dict[str, bytes]:
    """The family's own files beside the solution: name -> content."""
    family = family_of(instance)
    if result.solution is None or not family.files:
        return {}
    files: dict[str, bytes] = resolve(family.files)(instance, resolve(family.solution).make(**result.solution))
    return files


def finish(writer: Writer, result: Result, instance: Record) -> Path:
    """Make the archive of a result whole, with the family's own files and what the result says of its environment."""
    told = ("chipmap", "python", "platform", "versions", "machine", "command", "commit")
    environment = {key: result.provenance[key] for key in told if key in result.provenance}
    return writer.finish(result, instance, beside(result, instance), environment)


def load(directory: str | Path) -> Archive:
    """The archive at ``directory``; :class:`InputError` if it is missing, half-written or damaged."""
    path = Path(directory)
    require_whole(path)
    return Archive(path, Result.read(path / "result.json"))


def is_full(error: OSError) -> bool:
    """Whether the disk (or the user's share of it) is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_partial(directory: str | Path) -> bool:
    """Whether a directory is the temporary one of a run in progress, or of one that was cut off."""
    return Path(directory).name.endswith((_PARTIAL, _OLD))


def require_whole(directory: Path) -> None:
    """Raise :class:`InputError` unless ``directory`` is an archive in which every listed file is as it was written."""
    where = str(directory)
    if is_partial(directory):
        raise InputError("is the unfinished archive of a run", where, _finishing(directory))
    if not any(_is_plain(directory / name) for name in (ENVIRONMENT, "result.json", "solution.json")):
        what = "is a directory, and no archive of a run" if directory.is_dir() else "there is no such archive"
        raise InputError(what, where, "Name a file or a directory of --out.")
    if not _is_plain(directory / ENVIRONMENT):
        # a run writes nowhere but into archives: this may be a folder of the user's own
        remedy = "Run `chipmap solve --out` again, with a new directory."
        raise InputError(f"is no whole archive: {ENVIRONMENT} is missing", where, remedy)
    for name, (size, digest) in _manifest(directory).items():
        odd = Path(name).name != name or len(name.encode()) > 255 or "\0" in name
        if odd or ((directory / name).exists() and not _is_plain(directory / name)):
            remedy = f"An archive holds plain files only: don't trust this one. {_AGAIN}"
            raise InputError(f"lists {name!r}, which is no plain file in it", where, remedy)
        try:
            if _fingerprint(directory / name) == (size, digest):
                continue
            fault = "is not as it was written"
        except OSError:
            fault = "is missing"
        raise InputError(f"is a damaged archive: {name} {fault}", where, _AGAIN)


def _finishing(directory: Path) -> str:
    """What to do with the temporary directory of a run that goes on or was cut off."""
    whole = str(directory.with_name(directory.name.removesuffix(_PARTIAL).removesuffix(_OLD)))
    remedy = f"`chipmap solve INSTANCE --out {shlex.quote(whole)}` goes on from what is there."
    found = _is_plain(directory / "solution.json")
    return f"{remedy} Its solution.json is the best solution found so far." if found else remedy


def _is_plain(path: Path) -> bool:
    """Whether there is a regular file, not a link, a device or a pipe."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def trace_csv(result: Result) -> bytes:
    """The trace as CSV: seconds, event, source; value, incumbent and bound in the unit of the last column."""
    columns, values = ("seconds", "event", "source"), ("value", "incumbent", "bound")
    per_tick, unit = (result.units.objective.per_tick, result.unit) if result.units else (1.0, "ticks")
    rows = (
        [*(getattr(line, name) for name in columns), *(natural(getattr(line, name), per_tick) for name in values), unit]
        for line in result.trace
    )
    return csv_text((*columns, *values, "unit"), rows).encode()


def _fingerprint(path: Path) -> tuple[int, str]:
    data = path.read_bytes()
    return len(data), hashlib.sha256(data).hexdigest()


class _Environment(msgspec.Struct):
    """What is read of the file: size and SHA-256 by name."""

    files: dict[str, tuple[int, str]]


def _manifest(directory: Path) -> dict[str, tuple[int, str]]:
    path = directory / ENVIRONMENT
    try:
        return msgspec.json.decode(read_bytes(path), type=_Environment).files
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is a damaged archive: {error}", str(path), _AGAIN) from None


def _require_replaceable(target: Path) -> None:
    """Only nothing, an empty directory or an archive may be replaced: never a user's own files."""
    if is_partial(target) or not target.name:
        raise InputError("can't be the name of an archive", str(target), _ELSEWHERE)
    if target.exists() and not target.is_dir():
        raise InputError("is a file", str(target), _ELSEWHERE)
    if target.is_dir() and any(target.iterdir()) and not (target / ENVIRONMENT).is_file():
        raise InputError("holds something else than an archive", str(target), _ELSEWHERE)


def _require_ours(path: Path) -> None:
    """Only what a run has made under a temporary name, or an empty directory, may be used and removed again."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise InputError("isn't a directory of an earlier run, whose name this one needs", str(path), _ELSEWHERE)
    if path.is_dir() and any(path.iterdir()) and not any((path / name).exists() for name in (_OURS, ".lock")):
        raise InputError("holds something else than an earlier run, whose name this one needs", str(path), _ELSEWHERE)


def _locked(partial: Path) -> int:
    """Make the directory and hold its lock, which the system drops when the process ends, however it ends.

    The lock is the directory's own, so that it goes with it when it is renamed.
    """
    while True:
        partial.mkdir(exist_ok=True)
        (partial / _OURS).touch()
        handle = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            remedy = "Wait for it, or give this run another --out."
            raise InputError("another run is writing there", str(partial), remedy) from None
        except OSError:
            return handle  # a file system without locks
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(partial)):
                return handle
        os.close(handle)  # it was renamed or removed meanwhile


def _set_aside(partial: Path) -> list[Path]:
    """Remove what a run that was cut off has left, but for its best solution, under a name of its own."""
    cut_off, number = partial / "solution.json", 1
    if cut_off.is_file():
        while (partial / f"{_EARLIER}{number}.json").exists():
            number += 1
        os.rename(cut_off, partial / f"{_EARLIER}{number}.json")
    kept = sorted(path for path in partial.glob(f"{_EARLIER}*.json") if path.is_file())
    for stale in partial.iterdir():
        if stale not in kept and stale.name != _OURS:
            shutil.rmtree(stale) if stale.is_dir() and not stale.is_symlink() else stale.unlink()
    return kept


def _replace(partial: Path, target: Path) -> None:
    """Rename ``partial`` to ``target``; an older archive there gives way, keeping files that it doesn't list itself."""
    old = target.with_name(target.name + _OLD)
    if target.exists() and any(target.iterdir()):
        listed = {ENVIRONMENT}
        with suppress(InputError):
            listed |= _manifest(target).keys()
        old.mkdir(exist_ok=True)
        (old / _OURS).touch()
        os.rename(target, old / _OLDER)
        try:
            os.rename(partial, target)
        except OSError:
            os.rename(old / _OLDER, target)
            raise
        for extra in (old / _OLDER).iterdir():
            if extra.name not in listed and not (target / extra.name).exists():
                os.rename(extra, target / extra.name)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(partial, target)
    (target / _OURS).unlink(missing_ok=True)
    _sync(target.absolute().parent)


def _restore(target: Path) -> None:
    """Put right what a run left that was cut off between the two renames of :func:`_replace`."""
    old = target.with_name(target.name + _OLD)
    if (old / _OLDER).exists() and not target.exists():
        os.rename(old / _OLDER, target)
    if old.exists():
        shutil.rmtree(old, ignore_errors=True)


def _sync(directory: Path) -> None:
    """Make a rename in ``directory`` last (where the system allows it)."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
