"""Whether the extra ``learned`` is installed."""

from __future__ import annotations

from importlib.util import find_spec

from chipmap.records import SolverUnavailableError


def require() -> None:
    """Raise :class:`SolverUnavailableError` unless torch is installed."""
    if find_spec("torch") is None:
        raise SolverUnavailableError(
            'learned policies need PyTorch, which is not installed\n  Install it: pip install "chipmap[learned]"'
        )
