"""The collectives of a compiled program, read from XLA's text (HLO), with the bytes that they send over a chip's link.

Words of four bytes count as ``word_bytes``, as programs are compiled with float32 where chips have two-byte words. An
all-to-all is a tuple of as many parts as chips. What GSPMD means as a reduce-scatter is on a CPU an all-reduce of which
every reader takes a slice; ``as_scatter`` counts such as one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from chipmap.plans.jax.layouts import Collective

#: XLA's names of collectives; those with ``-start`` are the asynchronous ones, whose ``-done`` don't count again.
_NAMES: dict[str, Collective] = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": "permute",
}
_LINE = re.compile(
    r"^\s*(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<shape>\(.*?\)|\S+) (?P<op>" + "|".join(_NAMES) + r")(?P<start>-start)?\("
)
_SHAPE = re.compile(r"\b(pred|[suf]\d+|bf16|c\d+)\[([\d,]*)\]")
_LISTED, _MESH = (
    re.compile(r"replica_groups=\{\{([\d,]*)\}"),
    re.compile(r"replica_groups=mesh\[([^\]]*)\](?:,\s*device_ids=\([^{]*\))?\s*\{([^}]*)\}"),
)
_IOTA = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=")
_SCOPE = re.compile(r'op_name="([^"]*)"')
_DEFINED = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (?:\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_CALLS = re.compile(r"calls=%?([\w.\-]+)")


class Found(NamedTuple):
    """A collective: its name in the program, bytes that it leaves on a chip, the chips of a group, and its scope."""

    name: str
    collective: Collective
    result: Fraction
    group: int
    scope: str

    @property
    def link(self) -> Fraction:
        """Bytes over a chip's link."""
        return link_bytes(self.collective, self.result, self.group)


def collectives(text: str, chips: int, word_bytes: int = 2, as_scatter: bool = False) -> list[Found]:
    """Those of a module for ``chips`` chips, in the order of its text."""
    found = []
    sliced = _only_sliced(text) if as_scatter else set()
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        collective = _NAMES[match["op"]]
        result = _bytes(match["shape"], word_bytes, bool(match["start"]), collective)
        group = _group(line, chips)
        if match["name"] in sliced and collective == "all_reduce":
            collective, result = "reduce_scatter", result / group
        scope = _SCOPE.search(line)
        found.append(Found(match["name"], collective, result, group, scope[1] if scope else ""))
    return found


def by_kind(found: Iterable[Found]) -> dict[Collective, Fraction]:
    """Bytes over a chip's link by kind of collective, those that occur."""
    total: dict[Collective, Fraction] = {}
    for one in found:
        total[one.collective] = total.get(one.collective, Fraction(0)) + one.link
    return total


def _bytes(shape: str, word_bytes: int, started: bool, collective: Collective) -> Fraction:
    """Bytes of a result, all parts of a tuple. What starts an all-gather or a permutation has operands in it too."""
    parts = [_array(kind, dimensions, word_bytes) for kind, dimensions in _SHAPE.findall(shape)]
    if started and collective in ("all_gather", "permute"):
        return Fraction(sum(parts[len(parts) // 2 :][:1]) if len(parts) > 1 else sum(parts))
    return Fraction(sum(parts))


def _array(kind: str, dimensions: str, word_bytes: int) -> Fraction:
    bits = 8 if kind == "pred" else int(re.sub(r"\D", "", kind))
    bits = word_bytes * 8 if bits == 32 and kind.startswith("f") else bits
    return Fraction(bits, 8) * math.prod(int(one) for one in dimensions.split(",") if one)


def _group(line: str, chips: int) -> int:
    """How many chips take part together: by a list, by axes of a mesh, or by rows of a reshaped list."""
    if listed := _LISTED.search(line):
        return len(listed[1].split(",")) if listed[1] else chips
    if mesh := _MESH.search(line):
        sizes = {name: int(size) for name, size in re.findall(r"'?(\w+)'?\s*=\s*(\d+)", mesh[1])}
        return math.prod(sizes[name] for name in re.findall(r"'?(\w+)'?", mesh[2]))
    if rows := _IOTA.search(line):
        return int(rows[2])
    return chips


def _only_sliced(text: str) -> set[str]:
    """The values of which every reader takes a slice: ``dynamic-slice``, or a fusion that begins with one for it."""
    readers: dict[str, list[bool]] = {}
    slicing = _slicing(text)
    for line in text.splitlines():
        defined = _DEFINED.match(line)
        if defined is None:
            continue
        operation, rest = defined[2], defined[3]
        operands = re.findall(r"%([\w.\-]+)", rest.partition(")")[0])
        called = _CALLS.search(rest)
        for place, operand in enumerate(operands):
            taken = operation == "dynamic-slice" and place == 0
            if operation == "fusion" and called is not None:
                taken = place in slicing.get(called[1], set())
            readers.setdefault(operand, []).append(taken)
    return {name for name, kinds in readers.items() if all(kinds)}


def _slicing(text: str) -> dict[str, set[int]]:
    """For each computation the numbers of its parameters that it only slices."""
    found: dict[str, set[int]] = {}
    name, parameters, used = "", dict[str, int](), dict[str, list[bool]]()

    def end() -> None:
        found[name] = {number for one, number in parameters.items() if used.get(one) and all(used[one])}

    for line in text.splitlines():
        if line and not line[0].isspace() and line.rstrip().endswith("{"):
            end()
            name, parameters, used = line.split()[0].lstrip("%"), {}, {}
        defined = _DEFINED.match(line)
        if defined is None:
            continue
        if defined[2] == "parameter":
            parameters[defined[1]] = int(defined[3].partition(")")[0])
        for place, operand in enumerate(re.findall(r"%([\w.\-]+)", defined[3].partition(")")[0])):
            used.setdefault(operand, []).append(defined[2] == "dynamic-slice" and place == 0)
    end()
    return found


def link_bytes(collective: Collective, result: Fraction, group: int) -> Fraction:
    """Bytes over a chip's link of a collective among ``group`` chips that leaves ``result`` bytes on each."""
    if group == 1:
        return Fraction(0)
    rest = Fraction(group - 1, group)
    return {
        "all_reduce": 2 * result * rest,
        "all_gather": result * rest,
        "reduce_scatter": result * group * rest,
        "all_to_all": result * rest,
        "permute": result,
    }[collective]
