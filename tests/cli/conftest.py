"""The command line within this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chipmap.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Done]


@pytest.fixture
def chipmap(capsys: pytest.CaptureFixture[str]) -> Command:
    """``chipmap("solve", path, "--gap", 0.1)``."""

    def run(*arguments: object) -> Done:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            assert isinstance(end.code, int)
            code = end.code
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run


#: Three operations in a row, each with 10 bytes of weights, on two chips.
CHAIN = {
    "schema": "ring/1",
    "name": "three",
    "graph": {
        "name": "three",
        "operations": [{"name": f"op{v}", "kind": "matmul", "flop": 4000, "weight_bytes": 10} for v in range(3)],
        "tensors": [{"producer": v, "readers": [v + 1], "bytes": 8} for v in range(2)],
    },
    "package": {"chips": 2, "link_bytes_per_ns": None},
}


@pytest.fixture
def data() -> dict[str, Any]:
    """A small instance as plain JSON data, to be spoilt."""
    copy: dict[str, Any] = json.loads(json.dumps(CHAIN))
    return copy


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """``put(data, "name.json")`` writes JSON data, text or bytes to a file."""

    def write(content: Any, name: str = "instance.json") -> Path:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write
