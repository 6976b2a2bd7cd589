"""What operators make for their gradients alone, beside what PyTorch's ``saved_tensors_hooks`` see: masks of attention,
statistics of rows, and places of maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chipmap.instances.saved import saves
from chipmap.networks.importers.operators.kept import kept_bytes
from chipmap.networks.importers.steps import Step, Value
from tests.placement.kept import exported, kept_by_torch, kept_here


def attention(mask: tuple[int, ...] | None, bits: int) -> int:
    """Bytes beside Q, K, V and the result: 2 sentences, 4 heads, 12 queries of 8 numbers of 2 bytes."""
    shapes = [(2, 4, 12, 8), (2, 2, 16, 8), (2, 2, 16, 8), *([mask] if mask else [])]
    values = {str(i): Value(str(i), shape, bits if i == 3 else 16) for i, shape in enumerate(shapes)}
    step = Step("a", "scaled_dot_product_attention", tuple(values), ("y",))
    return kept_bytes(step, values)


def test_a_mask_of_booleans_is_kept_as_numbers() -> None:
    """By hand: 2 · 4 · 12 rows of four bytes; a mask of 12 · 16 numbers of two bytes, once for both sentences."""
    assert attention(None, 0) == 384
    assert attention((12, 16), 8) == 384 + 12 * 16 * 2
    assert attention((2, 1, 12, 16), 8) == 384 + 2 * 12 * 16 * 2
    assert attention((12, 16), 16) == 384  # kept as it is, an operand


def test_a_norm_without_a_scale_has_statistics_of_its_rows() -> None:
    values = {"x": Value("x", (3, 5, 8), 32), "w": Value("w", (8,), 32), "b": Value("b", (8,), 32)}
    for reads, wanted in ((("x",), 2 * 4 * 15), (("x", "w", "b"), 0)):  # with both, the rule of its kind counts them
        assert kept_bytes(Step("n", "layer_norm", reads, ("y",), arguments={"normalized_shape": [8]}), values) == wanted


def test_a_maximum_along_a_dimension_keeps_places() -> None:
    assert saves("max", 2) == saves("min", 2) == saves("topk")
    assert saves("max").operands == saves("maximum").operands == "all"


def _nets() -> dict[str, Callable[[Any, Any], Any]]:
    def masked(torch: Any, q: Any) -> Any:
        mask = torch.ones(12, 12, dtype=torch.bool).tril()
        k, v = q[:, :2] * 2, q[:, 2:].sin()
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    return {
        "causal": lambda torch, q: torch.nn.functional.scaled_dot_product_attention(q, q * 2, q.sin(), is_causal=True),
        "masked": masked,
        "norm": lambda torch, q: torch.nn.functional.layer_norm(q, (8,)).sin(),
        "root": lambda torch, q: torch.nn.functional.rms_norm(q.sin(), (8,)),
        "sink": lambda torch, q: q - q.max(dim=-1, keepdim=True).values,
    }


@pytest.mark.parametrize("name", ["causal", "masked", "norm", "root", "sink"])
def test_kept_bytes_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    body = _nets()[name]

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = torch.nn.Linear(8, 32, bias=False), torch.nn.Linear(8, 8, bias=False)

        def forward(self, x: Any) -> Any:
            q = self.into(x).unflatten(-1, (4, 8)).transpose(1, 2)
            return self.out(body(torch, q).transpose(1, 2).contiguous())

    net, given = Net(), torch.randn(2, 12, 8)
    assert kept_here(exported(net, given)[1]) == kept_by_torch(net, given)
