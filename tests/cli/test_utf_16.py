"""Text in UTF-16, as some editors and shells write it: every input says so, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import CHAIN, Command
from tests.cli.test_bad_input import refused

Put = Callable[..., Path]
SAID = "is text in UTF-16, and UTF-8 is read\n  Save it as UTF-8, for example by: iconv -f UTF-16 -t UTF-8 FILE > NEW"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_json_in_utf_16(chipmap: Command, put: Put, encoding: str) -> None:
    """An instance, a solution and pins; without a byte order mark as well."""
    instance = put(CHAIN)
    encoded = put(instance.read_text().encode(encoding), "encoded.json")
    other = put('{"chips": [0, 0, 1]}'.encode(encoding), "other.json")
    for arguments in (("info", encoded), ("check", instance, other), ("solve", instance, "--pin", other)):
        assert SAID in refused(chipmap, *arguments)


def test_tables_in_utf_16(chipmap: Command, put: Put) -> None:
    """A graph, pins and times as tables, with their byte order mark."""
    graph = put("name,flop,bytes\na,1,1\n".encode("utf-16"), "graph.csv")
    table = put("name,place\nop0,0\n".encode("utf-16"), "pins.csv")
    instance = put(CHAIN)
    for arguments in (
        ("convert", graph, "--family", "ring"),
        ("solve", instance, "--pin", table),
        ("solve", instance, "--costs", table),
        ("solve", instance, "--warm-start", table),
    ):
        assert SAID in refused(chipmap, *arguments)
