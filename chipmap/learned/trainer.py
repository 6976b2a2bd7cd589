"""What every trained policy has: networks, their optimiser, the randomness of training, and PPO's clipped objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

Network = TypeVar("Network", bound=nn.Module)


class Optimised(Generic[Network]):
    """``network``, made with a seed, ``adam`` and ``random``, with a state from which a later run goes on unchanged.

    The network's weights are views of one vector, so that cutting the gradient and a step of Adam are a few operations
    instead of a few per layer.
    """

    def __init__(self, make: Callable[[], Network], rate: float, seed: int, device: str = "cpu") -> None:
        self.random = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = network = make().to(device)
        self._weights = list(network.parameters())
        vector = parameters_to_vector(self._weights).detach().clone()
        vector_to_parameters(vector, self._weights)
        self._vector = nn.Parameter(vector)
        self.adam = torch.optim.Adam([self._vector], lr=rate, fused=True)

    def gradient(self, outputs: Sequence[Tensor], slopes: Sequence[Tensor] | None = None) -> Tensor:
        """The gradient by all weights in a row: of the sum of the losses ``outputs``, or of any loss whose gradient by
        the outputs is ``slopes``."""
        gradients = torch.autograd.grad(outputs, self._weights, slopes, materialize_grads=True)
        return torch.cat([one.reshape(-1) for one in gradients])

    def descend(self, gradient: Tensor) -> None:
        """One step of Adam down a :meth:`gradient`, cut at norm 1."""
        self._vector.grad = gradient
        nn.utils.clip_grad_norm_(self._vector, 1.0)
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
