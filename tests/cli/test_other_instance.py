"""A solution that names another instance: no command takes it without a word, in any family."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chipmap.family import FAMILY_NAMES
from chipmap.inputs.reading import read, shipped_names
from chipmap.solve import solve
from tests.cli.conftest import Command


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_what_names_another_instance_is_refused(name: str, tmp_path: Path, chipmap: Command) -> None:
    instance = read(next(one for one in shipped_names() if one.startswith(f"{name}/tiny")))
    result = solve(instance)
    twin, whole, bare, own = (tmp_path / f"{one}.json" for one in ("twin", "result", "bare", "own"))
    twin.write_bytes(instance.replace(name="twin").to_json())
    own.write_bytes(instance.to_json())
    whole.write_bytes(result.to_json())
    assert result.solution is not None
    bare.write_text(json.dumps(result.solution | {"instance_hash": result.instance_hash}))
    picture = tmp_path / "plot.svg"
    for given in (whole, bare):
        for command in (("plot", "--out", picture), ("check",)):
            done = chipmap(command[0], twin, given, *command[1:])
            told = done.out if (command[0], given) == ("check", whole) else done.err
            assert done.code != 0
            assert "of another instance: its hash begins with " + instance.content_hash[:12] in told
    assert not picture.exists()
    assert chipmap("check", own, bare).code == 0
    assert chipmap("check", twin, bare, "--set", "name=other").code == 0  # a change of one's own is no mistake
