"""The project's pages and what stands in them: links, fenced blocks, command lines."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    text: str


def blocks(page: Path, language: str) -> list[Block]:
    """The page's fenced blocks in ``language``."""
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(page, name, text) for name, text in found if name == language]


def said(block: Block) -> list[str]:
    """The lines that the page says that a Python block prints: the block behind "prints" that follows it."""
    text = block.page.read_text(encoding="utf-8")
    behind = re.match(
        r"```\n\n[^\n]*\bprints\n\n```\w*\n(.*?)```", text[text.index(block.text) + len(block.text) :], re.DOTALL
    )
    return behind[1].splitlines() if behind else []


def links(page: Path) -> list[str]:
    """Targets of the page's links, blocks of code aside."""
    return _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))


def shell_blocks() -> dict[Path, list[Block]]:
    """Each page of users with its blocks of commands, in the page's order."""
    users = [page for page in PAGES if page.is_relative_to(ROOT / "docs") or page.name == "README.md"]
    return {page: _in_shells(page) for page in users if not page.is_relative_to(ROOT / "docs" / "dev")}


def _in_shells(page: Path) -> list[Block]:
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(page, name, text) for name, text in found if name in ("sh", "bash", "console")]


def command_lines(page: Path, program: str) -> list[list[str]]:
    """Every line of the page's shell blocks that runs ``program``, as arguments without it."""
    text = "\n".join(block.text for block in _in_shells(page))
    lines = text.replace("\\\n", " ").splitlines()
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [line[1:] for line in words if line and line[0] == program]


def relative(page: Path) -> str:
    """The page's path in the project."""
    return page.relative_to(ROOT).as_posix()


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|")
