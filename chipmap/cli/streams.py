"""What reaches a terminal: text in which names from files can't give it commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chipmap.records import written_out

#: The one escape sequence that chipmap writes itself (:mod:`chipmap.cli.progress`).
OWN = "\r\033[K"


def visible(text: str) -> str:
    """``text`` with its control characters written out.

    >>> visible("a\\x1b[31mb\\n")
    'a\\\\x1b[31mb\\n'
    """
    return OWN.join(written_out(part) for part in text.split(OWN))


def fitting(text: str, encoding: str, errors: str) -> str:
    """``text`` with the characters written out that a stream of this encoding can't hold.

    >>> fitting("4 \u00b5s", "ascii", "strict")
    '4 \\\\xb5s'
    """
    try:
        text.encode(encoding, errors)
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


class Plain:
    """A text stream that writes out control characters, and those that its encoding lacks."""

    def __init__(self, stream: Any) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        """Write ``text``; returns its length, as streams do."""
        encoding = getattr(self.raw, "encoding", None)
        shown = visible(text)
        self.raw.write(fitting(shown, encoding, self.raw.errors or "strict") if encoding else shown)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


@contextmanager
def plain_streams() -> Iterator[None]:
    """Standard output and error through :func:`visible`, within."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Plain(before[0]), Plain(before[1])  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
