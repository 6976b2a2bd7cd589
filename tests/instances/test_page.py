"""The pages on instances of `ring` and on formats say what the code does: generators, parameters, formats, sizes."""

from __future__ import annotations

import re
from pathlib import Path

from chipmap.families.ring import FAMILY
from chipmap.family import resolve
from chipmap.instances.ring.generators import Setting
from chipmap.instances.ring.shipped import SHIPPED
from chipmap.networks.generators import bert_encoder, densenet, gpt2, resnet, unet
from chipmap.networks.importers.reading import FORMATS
from tests.instances.test_networks import contracted, ideals, parameter_bytes

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "instances-ring.md").read_text(encoding="utf-8")
READ = (REFERENCE / "formats-read.md").read_text(encoding="utf-8")


def rows(heading: str, page: str = PAGE) -> list[list[str]]:
    """The cells of all table rows in the section ``heading`` of a page."""
    section = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_generators_and_their_defaults() -> None:
    table = {row[0].strip("`"): row[2] for row in rows("Generators") if len(row) == 3}
    for listed in FAMILY.generators:
        own = {k: v for k, v in resolve(listed.function).parameters().items() if k not in Setting.__struct_fields__}
        text = table[listed.name]
        for name, default in own.items():
            said = re.search(rf"`{name}` `?([\w.]+)", text)
            assert f"`{name}`" in text, f"{listed.name}: {name}"
            if isinstance(default, (int, float, str)):
                assert said is not None
                assert said.group(1) == str(default), f"{listed.name}: {name}"


def test_settings_and_their_defaults() -> None:
    paragraph = PAGE.split("Every ring generator also takes", 1)[1].split("### ", 1)[0]
    for name in Setting.__struct_fields__:
        assert f"`{name}`" in paragraph
    for name, default in (("chips", 36), ("sram_mib", 32), ("flop_per_ns", 4000), ("sram_bytes_per_ns", 200)):
        assert f"`{name}` {default}" in paragraph
        assert getattr(Setting(), name) == default
    for listed in FAMILY.generators:
        own = resolve(listed.function).defaults
        assert set(own) <= {"sram_mib"}
        assert (
            not own
            or f"{own['sram_mib']:g} for `bert-large`" in paragraph
            or f"{own['sram_mib']:g} for `gpt2`" in paragraph
            or re.search(rf"{own['sram_mib']:g} for\s`decoder`", paragraph)
        )


def test_shipped_instances() -> None:
    assert set(re.findall(r"`(ring/[\w-]+)`", " ".join(row[0] for row in rows("Shipped instances")))) == set(SHIPPED)


def test_formats() -> None:
    named = {row[0].split(" (")[0].lower() for row in rows("Formats read", READ)}
    assert set(FORMATS) <= named


def test_sizes_of_the_networks() -> None:
    made = [bert_encoder(), gpt2(), resnet(), densenet(), unet()]
    table = [row for row in rows("Generators") if len(row) == 5 and re.fullmatch(r"\d+", row[1])]
    assert len(table) == len(made)
    for row, graph in zip(table, made, strict=True):
        problem = contracted(graph)
        flop = sum(operation.flop for operation in problem.instance.graph.operations)
        counts = [str(problem.computing.sum()), str(ideals(problem))]
        assert row[1:] == [*counts, f"{flop / 1e9:.1f}", f"{parameter_bytes(graph) / 2e6:.1f}"]
