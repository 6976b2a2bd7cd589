"""Fields of kernels from which exchanges follow: what the generators write, what the records refuse."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.instances.dataflow import Kernel
from chipmap.instances.dataflow.generators import DataflowGenerator, dit, dlrm, gpt, llama, moe, vit
from chipmap.records import InputError
from tests.dataflow.random_instances import made

TRAINED: dict[str, Any] = {"backward": True, "micro_batch": 1, "purpose": "training"}


def _kernels(generator: DataflowGenerator, **parameters: Any) -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in generator(**parameters).workload.kernels}


@pytest.mark.parametrize(
    ("generator", "parameters"),
    [
        (llama, {"ends": True, "split_tokens": True, **TRAINED}),
        (moe, {"model": "deepseek-v3", "ends": True, "predict": 1, **TRAINED}),
        (dit, {"ends": True, **TRAINED}),
        (gpt, {"backward": True, "residuals": True}),
        (dlrm, {"separate_updates": True}),
    ],
)
def test_backward_kernels_name_parameters_and_operands(
    generator: DataflowGenerator, parameters: dict[str, Any]
) -> None:
    """Every product with parameters and every update names whose; an update's operand is what the forward one read. The
    published gradients of GPT's queries and keys are no derivatives: their rows are those of heads."""
    kernels = _kernels(generator, **parameters)
    edges = generator(**parameters).workload.edges
    for name, kernel in kernels.items():
        by_heads = kernel.weights and kernel.outer > 1
        if kernel.phase == "backward" and (kernel.weights or kernel.update) and not by_heads:
            of = kernel.parameters_of
            assert kernels[of].phase == "forward" and name in (f"{of}_b", f"{of}_u")
            if kernel.update and kernel.operand:
                assert {(kernel.operand, of), (kernel.operand, name)} <= {*edges}
        else:
            assert not kernel.parameters_of


def test_what_a_kernel_adds_up() -> None:
    """Products with parameters that it alone reads; a norm with two gradients of its own shares them."""
    kernels = _kernels(llama, **TRAINED)
    assert {name: kernel.adds for name, kernel in kernels.items() if kernel.adds} == {
        "Norm1_b": ("V_b", "K_b", "Q_b"),
        "Norm2_b": ("Gate_b", "FFN0_b"),
    }
    assert _kernels(moe, model="qwen3-30b", **TRAINED)["Dispatch_b"].adds == ("Experts_Gate_b", "Experts_Up_b")
    assert _kernels(gpt, backward=True, residuals=True)["LN1_b"].adds == ("V_b", "Q_b", "K_b")
    assert not any(kernel.adds for kernel in _kernels(dit, **TRAINED).values())


def test_heads_and_statistics() -> None:
    """32 query heads on 8 of keys; a norm by the mean square has one sum, its derivative that and one of gradients."""
    kernels = _kernels(llama, **TRAINED)
    heads = {name: kernel.heads for name, kernel in kernels.items() if kernel.heads}
    assert heads == {"Proj_b": 32, "MHA1_b2": 8, "MHA2_b2": 8}
    assert kernels["Q"].outer == 32 and kernels["Q"].heads == 0
    counts = {name: kernel.statistics for name, kernel in kernels.items() if kernel.statistics}
    assert counts == {"Norm1": 1, "Norm2": 1, "Softmax": 2, "Norm1_b": 2, "Norm2_b": 2, "Softmax_b": 1}
    counts = {name: kernel.statistics for name, kernel in _kernels(vit, step="forward", **TRAINED).items()}
    assert (counts["Norm1"], counts["Norm1_b"], counts["GeLU"]) == (2, 4, 0)
    mixture = _kernels(moe, model="qwen3-30b", **TRAINED)
    assert (mixture["Gate"].statistics, mixture["Gate_b"].statistics, mixture["Combine_b2"].statistics) == (2, 1, 8)


def test_a_products_derivatives_read_one_operand_each() -> None:
    """The weights of copies of tokens, or the experts' outputs; of a scaled sum the scale, or what it scales."""
    for generator, parameters, wanted in (
        (moe, {"model": "qwen3-30b"}, {"Combine_b1": "Gate", "Combine_b2": "Experts_Down"}),
        (dit, {}, {"Scale1_b1": "Modulation", "Scale1_b2": "Proj"}),
    ):
        edges = generator(**parameters, **TRAINED).workload.edges
        read = {name: [u for u, v in edges if v == name and not u.endswith("_b")] for name in wanted}
        assert read == {name: [operand] for name, operand in wanted.items()}


PRODUCT = {"kind": "gemm", "M": 8, "K": 8, "N": 4, "weights": True}
BACK = {**PRODUCT, "phase": "backward"}


@pytest.mark.parametrize(
    ("kernels", "edges", "said"),
    [
        ({"a": {**PRODUCT, "heads": 3}}, "", "a' has 3 heads of 8 rows"),
        ({"a": {**PRODUCT, "heads": -1}}, "", "heads: 'a' has -1"),
        ({"a": {**PRODUCT, "statistics": 1}}, "", r"'a' \(gemm\) has 1 statistics"),
        ({"a": PRODUCT, "b": {**PRODUCT, "parameters_of": "a"}}, "ab", "'b' is a forward kernel, but uses"),
        ({"a": PRODUCT, "x": {**BACK, "parameters_of": "c"}}, "", "'c', whose parameters 'x' uses, is no forward"),
        ({"a": {**PRODUCT, "weights": False}, "x": {**BACK, "parameters_of": "a"}}, "", "'a', whose parameters"),
        ({"a": PRODUCT, "x": BACK, "y": {**BACK, "parameters_of": "x"}}, "", "'x', whose parameters 'y' uses"),
        ({"a": PRODUCT, "b": {**PRODUCT, "adds": ["a", "a"]}}, "ab", "'b' names a maker twice"),
        ({"a": PRODUCT, "b": {**PRODUCT, "adds": ["a"]}}, "", "'a', which 'b' adds up, isn't read by it alone"),
        ({"a": PRODUCT, "b": {**PRODUCT, "adds": ["a"]}, "c": PRODUCT}, "ab ac", "isn't read by it alone"),
        ({"a": PRODUCT, "b": {**PRODUCT, "adds": ["d"]}}, "ab", "'d', which 'b' adds up"),
    ],
)
def test_what_records_refuse(kernels: dict[str, Any], edges: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        made(kernels, edges)
    assert error.value.remedy


def test_fields_at_their_defaults_are_left_out_of_hashes() -> None:
    """So that older files keep theirs; and in mode ``dfmodel``, which reads none of them."""
    plain = made({"a": PRODUCT, "x": BACK}, "ax", mode="physical")
    stated = made({"a": PRODUCT, "x": {**BACK, "parameters_of": "a", "heads": 2}}, "ax", mode="physical")
    assert b"heads" in plain.to_json() and plain.content_hash != stated.content_hash
    assert plain.replace(mode="dfmodel").content_hash == stated.replace(mode="dfmodel").content_hash
