"""What operators cost, as a table: read from the rules. ``python -m tests.docs.operators`` writes it to
``docs/operators.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

from chipmap.networks.importers.operators import aten, onnx_fused
from chipmap.networks.importers.operators import onnx as onnx_operators
from chipmap.networks.importers.operators.rules import ELEMENTS, Rule
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "operators.md"
#: The lines of the page between which the table stands.
BEGIN, END = "<!-- operators: python -m tests.docs.operators -->", "<!-- end of operators -->"


def table() -> str:
    """A row for each rule, with the operators of PyTorch and of ONNX that follow it."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for rule, name in _named():
        if rule is not ELEMENTS:
            rows.setdefault((rule.says, rule.moves, rule.source), []).append(name)
    lines = ["| operators | FLOP | bytes moved | source |", "|---|---|---|---|"]
    for (says, moved, source), names in rows.items():
        cells = [", ".join(dict.fromkeys(names)), says, moved, source]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def elements() -> str:
    """The operators that follow the rule of elements, in two paragraphs."""
    own = [f"`{name}`" for name in sorted(aten.COUNTED)]
    others = [name for rule, name in _named() if rule is ELEMENTS]
    return f"PyTorch: {', '.join(own)}.\n\nONNX: {', '.join([*_code(onnx_operators.COUNTED), *others])}."


def text() -> str:
    """All that stands between the two lines."""
    return f"{table()}\n\nBy elements count:\n\n{elements()}"


def _named() -> Iterator[tuple[Rule, str]]:
    yield from ((rule, f"`{name}`") for name, rule in aten.RULES.items())
    yield from ((rule, f"`{name}`") for name, rule in onnx_operators.RULES.items())
    yield from ((rule, f"`com.microsoft.{name}`") for name, rule in onnx_fused.RULES.items())


def _code(names: frozenset[str]) -> list[str]:
    return [f"`{name}`" for name in sorted(names)]


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
