"""Texts for people: shortened, counted, with control characters written out; names that may be meant; tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

#: Characters of a message's part, so that hostile input makes no endless ones.
MOST_CHARACTERS = 1_000
#: Control characters but for line ends and tabs, those that turn the direction of writing, and halves of characters
#: (how Python hands over odd bytes of a path) -> what stands for them.
_WRITTEN_OUT = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_WRITTEN_OUT |= {code: f"\\u{code:04x}" for code in (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))}
_WRITTEN_OUT |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """``text``, or its beginning and its end where it is longer than ``most`` characters.

    >>> shortened("0123456789", 7)
    '012 … 9'
    """
    tail = (most - 3) // 4
    return text if len(text) <= most else f"{text[: most - 3 - tail]} … {text[-tail:]}"


def shown(value: Any, how: Callable[[Any], str] = repr) -> str:
    """``value`` as ``how`` writes it, shortened; in words where Python refuses to (5,000 digits, lists in lists).

    >>> shown(10**5000), shown("a")
    ('a number of more than 4,000 digits', "'a'")
    """
    try:
        return shortened(how(value))
    except ValueError:
        return "a number of more than 4,000 digits"
    except RecursionError:
        return "nested too deeply"


def written_out(text: str) -> str:
    """``text`` with its control characters, and halves of characters, written out.

    >>> written_out("a\\x1b[31mb\\u202e")
    'a\\\\x1b[31mb\\\\u202e'
    """
    return text if text.isprintable() else text.translate(_WRITTEN_OUT)


def in_one_line(text: str) -> str:
    """``text`` with its control characters, line ends and tabs among them, written out.

    >>> in_one_line("a\\tb\\n")
    'a\\\\tb\\\\n'
    """
    return text if text.isprintable() else written_out(text).replace("\n", "\\n").replace("\t", "\\t")


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun.

    >>> counted(1, "row"), counted(2_000, "row"), counted(2, "entry", "entries")
    ('1 row', '2,000 rows', '2 entries')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], count: int = 3) -> str:
    """The first ``count`` names, and how many there are more: ``a, b, c and 4 more``."""
    all_ = list(names)
    more = len(all_) - count
    return ", ".join(all_[:count]) + (f" and {more} more" if more > 0 else "")


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The ``known`` names that ``name`` may stand for, best first: one that differs by case only, those about as much
    alike as the best, or else those that begin with it; names of one family also without the family's name in front
    (``auto`` for ``ring/auto``)."""
    from difflib import SequenceMatcher, get_close_matches

    wanted, by_text = name[:200].lower(), dict[str, list[str]]()
    for one in known:
        for text in dict.fromkeys((one.lower(), one.lower().rpartition("/")[2])):
            by_text.setdefault(text, []).append(one)
    exact = by_text.get(wanted) or by_text.get(wanted.rpartition("/")[2])
    if exact:
        return exact[:3]
    texts = get_close_matches(wanted, by_text, n=3, cutoff=0.65)
    best = SequenceMatcher(None, texts[0], wanted).ratio() if texts else 0.0
    near = [one for text in texts if SequenceMatcher(None, text, wanted).ratio() > best - 0.1 for one in by_text[text]]
    if not near and len(wanted) > 2:
        near = [one for text, names in by_text.items() if text.startswith(wanted) for one in names]
    return list(dict.fromkeys(near))[:3]


def choices(name: str, known: Iterable[str], label: str = "Choose from") -> str:
    """The remedy for a name that isn't known: what may be meant, and what there is.

    >>> choices("cpsad", ["highs", "cpsat"])
    'Did you mean cpsat? Choose from: highs, cpsat.'
    """
    names = [one or '""' for one in known]
    near = nearest(name, names)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{meant}{label}: {', '.join(names) or 'none'}."


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table as CSV. Texts that a spreadsheet would take for a formula (``=``, ``@``, ``+``, ``-``) get a quote in
    front; control characters, ends of lines among them, are written out."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(in_one_line(name) for name in columns)
    table.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """A cell: floats without the noise of their last digit (7.000000000000001), texts that are no formula."""
    if isinstance(value, float):
        return repr(float(f"{value:.15g}"))
    if not isinstance(value, str):
        return value
    text = in_one_line(value)
    if not value.startswith(("=", "@", "+", "-", "\t", "\r")):
        return text
    with suppress(ValueError):
        float(value)
        return text
    return f"'{text}"
