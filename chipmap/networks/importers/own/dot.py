"""Reader of graphs in DOT, the language of Graphviz: a directed graph whose nodes and edges have our fields.

Read is all that describes a graph: statements of nodes and edges with attributes, chains ``a -> b -> c``, sets
``a -> {b c}``, subgraphs, defaults (``node [kind=matmul]``) within their braces, ports, comments, quoted names. The
attributes that are fields of :mod:`.rows` count, others (``label``, ``shape`` …) are named in a note, and so are
those of the layout that look like a field (``height``, ``weight`` of an edge, ``time``). Unlike in Graphviz,
a node must have a statement of its own, so that a misspelt name in an edge makes no node.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.own.rows import Rows, named
from chipmap.records import InputError

FORMAT = "dot"
#: Graphs nested more deeply than this are refused.
MAX_DEPTH = 50
#: Two sets of nodes in one short statement can have very many edges between them, and few defaults count for very many
#: nodes. More edges between sets, and more values that statements take from defaults, are refused.
MAX_EDGES = 100_000
MAX_INHERITED = 1_000_000

#: White space and comments; how a graph begins behind them. One expression for both would try every way to divide a
#: line of 30 ``#`` into comments.
_SPACE = re.compile(r"\s+|//[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
_HEAD = re.compile(r"(?:strict\s+)?(?:di)?graph\b[^{;,=]*\{", re.IGNORECASE)
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)
      | (?P<quoted>"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<arrow>->|--)
      | (?P<word>[^\W\d]\w*|-?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?[^\W\d_]*)
      | (?P<sign>[][{}=;,:+])
      | (?P<html><)
    """,
    re.VERBOSE | re.DOTALL,
)
#: Names of Graphviz's layout, and of others' tools, that are near to a field's and mean something else.
_LAYOUT = frozenset({"height", "width", "time", "pos", "style"})
#: The same on edges, where ``weight`` pulls nodes together.
_EDGE_LAYOUT = _LAYOUT | {"weight"}
_FORM = "Write: digraph { a [flop=1e9, bytes=4096]; b [flop=2e9]; a -> b }"


@dataclass(frozen=True, slots=True)
class Token:
    """A sign, or a name with its quotes taken off (``quoted``: it had some, so it is no keyword)."""

    text: str
    line: int
    kind: str

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords, in whatever letters."""
        return self.kind == "word" and self.text.lower() in words


@dataclass
class Scope:
    """The defaults of nodes and edges within a pair of braces, and the nodes named there."""

    node: dict[str, str] = field(default_factory=dict)
    edge: dict[str, str] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)


def accepts(data: bytes, where: str) -> bool:
    """Whether it is called .dot or .gv, or begins as DOT does."""
    return where.lower().endswith((".dot", ".gv")) or _begins(data[:4000].decode(errors="replace"))


def _begins(text: str) -> bool:
    """Whether a graph follows the comments at the beginning."""
    at = 0
    while found := _SPACE.match(text, at):
        at = found.end()
    return _HEAD.match(text, at) is not None


def read(data: bytes, where: str) -> ImportedGraph:
    """The graph; :class:`InputError` with the line of what is wrong."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError("isn't UTF-8 text", f"{where}: line {line}", "Save it in UTF-8.") from None
    reader = _Reader(_tokens(text, where), where)
    name = reader.graph()
    rows = Rows()
    described = reader.nodes | {node: it for node, it in reader.named.items() if node not in reader.nodes}
    for node, (values, line) in sorted(described.items(), key=lambda item: item[1][1]):
        rows.node({**_apart(values, _LAYOUT, rows), "name": node}, f"{where}: line {line}")
    for source, target, values, line in reader.edges:
        given = _apart(values, _EDGE_LAYOUT, rows)
        rows.edge({**given, "source": source, "target": target}, f"{where}: line {line}")
    return rows.graph(named(name or PurePath(where).stem, "name", where), FORMAT, "", where)


def _apart(values: dict[str, str], layout: frozenset[str], rows: Rows) -> dict[str, str]:
    """The values but those of the layout, which are noted as not used."""
    found = [key for key in values if key.strip().lower() in layout]
    rows.ignored |= dict.fromkeys(found)
    return {key: value for key, value in values.items() if key not in found} if found else values


def _tokens(text: str, where: str) -> Iterator[Token]:
    """Names and signs with their lines; comments left out."""
    position, line = 0, 1
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            what = f"can't be read from {text[position : position + 20]!r} on"
            raise InputError(what, f"{where}: line {line}", "Put names with other signs in quotes, and close these.")
        kind, end = found.lastgroup, found.end()
        if kind == "html":
            end = _end_of_html(text, position, f"{where}: line {line}")
            yield Token(text[position:end], line, "quoted")
        elif kind == "quoted":
            inner = re.sub(r"\\\r?\n", "", found.group()[1:-1])
            yield Token(re.sub(r'\\(["\\])', r"\1", inner), line, kind)
        elif kind != "space":
            yield Token(found.group(), line, kind)
        line += text.count("\n", position, end)
        position = end


def _end_of_html(text: str, start: int, where: str) -> int:
    """Behind the bracket that closes the one at ``start``."""
    depth = 0
    for found in re.compile(r"[<>]").finditer(text, start):
        depth += 1 if found.group() == "<" else -1
        if not depth:
            return found.end()
    raise InputError("a '<' is never closed", where, "Close it, or put the text in quotes.")


class _Reader:
    """Reads tokens from the first to the last; ``nodes`` and ``edges`` as they stand there.

    ``named``: nodes in a statement without attributes, with the defaults there. They count as nodes if nothing else
    describes them.
    """

    def __init__(self, tokens: Iterator[Token], where: str) -> None:
        self.tokens, self.where, self.depth, self.line = tokens, where, 0, 1
        self.ahead: deque[Token] = deque()  # read, but not used
        self.between = self.inherited = 0  # edges between sets; values that came from defaults
        self.nodes: dict[str, tuple[dict[str, str], int]] = {}
        self.named: dict[str, tuple[dict[str, str], int]] = {}
        self.edges: list[tuple[str, str, dict[str, str], int]] = []

    def graph(self) -> str:
        """The whole file; returns the graph's name."""
        if self._here().is_word("strict"):
            self._next()
        first = self._next()
        if not first.is_word("digraph"):
            graph = first.is_word("graph")
            what = "edges of this graph have no direction" if graph else "this isn't a graph in DOT"
            raise self._error(what, first, f"{'Begin it with digraph, and write -> for --.' if graph else _FORM}")
        name = "" if self._opens() else self._name()
        self._body(Scope())
        if self._here().kind != "end":
            raise self._error("there is more behind the graph", self._here(), "Give one graph per file.")
        return name

    def _body(self, scope: Scope) -> None:
        """Statements in braces."""
        self._sign("{")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error("braces are nested too deeply", self._here(), "Leave out subgraphs.")
        while not self._skip("}"):
            if not self._skip(";", ","):
                self._statement(scope)
        self.depth -= 1

    def _statement(self, scope: Scope) -> None:
        first = self._here()
        if first.is_word("graph", "node", "edge") and self._after().text == "[":
            self._next()
            given = self._attributes()
            if not first.is_word("graph"):
                (scope.node if first.is_word("node") else scope.edge).update(given)
            return
        if not self._opens() and self._after() == Token("=", self._after().line, "sign"):
            self._name()
            self._sign("=")
            self._name()
            return
        opened = self._opens()
        groups = [self._group(scope)]
        lines: list[int] = []
        while self._here().kind == "arrow":
            arrow = self._next()
            if arrow.text == "--":
                raise self._error("-- has no direction", arrow, "Write ->.")
            lines.append(arrow.line)
            groups.append(self._group(scope))
        given = self._attributes()
        if lines:
            self._edges(groups, lines, self._with_defaults(scope.edge, given, first), first)
        if not lines and not opened and not first.is_word("subgraph"):
            (name,) = groups[0]
            if not given:
                if name not in self.named:
                    self.named[name] = self._with_defaults(scope.node, {}, first), first.line
                return
            if name in self.nodes:
                what = f"node {name!r} is described twice (also in line {self.nodes[name][1]})"
                raise self._error(what, first, "Put its attributes in one statement.")
            self.nodes[name] = self._with_defaults(scope.node, given, first), first.line

    def _edges(self, groups: list[list[str]], lines: list[int], values: dict[str, str], first: Token) -> None:
        """Edges from all nodes of a group to all of the next one, with these values."""
        for line, sources, targets in zip(lines, groups, groups[1:], strict=False):
            count = len(sources) * len(targets)
            self.between += count if count > 1 else 0
            if self.between > MAX_EDGES:
                raise self._error(f"more than {MAX_EDGES:,} edges between sets of nodes", first, "Give fewer.")
            self._count(count * len(values) if count > 1 else 0, first)
            self.edges += [(u, v, values, line) for u in sources for v in targets]

    def _with_defaults(self, defaults: dict[str, str], given: dict[str, str], first: Token) -> dict[str, str]:
        self._count(len(defaults), first)
        return defaults | given

    def _count(self, values: int, first: Token) -> None:
        """Bear these values of defaults in mind."""
        self.inherited += values
        if self.inherited > MAX_INHERITED:
            what = f"defaults give more than {MAX_INHERITED:,} values"
            raise self._error(what, first, "Leave out attributes of node and edge that chipmap doesn't read.")

    def _group(self, scope: Scope) -> list[str]:
        """A node, or all nodes of a subgraph."""
        if self._here().is_word("subgraph"):
            self._next()
            if not self._opens():
                self._name()
        if not self._opens():
            name = self._name()
            while self._skip(":"):
                self._name()
            scope.names[name] = None
            return [name]
        self._count(len(scope.node) + len(scope.edge), self._here())
        inner = Scope(dict(scope.node), dict(scope.edge))
        self._body(inner)
        scope.names |= inner.names
        return list(inner.names)

    def _attributes(self) -> dict[str, str]:
        """``[a=1, b=2] [c=3]``, or nothing."""
        given: dict[str, str] = {}
        while self._skip("["):
            while not self._skip("]"):
                if self._skip(";", ","):
                    continue
                token = self._here()
                key = self._name()
                if key in given:
                    raise self._error(f"{key} is given twice", token, "Keep one of them.")
                self._sign("=")
                given[key] = self._name()
        return given

    def _name(self) -> str:
        """A word, or a text in quotes with those that are joined to it by ``+``."""
        token = self._name_part()
        parts = [token.text]
        while token.kind == "quoted" and self._skip("+"):
            token = self._name_part()
            parts.append(token.text)
        return "".join(parts)

    def _name_part(self) -> Token:
        token = self._next()
        if token.kind not in ("word", "quoted"):
            raise self._error(f"a name is missing before {token.text or 'the end'!r}", token, _FORM)
        return token

    def _opens(self) -> bool:
        return self._here().kind == "sign" and self._here().text == "{"

    def _here(self) -> Token:
        return self.ahead[0] if self.ahead else self._peek(0)

    def _after(self) -> Token:
        return self._peek(1)

    def _peek(self, ahead: int) -> Token:
        """The token so many places ahead; behind the last one there are ends."""
        while len(self.ahead) <= ahead:
            token = next(self.tokens, None)
            self.line = self.line if token is None else token.line
            self.ahead.append(token or Token("", self.line, "end"))
        return self.ahead[ahead]

    def _next(self) -> Token:
        token = self._here()
        self.ahead.popleft()
        return token

    def _skip(self, *signs: str) -> bool:
        token = self._here()
        if token.kind == "end":
            raise self._error("the graph isn't closed", token, "A bracket or brace is open: close it.")
        found = token.kind == "sign" and token.text in signs
        if found:
            self._next()
        return found

    def _sign(self, sign: str) -> None:
        token = self._next()
        if token.kind != "sign" or token.text != sign:
            raise self._error(f"{sign!r} is missing before {token.text or 'the end'!r}", token, _FORM)

    def _error(self, what: str, token: Token, remedy: str) -> InputError:
        return InputError(what, f"{self.where}: line {token.line}", remedy)
