"""``device_map.json`` before those who read it: accelerate's own check of device maps, and its dispatch.

Networks whose modules hold parameters beside other modules: by hand, ViT (class token, positions), Mamba (A, D) and
ConvNeXt (scales of layers); BERT, whose table of positions is looked up at known places. There is one device here: for
the dispatch one of the two is the disk.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from chipmap.instances.placement import PlacementInstance, PlacementSolution
from chipmap.instances.placement.from_graph import from_graph, training_step
from chipmap.instances.placement.problem import placement_problem
from chipmap.networks.importers.torch_program import import_exported
from chipmap.plans.device_map.placement import device_map

torch: Any = pytest.importorskip("torch", reason="needs the extra judges")
transformers: Any = pytest.importorskip("transformers", reason="needs the extra judges")
accelerate: Any = pytest.importorskip("accelerate", reason="needs the extra judges")

NAMES = ["by-hand", "vit", "mamba", "convnext", "bert"]
#: A network holds parameters of its own beside other modules, but for BERT.
DIRECT = {"by-hand": "layers.0.scale", "vit": "embeddings.cls_token", "mamba": "layers.0.mixer.A_log"}
DIRECT |= {"convnext": "encoder.stages.0.layers.0.layer_scale_parameter"}


def by_hand() -> Any:
    class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.scale, self.bias = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.zeros(width))
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            return x + self.scale * self.down(torch.relu(self.up(x))) + self.bias

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int = 16) -> None:
            super().__init__()
            self.pos, self.emb = torch.nn.Parameter(torch.zeros(32, width)), torch.nn.Embedding(60, width)
            self.layers = torch.nn.ModuleList(Block(width) for _ in range(2))
            self.head = torch.nn.Linear(width, 60, bias=False)
            self.head.weight = self.emb.weight
            self.register_buffer("shift", torch.zeros(width))

        def forward(self, tokens: Any) -> Any:
            x = self.emb(tokens) + self.pos[: tokens.shape[1]] + self.shift
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    return Net()


@cache
def network(name: str) -> tuple[Any, Any, PlacementInstance]:
    """(module, what it is called with, its instance); weights are random, nothing is loaded."""
    picture, words = torch.randn(1, 3, 32, 32), torch.arange(8)[None]
    small = {"hidden_size": 16, "num_hidden_layers": 2}
    heads = {**small, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(1)
    if name == "by-hand":
        module, given = by_hand(), words
    elif name == "vit":
        module, given = transformers.ViTModel(transformers.ViTConfig(**heads, image_size=32, patch_size=16)), picture
    elif name == "mamba":
        config = transformers.MambaConfig(**small, vocab_size=50, state_size=4, use_cache=False)
        module, given = transformers.MambaModel(config), words[:, :4]
    elif name == "convnext":
        config = transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, image_size=32)
        module, given = transformers.ConvNextModel(config), picture
    else:
        module, given = transformers.BertForPreTraining(transformers.BertConfig(**heads, vocab_size=50)), words
    module.eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.1)
        exported = torch.export.export(module, (given,), strict=False)
    return module, given, from_graph(import_exported(exported, name, decompose=False), name)


def cuts(instance: PlacementInstance) -> Iterator[dict[str, Any]]:
    """The device maps of all cuts of the order in two."""
    problem = placement_problem(instance)
    order = [problem.names[v] for v in problem.order.tolist()]
    for cut in range(1, len(order)):
        of = {name: problem.device_names[i >= cut] for i, name in enumerate(order)}
        yield json.loads(device_map(problem, PlacementSolution(devices=of)))


@pytest.mark.parametrize("name", NAMES)
def test_accelerate_accepts_the_maps_of_all_cuts(name: str, record_property: Callable[[str, object], None]) -> None:
    """Every name of the state dict has a device, and keys are modules, parameters or buffers. Cuts pass beside modules
    with parameters of their own."""
    module, _, instance = network(name)
    buffers = {own for own, _ in module.named_buffers()}
    known = {"", *dict(module.named_modules()), *module.state_dict(), *buffers}
    assert {*module.state_dict(), *buffers} == instance.states.keys()
    listed, maps = set[str](), 0
    for of in (instance, training_step(instance).instance):
        for found in cuts(of):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of keys that are parameters, which its own maps have as well
                accelerate.utils.modeling.check_device_map(module, found)
            assert found.keys() <= known
            listed |= found.keys()
            maps += 1
    own = sorted(listed & {*module.state_dict(), *buffers})
    record_property(
        f"{name}: maps that accelerate accepts", f"{maps}, of {len(instance.states)} names, {len(own)} as keys"
    )
    assert name not in DIRECT or DIRECT[name] in listed


@pytest.mark.parametrize("name", NAMES)
def test_accelerate_runs_what_it_dispatched_by_a_map(name: str) -> None:
    """Some cuts, device 0 in memory and device 1 on the disk: the same numbers as undispatched."""
    module, given, instance = network(name)
    with torch.no_grad():
        wanted = module(given)
        for found in list(cuts(instance))[:: max(1, len(instance.graph.operations) // 12)]:
            placed = {key: ("cpu", "disk")[device] for key, device in found.items()}
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                moved = accelerate.dispatch_model(deepcopy(module), placed, offload_dir=folder)(given)
            for a, b in zip(tensors(wanted), tensors(moved), strict=True):
                assert torch.allclose(a, b, atol=1e-5)


def tensors(result: Any) -> list[Any]:
    """The tensors that a module returns."""
    return [result] if isinstance(result, torch.Tensor) else [one for one in result.values() if one is not None]


def test_what_positions_are_looked_up_in_is_trained() -> None:
    """BERT's places are known, whatever the words are: its table has a gradient and an update, and a device."""
    _, _, instance = network("bert")
    step = training_step(instance).instance
    weight = step.states["bert.embeddings.position_embeddings.weight"]
    assert (weight, f"{weight}/update") in step.together
    optimised = sum(one.weight_bytes for one in step.graph.operations if one.kind == "update")
    module = network("bert")[0]
    optimizer = torch.optim.Adam(module.parameters())
    module(network("bert")[1]).prediction_logits.sum().backward()
    optimizer.step()
    states = [value for one in optimizer.state.values() for value in one.values() if value.dim()]
    unused = sum(2 * p.nbytes for p in module.parameters() if p.grad is None)
    held = sum(value.nbytes for value in states)
    assert held <= optimised <= 1.01 * (held + unused)  # the numbers of the places count with the table
