"""Training steps under autocast: copies in half precision are kept, and a bias that is a copy is still a bias."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.instances.placement.from_graph import from_graph, training_step
from chipmap.instances.placement.operands import computed_bias
from chipmap.instances.placement.training import Training
from chipmap.networks.graph import Operation
from chipmap.networks.importers.torch_program import import_exported
from chipmap.records import InputError


def test_of_three_computed_operands_one_is_added() -> None:
    """``addmm`` of 4 x 2 and 2 x 3 numbers, and a full or a short bias; ``linear``: the smallest; two are factors."""
    addmm = Operation(name="a", kind="addmm", flop=48)
    assert computed_bias(addmm, {5: 48, 6: 32, 7: 24}, 48, 4) == 5
    assert computed_bias(addmm, {6: 32, 7: 24, 8: 12}, 48, 4) == 8
    assert computed_bias(Operation(name="l", kind="linear", flop=48), {1: 12, 2: 32, 3: 24}, 48, 4) == 1
    assert computed_bias(addmm, {6: 32, 7: 24}, 48, 4) is None


def test_copies_are_kept_as_torch_keeps_them() -> None:
    """Bytes by ``saved_tensors_hooks``, FLOP by PyTorch's counter; the plain export, which hides copies, is refused."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    memory = pytest.importorskip("benchmarks.training_memory")
    from torch.utils.flop_counter import FlopCounterMode

    nn = torch.nn

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down, self.norm = nn.Linear(32, 128), nn.Linear(128, 32), nn.LayerNorm(32)

        def forward(self, x: Any, enabled: bool = True) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                return self.norm(x + self.down(nn.functional.gelu(self.up(x))))

    net, given = Net(), torch.randn(16, 32)
    plain = torch.export.export(net, (given,))
    with pytest.raises(InputError, match="autocast copies weights") as met:
        training_step(from_graph(import_exported(plain, "net", decompose=False), "net"))
    assert met.value.remedy is not None and "run_decompositions({})" in met.value.remedy
    off = torch.export.export(net, (given,), {"enabled": False})
    assert training_step(from_graph(import_exported(off, "net", decompose=False), "net"))
    shown = import_exported(plain.run_decompositions({}), "net", decompose=False)
    step = training_step(from_graph(shown, "net")).instance
    assert memory.saved_bytes(Training(step.graph, (), step.backward)) == memory.torch_holds(net, {"x": given}).saved
    with FlopCounterMode(display=False) as counter:
        net(given).sum().backward()
    products = sum(one.flop for one in step.graph.operations if one.kind == "linear")
    sums = 16 * 128 + 16 * 32  # of the gradients of biases, of numbers of half as many bytes
    assert counter.get_total_flops() <= products <= counter.get_total_flops() + sums
