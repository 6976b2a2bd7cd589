"""From what people write to records: amounts, settings, mappings by name, graphs, archives. Nothing is solved."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

import chipmap
from chipmap import archive
from chipmap.family import get_family
from chipmap.inputs import settings
from chipmap.inputs.by_name import segments
from chipmap.inputs.graphs import from_networkx
from chipmap.inputs.plain import instance_of, solution_of
from chipmap.inputs.reading import decode, read
from chipmap.inputs.solutions import read_solution
from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution, Piece
from chipmap.instances.ring.instance import RingInstance
from chipmap.records import InputError, amounts
from chipmap.records.quantities import in_bytes, size
from chipmap.run import SolveOptions
from chipmap.solve import solve, with_changes


def test_amounts_in_fields() -> None:
    for text, name, number in (
        ("2KiB", "sram_bytes", 2048),
        ("3MiB", "sram_bytes", 3 * 1024**2),
        ("2kB", "sram_bytes", 2000),
        ("5%", "efficiency", Fraction(1, 20)),
        ("1us", "hop_ns", 1000),
        ("32GB/s", "link_bytes_per_ns", 32),
        ("4MB/ms", "link_bytes_per_ns", 4),
        ("1,500", "chips", 1500),
        ("2k", "chips", 2000),
        ("2Mi", "sram_bytes", 2 * 1024**2),
        ("3 \N{GREEK SMALL LETTER MU}s", "hop_ns", 3000),
    ):
        assert amounts.in_field(text, name, "here") == number, text
    assert amounts.scalar("1e3", "1e3", "chips", "here", integer=True) == 1000
    for text, name in (
        ("1k", "hop_ns"),
        ("1k", "sram_mib"),
        ("1us", "sram_bytes"),
        ("1B", "link_bytes_per_ns"),
        ("1B", "chips"),
    ):
        with pytest.raises(InputError, match=r"fit|has none that is known"):
            amounts.in_field(text, name, "here")
    for text, name, better in (("1,5 MiB", "sram_bytes", "1.5 MiB"), ("80,25", "hop_ns", "80.25")):
        with pytest.raises(InputError, match=f"has a decimal comma\n  Write {better}."):
            amounts.in_field(text, name, "here")
    for text in ("1.5", "5%"):
        with pytest.raises(InputError, match="not a whole number"):
            amounts.scalar(text, text, "chips", "here", integer=True)


def test_settings_of_lists() -> None:
    instance = read("ring/tiny-skip", ["constraints=C1,C2"])
    assert isinstance(instance, RingInstance) and instance.constraints == ("C1", "C2")
    plain = {"pins": [{"operation": "a", "chip": 0}]}
    settings.apply(plain, RingInstance, ["pins.0.chip=2"])
    assert plain["pins"][0]["chip"] == 2
    for setting, said in (
        ("pins.1.chip=2", "no item '1'"),
        ('constraints=["C1","C9"]', "'C9' is no value of constraints"),
        ("pins.0.chip=1.5", "not a whole number"),
    ):
        with pytest.raises(InputError, match=said):
            settings.apply(plain, RingInstance, [setting])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_plain_data_with_what_is_no_number_is_refused(value: float) -> None:
    """JSON would have null there: links without a rate, or times by the roofline."""
    plain = msgspec.to_builtins(read("ring/tiny-skip"))
    plain["package"]["link_bytes_per_ns"] = value
    with pytest.raises(InputError, match=r"package\.link_bytes_per_ns: is (nan|inf)"):
        instance_of(plain)
    plain["package"]["link_bytes_per_ns"], plain["time_ns"] = None, [1.0, value, 1.0, 1.0, 1.0]
    with pytest.raises(InputError, match=r"time_ns\[1\]: is (nan|inf)"):
        instance_of(plain)


def test_a_start_is_a_name_or_a_file() -> None:
    assert with_changes(SolveOptions(), {"warm_start": Path("runs/first")}).warm_start == str(Path("runs/first"))
    with pytest.raises(InputError, match=r"warm_start: is a dict\n +Give a name or a file"):
        with_changes(SolveOptions(), {"warm_start": {"a": 0}})


def test_mappings_by_name_name_every_operation_once() -> None:
    instance = read("ring/tiny-skip")
    assert isinstance(instance, RingInstance)
    family, names = get_family("ring"), [one.name for one in instance.graph.operations]
    given: dict[str, Any] = {name: i % 2 for i, name in enumerate(names)}
    assert solution_of(given, family, instance) == solution_of(list(given.values()), family, instance)
    with pytest.raises(InputError, match=f"says nothing of operation {names[-1]!r}"):
        solution_of(dict.fromkeys(names[:-1], 0), family, instance)
    with pytest.raises(InputError, match="no operation is called 'nobody'"):
        solution_of({**given, "nobody": 1}, family, instance)


def test_segments_by_name_are_in_the_order_of_layers() -> None:
    instance = read("multimodel/tiny-pipeline")
    assert isinstance(instance, MultiInstance)
    model, chiplets = instance.models[0], instance.module.chiplets
    pieces = [Piece(model=model.name, first=i, last=i, chiplet=chiplets[i % 3].name) for i in range(4)]
    windows = ((pieces[1], pieces[0]), (pieces[3], pieces[2]))
    found = segments(instance, MultiSolution(windows=windows))[model.name]
    assert [one["first_layer"] for one in found] == [layer.name for layer in model.layers]
    assert [one["window"] for one in found] == [0, 0, 1, 1]


class Graph:
    """As much of networkx as is asked for."""

    name = "g"

    def __init__(self, directed: bool) -> None:
        self.directed = directed

    def is_directed(self) -> bool:
        return self.directed

    def nodes(self, data: bool) -> list[tuple[str, dict[str, Any]]]:
        return [("a", {"flop": 5, "bytes": 3}), ("b", {"flop": 7})]

    def edges(self, data: bool) -> list[tuple[str, str, dict[str, Any]]]:
        return [("a", "b", {})]


def test_graphs_have_directions() -> None:
    instance = from_networkx(Graph(True), family="ring")
    assert isinstance(instance, RingInstance) and instance.graph.tensors[0].readers == (1,)
    with pytest.raises(InputError, match="no direction"):
        from_networkx(Graph(False), family="ring")


def test_solutions_of_another_instance_are_refused(tmp_path: Path) -> None:
    result = solve("ring/tiny-skip", isolate=False, options=SolveOptions(threads=1))
    instance, folder = read("ring/tiny-skip"), tmp_path / "run"
    writer = archive.Writer(folder)
    archive.finish(writer, result, instance)
    family = get_family("ring")
    assert read_solution(folder, family, instance, of_this=True).to_json()
    other = read("ring/tiny-skip", ["package.hop_ns=7"])
    for source in (folder, folder / "solution.json", folder / "result.json"):
        with pytest.raises(InputError, match="is of another instance"):
            read_solution(source, family, other, of_this=True)


def test_other_versions_of_a_schema_are_refused() -> None:
    data = read("ring/tiny-skip").to_json()
    assert decode(data, "here") == read("ring/tiny-skip")
    with pytest.raises(InputError, match="not the version that this chipmap reads"):
        decode(data.replace(b'"ring/1"', b'"ring/9"'), "here")


def test_the_name_of_a_shipped_instance_stands_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an archive of a changed instance lies under that name; a path leads to the archive."""
    monkeypatch.chdir(tmp_path)
    shipped = chipmap.read("ring/tiny-skip")
    changed = shipped.replace(notes="changed")  # type: ignore[attr-defined]
    (folder := Path("ring/tiny-skip")).parent.mkdir()
    result = chipmap.solve(changed, isolate=False)
    archive.finish(archive.Writer(folder), result, changed)
    assert chipmap.read("ring/tiny-skip") == shipped
    assert chipmap.read("./ring/tiny-skip") == chipmap.read(folder) == changed
    assert chipmap.read("ring/tiny-skip/instance.json") == changed


def test_one_byte_is_one_byte() -> None:
    """Amounts in words."""
    assert (in_bytes(1), in_bytes(2), size(1), size(0)) == ("1 byte", "2 bytes", "1 byte", "0 bytes")
    assert in_bytes(2**21) == "2,097,152 bytes (2 MiB)"
