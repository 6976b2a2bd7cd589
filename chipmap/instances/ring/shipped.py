"""The shipped instances: a name, the generator that makes it, and its parameters.

They are made when they are asked for; a test pins their content hashes.
"""

from __future__ import annotations

from typing import Any

_RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "ring/bert-large-36": ("bert-large", {"sequence": 512, "batch": 1, "word_bytes": 2, "sram_mib": 64.0}),
    "ring/resnet50-36": ("resnet50", {"word_bytes": 2}),
}

#: Name of the instance -> (name of its generator in the family's list, its parameters).
SHIPPED: dict[str, tuple[str, dict[str, Any]]] = {
    name: (generator, {"name": name, **parameters}) for name, (generator, parameters) in _RECIPES.items()
}
