"""What no optimiser changes (buffers, parameters without a gradient) has no gradient, update or state."""

from __future__ import annotations

import pytest

from chipmap.instances.placement.training import Training, training
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError


def _layer(weight: int, frozen: int) -> OperationGraph:
    """A gate, a product with ``weight`` bytes of which ``frozen`` are frozen, a gate; the first one has a weight."""
    operations = [
        Operation(name="x", kind="input", role="input"),
        Operation(name="first", kind="mul", flop=16, weight_bytes=64),
        Operation(name="product", kind="linear", flop=512, weight_bytes=weight, frozen_bytes=frozen),
        Operation(name="last", kind="gelu", flop=16),
    ]
    sizes = (64, 64, 64, 64)
    readers = ((1,), (2,), (3,), ())
    tensors = [
        Tensor(producer=v, readers=one, bytes=size) for v, (one, size) in enumerate(zip(readers, sizes, strict=True))
    ]
    return OperationGraph.checked("layer", operations, tensors)


def _flop(step: Training, begin: str) -> list[int]:
    return sorted(one.flop for one in step.graph.operations if one.name.startswith(begin))


def test_a_frozen_weight_hands_its_gradient_on_and_has_no_update() -> None:
    trained, frozen, bias = (training(_layer(80, frozen)) for frozen in (0, 80, 64))
    assert [pair[0] for pair in trained.together] == ["first/weight", "product/weight"]
    assert [pair[0] for pair in frozen.together] == ["first/weight"]
    assert [pair[0] for pair in bias.together] == ["first/weight", "product/weight"]
    assert _flop(trained, "product/gradient") == [512, 512]
    assert _flop(frozen, "product/gradient") == [512]
    assert _flop(bias, "product/gradient") == [16, 512]  # the gradient of a bias is a sum: the matrix is frozen
    state = {one.name: one.weight_bytes for one in bias.graph.operations if one.weight_bytes}
    assert state == {"first/weight/update": 128, "product/weight/update": 32}
    stored = {one.name for one in frozen.graph.operations if one.role == "constant"}
    assert stored == {"first/weight", "product/frozen"}


def test_what_a_frozen_weight_alone_would_need_is_not_kept() -> None:
    """The product's own gradient needs what it read; that of what it read needs the weight alone."""
    for frozen, wanted in ((0, True), (80, False)):
        graph = training(_layer(80, frozen)).graph
        (read,) = (t for t in graph.tensors if graph.operations[t.producer].name == "first")
        kept = [graph.operations[v].name for v in read.readers if "gradient" in graph.operations[v].name]
        assert bool(kept) == wanted


def test_more_frozen_bytes_than_weights_are_refused() -> None:
    with pytest.raises(InputError, match="frozen_bytes is 81"):
        _layer(80, 81)


def test_a_recurrent_layer_keeps_its_gates_whatever_states_it_returns() -> None:
    operations = [
        Operation(name="x", kind="input", role="input"),
        Operation(name="gru", kind="gru", flop=512, weight_bytes=64),
        Operation(name="last", kind="gelu", flop=16),
    ]
    tensors = [Tensor(producer=0, readers=(1,), bytes=64), Tensor(producer=1, readers=(2,), bytes=80)]
    tensors += [Tensor(producer=1, bytes=16), Tensor(producer=2, bytes=80)]
    graph = training(OperationGraph.checked("gru", operations, tensors)).graph
    assert 5 * 80 in [t.bytes for t in graph.tensors if graph.operations[t.producer].name == "gru"]


def test_adapters_beside_frozen_layers_hold_what_torch_holds() -> None:
    """Saved activations within 5%; gradients and states of the adapters alone. A mask in a buffer isn't trained."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")
    memory = pytest.importorskip("benchmarks.training_memory")
    from chipmap.networks.importers.torch_program import import_exported

    nn, F = torch.nn, torch.nn.functional

    class Adapted(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.norm, self.qkv = nn.Embedding(50, 64), nn.LayerNorm(64), nn.Linear(64, 192)
            self.out, self.up, self.down = nn.Linear(64, 64), nn.Linear(64, 256), nn.Linear(256, 64)
            self.requires_grad_(False)
            self.a, self.b = nn.Linear(64, 4, bias=False), nn.Linear(4, 192, bias=False)
            self.register_buffer("near", torch.ones(24, 24).tril().bool())

        def forward(self, words):  # type: ignore[no-untyped-def]
            x = self.table(words)
            y = self.norm(x)
            q, k, v = (self.qkv(y) + self.b(self.a(y))).unflatten(-1, (3, 2, 32)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.near).transpose(1, 2).flatten(2)
            x = x + self.out(y)
            return x + self.down(F.gelu(self.up(self.norm(x))))

    net, given = Adapted(), {"words": torch.arange(48).view(2, 24)}
    exported = torch.export.export(net, (), given)
    for decompose in (False, True):
        read = import_exported(exported, "net", decompose=decompose)
        assert any(note.startswith("frozen") and "11 parameters" in note for note in read.notes)
    ours = memory.ours_holds(import_exported(exported, "net", decompose=False).graph, 4)
    adapters = 4 * (net.a.weight.numel() + net.b.weight.numel())
    assert (ours.gradients, ours.momentum, ours.adam) == (adapters, adapters, 2 * adapters)
    assert ours.saved == pytest.approx(memory.torch_holds(net, given).saved, rel=0.05)
