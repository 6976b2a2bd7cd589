"""numba's ``njit`` with a cache on disk that can be damaged, full or old without harm.

What numba keeps beside the sources (or in the user's cache folder) differs from its own in three ways:

- each file begins with a SHA-256 of its content, which is compared before anything of it is unpickled. What is cut
  off, changed or can't be read counts as missing: the function is compiled again and the file is replaced;
- where the cache can't be written (a full disk, no permission), or others than the user and root could write it
  (:mod:`.folders`), the function runs without it, and :data:`chipmap.kernels.TROUBLE` says so, which a run passes on as
  a note;
- a file is fresh as long as all sources of its family (``heuristics/FAMILY``, ``instances/FAMILY``) and what all
  families share (``annealing.py`` beside this) are as they were, because compiled functions hold compiled copies of
  those that they call. (numba looks at the time stamp of the one source alone.)
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from chipmap.deadline import Awaited, Unready
from chipmap.kernels.folders import trusted

#: Bytes of a SHA-256.
_DIGEST = 32
#: Kernels of all families.
_SHARED = Path(__file__).with_name("annealing.py")

_LISTENERS: list[Any] = []

#: Hears what goes wrong with the cache.
Trouble = Callable[[str], Any]


#: Asked who else compiles a function of this module, name and types; None: nobody.
Elsewhere = Sequence[Callable[[str, str, Any], Awaited | None]]


def compiled(
    function: Callable[..., Any],
    options: dict[str, Any],
    rooms: tuple[Path, ...],
    trouble: Trouble,
    elsewhere: Elsewhere = (),
) -> Any:
    """``numba.njit`` with these options; with ``cache=True`` the cache is the one described above.

    A family's functions stand in a folder of its name in one of ``rooms``. A function that isn't kept yet raises
    :class:`~chipmap.deadline.Unready` where one of ``elsewhere`` has it compiled.
    """
    options = dict(options)
    wanted = options.pop("cache", False)
    made: Any = numba.njit(function, **options)
    if wanted:
        made._cache = _cache(function, rooms, trouble, elsewhere)
    return made


def compilations() -> int:
    """How many functions have been compiled in this process since this was first asked."""
    if not _LISTENERS:
        _LISTENERS.append(event.RecordingListener())
        event.register("numba:compile", _LISTENERS[0])
    return sum(1 for _, one in _LISTENERS[0].buffer if one.is_start)


def _cache(function: Callable[..., Any], rooms: tuple[Path, ...], trouble: Trouble, elsewhere: Elsewhere) -> Any:
    """The cache of a function, or one that keeps nothing where there is no folder for it."""
    try:
        made = _Cache(function, rooms, trouble, elsewhere)
    except RuntimeError:
        trouble("no folder can be written: they are compiled anew in every process")
        return NullCache()
    if _safe(Path(made.cache_path)):
        return made
    trouble("their folder can be written by others, who could put code there: they are compiled anew in every process")
    return NullCache()


@cache
def _safe(folder: Path) -> bool:
    return trusted(folder)


class _File(IndexDataCacheFile):  # type: ignore[misc]
    """Index and data of one function; each file begins with its SHA-256. Outside the families, time stamps count."""

    def __init__(self, path: str, name: str, stamp: Any, trouble: Trouble) -> None:
        super().__init__(path, name, stamp)
        self._trouble = trouble

    def _save_index(self, overloads: dict[Any, str]) -> None:
        head = pickle.dumps(self._version, protocol=-1) + pickle.dumps(self._source_stamp, protocol=-1)
        content = head + self._dump(overloads)
        with self._open_for_write(self._index_path) as file:
            file.write(_sealed(content))

    def _load_index(self) -> dict[Any, str]:
        try:
            with open(self._index_path, "rb") as file:
                content = io.BytesIO(_whole(file.read()))
            if pickle.load(content) != self._version or pickle.load(content) != self._source_stamp:
                return {}  # what stands behind may name types that are no more
            found: dict[Any, str] = pickle.load(content)
        except FileNotFoundError:
            return {}
        except Exception as error:  # a damaged pickle may raise anything
            self._trouble(f"{self._index_name}: {type(error).__name__}: {error}")
            return {}
        return found

    def _save_data(self, name: str, data: Any) -> None:
        with self._open_for_write(self._data_path(name)) as file:
            file.write(_sealed(self._dump(data)))

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            return pickle.loads(_whole(file.read()))


class _Cache(FunctionCache):  # type: ignore[misc]
    """A function's cache whose faults cost time only."""

    def __init__(
        self, function: Callable[..., Any], rooms: tuple[Path, ...], trouble: Trouble, elsewhere: Elsewhere
    ) -> None:
        super().__init__(function)
        self._trouble, self._elsewhere = trouble, elsewhere
        family = _family(Path(function.__code__.co_filename).resolve(), rooms)
        stamp = _sources(family, rooms) if family else self._impl.locator.get_source_stamp()
        # a name of their own: numba's files have no SHA-256
        self._cache_file = _File(self._cache_path, f"{self._impl.filename_base}.digest", stamp, trouble)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for these types, or None: it is to be compiled."""
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:  # whatever a damaged file makes numba raise
            self._trouble(f"{self._py_func.__name__}: {type(error).__name__}: {error}")
            found = None
        for ask in self._elsewhere if found is None else ():
            awaited = ask(self._py_func.__module__, self._py_func.__qualname__, sig)
            if awaited is not None:
                raise Unready(awaited)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if the disk takes it."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self._trouble(f"{error.strerror}: what can't be written is compiled anew in every process")


def _sealed(content: bytes) -> bytes:
    """The content behind its SHA-256."""
    return hashlib.sha256(content).digest() + content


def _whole(data: bytes) -> bytes:
    """The content, if it is as it was written."""
    digest, content = data[:_DIGEST], data[_DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        raise ValueError("is not as it was written")
    return content


def _family(file: Path, rooms: tuple[Path, ...]) -> str:
    """The folder below ``heuristics`` or ``instances`` that ``file`` lies in; empty elsewhere."""
    for room in rooms:
        if room in file.parents:
            return file.relative_to(room).parts[0]
    return ""


@cache
def _sources(family: str, rooms: tuple[Path, ...]) -> str:
    """A hash of all Python files of ``family``, by name and content, and of the kernels that all families share."""
    found = hashlib.sha256(_SHARED.read_bytes())
    for room in rooms:
        for path in sorted((room / family).rglob("*.py")):
            data = path.read_bytes()
            found.update(f"{path.relative_to(room)} {len(data)} ".encode() + data)
    return found.hexdigest()
