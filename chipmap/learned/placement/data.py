"""The graphs that the policy of moves is trained on and judged on: training steps that our generators make.

Architectures RNNLM, Transformer-XL and Inception alone; GNMT, WaveNet and AmoebaNet are held out, and so are the
shipped instances of the former, which are larger.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import PlacementProblem, placement_problem

Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = get_args(Split)


class Row(NamedTuple):
    """A network with its parameters, on so many devices with such links."""

    network: str
    parameters: tuple[tuple[str, int], ...]
    devices: int
    links: str

    def problem(self) -> PlacementProblem:
        """The problem of the row's training step."""
        parameters: dict[str, Any] = dict(self.parameters)
        return placement_problem(training_step(self.network, parameters, self.devices, f"p100-{self.links}"))


def _row(network: str, devices: int, links: str, **parameters: int) -> Row:
    return Row(network, tuple(parameters.items()), devices, links)


TRAIN = (
    _row("rnnlm", 2, "pcie", layers=2, steps=8),
    _row("rnnlm", 2, "nvlink", layers=3, steps=12),
    _row("rnnlm", 4, "nvlink", layers=3, steps=6),
    _row("rnnlm", 4, "pcie", layers=4, steps=12),
    _row("rnnlm", 8, "pcie", layers=4, steps=6),
    _row("rnnlm", 4, "pcie", layers=4, steps=10, hidden=2048),
    _row("rnnlm", 2, "pcie", layers=4, steps=16, hidden=512),
    _row("rnnlm", 8, "nvlink", layers=8, steps=8),
    _row("transformer-xl", 2, "pcie", layers=2, segments=2),
    _row("transformer-xl", 4, "pcie", layers=4, segments=2),
    _row("transformer-xl", 8, "nvlink", layers=4, segments=2),
    _row("transformer-xl", 4, "nvlink", layers=4, segments=3, hidden=512),
    _row("transformer-xl", 2, "pcie", layers=3, segments=3, batch=16),
    _row("transformer-xl", 8, "pcie", layers=8, segments=2),
    _row("inception", 2, "pcie", batch=16),
    _row("inception", 4, "nvlink", batch=32),
    _row("inception", 4, "pcie", batch=64),
    _row("inception", 8, "pcie", batch=32),
)
VALIDATION = (
    _row("rnnlm", 2, "pcie", layers=3, steps=9),
    _row("transformer-xl", 4, "pcie", layers=3, segments=2, length=256),
    _row("inception", 2, "nvlink", batch=8),
    _row("inception", 4, "pcie", batch=16),
)


def rows_of(split: Split) -> tuple[Row, ...]:
    """The graphs of a split."""
    return TRAIN if split == "train" else VALIDATION
