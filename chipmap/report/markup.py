"""HTML elements whose text is escaped by construction: only :class:`Markup` goes into a page as it is."""

from __future__ import annotations

from collections.abc import Sequence, Set
from html import escape as escaped

from chipmap.records import written_out


class Markup(str):
    """Text that is HTML already."""


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """The element ``<name …>children</name>``; children that are no Markup, and all attributes, are escaped.

    ``class_`` and ``for_`` stand for ``class`` and ``for``, other underscores for hyphens; an attribute that is None
    is left out, one that is True has no value.

    >>> tag("p", "a < b", tag("b", "!"), class_="note")
    '<p class="note">a &lt; b<b>!</b></p>'
    """
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            key = key.rstrip("_").replace("_", "-")
            parts.append(key if value is True else f'{key}="{escape(str(value))}"')
    return Markup(f"<{' '.join(parts)}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """The children one after the other; None is nothing."""
    return Markup("".join(c if isinstance(c, Markup) else escape(str(c)) for c in children if c is not None))


def escape(text: str) -> str:
    """Text as HTML, its control characters written out."""
    return escaped(written_out(text))


def table(head: Sequence[str], body: Sequence[Sequence[object]], numbers: Set[int] = frozenset()) -> Markup | None:
    """A table that scrolls on its own where the page is narrow; columns in ``numbers`` are set to the right.

    None without rows.
    """
    if not body:
        return None
    side = ["num" if i in numbers else None for i in range(len(head))]
    top = tag("tr", *(tag("th", name, class_=side[i], scope="col") for i, name in enumerate(head)))
    rows = [tag("tr", *(tag("td", cell, class_=side[i]) for i, cell in enumerate(line))) for line in body]
    return tag("div", tag("table", tag("thead", top), tag("tbody", *rows)), class_="scroll")
