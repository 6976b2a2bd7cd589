"""What strangers type: sizes, times, lists, misspelt names, no command, no file; the completion; the help."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import chipmap as package
from chipmap.cli import COMMANDS, parser
from chipmap.cli.completion import script
from chipmap.family import FAMILY_NAMES
from chipmap.inputs.reading import shipped_names
from chipmap.records import InputError, choices, counted
from tests.cli.conftest import Command


def ring(*settings: str) -> Any:
    return package.read("ring/tiny-skip", settings)


def test_settings_take_sizes_times_and_lists() -> None:
    assert ring("package.sram_bytes=64MiB").package.sram_bytes == 64 * 2**20
    assert ring("package.sram_bytes=1e6").package.sram_bytes == 10**6
    assert ring("package.sram_bytes=1,000").package.sram_bytes == 1000
    assert ring("package.hop_ns=2us").package.hop_ns == 2000
    assert ring("package.link_bytes_per_ns=64GB/s").package.link_bytes_per_ns == 64
    assert ring("constraints=C1,C2").constraints == ("C1", "C2") == ring('constraints=["C1","C2"]').constraints
    assert ring("constraints=").constraints == ()
    assert ring("package.efficiency.matmul=50%").package.efficiency == {"matmul": 0.5}
    assert ring("name=36").name == "36"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("package.chips=1.5", "not a whole number"),
        ("package.chips=2.5e0", "not a whole number"),
        ("package.sram_bytes=3ns", "doesn't fit sram_bytes"),
        ("package.chips=64MiB", "has none that is known"),
        ("package.sram_bytes=1e400", "too large"),
        ("package.sram_bytes=-1e400", "too small\n  Give more than -"),
        ("package.chips=null", "package.chips: is null, not a whole number"),
        ("constraints=C1,C9", "'C9' is no value of constraints"),
        ("package.chps=3", "Did you mean chips"),
    ],
)
def test_what_isnt_meant_is_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ring(setting)


def test_generators_take_them_as_well(chipmap: Command) -> None:
    done = chipmap("generate", "chain", "--set", "operations=1e1", "--set", "constraints=C1,C2")
    assert done.code == 0 and done.json["constraints"] == ["C1", "C2"]
    assert len(done.json["graph"]["operations"]) == 10
    assert chipmap("convert", "ring/tiny-skip").json["name"] == "ring/tiny-skip", "standard output without --out"


def test_limits_take_units() -> None:
    read = parser().parsed
    args = read(["solve", "x", "--time-limit", "2min", "--memory-limit", "4GiB", "--seed", "1e3", "--gap", "1%"])
    assert (args.time_limit, args.memory_limit, args.seed, args.gap) == (120.0, 4 * 2**30, 1000, 0.01)
    args = read(["solve", "x", "--time-limit", "5", "--memory-limit", "0.5"])
    assert (args.time_limit, args.memory_limit) == (5.0, 2**29), "seconds and GiB, as before"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("slove ring/tiny-skip", "Did you mean solve?"),
        ("solve ring/tiny-skp", "Did you mean ring/tiny-skip"),
        ("solve x --tim-limit 3", "Did you mean --time-limit"),
        ("solve x --format jsn", "Did you mean json? Choose from: table, json, csv."),
        ("solve", "INSTANCE is missing"),
        ("solve x --seed", "--seed: needs a value"),
        ("solve x --threads two", "'two' is not a whole number"),
        ("solve ring/tiny-skip --solver cpsad", "Did you mean cpsat?"),
        ("solve ring/tiny-skip --method rng/auto", "Did you mean ring/auto?"),
        ("solve ring/tiny-skip --method ring/atuo", "Did you mean ring/auto? "),
        ("solve ring/tiny-skip --set package.sram=1", "Did you mean sram_bytes"),
        ("generate rsnet50", "Did you mean resnet50"),
        ("generate resnet50 --set chps=3", "Did you mean chips?"),
        ("generate multimodel-random --set row=3", "Did you mean rows"),
        ("info rng", "Did you mean ring"),
        ("info --schema rung", "Did you mean ring?"),
        ("bench dataflow/tabl6 --out x", "Did you mean dataflow/table6"),
        ("check a b c", "'c' is one argument too many"),
        ("explain a b --quiet c", "'c' is one argument too many"),
        ("explain a --quiet b c", "one argument too many"),
        ("solve a --quiet b --bogus", "no option is called --bogus"),
    ],
)
def test_what_may_be_meant(chipmap: Command, arguments: str, said: str) -> None:
    done = chipmap(*shlex.split(arguments))
    assert done.code == 1 and done.out == ""
    assert done.err.startswith("chipmap: ") and said in done.err
    assert "argument" not in done.err.replace("one argument too many", "")


@pytest.mark.parametrize(
    ("arguments", "name", "taken"),
    [
        ("explain a --set b=1 c", "solution", "c"),
        ("explain a --set b=1 - --quiet", "solution", "-"),
        ("solve a --time-limit 3 b --quiet c", "instances", ["a", "b", "c"]),
        ("solve a --quiet -- b", "instances", ["a", "b"]),
        ("info --family ring a", "instances", ["a"]),
    ],
)
def test_arguments_may_stand_behind_options(arguments: str, name: str, taken: object) -> None:
    assert getattr(parser().parsed(shlex.split(arguments)), name) == taken


def test_no_command_prints_the_commands(chipmap: Command) -> None:
    done = chipmap()
    assert done.code == 0
    assert all(name in done.out for name in COMMANDS)


def test_one_family(chipmap: Command) -> None:
    done = chipmap("info", "ring", "--format", "json")
    assert list(done.json) == ["ring"]
    assert "dataflow/" not in chipmap("info", "ring").out


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_figures_of_an_instance_are_told_by_every_family(chipmap: Command, name: str) -> None:
    """In words of people: nothing is called None or True."""
    tiny = next(one for one in shipped_names() if one.startswith(f"{name}/tiny-"))
    shown, figures = chipmap("info", tiny).out, chipmap("info", tiny, "--format", "json").json
    assert len(figures) > 10 and {"notes", "best_known"} <= set(figures)
    assert not re.search(r"\b(None|True|False|NoneType)\b", shown)


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_in_the_help_and_parse(chipmap: Command, name: str) -> None:
    shown = chipmap(name, "--help").out.partition("examples:\n")[2]
    lines = [line.strip() for line in shown.splitlines() if line.strip()]
    assert lines
    for line in lines:
        words = shlex.split(line.partition(" > ")[0])
        assert words[:2] == ["chipmap", name]
        assert parser().parsed(words[1:]).command == name


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["so"], "solve"),
        (["solve", "ring/tiny-sk"], "ring/tiny-skip"),
        (["solve", "--time"], "--time-limit"),
        (["solve", "--format", "c"], "csv"),
        (["bound", "--method", "ring/bo"], "ring/bounds"),
        (["bench", "dataflow/tabl"], "dataflow/table6"),
        (["generate", "densen"], "densenet121"),
        (["emit", "runs/x", "--as", "device"], "device-map"),
    ],
)
def test_completion_in_bash(tmp_path: Path, typed: list[str], found: str) -> None:
    path = tmp_path / "completion"
    path.write_text(script(parser(), "bash"))
    words = " ".join(["chipmap", *typed])
    code = f'. {path}; COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _chipmap; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found in done.stdout.split()


def test_counts_and_choices() -> None:
    assert (counted(1, "row"), counted(2, "row"), counted(0, "entry", "entries")) == ("1 row", "2 rows", "0 entries")
    assert choices("zzz", ["a"]) == "Choose from: a."
