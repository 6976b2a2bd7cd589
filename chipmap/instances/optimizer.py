"""What an optimiser keeps for each parameter, as PyTorch's ``state_dict`` holds it.

SGD keeps nothing, with momentum its buffer, Adam and AdamW two moments (Kingma and Ba, *Adam*, 2015). Each has a number
per parameter, of 4 bytes, of 2 (where weights are of 2 and the optimiser keeps their type) or of 1 (8-bit optimisers;
Dettmers et al., 2022). Master weights are a copy of the weights in 4 bytes (Micikevicius et al., *Mixed Precision
Training*, 2018).
"""

from __future__ import annotations

from typing import Literal

#: ``none``: gradients are made, and nothing is updated.
Optimizer = Literal["none", "sgd", "momentum", "adam"]
#: Numbers of state per parameter.
STATES: dict[Optimizer, int] = {"none": 0, "sgd": 0, "momentum": 1, "adam": 2}
#: Bytes that a number of state may have, and those of a master weight.
WIDTHS, MASTER = (1, 2, 4), 4


def per_parameter(name: Optimizer, state_bytes: int, master_weights: bool) -> int:
    """Bytes per parameter; without an optimiser 0."""
    return 0 if name == "none" else STATES[name] * state_bytes + MASTER * master_weights
