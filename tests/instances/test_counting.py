"""Operators without a rule, formulas of one's own, what ``convert`` says of a program, and PyTorch's own counter."""

from __future__ import annotations

import dataclasses
import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.family import get_family
from chipmap.inputs.reading import Conversion, convert
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.counting import Counting, Totals, amount
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
    assert told == [
        f"{name}: 114 FLOP, 24 parameters in 1 tensor of 96 bytes; 6 numbers in 1 buffer of 24 bytes"
        for name in ("one", "two")
    ]
    with pytest.raises(InputError, match=r"one\.pt2.*mine\.mix"):
        convert(sources, family, Conversion(unknown="error"))


def test_what_a_program_comes_to() -> None:
    """Parameters that nothing reads aren't counted."""
    imported = import_graph("small.pt2", SMALL)
    assert imported.totals is not None
    assert (imported.totals.flop, imported.totals.numbers, imported.totals.bytes) == (120, 24, 96)
    assert summary(imported)[0] == "120 FLOP, 24 parameters in 1 tensor of 96 bytes; 6 numbers in 1 buffer of 24 bytes"
    assert summary(import_graph("small.json", samples.SAMPLES["traced"])) == ["100 FLOP, parameters of 7 bytes"]


def test_convert_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "small.pt2", str(tmp_path / "out.json")
    path.write_bytes(SMALL)
    assert main(["convert", str(path), "--family", "ring", "--out", out]) == 0
    said = capsys.readouterr()
    assert "120 FLOP, 24 parameters in 1 tensor of 96 bytes; 6 numbers in 1 buffer of 24 bytes" in said.err
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


def test_parameters_are_those_of_the_model() -> None:
    """Buffers, and what of both is stored, stand beside them; the file's own signature says which are which."""
    for name, buffers in (("resnet-plain", 24), ("bert-plain", 2), ("convnext-plain", 0)):
        path = Path(__file__).parent / "zoo" / f"{name}.pt2"
        with zipfile.ZipFile(path) as packed:
            found = next(one for one in packed.namelist() if one.endswith("models/model.json"))
            graph = json.loads(packed.read(found))["graph_module"]
        held = [s["parameter"]["arg"]["name"] for s in graph["signature"]["input_specs"] if "parameter" in s]
        shapes = graph["graph"]["tensor_values"]
        numbers = sum(math.prod(size["as_int"] for size in shapes[one]["sizes"]) for one in held)
        said = summary(import_graph(str(path)))[0]
        assert f"{numbers:,} parameters in {len(held)} tensors" in said
        assert (f"in {buffers} buffers of" in said) is bool(buffers)
    bert = import_graph(str(Path(__file__).parent / "zoo" / "bert-plain.pt2")).totals
    assert bert is not None and bert.buffers == (32, 256, 2)
    assert bert.stored == 79_168, "all parameters, and 64 of the 256 bytes of buffers"


def test_what_the_counter_of_torch_counts_besides(monkeypatch: pytest.MonkeyPatch) -> None:
    """An einsum, and products of constants: PyTorch's counter sees what these become, its formulas alone don't."""
    monkeypatch.setattr(torch_count, "find_spec", lambda name: object())
    monkeypatch.setattr(torch_count, "_ask", lambda questions: [60 for _ in questions])
    product, einsum = call("mm", (5, 3), (3, 2), (5, 2)), call("einsum", (5, 3), (3, 2), (5, 2))
    plain = Totals(flop=60, numbers=6, bytes=24, tensors=1, calls=((product, 60),))
    assert torch_count.compared(plain) == ["PyTorch's counter: 60 FLOP for 1 operator, the same here"]
    besides = dataclasses.replace(plain, calls=((product, 60), (einsum, 60)), beforehand=(product, product))
    said = torch_count.compared(besides)[0]
    assert said.startswith("PyTorch's formulas (FlopCounterMode counts these too: 1 einsum, 2 mm): 60 FLOP for 1 op")
