"""Kernels: functions that numba compiles when they are first called, or that run as plain Python.

Every module with kernels takes ``njit`` from here. Compiled functions are kept on disk
(:mod:`chipmap.kernels.compiled`). numba itself, whose import takes longer than a tiny solve, is imported when the first
function is to run compiled.

Compiling takes seconds per function, and loading what was compiled some hundredths of a second. On an instance of a
few operations the same code as plain Python is through before that. So within :func:`plainly` kernels run as plain
Python, until they have taken :data:`PLAIN` seconds in all; from then on they run compiled. A kernel that has run
compiled in this process does so again: it is loaded. Results are the same: what overflows wraps around in both. A
kernel with ``long=True``, whose loops don't shrink with the instance (an annealing), always runs compiled. One with
``part=True`` is compiled for kernels that call it alone (:mod:`chipmap.kernels.parts`): called from Python, it runs as
plain Python.

Where numba's NUMBA_DISABLE_JIT is set, all of them run as plain Python. That takes about a hundred times as long, so
that a time limit ends with worse results; :data:`TROUBLE` says so.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from chipmap.deadline import Awaited, around
from chipmap.deadline import Unready as Unready
from chipmap.kernels.folders import provide

_PACKAGE = Path(__file__).resolve().parents[1]
#: Where a family's compiled functions stand.
_ROOMS = (_PACKAGE / "heuristics", _PACKAGE / "instances")
#: Seconds of the processor that kernels may take as plain Python: about what loading compiled ones takes.
PLAIN = 1.0
#: What went wrong with compiled functions in this process, each once; without folders, as results are passed on.
TROUBLE: dict[str, None] = {}
_DISABLED = (
    "NUMBA_DISABLE_JIT is set, so that they run as plain Python, about a hundred times slower: unset it for results as "
    "good as elsewhere"
)
_TEMPORARY = (
    "neither the installation nor a home can be written, so that they are kept among temporary files: set "
    "NUMBA_CACHE_DIR to a folder that stays"
)
_MAKING = Lock()


def disabled() -> bool:
    """Whether nothing is compiled in this process and its children, as numba is told so."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0")


class Elsewhere(Protocol):
    """Who compiles functions in another process. ``patient``: whoever calls one waits for it there."""

    patient: bool

    def __call__(self, module: str, name: str, types: Any) -> Awaited | None:
        """What becomes of a function with arguments of numba's ``types``; None: it is compiled where it is called."""


_elsewhere: ContextVar[Elsewhere | None] = ContextVar("elsewhere", default=None)


@contextmanager
def elsewhere(asked: Elsewhere) -> Iterator[None]:
    """Within it, in this thread, functions that have to be compiled are ``asked`` for. A call of one raises
    :class:`Unready`, or waits for it. Threads that are to do the same need a copy of the context."""
    token = _elsewhere.set(asked)
    try:
        yield
    finally:
        _elsewhere.reset(token)


class _Allowance:
    """What is left of :data:`PLAIN`; whether a kernel runs; whether others may run compiled (``never``: not at all)."""

    def __init__(self, ready: bool, never: bool = False) -> None:
        self.seconds, self.inside, self.ready, self.never = PLAIN, False, ready, never


_plain: ContextVar[_Allowance | None] = ContextVar("plain", default=None)


@contextmanager
def plainly(wanted: bool = True, ready: bool = True) -> Iterator[None]:
    """Within it, kernels run as plain Python if ``wanted``. Unless ``ready``, a kernel that doesn't raises
    :class:`Unready`. Threads that are to do the same need a copy of the context. Within another one, or within
    :func:`uncompiled`, nothing may run compiled that mightn't there."""
    if not wanted:
        yield
        return
    import numpy as np

    outer = _plain.get()
    token = _plain.set(_Allowance(ready and (outer is None or outer.ready), outer is not None and outer.never))
    try:
        with np.errstate(all="ignore"):  # compiled functions say nothing of overflows either
            yield
    finally:
        _plain.reset(token)


@contextmanager
def uncompiled() -> Iterator[None]:
    """Within it all kernels run as plain Python, however long they take: numba isn't imported."""
    import numpy as np

    token = _plain.set(_Allowance(ready=True, never=True))
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _plain.reset(token)


class Kernel:
    """A function and, once it is needed, its compiled twin (numba's dispatcher, whose attributes it has too)."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], long: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self._options, self._long = function, options, long
        self._compiled: Any = None
        self._loaded = False

    def __call__(self, *args: Any) -> Any:
        """The function's value, as numba gives it."""
        allowance = _plain.get()
        if self._options.get("part"):
            return _boxed(self.py_func(*args))
        if allowance is None:
            return self._as_compiled(*args)
        if allowance.never:
            return _boxed(self.py_func(*args))
        if allowance.inside and not self._long:
            return self.py_func(*args)
        if self._long or allowance.seconds <= 0.0 or (self._loaded and allowance.ready):
            if not allowance.ready:
                raise Unready
            return self._as_compiled(*args)
        began, allowance.inside = time.thread_time(), True
        try:
            return _boxed(self.py_func(*args))
        finally:
            allowance.inside = False
            allowance.seconds -= time.thread_time() - began

    def _as_compiled(self, *args: Any) -> Any:
        while True:
            try:
                value = self.compiled(*args)
            except Unready as missing:
                asked = _elsewhere.get()
                if missing.awaited is None or asked is None or not asked.patient:
                    raise
                around().wait(missing.awaited)
            else:
                self._loaded = True
                return value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.compiled, name)

    @property
    def compiled(self) -> Any:
        """The compiled twin."""
        if self._compiled is None:
            if disabled():
                _trouble(_DISABLED)
                self._compiled = _interpreted(self.py_func)
                return self._compiled
            if provide(_PACKAGE):
                _trouble(_TEMPORARY)
            from chipmap.kernels.compiled import compiled

            with _MAKING:
                if self._compiled is None:
                    self._compiled = compiled(self.py_func, self._options, _ROOMS, _trouble, _elsewhere.get)
        return self._compiled


def njit(function: Callable[..., Any] | None = None, long: bool = False, **options: Any) -> Any:
    """A :class:`Kernel` with the options of ``numba.njit``; with ``cache=True`` it is kept on disk, with ``part=True``
    it is a part of the kernels that call it."""
    if function is None:
        return lambda found: Kernel(found, options, long)
    return Kernel(function, options, long)


def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as plain Python, with the values of a compiled one and as silent."""
    import numpy as np

    @functools.wraps(function)
    def interpreted(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return _boxed(function(*args))

    return interpreted


def _boxed(value: Any) -> Any:
    """``value`` with Python's numbers in the place of numpy's, as compiled functions return them."""
    if isinstance(value, tuple):
        parts = [_boxed(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    item = getattr(value, "item", None)
    return item() if item is not None and getattr(value, "ndim", 1) == 0 else value


def _trouble(what: str) -> None:
    TROUBLE.setdefault(what)
