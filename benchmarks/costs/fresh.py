"""Networks of architectures that no decision of the learned model was made on when they were measured (extra ``zoo``).

:data:`FRESH` was looked at afterwards, operation by operation: what the model lacked was mended by rules. So
:data:`LATER` was written, and measured once the model stood; it was looked at as well. :data:`NEWEST` are networks that
were written before the processor's pace was measured by, judged once, and looked at afterwards (:mod:`.unseen` has
those that came then). An architecture has two sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

from benchmarks.costs.networks import Made

Maker = Callable[[bool], Made]


def _sized(sizes: dict[str, Any], large: bool) -> dict[str, Any]:
    """Settings of one size: a pair has both."""
    return {name: one[large] if isinstance(one, tuple) else one for name, one in sizes.items()}


def text(name: str, model: str = "Model", **sizes: Any) -> Maker:
    """A network of text of the class ``name`` + ``model``; ``tokens`` are its length."""

    def make(large: bool) -> Made:
        given = _sized(sizes, large)
        tokens = given.pop("tokens")
        config = getattr(transformers, f"{name}Config")(vocab_size=2048, **given)
        return getattr(transformers, f"{name}{model}")(config), {"input_ids": torch.randint(2, 2000, (1, tokens))}

    return make


def image(name: str, model: str = "Model", **sizes: Any) -> Maker:
    """A network of images of ``side`` places each way; it is told as ``image_size`` where ``told``."""

    def make(large: bool) -> Made:
        given = _sized(sizes, large)
        side = given.pop("side")
        if given.pop("told", True):
            given["image_size"] = side
        config = getattr(transformers, f"{name}Config")(**given)
        return getattr(transformers, f"{name}{model}")(config), {"pixel_values": torch.randn(1, 3, side, side)}

    return make


def _wav(large: bool) -> Made:
    config = transformers.Wav2Vec2Config(
        hidden_size=(128, 256)[large],
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=(384, 768)[large],
        conv_dim=[(64, 128)[large]] * 4,
        conv_kernel=[10, 3, 3, 2],
        conv_stride=[5, 2, 2, 2],
        num_feat_extract_layers=4,
        num_conv_pos_embeddings=32,
        num_conv_pos_embedding_groups=8,
    )
    return transformers.Wav2Vec2Model(config), {"input_values": torch.randn(1, (8000, 16000)[large])}


FRESH: dict[str, Maker] = {
    "mobilevit": image(
        "MobileViT",
        side=(96, 160),
        hidden_sizes=([48, 64, 80], [96, 120, 144]),
        neck_hidden_sizes=([16, 16, 32, 48, 64, 80, 160], [16, 32, 64, 96, 128, 160, 320]),
    ),
    "pvt_v2": image("PvtV2", side=(96, 160), hidden_sizes=([16, 32, 80, 128], [32, 64, 160, 256]), depths=[2] * 4),
    "xlnet": text("XLNet", tokens=(64, 128), d_model=(192, 384), n_layer=3, n_head=(4, 8), d_inner=(512, 1024)),
    "focalnet": image(
        "FocalNet",
        side=(96, 160),
        embed_dim=(32, 64),
        depths=[2, 2, 2],
        focal_levels=[2, 2, 2],
        focal_windows=[3, 3, 3],
        hidden_sizes=([32, 64, 128], [64, 128, 256]),
    ),
    "squeezebert": text(
        "SqueezeBert",
        tokens=(64, 128),
        hidden_size=(192, 384),
        embedding_size=(192, 384),
        num_hidden_layers=3,
        num_attention_heads=(4, 6),
        intermediate_size=(512, 1152),
    ),
    "levit": image(
        "Levit",
        side=(112, 160),
        hidden_sizes=([64, 128, 192], [128, 256, 384]),
        num_attention_heads=([2, 4, 6], [4, 8, 12]),
        depths=[2, 2, 2],
        key_dim=[16, 16, 16],
    ),
    "convbert": text(
        "ConvBert",
        tokens=(64, 128),
        hidden_size=(192, 384),
        embedding_size=(192, 384),
        num_hidden_layers=2,
        num_attention_heads=(4, 6),
        intermediate_size=(512, 1152),
    ),
    "mobilenet_v1": image("MobileNetV1", side=(128, 192), depth_multiplier=(0.5, 0.75)),
    "wav": _wav,
}


class _Split(nn.Module):
    """Two grouped convolutions whose sum is weighted by places' means (ResNeSt, Zhang et al. 2020)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = nn.Sequential(nn.Conv2d(width, 2 * width, 3, 1, 1, groups=2), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.less, self.more = nn.Conv2d(width, width // 2, 1), nn.Conv2d(width // 2, 2 * width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The weighted sum of both halves."""
        both = self.wide(x).unflatten(1, (2, -1))
        share = self.more(torch.relu(self.less(both.sum(1).mean((2, 3), keepdim=True))))
        return (both * share.unflatten(1, (2, -1)).softmax(1)).sum(1)


class _ResNeSt(nn.Module):
    """Blocks of 1 × 1, split attention, 1 × 1; each stage begins with a mean over 2 × 2."""

    def __init__(self, widths: tuple[int, ...], depth: int) -> None:
        super().__init__()
        first = [nn.Conv2d(3, widths[0], 3, 2, 1), nn.BatchNorm2d(widths[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        self.first, self.blocks, self.turns = nn.Sequential(*first), nn.ModuleList(), nn.ModuleList()
        for i, width in enumerate(widths):
            turn = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(widths[i - 1], width, 1)) if i else nn.Identity()
            self.turns.append(turn)
            self.blocks.append(nn.ModuleList(self._block(width) for _ in range(depth)))

    @staticmethod
    def _block(width: int) -> nn.Sequential:
        inner = width // 2
        before = [nn.Conv2d(width, inner, 1), nn.BatchNorm2d(inner), nn.ReLU()]
        return nn.Sequential(*before, _Split(inner), nn.Conv2d(inner, width, 1), nn.BatchNorm2d(width))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Features of all places."""
        x = self.first(image)
        for turn, blocks in zip(self.turns, self.blocks, strict=True):
            x = turn(x)
            for block in blocks:  # type: ignore[attr-defined]
                x = torch.relu(x + block(x))
        return x.mean((2, 3))


def _resnest(large: bool) -> Made:
    side = 160 if large else 128
    return _ResNeSt((64, 128, 256) if large else (32, 64, 128), 2), {"image": torch.randn(1, 3, side, side)}


def _spectrum(large: bool) -> Made:
    width, heads, frames = (384, 6, 128) if large else (192, 4, 64)
    config = transformers.ASTConfig(
        hidden_size=width,
        num_hidden_layers=3,
        num_attention_heads=heads,
        intermediate_size=3 * width,
        max_length=frames,
        num_mel_bins=64,
    )
    return transformers.ASTModel(config), {"input_values": torch.randn(1, frames, 64)}


def _hiera(large: bool) -> Made:
    side, width = (192, 64) if large else (128, 32)
    config = transformers.HieraConfig(
        image_size=[side, side], embed_dim=width, depths=[1, 2, 3, 1], num_heads=[1, 2, 4, 8]
    )
    return transformers.HieraModel(config), {"pixel_values": torch.randn(1, 3, side, side)}


_HEADS: dict[str, Any] = {"num_hidden_layers": 3, "num_attention_heads": (4, 6)}
_LAYERS: dict[str, Any] = {"hidden_size": (192, 384), "intermediate_size": (512, 1152), **_HEADS}

LATER: dict[str, Maker] = {
    "bit": image(
        "Bit",
        told=False,
        side=(96, 160),
        embedding_size=(32, 48),
        hidden_sizes=([64, 128, 256], [96, 192, 384]),
        num_groups=8,
        depths=[2, 2, 2],
    ),
    "dinov2_registers": image(
        "Dinov2WithRegisters", side=(112, 168), patch_size=14, hidden_size=(192, 384), mlp_ratio=4, **_HEADS
    ),
    "funnel": text(
        "Funnel",
        "BaseModel",
        tokens=(64, 128),
        d_model=(192, 384),
        d_head=32,
        n_head=(4, 8),
        d_inner=(512, 1024),
        block_sizes=[1, 1, 1],
    ),
    "swin2sr": image(
        "Swin2SR", side=(32, 48), embed_dim=(36, 60), depths=[2, 2], num_heads=[3, 3], window_size=8, upscale=2
    ),
    "modernbert": text(
        "ModernBert",
        tokens=(64, 128),
        hidden_size=(192, 384),
        intermediate_size=(384, 768),
        local_attention=32,
        reference_compile=False,
        pad_token_id=0,
        cls_token_id=1,
        sep_token_id=2,
        bos_token_id=1,
        eos_token_id=2,
        **_HEADS,
    ),
    "resnest": _resnest,
}


NEWEST: dict[str, Maker] = {
    "swiftformer": image(
        "SwiftFormer",
        side=(96, 160),
        depths=[2, 2, 3, 2],
        embed_dims=([24, 48, 96, 160], [48, 64, 160, 256]),
    ),
    "mobilevitv2": image("MobileViTV2", side=(96, 160), width_multiplier=(0.5, 0.75), n_attn_blocks=[1, 2, 1]),
    "textnet": image(
        "TextNet",
        told=False,
        side=(96, 160),
        stem_out_channels=(32, 48),
        hidden_sizes=([32, 32, 64, 96, 128], [48, 48, 96, 160, 256]),
    ),
    "cvt": image(
        "Cvt",
        side=(96, 160),
        embed_dim=([32, 96, 192], [64, 192, 384]),
        num_heads=[1, 3, 6],
        depth=[1, 2, 3],
        told=False,
    ),
    "hiera": _hiera,
    "roformer": text("RoFormer", tokens=(64, 128), embedding_size=(192, 384), **_LAYERS),
    "mobilebert": text(
        "MobileBert",
        tokens=(64, 128),
        num_hidden_layers=3,
        num_attention_heads=4,
        hidden_size=(192, 384),
        embedding_size=(64, 128),
        intermediate_size=(192, 384),
        true_hidden_size=(64, 128),
        intra_bottleneck_size=(64, 128),
    ),
    "falcon": text("Falcon", tokens=(64, 128), alibi=False, use_cache=False, hidden_size=(192, 384), **_HEADS),
    "esm": text("Esm", tokens=(64, 128), position_embedding_type="rotary", pad_token_id=1, mask_token_id=3, **_LAYERS),
    "ast": _spectrum,
}
