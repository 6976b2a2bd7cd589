"""A training step's memory beside what PyTorch holds: saved activations, gradients, and the optimiser's state.

    python -m benchmarks.training_memory [NAME ...] [--markdown FILE]        needs the extra `zoo`

Of each network of the zoo (real width, depth and length cut, random weights, float32) a training step is made of its
export (:mod:`chipmap.instances.placement.training`) and run by PyTorch. Saved activations are the unique storages
that ``torch.autograd.graph.saved_tensors_hooks`` sees in the forward pass, without parameters, buffers and inputs;
gradients are those of ``backward()``; states those of the ``state_dict`` after a step of SGD, of SGD with momentum, and
of Adam. Two things are done as accelerators do them and the CPU doesn't: a dropout's mask has a byte per number, and
attention is fused although it drops out (here: it doesn't).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from chipmap.instances.placement.training import Recipe, Training, training
from chipmap.networks.graph import OperationGraph

#: Settings of each network beside its published ones: cut depth, fewer words, no dropout within attention.
CUT: dict[str, dict[str, Any]] = {
    "bert": {"num_hidden_layers": 2, "vocab_size": 2000, "attention_probs_dropout_prob": 0.0},
    "gpt2": {"n_layer": 2, "vocab_size": 2000, "attn_pdrop": 0.0},
    "llama": {"num_hidden_layers": 1, "vocab_size": 2000},
    "qwen2": {"num_hidden_layers": 2, "vocab_size": 2000},
    "mixtral": {"num_hidden_layers": 1, "vocab_size": 2000, "hidden_size": 1024, "intermediate_size": 1792}
    | {"num_attention_heads": 16, "num_key_value_heads": 4},
    "mamba": {"num_hidden_layers": 2, "vocab_size": 2000},
    "t5": {"num_layers": 2, "vocab_size": 2000, "attn_implementation": "eager"},
    "whisper": {"encoder_layers": 2, "decoder_layers": 2, "vocab_size": 2000, "pad_token_id": 0, "bos_token_id": 1}
    | {"eos_token_id": 2, "decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None},
    "vit": {"num_hidden_layers": 2},
    "swin": {"attn_implementation": "eager", "depths": [2, 2, 2, 2]},
    "convnext": {},
    "resnet": {},
}
#: Tokens where the published number is cut.
TOKENS = {"bert": 256, "gpt2": 256, "llama": 128, "qwen2": 128, "mixtral": 128, "t5": 128}
#: Their first token is padding: without any, the module leaves out the mask that its export always has, and with it the
#: repetition of key heads.
MASKED = ("gpt2", "llama", "qwen2", "mixtral")
#: Settings of small networks, for tests.
SMALL: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 128, "n_head": 2, "n_positions": 32, "attn_pdrop": 0.0},
    "convnext": {},
}


@dataclass(frozen=True)
class Held:
    """Bytes that a training step holds."""

    saved: int
    gradients: int
    sgd: int
    momentum: int
    adam: int


class Fused(TorchFunctionMode):
    """Dropout as accelerators have it: a mask of a byte per number (the CPU's has the numbers' type)."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function is functional.dropout:
            asked = dict(zip(("input", "p", "training"), args, strict=False)) | dict(kwargs or {})
            p, active = asked.get("p", 0.5), asked.get("training", True)
            return torch.native_dropout(asked["input"], p, True)[0] if active and p else asked["input"]
        return function(*args, **(kwargs or {}))


def storages(tensors: Sequence[torch.Tensor]) -> dict[int, int]:
    """Bytes of each storage behind ``tensors``, by its address."""
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


def torch_holds(module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> Held:
    """What PyTorch holds of a step of ``module``, whose loss is the sum of what it returns."""
    kept: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)  # alive, so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), Fused():
        made = module(**inputs)
    outside = storages([*module.parameters(), *module.buffers(), *inputs.values()])
    saved = sum(size for at, size in storages(kept).items() if at not in outside)
    results = [made] if isinstance(made, torch.Tensor) else made.values() if hasattr(made, "values") else made
    losses = [one.float().sum() for one in results if isinstance(one, torch.Tensor) and one.requires_grad]
    torch.stack(losses).sum().backward()
    parameters = [one for one in module.parameters() if one.grad is not None]
    gradients = sum(storages([one.grad for one in parameters if one.grad is not None]).values())
    rate = {"lr": 1e-6}
    return Held(
        saved,
        gradients,
        state(torch.optim.SGD(parameters, **rate)),
        state(torch.optim.SGD(parameters, momentum=0.9, **rate)),
        state(torch.optim.Adam(parameters, **rate)),
    )


def state(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the tensors of an optimiser's ``state_dict`` after a step."""
    optimizer.step()
    kept = optimizer.state_dict()["state"].values()
    return sum(storages([one for each in kept for one in each.values() if isinstance(one, torch.Tensor)]).values())


def ours_holds(graph: OperationGraph, word: int) -> Held:
    """The same of the training step of a forward graph whose numbers have ``word`` bytes."""
    step = training(graph, Recipe(word_bytes=word))

    def states(optimizer: Any) -> int:
        made = training(graph, Recipe(word_bytes=word, optimizer=optimizer)).graph
        return sum(one.weight_bytes for one in made.operations if one.kind == "update")

    return Held(saved_bytes(step), gradient_bytes(step), states("sgd"), states("momentum"), states("adam"))


def saved_bytes(step: Training) -> int:
    """Bytes of forward results that the backward pass reads, but for those that only the loss does."""
    graph, backward = step.graph, set(step.backward)
    total = 0
    for tensor in graph.tensors:
        made = graph.operations[tensor.producer]
        readers = (graph.operations[v] for v in tensor.readers)
        if made.role == "compute" and made.name not in backward:
            total += tensor.bytes * any(one.name in backward and one.kind != "loss" for one in readers)
    return total


def gradient_bytes(step: Training) -> int:
    """Bytes of the gradients that updates read."""
    graph = step.graph
    read = (t for t in graph.tensors if any(graph.operations[v].kind == "update" for v in t.readers))
    return sum(t.bytes for t in read if graph.operations[t.producer].role == "compute")


def measured(name: str, small: bool = False) -> dict[str, Any]:
    """A network's step, ours and PyTorch's; a ``small`` one has the zoo's small size."""
    from benchmarks.zoo.networks import NETWORKS
    from chipmap.networks.importers.torch_program import import_exported

    network = next(one for one in NETWORKS if one.name == name)
    torch.manual_seed(0)
    module = network.module(not small, SMALL[name] if small else CUT[name]).float().train()
    inputs = network.inputs(not small)
    if name in TOKENS:
        inputs = {key: value[:, : TOKENS[name]] for key, value in inputs.items()}
    if name in MASKED:
        inputs["attention_mask"] = (torch.arange(inputs["input_ids"].shape[1])[None] > 0).long()
    exported = torch.export.export(module, (), inputs, strict=False)
    graph = import_exported(exported, name, decompose=False).graph
    return {"ours": vars(ours_holds(graph, 4)), "torch": vars(torch_holds(module, inputs))}


def table(rows: Mapping[str, Any]) -> list[str]:
    """The rows of the result."""
    columns = ("saved", "gradients", "momentum", "adam")
    said = ["| network | " + " | ".join(f"{one}: torch, MB | ours / torch" for one in columns) + " |"]
    said.append("|---|" + "--:|--:|" * len(columns))
    for name, row in rows.items():
        cells = [f"{row['torch'][c] / 1e6:,.2f} | {row['ours'][c] / row['torch'][c]:.4f}" for c in columns]
        said.append(f"| {name} | {' | '.join(cells)} |")
    return said


def heading() -> list[str]:
    """What the table shows, and where it was made."""
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    where = f"Python {platform.python_version()}, PyTorch {torch.__version__}, on top of commit {git.stdout.strip()}"
    return [
        "# A training step's memory, beside what PyTorch holds",
        "",
        f"`python -m benchmarks.training_memory`: {where}, load average {os.getloadavg()[0]:.1f}.",
        "",
        "- Networks of the zoo, float32, random weights, real width; depth, words, tokens cut. A step is made of",
        "  the module's export in training mode (`chipmap convert --training` does the same of a file).",
        "- *Saved*: unique storages that `saved_tensors_hooks` sees, without parameters, buffers and inputs.",
        "  *Gradients*: after `backward()`. *Momentum*, *Adam*: the `state_dict` after a step. SGD keeps nothing.",
        "- A dropout's mask has a byte per number and attention is fused, as on accelerators.",
        "- Whisper's table of positions isn't trained: the export doesn't say so, and it counts as a parameter here.",
        "  What Mamba computes of parameters alone counts as weights here, and as saved activations there.",
        "",
    ]


def main() -> None:
    """Measure each network in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        logging.disable(logging.WARNING)
        print(json.dumps(measured(arguments.names[0])))
        return
    rows = {}
    for name in arguments.names or CUT:
        command = [sys.executable, "-m", "benchmarks.training_memory", "--one", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            print(f"{name}: {done.stderr.splitlines()[-1]}", file=sys.stderr)
            continue
        rows[name] = json.loads(done.stdout.splitlines()[-1])
        print(table({name: rows[name]})[-1], rows[name], file=sys.stderr, flush=True)
    said = "\n".join([*heading(), *table(rows)]) + "\n"
    if arguments.markdown is not None:
        arguments.markdown.write_text(said)
    print(said)


if __name__ == "__main__":
    main()
