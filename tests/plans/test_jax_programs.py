"""Format ``jax`` against JAX: programs that run alone, compute what one device does, and move what is charged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
jax = pytest.importorskip("jax", reason="needs the extra judges")

import chipmap  # noqa: E402
from benchmarks.exchanges.cases import CHIPS, LAYERS, PINS, schemes  # noqa: E402
from benchmarks.exchanges.charged import one_group  # noqa: E402
from benchmarks.exchanges.compared import alike_key, rows, scoped  # noqa: E402
from benchmarks.exchanges.hlo import collectives  # noqa: E402
from benchmarks.exchanges.rivals import USUAL  # noqa: E402
from benchmarks.exchanges.written import OPTIONS, module_of  # noqa: E402
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution  # noqa: E402
from chipmap.instances.dataflow.workloads.divided import by_tokens  # noqa: E402
from chipmap.plans.jax.format import FILE, emit, program  # noqa: E402
from chipmap.plans.plan import EmitOptions  # noqa: E402
from chipmap.validation.dataflow import exchanges, facts  # noqa: E402
from chipmap.validation.dataflow.checker import check  # noqa: E402
from chipmap.validation.dataflow.mapping import mapping_of  # noqa: E402
from tests.plans.test_jax_text import attending, mapped, rotated  # noqa: E402

devices = pytest.mark.skipif(len(jax.devices()) < CHIPS, reason="JAX was started with fewer than eight devices")
LAYER = {layers.name: layers for layers in LAYERS}


def written(instance: DataflowInstance, solution: DataflowSolution) -> Any:
    """The emitted program as a module."""
    return module_of(str(emit(instance, solution, EmitOptions())[FILE]))


def compiled(module: Any) -> list[Any]:
    """The collectives of the compiled program at full sizes."""
    places = module.shardings()
    shapes = {
        name: jax.ShapeDtypeStruct(size, jax.numpy.float32, sharding=places[name])
        for name, size in module.SIZES.items()
    }
    text = jax.jit(module.sharded()).lower(shapes).compile(compiler_options=OPTIONS).as_text()
    return collectives(str(text), CHIPS)


def farthest(module: Any) -> float:
    """How far results are from one device's, at the sizes that the program cuts to."""
    inputs, places = module.random_inputs(module.CUT), module.shardings()
    placed = {name: jax.device_put(value, places[name]) for name, value in inputs.items()}
    wanted = module.expected(inputs)
    found = jax.jit(module.sharded()).lower(placed).compile(compiler_options=OPTIONS)(placed)
    assert found.keys() == module.RESULTS.keys() <= wanted.keys()
    return max(module.difference(found[name], wanted[name]) for name in found)


def by_kind(instance: DataflowInstance, solution: DataflowSolution, found: list[Any]) -> dict[str, list[Fraction]]:
    """MB over a chip's link by kind of collective: the certificate's T3 and T6, and those compiled."""
    of, _ = program(instance, solution)
    names = [kernel.name for kernel in instance.workload.kernels]
    own = dict(zip(names, solution.schemes, strict=True))
    made: dict[Any, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for one in found:
        (key,) = scoped([one])
        made[alike_key(of, key, True)][one.collective] += one.link / 10**6
    total: dict[str, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for row in rows(of, own, scoped(found), solution.keep or "none"):
        kinds = made.get((row.payer, row.term, row.tensor), {"none": Fraction(1)})
        for kind, link in kinds.items():  # an exchange of several steps is charged as one
            total[kind][0] += row.charged / 10**6 * link / sum(kinds.values())
            total[kind][1] += link if kind != "none" else 0
    return dict(total)


#: Of the forward phase one of Llama's six is another one's same.
SIX_FORWARD = ("TP", "TP + SP", "TP + rows", "ring", "all-to-all", "ring attention, TP + SP")
SCHEMES = [
    *(("llama3-8b", True, one) for one in LAYER["llama3-8b"].pins),
    *(("gpt3-175b", False, one) for one in SIX_FORWARD),
    *(("mixtral-8x7b", True, one) for one in (*SIX_FORWARD[:-1], "experts", "experts by tokens")),
]


@devices
@pytest.mark.parametrize(("name", "trained", "pins"), SCHEMES)
def test_a_layer_moves_what_its_certificate_says(
    name: str, trained: bool, pins: str, record_property: Callable[[str, object], None]
) -> None:
    """By kind of collective within 2%, or a thousandth of all bytes (numbers of single tokens, page of the judge), at
    full widths; results to 2e-5 at those that the program cuts to."""
    workload, keep = LAYER[name].full(trained), "step" if trained else "phase"
    if pins in SIX_FORWARD[3:]:  # attention by tokens: its products name the operand that isn't split
        workload = workload.replace(kernels=by_tokens(workload.kernels, workload.edges))
    pin = {**USUAL, **PINS}[pins]
    instance, solution = mapped(workload, {one.name: pin(one) for one in workload.kernels}, keep)
    certificate = check(instance, solution)
    assert certificate.feasible
    module = written(instance, solution)
    found, far = by_kind(instance, solution, compiled(module)), farthest(module)
    for kind, (charged, made) in found.items():
        record_property(f"{name}, {pins}, {kind}", f"{float(charged):.3f} MB charged, {float(made):.3f} compiled")
    record_property(f"{name}, {pins}, results", f"{far:.1e} of the largest number")
    assert far < 2e-5
    little = sum(made for _, made in found.values()) / 1000
    off = {kind: each for kind, each in found.items() if abs(each[0] - each[1]) > max(max(each) / 50, little)}
    assert not off, {kind: [float(one) for one in each] for kind, each in off.items()}


@devices
def test_chips_turn_their_parts_of_a_head_alone() -> None:
    """Two heads of keys by rows on eight chips: no exchange is charged, none is made, and results are one device's."""
    instance, solution = rotated(2)
    module = written(instance, solution)
    assert farthest(module) < 2e-5
    assert not [one for one in scoped(compiled(module)) if one[0] == "Rotary_K"]


@devices
def test_gradients_are_one_devices_where_a_head_has_as_many_rows_as_there_are_tokens() -> None:
    assert farthest(written(*attending(8))) < 2e-5


@devices
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (4, 4), (4, 1), (2, 2)])
def test_gradients_are_one_devices_where_several_chips_have_the_same_heads(heads: int, kv_heads: int) -> None:
    """Eight chips compute four heads twice, or two four times: each term of a key head's sum counts once, and nothing
    is summed where each head has keys of its own. The program moves what the certificate says."""
    instance, solution = attending(16, heads, kv_heads)
    module = written(instance, solution)
    assert farthest(module) < 2e-5
    moved = sum(one.link for one in compiled(module) if "statistics" not in one.scope)
    said = sum(link for _, link in program(instance, solution)[0].moves())
    assert moved == said
    sums = {key for key in scoped(compiled(module)) if key[0] in ("MHA1_b2", "MHA2_b2")}
    assert bool(sums) == (kv_heads < heads)


@devices
@pytest.mark.parametrize(("name", "trained"), [("llama3-8b", True), ("gpt3-175b", False), ("mixtral-8x7b", True)])
@pytest.mark.parametrize("fused", [False, True])
def test_an_optimal_mapping_moves_what_its_certificate_says(
    name: str, trained: bool, fused: bool, record_property: Callable[[str, object], None]
) -> None:
    """A layer under the best mapping found with free schemes, on chips that fuse and on others: T3 and T6 in all.

    Chips that fuse keep no layouts beyond a partition, so that later ones pay again.
    """
    instance, _ = one_group(LAYER[name].full(trained), CHIPS)
    if fused:
        instance = instance.replace(task=instance.task.replace(fused=True, partitions=6))
    result = chipmap.solve(instance, time_limit=20)
    solution = DataflowSolution.make(**(result.solution or {}))
    mapping = mapping_of(instance, solution)
    ticks = sum(one.ticks for each in (exchanges.each_run(mapping), exchanges.after(mapping)) for one in each)
    charged = Fraction(ticks, facts.PS)
    module = written(instance, solution)
    made = sum((one.link for one in compiled(module)), Fraction(0))
    far = farthest(module)
    title = f"{name}, {'fused' if fused else 'unfused'}, {result.status}, keep {solution.keep}"
    record_property(title, f"{float(charged) / 10**6:.3f} MB charged, {float(made) / 10**6:.3f} compiled, {far:.1e}")
    assert far < 2e-5
    assert abs(charged - made) <= Fraction(2, 100) * charged


def test_a_program_runs_alone(tmp_path: Path) -> None:
    """As a user runs it: in a folder of its own, without chipmap; the exit code says whether results agree."""
    workload = LAYER["llama3-8b"].cut(True)
    instance, solution = mapped(workload, dict(schemes(workload, "TP + SP")), "step")
    (tmp_path / FILE).write_text(str(emit(instance, solution, EmitOptions())[FILE]))
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "XLA_FLAGS")}
    command = [sys.executable, FILE]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 chips and one differ by" in done.stdout
    spoilt = (
        (tmp_path / FILE)
        .read_text()
        .replace('lax.psum_scatter(FFN1_terms, "x"', 'lax.psum_scatter(2 * FFN1_terms, "x"')
    )
    (tmp_path / FILE).write_text(spoilt)
    assert subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=600).returncode == 1
