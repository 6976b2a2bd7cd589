"""The judge of exchanges without JAX: collectives read from a program's text, ring formulas, plans of mappings."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from benchmarks.exchanges.cases import CHIPS, LAYERS, Layers, schemes
from benchmarks.exchanges.charged import charges
from benchmarks.exchanges.compared import plan_says, rows, scoped
from benchmarks.exchanges.hlo import by_kind, collectives, link_bytes
from chipmap.instances.dataflow.instance import Keep
from chipmap.instances.dataflow.workloads.llama import llama_network
from chipmap.plans.jax.layouts import PARTIAL, WHOLE, Layout, change, covers, moved
from chipmap.plans.jax.planning import Add, Plan, Policy, Run, plan
from chipmap.plans.jax.steps import layer_of
from chipmap.records import InputError

MB = 10**6
ROWS, COLUMNS, EXPERTS = (Layout(kind, 8) for kind in ("SR", "RS", "EE"))

TEXT = """
HloModule jit_f
%fused_computation.2 (param_0.1: f32[64,32], param_1.3: u32[]) -> f32[8,32] {
  %param_0.1 = f32[64,32]{1,0} parameter(0)
  %param_1.3 = u32[] parameter(1)
  ROOT %dynamic-slice.6 = f32[8,32]{1,0} dynamic-slice(%param_0.1, %param_1.3), dynamic_slice_sizes={8,32}
}
ENTRY %main (p: f32[8,32]) -> f32[8,32] {
  %all_gather.6 = f32[64,32]{1,0} all-gather(%p), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}, \
metadata={op_name="jit(f)/shard_map/Q|T3|Norm1/all_gather" stack_frame_id=10}
  %reduce_scatter.7 = f32[8,32]{1,0} reduce-scatter(%q), replica_groups=mesh['a'=1,'b'=8] {'b'}, dimensions={0}
  %turned = f32[16,32]{1,0} all-gather(%r), replica_groups=mesh['a'=1,'b'=2,'c'=4], device_ids=([4,2]T(1,0)) {'b'}
  %pairs = f32[16,32]{1,0} all-gather(%r), replica_groups=[4,2]<=[8], dimensions={0}
  %all-to-all = (f32[8,4]{1,0}, f32[8,4]{1,0}, /*index=5*/f32[8,4]{1,0}, f32[8,4]{1,0}) all-to-all(%a, %b, %c, %d), \
replica_groups={{0,2,4,6},{1,3,5,7}}
  %all-reduce = f32[64,32]{1,0} all-reduce(%dot.1), replica_groups={}, to_apply=%add
  %slice_fusion = f32[8,32]{1,0} fusion(%all-reduce, %partition-id.1), kind=kLoop, calls=%fused_computation.2
  %all-reduce.1 = bf16[64,32]{1,0} all-reduce(%dot.2), replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%add
  %used = f32[64,32]{1,0} add(%all-reduce.1, %all_gather.6)
  %collective-permute.2 = s32[4]{0} collective-permute(%e), source_target_pairs={{0,1},{1,2}}
  %start = (f32[8,32]{1,0}, f32[64,32]{1,0}) all-gather-start(%p), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}
  %done = f32[64,32]{1,0} all-gather-done(%start)
}
"""


def test_collectives_are_read_from_a_programs_text() -> None:
    """Lists, meshes and reshaped lists of chips; tuples; what starts; floats of four bytes count as two."""
    found = {one.name: one for one in collectives(TEXT, 8)}
    assert {name: (one.collective, one.result, one.group) for name, one in found.items()} == {
        "all_gather.6": ("all_gather", 4096, 8),
        "reduce_scatter.7": ("reduce_scatter", 512, 8),
        "turned": ("all_gather", 1024, 2),
        "pairs": ("all_gather", 1024, 2),
        "all-to-all": ("all_to_all", 256, 4),
        "all-reduce": ("all_reduce", 4096, 8),
        "all-reduce.1": ("all_reduce", 4096, 8),
        "collective-permute.2": ("permute", 16, 8),
        "start": ("all_gather", 4096, 8),
    }
    assert found["all_gather.6"].link == found["reduce_scatter.7"].link == 3584
    assert scoped(found.values())["Q", "T3", "Norm1"] == 3584
    assert by_kind(collectives(TEXT, 8, word_bytes=4))["all_to_all"] == 512 * Fraction(3, 4)


def test_a_sum_that_is_only_sliced_is_a_reduce_scatter() -> None:
    """As GSPMD writes it for a CPU; one that is read whole stays an all-reduce."""
    found = {one.name: one for one in collectives(TEXT, 8, as_scatter=True)}
    assert found["all-reduce"].collective == "reduce_scatter" and found["all-reduce"].link == 3584
    assert found["all-reduce.1"].collective == "all_reduce" and found["all-reduce.1"].link == 7168


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (WHOLE, ROWS, 0),
        (ROWS, WHOLE, Fraction(7, 8)),
        (COLUMNS, ROWS, Fraction(7, 64)),
        (COLUMNS, Layout("SR", 4), Fraction(7, 32)),  # four heads on eight chips: each chip gets a whole one
        (Layout("SR", 4), ROWS, 0),
        (ROWS, Layout("SR", 4), Fraction(1, 8)),  # between two neighbours
        (Layout("SR", 4), WHOLE, Fraction(3, 4)),
        (PARTIAL, WHOLE, Fraction(7, 4)),
        (PARTIAL, COLUMNS, Fraction(7, 8)),
        (Layout("sum", 4), ROWS, Fraction(1, 8)),  # heads that two chips have terms of
        (EXPERTS, COLUMNS, Fraction(7, 64)),
    ],
)
def test_a_change_moves_what_a_ring_does(before: Layout, after: Layout, part: Fraction) -> None:
    """Bytes over a chip's link, over those of the tensor, on eight chips."""
    one = change(before, after)
    assert moved(Fraction(4096), one, 8) == 4096 * part
    assert (one.collective is None) == (part == 0) == covers(before, after)


def test_a_collectives_bytes_follow_from_its_result() -> None:
    """For each kind, among four chips."""
    found = [
        link_bytes(kind, Fraction(400), 4) for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    ]
    assert found == [600, 300, 1200, 300]
    assert link_bytes("permute", Fraction(400), 4) == 400 and link_bytes("all_reduce", Fraction(400), 1) == 0


def _plan(name: str, trained: bool, pins: str, policy: Policy | None = None, **changed: str) -> Plan:
    layers = next(one for one in LAYERS if one.name == name)
    workload = layers.full(trained)
    own = {**schemes(workload, pins), **changed}
    return plan(layer_of(workload), own, CHIPS, policy)  # type: ignore[arg-type]


def _moved(of: Plan, term: str = "T3") -> float:
    return float(sum(link for one, link in of.moves() if one.term == term)) / MB


def _charged(name: str, trained: bool, pins: str, keep: Keep) -> float:
    workload = next(one for one in LAYERS if one.name == name).full(trained)
    return float(sum(one.link for one in charges(workload, schemes(workload, pins), CHIPS, keep))) / MB


@pytest.mark.parametrize(
    ("trained", "pins", "kept", "again"),
    [
        (False, "TP", 58.72, 58.72),
        (True, "TP", 117.44, 117.44),
        (False, "TP + SP", 58.72, 58.72),
        (True, "TP + SP", 117.44, 146.80),
        (True, "TP, FFN0_b by tokens", 241.30, 241.30),
        (False, "ring", 7.34, 7.34),
        (True, "ring", 778.04, 785.38),
        (False, "all-to-all", 4.588, 4.588),
        (True, "all-to-all", 9.175 + 763.36, 13.76 + 763.36),
    ],
)
def test_a_layer_is_charged_what_is_made(trained: bool, pins: str, kept: float, again: float) -> None:
    """A layer of Llama3-8B, 2,048 tokens, eight chips: MB as the pages charge them and as plans have them."""
    for keep, wanted in (("step", kept), ("phase", again)):
        assert _charged("llama3-8b", trained, pins, keep) == pytest.approx(wanted, abs=0.01)  # type: ignore[arg-type]
        of = _plan("llama3-8b", trained, pins, Policy(keep=keep))  # type: ignore[arg-type]
        assert _moved(of) + _moved(of, "T6") == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("layers", LAYERS, ids=lambda one: one.name)
def test_each_exchange_is_charged_what_is_made(layers: Layers) -> None:
    """Layouts kept, made once per phase, or for each reader by itself without sums that are shared. What differs are
    gradients that few chips gather; but for each by itself ``Dispatch_b`` still exchanges the sum of two products."""
    for trained in (False, True) if layers.trained else (False,):
        for pins, keep in product(layers.pins, ("step", "phase", "none")):
            workload, adds = layers.full(trained), keep != "none"
            own = schemes(workload, pins)
            of = plan(layer_of(workload), own, CHIPS, Policy(keep=keep, adds=adds))  # type: ignore[arg-type]
            found = rows(of, own, plan_says(of), keep, adds)  # type: ignore[arg-type]
            differing = {(row.payer, row.tensor) for row in found if row.known == 3}
            assert differing <= (set() if adds else {("Dispatch_b", "Experts_Up_b")}), (trained, pins, keep)
            charged, made = (sum(getattr(row, name) for row in found) for name in ("charged", "compiled"))
            assert charged == pytest.approx(made, rel=0.02) or not adds, (trained, pins, keep)


def test_parameters_that_a_chip_lacks_are_gathered() -> None:
    """Forward by rows and backward by tokens: all of one FFN matrix, 102.76 MB."""
    of = _plan("llama3-8b", True, "TP", FFN0_b="N")
    found = {one.tensor: link for one, link in of.moves() if one.tensor.startswith("W:")}
    assert {name: float(link) / MB for name, link in found.items()} == {"W:FFN0": pytest.approx(102.76, abs=0.01)}


def test_an_update_by_rows_gathers_the_other_operand() -> None:
    """14.68 MB for Proj_u, whose operand is split by heads; by columns nothing."""
    by_rows, by_columns = (_plan("llama3-8b", True, "TP", Proj_u=one) for one in ("M", "N"))
    assert _moved(by_rows) - _moved(by_columns) == pytest.approx(14.68, abs=0.01)
    assert _moved(by_rows, "T6") == pytest.approx(3.67, abs=0.01)  # and the gradient doesn't lie as parameters rest


def test_experts_outputs_are_combined_where_they_are() -> None:
    """Qwen3: an all-reduce of 14.68 MB in place of a gather of eight copies, 58.72 MB."""
    for experts, wanted in ((True, 14.68), (False, 58.72)):
        of = _plan("qwen3-30b", False, "experts", Policy(experts=experts))
        combined = [float(link) / MB for one, link in of.moves() if one.payer == "Combine"]
        assert combined == [pytest.approx(wanted, abs=0.01)]


def test_gradients_of_few_heads_are_summed_in_pairs() -> None:
    """Four key heads on eight chips: 0.262 MB each."""
    of = _plan("qwen3-30b", True, "TP")
    found = {one.payer: float(link) / MB for one, link in of.moves() if one.change.before == Layout("sum", 4)}
    assert found == {"MHA1_b2": pytest.approx(0.262, abs=0.001), "MHA2_b2": pytest.approx(0.262, abs=0.001)}


def test_products_are_added_before_their_sum_over_chips() -> None:
    """Three and two products, each group with one all-reduce, which the kernel that adds them pays."""
    of = _plan("llama3-8b", True, "TP")
    added = [{held.tensor for held in one.tensors} for one in of.instructions if isinstance(one, Add)]
    assert added == [{"Gate_b", "FFN0_b"}, {"Q_b", "K_b", "V_b"}]
    alone = _plan("llama3-8b", True, "TP", Policy(adds=False))
    assert _moved(alone) == pytest.approx(205.52, abs=0.01)


def test_a_difference_has_a_number() -> None:
    """Of keys' parameters, which two chips rest alike and eight update: a swap is charged, pairs gather."""
    of = _plan("qwen3-30b", True, "TP")
    own = {one.step.name: one.scheme for one in of.instructions if isinstance(one, Run)}
    found = {row.tensor: row for row in rows(of, own, plan_says(of)) if row.known}
    assert set(found) == {"W:K", "W:V"} and {row.known for row in found.values()} == {1}
    assert [float(getattr(found["W:K"], name)) / MB for name in ("charged", "compiled")] == [0.458752, 0.262144]


def test_what_cant_be_split_equally_is_refused() -> None:
    """12 heads on 8 chips, 197 tokens on 8 chips."""
    odd = llama_network(model="", hidden=96, heads=12, kv_heads=12, ffn=64, layers=1, tokens=197, step="forward")
    with pytest.raises(InputError, match="12 heads on 8 chips"):
        plan(layer_of(odd), schemes(odd, "TP"), CHIPS)
    with pytest.raises(InputError, match="columns of 'Add_Prev' aren't 8 equal parts"):
        plan(layer_of(odd), schemes(odd, "ring"), CHIPS)
