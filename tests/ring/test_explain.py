"""``explain``: every fact against brute force, the checker's own facts, or a graph library; every change re-solved."""

from __future__ import annotations

import random
import shlex
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import chipmap
from chipmap.explaining.ring import explain as ring_explain
from chipmap.explaining.ring.solved import Tried
from chipmap.explanation import Change, Explanation, Statement
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.candidates import count
from chipmap.validation.ring.checker import check
from chipmap.validation.ring.facts import facts
from tests.ring.random_instances import tiny_instance

OPTIONS = SolveOptions(time_limit=120.0)
TINY = ["chain", "diamond", "skip", "links", "memory", "pinned", "infeasible"]
#: Mappings that brute force tries at most here.
FEW = 20_000


def read(name: str, *settings: str) -> RingInstance:
    instance = chipmap.read(f"ring/{name}", settings)
    assert isinstance(instance, RingInstance)
    return instance


def told(found: Explanation, topic: str, label: str | None = None) -> list[Statement]:
    return [s for s in found.statements if s.topic == topic and label in (None, s.label)]


def change(found: Explanation, what: str) -> Change:
    return next(c for c in found.changes if c.what == what)


@pytest.mark.parametrize("name", TINY)
def test_every_change_of_the_tiny_instances_by_brute_force(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = read(f"tiny-{name}")
    tried: list[Tried | None] = []

    def keep(*arguments: Any) -> Tried | None:
        done = outcome(*arguments)
        tried.append(done)
        return done

    outcome = ring_explain._Work.outcome
    monkeypatch.setattr(ring_explain._Work, "outcome", keep)
    found = chipmap.explain(instance, options=OPTIONS)
    best, _ = brute_force(instance, check)
    assert (found.objective, found.status) == (best, "infeasible" if best is None else "optimal")
    done = [one for one in tried if one is not None]
    assert len(done) == len(found.changes) >= 5
    small = [one for one in done if count(one.solved.instance) <= FEW]
    assert len(small) >= 5
    for one in small:
        shown = change(found, one.trial.what)
        optimum, _ = brute_force(one.solved.instance, check)
        assert (shown.objective, shown.standing) == (optimum, "infeasible" if optimum is None else "proved"), shown.what
        if best is not None and optimum is not None:
            assert shown.gain == pytest.approx((best - optimum) / best)
        else:
            assert shown.gain is None


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 8, 9, 11, 13, 16, 18, 22, 24])
def test_random_instances_of_every_mode(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = tiny_instance(random.Random(seed))
    tried: list[Tried | None] = []
    outcome = ring_explain._Work.outcome

    def listening(*some: Any) -> Tried | None:
        tried.append(outcome(*some))
        return tried[-1]

    monkeypatch.setattr(ring_explain._Work, "outcome", listening)
    found = chipmap.explain(instance, options=OPTIONS)
    assert found.objective == brute_force(instance, check)[0]
    for one in tried:
        if one is not None and count(one.solved.instance) <= 5_000:
            assert one.solved.status in ("optimal", "infeasible")
            assert one.solved.objective == brute_force(one.solved.instance, check)[0], one.trial.what
    for statement in told(found, "unused"):
        low, high = statement.figures["chips_proved_needed"], statement.figures["chips_enough"]
        for chips in range(max(1, low - 1), high + 1):
            package = instance.package.replace(chips=chips)
            optimum = brute_force(instance.replace(package=package), check)[0]
            assert (optimum == found.objective) == (chips >= high) or low <= chips < high


@pytest.mark.parametrize("sram", [200, 400, 700])
@pytest.mark.parametrize("seed", [1, 7])
def test_memory_in_grade_full_by_brute_force(seed: int, sram: int) -> None:
    instance = tiny_instance(random.Random(seed))
    package = instance.package.replace(sram_bytes=sram)
    instance = instance.replace(package=package, memory_grade="full", constraints=("C1", "C2", "C3", "C4"))
    found = chipmap.explain(instance, options=OPTIONS)
    best, _ = brute_force(instance, check)
    assert (found.objective, found.status) == (best, "infeasible" if best is None else "optimal")
    for one in told(found, "memory"):
        figures = one.figures
        needed = figures["weight_bytes"] + 2 * (figures["buffer_bytes"] + figures["relay_bytes"])
        assert f"needs {needed + figures['live_bytes']:,} bytes" in one.message
    for one in told(found, "least"):
        for key, field in (("least_bytes", "sram_bytes"), ("least_chips", "chips")):
            if key in one.figures:
                for less, wanted in ((0, False), (1, True)):
                    changed = instance.replace(package=package.replace(**{field: one.figures[key] - less}))
                    assert (brute_force(changed, check)[0] is None) == wanted, one.message


@pytest.mark.parametrize("name", ["tiny-skip", "tiny-memory", "tiny-links", "random-12"])
def test_settings_make_the_change(name: str) -> None:
    """As they are, and as a shell takes them apart that they are pasted into."""
    found = chipmap.explain(f"ring/{name}", options=OPTIONS)
    shown = [c for c in found.changes if c.setting]
    assert len(shown) >= 4
    for one in shown:
        assert shlex.split(one.setting) == [one.setting]
        result = chipmap.solve(read(name, one.setting), options=OPTIONS)
        assert (result.objective, result.status == "optimal") == (one.objective, one.standing == "proved"), one.what
        assert result.status in ("optimal", "infeasible")


def test_ranked_best_first() -> None:
    found = chipmap.explain("ring/tiny-memory", options=OPTIONS)
    values = [c.objective for c in found.changes if c.objective is not None]
    assert values == sorted(values) and len(values) < len(found.changes)
    assert all(c.objective is None for c in found.changes[len(values) :])


def test_skip_names_the_connection_and_its_work() -> None:
    (skip,) = told(chipmap.explain("ring/tiny-skip", options=OPTIONS), "bound", "C3")
    assert (skip.figures["producer"], skip.figures["reader"]) == ("a", "e")
    assert (skip.figures["work_us"], skip.figures["bound_us"]) == (3 + 5 + 4 + 2 + 3, 8.5)
    assert skip.figures["tensor_bytes"] == 32 * 1024
    for word in ("a -> e", "32,768 bytes", "17 us", "8.5 us"):
        assert word in skip.message


def test_memory_names_chip_and_bytes() -> None:
    found = chipmap.explain("ring/tiny-memory", options=OPTIONS)
    (blocked,) = told(found, "blocked", "C4")
    weights, buffers, sram = (600 + 500) * 1024, 2 * 32 * 1024, 1024 * 1024  # a and b, the tensor from b to c
    assert f"{weights + buffers - sram} too many" in blocked.message
    assert (
        change(found, "1,191,936 bytes (1.137 MiB) of SRAM per chip").setting
        == f"package.sram_bytes={weights + buffers}"
    )


def test_links_name_tensor_and_link() -> None:
    found = chipmap.explain("ring/tiny-links", options=OPTIONS)
    (slow,) = told(found, "links")
    assert (slow.figures["tensors"], slow.figures["bytes"]) == (["b"], [640_000])
    (blocked,) = told(found, "blocked", "T2")
    assert blocked.figures["tensors"] == ["b"] and blocked.figures["load_us"] == 640_000 / 32.0 / 1000


def test_infeasible_memory_in_bytes() -> None:
    found = chipmap.explain("ring/tiny-infeasible", options=OPTIONS)
    assert found.status == "infeasible" and [r.label for r in found.infeasibility] == ["C4"]
    (short,) = told(found, "short")
    assert (short.figures["operation"], short.figures["short_bytes"]) == ("c", 2**20)
    assert any("no number of chips does (proved)" in s.message for s in told(found, "least"))
    least = told(found, "least")[0].figures["least_bytes"]
    enough, short_by_one = (read("tiny-infeasible", f"package.sram_bytes={least - d}") for d in (0, 1))
    assert brute_force(enough, check)[0] is not None
    assert brute_force(short_by_one, check)[0] is None
    both = [c for c in found.changes if c.kind == "split and chips"]
    assert both and all(c.standing == "proved" for c in both)


def test_least_chips_to_the_chip() -> None:
    found = chipmap.explain(read("tiny-memory", "package.chips=2"), options=OPTIONS)
    assert found.status == "infeasible"
    (least,) = [s for s in told(found, "least") if "least_chips" in s.figures]
    chips = least.figures["least_chips"]
    assert brute_force(read("tiny-memory", f"package.chips={chips}"), check)[0] is not None
    assert brute_force(read("tiny-memory", f"package.chips={chips - 1}"), check)[0] is None


def test_a_skip_connection_that_makes_it_infeasible() -> None:
    weights = [f"graph.operations.{v}.weight_bytes={600 * 1024}" for v in range(5)]
    instance = read("tiny-skip", *weights, f"package.sram_bytes={1024 * 1024}", "package.chips=6")
    found = chipmap.explain(instance, options=OPTIONS)
    assert found.status == "infeasible"
    (short,) = told(found, "short", "C3")
    assert (short.figures["producer"], short.figures["reader"]) == ("a", "e")
    assert short.figures["short_bytes"] == 5 * 600 * 1024 - 2 * 2**20
    helps = {c.what: c.standing for c in found.changes if c.objective is not None}
    assert helps["without the chip triangle (C3)"] == helps["a cloned for each of its readers"] == "proved"


def test_pins_that_contradict_the_data() -> None:
    pins = '[{"operation":"a","chip":1},{"operation":"c","chip":0}]'
    found = chipmap.explain(read("tiny-chain", f"pins={pins}"), options=OPTIONS)
    assert found.status == "infeasible"
    (pair,) = told(found, "pins")
    assert pair.figures["operations"] == ["a", "c"] and pair.label == "C1"
    assert change(found, "without the pin of a to chip 1").standing == "proved"
    assert change(found, "without the pin of c to chip 0").standing == "infeasible"  # C2: nothing could fill chip 0
    pins = '[{"operation":"a","chip":0},{"operation":"b","chip":1},{"operation":"e","chip":2}]'
    found = chipmap.explain(read("tiny-skip", f"pins={pins}"), options=OPTIONS)
    assert [s.figures["operations"] for s in told(found, "pins")] == [["a", "b", "e"]]
    assert change(found, "without the pin of e to chip 2").standing == "proved"
    assert change(found, "without the pin of b to chip 1").standing == "infeasible"  # nothing could fill chip 1


def _under(instance: RingInstance) -> tuple[int, set[tuple[str, str]]]:
    """The most work (ticks) under a flow, and the flows that have it, from the checker's facts by a graph library."""
    known, names = facts(instance), [op.name for op in instance.graph.operations]
    graph = nx.DiGraph((s.made_by, v) for s in known.stored for v in s.read_by)
    below = {u: nx.descendants(graph, u) for u in graph}
    above = {v: nx.ancestors(graph, v) for v in graph}
    work = {
        (names[u], names[v]): sum(known.ticks[w] for w in (below[u] & above[v]) | {u, v})
        for u, v in graph.edges
        if below[u] & above[v]
    }
    most = max(work.values())
    return most, {flow for flow, ticks in work.items() if ticks == most}


def test_resnet50() -> None:
    instance = read("resnet50-36")
    found = chipmap.explain(instance, options=OPTIONS)
    most, flows = _under(instance)
    (skip,) = told(found, "bound", "C3")
    assert (skip.figures["producer"], skip.figures["reader"]) in flows
    assert skip.figures["work_us"] == pytest.approx(most / 1e5)
    assert found.objective is not None and found.objective >= -(-most // 2)
    free = change(found, "without the chip triangle (C3)")
    assert free.objective == chipmap.solve(read("resnet50-36", free.setting), "ring/free", OPTIONS).objective
    assert free.gain and told(found, "blocked", "C3")
    (unused,) = told(found, "unused")
    assert unused.figures["chips_enough"] < 36


def test_densenet121_leaves_chips_to_its_skips() -> None:
    instance = read("densenet121-36")
    found = chipmap.explain(instance, options=OPTIONS)
    most, flows = _under(instance)
    (skip,) = told(found, "bound", "C3")
    assert (skip.figures["producer"], skip.figures["reader"]) in flows
    assert skip.figures["work_us"] == pytest.approx(most / 1e5)
    (unused,) = told(found, "unused")
    assert unused.figures["chips_proved_needed"] == unused.figures["chips_enough"] == 7
    fewer = chipmap.solve(read("densenet121-36", "package.chips=6"), options=OPTIONS)
    assert fewer.bound is not None and found.objective is not None and fewer.bound > found.objective
    assert change(found, "72 chips instead of 36").gain == 0.0


def test_gpt2_is_held_up_by_its_head() -> None:
    instance = read("gpt2-36")
    found = chipmap.explain(instance, options=OPTIONS)
    known = facts(instance)
    longest = max(known.ticks, key=known.ticks.__getitem__)
    total = sum(known.ticks.values())
    assert found.objective == known.ticks[longest]
    named = [s for s in told(found, "bound", "T1") if "operation" in s.figures]
    assert [s.figures["operation"] for s in named] == [instance.graph.operations[longest].name] == ["head.mm"]
    assert named[0].figures["of_average"] == pytest.approx(36 * known.ticks[longest] / total)
    (unused,) = told(found, "unused")
    assert "head.mm" in unused.message
    enough = unused.figures["chips_enough"]
    assert -(-total // known.ticks[longest]) == enough == unused.figures["chips_proved_needed"]
    halved = change(found, "head.mm split in 2")
    assert halved.standing == "proved" and halved.objective == -(-known.ticks[longest] // 2)


def test_the_mapping_given_and_the_difference() -> None:
    instance = read("tiny-skip")
    one, other = RingSolution(chips=(0, 0, 1, 1, 1)), RingSolution(chips=(0, 0, 1, 2, 2))
    found = chipmap.explain(instance, one, other, OPTIONS)
    assert found.given is not None and found.given.feasible and found.difference is not None
    difference = found.difference
    assert (difference.before.objective, difference.after.objective) == (900_000, 800_000)
    assert [v.label for v in difference.after.violations] == ["C3"]
    (moved,) = difference.moved
    assert (moved.first, moved.last, moved.operations, moved.source, moved.target) == ("d", "e", 2, 1, 2)
    assert moved.figures["work_us"] == 5.0
    rows = {(r["resource"], r["quantity"]): (r["before"], r["after"]) for r in difference.resources}
    assert rows["chip 1", "work_us"] == (9.0, 4.0) and rows["chip 2", "work_us"] == (0.0, 5.0)
    assert rows["chip 2", "memory_bytes"] == (0, 4 * 32 * 1024)  # from d's producer c, and from a, twice each
    assert not chipmap.explain(instance, one, one, OPTIONS).difference.moved  # type: ignore[union-attr]


def test_a_mapping_that_is_worse_than_need_be() -> None:
    found = chipmap.explain(read("tiny-skip"), RingSolution(chips=(0, 0, 0, 0, 0)), options=OPTIONS)
    (given,) = told(found, "given")
    assert (given.figures["period_us"], given.figures["best_us"]) == (17.0, 9.0)
    assert found.objective == 900_000


def test_bad_mappings_are_refused(tmp_path: Path) -> None:
    instance = read("tiny-skip")
    with pytest.raises(InputError, match="2 entries for 5 operations"):
        chipmap.explain(instance, RingSolution(chips=(0, 0)), options=OPTIONS)
    with pytest.raises(InputError, match="chip 9; the package has chips 0 to 2"):
        chipmap.explain(instance, RingSolution(chips=(0, 0, 0, 0, 9)), options=OPTIONS)
    with pytest.raises(InputError, match="solution to compare with"):
        chipmap.explain(instance, against=RingSolution(chips=(0, 0, 0, 0, 0)), options=OPTIONS)


def test_nothing_to_compute() -> None:
    graph = OperationGraph(
        name="views",
        operations=(Operation(name="x", kind="input", role="input"), Operation(name="y", kind="view", role="view")),
        tensors=(Tensor(producer=0, readers=(1,), bytes=4),),
    )
    found = chipmap.explain(RingInstance(name="views", graph=graph), options=OPTIONS)
    assert "nothing to map" in found.statements[0].message


def test_short_of_time_says_so() -> None:
    found = chipmap.explain("ring/tiny-memory", options=SolveOptions(time_limit=1e-3))
    assert found.status == "optimal" or not any(c.standing == "proved" and c.bound is None for c in found.changes)
    assert {note.kind for note in found.notes} == {"left out"}
