"""What every trained policy has: networks, their optimiser, the randomness of training, and PPO's clipped objective."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)


class Optimised(Generic[Network]):
    """``network``, ``adam`` and ``random``, with a state from which a later run goes on unchanged."""

    network: Network
    adam: torch.optim.Adam
    random: torch.Generator

    def descend(self) -> None:
        """One step of Adam down the gradients that are there, cut at norm 1."""
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.adam.step()

    def state(self) -> dict[str, Any]:
        """All that a later run needs to go on as if there had been no break."""
        return {
            "network": self.network.state_dict(),
            "adam": self.adam.state_dict(),
            "random": self.random.get_state(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state`."""
        self.network.load_state_dict(state["network"])
        self.adam.load_state_dict(state["adam"])
        self.random.set_state(state["random"])


def surrogate(moved: Tensor, gain: Tensor, clip: float) -> Tensor:
    """The mean of min(r A, clip(r, 1 - ε, 1 + ε) A), r = exp(``moved``), A = ``gain``.

    PPO's objective (Schulman et al., *Proximal Policy Optimization Algorithms*, 2017, equation 7).
    """
    ratio = moved.clamp(-20.0, 20.0).exp()
    return torch.minimum(ratio * gain, ratio.clamp(1.0 - clip, 1.0 + clip) * gain).mean()
