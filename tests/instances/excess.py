"""Mutations that exaggerate: banners, long tokens, nested quotes and brackets, huge numbers, odd characters, bombs."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from random import Random

from tests.instances.programs import pt2
from tests.instances.samples import pick

#: How often something is repeated; the larger ones are rare.
_COUNTS = (3, 3, 30, 30, 30, 300, 300, 300, 3_000, 3_000, 30_000, 100_000)
#: Bytes of a mutant of text, but for bombs in archives.
MOST = 2**20
_SIGNS = "#/*-=+~%;:,.<>()[]{}'\"\\|&!?@$^_`aA0 \t"
_NUMBERS = (
    *("9" * 20, "9" * 100, "9" * 400, "9" * 4_400, "9" * 50_000, "1e999", "-1e999", "1e308", "-1e308", "1e-999"),
    *("NaN", "-NaN", "Infinity", "-Infinity", "inf", "nan", "-0", "-0.0", "0x10", "1_000", "1__0", "1,000", "+1", ".5"),
    *("5.", "1e", "1e+", "0." + "0" * 400 + "1", "1" + "0" * 400 + ".5", "9223372036854775808", "18446744073709551616"),
    *("\u0661\u0662", "\u00bd", "1e18", "1e15", "1.7976931348623159e308", "5e-324", "-1", "2**999", "1 000", "1'000"),
)
_ODD = (
    *(
        b"\x00",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xff\xfe",
        b"\xfe\xff",
        b"\xc0\x80",
        b"\xf5\x80\x80\x80",
        b"\x1b[2J",
    ),
    *(rb"\ud800", rb"\udc00\ud800", rb"\u0000", rb"\uffff", rb"\x00", rb"\"", rb"\u202e", b"\r", b"\x0b", b"\x0c"),
    *("\u2028".encode(), "\x85".encode(), "\u202e".encode(), "\U0010ffff".encode(), "\u0301".encode() * 50, b"\x1a"),
    *("\ufdfa".encode() * 10, "\u0130".encode(), "\u00df".encode(), b"\x7f", b"%s%n", b"{0}", b"${x}", b"</script>"),
)


def excessive(data: bytes, random: Random) -> bytes:
    """``data`` with one to three exaggerations; of an archive those of its graph, or of the archive itself."""
    if data.startswith(b"PK"):
        return _archive(data, random)
    binary = data.startswith((b"\x08", b"SQLite"))
    for _ in range(1 + pick(2, random) * pick(3, random)):
        changes = _BINARY if binary else _TEXT
        data = changes[pick(len(changes), random)](data, random)[: 2 * MOST]
    return data


def _count(random: Random, size: int = 1) -> int:
    """How often something of this size is repeated."""
    return max(2, min(_COUNTS[pick(len(_COUNTS), random)], MOST // max(1, size)))


def _sign(random: Random) -> str:
    """One sign, or two that may begin or end something together."""
    pairs = (
        "//",
        "/*",
        "*/",
        "(*",
        "*)",
        "\"'",
        "<>",
        "><",
        "[]",
        "{}",
        "()",
        '\\"',
        "->",
        "--",
        "a ",
        ", ",
        "; ",
        "::",
        '""',
    )
    return pairs[pick(len(pairs), random)] if pick(3, random) == 0 else _SIGNS[pick(len(_SIGNS), random)]


def _tokens(data: bytes) -> list[tuple[int, int]]:
    found = [match.span() for match in re.finditer(rb'"[^"\n]{0,80}"|[-+.\w]{1,80}', data[:MOST])]
    return found or [(0, len(data))]


def _put(data: bytes, random: Random, new: bytes) -> bytes:
    """``new`` in the place of a token, before it or behind it."""
    tokens = _tokens(data)
    start, end = tokens[pick(len(tokens), random)]
    what = pick(4, random)
    if what == 0:
        return data[:start] + new + data[start:]
    if what == 1:
        return data[:end] + new + data[end:]
    quoted = what == 2 and data[start : start + 1] == b'"'
    return data[:start] + (b'"' + new + b'"' if quoted else new) + data[end:]


def _banner(data: bytes, random: Random) -> bytes:
    """Lines of one sign at the beginning or between lines."""
    sign = _sign(random)
    line = (sign * _count(random, len(sign))).encode()
    banner = b"\n".join([line, sign.encode() + b" my network", line, b""][: 2 + pick(3, random)])
    at = 0 if pick(2, random) else data.find(b"\n", pick(len(data) + 1, random)) + 1
    return data[:at] + banner + b"\n" * pick(3, random) + data[at:]


def _long(data: bytes, random: Random) -> bytes:
    """A long token: one sign or two, again and again."""
    sign = _sign(random)
    return _put(data, random, (sign * _count(random, len(sign))).encode())


def _quotes(data: bytes, random: Random) -> bytes:
    """Quotes in quotes, escaped ever more often, or never closed."""
    quote = ('"', "'", "`", '\\"', '""', "\"'", "<", "(*")[pick(8, random)]
    inner = _count(random, 2 * len(quote)) // 2
    if pick(3, random) == 0:
        text = "x"
        for _ in range(min(14, inner)):
            text = json.dumps(text)
        return _put(data, random, text.encode())
    close = {"<": ">", "(*": "*)"}.get(quote, quote)
    return _put(data, random, (quote * inner + "x" + close * (inner - pick(2, random))).encode())


def _number(data: bytes, random: Random) -> bytes:
    """A number that nobody means."""
    new = _NUMBERS[pick(len(_NUMBERS), random)].encode()
    numbers = [match.span() for match in re.finditer(rb"(?<![\w.])-?\d[\w.+-]{0,30}", data[:MOST])]
    if not numbers or pick(5, random) == 0:
        return _put(data, random, new)
    start, end = numbers[pick(len(numbers), random)]
    return data[:start] + new + data[end:]


def _bomb(data: bytes, random: Random) -> bytes:
    """A line, a token or a part of the text very often; or a short word for very much."""
    what = pick(5, random)
    if what == 0:
        words = (
            b"*1000000000",
            b"(0 1)*99999999",
            b"[" + b"0," * 9_999 + b"0]",
            b"2**2**2**99",
            b"-" * 5_000 + b"1",
            b"x1000000000",
        )
        return _put(data, random, words[pick(len(words), random)])
    if what == 1:
        lines = data.split(b"\n")
        i = pick(len(lines), random)
        line = lines[i]
        return b"\n".join([*lines[:i], *([line] * _count(random, len(line) + 1)), *lines[i + 1 :]])
    if what == 2:  # as many names, all unlike
        tokens = _tokens(data)
        start, end = tokens[pick(len(tokens), random)]
        token, sign = data[start:end].strip(b'"'), (b",", b" ", b";", b"\n", b"->", b'","')[pick(6, random)]
        parts = [token + str(i).encode() for i in range(_count(random, len(token) + 6))]
        return data[:start] + sign.join(parts) + data[end:]
    a, b = sorted(pick(len(data) + 1, random) for _ in range(2))
    b = b if what == 3 else min(len(data), a + 1 + pick(40, random))
    return data[:a] + data[a:b] * _count(random, b - a) + data[b:]


def _nested(data: bytes, random: Random) -> bytes:
    """Brackets in brackets, closed or not."""
    kinds = (
        ("[", "]"),
        ("{", "}"),
        ("(", ")"),
        ('{"a":', "}"),
        ("[[],", "]"),
        ("<", ">"),
        ("Add(1,", ")"),
        ("-", ""),
        ("(*", "*)"),
    )
    opened, closed = kinds[pick(len(kinds), random)]
    depth = _count(random, len(opened) + len(closed))
    inner = ("", "1", '"a"')[pick(3, random)]
    return _put(data, random, (opened * depth + inner + closed * (depth if pick(3, random) else 0)).encode())


def _lines(data: bytes, random: Random) -> bytes:
    """Other ends of lines, or none; much white space."""
    what = pick(6, random)
    if what == 0:
        return data.replace(
            b"\n", (b"", b" ", b"\r", b"\r\n", b"\x00", "\u2028".encode(), b"\x0b", b"\n\n")[pick(8, random)]
        )
    if what == 1:
        return data.replace(
            (b",", b" ", b"=", b":")[pick(4, random)], (b"", b"\t", b";", b",,", b" , ")[pick(5, random)]
        )
    space = (b" ", b"\t", b"\n", b"\r", b"\r\n", b"\x0c")[pick(6, random)] * _count(random)
    at = (0, len(data), pick(len(data) + 1, random))[pick(3, random)]
    return data[:at] + space + data[at:]


def _repeat(data: bytes, random: Random) -> bytes:
    """One byte very often where it stands."""
    at = pick(len(data) + 1, random)
    return data[:at] + data[at : at + 1] * _count(random) + data[at:]


def _odd(data: bytes, random: Random) -> bytes:
    """Characters that are none, or do something else than stand there; the text in another encoding."""
    if pick(6, random) == 0:
        code = ("utf-16", "utf-32", "utf-8-sig", "latin-1", "utf-7", "utf-16-be", "cp037")[pick(7, random)]
        return data.decode(errors="replace").encode(code, errors="replace")
    new = _ODD[pick(len(_ODD), random)] * (1 if pick(3, random) else _count(random, 20))
    if pick(2, random):
        return _put(data, random, new)
    at = pick(len(data) + 1, random)
    return data[:at] + new + data[at:]


def _wire(data: bytes, random: Random) -> bytes:
    """A field of protobuf, long, nested or endless, somewhere in a message."""
    at = pick(len(data) + 1, random) if pick(2, random) else (0, len(data))[pick(2, random)]
    field, count = bytes([(1 + pick(15, random)) << 3 | 2]), _count(random)
    what = pick(6, random)
    if what == 0:  # a number without an end
        new = field[:1] + b"\xff" * count
    elif what == 1:  # a length that lies
        new = field + _varint((2**31, 2**40, 2**63, 2**64 - 1)[pick(4, random)])
    elif what == 2:  # messages in messages
        new = b""
        for _ in range(min(count, 2_000)):
            new = field + _varint(len(new)) + new
    elif what == 3:  # a long text
        new = field + _varint(count) + (b"a", b"\xff", b"\x00", b"/")[pick(4, random)] * count
    elif what == 4:  # very many small fields
        new = (field + b"\x00") * count
    else:  # a part of the message again and again
        a = pick(len(data), random)
        new = data[a : a + 1 + pick(60, random)] * min(count, MOST // 60)
    return data[:at] + new + data[at:]


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


_TEXT: tuple[Callable[[bytes, Random], bytes], ...] = (
    _banner, _long, _quotes, _number, _number, _bomb, _bomb, _nested, _lines, _repeat, _odd, _odd
)  # fmt: skip
_BINARY: tuple[Callable[[bytes, Random], bytes], ...] = (_wire, _wire, _wire, _repeat, _long, _bomb)


def _archive(data: bytes, random: Random) -> bytes:
    """An archive with an exaggerated graph, packed well or badly, or with more in it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        path = next(name for name in archive.namelist() if name.endswith(".json"))
        graph = archive.read(path)
    what = pick(12, random)
    if what == 0:
        return excessive(b" " + pt2(graph, path), random)[1:]  # its own bytes
    if what > 2:
        graph = excessive(graph, random)
        if pick(3, random):
            return pt2(graph, path)
    out = io.BytesIO()
    kinds = (zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    with zipfile.ZipFile(out, "w", kinds[pick(4, random)], compresslevel=1) as packed:
        if what == 1:
            packed.writestr(path, graph[:-1] + (b" ", b"\n", b"[", b"0")[pick(4, random)] * 10**7 + graph[-1:])
        else:
            packed.writestr(path, graph)
        if what == 2:
            packed.writestr("x" * min(_count(random), 60_000), b"\x00" * 10**6)
            for i in range(_count(random) // 30):
                packed.writestr(f"{'a/' * pick(9, random)}weights/{i}", b"")
    content = out.getvalue()
    return content if pick(4, random) else excessive(b" " + content, random)[1:]
