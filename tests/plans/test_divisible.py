"""Degrees that Megatron-LM and vLLM refuse for a network's sizes: by their own documented checks, stated again."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from chipmap.family import family_of, resolve
from chipmap.inputs.reading import generate
from chipmap.plans.emission import unsuited
from chipmap.plans.layers.divisible import refuse
from chipmap.plans.layers.plan import LayerPlan
from chipmap.records import InputError
from chipmap.solve import solve
from tests.plans import grammars

SIZES: dict[str, Any] = {"hidden": 96, "ffn": 96, "layers": 3, "tokens": 24}


def _llama(heads: int, kv_heads: int, step: str = "forward", **sizes: int) -> Any:
    return generate("dataflow-llama", model="", heads=heads, kv_heads=kv_heads, step=step, **{**SIZES, **sizes})


def _starts(heads: int, kv_heads: int, ffn: int, tensor: int) -> bool:
    """Heads and rows are shared out whole, key heads as well or each by as many chips."""
    return heads % tensor == 0 and ffn % tensor == 0 and (kv_heads % tensor == 0 or tensor % kv_heads == 0)


@pytest.mark.parametrize("runtime", ["vLLM", "Megatron-LM"])
def test_heads_and_rows_that_chips_cannot_share_out_are_refused(runtime: Any) -> None:
    """All tensor degrees to 12 for odd numbers of heads, of key heads, and of rows."""
    said = set()
    for (heads, kv_heads), ffn, step in product([(12, 3), (8, 4), (6, 1), (16, 16)], (96, 90), ("forward", "decode")):
        instance = _llama(heads, kv_heads, step, ffn=ffn)
        for tensor in range(1, 13):
            try:
                refuse(instance, LayerPlan(tensor=tensor), runtime)
                found = True
            except InputError as error:
                assert runtime in str(error)
                found = False
            assert found == _starts(heads, kv_heads, ffn, tensor), (heads, kv_heads, ffn, tensor)
            said.add(found)
    assert said == {True, False}


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (LayerPlan(expert=2), None),
        (LayerPlan(expert=4), "6 experts"),
        (LayerPlan(expert=6, tensor=3), None),
        (LayerPlan(expert=10, tensor=5), "experts|heads"),
        (LayerPlan(context=4), None),
        (LayerPlan(context=8), "24 tokens"),
        (LayerPlan(stages=3, parts=2, micro_batch=1, batch=6, data=1), None),
        (LayerPlan(stages=3, parts=2, micro_batch=1, batch=7, data=1), "7 micro-batches"),
    ],
)
def test_what_megatron_shares_out_evenly(plan: LayerPlan, said: str | None) -> None:
    """Experts, twice as many pieces of tokens as chips, and micro-batches of interleaved stages."""
    sizes = {"heads": 12, "kv_heads": 3, "experts": 6, "active": 2, "hidden": 96, "inner": 91, "tokens": 24}
    instance: Any = generate("dataflow-moe", layers=3, divide=True, **sizes)
    if said is None:
        refuse(instance, plan, "Megatron-LM")
        return
    with pytest.raises(InputError, match=said):
        refuse(instance, plan, "Megatron-LM")


def _solved(instance: Any, **task: Any) -> Any:
    pinned = instance.replace(task=instance.task.replace(**task))
    result = solve(pinned, time_limit=20, isolate=False, threads=1)
    assert result.solution is not None
    return pinned, resolve(family_of(pinned).solution).make(**result.solution), result


def test_a_mapping_that_vllm_refuses_is_refused_with_a_remedy() -> None:
    """Three heads of keys on four chips."""
    instance, solution, _ = _solved(_llama(12, 3, "decode", layers=1).replace(name="odd"))
    why = unsuited(family_of(instance).plan_format("vllm"), instance, solution)
    chips = solution.degrees.tensor
    assert (why is None) == _starts(12, 3, 96, chips)


def _written(folder: Path, text: str | bytes) -> Path:
    file = folder / "megatron.sh"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_experts_shared_by_chips_of_a_layer_need_tokens_split(tmp_path: Path) -> None:
    """Megatron Core starts tensor and expert parallelism only with --sequence-parallel."""
    sizes = {"heads": 4, "kv_heads": 2, "experts": 4, "active": 2, "hidden": 64, "inner": 32, "tokens": 16}
    instance: Any = generate("dataflow-moe", layers=2, divide=True, sizes=[2], backward=True, mode="physical", **sizes)
    schemes = {one.name: "E" for one in instance.workload.kernels if one.experts and "E" in one.schemes}
    instance, _, result = _solved(instance, schemes=schemes)
    text = result.emit("megatron")["megatron.sh"]
    asked = grammars.megatron().parse_args(grammars.sourced(_written(tmp_path, text)))
    assert asked.sequence_parallel and asked.tensor_model_parallel_size == asked.expert_model_parallel_size == 2
