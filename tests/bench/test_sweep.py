"""Sweeps: their points, the shipped ones, and what is said of bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chipmap.bench.sweep import Axis, AxisChoice, Sweep, families_of, points, read_sweep, shipped_sweeps
from chipmap.records import InputError
from tests.bench.samples import PLAIN, tiny


def test_points_are_all_combinations() -> None:
    found = points(tiny())
    assert [tuple(point.labels.values()) for point in found][:3] == [
        ("50000", "100.0"), ("50000", "200.0"), ("150000", "100.0"),
    ]  # fmt: skip
    assert len(found) == 6 and len({point.key for point in found}) == 6
    instance: Any = found[3].build()
    assert (instance.system.chip.sram_bytes, instance.system.memory.bytes_per_ns) == (150_000, 200.0)


def test_methods_and_seeds_multiply() -> None:
    found = points(tiny(methods=["dataflow/auto", "dataflow/mip"], seeds=[0, 1]))
    assert len(found) == 24 and len({point.key for point in found}) == 24
    assert list(found[1].labels) == ["sram", "memory", "method", "seed"]


def test_a_key_is_what_is_solved_not_what_it_is_called() -> None:
    renamed = points(tiny(name="other", time_limit_s=5.0, axes=[{**axis, "name": axis["name"] * 2} for axis in AXES]))
    assert [point.key for point in renamed] == [point.key for point in points(tiny())]


AXES: list[dict[str, Any]] = PLAIN["axes"]


def test_choices_give_generators_and_override() -> None:
    sweep = Sweep.make(
        name="x",
        generator="dataflow-gpt",
        parameters={"hidden": 512, "heads": 8, "layers": 4, "batch": 8, "sizes": [4]},
        axes=[
            {"name": "what", "choices": [
                {"label": "small"},
                {"label": "tiny", "parameters": {"layers": 2}, "set": {"system.chip.ghz": 2.0}},
                {"label": "fft", "instance": "dataflow/tiny-chain"},
            ]},
        ],
    )  # fmt: skip
    with pytest.raises(InputError, match="an instance takes no parameters"):
        points(sweep)
    sweep = sweep.replace(axes=[{"name": "what", "choices": [one.replace() for one in sweep.axes[0].choices[:2]]}])
    small, little = [point.build() for point in points(sweep)]  # type: ignore[misc]
    assert (small.workload.layers, little.workload.layers, little.system.chip.ghz) == (4, 2, 2.0)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(shipped_sweeps()))
def test_every_point_of_a_shipped_sweep_can_be_made(name: str) -> None:
    found = points(read_sweep(name))
    assert len({tuple(point.labels.values()) for point in found}) == len(found)
    for point in found[:: max(1, len(found) // 20)]:
        point.build()


def test_the_80_systems() -> None:
    found = points(read_sweep("dataflow/dse-80"))
    assert len(found) == 320
    systems = set()
    for point in found[:80]:
        instance: Any = point.build()
        assert instance.system.chips == 1024
        systems.add(json.dumps(point.labels | {"workload": ""}))
    assert len(systems) == 80
    physical = points(read_sweep("dataflow/dse-80", ["parameters.mode=physical"]))[::40]
    assert {getattr(point.build(), "mode") for point in physical} == {"physical"}  # noqa: B009 - any record's


BAD: list[tuple[dict[str, Any], str]] = [
    ({"axes": [{"name": "a"}]}, "must have choices, or values"),
    ({"axes": [{"name": "a", "path": "x", "parameter": "y", "values": [1]}]}, "must have choices, or values"),
    ({"axes": [AXES[0], AXES[0]]}, "same name"),
    ({"axes": [{"name": "a", "path": "task.batch", "values": [4, 4]}]}, "has '4' twice"),
    ({"axes": [{"name": str(i), "path": "x", "values": list(range(100))} for i in range(4)]}, "100,000,000 points"),
    ({"instance": None}, "needs a generator or an instance"),
    ({"generator": "dataflow-gpt"}, "needs a generator or an instance"),
    ({"instance": None, "generator": "no"}, "no generator is called 'no'"),
    ({"time_limit_s": 0}, "time_limit_s: is 0"),
    ({"seeds": []}, "seeds: must name"),
    ({"methods": ["dataflow/aut"]}, r"no method is called 'dataflow/aut'\n  Did you mean dataflow/auto"),
    ({"methods": ["dataflow/auto", "dataflow/auto"]}, "'dataflow/auto' is named twice"),
    ({"colour": 1}, "there is no field 'colour'"),
    ({"schema": "sweep/9"}, "is no sweep"),
]


@pytest.mark.parametrize(("change", "words"), BAD, ids=[words for _, words in BAD])
def test_bad_sweeps_are_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(PLAIN | change))
    with pytest.raises(InputError, match=words):
        read_sweep(str(path))


def test_bad_files_and_names(tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    path.write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        read_sweep(str(path))
    with pytest.raises(InputError, match="Did you mean dataflow/dse-80"):
        read_sweep("dataflow/dse-8")


def test_a_bad_point_is_named() -> None:
    point = points(tiny(axes=[{"name": "a", "path": "system.chip.colour", "values": ["red"]}]))[0]
    with pytest.raises(InputError, match=r"red: .*no field 'colour'"):
        point.build()
    with pytest.raises(InputError, match=r"^dataflow/none: no such file"):
        points(tiny(instance="dataflow/none", axes=[]))[0].build()


def test_families_are_told_by_names() -> None:
    """What is compiled before the first point: shipped names and generators say it, files don't."""
    named = {"instance": "ring/tiny-skip"}, {"generator": "wafer-fc", "instance": None}, {"instance": "mine.json"}
    todo = [points(tiny(axes=[]))[0].replace(**fields) for fields in named]
    assert [family.name for family in families_of(todo)] == ["ring", "wafer"]


class Compared(str):
    """A text that counts how often it is compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()


def test_many_labels_are_told_apart_in_linear_time() -> None:
    labels = [Compared(f"choice {i}") for i in range(2_000)]
    Axis(name="many", choices=tuple(AxisChoice(label=label) for label in labels)).check("axes[0]")
    assert Compared.times < 10 * len(labels)
    with pytest.raises(InputError, match="has 'choice 7' twice"):
        Axis(name="many", choices=tuple(AxisChoice(label=label) for label in (*labels, "choice 7"))).check("axes[0]")
