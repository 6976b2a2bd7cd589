"""A remedy that is followed leads on: those of the bad-input tests are pasted until the instance is accepted."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chipmap.inputs.reading import read
from chipmap.records import InputError
from tests.cli.conftest import CHAIN, Command
from tests.cli.test_bad_input import CHANGES, OPTIONS, SETTINGS, spoilt
from tests.cli.test_dataflow_bad_input import REFUSED
from tests.cli.test_placement_bad_input import WRONG
from tests.cli.test_placement_bad_input import spoilt as spoilt_placement

#: A step with a backward phase.
TRAINING = "dataflow/tiny-phases"
#: Remedies that are followed one after the other, at most.
MOST = 6


def place_of(where: str) -> str:
    """The dotted path of the field that an error names; "" for none."""
    place = where.removeprefix("--set ").partition("=")[0] if where.startswith("--set ") else where.split(": ")[-1]
    place = re.sub(r"\[(?:'([^']*)'|(\d+))\]", lambda found: f".{found[1] or found[2]}", place).removesuffix(":")
    return place if re.fullmatch(r"[a-z]\w*(\.\w+)*", place) else ""


def pasted(error: InputError) -> list[list[str]]:
    """What a user who reads the remedy gives to ``--set``: a list of settings for each of the ways that it names."""
    ways, place, remedy = list[list[str]](), place_of(error.where), error.remedy
    for part in re.split(r",? or (?=--set)|(?<=\.) ", remedy):
        if "--set " in part and "NAME" not in part:
            words = shlex.split(part[part.index("--set ") :])
            ways.append([words[i + 1] for i, word in enumerate(words) if word == "--set"])
    if "--set " not in remedy and "NAME" not in remedy:
        named = r"([a-z]+\.[a-z_.]+[a-z]) to (\w+)"
        for found in re.finditer(rf"{named}(?: with {named})?", remedy):
            ways.append([f"{found[i]}={found[i + 1]}" for i in (1, 3) if found[i]])
        if place:
            numbers = re.match(r"Give (?:at least |at most )?(-?[\d,.e-]*\d)(?![\d*])", remedy)
            ways += [[f"{place}={numbers[1].replace(',', '')}"]] if numbers and error.what.startswith("is ") else []
            ways += [[f"{place}={found}"] for found in re.findall(r"Choose from: (\w+)", remedy)]
            near, wrong = re.search(r"Did you mean (\w+)", remedy), re.search(r"has no field '(\w+)'", error.what)
            if near and wrong and error.where.startswith("--set "):
                ways.append([re.sub(rf"\b{wrong[1]}\b", near[1], error.where.removeprefix("--set "), count=1)])
    return ways


def leads_on(source: str, settings: list[str], seen: tuple[str, ...] = ()) -> bool | None:
    """Whether the instance is accepted with the settings, or after its remedies; None where a remedy is in words."""
    try:
        read(source, settings)
    except InputError as error:
        trouble = str(error)
        assert trouble not in seen, f"in a circle: {' / '.join((*seen, trouble))}"
        ways = pasted(error)
        if not ways or len(seen) >= MOST:
            return None
        # a remedy replaces a setting of the same path that was refused
        found = []
        for way in ways:
            paths = {one.partition("=")[0] for one in way}
            bad = error.where.removeprefix("--set ") if error.where.startswith("--set ") else None
            kept = [one for one in settings if one.partition("=")[0] not in paths and one != bad]
            found.append(leads_on(source, [*kept, *way], (*seen, trouble)))
        assert all(one is not False for one in found), trouble
        return True if any(found) else None
    return True


def followed(source: str, settings: list[str]) -> bool:
    """Whether the remedy of a refused instance is one that can be pasted; then it leads on."""
    with pytest.raises(InputError) as refused:
        read(source, settings)
    found = leads_on(source, settings)
    assert found is True or not pasted(refused.value), f"{refused.value}: leads to no instance"
    return found is True


Change = Callable[[dict[str, Any]], object]


def put(path: Path, data: dict[str, Any]) -> str:
    """The data in a file."""
    path.write_text(json.dumps(data))
    return str(path)


def test_remedies_of_wrong_fields_and_settings(tmp_path: Path) -> None:
    """Every field of ``ring`` and ``placement`` that the bad-input tests spoil, and every setting."""
    count = 0
    for i, (change, _) in enumerate(CHANGES):
        count += followed(put(tmp_path / f"{i}.json", spoilt(change)), [])
    whole = put(tmp_path / "whole.json", CHAIN)
    count += sum(followed(whole, [setting]) for setting, _ in SETTINGS)
    for name, wrong, _ in WRONG:
        (folder := tmp_path / name.replace(":", "")).mkdir()
        count += followed(str(spoilt_placement(wrong, folder)), [])
    assert count >= 20, "so many of them can be pasted"


def test_remedies_of_dataflow() -> None:
    count = sum(followed(name, list(settings)) for name, settings, _ in REFUSED)
    for settings in (["task.stages=kernels"], ["task.stages=kernels", "task.across_layers=true"]):
        count += followed(TRAINING, settings)
    degrees = 'task.degrees={"tensor":1,"pipeline":2,"dimensions":["pipeline"]}'
    network = 'system.network=[{"size":2,"bytes_per_ns":1}]'
    for settings in ([], ["task.across_layers=true"]):
        count += followed(TRAINING, [degrees, network, "workload.layers=3", *settings])
    assert count >= 9


def test_the_objective_throughput_needs_what_its_remedies_say(tmp_path: Path) -> None:
    """A step's instance, with links or with routes: the remedies lead to one for the throughput, and back."""
    plain = str(spoilt_placement(lambda _: None, tmp_path))
    assert followed(plain, ["task.objective=throughput"])
    for settings in (["task.limit_ns=5", "task.objective=throughput"], ["task.contiguous=true"]):
        assert followed(plain, settings)
    routes = [{"source": f"d{a}", "target": f"d{1 - a}", "bytes_per_ns": 2 + a, "latency_ns": 5} for a in range(2)]

    def with_routes(data: dict[str, Any]) -> None:
        data["system"].update(links=None, routes=routes)

    path = str(spoilt_placement(with_routes, tmp_path))
    assert followed(path, ["task.objective=throughput"])
    with pytest.raises(InputError) as refused:
        read(path, ["task.objective=throughput", "task.memory=none"])
    assert """--set 'system.links={"latency_ns":5.0,"bytes_per_ns":2.0}'""" in refused.value.remedy


def test_remedies_of_options(chipmap: Command, tmp_path: Path) -> None:
    """A value that an option's remedy names is taken."""
    source, count = put(tmp_path / "whole.json", CHAIN), 0
    for options, _ in OPTIONS:
        said = chipmap("solve", source, *options).err
        value = re.search(r"Choose from: (\w+)|Did you mean ([\w/]+)|(?:Give|from) (?:more than )?(\d[\d.]*)", said)
        words = re.search(r"Leave out (--\w+ \w+)", said)
        mended = [] if words else [options[0], next(filter(None, value.groups()))] if value else None
        if mended is not None and mended != [options[0], "0"]:
            done = chipmap("solve", source, *mended, "--quiet", "--time-limit", "20")
            assert done.code in (0, 5), (said, mended, done.err)
            count += 1
    assert count >= 4
