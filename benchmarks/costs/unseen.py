"""Networks that were chosen once the model and its sweeps stood, and judged once (extra ``zoo``).

Twelve architectures, two sizes each: images (HGNetV2, ConvNeXt V2, PP-LCNet), films (TimeSformer, VideoMAE), sound
(Whisper's encoder, the encoder of DAC), series (PatchTSMixer), text (DeepSeek-V3, CodeGen, MPNet, Perceiver).
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from benchmarks.costs.fresh import Maker, image, text
from benchmarks.costs.networks import Made

_LAYERS: dict[str, Any] = {
    "tokens": (64, 128),
    "hidden_size": (192, 384),
    "intermediate_size": (512, 1152),
    "num_hidden_layers": 3,
    "num_attention_heads": (4, 6),
}


def _film(name: str, **more: Any) -> Maker:
    """A network of films of a few images."""

    def make(large: bool) -> Made:
        side, width, frames = (96, 256, 4) if large else (64, 160, 4)
        config = getattr(transformers, f"{name}Config")(
            image_size=side,
            num_frames=frames,
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=2,
            num_attention_heads=4,
            **more,
        )
        return getattr(transformers, f"{name}Model")(config), {"pixel_values": torch.randn(1, frames, 3, side, side)}

    return make


def _whisper(large: bool) -> Made:
    width, frames = (384, 400) if large else (192, 200)
    config = transformers.WhisperConfig(
        d_model=width,
        encoder_layers=2,
        encoder_attention_heads=6,
        encoder_ffn_dim=4 * width,
        decoder_layers=1,
        decoder_attention_heads=6,
        decoder_ffn_dim=width,
        max_source_positions=frames // 2,
        vocab_size=512,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    network: Any = transformers.WhisperModel(config)
    return network.get_encoder(), {"input_features": torch.randn(1, config.num_mel_bins, frames)}


def _dac(large: bool) -> Made:
    width = 32 if large else 16
    config = transformers.DacConfig(encoder_hidden_size=width, downsampling_ratios=[2, 4, 5], n_codebooks=2)
    network: Any = transformers.DacModel(config)
    return network.encoder, {"hidden_state": torch.randn(1, 1, 8000 if large else 4000)}


def _series(large: bool) -> Made:
    length = 512 if large else 256
    config = transformers.PatchTSMixerConfig(
        context_length=length, patch_length=16, patch_stride=8, num_input_channels=12, d_model=64 if large else 48
    )
    return transformers.PatchTSMixerModel(config), {"past_values": torch.randn(2, length, 12)}


def _perceiver(large: bool) -> Made:
    config = transformers.PerceiverConfig(
        num_latents=64 if large else 32,
        d_latents=256 if large else 128,
        d_model=192 if large else 96,
        num_self_attends_per_block=3,
        num_self_attention_heads=4,
        num_cross_attention_heads=4,
    )
    return transformers.PerceiverModel(config), {"inputs": torch.randn(1, 512 if large else 256, config.d_model)}


UNSEEN: dict[str, Maker] = {
    "hgnet_v2": image(
        "HGNetV2",
        "Backbone",
        told=False,
        side=(96, 160),
        stem_channels=[3, 24, 32],
        stage_in_channels=[32, 64, 128, 256],
        stage_mid_channels=([24, 32, 64, 96], [32, 64, 96, 128]),
        stage_out_channels=[64, 128, 256, 512],
        stage_num_blocks=[1, 1, 1, 1],
        stage_numb_of_layers=[3, 3, 3, 3],
        hidden_sizes=[64, 128, 256, 512],
        embedding_size=32,
        depths=[1, 1, 1, 1],
    ),
    "convnextv2": image(
        "ConvNextV2", side=(96, 160), hidden_sizes=([32, 64, 128, 256], [48, 96, 192, 384]), depths=[2] * 4
    ),
    "pp_lcnet": image("PPLCNet", "Backbone", told=False, side=(128, 192), scale=(0.5, 1.0)),
    "timesformer": _film("Timesformer", patch_size=16),
    "videomae": _film("VideoMAE", patch_size=16, tubelet_size=2),
    "whisper": _whisper,
    "dac": _dac,
    "patchtsmixer": _series,
    "deepseek_v3": text(
        "DeepseekV3",
        first_k_dense_replace=3,
        num_key_value_heads=(4, 6),
        q_lora_rank=(64, 128),
        kv_lora_rank=(32, 64),
        qk_rope_head_dim=16,
        qk_nope_head_dim=32,
        v_head_dim=32,
        **_LAYERS,
    ),
    "codegen": text("CodeGen", tokens=(64, 128), n_embd=(192, 384), n_layer=3, n_head=(4, 8), rotary_dim=16, n_ctx=256),
    "mpnet": text("MPNet", **_LAYERS),
    "perceiver": _perceiver,
}
