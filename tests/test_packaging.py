"""What the package says of itself, and where it can't run."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_off_posix_the_import_says_what_it_needs() -> None:
    """Without ``fcntl``, as on Windows, the import ends with our sentence and no other error behind it."""
    code = "import sys; sys.modules['fcntl'] = None; import chipmap"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: chipmap needs a POSIX system")
    assert "During handling" not in done.stderr and "direct cause" not in done.stderr


def test_each_supported_python_has_its_classifier() -> None:
    """``requires-python`` and the classifiers name the same versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    least, below = (int(bound.split(".")[-1]) for bound in project["requires-python"].split(","))
    named = [line.rsplit(" ", 1)[-1] for line in project["classifiers"] if line.startswith("Programming Language")]
    assert named == [f"3.{minor}" for minor in range(least, below)]
