"""Sentences of the pages: their length, words to avoid, and symbols of formulas that no table explains.

    python -m tests.docs.sentences            # counts for each page, and the overall share of long sentences
    python -m tests.docs.sentences PAGE...    # what was found on these pages
    python -m tests.docs.sentences --limits   # the dictionary LIMITS of tests/docs/test_sentences.py

A sentence ends with ``.``, ``!`` or ``?``. A list item is at least one sentence, and so is a table cell of four or more
words (shorter cells, which are names and numbers, would only dilute the share). Blocks of code, displayed formulas,
headings, comments and lists of names in code don't count; a formula or piece of code within a sentence is one word.
Symbols are compared letter by letter (``x_{v,c}`` asks for x, v and c). What a formula binds (``\\sum_{i \\in V}``,
``\\forall v``) needs no row in a table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT, relative

#: Words from which on a sentence is long; 25 is the rule.
MOST = 30
#: Words from which on a table cell counts as a sentence.
CELL = 4
#: Names in code from which on a piece is a list of names with defaults, if these are also this share of its words.
NAMES, NAMED = 8, 1 / 3
#: Phrases that readers had to read twice -> what to write.
AVOID: dict[str, str] = {
    r"\bwhoever\b": "name who: the user, a reader, a solver",
    r"\b(is|are|has|does|do|can|holds), (is|are|has|does|do|can|holds)\b": "verbs side by side: name the noun",
    r"\brid(e|es|ing) along\b": "need no chip of their own",
    r"\bvouch(es)?\b": "chipmap can't check",
    r"\bhand(s|ed)? (over|on)\b": "pass, passed",
    r"\bwhat no\b": "an upper limit on",
    r"\b(of|by|in|with|from|to) which\b[^.]*\b(of|by|in|with|from|to) which\b": "two sentences",
    r"\bso that\b[^.]*\bso that\b": "two sentences",
    r"\bthe others'": "name them",
    r"\b(inasmuch|insofar|wherein|whereof|whereby|thereof|therein)\b": "in which, by which, of it",
    r"\bas (?:many|much) as may be\b": "as many as possible",
    r"\bso many \w+ too many\b": "above the limit by",
    r"\bfrom time to time\b": "every n-th, with the number",
    r"\bthe other way does\b": "name the way",
}
_AVOID = {re.compile(pattern, re.IGNORECASE): advice for pattern, advice in AVOID.items()}

_NOT_TEXT = re.compile(r"^(```|~~~).*?^\1[^\n]*$|<!--.*?-->|^\s*\$\$.*?\$\$\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_INLINE = re.compile(r"(?<![\\$\w])\$(?=[^\s$])((?:\\.|[^$\\])*?)(?<=\S)\$(?![\d$])", re.DOTALL)
_DISPLAY = re.compile(r"\$\$(.*?)\$\$", re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
_MARKER = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?:\[[ x]\]\s+)?")
_RULE = re.compile(r"^[\s|:-]+$")
_ABBREVIATION = re.compile(r"(?:\b(?:al|cf|e\.g|i\.e|vs|Fig|Figs|Sec|Eq|No|pp|vol|ca|approx|resp)|(?:^|\s)[A-Z])\.$")
_END = re.compile(r"[.!?][)\"'*_”]*\s+(?=[^a-z\s])")

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau",
    "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda",
    "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega", "ℓ": "ell",
}  # fmt: skip
_WORDS_OF_TEX = re.compile(r"\\(?:text|operatorname\*?|mathrm|mathbb|mathbf|textbf|texttt|begin|end|tag)\s*\{[^{}]*\}")
_ALONE = re.compile(r"(?<!\\)\b[A-Za-z]\b|(?<=\\)[a-zA-Z]+")
_SYMBOL = re.compile(r"\\mathcal\s*\{?(\w)\}?|\\(?:var)?([A-Za-z]+)|([A-Za-z])")
_BOUND = re.compile(
    r"\\(?:sum|prod|max|min|bigcup|bigcap|bigvee|bigwedge)\s*(?:\\limits)?\s*_\s*(?:\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}|(\w))"
)
_FORALL = re.compile(r"\\(?:forall|exists)(.*?)(?:\\\\|&|;|\\q?quad|$)", re.MULTILINE)
_ELEMENTS = re.compile(r"\\in\b|\\subset|\\neq?\b|\\l(?:e|eq|t)\b|\\g(?:e|eq|t)\b|=|<|>|:|\\colon|\\mid")


@dataclass(frozen=True)
class Report:
    """What was found on a page."""

    sentences: int
    long: list[tuple[int, str]]  # (words, sentence)
    avoided: list[tuple[str, str]]  # (phrase and advice, sentence)
    symbols: list[str]  # of formulas, in no table


def pages() -> list[Path]:
    """The README and all pages of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def pieces(text: str) -> Iterator[str]:
    """Paragraphs, list items and table cells of a page, each on one line."""
    piece: list[str] = []
    for line in [*_NOT_TEXT.sub("\n", text).splitlines(), ""]:
        line = line.lstrip("> ") if line.startswith(">") else line
        cells = line.lstrip().startswith("|")
        if cells or not line.strip() or line.startswith("#") or _MARKER.match(line):
            yield " ".join(piece)
            piece = []
        if cells and not _RULE.match(line):
            parts = re.split(r"(?<!\\)\|", _CODE.sub(_one_cell, line.strip()).strip("|"))
            yield from (part for part in parts if words(plain(part)) >= CELL)
        elif not cells and not line.startswith("#"):
            piece.append(_MARKER.sub("", line).strip())


def _one_cell(code: re.Match[str]) -> str:
    """A piece of code in a table, whose bars part no cells."""
    return code.group().replace("|", "")


def plain(piece: str) -> str:
    """The piece with code and formulas as a word each and links as their text."""
    text = _INLINE.sub("FORMULA", _CODE.sub("CODE", piece))
    text = _LINK.sub(r"\1", text)
    return re.sub(r"<[^>]+>", " ", text).strip()


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page."""
    for piece in map(plain, pieces(text)):
        begin = 0
        if _is_list(piece):
            continue
        for end in _END.finditer(piece):
            if not _ABBREVIATION.search(piece[: end.start() + 1]):
                yield piece[begin : end.end()].strip()
                begin = end.end()
        if re.search(r"\w", piece[begin:]):
            yield piece[begin:].strip()


def _is_list(piece: str) -> bool:
    """Whether a piece is a list of names in code, perhaps with defaults."""
    names = len(re.findall(r"\bCODE\b", piece))
    return names >= NAMES and len(re.findall(r"\b(?:CODE|[\d.,]+)\b", piece)) >= NAMED * words(piece)


def words(sentence: str) -> int:
    """How many words a sentence has: what stands between blanks and has a letter or digit."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def letters(formula: str) -> set[str]:
    """The symbols of a formula in LaTeX, without subscripts, words and commands."""
    found = set()
    for script, command, letter in _SYMBOL.findall(_WORDS_OF_TEX.sub(" ", formula)):
        name = command.removeprefix("var") if command in _GREEK.values() else letter
        found.add(f"script {script}" if script else name)
    return found - {""}


def bound(formula: str) -> set[str]:
    """The symbols that sums, extrema and quantifiers of a formula bind."""
    places = ["".join(place) for place in _BOUND.findall(formula)] + _FORALL.findall(formula)
    found: set[str] = set()
    for place in places:
        for part in re.split(r",\s*(?![^({]*[)}])", re.sub(r"\\l?dots\s*,\s*\S+", "", place)):
            found |= letters(_ELEMENTS.split(part)[0])
    return found


def formulas(text: str) -> list[str]:
    """The formulas of a page, displayed or within sentences."""
    text = _CODE.sub(" ", re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL))
    return _DISPLAY.findall(text) + _INLINE.findall(_DISPLAY.sub(" ", text))


def tabled(text: str) -> set[str] | None:
    """The symbols in the first column of the page's tables of symbols, variables, sets or indices; None without one."""
    found: set[str] | None = None
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        first = re.split(r"(?<!\\)\|", line)[1].strip()
        if first.lower() in ("symbol", "symbols", "variable", "set", "index", "parameter"):
            inside, found = True, found or set()
        elif inside and found is not None and not _RULE.match(line):
            for letter, name in _GREEK.items():
                first = first.replace(letter, f"\\{name} ")
            found |= letters(" ".join(_INLINE.findall(first))) if "$" in first else set(_ALONE.findall(first))
    return found


@cache
def known(page: Path) -> frozenset[str] | None:
    """The symbols that a page may use: of its tables, and of its family's page ``F.md``; None without any table."""
    stem = page.stem.partition("-")[0]
    family = page.with_name(f"{stem}.md")
    found = [tabled(one.read_text(encoding="utf-8")) for one in {page, family} if one.exists()]
    tables = [one for one in found if one is not None]
    return frozenset().union(*tables) if tables else None


def report(page: Path) -> Report:
    """What is found on a page."""
    text = page.read_text(encoding="utf-8")
    all_of_it = list(sentences(text))
    counted = ((words(one), one) for one in all_of_it)
    avoided = [(f"{found.group()}: {advice}", one) for one in all_of_it for found, advice in _avoided(one)]
    table = known(page)
    missing: set[str] = set()
    for formula in formulas(text) if table is not None else []:
        missing |= letters(formula) - bound(formula) - (table or frozenset())
    return Report(len(all_of_it), [one for one in counted if one[0] > MOST], avoided, sorted(missing))


def _avoided(sentence: str) -> Iterator[tuple[re.Match[str], str]]:
    """The phrases of a sentence that are to be avoided, with advice."""
    for pattern, advice in _AVOID.items():
        yield from ((found, advice) for found in pattern.finditer(sentence))


def main(arguments: list[str]) -> int:
    """Print what was found."""
    if arguments == ["--limits"]:
        for page in pages():
            one = report(page)
            if one.long or one.avoided or one.symbols:
                print(f'    "{relative(page)}": ({len(one.long)}, {len(one.avoided)}, {len(one.symbols)}),')
    elif arguments:
        for page in (Path(argument).resolve() for argument in arguments):
            one = report(page)
            print(f"{relative(page)}: {one.sentences} sentences")
            print(*(f"  {count} words: {sentence}" for count, sentence in sorted(one.long, reverse=True)), sep="\n")
            print(*(f"  {found}\n    in: {sentence}" for found, sentence in one.avoided), sep="\n")
            print("  symbols in no table:", *one.symbols)
    else:
        all_of_them = {relative(page): report(page) for page in pages()}
        print(f"sentences  over {MOST} words  words to avoid  symbols")
        for name, one in all_of_them.items():
            print(f"{one.sentences:9d}  {len(one.long):13d}  {len(one.avoided):14d}  {len(one.symbols):7d}  {name}")
        total, long = sum(one.sentences for one in all_of_them.values()), sum(len(r.long) for r in all_of_them.values())
        print(f"{long} of {total} sentences are longer than {MOST} words: {long / total:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
