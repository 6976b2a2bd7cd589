"""Networks in published sizes that a GPU is measured with, exported there (extra ``zoo``)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from benchmarks.costs.networks import First

_CACHE: dict[str, Any] = {"use_cache": False}
_LLAMA = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 8, "num_attention_heads": 32}
_LLAMA |= {"num_key_value_heads": 8, "head_dim": 64, "vocab_size": 32000}

#: name: (model, configuration, its settings, kind of input, its size, batch, type of numbers)
NETWORKS: dict[str, tuple[str, str, dict[str, Any], str, int, int, torch.dtype]] = {
    "resnet-50": ("ResNetModel", "ResNetConfig", {}, "image", 224, 32, torch.float32),
    "resnet-50-bf16": ("ResNetModel", "ResNetConfig", {}, "image", 224, 32, torch.bfloat16),
    "convnext-tiny": ("ConvNextModel", "ConvNextConfig", {}, "image", 224, 32, torch.bfloat16),
    "vit-base": ("ViTModel", "ViTConfig", {}, "image", 224, 32, torch.bfloat16),
    "swin-tiny": ("SwinModel", "SwinConfig", {}, "image", 224, 32, torch.bfloat16),
    "segformer-b0": ("SegformerModel", "SegformerConfig", {}, "image", 512, 8, torch.bfloat16),
    "bert-base": ("BertModel", "BertConfig", {}, "text", 512, 8, torch.bfloat16),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", _CACHE, "text", 1024, 4, torch.bfloat16),
    "llama-8-layers": ("LlamaForCausalLM", "LlamaConfig", _CACHE | _LLAMA, "text", 1024, 2, torch.bfloat16),
    "gpt2-1-token": ("GPT2LMHeadModel", "GPT2Config", _CACHE, "text", 1, 16, torch.bfloat16),
}


def made(name: str, tiny: bool) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A network and its inputs; ``tiny``: two layers, and a batch of one."""
    model, config, settings, kind, size, batch, dtype = NETWORKS[name]
    if tiny:
        settings, batch = settings | ({"num_hidden_layers": 2} if kind == "text" or "vit" in name else {}), 1
    network = getattr(transformers, model)(getattr(transformers, config)(**settings)).to(dtype)
    if kind == "image":
        return network, {"pixel_values": torch.randn(batch, 3, size, size, dtype=dtype)}
    return network, {"input_ids": torch.randint(2, 2000, (batch, size))}


def main(folder: Path, tiny: bool) -> None:
    """Export all networks to files; what can't be exported is said."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NETWORKS:
        began = time.monotonic()
        try:
            network, inputs = made(name, tiny)
            with torch.no_grad():
                program = torch.export.export(First(network).eval(), (), inputs, strict=False)
            torch.export.save(program, folder / f"{name}.pt2")
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
        except Exception as error:  # what a version of a package refuses
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--tiny" in sys.argv)
