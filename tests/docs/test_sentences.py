"""Sentences of the pages are short, say things plainly, and their formulas use symbols of the page's tables."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.docs.pages import relative
from tests.docs.sentences import bound, formulas, letters, pages, report, sentences, tabled, words

#: Page -> (sentences over 30 words, phrases to avoid, symbols in no table) that it still has. These may only sink:
#: ``python -m tests.docs.sentences --limits`` prints today's. Pages without a line: 2% of their sentences, none, none.
LIMITS: dict[str, tuple[int, int, int]] = {
    "docs/install.md": (1, 0, 0),
}
#: The share of long sentences over all pages may not pass this.
SHARE = 0.01


@pytest.fixture(scope="module")
def reports() -> dict[str, tuple[int, int, int, int]]:
    """Page -> its sentences, and its counts in the order of LIMITS."""
    found = {relative(page): report(page) for page in pages()}
    return {name: (r.sentences, len(r.long), len(r.avoided), len(r.symbols)) for name, r in found.items()}


def test_no_page_gets_worse(reports: dict[str, tuple[int, int, int, int]]) -> None:
    worse: dict[str, object] = {}
    for name, (count, *now) in reports.items():
        limits = LIMITS.get(name, (count // 50, 0, 0))
        if any(one > limit for one, limit in zip(now, limits, strict=True)):
            worse[name] = (now, limits)
    assert not worse, "python -m tests.docs.sentences PAGE lists them"


def test_limits_are_of_pages_that_exist() -> None:
    assert not set(LIMITS) - {relative(page) for page in pages()}


def test_few_sentences_are_long(reports: dict[str, tuple[int, int, int, int]]) -> None:
    assert sum(long for _, long, *_ in reports.values()) <= SHARE * sum(count for count, *_ in reports.values())


PAGE = """\
    # A heading is no sentence

    The first one. The second (e.g. of S. Smith et al. 2020) has `code. With full stops` and $a. b$.
    It goes on
    over lines! `code` may begin one.

    - an item without a full stop
      that goes on
    - [a link](of/some.md). And more.

    | symbol | what four words say |
    |---|---|
    | $x_{v,c}$ | 1 if operation v is on chip `c|d` |

    ```sh
    chipmap solve. Not a sentence.
    ```
    <!-- No sentence. -->
    """


def test_sentences_of_a_page() -> None:
    assert list(sentences(textwrap.dedent(PAGE))) == [
        "The first one.",
        "The second (e.g. of S. Smith et al. 2020) has CODE and FORMULA.",
        "It goes on over lines!",
        "CODE may begin one.",
        "an item without a full stop that goes on",
        "a link.",
        "And more.",
        "what four words say",
        "1 if operation v is on chip CODE",
    ]
    assert words("a - b, CODE = 2.5 ms (x)") == 6


def test_symbols_of_formulas() -> None:
    text = (
        textwrap.dedent(PAGE)
        + "It costs $5, or $7. With $y \\le \\text{free}$:\n\n$$\n\\sum_{v \\in V} x_{v,c} = 1\n$$\n"
    )
    assert formulas(text)[0].split() == ["\\sum_{v", "\\in", "V}", "x_{v,c}", "=", "1"]
    assert "y \\le \\text{free}" in formulas(text) and not any("5" in one for one in formulas(text))
    assert letters("\\alpha_i \\le \\mathcal{V}^{\\text{max}} + \\frac{a}{\\varepsilon}") == {
        "alpha", "i", "script V", "a", "epsilon"
    }  # fmt: skip
    assert bound("\\sum_{(u, v) \\in E} y \\quad \\forall c \\in C,\\ t = 1, \\dots, T") == {"u", "v", "c", "t"}
    assert tabled(text) == {"x", "v", "c"} and tabled("| K, chips | \\n") is None
    assert tabled("| symbol | unit |\n|---|---|\n| tensors t, τ with readers | |\n") == {"t", "tau"}


def test_what_is_found_is_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        f"{'Long ' * 31}.\n\nWhoever asks.\n\n| symbol | unit |\n|---|---|\n| $x$ | bytes |\n\n$$x \\le z$$\n",
        encoding="utf-8",
    )
    found = report(page)
    assert [count for count, _ in found.long] == [31] and len(found.avoided) == 1 and found.symbols == ["z"]
