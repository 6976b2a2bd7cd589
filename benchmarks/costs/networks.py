"""Small networks of many architectures, with random weights, exported by torch.export (extra ``zoo``).

Each takes 10 to 100 ms on one thread of a processor. An architecture is a class of transformers, or a network of our
own; it has two sizes, which differ in width, depth, and the size of the input.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

Made = tuple[nn.Module, dict[str, torch.Tensor]]


def _text(model: str, config: str, width: str, depth: str, heads: str, **more: Any) -> Callable[[bool], Made]:
    """A model of text in two sizes; the names of its settings."""

    def make(large: bool) -> Made:
        d, n, h, tokens = (512, 4, 8, 192) if large else (256, 3, 4, 96)
        given = {width: d, depth: n, heads: h, "vocab_size": 2048, **more}
        if "intermediate_size" in more:
            given["intermediate_size"] = 3 * d
        module = getattr(transformers, model)(getattr(transformers, config)(**given))
        return module, {"input_ids": torch.randint(2, 2000, (1, tokens))}

    return make


def _image(model: str, config: str, small: dict[str, Any], large: dict[str, Any]) -> Callable[[bool], Made]:
    """A model of images; its settings in two sizes, with ``side`` of the image."""

    def make(is_large: bool) -> Made:
        given = dict(large if is_large else small)
        side = given.pop("side")
        module = getattr(transformers, model)(getattr(transformers, config)(**given))
        return module, {"pixel_values": torch.randn(1, 3, side, side)}

    return make


def _vit(side: int, width: int, depth: int, heads: int) -> dict[str, Any]:
    sizes = {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
    return {"side": side, "image_size": side, **sizes, "intermediate_size": 4 * width}


def _t5(large: bool) -> Made:
    d, n, tokens = (512, 3, 128) if large else (256, 2, 64)
    config = transformers.T5Config(vocab_size=2048, d_model=d, d_kv=64, d_ff=3 * d, num_layers=n, num_heads=d // 64)
    ids = {name: torch.randint(2, 2000, (1, tokens)) for name in ("input_ids", "decoder_input_ids")}
    return transformers.T5ForConditionalGeneration(config), ids


class _Mixer(nn.Module):
    """MLP-Mixer: tokens are mixed, then features (Tolstikhin et al. 2021)."""

    def __init__(self, width: int, depth: int, tokens: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.tokens = nn.ModuleList(_mlp(tokens, tokens // 2) for _ in range(depth))
        self.features = nn.ModuleList(_mlp(width, 4 * width) for _ in range(depth))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Features of the mean patch."""
        x = self.patches(image).flatten(2).transpose(1, 2)
        for i, (tokens, features) in enumerate(zip(self.tokens, self.features, strict=True)):
            x = x + tokens(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + features(self.norms[2 * i + 1](x))
        return x.mean(1)


def _mlp(width: int, inner: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class _Dense(nn.Module):
    """DenseNet: each layer reads all before it (Huang et al. 2017)."""

    def __init__(self, growth: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 2 * growth, 7, 2, 3)
        self.layers = nn.ModuleList()
        width = 2 * growth
        for _ in range(3):
            for _ in range(depth):
                self.layers.append(_normed(width, growth, 3))
                width += growth
            self.layers.append(nn.Sequential(_normed(width, width // 2, 1), nn.AvgPool2d(2)))
            width //= 2

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Features of all places."""
        x = nn.functional.max_pool2d(self.first(image), 2)
        for layer in self.layers:
            made = layer(x)
            x = torch.cat([x, made], 1) if made.shape[-1] == x.shape[-1] else made
        return x.mean((2, 3))


def _normed(read: int, made: int, window: int) -> nn.Module:
    return nn.Sequential(nn.BatchNorm2d(read), nn.ReLU(), nn.Conv2d(read, made, window, padding=window // 2))


def _mixer(large: bool) -> Made:
    side = 224 if large else 160
    return _Mixer(384 if large else 256, 6 if large else 4, (side // 16) ** 2), {"image": torch.randn(1, 3, side, side)}


def _dense(large: bool) -> Made:
    side = 160 if large else 128
    return _Dense(32 if large else 16, 6 if large else 4), {"image": torch.randn(1, 3, side, side)}


_CACHE: dict[str, Any] = {"use_cache": False}
_LLAMA = {"num_key_value_heads": 2, "intermediate_size": 0, **_CACHE}
_BERT = ("hidden_size", "num_hidden_layers", "num_attention_heads")
_STAGES = {"side": 128, "depths": [2, 2, 2, 2]}

ARCHITECTURES: dict[str, Callable[[bool], Made]] = {
    "bert": _text("BertModel", "BertConfig", *_BERT, intermediate_size=0),
    "gpt2": _text("GPT2LMHeadModel", "GPT2Config", "n_embd", "n_layer", "n_head", **_CACHE),
    "llama": _text("LlamaForCausalLM", "LlamaConfig", *_BERT, **_LLAMA),
    "gemma": _text("GemmaForCausalLM", "GemmaConfig", *_BERT, head_dim=64, **_LLAMA),
    "opt": _text("OPTForCausalLM", "OPTConfig", *_BERT, ffn_dim=1024, word_embed_proj_dim=None, **_CACHE),
    "gpt_neox": _text("GPTNeoXForCausalLM", "GPTNeoXConfig", *_BERT, intermediate_size=0, **_CACHE),
    "bloom": _text("BloomForCausalLM", "BloomConfig", "hidden_size", "n_layer", "n_head", **_CACHE),
    "phi": _text("PhiForCausalLM", "PhiConfig", *_BERT, intermediate_size=0, **_CACHE),
    "deberta": _text("DebertaV2Model", "DebertaV2Config", *_BERT, intermediate_size=0),
    "fnet": _text(
        "FNetModel", "FNetConfig", "hidden_size", "num_hidden_layers", "type_vocab_size", intermediate_size=0
    ),
    "t5": _t5,
    "vit": _image("ViTModel", "ViTConfig", _vit(160, 192, 4, 3), _vit(224, 384, 4, 6)),
    "beit": _image("BeitModel", "BeitConfig", _vit(160, 192, 4, 3), _vit(224, 384, 4, 6)),
    "swin": _image(
        "SwinModel",
        "SwinConfig",
        {"side": 112, "image_size": 112, "embed_dim": 48, "depths": [2, 2, 2], "num_heads": [2, 4, 8]},
        {"side": 224, "image_size": 224, "embed_dim": 64, "depths": [2, 2, 2, 2], "num_heads": [2, 4, 8, 16]},
    ),
    "convnext": _image(
        "ConvNextModel",
        "ConvNextConfig",
        {**_STAGES, "hidden_sizes": [48, 96, 192, 384]},
        {**_STAGES, "side": 192, "hidden_sizes": [64, 128, 256, 512]},
    ),
    "resnet": _image(
        "ResNetModel",
        "ResNetConfig",
        {**_STAGES, "embedding_size": 32, "hidden_sizes": [64, 128, 256, 512]},
        {**_STAGES, "side": 192, "embedding_size": 64, "hidden_sizes": [128, 256, 512, 1024]},
    ),
    "regnet": _image(
        "RegNetModel",
        "RegNetConfig",
        {**_STAGES, "hidden_sizes": [32, 64, 128, 256], "groups_width": 16},
        {**_STAGES, "side": 192, "hidden_sizes": [64, 128, 256, 512], "groups_width": 32},
    ),
    "mobilenet_v2": _image(
        "MobileNetV2Model", "MobileNetV2Config", {"side": 128, "depth_multiplier": 0.5}, {"side": 192}
    ),
    "efficientnet": _image(
        "EfficientNetModel",
        "EfficientNetConfig",
        {"side": 96, "image_size": 96, "width_coefficient": 0.5, "depth_coefficient": 0.5, "hidden_dim": 640},
        {"side": 128, "image_size": 128, "width_coefficient": 0.75, "depth_coefficient": 1.0, "hidden_dim": 960},
    ),
    "poolformer": _image(
        "PoolFormerModel",
        "PoolFormerConfig",
        {**_STAGES, "hidden_sizes": [32, 64, 160, 256]},
        {**_STAGES, "side": 192, "hidden_sizes": [64, 128, 320, 512]},
    ),
    "segformer": _image(
        "SegformerModel",
        "SegformerConfig",
        {**_STAGES, "hidden_sizes": [16, 32, 80, 128]},
        {**_STAGES, "side": 192, "hidden_sizes": [32, 64, 160, 256]},
    ),
    "mixer": _mixer,
    "densenet": _dense,
}


class First(nn.Module):
    """A network that returns the first of its results alone, a tensor: its file needs no class of a package."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        """The first result."""
        made = self.network(**inputs)
        return made if isinstance(made, torch.Tensor) else made[0]


def write(folder: Path, architectures: dict[str, Callable[[bool], Made]]) -> Iterator[str]:
    """Export networks of architectures that aren't there, yield each name; what can't be exported is said."""
    folder.mkdir(parents=True, exist_ok=True)
    for size, large in (("small", False), ("large", True)):
        for name, make in architectures.items():
            path = folder / f"{name}-{size}.pt2"
            if path.exists():
                continue
            torch.manual_seed(0)
            try:
                module, inputs = make(large)
                with torch.no_grad():
                    program = torch.export.export(First(module).eval(), (), inputs, strict=False)
                torch.export.save(program, path)
            except Exception as error:  # what a version of a package refuses
                print(f"{path.stem}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
                path.unlink(missing_ok=True)
                continue
            yield path.stem
