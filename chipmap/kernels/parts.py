"""Parts of kernels: functions that only compiled functions call.

numba links what a function calls into that function's code, and optimises it there once more. So a part needs no
machine code of its own, and no entry from Python, whose code takes a named tuple of twenty arrays to pieces. It isn't
kept on disk: what calls it is. One that is put into its callers (``forceinline``) is optimised before all the same:
without that, the decoder of ``placement`` runs at 0.8 of its speed.

A part may only raise exceptions without values: it has no environment in which numba would make them.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _NoEnvironment:
    """In the place of the code generator, whose table of environments only machine code needs."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Nothing is to be set."""


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked into that of callers, and never runs by itself."""

    #: Whether it is optimised before it is linked.
    optimised = False

    @property
    def codegen(self) -> Any:
        """What sets the environment of machine code."""
        return _NoEnvironment

    def get_pointer_to_function(self, name: str) -> int:
        """No machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        if self.optimised:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class PartCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, but for the machine code."""

    def compile_extra(self, func: Any) -> Any:
        """Compile ``func`` into a library of its own."""
        self.state.library = _Library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.optimised = bool(self.state.flags.forceinline)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)
