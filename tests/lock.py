"""The lock files as lists of entries: ``requirements.lock`` for users, ``requirements-dev.lock`` for developers,
``requirements-docs.lock`` for the site."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
LOCK, LOCK_DEV = ROOT / "requirements.lock", ROOT / "requirements-dev.lock"
LOCK_DOCS = ROOT / "requirements-docs.lock"


@dataclass(frozen=True)
class Entry:
    """A version of a package: where it is meant (None: everywhere), its hashes, and which packages ask for it."""

    name: str
    version: Version
    marker: Marker | None
    hashes: tuple[str, ...]
    wanted_by: tuple[str, ...]
    text: str


def entries_of(lock: Path) -> list[Entry]:
    """The entries of a lock file: ``name==version ; marker``, its hashes, then the comment ``# via``."""
    text = re.sub(r"^#.*\n", "", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [_entry(found) for found in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if found]


def _entry(text: str) -> Entry:
    head = re.fullmatch(r"([\w.-]+)==([\w.+!]+)(?: ; (.+?))?", text.partition("\n")[0].removesuffix("\\").strip())
    assert head, f"isn't a pinned version: {text[:80]}"
    return Entry(
        name=canonicalize_name(head[1]),
        version=Version(head[2]),
        marker=Marker(head[3]) if head[3] else None,
        hashes=tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})\b", text)),
        wanted_by=tuple(re.findall(r"#\s+(?:via )?([\w.-]+)(?: \(.*\))?$", text, re.MULTILINE)),
        text=text,
    )
