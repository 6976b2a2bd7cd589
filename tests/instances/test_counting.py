"""Operators without a rule, formulas of one's own, what ``convert`` says of a program, and PyTorch's own counter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.family import get_family
from chipmap.inputs.reading import Conversion, convert
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.counting import Counting, amount
from chipmap.networks.importers.operators.calls import Call
from chipmap.networks.importers.reading import import_graph, summary
from chipmap.networks.importers.steps import Value
from chipmap.networks.importers.torch import count as torch_count
from chipmap.networks.importers.torch.count import Question, question
from chipmap.records import InputError, Source
from tests.instances import samples
from tests.instances.programs import TORCH, pt2

#: The program: linear (2 x 4 by 4 x 6), relu, split, mine.mix of the halves, add.
SMALL = pt2(TORCH)
#: Bytes moved: linear 32 + 96 + 24 + 48, relu 96, mix 72, add 72.
MOVED, MIXED = 200 + 96 + 72 + 72, 72


def flop_of(**options: Any) -> dict[str, int]:
    graph = import_graph("small.pt2", SMALL, **options).graph
    return {o.kind: o.flop for o in graph.operations if o.role == "compute"}


def test_an_operator_without_a_rule_is_named_with_its_share_of_bytes() -> None:
    (note,) = import_graph("small.pt2", SMALL).notes
    share = f"{100 * MIXED / MOVED:.2g}%"
    assert (
        note == f"FLOP of 1 operator not known: mine.mix (1, {share} of all bytes moved); one per element was counted"
    )


def test_what_an_operator_without_a_rule_counts() -> None:
    known = {"linear": 2 * 2 * 4 * 6, "relu": 12, "add": 6}
    assert flop_of() == flop_of(unknown="bytes") == known | {"mine.mix": 6}
    assert flop_of(unknown="zero") == known | {"mine.mix": 0}
    assert "none were counted" in import_graph("small.pt2", SMALL, unknown="zero").notes[0]
    with pytest.raises(InputError, match=r"not known: mine\.mix \(1, 16% of all bytes moved\)") as error:
        flop_of(unknown="error")
    for way in ("run_decompositions", "formulas=", "--unknown bytes", "--unknown zero"):
        assert way in error.value.remedy
    with pytest.raises(InputError, match="can't count as 'none'"):
        flop_of(unknown="none")


def test_a_formula_of_ones_own() -> None:
    """It goes before rules, sees shapes and arguments, and what it counts is known."""
    seen: list[Call] = []

    def formula(call: Call) -> int:
        seen.append(call)
        return 5 * call.result.elements

    formulas = {"mine.mix": formula, "relu": lambda call: 3 * call.operand(0).elements}
    assert flop_of(formulas=formulas) == {"linear": 96, "relu": 36, "mine.mix": 30, "add": 6}
    assert import_graph("small.pt2", SMALL, formulas=formulas, unknown="error").notes == ()
    assert [value.shape for value in seen[0].operands] == [(2, 3), (2, 3)]
    for wrong in (-1, 0.5, None):
        with pytest.raises(InputError, match=r"the formula of 'mine\.mix' gives"):
            flop_of(formulas={"mine.mix": lambda call: wrong})  # noqa: B023 (called at once)


def test_operators_count_in_programs_only() -> None:
    with pytest.raises(InputError, match="only ONNX models and PyTorch programs have operators"):
        import_graph("small.json", samples.SAMPLES["traced"], unknown="zero")


class Several:
    """What a family makes of several graphs."""

    def __init__(self, graphs: list[tuple[ImportedGraph, str]]) -> None:
        self.flop = [sum(o.flop for o in graph.graph.operations if o.role == "compute") for graph, _ in graphs]

    def check(self) -> None:
        """Accept it."""


def test_each_of_several_graphs_is_counted_so_and_told() -> None:
    family = replace(get_family("ring"), from_graph="", from_graphs=f"{__name__}:Several")
    sources = [Source("one.pt2", SMALL), Source("two.pt2", SMALL)]
    lines: list[str] = []
    made: Any = convert(sources, family, Conversion(unknown="zero", tell=lines.append))
    assert made.flop == [114, 114]
    told = [line for line in lines if "PyTorch" not in line]
    assert told == [f"{name}: 114 FLOP, 30 parameters in 2 tensors of 120 bytes" for name in ("one", "two")]
    with pytest.raises(InputError, match=r"one\.pt2.*mine\.mix"):
        convert(sources, family, Conversion(unknown="error"))


def test_what_a_program_comes_to() -> None:
    """Parameters that nothing reads aren't counted."""
    imported = import_graph("small.pt2", SMALL)
    assert imported.totals is not None
    assert (imported.totals.flop, imported.totals.numbers, imported.totals.bytes) == (120, 30, 120)
    assert summary(imported)[0] == "120 FLOP, 30 parameters in 2 tensors of 120 bytes"
    assert summary(import_graph("small.json", samples.SAMPLES["traced"])) == ["100 FLOP, parameters of 7 bytes"]


def test_convert_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "small.pt2", str(tmp_path / "out.json")
    path.write_bytes(SMALL)
    assert main(["convert", str(path), "--family", "ring", "--out", out]) == 0
    said = capsys.readouterr()
    assert "120 FLOP, 30 parameters in 2 tensors of 120 bytes" in said.err
    assert said.out == ""
    assert main(["convert", str(path), "--family", "ring", "--unknown", "error", "--out", out]) == 1
    assert "mine.mix" in capsys.readouterr().err
    assert main(["convert", out, "--unknown", "zero", "--out", out]) == 1
    assert "Leave out --unknown" in capsys.readouterr().err


def test_amounts() -> None:
    assert [amount(n) for n in (0, 999, 12_345, 10**9, 2 * 10**17)] == [
        "0 FLOP",
        "999 FLOP",
        "12.35 kFLOP",
        "1 GFLOP",
        "200 PFLOP",
    ]


def call(kind: str, *shapes: tuple[int, ...], **arguments: Any) -> Call:
    """A call whose last shape is the result's."""
    values = [Value("", shape, 32) for shape in shapes]
    return Call(kind, values[:-1], values[-1:], arguments)


@pytest.mark.parametrize(
    ("asked", "as_"),
    [
        (call("addmm", (7,), (5, 3), (3, 7), (5, 7)), Question("addmm", ((7,), (5, 3), (3, 7)), (5, 7))),
        (call("linear", (2, 5, 3), (7, 3), (7,), (2, 5, 7)), Question("mm", ((10, 3), (3, 7)), (2, 5, 7))),
        (call("matmul", (2, 5, 3), (3, 7), (2, 5, 7)), Question("mm", ((10, 3), (3, 7)), (2, 5, 7))),
        (
            call("matmul", (4, 1, 5, 3), (2, 3, 7), (4, 2, 5, 7)),
            Question("bmm", ((8, 5, 3), (8, 3, 7)), (4, 2, 5, 7)),
        ),
        (
            call("conv2d", (3, 9, 9), (6, 3, 3, 3), (6, 7, 7)),
            Question("convolution", ((1, 3, 9, 9), (6, 3, 3, 3)), (1, 6, 7, 7)),
        ),
        (
            call("convolution", (2, 4, 5, 5), (4, 3, 2, 2), (2, 3, 10, 10), transposed=True),
            Question("convolution", ((2, 4, 5, 5), (4, 3, 2, 2)), (2, 3, 10, 10), True),
        ),
        (
            call("scaled_dot_product_attention", (4, 6, 8), (4, 10, 8), (4, 10, 8), (4, 6, 8)),
            Question("_scaled_dot_product_flash_attention", ((1, 4, 6, 8), (1, 4, 10, 8), (1, 4, 10, 8)), (4, 6, 8)),
        ),
        (call("mv", (5, 3), (3,), (5,)), None),
        (call("softmax", (5, 3), (5, 3)), None),
    ],
)
def test_how_the_counter_of_torch_is_asked(asked: Call, as_: Question | None) -> None:
    assert question(asked) == as_


def test_the_counter_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_count, "find_spec", lambda name: None)
    totals = import_graph("small.pt2", SMALL).totals
    assert totals is not None
    assert torch_count.compared(totals) == []
    monkeypatch.setattr(torch_count, "find_spec", lambda name: object())
    monkeypatch.setattr(torch_count, "_ask", lambda questions: [96 for _ in questions])
    others = "24 FLOP here for others (relu 12 FLOP, mine.mix 6 FLOP, add 6 FLOP)"
    assert torch_count.compared(totals) == [f"PyTorch's counter: 96 FLOP for 1 operator, the same here; {others}"]
    monkeypatch.setattr(torch_count, "_ask", lambda questions: [90 for _ in questions])
    assert "90 FLOP for 1 operator, 96 FLOP here (linear +6 FLOP)" in torch_count.compared(totals)[0]
    monkeypatch.setattr(torch_count, "_ask", lambda questions: "it is broken")
    assert torch_count.compared(totals) == ["PyTorch's counter gives no answer: it is broken"]


def test_a_counter_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process ends with an error, or isn't there."""
    monkeypatch.setattr(torch_count, "find_spec", lambda name: object())
    totals = import_graph("small.pt2", SMALL, unknown="zero").totals
    assert totals is not None
    monkeypatch.setattr(torch_count.sys, "executable", "/nowhere/python")
    assert "gives no answer" in torch_count.compared(totals)[0]
    assert Counting() == Counting("bytes", {})


def test_the_counter_itself() -> None:
    pytest.importorskip("torch", reason="needs the extra learned")
    totals = import_graph("small.pt2", SMALL).totals
    assert totals is not None
    assert "PyTorch's counter: 96 FLOP for 1 operator, the same here" in torch_count.compared(totals)[0]
    assert torch_count.answer(Question("convolution", ((2, 4, 9, 9), (6, 2, 3, 3)), (2, 6, 7, 7))) == 2 * 588 * 18
