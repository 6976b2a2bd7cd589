"""Forward graphs of the networks in GDP's comparison, at sizes of our own (the paper's graphs aren't public).

Numbers have four bytes. A cell of an LSTM is two products, its gates, its state and its output.
"""

from __future__ import annotations

from chipmap.instances.placement.training import WORD, Draft
from chipmap.networks.graph import OperationGraph


class Network(Draft):
    """A forward graph on its way; every method returns the tensor that it makes."""

    def input(self, name: str, numbers: int) -> int:
        """A tensor from the host."""
        return self.op(name, "input", [], [WORD * numbers], role="input")[0]

    def weight(self, name: str, numbers: int) -> int:
        """A weight."""
        return self.op(name, "weight", [], [WORD * numbers], role="constant")[0]

    def product(self, name: str, reads: list[int], rows: int, inner: int, columns: int) -> int:
        """A matrix product of rows × inner by inner × columns."""
        return self.op(name, "product", reads, [WORD * rows * columns], 2 * rows * inner * columns)[0]

    def point(self, name: str, reads: list[int], numbers: int, kind: str = "pointwise", per: int = 4) -> int:
        """An operation of ``per`` FLOP for each of its numbers."""
        return self.op(name, kind, reads, [WORD * numbers], per * numbers)[0]

    def lookup(self, name: str, table: int, numbers: int) -> int:
        """Rows of a table."""
        return self.op(name, "lookup", [table], [WORD * numbers], 0, moved_bytes=2 * WORD * numbers)[0]


class Lstm:
    """An LSTM layer with its two weights: ``step`` takes an input and goes on from the step before."""

    def __init__(self, net: Network, name: str, width: int, hidden: int, batch: int) -> None:
        self.net, self.name, self.width, self.hidden, self.batch = net, name, width, hidden, batch
        self.kernel = net.weight(f"{name}.kernel", 4 * hidden * width)
        self.recurrent = net.weight(f"{name}.recurrent", 4 * hidden * hidden)
        self.output: int | None = None
        self.cell: int | None = None

    def step(self, t: int, x: list[int]) -> int:
        """The output of step ``t`` for an input of one or more tensors."""
        net, here, rows = self.net, f"{self.name}.{t}", 4 * self.hidden
        parts = [net.product(f"{here}.input", [self.kernel, *x], self.batch, self.width, rows)]
        if self.output is not None:
            parts.append(net.product(f"{here}.state", [self.recurrent, self.output], self.batch, self.hidden, rows))
        gates = net.point(f"{here}.gates", parts, self.batch * rows)
        before = [] if self.cell is None else [self.cell]
        self.cell = net.point(f"{here}.cell", [gates, *before], self.batch * self.hidden)
        self.output = net.point(f"{here}.output", [gates, self.cell], self.batch * self.hidden)
        return self.output


def rnnlm(
    layers: int = 2, steps: int = 40, hidden: int = 1024, batch: int = 64, vocabulary: int = 10_000
) -> OperationGraph:
    """A language model of LSTM layers, with logits and a loss per step."""
    net = Network()
    table = net.weight("embedding", vocabulary * hidden)
    stack = [Lstm(net, f"layer{k}", hidden, hidden, batch) for k in range(layers)]
    head = net.weight("head", vocabulary * hidden)
    for t in range(steps):
        x = net.lookup(f"embedding.{t}", table, batch * hidden)
        for layer in stack:
            x = layer.step(t, [x])
        _classify(net, f"{t}", head, x, (batch, hidden, vocabulary))
    return net.graph(f"rnnlm-{layers}")


def gnmt(
    layers: int = 2, steps: int = 40, hidden: int = 1024, batch: int = 64, vocabulary: int = 32_000
) -> OperationGraph:
    """A translation model: a bidirectional first layer, residuals, attention of each decoder step to the encoder."""
    net, size = Network(), batch * hidden
    table = net.weight("encoder.embedding", vocabulary * hidden)
    xs = [[net.lookup(f"encoder.embedding.{t}", table, size)] for t in range(steps)]
    ahead, back = (Lstm(net, f"encoder.{way}", hidden, hidden, batch) for way in ("ahead", "back"))
    forward = [ahead.step(t, xs[t]) for t in range(steps)]
    backward = {t: back.step(t, xs[t]) for t in reversed(range(steps))}
    xs = [[forward[t], backward[t]] for t in range(steps)]
    for k in range(1, layers):
        layer = Lstm(net, f"encoder.layer{k}", 2 * hidden if k == 1 else hidden, hidden, batch)
        outputs = [layer.step(t, xs[t]) for t in range(steps)]
        if k > 1:
            outputs = [net.point(f"encoder.residual{k}.{t}", [*xs[t], outputs[t]], size) for t in range(steps)]
        xs = [[one] for one in outputs]
    memory = net.point("encoder.memory", [x for pair in xs for x in pair], len(xs[0]) * steps * size, "concat", 0)
    table = net.weight("decoder.embedding", vocabulary * hidden)
    query = net.weight("attention.query", len(xs[0]) * hidden * hidden)
    stack = [Lstm(net, f"decoder.layer{k}", 2 * hidden, hidden, batch) for k in range(layers)]
    head = net.weight("head", vocabulary * hidden)
    for t in range(steps):
        x = net.lookup(f"decoder.embedding.{t}", table, size)
        asked = net.product(f"attention.query.{t}", [query, x], batch, hidden, hidden * len(xs[0]))
        scores = net.product(f"attention.scores.{t}", [asked, memory], batch, hidden * len(xs[0]), steps)
        shares = net.point(f"attention.softmax.{t}", [scores], batch * steps, "softmax", 5)
        context = net.product(f"attention.context.{t}", [shares, memory], batch, steps, hidden)
        for k, layer in enumerate(stack):
            y = layer.step(t, [x, context])
            x = y if k == 0 else net.point(f"decoder.residual{k}.{t}", [x, y], size)
        _classify(net, f"{t}", head, x, (batch, hidden, vocabulary))
    return net.graph(f"gnmt-{layers}")


def transformer_xl(
    layers: int = 2,
    segments: int = 4,
    length: int = 128,
    batch: int = 8,
    hidden: int = 1024,
    vocabulary: int = 32_000,
) -> OperationGraph:
    """Segments one after the other: attention also reads the layer's input of the segment before."""
    net, rows, inner = Network(), batch * length, 4 * hidden
    table, head = net.weight("embedding", vocabulary * hidden), net.weight("head", vocabulary * hidden)
    shapes = {"query": (hidden, hidden), "keys": (hidden, 2 * hidden), "out": (hidden, hidden)}
    shapes |= {"up": (hidden, inner), "down": (inner, hidden)}
    weights = [{w: net.weight(f"layer{k}.{w}", a * b) for w, (a, b) in shapes.items()} for k in range(layers)]
    before: list[list[int]] = [[] for _ in range(layers)]
    for s in range(segments):
        x = net.lookup(f"embedding.{s}", table, rows * hidden)
        for k, w in enumerate(weights):
            here, wide = f"segment{s}.layer{k}", length * (1 + len(before[k]))
            query = net.product(f"{here}.query", [w["query"], x], rows, hidden, hidden)
            keys = net.product(f"{here}.keys", [w["keys"], x, *before[k]], batch * wide, hidden, 2 * hidden)
            scores = net.product(f"{here}.scores", [query, keys], rows, hidden, wide)
            shares = net.point(f"{here}.softmax", [scores], rows * wide * 16, "softmax", 5)
            context = net.product(f"{here}.context", [shares, keys], rows, wide, hidden)
            out = net.product(f"{here}.out", [w["out"], context], rows, hidden, hidden)
            before[k] = [x]
            x = net.point(f"{here}.norm", [x, out], rows * hidden, "norm", 8)
            up = net.product(f"{here}.up", [w["up"], x], rows, hidden, inner)
            up = net.point(f"{here}.relu", [up], rows * inner, "pointwise", 1)
            down = net.product(f"{here}.down", [w["down"], up], rows, inner, hidden)
            x = net.point(f"{here}.norm2", [x, down], rows * hidden, "norm", 8)
        _classify(net, f"{s}", head, x, (rows, hidden, vocabulary))
    return net.graph(f"transformer-xl-{layers}")


def wavenet(
    stacks: int = 2, layers: int = 18, channels: int = 128, samples: int = 4_000, batch: int = 4
) -> OperationGraph:
    """Stacks of dilated convolutions with gates, residuals and skip connections."""
    net, rows = Network(), batch * samples
    numbers = rows * channels
    first = net.weight("first", channels)
    x = net.product("first.product", [first, net.input("wave", rows)], rows, 1, channels)
    skip: int | None = None
    for k in range(stacks * layers):
        here, parts = f"layer{k}", []
        for gate in ("filter", "gate"):
            w = net.weight(f"{here}.{gate}", 2 * channels * channels)
            y = net.product(f"{here}.{gate}.product", [w, x], rows, 2 * channels, channels)
            parts.append(net.point(f"{here}.{gate}.curve", [y], numbers))
        y = net.point(f"{here}.multiply", parts, numbers, "pointwise", 1)
        sides = []
        for side in ("residual", "skip"):
            w = net.weight(f"{here}.{side}", channels * channels)
            sides.append(net.product(f"{here}.{side}.product", [w, y], rows, channels, channels))
        x = net.point(f"{here}.add", [x, sides[0]], numbers, "pointwise", 1)
        skip = sides[1] if skip is None else net.point(f"{here}.join", [skip, sides[1]], numbers, "pointwise", 1)
    assert skip is not None
    _classify(net, "wave", net.weight("head", channels * 256), skip, (rows, channels, 256))
    return net.graph(f"wavenet-{stacks}x{layers}")


def _classify(net: Network, name: str, head: int, x: int, shape: tuple[int, int, int]) -> None:
    """Logits and their loss."""
    rows, inner, classes = shape
    logits = net.product(f"logits.{name}", [head, x], rows, inner, classes)
    net.point(f"loss.{name}", [logits], rows, "loss", 5 * classes)
