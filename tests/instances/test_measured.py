"""Measured times of operations: from tables and from traces, matched by name, by module and kind, or in order."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chipmap.cli import main
from chipmap.inputs.reading import Conversion, read
from chipmap.instances.measured import fingerprint, times
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.ring.instance import RingInstance
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError

NAMES = ("w", "a", "b", "c", "d")
GRAPH = OperationGraph.checked(
    "net",
    [
        Operation(name="w", kind="weights", role="constant"),
        Operation(name="a", kind="linear", flop=300),
        Operation(name="b", kind="linear", flop=100),
        Operation(name="c", kind="gelu", flop=100),
        Operation(name="d", kind="linear", flop=500),
    ],
    [Tensor(producer=v, readers=(v + 1,), bytes=8) for v in range(4)],
)
SCOPES = ("", "block", "block", "block", "head")


def table(folder: Path, text: str, name: str = "costs.csv") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def given(folder: Path, text: str, classes: tuple[str, ...] = ("",), name: str = "costs.csv") -> Any:
    return times(GRAPH, SCOPES, [table(folder, text, name)], classes)


def test_names_and_modules_say_the_same(tmp_path: Path) -> None:
    """Amounts have units, comments and other columns are left out, what computes nothing gets no time."""
    by_name = given(tmp_path, "# here\noperation,ns,samples\na,7,1;2\nb,1.5us,\n\nd,9\nw,5\n")
    by_module = given(tmp_path, "Module,Operator,NS\nblock,linear,7\nhead,linear,9\nblock,linear,1500\n")
    assert by_name.by_class == by_module.by_class == {"": (None, 7.0, 1500.0, None, 9.0)}
    assert by_name.note.endswith("not measured: 1 operation with 10% of the FLOP (c)")


def test_a_later_table_counts(tmp_path: Path) -> None:
    files = [table(tmp_path, "operation,ns\na,1\nb,2\n", "one.csv"), table(tmp_path, "operation,ns\nb,3\n", "two.csv")]
    assert times(GRAPH, SCOPES, files, ("",)).by_class[""] == (None, 1.0, 3.0, None, None)


def test_classes_have_their_own_times(tmp_path: Path) -> None:
    found = given(tmp_path, "operation,class,ns\na,gpu,1\na,cpu,5\nb,cpu,6\n", ("gpu", "cpu"))
    assert found.by_class == {"gpu": (None, 1.0, None, None, None), "cpu": (None, 5.0, 6.0, None, None)}
    assert given(tmp_path, "operation,ns\na,1\n", ("gpu",)).by_class == {"gpu": (None, 1.0, None, None, None)}


@pytest.mark.parametrize(
    ("text", "classes", "words"),
    [
        ("", ("",), "is empty"),
        ("name,ns\na,1\n", ("",), "has the columns name, ns"),
        ("operation,ns\na\n", ("",), "line 2: has no ns"),
        ("operation,ns\na,soon\n", ("",), "line 2: 'soon' is not a time"),
        ("operation,ns\na,-1\n", ("",), "is no time"),
        ("operation,ns\nbb,1\n", ("",), "line 2: no operation is called 'bb'"),
        ("module,operator,ns\nblock,linear,1\n", ("",), "the table has 1 time of 'linear' in module 'block'"),
        ("operation,class,ns\na,x,1\nb,y,1\n", ("",), "has times of the classes 'x', 'y'"),
        ("operation,ns\na,1\n", ("gpu", "cpu"), "doesn't say which class"),
        ("operation,class,ns\na,tpu,1\n", ("gpu", "cpu"), "no class of devices is called 'tpu'"),
        ("operation,graph,ns\na,0123,1\n", ("",), "was measured on another graph"),
        ("operation,ns\nw,1\n", ("",), "gives no time to any operation"),
    ],
)
def test_bad_tables_say_where_and_what(tmp_path: Path, text: str, classes: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError) as caught:
        given(tmp_path, text, classes)
    assert words in str(caught.value) and caught.value.remedy


def test_the_fingerprint_is_that_of_shapes_not_of_names_of_files(tmp_path: Path) -> None:
    assert fingerprint(GRAPH.replace(name="other", source="elsewhere")) == fingerprint(GRAPH)
    said = [*GRAPH.operations[:4], msgspec.structs.replace(GRAPH.operations[4], operands=(0, 0), order=(8, 1, 0))]
    assert fingerprint(GRAPH.replace(operations=tuple(said))) == fingerprint(GRAPH)
    larger = GRAPH.replace(tensors=(GRAPH.tensors[0].replace(bytes=16), *GRAPH.tensors[1:]))
    assert fingerprint(larger) != fingerprint(GRAPH)
    found = given(tmp_path, f"operation,graph,ns\na,{fingerprint(GRAPH)},1\nzz,{fingerprint(larger)},1\n")
    assert found.by_class == {"": (None, 1.0, None, None, None)}


def event(name: str, ts: float, dur: float, **fields: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "tid": 1, **fields}


def test_a_trace_of_two_steps(tmp_path: Path) -> None:
    """Calls inside calls don't count; the median of the steps does; a kind with too few calls has no times."""
    events = [event("aten::linear", 100 * i, dur) for i, dur in enumerate((10, 20, 30, 14, 26, 38))]
    events += [event("aten::addmm", 101, 8), event("other", 0, 5), {"ph": "M", "name": "process_name"}]
    events += [event("aten::linear", 30, 60, tid=2, cat="user_annotation")]
    found = given(tmp_path, json.dumps({"traceEvents": events}), name="trace.json")
    assert found.by_class == {"": (None, 12_000.0, 23_000.0, None, 34_000.0)}
    assert given(tmp_path, json.dumps([*events, event("aten::gelu", 900, 2)])).by_class[""][3] is None
    twice = [event("aten::gelu", 900, 2), event("aten::gelu", 950, 4)]
    told = given(tmp_path, json.dumps([*events, *twice]), name="trace.json")
    assert told.by_class[""][3] == 3_000.0 and "trace.json (2 steps)" in told.note


def shaped(name: str, ts: float, dur: float, *shapes: list[int]) -> dict[str, Any]:
    return event(name, ts, dur, args={"Input Dims": [*shapes, []], "Input type": ["float"] * len(shapes) + ["Scalar"]})


def test_only_the_forward_pass_counts(tmp_path: Path) -> None:
    """What a backward pass, an optimiser or an operator of a package calls is no call of the network's own."""
    graph = OperationGraph(
        name="net",
        operations=(
            Operation(name="x", kind="input", role="input"),
            Operation(name="d", kind="div", flop=1),
            Operation(name="s", kind="mylib.scale", flop=1),
            Operation(name="m", kind="mul", flop=1),
        ),
    )
    step = [
        event("aten::div", 0, 5),
        event("mylib::scale", 10, 9),
        event("aten::mul", 11, 7),
        event("aten::mul_", 20, 3),
    ]
    others = [
        event("autograd::engine::evaluate_function: DivBackward0", 40, 20),
        event("DivBackward0", 41, 18),
        event("aten::div", 42, 15),
        event("Optimizer.step#SGD.step", 70, 20, cat="user_annotation"),
        event("aten::mul_", 71, 15),
        event("aten::mul_", 87, 2),
        event("unknown::wrapper", 95, 1),
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([*step, *others]))
    found = times(graph, (), [str(path)], ("",))
    assert found.by_class == {"": (None, 5_000.0, 9_000.0, 3_000.0)}
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert times(graph, (), [str(path)], ("",)) == found
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match="is cut off"):
        times(graph, (), [str(path)], ("",))


def test_calls_with_operands_of_other_sizes_do_not_count(tmp_path: Path) -> None:
    """A trace of another batch is refused, though weights agree; a single strange call leaves its operation without."""
    tensors = (Tensor(producer=0, readers=(1, 2, 3), bytes=64), Tensor(producer=4, readers=(1,), bytes=16))
    operations = (
        Operation(name="x", kind="input", role="input"),
        *(Operation(name=name, kind="linear", flop=1) for name in "abc"),
        Operation(name="w", kind="parameter", role="constant"),
    )
    graph, path = OperationGraph(name="net", operations=operations, tensors=tensors), tmp_path / "trace.json"
    fit, twice = [[4, 4], [4]], [[8, 4], [4]]
    for shapes, expected in (
        ([fit, fit, fit], (1_000.0, 2_000.0, 3_000.0)),
        ([fit, twice, fit], (1_000.0, None, 3_000.0)),
    ):
        calls = [shaped("aten::linear", 10 * i, i + 1.0, *of_i) for i, of_i in enumerate(shapes)]
        path.write_text(json.dumps(calls))
        assert times(graph, (), [str(path)], ("",)).by_class[""][1:4] == expected
    calls = [shaped("aten::linear", 10 * i, i + 1.0, *twice) for i in range(3)]
    path.write_text(json.dumps(calls))
    with pytest.raises(InputError, match="other shapes: a reads 64 bytes here, its call there 128, 16"):
        times(graph, (), [str(path)], ("",))


def test_a_trace_names_no_class(tmp_path: Path) -> None:
    """Where devices differ, the remedy asks for a table and not for a column of the trace."""
    calls = [event("aten::linear", 100 * i, 10) for i in range(3)]
    with pytest.raises(InputError, match="which class of devices") as caught:
        given(tmp_path, json.dumps(calls), ("gpu", "cpu"))
    assert caught.value.remedy == "Give a table with a column class: a trace has none. Classes here: gpu, cpu."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("{}", "is no Chrome trace"),
        ("[]", "has no calls"),
        (json.dumps([event("aten::linear", 0, 1), {"ph": "X", "cat": "kernel"}]), "has kernels of a GPU"),
        (json.dumps([{"ph": "X", "cat": "cpu_op", "name": "aten::linear"}]), "has no ts or dur"),
    ],
)
def test_bad_traces(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        given(tmp_path, text)
    assert words in str(caught.value) and caught.value.remedy


def test_families_take_them(tmp_path: Path) -> None:
    """An instance of `ring` by its file, one of `placement` by a graph; the checker charges what was measured."""
    graph = table(tmp_path, "name,flop,bytes,inputs\na,1e6,8,\nb,2e6,8,a\n", "net.csv")
    costs = table(tmp_path, "operation,ns\na,123000\n")
    equipped = Conversion(equipment={"costs": [costs]})
    ring, placed = (read(graph, (), family, equipped) for family in ("ring", "placement"))
    assert isinstance(ring, RingInstance) and ring.time_ns == (123_000.0, None)
    assert isinstance(placed, PlacementInstance) and list(placed.time_ns.values()) == [(123_000.0, None)]
    assert "not measured: 1 operation with 66.7% of the FLOP (b)" in ring.notes
    again = read(table(tmp_path, ring.to_json().decode(), "ring.json"), (), None, equipped)
    assert again.replace(notes="") == ring.replace(notes="")


def test_solve_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs = table(tmp_path, "operation,ns\na,123us\n")
    assert main(["solve", "ring/tiny-chain", "--costs", costs, "--quiet", "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["status"], row["objective"]) == ("optimal", 123.0)
    assert main(["convert", "wafer/tiny-chain", "--system", "p100-pcie-4"]) == 1
    assert main(["convert", "ring/tiny-chain", "--system", "p100-pcie-4"]) == 1
    said = capsys.readouterr().err
    assert "has a fabric, no system" in said and "has a package, no system" in said
