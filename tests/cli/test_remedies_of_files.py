"""Remedies of bad files, parameters and plain data are followed as a reader follows them, until all is accepted.

One function per sentence. It has the file as it is and what the message says, place included; where a message says
that the file is cut off, or how a line reads, it has the whole file or the line by hand.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import chipmap as package
from chipmap.inputs.reading import Conversion, read
from chipmap.records import InputError
from tests.cli.conftest import Command
from tests.cli.test_multimodel_bad_input import SYSTEMS, WRONG
from tests.multimodel.test_cost_files import OWN, small
from tests.runtime.test_result import WRONG as WRONG_DATA
from tests.wafer import test_generators, test_kgraph, test_paint
from tests.wafer.samples import SMALL

#: Remedies that are followed one after the other, at most.
MOST = 6
Found = re.Match[str]
Rule = Callable[[Any, InputError, Found], Any]


def followed(given: Any, take: Callable[[Any], object], rules: dict[str, Rule]) -> list[str]:
    """Follow remedies until ``take`` accepts what is given; the messages on the way. No message comes twice."""
    seen: list[str] = []
    while True:
        try:
            take(given)
        except InputError as error:
            trouble = f"{error.where}: {error.what} | {error.remedy}"
            assert trouble not in seen, f"in a circle: {seen}"
            seen.append(trouble)
            assert len(seen) <= MOST, seen
            text = f"{error.what} | {error.remedy}"
            fits = [(rule, found) for said, rule in rules.items() if (found := re.search(said, text))]
            assert fits, f"no rule follows: {trouble}"
            rule, found = fits[0]
            given = rule(given, error, found)
        else:
            assert seen
            return seen


def cases_of(test: Any) -> list[tuple[Any, ...]]:
    """The rows of a parametrized test."""
    (mark,) = (one for one in test.pytestmark if one.name == "parametrize")
    return list(mark.args[1])


def place_in(error: InputError) -> tuple[int, int]:
    """Line and column, from 0."""
    found = re.search(r"line (\d+), column (\d+)", error.where)
    assert found, error
    return int(found[1]) - 1, int(found[2]) - 1


def at(pattern: str, to: str | Callable[[Found], str]) -> Callable[[str, InputError, Found], str]:
    """Replace what matches ``pattern`` around the place that the message names, with ``to`` ({1}: of the message)."""

    def rule(text: str, error: InputError, found: Found) -> str:
        lines = text.split("\n")
        row, column = place_in(error)
        matches = [m for m in re.finditer(pattern, lines[row]) if m.start() <= column <= m.end()]
        here = matches[-1]  # where one ends at the column and the next begins there, the next
        new = to(found) if callable(to) else to
        lines[row] = lines[row][: here.start()] + new + lines[row][here.end() :]
        return "\n".join(lines)

    return rule


def line_of(whole: str) -> Callable[[str, InputError, Found], str]:
    """Write the line as its form says: by hand, as it stands in the whole file."""

    def rule(text: str, error: InputError, found: Found) -> str:
        lines, row = text.split("\n"), place_in(error)[0]
        lines[row] = whole.split("\n")[row]
        return "\n".join(lines)

    return rule


def without_line(text: str, error: InputError, found: Found) -> str:
    lines = text.split("\n")
    del lines[place_in(error)[0]]
    return "\n".join(lines)


def ones(text: str, error: InputError, found: Found) -> str:
    """Give 1 for each side of a tensor that is 0, from the place on that the message names."""
    lines, (row, column) = text.split("\n"), place_in(error)
    lines[row] = lines[row][:column] + re.sub(r"(?<!\d)0(?!\d)", "1", lines[row][column:])
    return "\n".join(lines)


def other_type(text: str, error: InputError, found: Found) -> str:
    """The type nearest to the wrong one, of those that the remedy lists."""
    (near,) = get_close_matches(found[1], found[2].split(", "), 1)
    return at(rf"\b{found[1]}\b", near)(text, error, found)


KGRAPH: dict[str, Callable[[str, InputError, Found], str]] = {
    r"Take the whole file": lambda text, error, found: SMALL,
    r"does not give (\w+) \| It must give": at(r"\(\*", lambda found: f"(*\n{found[1]}=4"),
    r"is too large \| Give one of (\d+) digits": at(r"\d+", "128"),
    r"Give (?:a whole number from )?(\d+) to": at(r"-?[\w.]+", lambda found: found[1]),
    r"Keep one of the two": at(r"\w+=\S+", ""),
    r"Give (c_n) or": at(r"\w+", lambda found: found[1]),
    r"no kernel type '(\w+)' \| Types: (.*)\.": other_type,
    r"such as conv\[1\], is expected": at(r"\w+\[\s*\d+", "cblock[1]"),
    r"Give each its own number": at(r"\d+", "1"),
    r"Give each its own name": at(r".+", "cblock[1] F=128 H=14 W=12 name='k9'"),
    r"output '.*' has no argument n": at(r"$", " n=[7 7 32]"),
    r"has no argument ([A-Z]) \|": at(r"$", lambda found: f" {found[1]}=2"),
    r"has no argument '(.*)' \|": at(r"\w+=\S+", ""),
    r"such as H=14 or name='k1', is expected": at(r"\w+=\S+", "F=128"),
    r"split F by 4: give a multiple|halves H and W: give even numbers": line_of(SMALL),
    r"Give 1 or more": ones,
    r"Kernels come before their edges": at(r"\d+", "2"),
    r"kernel \d+ is a (\w+), not": at(r"\w+", lambda found: found[1]),
    r"Leave the edge out": without_line,
    r"An edge reads": line_of(SMALL),
}


def test_remedies_of_kernel_graphs() -> None:
    for change, to, _ in cases_of(test_kgraph.test_errors_name_line_and_column):
        followed(SMALL.replace(change, to, 1), test_kgraph.parsed, KGRAPH)


FLOORPLAN: dict[str, Callable[[str, InputError, Found], str]] = {
    r"Take the whole file|Give the instance that this floorplan is of": lambda text, error, found: test_paint.TEXT,
    r"Inputs and outputs are not placed": line_of(test_paint.TEXT),
    r"[Tt]he line reads|A line reads": line_of(test_paint.TEXT),
    r"Keep one": without_line,
}


def test_remedies_of_floorplans() -> None:
    for change, to, _ in cases_of(test_paint.test_errors_name_line_and_column):
        followed(test_paint.TEXT.replace(change, to, 1), test_paint.parsed, FLOORPLAN)


def parameter(value: Callable[[Found], Any], name: str = "") -> Callable[[Any, InputError, Found], Any]:
    """Give the parameter that the message names (or ``name``) another value."""

    def rule(given: Any, error: InputError, found: Found) -> Any:
        own = name or re.split(r"[:.] ?", error.where)[-1]
        return given[0], {**given[1], own: value(found)}

    return rule


def number_of(text: str) -> int:
    return int(text.replace(",", ""))


def conv(**arguments: Any) -> dict[str, Any]:
    return {"a": {"kind": "conv", **dict.fromkeys("HWCKRSTU", 2), **arguments}}


#: A kernel graph by hand, for the messages about ``kernels``, and what each of them says to change.
GENERATOR: dict[str, Rule] = {
    r"has no parameter '(\w+)' \| It has: (.*)\.": lambda given, error, found: (
        given[0],
        {name: value for name, value in given[1].items() if name != found[1]},
    ),
    r"Give 1 or more entries": parameter(lambda found: [2, 2]),
    r"Choose from: (\w+).*": lambda given, error, found: (
        (given[0], {"kernels": conv()})
        if "kernels" in given[1]
        else parameter(lambda found: found[1])(given, error, found)
    ),
    r"Give a multiple, such as (\d+)": parameter(lambda found: int(found[1])),
    r"times a power of 2, such as (\d+)": parameter(lambda found: int(found[1])),
    r"At most \S+ are supported: split the kernel, or": parameter(lambda found: 1000, "filters"),
    r"Give at most ([\d,]+) / 2\^stages": parameter(lambda found: number_of(found[1]) // 2**4 // 4 * 4),
    r"Give at most ([\d,]+) heads in all layers": parameter(lambda found: 1),
    r"Give at most ([\d,]+)": parameter(lambda found: number_of(found[1])),
    r"Give ([\d,]+) to": parameter(lambda found: max(number_of(found[1]), 600)),
    r"is a fraction, not a whole number": parameter(lambda found: 1),
    r"is missing|A conv needs H, W|Give at least one conv|is text, not a whole number": parameter(
        lambda found: conv(), "kernels"
    ),
}


def test_remedies_of_generators_of_wafer() -> None:
    for generator, parameters, _ in cases_of(test_generators.test_wrong_parameters_are_named):
        followed((generator, parameters), lambda given: given[0](**given[1]), GENERATOR)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def cell(value: Callable[[Found, str], str]) -> Callable[[Any, InputError, Found], Any]:
    """Replace the cell that the message quotes, in the line that it names."""

    def rule(given: tuple[Any, str], error: InputError, found: Found) -> tuple[Any, str]:
        text, options = given
        lines = rows(text)
        line = re.search(r"line (\d+)", error.where)
        row = lines[int(line[1]) - 1] if line else lines[1]
        wrong = next(i for i, one in enumerate(row) if one[:40] == found[1])
        row[wrong] = value(found, found[1])
        return "\n".join(map(",".join, lines)) + "\n", options

    return rule


def option(name: str, value: Callable[[Found], str]) -> Callable[[Any, InputError, Found], Any]:
    """Write an option behind the file's name."""

    def rule(given: tuple[Any, str], error: InputError, found: Found) -> tuple[Any, str]:
        options = dict(part.split("=") for part in given[1].split(",") if part)
        options[name] = value(found)
        return given[0], "".join(f",{key}={one}" for key, one in options.items())

    return rule


GOOD = f"{OWN}a,one,nvdla,1,1\n"


def written(text: str) -> Rule:
    """Write the file anew."""
    return lambda given, error, found: (text, given[1])


COSTS: dict[str, Rule] = {
    r"A file of costs has the columns ([\w,]+), or": lambda given, error, found: (f"{found[1]}\n", given[1]),
    r"Give a row for each layer and class|Give one for each column|Save it as (CSV in )?UTF-8": written(GOOD),
    r"stands behind it \| Give just ": lambda given, error, found: (given[0], ""),
    r"no (?:model|class of the module) is called '(\w+)' \| There are: (\w+)": lambda given, error, found: (
        option("class" if "class" in found[0] else "model", lambda found: found[2])(given, error, found)
        if error.where.startswith("--costs")
        else cell(lambda found, wrong: found[2])(given, error, found)
    ),
    r"is called '(\w+)' \| Did you mean (\w+)": cell(lambda found, wrong: found[2]),
    r"Give one row per layer and class": lambda given, error, found: (
        "\n".join(dict.fromkeys(given[0].split("\n")[:3])) + "\n",
        given[1],
    ),
    r"is '(.*)' \| Give whole ns and pJ from (\d)": cell(lambda found, wrong: found[2]),
    r"Give (0) to": lambda given, error, found: (re.sub("nan|-1", found[1], given[0]), given[1]),
    r"Give a number from (\S+) to": option("mhz", lambda found: "500"),
    r"Write --costs \S*?costs.csv(\S*),model=NAME. Models: (\w+)": lambda given, error, found: (
        given[0],
        f"{found[1]},model={found[2]}",
    ),
    r"Write --costs \S*?costs.csv(\S*)\.$": lambda given, error, found: (given[0], found[1]),
    r"leave out model": lambda given, error, found: (given[0], re.sub(r",model=\w+", "", given[1])),
    r"Give one row per layer in order, or": lambda given, error, found: (
        "\n".join(given[0].split("\n")[:3]) + "\n",
        given[1],
    ),
    r"Check mhz": option("mhz", lambda found: "1000"),
    r"a part '(\w+)' that says nothing": lambda given, error, found: (
        given[0],
        re.sub(rf",{found[1]}=\w+", "", given[1]),
    ),
}


def test_remedies_of_files_of_costs(tmp_path: Path) -> None:
    instance, path = tmp_path / "small.json", tmp_path / "costs.csv"
    instance.write_bytes(small().to_json())

    def take(given: tuple[str | bytes, str]) -> None:
        text, options = given
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        read(instance, conversion=Conversion(equipment={"costs": [f"{path}{options}"]}))

    for _, text, options, _ in WRONG:
        followed((text, options), take, COSTS)


def test_remedies_of_modules(chipmap: Command, tmp_path: Path) -> None:
    """The module of an instance, as the command prints the format of it; a class of costs; a link; a rate."""
    instance, path = tmp_path / "small.json", tmp_path / "system.json"
    instance.write_bytes(small().to_json())
    good = json.loads(small().module.to_json())

    def take(text: bytes) -> None:
        path.write_bytes(text)
        read(instance, conversion=Conversion(equipment={"system": str(path)}))

    def printed(text: bytes, error: InputError, found: Found) -> bytes:
        done = chipmap(*found[1].split()[1:])
        assert done.code == 0 and "Module" in done.out
        return json.dumps(good).encode()

    rates = {"flop_per_ns": 4096, "bytes_per_ns": 1, "pj_per_flop": 1, "pj_per_byte": 1}
    rules: dict[str, Callable[[bytes, InputError, Found], bytes]] = {
        r"`(chipmap info --schema \w+)` prints the format": printed,
        r"It is part of a (Module|Rates)|Give 1e-06 to 1e9|Write {\"class\": {": lambda text, error, found: json.dumps(
            {**good, "classes": {"a": rates}}
        ).encode(),
        r"for each class of the module": lambda text, error, found: text.replace(b"tpu", b"nvdla"),
        r"Use a name from chiplets": lambda text, error, found: text.replace(b'"c9"', b'"c1"'),
        r"there is no chiplet": lambda text, error, found: json.dumps(good).encode(),
    }
    for _, text, _ in SYSTEMS:
        followed(text, take, rules)


def test_remedies_of_settings_of_modules(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_bytes(small().to_json())
    costs = "models.0.layers.0.costs.nvdla"
    rules: dict[str, Callable[[str, InputError, Found], str]] = {
        r"Give a divisor of the batch": lambda setting, error, found: "models.0.mini_batch=2",
        r"Give (0) to|takes none but whole numbers": lambda setting, error, found: f"{costs}=[{found[1] or 1},2]",
        r"Give \[ns, pJ\] per sample": lambda setting, error, found: (
            'models.0.layers.1.costs:={"nvdla":[1,2],"shidiannao":[1,2]}'
        ),
        r"Give each a name of its own": lambda setting, error, found: "models.1.name=c",
    }
    for setting in (
        "models.0.mini_batch=3",
        f"{costs}=[-1,2]",
        f"{costs}=[1.5,2]",
        "models.0.layers.1.costs:={}",
        "models.1.name=a",
    ):
        followed(setting, lambda one: read(path, [one]), rules)


def test_remedies_of_names_of_systems_and_presets(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_bytes(small().to_json())
    rules: dict[str, Callable[[dict[str, Any], InputError, Found], dict[str, Any]]] = {
        r"An example: ([\w-]+)": lambda given, error, found: {"system": found[1]},
        r"Name one, and files": lambda given, error, found: {"costs": given["costs"][:1]},
        r"Presets: .*A file of costs has|Check the path|or give a file of costs": lambda given, error, found: {
            "costs": [str(own)]
        },
    }
    own = tmp_path / "own.csv"
    own.write_text(GOOD)
    for costs in (["nvidia"], ["missing.csv"], ["roofline"], ["roofline", "ideal"]):
        followed({"costs": costs}, lambda given: read(path, conversion=Conversion(equipment=given)), rules)
    for name in ("het-crss-6x6", "nvdla-0x3"):
        followed({"system": name}, lambda given: read(path, conversion=Conversion(equipment=given)), rules)


def test_remedies_of_plain_data(chipmap: Command) -> None:
    """What `tests/runtime` gives the checker and a solve in Python."""

    def printed(given: Any, error: InputError, found: Found) -> Any:
        done = chipmap(*found[1].split()[1:])
        assert done.code == 0 and '"chips"' in done.out and "integer" in done.out
        return {"chips": [0, 0, 1, 1, 1]}

    rules: dict[str, Rule] = {
        r"says nothing of operation '(\w)' \| Name the chip": lambda given, error, found: {**given, found[1]: 1},
        r"no operation is called '(\w)' \| There are: (.*)\.": lambda given, error, found: {
            name: given.get(name, 1) for name in found[2].split(", ")
        },
        r"`(chipmap info --schema [\w-]+)` prints": printed,
        r"no field '(\w+)' \| Did you mean (\w+)": lambda given, error, found: {found[2]: [0, 0, 1, 1, 1]},
        r"Give a record, a dict, a list or|Give numbers, texts, lists and dicts": lambda given, error, found: [
            0,
            0,
            1,
            1,
            1,
        ],
    }
    for given, _ in WRONG_DATA:
        followed(given, lambda one: package.check("ring/tiny-skip", one), rules)
    share = {r"Give a share from 0 to below 1, such as ([\d.]+)": lambda given, error, found: float(found[1])}
    followed(2.0, lambda gap: package.solve("ring/tiny-skip", gap=gap, isolate=False), share)
    plain: dict[str, Rule] = {r"Give plain data": lambda given, error, found: {}}
    followed({"callback": print}, lambda one: package.solve("ring/tiny-skip", native=one, isolate=False), plain)


def test_remedies_of_usage_on_wafer(tmp_path: Path) -> None:
    near = {r"Did you mean ([\w/-]+)": lambda given, error, found: found[1]}
    followed("wafer/ispd2020-a", read, near)
    wide = {r"Give ([\d,]+) to ([\d,]+) tiles": lambda given, error, found: f"fabric.width={number_of(found[2])}"}
    followed("fabric.width=0", lambda setting: read("wafer/tiny-skip", [setting]), wide)
