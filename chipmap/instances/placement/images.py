"""Forward graphs of two image networks in GDP's comparison: Inception v3, and cells like AmoebaNet's."""

from __future__ import annotations

from chipmap.instances.placement.training import WORD
from chipmap.instances.placement.workloads import Network
from chipmap.networks.graph import OperationGraph

#: A picture: its tensor, its channels, its height and width.
Picture = tuple[int, int, int]
#: Kernel height and width.
Kernel = tuple[int, int]


class Images(Network):
    """A network of convolutions, each with a batch norm and a ReLU of its own."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.batch, self.number = batch, 0

    def conv(self, x: Picture, channels: int, kernel: Kernel, stride: int = 1, valid: bool = False) -> Picture:
        """A convolution; ``valid``: without padding."""
        self.number += 1
        tensor, before, side = x
        name, out = f"conv{self.number}", ((side - kernel[0]) if valid else (side - 1)) // stride + 1
        numbers = self.batch * out * out * channels
        weight = self.weight(f"{name}.weight", before * channels * kernel[0] * kernel[1])
        flop = 2 * numbers * before * kernel[0] * kernel[1]
        (y,) = self.op(name, "convolution", [weight, tensor], [WORD * numbers], flop)
        y = self.point(f"{name}.norm", [self.weight(f"{name}.scale", 2 * channels), y], numbers, "norm", 8)
        return self.point(f"{name}.relu", [y], numbers, "pointwise", 1), channels, out

    def separable(self, x: Picture, channels: int, kernel: int, stride: int = 1) -> Picture:
        """A convolution per channel, then one by one."""
        self.number += 1
        tensor, before, side = x
        name, out = f"separable{self.number}", (side - 1) // stride + 1
        numbers = self.batch * out * out * before
        weight = self.weight(f"{name}.weight", before * kernel * kernel)
        (y,) = self.op(name, "convolution", [weight, tensor], [WORD * numbers], 2 * numbers * kernel * kernel)
        return self.conv((y, before, out), channels, (1, 1))

    def pool(self, x: Picture, kernel: int, stride: int = 1, valid: bool = False) -> Picture:
        """The mean or largest of each window."""
        self.number += 1
        tensor, channels, side = x
        out = ((side - kernel) if valid else (side - 1)) // stride + 1
        numbers = self.batch * out * out * channels
        return self.point(f"pool{self.number}", [tensor], numbers, "pool", kernel * kernel), channels, out

    def join(self, parts: list[Picture]) -> Picture:
        """The channels of all parts."""
        self.number += 1
        channels, side = sum(part[1] for part in parts), parts[0][2]
        numbers = self.batch * side * side * channels
        return self.point(f"concat{self.number}", [part[0] for part in parts], numbers, "concat", 0), channels, side

    def add(self, a: Picture, b: Picture) -> Picture:
        """The sum of two pictures."""
        self.number += 1
        numbers = self.batch * a[2] * a[2] * a[1]
        return self.point(f"add{self.number}", [a[0], b[0]], numbers, "pointwise", 1), a[1], a[2]

    def classify(self, x: Picture, classes: int = 1000) -> None:
        """The mean over all places, logits and a loss."""
        mean = self.point("mean", [x[0]], self.batch * x[1], "pool", x[2] * x[2])
        weight = self.weight("head", x[1] * classes)
        logits = self.product("logits", [weight, mean], self.batch, x[1], classes)
        self.point("loss", [logits], self.batch, "loss", 5 * classes)


def inception(batch: int = 32, repeats: int = 1) -> OperationGraph:
    """Inception v3 at 299 × 299 (without the auxiliary head), each module that keeps its size ``repeats`` times."""
    net = Images(batch)
    x: Picture = (net.input("image", batch * 299 * 299 * 3), 3, 299)
    x = net.conv(net.conv(x, 32, (3, 3), 2, True), 32, (3, 3), 1, True)
    x = net.pool(net.conv(x, 64, (3, 3)), 3, 2, True)
    x = net.pool(net.conv(net.conv(x, 80, (1, 1), 1, True), 192, (3, 3), 1, True), 3, 2, True)
    for last in [x for x in (32, 64, 64) for _ in range(repeats)]:
        five = net.conv(net.conv(x, 48, (1, 1)), 64, (5, 5))
        three = net.conv(net.conv(net.conv(x, 64, (1, 1)), 96, (3, 3)), 96, (3, 3))
        x = net.join([net.conv(x, 64, (1, 1)), five, three, net.conv(net.pool(x, 3), last, (1, 1))])
    three = net.conv(net.conv(net.conv(x, 64, (1, 1)), 96, (3, 3)), 96, (3, 3), 2, True)
    x = net.join([net.conv(x, 384, (3, 3), 2, True), three, net.pool(x, 3, 2, True)])
    for width in [x for x in (128, 160, 160, 192) for _ in range(repeats)]:
        seven = net.conv(net.conv(net.conv(x, width, (1, 1)), width, (1, 7)), 192, (7, 1))
        twice = net.conv(net.conv(net.conv(x, width, (1, 1)), width, (7, 1)), width, (1, 7))
        twice = net.conv(net.conv(twice, width, (7, 1)), 192, (1, 7))
        x = net.join([net.conv(x, 192, (1, 1)), seven, twice, net.conv(net.pool(x, 3), 192, (1, 1))])
    three = net.conv(net.conv(x, 192, (1, 1)), 320, (3, 3), 2, True)
    seven = net.conv(net.conv(net.conv(x, 192, (1, 1)), 192, (1, 7)), 192, (7, 1))
    x = net.join([three, net.conv(seven, 192, (3, 3), 2, True), net.pool(x, 3, 2, True)])
    for _ in range(2 * repeats):
        one = net.conv(x, 384, (1, 1))
        two = net.conv(net.conv(x, 448, (1, 1)), 384, (3, 3))
        wide = [net.conv(y, 384, kernel) for y in (one, two) for kernel in ((1, 3), (3, 1))]
        x = net.join([net.conv(x, 320, (1, 1)), *wide, net.conv(net.pool(x, 3), 192, (1, 1))])
    net.classify(x)
    return net.graph("inception")


def amoebanet(cells: int = 18, batch: int = 32, width: int = 128) -> OperationGraph:
    """Cells of five sums of two branches each, as AmoebaNet's; after a third and two thirds of them a reduction."""
    net = Images(batch)
    x: Picture = (net.input("image", batch * 224 * 224 * 3), 3, 224)
    x = net.conv(net.conv(x, width // 2, (3, 3), 2), width, (3, 3), 2)
    x = net.conv(x, width, (3, 3), 2)
    before = x
    for k in range(cells):
        stride = 2 if k in (cells // 3, 2 * cells // 3) else 1
        width *= stride
        a = net.conv(before, width, (1, 1), before[2] // x[2])
        b = net.conv(x, width, (1, 1))
        sums = [
            net.add(net.separable(b, width, 3, stride), _kept(net, b, stride)),
            net.add(net.separable(a, width, 5, stride), net.separable(b, width, 3, stride)),
            net.add(net.pool(a, 3, stride), _kept(net, b, stride)),
            net.add(net.separable(a, width, 7, stride), net.pool(b, 3, stride)),
        ]
        sums.append(net.add(net.separable(sums[0], width, 3), sums[1]))
        before, x = x, net.join(sums[1:])
    net.classify(x)
    return net.graph(f"amoebanet-{cells}")


def _kept(net: Images, x: Picture, stride: int) -> Picture:
    """The picture itself, or half of it."""
    return x if stride == 1 else net.pool(x, 2, stride)
