"""Bytes, FLOP and shares of a kernel on one chip: ``docs/families/dataflow.md``, "Sharding", "Parts", "Tokens" and
"Routing"; number formats and peaks of ``dataflow-machines.md``; shares of experts of ``dataflow-parallelism.md``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel

BITS = {"fp64": 64, "fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "fp6": 6, "fp4": 4, "int4": 4}


def written(*factors: float) -> Fraction:
    """A number of the instance as it is written (0.37 is 37/100), or a product of such."""
    return prod((Fraction(repr(float(one))) for one in factors), start=Fraction(1))


def ticks(nanoseconds: Fraction) -> int:
    """Picoseconds, rounded up once."""
    return math.ceil(1000 * nanoseconds)


@dataclass(frozen=True)
class PageCase:
    """An instance at degrees of parallelism, with all that a mapping says about how the batch is run."""

    instance: DataflowInstance
    degrees: Degrees
    b: int  # samples of a micro-batch
    chunks: int
    recompute: str
    shard: str
    keep: str

    @property
    def physical(self) -> bool:
        return self.instance.mode == "physical"

    @property
    def n(self) -> int:
        """Chips of a tensor-parallel group."""
        return self.degrees.tensor

    @property
    def staged(self) -> bool:
        """Whether stages share out kernels."""
        return self.instance.task.stages == "kernels"

    @property
    def fuses(self) -> bool:
        """Whether chips fuse kernels."""
        return self.instance.task.fused and self.instance.system.chip.fused

    @property
    def layers(self) -> int:
        """Layers of a stage; one where every copy of a kernel stands for itself."""
        if self.staged or self.instance.task.across_layers:
            return 1
        return self.instance.workload.layers // self.degrees.pipeline

    @property
    def m(self) -> int:
        """Micro-batches of a replica."""
        return self.instance.task.batch // (self.degrees.data * self.b)

    @cached_property
    def again(self) -> frozenset[str]:
        """R, the forward kernels that run once more."""
        forward = {one.name for one in self.instance.workload.kernels if one.phase == "forward"}
        named = {"none": set(), "selective": set(self.instance.task.selective), "full": forward}[self.recompute]
        return frozenset(named)

    @cached_property
    def memo(self) -> dict[object, Fraction]:
        """Shares and sizes that are asked again and again."""
        return {}

    def links(self, *uses: str) -> list[Dimension]:
        """The dimensions of the network with these uses."""
        pairs = zip(self.instance.system.network, self.degrees.dimensions, strict=True)
        return [one for one, use in pairs if use in uses and one.size > 1]


def allowed(kernel: Kernel, mode: str) -> set[str]:
    """The schemes that a kernel may have."""
    if kernel.schemes:
        return set(kernel.schemes)
    if kernel.outer > 1:
        return {"OUTER"}
    if kernel.kind == "gemm" and kernel.weights and not kernel.update:
        return {"M", "K", "K_RS"} if mode == "physical" else {"M", "K"}
    if kernel.update and kernel.kind == "gemm" and mode == "physical":
        return {"M", "N"}
    return {"gemm": {"M"}, "elementwise": {"M", "NONE"}, "opaque": {"NONE"}}[kernel.kind]


def bits(case: PageCase, named: str) -> int:
    return BITS[named] if named else 8 * case.instance.workload.word_bytes


def scaled(case: PageCase, stated: int, named: str) -> Fraction:
    """Bytes that ``stated`` ones are in a number format."""
    return Fraction(stated * bits(case, named), 8 * case.instance.workload.word_bytes)


def flop(kernel: Kernel) -> int:
    """FLOP of a sample on all chips."""
    if kernel.flop is not None:
        return kernel.flop
    elements = kernel.outer * kernel.M * kernel.N
    return elements * (2 * kernel.K if kernel.kind == "gemm" else kernel.flop_per_element)


def tensor(case: PageCase, kernel: Kernel) -> Fraction:
    """S: bytes of a micro-batch's output; a weight update's has no samples and is a gradient."""
    workload, stated = case.instance.workload, kernel.output_bytes
    if stated is None:
        stated = kernel.outer * kernel.M * kernel.N * workload.word_bytes
    if kernel.update:
        return scaled(case, stated, workload.weight_format)
    return scaled(case, stated, workload.activation_format) * case.b


def weights(case: PageCase, kernel: Kernel) -> Fraction:
    """Bytes of the weights that schemes divide."""
    stated = kernel.weight_bytes
    if stated is None:
        stated = kernel.outer * kernel.M * kernel.K * case.instance.workload.word_bytes if kernel.weights else 0
    return scaled(case, stated, case.instance.workload.weight_format)


def whole(case: PageCase, kernel: Kernel) -> Fraction:
    """Bytes of parameters that every chip needs."""
    return scaled(case, kernel.whole_bytes, case.instance.workload.weight_format)


def splits_tokens(case: PageCase, kernel: Kernel, scheme: str) -> bool:
    return case.physical and scheme == "N" and not kernel.update


def experts_part(case: PageCase, kernel: Kernel) -> Fraction:
    """p: the part of the experts that is on one of the G chips that share them."""
    return Fraction(math.ceil(Fraction(kernel.experts, case.n * case.degrees.expert)), kernel.experts)


def _nth(case: PageCase, kernel: Kernel, count: int) -> Fraction:
    """The share of the chip with most of ``count`` things that can't be cut."""
    if not case.physical or kernel.kind == "opaque" or count == 0:
        return Fraction(1, case.n)
    return Fraction(math.ceil(Fraction(count, case.n)), count)


def share(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """A chip's share of FLOP, and of what it reads split."""
    key = "share", kernel.name, scheme
    if key not in case.memo:
        case.memo[key] = _share(case, kernel, scheme)
    return case.memo[key]


def _share(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    if scheme == "NONE":
        return Fraction(1)
    if scheme == "E":
        load = written(case.instance.task.expert_load)
        return case.degrees.expert * min(Fraction(1), load * experts_part(case, kernel))
    if scheme == "B":
        return Fraction(math.ceil(Fraction(case.b, case.n)), case.b)
    if scheme in ("OUTER_M", "OUTER_K"):
        count, (g, t) = kernel.M if scheme == "OUTER_M" else kernel.K, groups(case, kernel)
        return Fraction(math.ceil(Fraction(count, t)), g * count)
    rows = kernel.outer * kernel.M
    if scheme in ("M_K", "K_M"):
        by_rows, _ = on_grid(case, scheme)
        return Fraction(math.ceil(Fraction(rows, by_rows)), rows) * terms_on_grid(case, kernel, scheme)
    counted = {
        "OUTER": kernel.outer,
        "M": rows,
        "M_T": rows,
        "N": kernel.N,
        "K": kernel.K,
        "K_RS": kernel.K,
        "K_N": kernel.K,
    }
    return _nth(case, kernel, counted[scheme])


def on_grid(case: PageCase, scheme: str) -> tuple[int, int]:
    """Chips among which rows and terms are split ("Rows and terms over different dimensions")."""
    links = sorted(case.links("tensor"), key=lambda link: -link.bytes_per_ns)
    last = links[-1].size if links else 1
    return (case.n // last, last) if scheme == "M_K" else (last, case.n // last)


def terms_on_grid(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """The part of what a product on a grid reads."""
    return Fraction(math.ceil(Fraction(kernel.K, on_grid(case, scheme)[1])), kernel.K)


def groups(case: PageCase, kernel: Kernel) -> tuple[int, int]:
    """g groups of t chips: as many as divide chips and heads of the cache ("Tokens of the context")."""
    g = math.gcd(case.n, kernel.fetch_outer or kernel.outer)
    return g, case.n // g


def gradient_of_heads(case: PageCase, kernel: Kernel, scheme: str) -> tuple[str, int]:
    """What a product by heads does to make a gradient of fewer heads: nothing, a scatter among g chips, or a sum over
    all chips."""
    of_two = kernel.kind == "gemm" and not kernel.weights and not kernel.update
    if not (case.physical and scheme == "OUTER" and of_two and kernel.phase == "backward"):
        return "nothing", 1
    if kernel.heads == 0 or kernel.heads >= kernel.outer or kernel.heads % case.n == 0:
        return "nothing", 1
    if case.n % kernel.heads == 0:
        return "scatter", case.n // kernel.heads
    return "sum", case.n


def statistics(case: PageCase, kernel: Kernel) -> Fraction:
    """Bytes of a micro-batch's statistics of columns."""
    words = kernel.statistics * kernel.outer * kernel.N * case.b
    return scaled(case, words * case.instance.workload.word_bytes, case.instance.workload.activation_format)


def output_share(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """A chip's share of the output after the sums that the scheme needs."""
    if scheme in ("K", "NONE"):
        return Fraction(1)
    what, _ = gradient_of_heads(case, kernel, scheme)
    if what == "sum":
        return Fraction(1)
    if what == "scatter":
        return _nth(case, kernel, kernel.heads * kernel.M)
    if scheme in ("K_RS", "OUTER_K", "M_K", "K_M"):
        return _nth(case, kernel, kernel.outer * kernel.M)
    if scheme == "K_N":
        return _nth(case, kernel, kernel.N)
    if scheme == "E" and kernel.update:
        return experts_part(case, kernel)
    return share(case, kernel, scheme)


def weights_share(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    if splits_tokens(case, kernel, scheme):
        return Fraction(1)
    return experts_part(case, kernel) if scheme == "E" else share(case, kernel, scheme)


def output(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """Bytes of a micro-batch's output on a chip."""
    key = "output", kernel.name, scheme
    if key not in case.memo:
        case.memo[key] = tensor(case, kernel) * output_share(case, kernel, scheme)
    return case.memo[key]


def held_weights(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """Bytes of weights on a chip, those that every chip needs included."""
    return weights(case, kernel) * weights_share(case, kernel, scheme) + whole(case, kernel)


def parameters(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """W: bytes of a kernel's parameters of one layer on a chip, tables included."""
    table = scaled(case, kernel.table_bytes, case.instance.workload.weight_format)
    return held_weights(case, kernel, scheme) + table * weights_share(case, kernel, scheme)


def read_weights(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """Bytes of weights that a micro-batch reads on a chip: of experts those that its tokens are expected to use."""
    divided = weights(case, kernel) * weights_share(case, kernel, scheme)
    if kernel.experts:
        tokens = case.instance.workload.tokens * case.b * (case.degrees.expert if scheme == "E" else 1)
        used = 1 - (1 - Fraction(kernel.active, kernel.experts)) ** tokens
        divided *= Fraction(math.ceil(used * 10**9), 10**9)
    return divided + whole(case, kernel)


def fetched(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """Bytes per sample that a chip fetches: divided as the FLOP, but for caches of fewer heads and for split tokens."""
    workload = case.instance.workload
    named = workload.weight_format if kernel.table_bytes else workload.cache_format
    stated = scaled(case, kernel.fetch_bytes, named)
    if splits_tokens(case, kernel, scheme) and kernel.kind == "gemm":
        return stated
    if scheme == "OUTER" and kernel.fetch_outer and case.physical and kernel.kind != "opaque":
        h, g = math.ceil(Fraction(kernel.outer, case.n)), kernel.outer // kernel.fetch_outer
        aligned = h % g == 0 or g % h == 0
        read = math.ceil(Fraction(h, g)) if aligned else math.ceil(Fraction(h - 1, g)) + 1
        return stated * min(read, kernel.fetch_outer) / kernel.fetch_outer
    return stated * share(case, kernel, scheme)


def cache_share(case: PageCase, kernel: Kernel, moved: Fraction) -> Fraction:
    """The share of the rate at which ``moved`` bytes of a KV cache are read ("Fixed costs and attention")."""
    found, tables = Fraction(1), case.instance.system.memory.fetch_efficiency
    table = tables.get(case.instance.workload.cache_format, tables.get("", ()))
    if table and not kernel.table_bytes:
        lines = [part for least, part in table if written(least) <= moved]
        found = written(lines[-1] if lines else table[0][1])
    return found


def peak(case: PageCase, kernel: Kernel) -> Fraction:
    """FLOP per nanosecond of the unit and number format in which a kernel computes."""
    chip, workload = case.instance.system.chip, case.instance.workload
    if kernel.kind == "elementwise" and chip.vector_tflops is not None:
        return written(chip.vector_tflops, 1000.0)
    used = [workload.activation_format]
    if kernel.weights or kernel.weight_bytes or kernel.whole_bytes:
        used.append(workload.weight_format)
    if kernel.fetch_bytes:
        used.append(workload.weight_format if kernel.table_bytes else workload.cache_format)
    widest = max(used, key=lambda one: bits(case, one))  # the first of equally wide ones
    if chip.peaks and widest:
        return written(chip.peaks[widest], 1000.0)
    if chip.tflops is not None:
        return written(chip.tflops, 1000.0)
    return written(2.0, chip.tiles, chip.lanes, chip.stages, chip.ghz)


def computed(case: PageCase, kernel: Kernel, scheme: str) -> int:
    """T1 of a kernel in ticks, where a utilisation is given."""
    work = flop(kernel) * case.b * share(case, kernel, scheme)
    reached = Fraction(1)
    table, blocks = case.instance.system.chip.efficiency, case.instance.system.chip.blocks
    attention = case.instance.system.chip.attention
    if kernel.fetch_bytes:
        attention = case.instance.system.chip.attention_cached
    if attention and kernel.kind == "gemm" and not kernel.weights and not kernel.update:
        table, blocks = attention, ()
    if blocks and kernel.kind == "gemm" and kernel.flop is None:
        work = _blocks(case, kernel, scheme)
    elif blocks and kernel.kind != "elementwise":
        reached = max(written(part) for _, _, part in blocks)
    if table and kernel.kind != "elementwise":
        lines = [part for least, part in table if written(least) <= work]
        reached = written(lines[-1] if lines else table[0][1])
    utilisation = case.instance.task.utilisation
    assert utilisation is not None
    return ticks(work / (written(utilisation) * reached * peak(case, kernel)))


def _blocks(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """FLOP at the whole peak that take as long as the blocks of a product ("Blocks")."""
    f, q, m, n, k = share(case, kernel, scheme), 1, kernel.M, kernel.N, kernel.K
    b = int(case.b * f) if scheme == "B" else case.b
    if kernel.update:
        k *= b
    elif kernel.outer > 1:
        q *= b
    else:
        n *= b
    if scheme in ("OUTER_M", "OUTER_K"):
        g, t = groups(case, kernel)
        q = q * kernel.outer // g
        m, k = (math.ceil(Fraction(m, t)), k) if scheme == "OUTER_M" else (m, math.ceil(Fraction(k, t)))
        return _best(case, q, m, n, k)
    if scheme in ("M_K", "K_M"):
        by_rows, by_terms = on_grid(case, scheme)
        rows, k = math.ceil(Fraction(kernel.outer * m, by_rows)), math.ceil(Fraction(k, by_terms))
        h = math.ceil(Fraction(rows, m))
        return _best(case, q * h, math.ceil(Fraction(rows, h)), n, k)
    rows = kernel.outer * m
    rows = math.ceil(rows * f) if scheme in ("OUTER", "M") else rows
    h = math.ceil(Fraction(rows, m))
    m, q = math.ceil(Fraction(rows, h)), q * h
    if scheme == "N" or (scheme == "E" and not kernel.update):
        n = math.ceil(n * f)
    if scheme in ("K", "K_RS", "K_N") or (scheme == "E" and kernel.update):
        k = math.ceil(k * f)
    if kernel.experts:
        e = kernel.experts * (experts_part(case, kernel) if scheme == "E" else 1)
        q = q * math.ceil(e)
        n, k = (n, math.ceil(k / e)) if kernel.update else (math.ceil(n / e), k)
    return _best(case, q, m, n, k)


def _best(case: PageCase, q: int, m: int, n: int, k: int) -> Fraction:
    """The same of q products of m × n sums of k terms, in the best blocks."""
    chip, found = case.instance.system.chip, list[Fraction]()
    for r, c, part in chip.blocks:
        b = q * math.ceil(Fraction(m, r)) * math.ceil(Fraction(n, c))
        rounds = math.ceil(Fraction(b, chip.units))
        found.append(rounds * chip.units * 2 * r * c * (k + chip.block_start) / written(part))
    return min(found)


def least_computed(case: PageCase, kernels: list[Kernel]) -> int:
    """Ticks that kernels compute at least, each under any scheme that it may have."""
    mode = case.instance.mode
    return sum(min(computed(case, one, scheme) for scheme in allowed(one, mode)) for one in kernels)
