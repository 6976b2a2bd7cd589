"""The checker of family wafer: every label, hand-made figures, and the fast evaluation on random floorplans."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.wafer import Placement, WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import evaluate, memory_k, size, wafer_problem
from chipmap.records import InputError
from chipmap.solve import check as check_by_name
from chipmap.validation.wafer import checker as wafer
from chipmap.validation.wafer.checker import check
from chipmap.validation.wafer.facts import Conv
from tests.wafer.random_instances import A, B, made, tiny_instance

PAIR = made(20, 12, "xa ab ab", {"x": {"kind": "input"}, "a": A, "b": B}, wire_weight=3, adapter_weight=7)


def at(kernel: str, x: int, y: int, h: int = 1, w: int = 1, c: int = 1, k: int = 1, rotated: bool = False) -> Placement:
    return Placement(kernel=kernel, h=h, w=w, c=(c,), k=(k,), x=x, y=y, rotated=rotated)


def plan(*placements: Placement) -> WaferSolution:
    return WaferSolution(placements=placements)


def labels(instance: WaferInstance, *placements: Placement) -> set[str]:
    certificate = check(instance, plan(*placements))
    assert certificate.feasible == (not certificate.violations)
    assert all(violation.amount > 0 and violation.message for violation in certificate.violations)
    return {violation.label for violation in certificate.violations}


def test_a_floorplan_by_hand() -> None:
    """a: 2 x 1 of 4 x 4 tiles, c = 3, k = 2; b rotated."""
    certificate = check(PAIR, plan(at("b", 6, 0, k=2, rotated=True), at("a", 0, 0, h=2, c=3, k=2)))
    assert certificate.feasible
    # a: 6 wide, 2 · 1 · 4 = 8 high, time 2 · 4 · 2 · 2 = 32; b: 2 wide, 6 high, time 2 · 2 · 8 · 1 = 32
    # centres (3, 4) and (7, 3): 5 tiles on each of two edges; h and c differ on each
    assert certificate.figures["max_time"] == 32
    assert certificate.figures["wire_length"] == 10
    assert certificate.figures["adapters"] == 4
    assert certificate.figures["fill"] == (48 + 12) / 240
    assert certificate.figures["least_busy"] == 1
    assert certificate.figures["max_words"] == pytest.approx(16 / 6 + 64 / 4)
    assert certificate.terms == {"T1": 4 * 32, "T2": 4 * 3 * 10, "T3": 4 * 7 * 4}
    assert certificate.objective == 4 * (32 + 30 + 28)


def test_time_and_memory_by_hand() -> None:
    conv = Conv(7, 9, 3, 2, 5, 11, 2)
    assert conv.ticks(2, 4, 3, 5) == 4 * 4 * 3 * 2 * 3 * 6 / 4
    assert Conv(7, 9, 3, 2, 5, 11, 3).ticks(7, 9, 5, 11) == 3  # 4 · 6 / 9, rounded up
    assert conv.words(2, 4, 3, 5) == Fraction(5, 3) * Fraction(11, 5) * 6 + Fraction(10, 4) * Fraction(9, 2) * Fraction(
        11, 5
    )


def test_the_protocols() -> None:
    placements = plan(at("a", 0, 0, c=3, k=2), at("b", 6, 0, c=2))
    assert check(PAIR, placements).figures["adapters"] == 2
    assert check(PAIR.replace(protocol="min_c_k"), placements).figures["adapters"] == 0


def test_c0_wants_one_placement_with_arguments_per_kernel() -> None:
    a, b = at("a", 0, 0), at("b", 3, 0)
    assert labels(PAIR, a, b) == set()
    assert labels(PAIR, a) == labels(PAIR, a, b, b) == labels(PAIR, a, b, at("x", 9, 9)) == {"C0"}
    assert labels(PAIR, a, b, at("stranger", 9, 9)) == {"C0"}
    for wrong in (at("b", 3, 0, h=0), at("b", 3, 0, k=-1), at("b", 3, 0, c=10**10), at("b", 10**400, 0)):
        assert labels(PAIR, a, wrong) == {"C0"}
    for c, k in (((1, 1), (1,)), ((1,), ()), ((), (1,))):
        assert labels(PAIR, a, Placement(kernel="b", h=1, w=1, c=c, k=k, x=3, y=0)) == {"C0"}
    certificate = check(PAIR, plan(a))
    assert (certificate.objective, certificate.terms) == (None, {})


@pytest.mark.parametrize(
    ("b", "inside"),
    [
        (at("b", 17, 10), True),
        (at("b", 18, 10), False),
        (at("b", 17, 11), False),
        (at("b", -1, 3), False),
        (at("b", 5, -2), False),
        (at("b", 18, 9, rotated=True), True),
        (at("b", 17, 10, rotated=True), False),
    ],
)
def test_c1_is_the_fabric(b: Placement, inside: bool) -> None:
    assert labels(PAIR, at("a", 0, 0), b) == (set() if inside else {"C1"})


def test_c2_names_the_shared_tiles() -> None:
    assert labels(PAIR, at("a", 0, 0), at("b", 3, 0)) == labels(PAIR, at("a", 0, 0), at("b", 0, 2)) == set()
    certificate = check(PAIR, plan(at("a", 0, 0), at("b", 2, 1, k=3)))
    (found,) = certificate.violations
    assert (found.label, found.amount, found.unit) == ("C2", 1.0, "tiles")
    assert found.message == "kernels 'a' and 'b' share 1 x 1 tiles"
    assert certificate.objective is not None, "the objective stands beside the violation"


def test_c3_is_exact() -> None:
    # a with all arguments 1 needs 4 · 4 + 4 · 4 · 4 = 80 words, b 8 · 2 + 2 · 2 · 2 = 24
    assert labels(PAIR.replace(fabric=PAIR.fabric.replace(memory_words=80)), at("a", 0, 0), at("b", 3, 0)) == set()
    tight = PAIR.replace(fabric=PAIR.fabric.replace(memory_words=79))
    certificate = check(tight, plan(at("a", 0, 0), at("b", 3, 0)))
    (found,) = certificate.violations
    assert (found.label, found.amount, found.unit) == ("C3", 1.0, "words")
    assert "kernel 'a' needs 80.0 words per tile with h = 1, w = 1, c = 1, k = 1; a tile has 79" in found.message


def random_plan(instance: WaferInstance, random: Random, spread: int) -> WaferSolution:
    """Any placements: most of them overlap."""
    placements = []
    for name, convs in zip(wafer_problem(instance).names, wafer_problem(instance).convs, strict=True):
        c, k = (tuple(random.randint(1, 6) for _ in convs) for _ in "ck")
        h, w, x, y = random.randint(1, 4), random.randint(1, 4), random.randint(0, spread), random.randint(0, spread)
        placements.append(Placement(kernel=name, h=h, w=w, c=c, k=k, x=x, y=y, rotated=random.random() < 0.5))
    return WaferSolution(placements=tuple(random.sample(placements, len(placements))))


@pytest.mark.parametrize("name", ["wafer/ispd2020-E", "wafer/ispd2020-R", "wafer/ispd2020-S", "wafer/tiny-block"])
@pytest.mark.parametrize("protocol", ["c_n", "min_c_k"])
def test_the_fast_evaluation_says_the_same(name: str, protocol: str) -> None:
    instance = read(name).replace(protocol=protocol)
    assert isinstance(instance, WaferInstance)
    problem = wafer_problem(instance)
    for seed in range(10):
        solution = random_plan(instance, Random(seed), 600)
        by_name = {p.kernel: p for p in solution.placements}
        parts = evaluate(problem, [by_name[name] for name in problem.names])
        certificate = check(instance, solution)
        assert certificate.objective == parts.score
        assert certificate.figures["max_time"] * 4 == parts.time
        assert certificate.figures["wire_length"] * 2 == parts.wire
        assert certificate.figures["adapters"] == parts.adapters


def test_random_tiny_instances_with_odd_strides() -> None:
    for seed in range(200):
        random = Random(seed)
        instance = tiny_instance(random)
        problem, solution = wafer_problem(instance), random_plan(instance, random, 5)
        by_name = {p.kernel: p for p in solution.placements}
        placements = [by_name[name] for name in problem.names]
        certificate = check(instance, solution)
        assert certificate.objective == evaluate(problem, placements).score
        fits = all(
            k >= memory_k(row, p.h, p.w, c, problem.memory)
            for p, t in zip(placements, problem.types.tolist(), strict=True)
            for row, c, k in zip(problem.type_arrays[t], p.c, p.k, strict=True)
        )
        assert fits == all(violation.label != "C3" for violation in certificate.violations)


def overlaps(a: Placement, b: Placement) -> bool:
    (wa, ha), (wb, hb) = size(a), size(b)
    return a.x < b.x + wb and b.x < a.x + wa and a.y < b.y + hb and b.y < a.y + ha


@pytest.mark.parametrize("spread", [30, 200, 2000])
def test_the_sweep_finds_every_overlap(spread: int) -> None:
    instance = read("wafer/ispd2020-C")
    assert isinstance(instance, WaferInstance)
    for seed in range(5):
        solution = random_plan(instance, Random(seed), spread)
        found = [{a.kernel.name, b.kernel.name} for a, b in wafer.overlapping(wafer._placed(instance, solution))]
        ps = solution.placements
        wanted = [{a.kernel, b.kernel} for i, a in enumerate(ps) for b in ps[:i] if overlaps(a, b)]
        assert sorted(map(sorted, found)) == sorted(map(sorted, wanted))


def test_two_thousand_kernels() -> None:
    instance = read("wafer/bert-large-heads")
    assert isinstance(instance, WaferInstance)
    certificate = check(instance, random_plan(instance, Random(0), 600))
    listed = [violation for violation in certificate.violations if violation.label == "C2"]
    assert len(listed) == wafer.LISTED and certificate.objective is not None


def test_an_oracle_has_no_place_here() -> None:
    with pytest.raises(InputError, match="takes no oracle"):
        check_by_name(PAIR, plan(at("a", 0, 0), at("b", 3, 0)), oracle=lambda instance, solution: True)
