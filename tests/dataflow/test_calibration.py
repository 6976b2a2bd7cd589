"""A machine from measured kernels, collectives and steps (page "A machine from measured times")."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks.calibrated_machines import CARDS, PAGE, fitted, page
from benchmarks.h100.predicted import layer_of
from benchmarks.h100.rows import read_rows as read_measured
from benchmarks.h100.rows import text_of
from chipmap.cli import main
from chipmap.instances.dataflow.equipping import named
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.machine_fit import calibrated
from chipmap.instances.dataflow.machine_rows import CollectiveRow, KernelRow, Rows, StepRow, read_rows
from chipmap.instances.dataflow.machines import machine
from chipmap.records import InputError
from chipmap.validation.dataflow import facts

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kernels.csv"
PEAK, RATE, LAUNCH, MEMORY = 989_400.0, 3350.0, 2500.0, 0.8


def products() -> list[KernelRow]:
    """Products as the page's formula has them: half of the peak below 10^11 FLOP, three quarters from there on."""
    found = []
    for m in (512, 1024, 4096, 8192):
        for n in (1, 16, 256, 2048, 8192):
            flop, moved = 2 * m * n * 4096, 2 * (m * 4096 + n * 4096 + m * n)
            took = LAUNCH + max(flop / ((0.75 if flop >= 10**11 else 0.5) * PEAK), moved / (MEMORY * RATE))
            found.append(KernelRow("product", "bf16", 1, m, n, 4096, flop, moved, 0, took))
    return found


def elements() -> list[KernelRow]:
    sizes = [2**i for i in range(12, 30)]
    return [KernelRow("element", "bf16", 1, 1, 1, 1, 0, one, 0, LAUNCH + one / (MEMORY * RATE)) for one in sizes]


def test_the_fit_finds_what_kernels_are_made_of() -> None:
    rows = Rows([*products(), *elements()], [], [])
    found = calibrated(machine("h100-sxm", (1,)), rows)
    chip, memory = found.system.chip, found.system.memory
    assert chip.launch_ns == pytest.approx(LAUNCH, rel=0.01) and memory.efficiency == pytest.approx(MEMORY, rel=0.01)
    assert dict(chip.efficiency)[1e11] == pytest.approx(0.75, rel=0.02)
    assert all(one.worst < 0.05 < one.sheet_worst for one in found.errors)
    assert [(one.group, one.fitted, one.judged) for one in found.errors] == [
        ("product bf16", 15, 5),
        ("element bf16", 14, 4),
    ]


def test_one_row_that_is_far_off_changes_little() -> None:
    rows = [*products(), *elements()]
    rows[0] = rows[0]._replace(ns=50 * rows[0].ns)
    found = calibrated(machine("h100-sxm", (1,)), Rows(rows, [], [])).system
    assert found.chip.launch_ns == pytest.approx(LAUNCH, rel=0.05)


def test_blocks_are_fitted_by_shape() -> None:
    """Blocks of 128 × 128 at 0.8 of the peak on 132 units, 100 terms before each; nothing else takes time."""
    rows = []
    for m in (128, 1024, 4096, 8192):
        for n in (128, 640, 4096, 8192):
            rounds = -(-(-(-m // 128) * -(-n // 128)) // 132)
            took = rounds * 132 * 2 * 128 * 128 * (4096 + 100) / (0.8 * PEAK)
            rows.append(KernelRow("product", "bf16", 1, m, n, 4096, 2 * m * n * 4096, 1, 0, took))
    found = calibrated(machine("h100-sxm", (1,)), Rows(rows, [], []), units=132)
    assert found.system.chip.units == 132 and not found.system.chip.efficiency
    found.system.check()
    assert found.errors[0].median < 0.1 < found.errors[0].sheet_median


def test_a_kernel_takes_in_the_family_what_the_fit_says() -> None:
    """Of one machine the fit's errors are those of the family's own kernels."""
    rows = read_rows([str(EXAMPLE)])
    system = calibrated(machine("h100-sxm", (1,)), rows).system
    row = next(one for one in rows.kernels if one.kind == "product" and one.n == 4096 and one.m == 4096)
    formats = {"weight_format": "bf16", "activation_format": "bf16", "cache_format": "bf16"}
    kernels = {
        "in": {"kind": "elementwise", "M": row.k, "N": row.n},
        "product": {"kind": "gemm", "M": row.m, "K": row.k, "N": row.n, "weights": True},
    }
    told = layer_of(explicit(kernels=kernels, edges=(("in", "product"),), machine=system, utilisation=1.0, **formats))
    share = next(share for least, share in reversed(system.chip.efficiency) if least <= row.flop)
    assert told.of("product") == pytest.approx(
        (system.chip.launch_ns + max(row.flop / (share * PEAK), row.bytes / (system.memory.efficiency * RATE))) / 1000,
        rel=1e-6,
    )


def test_collectives_are_fitted_by_the_family_s_terms() -> None:
    link = machine("h100-sxm", (8,)).network[0].replace(start_ns=9000.0, latency_ns=700.0, efficiency=0.6)
    rows = []
    for ranks in (2, 4, 8):
        for size in (2**i for i in range(10, 30, 2)):
            took = float(facts.all_reduce(Fraction(size), link.replace(size=ranks), 2))
            rows.append(CollectiveRow("all_reduce", 0, ranks, size, took))
    found = calibrated(machine("h100-sxm", (8,)), Rows([], rows, [])).system.network[0]
    assert (found.start_ns, found.latency_ns, found.efficiency) == pytest.approx((9000, 700, 0.6), rel=0.02)


def test_steps_tell_a_gap_and_a_rest() -> None:
    rows = [StepRow(n, 1e6 + 10 * n, 1e6 + 10 * n + 1200 * n + 3e5) for n in (100, 200, 400)]
    found = calibrated(machine("h100-sxm", (8,)), Rows([], [], rows)).system
    assert (found.chip.launch_ns, found.step_ns) == pytest.approx((1200, 3e5), rel=0.01)
    alone = calibrated(machine("h100-sxm", (8,)), Rows([], [], rows[:1])).system
    assert (alone.chip.launch_ns, alone.step_ns) == pytest.approx((0, 4.2e5), rel=0.01)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kernel,ns\nproduct,5\n", "m is missing"),
        ("kernel,ns\nfusion,5\n", "kernel is fusion"),
        ("kernel,bytes,ns\nelement,5,0\n", "ns is 0"),
        ("kernel,bytes,ns\nelement,,7\n", "bytes is missing"),
        ("kernel,format,bytes,ns\nelement,bf17,5,7\n", "format is bf17"),
        ("collective,ranks,bytes,ns\nall_reduce,1,5,7\n", "1 ranks"),
        ("collective,bytes,ns\nreduce,5,7\n", "collective is reduce"),
        ("kernel,bytes,fetch,ns\ncached,5,6,7\n", "fetch is above bytes"),
        ("kernel,bytes,time\nelement,5,7\n", "has the columns"),
        ("kernel,bytes,ns\n", "has no rows"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_rows([str(path)])


def test_the_command_writes_a_machine_that_others_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, steps, made = tmp_path / "mine.json", tmp_path / "steps.csv", tmp_path / "made.json"
    steps.write_text("kernels,busy_ns,ns\n300,6ms,6.3ms\n600,9ms,9.5ms\n")
    given = [str(EXAMPLE), str(steps), "--system", "h100-sxm-2", "--out", str(mine)]
    assert main(["calibrate", *given]) == 0
    assert "by the data sheet" in capsys.readouterr().err
    system = named(str(mine))
    assert system.profiled and "median" in system.notes and system.step_ns > 0 and system.network[0].size == 2
    assert main(["generate", "dataflow-llama", "--set", f"machine={mine}", "--out", str(made)]) == 0
    written = json.loads(made.read_bytes())
    assert written["task"]["utilisation"] == 1 and written["system"]["step_ns"] == system.step_ns
    net = str(EXAMPLE.parent / "mine.csv")
    assert main(["convert", net, "--family", "dataflow", "--system", str(mine), "--out", str(made)]) == 0
    assert main(["calibrate", str(EXAMPLE)]) == 1
    assert "Give --system" in capsys.readouterr().err


def test_doubts_are_told() -> None:
    row = KernelRow("product", "fp4", 1, 4096, 4096, 4096, 2 * 4096**3, 3 * 2 * 4096**2, 0, 1000.0)
    found = calibrated(machine("h100-sxm", (1,)), Rows([row], [], [StepRow(5, 100.0, 90.0)]))
    notes = " ".join(found.notes)
    assert "1 row for" in notes and "1 kernel ran faster than the data sheet allows (row 1)" in notes
    assert "no peak of fp4" in notes and found.system.step_ns == 0 and found.errors[0].judged == 0
    with pytest.raises(InputError, match="units"):
        calibrated(machine("h100-sxm", (1,)), Rows([row], [], []), units=10**7)


@pytest.mark.parametrize("card", CARDS)
def test_a_shipped_machine_is_what_the_card_s_kernels_give(card: str) -> None:
    shipped, found = named(f"{card}-calibrated-1"), fitted(card).system
    assert shipped.chip.launch_ns == pytest.approx(found.chip.launch_ns, rel=0.02)
    assert shipped.memory.efficiency == pytest.approx(found.memory.efficiency, rel=0.02)
    both = (
        (shipped.chip.efficiency, found.chip.efficiency),
        (shipped.chip.attention, found.chip.attention),
        (shipped.memory.fetch_efficiency[""], found.memory.fetch_efficiency[""]),
    )
    for one, other in both:
        assert [x for line in one for x in line] == pytest.approx([x for line in other for x in line], rel=0.03)
    shipped.check()


def test_rows_of_the_second_card_are_whole() -> None:
    path = CARDS["h200"]
    rows, about = read_measured(path)
    assert text_of(rows, about) == path.read_text() and path.stat().st_size <= 150_000
    assert "H200" in about["card"] and len({row.key for row in rows}) == len(rows)


def test_the_page_is_what_the_command_makes_and_layers_are_near() -> None:
    """No layer is fitted; those of the data sheet are up to 36% too fast."""
    text = page()
    assert PAGE.read_text() == text
    worst = [line for line in text.splitlines() if line.startswith("| **worst error**")]
    shares = [float(cell.strip(" %")) for line in worst for cell in line.split("|") if "%" in cell]
    assert len(shares) == 5 and max(shares[1], shares[3], shares[4]) < 15 < 35 < min(shares[0], shares[2])
