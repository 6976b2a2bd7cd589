"""numba's ``njit`` with a cache on disk that can be damaged, full or old without harm.

What numba keeps beside the sources (or in the user's cache folder) differs from its own in four ways:

- each file begins with a SHA-256 of its content, which is compared before anything of it is unpickled. What is cut
  off, changed or can't be read counts as missing: the function is compiled again and the file is replaced;
- where the cache can't be written (a full disk, no permission), or others than the user and root could write it
  (:mod:`.folders`), the function runs without it, and :data:`chipmap.kernels.TROUBLE` says so, which a run passes on as
  a note;
- one process compiles a function, and others that want it wait (:mod:`.once`);
- a file is fresh as long as all sources of its family (``heuristics/FAMILY``, ``instances/FAMILY``) and what all
  families share (:data:`.folders.SHARED`) are as they were, because compiled functions hold compiled copies of
  those that they call. (numba looks at the time stamp of the one source alone.)
"""

from __future__ import annotations

import io
import os
import pickle
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config, event, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache, _CacheLocator

from chipmap.deadline import Awaited, Unready
from chipmap.kernels.folders import FORMAT, homes, sealed, sources_hash, trusted, whole
from chipmap.kernels.once import KEPT, LOCKS, note
from chipmap.kernels.parts import KernelCompiler, PartCompiler

#: Hears what goes wrong with the cache.
Trouble = Callable[[str], Any]


#: Asked for a function of this module, name and types; None: it is to be compiled where it is called.
Ask = Callable[[str, str, Any], Awaited | None]
#: Whom to ask, if anybody.
Elsewhere = Callable[[], Ask | None]


def compiled(
    function: Callable[..., Any],
    options: dict[str, Any],
    rooms: tuple[Path, ...],
    trouble: Trouble,
    elsewhere: Elsewhere = lambda: None,
) -> Any:
    """``numba.njit`` with these options; with ``cache=True`` the cache is the one described above, with ``part=True``
    the function is a part of what calls it (:mod:`.parts`), and isn't kept.

    A family's functions stand in a folder of its name in one of ``rooms``. A function that isn't kept yet raises
    :class:`~chipmap.deadline.Unready` where ``elsewhere`` has it compiled.
    """
    _clock()
    # numba may have been imported before it was set
    setattr(config, "CACHE_DIR", os.environ.get("NUMBA_CACHE_DIR", ""))  # noqa: B010
    # numba's wrapper for C is for functions that are handed over as values
    options = {"no_cfunc_wrapper": True, "pipeline_class": KernelCompiler, **options}
    wanted, part = options.pop("cache", False), options.pop("part", False)
    if part:
        options |= {"no_cpython_wrapper": True, "pipeline_class": PartCompiler}
    made: Any = numba.njit(function, **options)
    made.get_call_template = _alike(made.get_call_template)
    if wanted and not part:
        made._cache = _cache(function, rooms, trouble, elsewhere)
    return made


def _alike(template: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """How compiled functions call a function, for one type of each kind of argument: numba itself compiles a function
    anew for every constant that it is called with, and for every width of an integer."""

    def wider(given: Any) -> Any:
        plain = types.unliteral(given)
        return types.int64 if plain in (types.int8, types.int16, types.int32) else plain

    return lambda args, kws: template([wider(one) for one in args], {name: wider(one) for name, one in kws.items()})


def compilations() -> int:
    """How many functions have been compiled in this process since this was first asked."""
    return _clock().functions


class _Clock(event.Listener):  # type: ignore[misc]
    """Seconds of the processor that each function takes to compile, without those of the kept functions that it calls;
    others count as a part of it. Where a function can't be compiled, other processes may try."""

    def __init__(self) -> None:
        self.functions, self.seconds = 0, 0.0
        self._running: list[list[float]] = []

    def on_start(self, event: Any) -> None:
        """A function is being compiled."""
        self._running.append([time.thread_time(), 0.0])

    def on_end(self, event: Any) -> None:
        """It is done, or can't be."""
        (began, called), cache = self._running.pop(), event.data["dispatcher"]._cache
        took, kept = time.thread_time() - began, isinstance(cache, _Cache)
        self.functions, self.seconds = self.functions + 1, took - called
        if self._running:
            self._running[-1][1] += took if kept else called
        if kept and event._exc_details is not None:  # numba 0.65: `is_failed` says the opposite
            cache.release()


@cache
def _clock() -> _Clock:
    """What hears of every function that is compiled in this process."""
    made = _Clock()
    event.register("numba:compile", made)
    return made


def _cache(function: Callable[..., Any], rooms: tuple[Path, ...], trouble: Trouble, elsewhere: Elsewhere) -> Any:
    """The cache of a function, or one that keeps nothing where its folder isn't safe."""
    made = _Cache(function, rooms, trouble, elsewhere)
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
            file.write(sealed(content))

    def _load_index(self) -> dict[Any, str]:
        try:
            with open(self._index_path, "rb") as file:
                content = io.BytesIO(whole(file.read()))
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
            file.write(sealed(self._dump(data)))

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            return pickle.loads(whole(file.read()))


class _Beside(_CacheLocator):  # type: ignore[misc]
    """Where numba's own places can't be written: beside the source, to read what an image or an administrator has put
    there. (What numba calls a locator.)"""

    def __init__(self, function: Any, file: str) -> None:
        self._file, self._line = Path(file), function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Any, file: str) -> _Beside:
        """One for a function in this file."""
        return cls(function, file)

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._file.parent / "__pycache__")

    def get_source_stamp(self) -> tuple[float, int]:
        """What changes with the source."""
        state = self._file.stat()
        return state.st_mtime, state.st_size

    def get_disambiguator(self) -> str:
        """What tells functions of one name apart."""
        return str(self._line)

    def ensure_cache_path(self) -> None:
        """Nothing is written."""


class _Places(CompileResultCacheImpl):  # type: ignore[misc]
    """numba's places, and the one beside the source."""

    _locator_classes = [*CompileResultCacheImpl._locator_classes, _Beside]


class _Cache(FunctionCache):  # type: ignore[misc]
    """A function's cache whose faults cost time only. What others have put where this user can't write is read."""

    _impl_class = _Places

    def __init__(
        self, function: Callable[..., Any], rooms: tuple[Path, ...], trouble: Trouble, elsewhere: Elsewhere
    ) -> None:
        super().__init__(function)
        self._trouble, self._elsewhere = trouble, elsewhere
        family = _family(Path(function.__code__.co_filename).resolve(), rooms)
        stamp = sources_hash(family, rooms) if family else self._impl.locator.get_source_stamp()
        # a name of their own: numba's files have no SHA-256
        name = f"{self._impl.filename_base}.{FORMAT}"
        self._cache_file = _File(self._cache_path, name, stamp, trouble)
        self._writable = os.access(self._cache_path, os.W_OK)
        others = [
            folder
            for folder in homes(Path(function.__code__.co_filename).resolve().parent)
            if str(folder) != self._cache_path
        ]
        self._shared = [_File(str(folder), name, stamp, trouble) for folder in others if _safe(folder)]
        self._lock, self._stamp = f"{self._cache_file._index_path}.lock", stamp

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for these types, or None: it is to be compiled, and others wait for it."""
        found = self._kept(sig, target_context)
        ask = self._elsewhere() if found is None and self._writable else None
        if ask is not None:
            awaited = ask(self._py_func.__module__, self._py_func.__qualname__, sig)
            if awaited is not None:
                raise Unready(awaited)
        if found is None:
            LOCKS.hold(self._lock)
            found = self._kept(sig, target_context)  # whoever had the lock may have made it
            if found is not None:
                self.release()
        return found

    def _kept(self, sig: Any, target_context: Any) -> Any:
        own = self._cache_file
        for file in (own, *self._shared):
            self._cache_file = file
            try:
                found = super().load_overload(sig, target_context)
            except Exception as error:  # whatever a damaged file makes numba raise
                self._trouble(f"{self._py_func.__name__}: {type(error).__name__}: {error}")
                found = None
            finally:
                self._cache_file = own
            if found is not None:
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if the disk takes it."""
        try:
            if not self._writable:
                self._trouble("no folder can be written: what isn't there is compiled anew in every process")
                return
            super().save_overload(sig, data)
            note(self._cache_path, self._stamp, self._py_func.__qualname__, _clock().seconds)
        except OSError as error:
            self._trouble(f"{error.strerror}: what can't be written is compiled anew in every process")
        finally:
            self.release()
            for hear in KEPT:
                hear()

    def release(self) -> None:
        """Let other processes have the function, or try it."""
        LOCKS.release(self._lock)


def _family(file: Path, rooms: tuple[Path, ...]) -> str:
    """The folder below ``heuristics`` or ``instances`` that ``file`` lies in; empty elsewhere."""
    for room in rooms:
        if room in file.parents:
            return file.relative_to(room).parts[0]
    return ""
