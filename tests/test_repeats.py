"""What stands twice: a key of an object in JSON, a thing in a group apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import chipmap
from chipmap.inputs.reading import read
from chipmap.inputs.settings import parse
from chipmap.instances.system_files import plain_system
from chipmap.plans.jax.format import adopt
from chipmap.records import InputError
from chipmap.records.repeats import refuse_repeats


def test_a_key_that_stands_twice_is_refused_with_its_place() -> None:
    for data, place in (
        ('{"a": 1, "a": 2}', "f.json"),
        ('{"b": [{}, {"c": {"a": 1, "d": "\\"a\\":", "a": 1}}]}', "f.json: b[1].c"),
    ):
        with pytest.raises(InputError, match="has the key 'a' twice") as error:
            refuse_repeats(data, "f.json")
        assert error.value.where == place
    for data in ('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}', "{", "name,chip"):
        refuse_repeats(data, "f.json")


def doubled(folder: Path, text: str, field: str, value: str) -> Path:
    path = folder / "given.json"
    path.write_text(text.replace("{", f'{{"{field}": {value}, ', 1))
    return path


def test_instances_solutions_pins_and_systems_are_read_without_a_doubt(tmp_path: Path) -> None:
    """The file's own value comes second, and would be taken."""
    instance = read("ring/tiny-skip")
    solution = '{"schema": "ring-solution/1", "instance": "ring/tiny-skip", "chips": [0, 0, 0, 0, 0]}'
    with pytest.raises(InputError, match="'name' twice"):
        read(str(doubled(tmp_path, instance.to_json().decode(), "name", '"other"')))
    with pytest.raises(InputError, match="'chips' twice"):
        chipmap.check(instance, str(doubled(tmp_path, solution, "chips", "[1, 1, 1, 1, 1]")))
    with pytest.raises(InputError, match="'a' twice") as error:
        chipmap.solve(instance, pin=str(doubled(tmp_path, '{"pins": {"a": 1, "a": 0}}', "together", "[]")))
    assert error.value.where.endswith(": pins")
    with pytest.raises(InputError, match="'links' twice"):
        plain_system(str(doubled(tmp_path, '{"links": {}, "devices": []}', "links", "null")), "placement")


@pytest.mark.parametrize("name", ["ring/tiny-skip", "placement/tiny-pair", "multimodel/tiny-two"])
def test_nothing_is_apart_from_itself(name: str) -> None:
    instance = read(name)
    graph, models = getattr(instance, "graph", None), getattr(instance, "models", ())
    things = [f"{one.name}/{layer.name}" for one in models for layer in one.layers]
    things += [one.name for one in graph.operations if one.role == "compute"] if graph else []
    instance.replace(apart=[things[:2]]).check()  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="is to be apart from itself") as error:
        instance.replace(apart=[things[:2], [things[0]] * 2]).check()  # type: ignore[attr-defined]
    assert error.value.where == "apart[1]"


def test_settings_and_tables_of_layouts_are_read_without_a_doubt() -> None:
    """The second value would be taken without a word, and the optimum be that of another instance."""
    with pytest.raises(InputError, match="has the key 'latency_ns' twice") as error:
        chipmap.read("placement/gnmt-2-pcie", ['system.links={"latency_ns": 1, "latency_ns": 2000}'])
    assert error.value.where.startswith("--set system.links")
    with pytest.raises(InputError, match="has the key 'hop' twice"):
        parse('package={"a": {"hop": 1, "hop": 2}}')
    instance = read("dataflow/tiny-chain")
    for data in (b'{"Q": ["x", null], "Q": [null, "x"]}', b'SPECS = {"Q": P("x", None), "Q": P(None, "x")}'):
        with pytest.raises(InputError, match="has the key 'Q' twice"):
            adopt(instance, data, "specs")


def test_tables_of_a_program_that_say_nothing_of_the_plan_may_repeat_keys() -> None:
    """Only the table that is read counts: a file has others of its own."""
    data = b'NOTES = {"a": 1, "a": 2}\nSPECS = {"Q": P("x", None)}'
    with pytest.raises(InputError) as error:  # of another network: it is read that far
        adopt(read("dataflow/tiny-chain"), data, "specs")
    assert "twice" not in str(error.value) and "'Q'" in str(error.value)
