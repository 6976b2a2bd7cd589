"""Networks on meshes of two and three axes: what the checker charges is what compiled programs of JAX move, by axis.

Links along axis i move 1000^-i bytes in a nanosecond, so that T3 and T6 in ns say the bytes over each axis' links.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
jax = pytest.importorskip("jax", reason="needs the extra judges")

from benchmarks.exchanges.hlo import collectives, link_bytes  # noqa: E402
from benchmarks.exchanges.written import OPTIONS  # noqa: E402
from chipmap.instances.dataflow import DataflowSolution, Degrees  # noqa: E402
from chipmap.validation.dataflow.checker import check  # noqa: E402
from tests.dataflow.random_instances import made  # noqa: E402

jnp, P = jax.numpy, jax.sharding.PartitionSpec
pytestmark = pytest.mark.skipif(len(jax.devices()) < 8, reason="JAX was started with fewer than eight devices")
HIDDEN, WIDE, TOKENS = 16, 32, 8
#: The kernels of two products and what stands between them; ``o`` reads the sums.
_FLAT = {"kind": "elementwise", "flop_per_element": 1, "N": TOKENS}
_PRODUCT = {"kind": "gemm", "weights": True, "N": TOKENS}
MLP: dict[str, dict[str, Any]] = {
    "x": {**_FLAT, "M": HIDDEN},
    "a": {**_PRODUCT, "M": WIDE, "K": HIDDEN},
    "g": {**_FLAT, "M": WIDE},
    "b": {**_PRODUCT, "M": HIDDEN, "K": WIDE},
    "o": {**_FLAT, "M": HIDDEN},
}
_BACK = {"phase": "backward"}
#: Its backward phase: the loss, gradients of ``b``'s operand and weights, of ``g``, of ``a``'s operand and weights.
TRAINED: dict[str, dict[str, Any]] = {
    **MLP,
    "l": {**_FLAT, **_BACK, "M": HIDDEN},
    "c": {**_PRODUCT, **_BACK, "M": WIDE, "K": HIDDEN, "parameters_of": "b"},
    "d": {"kind": "gemm", **_BACK, "update": True, "M": HIDDEN, "K": TOKENS, "N": WIDE, "operand": "g"},
    "h": {**_FLAT, **_BACK, "M": WIDE},
    "e": {**_PRODUCT, **_BACK, "M": HIDDEN, "K": WIDE, "parameters_of": "a"},
    "f": {"kind": "gemm", **_BACK, "update": True, "M": WIDE, "K": TOKENS, "N": HIDDEN, "operand": "x"},
    "z": {**_FLAT, **_BACK, "M": HIDDEN},
}
TRAINED["d"]["parameters_of"], TRAINED["f"]["parameters_of"] = "b", "a"
FORWARD_EDGES, BACKWARD_EDGES = "xa ag gb bo", "ol lc ld gd ch ah he hf xf ez"


def charged(
    kernels: dict[str, dict[str, Any]], edges: str, schemes: str, sizes: Sequence[int], used: str, **task: Any
) -> tuple[Fraction, Fraction]:
    """T3 and T6 in ns of one micro-batch of each replica; ``used``: t, d or e for each dimension."""
    words = {"t": "tensor", "d": "data", "e": "expert"}
    dimensions: Any = tuple(words[one] for one in used)

    def of(*some: str) -> int:
        return math.prod(size for size, one in zip(sizes, used, strict=True) if one in some)

    degrees = Degrees(tensor=of("t"), data=of("d", "e"), expert=of("e"), dimensions=dimensions)
    named = {
        name: {**one, "schemes": [scheme]} for (name, one), scheme in zip(kernels.items(), schemes.split(), strict=True)
    }
    given = {"degrees": degrees, "topology": "switch", "fused": False, "sram_bytes": 2**40, "tokens": TOKENS}
    shard = task.pop("shard", "none")
    instance = made(named, edges, sizes=[*sizes], batch=degrees.data, tensor_dimensions=3, **given, **task)
    links = [one.replace(bytes_per_ns=1000.0**-i) for i, one in enumerate(instance.system.network)]
    instance = instance.replace(
        system=instance.system.replace(network=tuple(links)), task=instance.task.replace(shard=shard)
    )
    order = tuple(range(len(kernels)))
    keep = "step" if "l" in kernels else "phase"
    mapping = DataflowSolution(degrees=degrees, schemes=tuple(schemes.split()), partitions=order, keep=keep)  # type: ignore[arg-type]
    certificate = check(instance, mapping)
    assert not certificate.violations, certificate.violations
    return Fraction(certificate.terms["T3"], 1000), Fraction(certificate.terms["T6"], 1000)


def mesh_of(sizes: Sequence[int]) -> Any:
    """Axes i, j, k of these sizes."""
    return jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(*sizes), tuple("ijk"[: len(sizes)]))


def moved(text: str, sizes: Sequence[int]) -> Fraction:
    """Bytes over the links of all axes, those of axis i 1000^i times; of several axes the first one scatters first."""
    lines = {
        line.split(" = ")[0].strip().removeprefix("ROOT ").lstrip("%"): line
        for line in text.splitlines()
        if " = " in line
    }
    total = Fraction(0)
    for one in collectives(text, 8, as_scatter=True):
        result, times = one.result, 2 if one.collective == "all_reduce" else 1
        axes = _axes(lines[one.name], sizes)
        if one.collective == "all_to_all":
            assert len(axes) == 1, axes
        whole = result * (math.prod(sizes[i] for i in axes) if one.collective == "reduce_scatter" else 1)
        for i in axes:
            if one.collective == "all_to_all":
                total += 1000**i * link_bytes("all_to_all", result, sizes[i])
            else:
                total += 1000**i * times * whole * Fraction(sizes[i] - 1, sizes[i])
                whole /= sizes[i]
    assert total
    return total


def _axes(line: str, sizes: Sequence[int]) -> list[int]:
    """Along which axes the chips of a group differ."""
    if found := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        chips = [int(one) for one in found[1].split(",")]
    elif found := re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line):
        shape = [int(one) for one in found[3].split(",")]
        turned = [int(one) for one in found[4].split(",")] if found[4] else range(len(shape))
        chips = np.arange(math.prod(shape)).reshape(shape).transpose(*turned).reshape(int(found[1]), -1)[0].tolist()
    else:
        found = re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\) )?\s*\{([^}]*)\}", line)
        assert found is not None, line
        named = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", found[1])}
        order = np.arange(8)
        if listed := re.fullmatch(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", found[2] or ""):
            order = order.reshape([int(one) for one in listed[1].split(",")])
            order = order.transpose([int(one) for one in listed[2].split(",")]) if listed[2] else order
        order = order.reshape([*named.values()])
        taken = re.findall(r"'(\w+)'", found[3])
        chips = order[tuple(slice(None) if name in taken else 0 for name in named)].ravel().tolist()
    places = np.array(np.unravel_index(chips, tuple(sizes)))
    return [i for i in range(len(sizes)) if len(set(places[i].tolist())) > 1]


def compiled(call: Callable[..., Any], sizes: Sequence[int], specs: Sequence[Any], out: Any, *shapes: Any) -> Fraction:
    """What the program moves, whose operands and results lie so; its numbers are those of one device."""
    mesh = mesh_of(sizes)

    def lie(spec: Any) -> Any:
        return jax.tree.map(lambda one: jax.sharding.NamedSharding(mesh, one), spec, is_leaf=lambda s: isinstance(s, P))

    program = jax.jit(call, in_shardings=tuple(map(lie, specs)), out_shardings=lie(out))
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    done = program.lower(*given).compile(compiler_options=OPTIONS)
    found = done(*[jax.device_put(value, lie(spec)) for value, spec in zip(given, specs, strict=True)])
    alone = jax.jit(call)(*given)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(alone), strict=True):
        assert np.abs(np.asarray(ours) - np.asarray(theirs)).max() <= 2e-5 * np.abs(np.asarray(theirs)).max()
    return moved(done.as_text(), sizes)


def _mlp(x: Any, a: Any, b: Any) -> Any:
    return b @ jnp.maximum(a @ x, 0)


@pytest.mark.parametrize(
    ("sizes", "used"),
    [((2, 4), "dt"), ((4, 2), "dt"), ((4, 2), "td"), ((2, 4), "tt"), ((2, 2, 2), "dtt"), ((2, 2, 2), "ddt")],
)
@pytest.mark.parametrize("ends", ["sums", "tokens"])
def test_two_products(sizes: tuple[int, ...], used: str, ends: str) -> None:
    """Rows, then sums, of each replica's tokens: an all-reduce along the axes of tensor parallelism. With tokens split
    before and after, an all-gather and a reduce-scatter."""
    data, tensor = ([i for i, one in zip("ijk", used, strict=False) if one == what] for what in "dt")
    tokens = tuple(data) if ends == "sums" else (*data, *tensor)
    spec = P(None, tokens or None)
    found = compiled(
        _mlp,
        sizes,
        (spec, P(tuple(tensor), None), P(None, tuple(tensor))),
        spec,
        (HIDDEN, TOKENS * math.prod(s for s, u in zip(sizes, used, strict=True) if u == "d")),
        (WIDE, HIDDEN),
        (HIDDEN, WIDE),
    )
    schemes = "NONE M M K NONE" if ends == "sums" else "N M M K_N N"
    assert charged(MLP, FORWARD_EDGES, schemes, sizes, used) == (found, 0)


@pytest.mark.parametrize(
    ("sizes", "used"), [((2, 4), "dt"), ((4, 2), "dt"), ((4, 2), "td"), ((2, 2, 2), "dtt"), ((2, 2, 2), "ddt")]
)
def test_a_training_step(sizes: tuple[int, ...], used: str) -> None:
    """The same with gradients: an all-reduce forward, one backward, and sums of the weights' gradients along the axes
    of replicas, once for the batch."""
    data, tensor = (tuple(i for i, one in zip("ijk", used, strict=False) if one == what) for what in "dt")
    replicas = math.prod(s for s, u in zip(sizes, used, strict=True) if u == "d")
    mesh, x = mesh_of(sizes), P(None, data)
    inside = jax.sharding.NamedSharding(mesh, x)

    def step(given: Any, a: Any, b: Any) -> Any:
        def loss(given: Any, a: Any, b: Any) -> Any:
            out = jax.lax.with_sharding_constraint(_mlp(given, a, b), inside)
            return 0.5 * (out * out).sum(), out

        (_, out), found = jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(given, a, b)
        return out, found

    specs = (x, P(tensor, None), P(None, tensor))
    found = compiled(step, sizes, specs, (x, specs), (HIDDEN, TOKENS * replicas), (WIDE, HIDDEN), (HIDDEN, WIDE))
    schemes = "NONE M M K NONE NONE M N M K M NONE"
    assert sum(charged(TRAINED, f"{FORWARD_EDGES} {BACKWARD_EDGES}", schemes, sizes, used)) == found


@pytest.mark.parametrize("sizes", [(2, 4), (4, 2), (2, 2, 2)])
def test_rows_and_terms_over_different_axes(sizes: tuple[int, ...]) -> None:
    """Weights split along two axes at once: gathers and scatters along the last axis, and along the others."""
    *others, last = list("ijk"[: len(sizes)])
    mesh, rows, turned = mesh_of(sizes), P((last, *others), None), P((*others, last), None)

    def lie(value: Any, spec: Any) -> Any:
        return jax.lax.with_sharding_constraint(value, jax.sharding.NamedSharding(mesh, spec))

    def call(x: Any, a: Any, b: Any) -> Any:
        made = lie(a @ lie(x, P(last, None)), turned)
        return b @ lie(jnp.maximum(made, 0), P(tuple(others), None))

    found = compiled(
        call,
        sizes,
        (rows, P(tuple(others), last), P(last, tuple(others))),
        rows,
        (HIDDEN, TOKENS),
        (WIDE, HIDDEN),
        (HIDDEN, WIDE),
    )
    assert charged(MLP, FORWARD_EDGES, "M M_K M_T K_M M", sizes, "t" * len(sizes)) == (found, 0)


def _mapped(
    call: Callable[..., Any], sizes: Sequence[int], specs: Sequence[Any], out: Any, *given: Any
) -> tuple[Any, Fraction]:
    """Results of a program of ``shard_map``, and what it moves."""
    there = jax.jit(jax.shard_map(call, mesh=mesh_of(sizes), in_specs=tuple(specs), out_specs=out, check_vma=False))
    done = there.lower(*given).compile(compiler_options=OPTIONS)
    return there(*given), moved(done.as_text(), sizes)


@pytest.mark.parametrize(("sizes", "used"), [((2, 4), "dt"), ((4, 2), "dt"), ((4, 2), "td")])
def test_a_step_whose_replicas_share_out_weights(sizes: tuple[int, ...], used: str) -> None:
    """FSDP beside tensor parallelism: weights are gathered forward and backward, gradients scattered."""
    data, tensor = ("ij"[used.index(what)] for what in "dt")
    replicas = sizes[used.index("d")]

    def step(x: Any, a: Any, b: Any, again: Any) -> Any:
        def whole(part: Any, times: Any) -> Any:
            return jax.lax.all_gather(part * times, data, axis=1, tiled=True)

        def scattered(part: Any) -> Any:
            return jax.lax.psum_scatter(part, data, scatter_dimension=1, tiled=True)

        made = whole(a, 1) @ x
        wide = jnp.maximum(made, 0)
        out = jax.lax.psum(whole(b, 1) @ wide, tensor)
        back = jnp.where(made > 0, whole(b, again).T @ out, 0)
        return out, jax.lax.psum(whole(a, again).T @ back, tensor), scattered(back @ x.T), scattered(out @ wide.T)

    rng, tokens = np.random.default_rng(1), P(None, data)
    shapes = ((HIDDEN, TOKENS * replicas), (WIDE, HIDDEN), (HIDDEN, WIDE))
    x, a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
    specs = (tokens, P(tensor, data), P(None, (tensor, data)))
    ours, found = _mapped(step, sizes, (*specs, P()), (tokens, tokens, *specs[1:]), x, a, b, np.float32(1))
    out, back = jax.vjp(_mlp, x, a, b)
    for mine, theirs in zip(ours, (out, *back(out)), strict=True):
        assert np.abs(mine - theirs).max() <= 2e-5 * np.abs(theirs).max()
    schemes = "NONE M M K NONE NONE M N M K M NONE"
    assert sum(charged(TRAINED, f"{FORWARD_EDGES} {BACKWARD_EDGES}", schemes, sizes, used, shard="weights")) == found


@pytest.mark.parametrize("sizes", [(2, 4), (4, 2)])
def test_experts_over_both_axes(sizes: tuple[int, ...]) -> None:
    """Eight experts, one a chip; each chip's tokens go to all of them, along the replicas' axis and the group's."""
    width, each = 4, 2  # numbers of a token; tokens of a chip for an expert
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((8, width, width), dtype=np.float32)
    tokens = rng.standard_normal((8, 8, each, width), dtype=np.float32)  # chip, expert

    def call(part: Any, own: Any) -> Any:
        sent = part.reshape(sizes[0], sizes[1], each, width)
        sent = jax.lax.all_to_all(sent, "i", 0, 0)
        sent = jax.lax.all_to_all(sent, "j", 1, 1)
        made = sent @ own[0]
        made = jax.lax.all_to_all(made, "j", 1, 1)
        return jax.lax.all_to_all(made, "i", 0, 0).reshape(1, 8, each, width)

    spec = P(("i", "j"))
    ours, found = _mapped(call, sizes, (spec, spec), spec, tokens, weights)
    assert np.abs(ours - np.einsum("cetw,ewv->cetv", tokens, weights)).max() < 1e-4
    columns = 8 * each * sizes[1]  # of a replica, one expert each
    flat = {"kind": "elementwise", "flop_per_element": 0, "M": width, "N": columns}
    experts = {"kind": "gemm", "weights": True, "M": width, "K": width, "N": columns, "experts": 8, "active": 1}
    # the combine adds nothing up: each token has one expert, and its numbers are swapped back
    kernels = {"x": flat, "y": experts, "z": flat}
    assert charged(kernels, "xy yz", "N E N", sizes, "et") == (found, 0)


@pytest.mark.parametrize(("heads", "part"), [(4, 1), (2, 2)])
@pytest.mark.parametrize("back", [False, True])
def test_keys_by_tokens_are_swapped_to_heads_along_one_axis(heads: int, part: int, back: bool) -> None:
    """Two replicas of four chips; each head of keys is on one chip, or on two that compute it twice; and back."""
    rows, chips = 8, 4
    rng = np.random.default_rng(3)
    keys = rng.standard_normal((heads * rows, 2 * TOKENS), dtype=np.float32)

    def to_heads(own: Any) -> Any:
        sent = jnp.repeat(own.reshape(heads, rows, TOKENS // chips), part, axis=0)
        return jax.lax.all_to_all(sent, "j", 0, 0).transpose(1, 0, 2).reshape(rows, TOKENS)[None]

    def to_tokens(own: Any) -> Any:
        few = rows // part
        mine = jax.lax.dynamic_slice_in_dim(own[0], few * (jax.lax.axis_index("j") % part), few)
        return jax.lax.all_to_all(mine.reshape(few, chips, -1), "j", 1, 0).reshape(heads * rows, -1)

    by_tokens, by_heads = P(None, ("i", "j")), P("j", None, "i")
    split = np.repeat(keys.reshape(heads, rows, -1), part, axis=0)
    call, given, wanted = (to_tokens, split, keys) if back else (to_heads, keys, split)
    specs = (by_heads, by_tokens) if back else (by_tokens, by_heads)
    ours, found = _mapped(call, (2, chips), specs[:1], specs[1], given)
    assert (np.asarray(ours) == wanted).all()
    one = {"kind": "elementwise", "flop_per_element": 0, "outer": heads, "M": rows, "N": TOKENS}
    schemes = "OUTER N" if back else "N OUTER"
    assert charged({"k": one, "y": one}, "ky", schemes, (2, chips), "dt") == (found, 0)
