"""Pins from files and dicts: what is read, merged, refused; a warm start is a hint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chipmap
from chipmap.cli import main
from chipmap.inputs.pinning import pinned
from chipmap.instances.pinning import pin_counts
from chipmap.records import InputError


@pytest.fixture
def skip() -> object:
    """Five operations on three chips."""
    return chipmap.read("ring/tiny-skip")


def test_a_table_and_json_say_the_same(skip: object, tmp_path: Path) -> None:
    """A table, records in JSON, and a dict of names."""
    table, records = tmp_path / "pins.csv", tmp_path / "pins.json"
    table.write_text("name,place\nb,1\n")
    records.write_text(json.dumps({"pins": [{"operation": "b", "chip": 1}]}))
    ways = (table, str(records), {"pins": {"b": 1}}, {"b": 1}, {"b": "1"})
    made = [pinned(skip, given).instance for given in ways]  # type: ignore[arg-type]
    assert skip != made[0] and made == made[:1] * len(ways)
    assert [(one.operation, one.chip) for one in made[0].pins] == [("b", 1)]  # type: ignore[attr-defined]


def test_several_files_add_up_and_nothing_is_repeated(skip: object) -> None:
    """The fields of all, each once; what is there already changes nothing and isn't noted."""
    one, other = {"pins": {"b": 1}, "apart": [["a", "c"]]}, {"pins": {"b": 1}, "forbidden": {"c": [0]}}
    found = pinned(skip, [one, other])  # type: ignore[arg-type]
    assert len(found.instance.pins) == len(found.instance.forbidden) == len(found.instance.apart) == 1  # type: ignore[attr-defined]
    assert "bind" in found.note and not pinned(found.instance, one).note


def test_pins_alone_are_named_by_their_things() -> None:
    """Operations on devices, and kernels at tiles, without a field around them."""
    pair, plan = chipmap.read("placement/tiny-pair"), chipmap.read("wafer/tiny-chain")
    name, device = pair.graph.operations[1].name, pair.system.devices[0].name  # type: ignore[attr-defined]
    assert [one.device for one in pinned(pair, {name: device}).instance.pins] == [device]  # type: ignore[attr-defined]
    kernel = plan.kernels[0].name  # type: ignore[attr-defined]
    assert [(one.x, one.y) for one in pinned(plan, {kernel: {"x": 0, "y": 0}}).instance.pins] == [(0, 0)]  # type: ignore[attr-defined]


def test_groups_of_less_than_two_ask_nothing(skip: object) -> None:
    """They are neither pinned nor counted; a name in them must be known all the same."""
    found = pinned(skip, {"apart": [[], ["a"]], "together": [[]]})  # type: ignore[arg-type]
    assert found.instance == skip and not found.note
    assert "1 group apart" in pinned(skip, {"apart": [[], ["a", "b"]]}).note  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no operation is called 'zz'"):
        pinned(skip, {"apart": [["zz"]]})  # type: ignore[arg-type]
    holder = skip.replace(apart=((), ("a",)), together=((),))  # type: ignore[attr-defined]
    assert pin_counts(holder) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"forbiden": {"b": [0]}}, ("no field of pins is called 'forbiden'", "forbidden")),
        ({"bb": 1}, ("no operation is called 'bb'", "'b'")),
        ({"pins": {"bb": 1}}, ("no operation is called 'bb'", "'b'")),
        ({"apart": [["a", "x9"]]}, ("no operation is called 'x9'", "Use a name")),
        ({"pins": {"b": 7}}, ("there is no chip 7", "0 to 2")),
        ({"forbiden": {"b": [0]}, "pins": {}}, ("no field of pins is called 'forbiden'", "forbidden")),
        ({"pins": [{"operation": "b", "chip": 0}, {"operation": "b", "chip": 1}]}, ("chip 0 and chip 1", "Leave one")),
        ({"together": ["ab", 3]}, ("Expected", "groups of names")),
        ({"pins": 5}, ("5 names nothing", "{name: place}")),
    ],
)
def test_what_is_wrong_is_named(skip: object, given: dict[str, object], words: tuple[str, str]) -> None:
    """Unknown names with near ones, places that there aren't, two places of one thing."""
    with pytest.raises(InputError) as refused:
        pinned(skip, given)  # type: ignore[arg-type]
    assert words[0] in str(refused.value) and words[1] in str(refused.value)


def test_a_table_without_places_is_refused(skip: object, tmp_path: Path) -> None:
    """A misspelt column isn't taken for a coordinate."""
    (table := tmp_path / "pins.csv").write_text("name,plce\na,0\n")
    with pytest.raises(InputError, match="line 1: has no column of places"):
        pinned(skip, table)  # type: ignore[arg-type]


def test_a_family_without_pins_says_which_have_them() -> None:
    """Refused, with the families that take pins; or taken."""
    for name in chipmap.FAMILY_NAMES:
        family = chipmap.get_family(name)
        if not family.merge_pins:
            instance = chipmap.read(next(iter(chipmap.family.resolve(family.shipped))))
            with pytest.raises(InputError, match="ring"):
                pinned(instance, {"pins": {}})


def test_placements_that_contradict_themselves_are_bad_input() -> None:
    """Two of apart in one group of together, or pinned to one device."""
    pair = chipmap.read("placement/tiny-pair")
    one, other = [operation.name for operation in pair.graph.operations if operation.role == "compute"][:2]  # type: ignore[attr-defined]
    device = pair.system.devices[0].name  # type: ignore[attr-defined]
    for more in ({"together": [[one, other]]}, {"pins": {one: device, other: device}}):
        with pytest.raises(InputError, match="are to be apart, but"):
            pinned(pair, {"apart": [[one, other]], **more})


def test_pins_bind_and_a_warm_start_is_a_hint(tmp_path: Path) -> None:
    """The same file: with ``pin`` the objective is of what keeps to it; as a start it is completed, and said."""
    path = tmp_path / "pins.csv"
    path.write_text("name,place\nb,1\n")
    free = chipmap.solve("ring/tiny-skip", isolate=False)
    bound = chipmap.solve("ring/tiny-skip", isolate=False, pin=path)
    hinted = chipmap.solve("ring/tiny-skip", isolate=False, warm_start=str(path))
    assert bound.objective == 1_400_000 and free.objective == hinted.objective == 900_000
    assert any("pins bind" in note.text for note in bound.notes)
    assert any("the cheapest way completed it" in note.text for note in hinted.notes)
    assert bound.solution is not None and bound.solution["chips"][1] == 1


def test_an_exported_model_holds_the_pins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``export --pin`` states the pins in the model, says so, and its optimum is that of the instance with them."""
    import highspy

    table, model = tmp_path / "pins.csv", tmp_path / "skip.mps"
    table.write_text("name,place\nb,1\n")
    asked = ("export", "ring/tiny-skip", "--formulation", "ring/mip", "--to", model, "--pin", table)
    assert main([str(word) for word in asked]) == 0
    assert f"pins bind: what {table}" in capsys.readouterr().err
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(model))
    highs.run()
    assert round(highs.getInfo().objective_function_value) == 1_400_000
    highspy.Highs.resetGlobalScheduler(True)


def test_a_ring_that_can_not_keep_apart_names_c0() -> None:
    """Four operations on three chips: no mapping, by C0."""
    found = chipmap.solve("ring/tiny-skip", isolate=False, pin={"apart": [["a", "b", "c", "d"]]})
    assert found.status == "infeasible"
    assert found.infeasibility[0].labels == ("C0",)
    assert found.infeasibility[0].message == "4 operations are to be apart (a among them), there are 3 chips"
    for more in ({"together": [["a", "b"]]}, {"pins": {"a": 0, "b": 0}}):
        found = chipmap.solve("ring/tiny-skip", isolate=False, pin={"apart": [["a", "b"]], **more})
        assert found.status == "infeasible"
        assert found.infeasibility[0].message.startswith("a and b are to be apart, but ")
