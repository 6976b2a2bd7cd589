"""The shipped instances: a name, the generator that makes it, and its parameters."""

from __future__ import annotations

from typing import Any

SHIPPED: dict[str, tuple[str, dict[str, Any]]] = {}
