"""Backward kernels, embedding and head: FLOP and bytes by hand, and beside what PyTorch counts."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import DataflowGenerator, dit, llama, moe, vit
from chipmap.instances.dataflow.sizes import flop, output_bytes, parameter_bytes, weight_bytes
from chipmap.instances.dataflow.workload import Kernel
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve

TRAINED: dict[str, Any] = {"backward": True, "micro_batch": 1, "purpose": "training"}


def products(instance: DataflowInstance, phase: str) -> int:
    return sum(flop(k) for k in instance.workload.kernels if k.kind == "gemm" and k.phase == phase)


def by_name(instance: DataflowInstance) -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in instance.workload.kernels}


@pytest.mark.parametrize(
    ("generator", "parameters"),
    [
        (llama, {"model": "llama3-8b", "tokens": 300}),
        (llama, {"model": "llama3-70b", "tokens": 128, "dropout": True}),
        (llama, {"gated": False, "tokens": 64, "ends": True}),
        (moe, {"model": "mixtral-8x7b", "tokens": 96}),
        (moe, {"model": "deepseek-v3", "tokens": 96, "ends": True}),
        (moe, {"gated": False, "shared": 2, "tokens": 96}),
        (llama, {"model": "llama3-8b", "tokens": 300, "rotary": True}),
        (moe, {"model": "llama4-scout", "tokens": 96, "ends": True}),
        (moe, {"model": "llama4-maverick", "tokens": 96, "ends": True}),
        (moe, {"model": "deepseek-v3", "tokens": 96, "ends": True, "predict": 1}),
        (vit, {"model": "vit-b16"}),
        (dit, {"model": "dit-xl2"}),
    ],
)
def test_the_parts_of_a_backward_pass(generator: DataflowGenerator, parameters: dict[str, Any]) -> None:
    """Products take twice the forward FLOP; every weight has an update of its size; no gradient is left out."""
    instance = generator(**parameters, **TRAINED)
    kernels, edges = by_name(instance), instance.workload.edges
    assert products(instance, "backward") == 2 * products(instance, "forward")
    for kernel in kernels.values():
        if kernel.weights and kernel.phase == "forward":
            update = kernels[f"{kernel.name}_u"]
            assert update.update and output_bytes(update, instance) == weight_bytes(kernel, instance)
            assert weight_bytes(kernels[f"{kernel.name}_b"], instance) == weight_bytes(kernel, instance)
        if kernel.phase == "backward" and not kernel.update:
            used = any(source == kernel.name for source, _ in (*edges, *instance.workload.carries))
            assert used or kernel.name == "Modulation_b", kernel.name  # what makes the condition gets that
    forward = generator(**parameters, micro_batch=1, purpose="training")
    assert forward.workload.kernels == tuple(k for k in instance.workload.kernels if k.phase == "forward")
    first = "Dense_Add_Prev" if parameters.get("model") == "llama4-maverick" else "Add_Prev"
    assert instance.workload.carries == (("Add2", first), (f"{first}_b", "Loss_b"))


def test_gradients_of_attention() -> None:
    """Of 8 key heads for 32 queries: gradients as large as keys and values; both operands of each product."""
    instance = llama(model="llama3-8b", tokens=300, **TRAINED)
    made = {name: output_bytes(kernel, instance) for name, kernel in by_name(instance).items()}
    assert made["MHA1_b2"] == made["MHA2_b2"] == made["K"] == made["V"] == 8 * 128 * 300 * 2
    assert made["MHA1_b1"] == made["Q"] and made["MHA2_b1"] == made["Softmax_b"] == made["Softmax"]
    read = {name: [u for u, v in instance.workload.edges if v == name] for name in made}
    assert read["MHA1_b1"] == ["Softmax_b", "K"] and read["MHA1_b2"] == ["Softmax_b", "Q"]
    assert read["V_u"] == ["MHA2_b2", "Norm1"] and read["Softmax_b"] == ["MHA2_b1", "Softmax"]
    assert read["Norm1_b"] == ["V_b", "K_b", "Q_b", "Add_Prev"] and read["Add_Prev_b"] == ["Add1_b", "Norm1_b"]


def test_embedding_and_head() -> None:
    """32 layers have 4,008 of 128,256 words each: 2 · 4096 FLOP per word and token, two tables of 4096 a word."""
    plain = llama(model="llama3-8b", step="prefill", tokens=10, micro_batch=1)
    whole = llama(model="llama3-8b", step="prefill", tokens=10, ends=True, micro_batch=1)
    more = products(whole, "forward") - products(plain, "forward")
    assert more * 32 == 2 * 4096 * 128_256 * 10
    stored = [sum(parameter_bytes(k, one) for k in one.workload.kernels) for one in (plain, whole)]
    assert (stored[1] - stored[0]) * 32 == 2 * 4096 * 128_256 * 2
    assert 32 * by_name(whole)["Embed"].fetch_bytes == 10 * 4096 * 2
    # 8.03 · 10⁹ parameters in all, but for the norms
    assert float(stored[1] * 32 / 2) == pytest.approx(8.03e9, rel=1e-3)
    # an all-reduce of the head's gradient is one of the whole, once
    trained = llama(model="llama3-8b", tokens=10, ends=True, **TRAINED)
    assert output_bytes(by_name(trained)["Head_b"], trained) * 32 == 10 * 4096 * 2
    assert output_bytes(by_name(trained)["Embed_u"], trained) * 32 == 4096 * 128_256 * 2


@pytest.mark.parametrize("model", ["mixtral-8x7b", "deepseek-v3"])
def test_embedding_and_head_of_experts(model: str) -> None:
    """Every layer has a part of the table, rounded up: the published number of parameters within 1%."""
    instance = moe(model=model, tokens=1, ends=True, step="prefill", micro_batch=1)
    dense = 3 * 3 * 7168 * 18_432 if model == "deepseek-v3" else 0  # feed-forward parts of three layers without experts
    layer = sum(parameter_bytes(k, instance) for k in instance.workload.kernels) / 2
    published = {"mixtral-8x7b": 46.7e9, "deepseek-v3": 671e9}[model]
    assert float(layer * instance.workload.layers + dense) == pytest.approx(published, rel=0.01)


def test_an_image_needs_no_gradient() -> None:
    """The embedding of patches has an update alone; the head's gradient is one of the class token, shared out."""
    for generator, head in ((vit, 64), (dit, 42 * 256)):
        kernels = by_name(generator(ends=True, step="forward", **TRAINED))
        assert "Patches_u" in kernels and "Patches_b" not in kernels
        assert kernels["Patches_u"].output_bytes is None and kernels["Head_b"].output_bytes == head * 2
    modulated = by_name(dit(step="forward", **TRAINED))
    assert modulated["Modulation_sum"].M == 6 * 1152 and modulated["Norm1_b2"].N == 1


def test_two_methods_agree_on_a_step() -> None:
    """A training step of a small layer, both directions, by the exact program and by CP-SAT."""
    sizes = {"model": "", "hidden": 256, "heads": 4, "kv_heads": 2, "ffn": 512, "layers": 2, "tokens": 64}
    chips = {"sizes": [2], "degrees": {"tensor": 2, "dimensions": ["tensor"]}, "partitions": 1, "batch": 4}
    instance = llama(**sizes, **chips, **TRAINED)
    results = [
        solve(instance, method, SolveOptions.make(warm_start="none")) for method in ("dataflow/auto", "dataflow/cpsat")
    ]
    assert [result.status for result in results] == ["optimal", "optimal"]
    assert results[0].objective == results[1].objective


@pytest.mark.parametrize(
    ("generator", "parameters", "said"),
    [
        (llama, {"backward": True, "step": "decode"}, "a decode step has no backward kernels"),
        (moe, {"backward": True, "step": "prefill"}, "a prefill step has no backward kernels"),
        (llama, {"backward": True, "step": "forward", "cache_kernels": True}, "have no backward kernels"),
        (moe, {"backward": True, "stacked": False}, "need stacked experts"),
        (
            llama,
            {"model": "", "hidden": 8, "heads": 2, "kv_heads": 2, "ffn": 8, "layers": 1, "ends": True},
            "words: is missing",
        ),
    ],
)
def test_refused(generator: DataflowGenerator, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        generator(**parameters)
    assert said in str(error.value)


def test_as_pytorch_counts() -> None:
    """Products of a Llama with its head, forward and backward, beside PyTorch's own counter. Its first layer's input
    needs a gradient there as well (the embedding's); the softmax and norms have no products."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode

    sizes = {"hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 96, "layers": 3, "words": 96}
    config = transformers.LlamaConfig(
        **{"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96},
        **{"num_hidden_layers": 3, "vocab_size": 96, "head_dim": 16, "attn_implementation": "eager"},
    )
    model = transformers.LlamaForCausalLM(config)
    words = torch.arange(10)[None]
    with FlopCounterMode(display=False) as counter:
        out = model(input_ids=words, use_cache=False).logits
        forward = counter.get_total_flops()
        out.sum().backward()
    instance = llama(model="", **sizes, tokens=10, ends=True, **TRAINED)
    rotary = 3 * 2 * 8 * 10  # angles: 8 frequencies times 10 positions, once for all layers
    assert 3 * products(instance, "forward") == pytest.approx(forward, abs=rotary)
    both = 3 * (products(instance, "forward") + products(instance, "backward"))
    assert both == pytest.approx(counter.get_total_flops(), abs=rotary)


@pytest.mark.parametrize("family", ["Llama", "Mixtral", "Qwen3Moe", "DeepseekV3"])
def test_as_transformers_counts(family: str) -> None:
    """Parameters of networks that transformers builds of published sizes (its defaults, where it has them)."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    eight = {"num_key_value_heads": 8, "intermediate_size": 14_336, "vocab_size": 128_256}
    given = {"Llama": eight, "Qwen3Moe": {"num_hidden_layers": 48, "head_dim": 128}}.get(family, {})
    config = getattr(transformers, f"{family}Config")(**given)
    with torch.device("meta"):
        model = getattr(transformers, f"{family}ForCausalLM")(config)
    theirs = sum(one.numel() for one in model.parameters())
    name = {"Llama": "llama3-8b", "Mixtral": "mixtral-8x7b", "Qwen3Moe": "qwen3-30b", "DeepseekV3": "deepseek-v3"}
    generator = llama if family == "Llama" else moe
    instance = generator(model=name[family], step="prefill", tokens=1, ends=True, micro_batch=1)
    kernels = instance.workload.kernels
    ours = sum(parameter_bytes(kernel, instance) for kernel in kernels) / 2 * instance.workload.layers
    if family == "DeepseekV3":
        feed = sum(parameter_bytes(k, instance) for k in kernels if k.name.startswith(("Router", "Experts", "Shared")))
        ends = sum(parameter_bytes(k, instance) for k in kernels if k.name in ("Embed", "Head"))
        attention = sum(parameter_bytes(k, instance) for k in kernels) - feed - ends
        ours += 3 * (attention / 2 + 3 * 7168 * 18_432)
    assert float(ours) == pytest.approx(theirs, rel=1e-3)
