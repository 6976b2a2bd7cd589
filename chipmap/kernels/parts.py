"""How kernels are compiled, and parts of kernels: functions that only compiled functions call.

numba links what a function calls into that function's code, and optimises it there once more. So a part needs no
machine code of its own, and no entry from Python, whose code takes a named tuple of twenty arrays to pieces. It isn't
kept on disk: what calls it is. One that is put into its callers (``forceinline``) is optimised before all the same:
without that, the decoder of ``placement`` runs at 0.8 of its speed.

A part may only raise exceptions without values: it has no environment in which numba would make them.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.typed_passes import NativeLowering

from chipmap.kernels.records import Lowering


class _NoEnvironment:
    """In the place of the code generator, whose table of environments only machine code needs."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Nothing is to be set."""


class _Code(JITCodeLibrary):  # type: ignore[misc]
    """Code of a kernel. numba optimises each function before it links what that calls, and all of it again then; the
    second time is enough, but for variables in memory, which make it long."""

    def _optimize_functions(self, module: Any) -> None:
        if not hasattr(self._codegen, "_pass_builder"):  # older versions of numba
            super()._optimize_functions(module)
            return
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            passes, builder = llvm.create_new_function_pass_manager(), self._codegen._pass_builder()
            passes.add_sroa_pass()
            passes.add_simplify_cfg_pass()
            passes.run(function, builder)


class _Part(_Code):
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


class KernelCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, which hands over records by address (:mod:`.records`)."""

    def define_pipelines(self) -> Any:
        """numba's passes, but for the one that writes the code."""
        made = super().define_pipelines()
        for manager in made:
            manager.passes = [(Lowering if one is NativeLowering else one, what) for one, what in manager.passes]
            manager.finalize()
        return made

    def compile_extra(self, func: Any) -> Any:
        """Compile ``func`` into a library of its own."""
        self.state.library = self.library(func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)

    def library(self, name: str) -> JITCodeLibrary:
        """Where the code is kept."""
        return _Code(self.state.targetctx.codegen(), name)


class PartCompiler(KernelCompiler):
    """The compiler of kernels, but for the machine code."""

    def library(self, name: str) -> JITCodeLibrary:
        """Where the code is kept."""
        made = _Part(self.state.targetctx.codegen(), name)
        made.optimised = bool(self.state.flags.forceinline)
        return made
