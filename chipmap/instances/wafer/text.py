"""What the readers of the two text formats of family ``wafer`` share: lines, columns, and errors that name them."""

from __future__ import annotations

import re

from chipmap.records import InputError

#: Digits of the largest number that is read: 64-bit counts hold it.
MAX_DIGITS = 15


def decoded(data: bytes, where: str, remedy: str) -> str:
    """The text in ``data``; :class:`InputError` with line and column of the first byte that is no UTF-8."""
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(errors="replace")
        raise fault(where, *position(before, len(before)), "is no text (UTF-8) here", remedy) from None


def position(text: str, offset: int) -> tuple[int, int]:
    """(line, column) of an offset into ``text``, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def fault(where: str, line: int, column: int, what: str, remedy: str) -> InputError:
    """The error for that place of the file."""
    return InputError(what, f"{where}, line {line}, column {column}", remedy)


class Line:
    """One line of a file, read from left to right."""

    def __init__(self, text: str, number: int, where: str) -> None:
        self.text, self.number, self.where, self.at = text, number, where, 0

    @property
    def done(self) -> bool:
        """Whether only white space is left (which is passed by)."""
        self.skip()
        return self.at == len(self.text)

    def skip(self) -> None:
        """Pass by white space."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The match of ``pattern`` here, which is passed by; None, and nothing passed by, where there is none."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def take(self, pattern: re.Pattern[str], what: str, remedy: str) -> re.Match[str]:
        """The match of ``pattern`` here; an error that ``what`` is expected where there is none."""
        self.skip()
        found = self.peek(pattern)
        if found is None:
            seen = self.text[self.at : self.at + 30].strip()
            shown = f"found {seen!r}" if seen else "the line ends"
            raise self.fault(f"{what} is expected, but {shown}", remedy)
        return found

    def number_in(self, found: re.Match[str], group: int | str, remedy: str) -> int:
        """The number that a group of ``found`` spells."""
        digits = found[group]
        counting = digits.lstrip("-").lstrip("0") or "0"
        if len(counting) > MAX_DIGITS:
            said = f"Give one of {MAX_DIGITS} digits at most. {remedy}"
            raise self.fault(f"the number {digits[:20]}… is too large", said, found.start(group))
        return -int(counting) if digits.startswith("-") else int(counting)

    def fault(self, what: str, remedy: str, at: int | None = None) -> InputError:
        """The error at column ``at`` (from 0), by default where reading stands."""
        return fault(self.where, self.number, (self.at if at is None else at) + 1, what, remedy)
