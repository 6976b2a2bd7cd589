"""Megatron's layout strings, and command lines with options and variables.

The **layout** is that of ``--pipeline-model-parallel-layout`` as Megatron-LM's user guide ("Custom Pipeline Model
Parallel Layout", 2026) and its parser (Megatron Core 0.15 to 0.17) have it: stages are split by ``|``; ``E`` is the
embedding, ``t`` a transformer layer, ``m`` a layer of multi-token prediction, ``L`` the loss; ``x*n`` repeats a symbol
and ``(...)*n`` a part of the string, which nests no other one; commas mean nothing. Stages may be empty. ``E`` comes
first and ``L`` last, each once, and no ``t`` follows an ``m``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import groupby

from chipmap.records import InputError, counted, shown

#: What a layout's symbols stand for.
SYMBOLS = {"E": "the embedding", "t": "a layer", "m": "a layer of multi-token prediction", "L": "the loss"}
#: Symbols and stages of a layout, and characters of a file, at most: more are a mistake.
MOST_SYMBOLS, MOST_CHARACTERS = 100_000, 2**20
_PART = re.compile(r"\(([^()]*)\)\*(\d{1,6})|([EtmL|])(?:\*(\d{1,6}))?")
_NAME = re.compile(r"[A-Za-z_]\w*")


def read_layout(text: str, where: str) -> tuple[str, ...]:
    """The stages of a layout string, each as a string of symbols: ``Et*2|(t|)*2L`` is Ett, t, t, L."""
    plain = "".join(text.replace(",", "").split())
    made: list[str] = []
    size = at = 0
    while at < len(plain):
        found = _PART.match(plain, at)
        if found is None:
            what = f"{shown(plain[at : at + 12])} is no part of a layout (character {at + 1:,} without commas)"
            raise InputError(what, where, "Symbols are E, t, m, L and |, repeated by x*3 or (tt|)*3.")
        part = _unrolled(found[1], where) if found[1] is not None else found[3]
        times = int(found[2] or found[4] or 1)
        size += len(part) * times
        if size > MOST_SYMBOLS:
            raise InputError(f"has more than {MOST_SYMBOLS:,} symbols", where, "Repeat less often.")
        made.append(part * times)
        at = found.end()
    stages = tuple("".join(made).split("|"))
    _check(stages, where)
    return stages


def _unrolled(text: str, where: str) -> str:
    """A part in brackets, whose symbols may be repeated."""
    if re.fullmatch(r"(?:[EtmL|](?:\*\d+)?)*", text) is None:
        raise InputError(f"({shown(text)}) is no part of a layout", where, "Symbols are E, t, m, L and |.")
    counts = [int(number) for number in re.findall(r"\*(\d+)", text)]
    if sum(counts) > MOST_SYMBOLS:
        raise InputError(f"has more than {MOST_SYMBOLS:,} symbols", where, "Repeat less often.")
    return re.sub(r"(.)\*(\d+)", lambda one: one[1] * int(one[2]), text)


def _check(stages: Sequence[str], where: str) -> None:
    whole = "".join(stages)
    wrong = next((f"names {SYMBOLS[one]} {whole.count(one)} times" for one in "EL" if whole.count(one) != 1), "")
    if not wrong and (whole[0] != "E" or whole[-1] != "L"):
        wrong = f"begins with {whole[0]} and ends with {whole[-1]}"
    if not wrong and "t" in whole.partition("m")[2]:
        wrong = "has a layer behind one of multi-token prediction"
    if wrong:
        raise InputError(wrong, where, "A layout begins with E, ends with L, and has its m behind all t.")


def write_layout(stages: Sequence[str]) -> str:
    """The string of a layout with these stages: equal ones that follow each other are counted."""
    texts = [
        "".join(symbol if (n := len(list(each))) == 1 else f"{symbol}*{n}" for symbol, each in groupby(stage))
        for stage in stages
    ]
    parts: list[str] = []
    *others, last = texts
    for text, each in groupby(others):
        count = len(list(each))
        parts.append(f"({text}|)*{count}" if count > 1 else f"{text}|")
    return "".join(parts) + last


def options_text(data: bytes, known: Sequence[str], where: str) -> str:
    """The text of a file in which one of the ``known`` options or variables stands; else :class:`InputError`."""
    if not any(one.encode() in data for one in known):
        raise InputError("says nothing of a mapping", where, f"Give the options of the plan: {', '.join(known)}.")
    return data.decode(errors="replace")


def read_options(text: str, where: str) -> dict[str, list[str]]:
    """The options (``--name``) of a command line with their values, and variables (``NAME``) that it sets.

    Comments, brackets of a shell's array and ends of lines mean nothing. An option given twice counts as last given.
    """
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"has {len(text):,} characters", where, "Give the options of the plan.")
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise InputError(f"is no command line: {error}", where, "Quote texts with brackets: 'Et|(t|)*2L'.") from None
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        word = word.removesuffix(")") if word.count(")") > word.count("(") else word  # the end of an array
        name, equals, value = word.partition("=")
        if word.startswith("--") and len(word) > 2:
            values = found[name] = [value] if equals else []
        elif equals and _NAME.fullmatch(name):
            values = []
            if not value.startswith("("):
                found[name] = [value]
        elif word.strip("()"):  # the value of an option, or a word before the first one
            values.append(word)
    return found


def number(options: dict[str, list[str]], name: str, where: str, unless: int | None = None) -> int | None:
    """The number that an option gives; ``unless`` where it isn't given."""
    if name not in options:
        return unless
    text = options[name][0] if len(options[name]) == 1 else ""
    if not (text.isascii() and text.isdecimal() and int(text[:10]) > 0 and len(text) < 10):
        raise InputError(f"is {shown(' '.join(options[name]))}", f"{where}: {name}", "Give a number from 1 on.")
    return int(text)


def counts(text: str, where: str, name: str) -> tuple[int, ...]:
    """Whole numbers between commas, as ``VLLM_PP_LAYER_PARTITION`` has them."""
    parts = [one.strip() for one in text.split(",")]
    if not all(one.isascii() and one.isdecimal() and len(one) < 7 for one in parts):
        raise InputError(f"is {shown(text)}", f"{where}: {name}", "Give layers per stage: 8,8,7.")
    if len(parts) > MOST_SYMBOLS:
        raise InputError(f"names {counted(len(parts), 'stage')}", f"{where}: {name}", "Give fewer.")
    return tuple(int(one) for one in parts)
