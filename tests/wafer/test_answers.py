"""The chain always answers: small fabrics by their model, others by any floorplan; shares are of the processor."""

from __future__ import annotations

from itertools import permutations
from random import Random
from types import SimpleNamespace

import pytest

from chipmap import deadline as deadlines
from chipmap import read
from chipmap.deadline import Deadline
from chipmap.formulations.wafer.options import least_time
from chipmap.instances.wafer import Fabric, Kernel, WaferInstance, WaferSolution, Weights
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.instances.wafer.shapes import shapes
from chipmap.kernels import uncompiled
from chipmap.methods.chain import Turn
from chipmap.methods.wafer.answers import answer
from chipmap.methods.wafer.chain import SMALL
from chipmap.methods.wafer.first import first
from chipmap.methods.wafer.sequences import LOWER, Sequences, anneal
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.validation.wafer.checker import check
from tests.wafer import tiny
from tests.wafer.generated import generated

#: H, W, R, S, C, K, T of four kernels whose rows never fit on 7 x 7 tiles.
FOUR = ((8, 7, 3, 3, 16, 2, 2), (14, 7, 1, 3, 2, 32, 2), (7, 8, 1, 1, 4, 2, 2), (14, 4, 1, 1, 2, 2, 2))


def four() -> WaferInstance:
    """Four kernels that only a few floorplans hold; two of them feed each other."""
    kernels = tuple(
        Kernel(name=f"k{i}", kind="conv", arguments=dict(zip("HWRSCKT", numbers, strict=True)) | {"U": 1})
        for i, numbers in enumerate(FOUR)
    )
    edges = (("k0", "k2"), ("k2", "k3"), ("k3", "k2"))
    fabric = Fabric(width=7, height=7, memory_words=1416)
    return WaferInstance(name="four", kernels=kernels, edges=edges, fabric=fabric, weights=Weights(time=1, wire=1))


STEADY = SolveOptions.make(time_limit=120.0, deterministic=True, threads=1)


def test_an_instance_whose_rows_never_fit_is_solved() -> None:
    """Seen: "unknown" though CP-SAT proves the optimum."""
    found = solve(four(), "wafer/auto", STEADY)
    assert (found.status, found.objective) == ("optimal", 8090)


@pytest.mark.parametrize("seed", [109, 147])
def test_tiny_fabrics_are_proved(seed: int) -> None:
    """Seen: three kernels whose placements were too many to try ended with a gap, and a mapping worse than the best."""
    instance = tiny.instance(Random(seed))
    found = solve(instance, "wafer/auto", STEADY)
    assert found.status == "optimal"
    assert found.objective == {109: 144, 147: 48}[seed]


def test_shares_are_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that gives a thread a fifth of its seconds, a share lasts longer, but leaves time to others."""
    clock = SimpleNamespace(wall=0.0, rate=0.2)
    fake = SimpleNamespace(monotonic=lambda: clock.wall, thread_time=lambda: clock.wall * clock.rate)
    monkeypatch.setattr(deadlines, "time", fake)
    turn = Turn(Run(four(), SolveOptions(), check), Deadline(until=100.0, patient=True))

    def lasts(part: float, rate: float) -> float:
        clock.wall, clock.rate = 0.0, rate
        share = turn.share(part).deadline
        while share.keep_going():
            clock.wall += 1.0
        return clock.wall

    assert lasts(0.2, 1.0) == 20.0
    assert lasts(0.2, 0.8) == 25.0
    assert lasts(0.2, 0.2) == 40.0
    assert lasts(0.5, 0.2) == 75.0


def test_a_link_waits_for_its_seconds_in_its_own_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread has had other seconds: for it, the clock counts."""
    clock = SimpleNamespace(monotonic=lambda: 0.0, thread_time=lambda: 50.0)
    monkeypatch.setattr(deadlines, "time", clock)
    assert Deadline(until=10.0, processor=(-1, 20.0)).seconds == 10.0
    assert Deadline(until=100.0, processor=(deadlines.threading.get_ident(), 20.0)).seconds == 0.0


@pytest.mark.parametrize("seed", [0, 12, 34, 38])
def test_first_floorplan_where_rows_never_fit(seed: int) -> None:
    """Chain, cycle, star and branches whose smallest boxes fill three quarters of the fabric."""
    instance = generated(seed)
    run = Run(instance, SolveOptions(), check)
    with uncompiled():
        first(instance, run)
    assert run.best is not None and run.best.source == "sequences at once"


@pytest.mark.parametrize("seed", range(4))
def test_the_area_at_once_is_below_the_optimum(seed: int) -> None:
    random = Random(seed)
    for _ in range(10):
        instance = tiny.instance(random, kernels=2)
        best = tiny.optimum(instance)
        run = Run(instance, SolveOptions(), check)
        first(instance, run)
        if best is not None:
            assert run.lower is not None and run.lower.value <= best[0]


@pytest.mark.parametrize("name", ["ispd2020-A", "ispd2020-T"])
def test_the_area_at_once_is_near_the_least_time(name: str) -> None:
    instance = read(f"wafer/{name}")
    assert isinstance(instance, WaferInstance)
    problem = wafer_problem(instance)
    run = Run(problem.instance, SolveOptions(), check)
    first(problem.instance, run)
    least = problem.score(least_time(problem) or 0, 0, 0)
    assert run.bounds[-1].source == "area"
    assert run.lower is not None and 0.97 * least <= run.lower.value <= least


@pytest.mark.parametrize("lower", LOWER)
def test_a_sequence_puts_boxes_above_those_before(lower: float) -> None:
    """Every floorplan of a packing that leaves nothing out is valid, at the packer's time."""
    instance = generated(1)
    problem = wafer_problem(instance)
    with uncompiled():
        packer = Sequences(problem, shapes(problem, problem.longest), problem.longest)
        packed = packer.pack(next(packer.orders()), lower)
        assert packed.left == 0
        placements = packer.placements(packed)
    assert check(instance, WaferSolution(placements=tuple(placements))).feasible


def test_annealed_sequences_place_what_an_order_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The four kernels at their longest time, from an order that never packs."""
    problem = wafer_problem(four())
    packer = Sequences(problem, shapes(problem, problem.longest), problem.longest)
    monkeypatch.setattr("chipmap.methods.wafer.sequences.LOWER", (0.5,))
    never = [list(one) for one in permutations(range(4)) if packer.pack(one, 0.5).left]
    monkeypatch.setattr(packer, "orders", lambda: iter(never[:1]))
    assert anneal(packer, 0, 0) is None
    found = anneal(packer, 0, 500)
    assert found is not None and tiny.valid(problem, WaferSolution(placements=tuple(found)))


@pytest.mark.parametrize("side", [7, 5])
def test_cpsat_answers_where_sequences_do_not(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A floorplan, or the proof that there is none."""
    monkeypatch.setattr("chipmap.methods.wafer.answers.anneal", lambda *_: None)
    instance = four().replace(fabric=Fabric(width=7, height=side, memory_words=1416))
    run = Run(instance, STEADY, check)
    run.attempt(lambda: answer(wafer_problem(instance), Turn(run, run.deadline), 0))
    assert (run.best is not None, run.proved_infeasible) == (side == 7, side == 5)


def test_the_model_of_a_small_fabric_gets_most_of_the_time_in_one_piece() -> None:
    """Seen: it had 57% of the limit at most, so that a proof of 5.4 s by CP-SAT alone wasn't made in 6 s."""
    left, pieces = 1.0, list[float]()
    for link in SMALL:
        pieces += [left * link.share] if link.name == "cpsat" else []
        left *= 1 - link.share
    assert max(pieces) > 0.7
