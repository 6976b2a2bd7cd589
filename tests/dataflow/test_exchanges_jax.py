"""Exchanges against JAX: programs that compute what one device does, and move what their plans say."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
jax = pytest.importorskip("jax", reason="needs the extra judges")

from benchmarks.exchanges.cases import CHIPS, LAYERS, schemes  # noqa: E402
from benchmarks.exchanges.compared import plan_says, scoped  # noqa: E402
from benchmarks.exchanges.hlo import by_kind, collectives  # noqa: E402
from benchmarks.exchanges.numbers import compared  # noqa: E402
from benchmarks.exchanges.rivals import rivals  # noqa: E402
from benchmarks.exchanges.written import as_whole, with_shard_map  # noqa: E402
from chipmap.instances.dataflow import Degrees  # noqa: E402
from chipmap.instances.dataflow.summed import sums_ns  # noqa: E402
from chipmap.plans.jax.planning import Plan, Policy, plan  # noqa: E402
from chipmap.plans.jax.source import rests  # noqa: E402
from chipmap.plans.jax.steps import layer_of  # noqa: E402
from tests.dataflow.random_instances import made as instance_of  # noqa: E402

devices = pytest.mark.skipif(len(jax.devices()) < CHIPS, reason="JAX was started with fewer than eight devices")


def _plan(name: str, trained: bool, pins: str, policy: Policy | None = None, full: bool = False) -> Plan:
    layers = next(one for one in LAYERS if one.name == name)
    workload = layers.full(trained) if full else layers.cut(trained)
    return plan(layer_of(workload), schemes(workload, pins), CHIPS, policy)


@devices
@pytest.mark.parametrize(
    ("name", "trained", "pins"),
    [
        ("llama3-8b", True, "TP + SP"),
        ("llama3-8b", True, "TP + rows"),
        ("llama3-8b", True, "all-to-all"),
        ("gpt3-175b", False, "TP"),
        ("qwen3-30b", True, "experts"),
    ],
)
def test_outputs_and_gradients_are_those_of_one_device(
    name: str, trained: bool, pins: str, record_property: Callable[[str, object], None]
) -> None:
    """At cut widths, to 2e-5 of the largest number; and the program moves what the plan says."""
    made = _plan(name, trained, pins)
    program = with_shard_map(made)
    found = compared(made, program)
    record_property(f"{name}, {pins}, outputs and gradients", f"{max(found):.1e} of the largest number")
    assert max(found) < 2e-5
    moved = {
        key: link for key, link in scoped(collectives(program.compiled(), CHIPS)).items() if key[2] != "statistics"
    }
    assert moved == plan_says(made)


@devices
@pytest.mark.parametrize("keep", ["step", "phase"])
def test_a_full_layer_moves_what_its_plan_says(keep: str) -> None:
    """Llama3-8B with sequences split, forward and backward: 117.44 MB, or 146.80 where layouts are made again."""
    made = _plan("llama3-8b", True, "TP + SP", Policy(keep=keep), full=True)  # type: ignore[arg-type]
    moved = scoped(collectives(with_shard_map(made).compiled(), CHIPS))
    assert moved == plan_says(made)
    assert sum(moved.values()) / 10**6 == pytest.approx({"step": 117.44, "phase": 146.80}[keep], abs=0.01)


@devices
def test_the_compiler_finds_the_same_forward_exchanges() -> None:
    """GSPMD, told the layout of each kernel's output: 58.72 MB of a layer of Llama3-8B with sequences split."""
    made = _plan("llama3-8b", False, "TP + SP", full=True)
    alone = plan(made.layer, dict.fromkeys((step.name for step in made.layer.steps), "NONE"), 1)
    text = as_whole(alone, made.made(), rests(made), CHIPS).compiled()
    found = collectives(text, CHIPS, as_scatter=True)
    assert sum(one.link for one in found) == sum(link for _, link in made.moves())


def test_no_mapping_is_better_than_the_optimum_by_compiled_bytes() -> None:
    """A layer on eight H100 with free schemes against the usual mappings and a few others."""
    text, stands = rivals(seconds=60, count=6, seed=1)
    assert stands, text


@devices
@pytest.mark.parametrize(("before", "after", "moved"), [("RS", "SR", 168), ("SR", "RS", 84)])
def test_heads_on_two_chips_each_are_swapped(before: str, after: str, moved: int) -> None:
    """Four heads of 6 x 16 words, split by tokens over eight chips, to two chips a head, and back: one all-to-all."""
    axes = ("heads", "copies")
    mesh, spec = jax.sharding.Mesh(np.array(jax.devices()[:CHIPS]).reshape(4, 2), axes), jax.sharding.PartitionSpec
    lying = {"RS": spec(None, axes), "SR": spec("heads", None)}

    def to_heads(part: Any) -> Any:  # a chip's (24, 2): each of the four heads to two chips
        sent = jax.numpy.repeat(part.reshape(4, 6, 2), 2, axis=0)
        return jax.lax.all_to_all(sent, axes, 0, 0).transpose(1, 0, 2).reshape(6, 16)

    def to_tokens(part: Any) -> Any:  # a chip's (6, 16): half of its rows to each chip, two tokens of them
        own = jax.lax.dynamic_slice_in_dim(part, 3 * jax.lax.axis_index("copies"), 3)
        return jax.lax.all_to_all(own.reshape(3, 8, 2), axes, 1, 0).reshape(24, 2)

    call = to_heads if after == "SR" else to_tokens
    there = jax.shard_map(call, mesh=mesh, in_specs=lying[before], out_specs=lying[after], check_vma=False)
    whole = np.arange(24.0 * 16, dtype=np.float32).reshape(24, 16)
    assert (np.asarray(jax.jit(there)(whole)) == whole).all()
    found = collectives(jax.jit(there).lower(whole).compile().as_text(), CHIPS)
    assert [(one.collective, one.link) for one in found] == [("all_to_all", moved)]


@devices
def test_the_compiler_sums_within_groups_of_heads() -> None:
    """GSPMD, told where queries, a cache and the output of a decode step lie (two groups of four devices): maxima and
    sums are all-reduced, and the output is scattered, as OUTER_M and OUTER_K say, in bytes over a link."""
    jnp, sharding = jax.numpy, jax.sharding
    mesh = sharding.Mesh(np.array(jax.devices()[:CHIPS]).reshape(2, 4), ("heads", "context"))

    def lies(*axes: str | None) -> Any:
        return sharding.NamedSharding(mesh, sharding.PartitionSpec(*axes))

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jax.lax.with_sharding_constraint(jnp.einsum("hqd,hcd->hqc", q, k), lies("heads", None, "context"))
        return jnp.einsum("hqc,hcd->hqd", jax.nn.softmax(scores), v)

    cache, out = lies("heads", "context", None), lies("heads", None, "context")
    program = jax.jit(attend, in_shardings=(lies("heads", None, None), cache, cache), out_shardings=out)
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 2, 8), (2, 32, 8), (2, 32, 8))]
    found = by_kind(collectives(program.lower(*shapes).compile().as_text(), CHIPS, as_scatter=True))
    heads: dict[str, Any] = {"outer": 4, "N": 1, "fetch_outer": 2}
    kernels = {
        "x": {"kind": "elementwise", **heads, "M": 32, "statistics": 2, "schemes": ["OUTER_M"]},
        "v": {"kind": "gemm", **heads, "M": 8, "K": 32, "schemes": ["OUTER_K"]},
    }
    wide = Degrees(tensor=CHIPS, dimensions=("tensor",))
    given = {"sizes": [CHIPS], "topology": "switch", "link_gbps": 1.0, "degrees": wide, "tokens": 1, "batch": 1}
    instance = instance_of(kernels, "xv", **given)
    x, v = instance.workload.kernels
    said = {
        "all_reduce": sums_ns(instance, wide, x, "OUTER_M"),
        "reduce_scatter": sums_ns(instance, wide, v, "OUTER_K"),
    }
    assert found == said == {"all_reduce": 12, "reduce_scatter": 24}
