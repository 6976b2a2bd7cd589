"""The networks of the zoo: configurations in the sizes that are published, and small ones with the same operators.

Nothing is downloaded: a configuration makes a network with random weights, and the exporter makes none at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn

from benchmarks.zoo.unet import Sizes, UNet


@dataclass(frozen=True)
class Network:
    """A network: what makes its module (real size or small, further settings) and its inputs by name.

    ``for_onnx`` are settings without which ``torch.onnx.export`` refuses it.
    """

    name: str
    about: str
    module: Callable[[bool, dict[str, Any]], nn.Module]
    inputs: Callable[[bool], dict[str, torch.Tensor]]
    for_onnx: dict[str, Any] = field(default_factory=dict)


def _of(
    model: str, config: str, real: dict[str, Any], small: dict[str, Any], dtype: torch.dtype = torch.float32
) -> Callable[[bool, dict[str, Any]], nn.Module]:
    """What makes a class of transformers from a configuration with these settings, the real one of type ``dtype``.

    Further settings go before.
    """

    def make(is_real: bool, more: dict[str, Any]) -> nn.Module:
        settings = getattr(transformers, config)(**{**(real if is_real else small), **more})
        made: nn.Module = getattr(transformers, model)(settings)
        return made.to(dtype) if is_real else made

    return make


def _tokens(real: int, small: int = 8, *names: str) -> Callable[[bool], dict[str, torch.Tensor]]:
    names = names or ("input_ids",)
    return lambda is_real: {name: torch.ones((1, real if is_real else small), dtype=torch.int64) for name in names}


def _image(real: int, small: int) -> Callable[[bool], dict[str, torch.Tensor]]:
    def make(is_real: bool) -> dict[str, torch.Tensor]:
        side = real if is_real else small
        return {"pixel_values": torch.zeros((1, 3, side, side))}

    return make


def _whisper(is_real: bool) -> dict[str, torch.Tensor]:
    features, tokens = ((80, 3000), 448) if is_real else ((8, 32), 8)
    return {
        "input_features": torch.zeros((1, *features)),
        "decoder_input_ids": torch.ones((1, tokens), dtype=torch.int64),
    }


def _unet(is_real: bool) -> dict[str, torch.Tensor]:
    side, tokens, features = (64, 77, 768) if is_real else (8, 5, 12)
    return {
        "latent": torch.zeros((1, 4, side, side)),
        "time": torch.zeros(1, dtype=torch.int64),
        "context": torch.zeros((1, tokens, features)),
    }


def _make_unet(is_real: bool, more: dict[str, Any]) -> nn.Module:
    small = Sizes(channels=16, factors=(1, 2), attending=1, heads=2, context=12, groups=4)
    return UNet(None if is_real else small, **more)


_NO_CACHE = {"use_cache": False}
_LLAMA: dict[str, Any] = {"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
_LLAMA |= {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "rope_parameters": None}
_SMALL_ENCODER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
_SMALL = _SMALL_ENCODER | {"vocab_size": 96, "num_key_value_heads": 2}
_QWEN2 = {"vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24}
_QWEN2 |= {"num_attention_heads": 14, "num_key_value_heads": 2}

NETWORKS = (
    Network(
        "bert",
        "BERT-base, 512 tokens (Devlin et al. 2019)",
        _of(
            "BertModel",
            "BertConfig",
            {},
            _SMALL_ENCODER | {"vocab_size": 96, "max_position_embeddings": 16},
        ),
        _tokens(512, 8, "input_ids", "attention_mask"),
    ),
    Network(
        "gpt2",
        "GPT-2 124M with its tied head, 1,024 tokens (Radford et al. 2019)",
        _of(
            "GPT2LMHeadModel",
            "GPT2Config",
            _NO_CACHE,
            _NO_CACHE | {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 16},
        ),
        _tokens(1024),
    ),
    Network(
        "llama",
        "Llama 3.2 1B with its tied head, 512 tokens, bfloat16 (Grattafiori et al. 2024)",
        _of(
            "LlamaForCausalLM",
            "LlamaConfig",
            _NO_CACHE | _LLAMA | {"tie_word_embeddings": True},
            _NO_CACHE | _SMALL | {"tie_word_embeddings": True},
            torch.bfloat16,
        ),
        _tokens(512),
    ),
    Network(
        "qwen2",
        "Qwen2 0.5B with its tied head, 512 tokens, bfloat16 (Yang et al. 2024)",
        _of(
            "Qwen2ForCausalLM",
            "Qwen2Config",
            _NO_CACHE | _QWEN2 | {"tie_word_embeddings": True},
            _NO_CACHE | _SMALL | {"tie_word_embeddings": True},
            torch.bfloat16,
        ),
        _tokens(512),
    ),
    Network(
        "mixtral",
        "Mixtral 8x7B, 512 tokens, bfloat16 (Jiang et al. 2024)",
        _of(
            "MixtralForCausalLM",
            "MixtralConfig",
            _NO_CACHE,
            _NO_CACHE | _SMALL | {"num_local_experts": 4, "num_experts_per_tok": 2},
            torch.bfloat16,
        ),
        _tokens(512),
        {"experts_implementation": "batched_mm"},
    ),
    Network(
        "mamba",
        "Mamba 130M, 16 tokens: the export unrolls the recurrence token by token (Gu and Dao 2023)",
        _of(
            "MambaForCausalLM",
            "MambaConfig",
            _NO_CACHE | {"vocab_size": 50280, "hidden_size": 768, "num_hidden_layers": 24},
            _NO_CACHE | {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
        ),
        _tokens(16, 4),
    ),
    Network(
        "t5",
        "T5-base with its tied tables, 512 and 512 tokens (Raffel et al. 2020)",
        _of(
            "T5ForConditionalGeneration",
            "T5Config",
            _NO_CACHE | {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
            _NO_CACHE | {"vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
        ),
        _tokens(512, 8, "input_ids", "decoder_input_ids"),
        {"attn_implementation": "eager"},
    ),
    Network(
        "whisper",
        "Whisper small, 30 s of speech, 448 tokens (Radford et al. 2022)",
        _of(
            "WhisperForConditionalGeneration",
            "WhisperConfig",
            _NO_CACHE
            | {"d_model": 768, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 12}
            | {"decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072},
            _NO_CACHE
            | {"vocab_size": 96, "num_mel_bins": 8, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2}
            | {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
            | {"max_source_positions": 16, "max_target_positions": 16}
            | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
            | {"suppress_tokens": None, "begin_suppress_tokens": None},
        ),
        _whisper,
    ),
    Network(
        "vit",
        "ViT-base, patches of 16, 224 x 224 (Dosovitskiy et al. 2021)",
        _of(
            "ViTForImageClassification",
            "ViTConfig",
            {"num_labels": 1000},
            _SMALL_ENCODER | {"num_labels": 10, "image_size": 16, "patch_size": 4},
        ),
        _image(224, 16),
    ),
    Network(
        "swin",
        "Swin-tiny, windows of 7, 224 x 224 (Liu et al. 2021)",
        _of(
            "SwinForImageClassification",
            "SwinConfig",
            {"num_labels": 1000},
            {"num_labels": 10, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
            | {"image_size": 32, "patch_size": 4},
        ),
        _image(224, 32),
        {"attn_implementation": "eager"},
    ),
    Network(
        "convnext",
        "ConvNeXt-tiny, 224 x 224 (Liu et al. 2022)",
        _of(
            "ConvNextForImageClassification",
            "ConvNextConfig",
            {"num_labels": 1000},
            {"num_labels": 10, "hidden_sizes": [16, 32], "depths": [1, 2], "num_stages": 2},
        ),
        _image(224, 32),
    ),
    Network(
        "resnet",
        "ResNet-50, 224 x 224 (He et al. 2016)",
        _of(
            "ResNetForImageClassification",
            "ResNetConfig",
            {"num_labels": 1000},
            {"num_labels": 10, "embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 2]},
        ),
        _image(224, 32),
    ),
    Network(
        "unet",
        "U-Net of Stable Diffusion 1, latents of 64 x 64 (Rombach et al. 2022)",
        _make_unet,
        _unet,
    ),
)

#: For the memory and time of a conversion; no part of the zoo.
LARGE = Network(
    "llama2-7b",
    "Llama 2 7B, 512 tokens (Touvron et al. 2023)",
    _of("LlamaForCausalLM", "LlamaConfig", _NO_CACHE, _NO_CACHE | _SMALL),
    _tokens(512),
)
