"""What is mapped: the kernels of one layer, their tensors, and how often the layer is repeated."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import ClassVar, Literal

from msgspec import structs

from chipmap.instances.dataflow.formats import Format
from chipmap.records import InputError, Record, counted

KernelKind = Literal["gemm", "elementwise", "opaque"]
Phase = Literal["forward", "backward"]
#: How a kernel is split over the chips of a tensor-parallel group (paper, section IV; page, "Sharding").
Scheme = Literal["OUTER", "M", "K", "K_RS", "N", "NONE", "E", "K_N", "B", "OUTER_M", "OUTER_K", "M_K", "K_M", "M_T"]
#: What a kernel sends to all chips of its stage, whatever its scheme (page, "Sharding").
Exchange = Literal["none", "all_to_all", "broadcast"]

#: What users of a network count: rates are told in these.
Counted = Literal["tokens", "images", "samples"]

MAX_KERNELS = 100_000
MAX_LAYERS = 100_000
MAX_SIZE = 10**12


#: Fields of a kernel that are FLOP or bytes.
_SIZES = ("flop", "output_bytes", "weight_bytes", "fetch_bytes", "exchange_bytes", "whole_bytes", "table_bytes")


class Kernel(Record, frozen=True, kw_only=True, cache_hash=True):
    """One kernel of a layer.

    A ``gemm`` computes an (outer · M) × N output from an outer · M × K operand (``weights``: parameters, else an
    activation) and a K × N one: 2 · outer · M · K · N FLOP. An ``elementwise`` kernel takes ``flop_per_element`` per
    element of its (outer · M) × N output. An ``opaque`` kernel states ``flop``, ``output_bytes`` and ``weight_bytes``
    itself (M, K, N unused). ``update`` marks weight updates, whose output stays on the chip and is summed over the data
    parallel replicas. ``schemes`` names the ways in which it may be sharded (empty: those of its kind).

    ``fetch_bytes`` per sample come from DRAM beside weights and tensors (a KV cache, rows of embedding tables).
    ``whole_bytes`` of its parameters are needed by every chip, beside ``weight_bytes``, which schemes divide.
    ``fetch_outer``: the parts of that along ``outer``, a divisor of it (the heads of a KV cache; 0: ``outer`` itself).
    ``table_bytes``: a table of which rows are fetched. It rests in DRAM with the parameters, divided like these, and is
    not read as weights.
    ``experts``: the weights are those of so many experts, of which each token uses ``active`` (page, "Routing"). A
    micro-batch reads the part of them that its tokens are expected to use; all of them are held.
    ``operand`` names the kernel that makes the (outer · M) × K operand of a gemm of two activations: the keys or values
    of an attention, of which tokens that are split need all ("": not said; page, "Parallelism"). Of a weight update it
    is what the forward kernel read; the other one is the gradient.
    ``heads`` are those of the output's rows, where they aren't ``outer`` (0): a product that makes the gradient of
    heads, a gradient of keys that several query heads share; a forward kernel whose ``outer`` are heads of each sample.
    ``adds`` names makers that this kernel alone reads, and adds up before it does anything else.
    ``parameters_of`` names the forward kernel whose parameters a backward kernel uses, or of which an update is.
    ``statistics``: numbers of each column that an element-wise kernel adds up over all of the column's rows.
    ``exchange_bytes`` per sample go through an ``exchange`` with all chips of the stage, those of other replicas too.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        "fetch_bytes",
        "exchange",
        "exchange_bytes",
        "whole_bytes",
        "table_bytes",
        "fetch_outer",
        "experts",
        "active",
        "operand",
        "heads",
        "adds",
        "parameters_of",
        "statistics",
    )

    name: str
    kind: KernelKind
    outer: int = 1
    M: int = 1
    K: int = 0
    N: int = 1
    weights: bool = False
    flop_per_element: int = 1
    flop: int | None = None
    output_bytes: int | None = None
    weight_bytes: int | None = None
    phase: Phase = "forward"
    update: bool = False
    schemes: tuple[Scheme, ...] = ()
    fetch_bytes: int = 0
    exchange: Exchange = "none"
    exchange_bytes: int = 0
    whole_bytes: int = 0
    table_bytes: int = 0
    fetch_outer: int = 0
    experts: int = 0
    active: int = 0
    operand: str = ""
    heads: int = 0
    adds: tuple[str, ...] = ()
    parameters_of: str = ""
    statistics: int = 0

    def published(self) -> Kernel:
        """The kernel as mode ``dfmodel`` knows it."""
        if not (self.heads or self.adds or self.parameters_of or self.statistics or (self.update and self.operand)):
            return self
        operand = "" if self.update else self.operand
        return structs.replace(self, heads=0, adds=(), parameters_of="", statistics=0, operand=operand)

    @property
    def has_parameters(self) -> bool:
        """Whether it has weights, or rows of a table."""
        return self.weights or bool(self.weight_bytes or self.whole_bytes or self.table_bytes)

    def check(self, where: str = "kernel") -> None:
        """Raise :class:`InputError` for sizes that make no sense."""
        for name in ("outer", "M", "N"):
            if not 1 <= (size := getattr(self, name)) <= MAX_SIZE:
                raise InputError(f"{name} of {self.name!r} is {size}", f"{where}.{name}", f"Give 1 to {MAX_SIZE:,}.")
        if self.kind == "gemm" and not 1 <= self.K <= MAX_SIZE:
            raise InputError(f"K of {self.name!r} is {self.K}", f"{where}.K", "A gemm needs its inner dimension K.")
        for name in _SIZES:
            value = getattr(self, name)
            if value is None and self.kind == "opaque":
                raise InputError(f"opaque kernel {self.name!r} has no {name}", f"{where}.{name}", "State it.")
            if value is not None and not 0 <= value <= MAX_SIZE**2:
                raise InputError(f"{name} of {self.name!r} is {value}", f"{where}.{name}", "Give 0 or more.")
        if (self.exchange == "none") != (self.exchange_bytes == 0):
            words = f"{self.name!r} exchanges {counted(self.exchange_bytes, 'byte')} ({self.exchange})"
            raise InputError(words, f"{where}.exchange", "Give a kind and its bytes, or neither.")
        if self.flop_per_element < 0:
            raise InputError(f"is {self.flop_per_element}", f"{where}.flop_per_element", "Give 0 or more.")
        if self.fetch_outer and (self.fetch_outer < 0 or self.outer % self.fetch_outer):
            words = f"fetch_outer of {self.name!r} is {self.fetch_outer}, its outer {self.outer}"
            raise InputError(words, f"{where}.fetch_outer", "Give a divisor of outer, or 0.")
        if not 0 <= self.active <= self.experts <= 10_000 or (self.active == 0) != (self.experts == 0):
            words = f"{self.name!r} has {counted(self.experts, 'expert')}, of which a token uses {self.active}"
            raise InputError(words, f"{where}.experts", "Give 1 to 10,000 and active from 1 to as many, or neither.")
        if self.weights and self.kind != "gemm":
            raise InputError(f"{self.name!r} is no gemm but has weights", f"{where}.weights", "Use weight_bytes.")
        if len(set(self.schemes)) != len(self.schemes):
            raise InputError(f"{self.name!r} names a scheme twice", f"{where}.schemes", "Name each once.")
        if "E" in self.schemes and (not self.experts or self.fetch_bytes or self.table_bytes):
            what = "fetches from DRAM" if self.experts else "has no experts"
            remedy = "Give experts and active, and neither fetch_bytes nor table_bytes, or leave E out."
            raise InputError(f"{self.name!r} {what}, but may be divided by experts", f"{where}.schemes", remedy)
        if "K_N" in self.schemes and self.kind != "gemm":
            what = f"{self.name!r} is no gemm, but its sums may be scattered by columns (K_N)"
            raise InputError(what, f"{where}.schemes", "Leave K_N out.")
        self._check_activations(where)
        self._check_grid(where)
        if self.operand and (self.kind != "gemm" or self.weights):
            what = f"{self.name!r} is no gemm of two activations, but names its operand {self.operand!r}"
            raise InputError(what, f"{where}.operand", "Leave it out.")
        self._check_exchanges(where)

    def _check_activations(self, where: str) -> None:
        """Raise :class:`InputError` for schemes of forward kernels without parameters where it is another one."""
        for scheme, split in (("B", "samples"), ("OUTER_M", "rows of each head"), ("OUTER_K", "sums of each head")):
            if scheme in self.schemes and (self.has_parameters or self.phase == "backward" or self.experts):
                what = f"{self.name!r} has parameters, experts or a backward phase, but its {split} may be split"
                raise InputError(f"{what} ({scheme})", f"{where}.schemes", f"Leave {scheme} out.")
            if (
                scheme in self.schemes
                and scheme != "B"
                and (self.kind == "opaque" or (scheme, self.kind) == ("OUTER_K", "elementwise"))
            ):
                what = f"{self.name!r} ({self.kind}) has none, but its {split} may be split ({scheme})"
                raise InputError(what, f"{where}.schemes", f"Leave {scheme} out.")

    def _check_grid(self, where: str) -> None:
        """Raise :class:`InputError` for schemes of a grid of chips where it is another kernel."""
        for scheme, kind in (("M_K", "gemm"), ("K_M", "gemm"), ("M_T", "elementwise")):
            fits = self.kind == kind and self.weights == (kind == "gemm")
            if scheme in self.schemes and not (fits and self.phase == "forward" and not self.experts):
                what = f"{self.name!r} is no forward kernel on which a grid of chips works by {scheme}"
                remedy = f"Leave {scheme} out: M_K and K_M are for products with weights, M_T for element-wise kernels."
                raise InputError(what, f"{where}.schemes", remedy)

    def _check_exchanges(self, where: str) -> None:
        """Raise :class:`InputError` where what exchanges follow from makes no sense."""
        if self.heads < 0 or (self.heads and self.outer * self.M % self.heads):
            what = f"{self.name!r} has {self.heads} heads of {self.outer * self.M} rows"
            raise InputError(what, f"{where}.heads", "Give a divisor of outer · M, or 0.")
        if not 0 <= self.statistics <= 10_000 or (self.statistics and self.kind != "elementwise"):
            what = f"{self.name!r} ({self.kind}) has {self.statistics} statistics of a column"
            raise InputError(what, f"{where}.statistics", "Give 0 to 10,000, and 0 if it isn't element-wise.")
        if len(set(self.adds)) != len(self.adds):
            raise InputError(f"{self.name!r} names a maker twice", f"{where}.adds", "Name each once.")
        if self.parameters_of and self.phase == "forward":
            what = f"{self.name!r} is a forward kernel, but uses the parameters of {self.parameters_of!r}"
            raise InputError(what, f"{where}.parameters_of", "Leave it out: its parameters are its own.")


class Axes(Record, frozen=True, kw_only=True):
    """What a kernel's outer, M, K and N range over, in words ("": not said, or there is no such range)."""

    outer: str = ""
    M: str = ""
    K: str = ""
    N: str = ""

    @classmethod
    def of(cls, outer: str, rows: str, inner: str, columns: str = "tokens") -> Axes:
        """Those of outer, M, K and N."""
        return cls(outer=outer, M=rows, K=inner, N=columns)

    @property
    def listed(self) -> tuple[str, str, str, str]:
        """The names of outer, M, K and N."""
        return self.outer, self.M, self.K, self.N


class Workload(Record, frozen=True, kw_only=True):
    """One layer and its repetitions.

    ``edges`` names (producer, consumer): a tensor, the producer's output. ``carries`` are the edges from one repetition
    to the next, those of backward kernels to the one before. ``layers`` repetitions; ``word_bytes`` per element;
    ``tokens`` is N of a whole sample (the page's sequence), of which a tile streams through a chip at a time.
    ``weight_format``, ``activation_format`` and ``cache_format`` name number formats: bytes stated of these are scaled
    from ``word_bytes`` to the format's, and the chip's peak is the format's ("": as stated; page, "Chips").
    ``counted`` names what rates of inference count: tokens, or else samples by their name.
    ``axes``: kernel -> what its dimensions are called, where that is known. They decide nothing;
    those of kernels that the layer hasn't are passed over.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        "weight_format",
        "activation_format",
        "cache_format",
        "counted",
        "axes",
        "first",
        "last",
        "end_edges",
    )

    name: str
    kernels: tuple[Kernel, ...]
    edges: tuple[tuple[str, str], ...]
    carries: tuple[tuple[str, str], ...] = ()
    layers: int = 1
    word_bytes: int = 2
    tokens: int = 1
    weight_format: Format = ""
    activation_format: Format = ""
    cache_format: Format = ""
    counted: Counted = "tokens"
    axes: dict[str, Axes] = {}
    first: tuple[Kernel, ...] = ()
    last: tuple[Kernel, ...] = ()
    end_edges: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Raise :class:`InputError` for anything that the types alone don't exclude; a cycle names its kernels."""
        if not 1 <= len(self.kernels) <= MAX_KERNELS:
            raise InputError(f"has {len(self.kernels)} kernels", "workload.kernels", f"Give 1 to {MAX_KERNELS:,}.")
        names: set[str] = set()
        phase = {kernel.name: kernel.phase for kernel in self.kernels}
        for i, kernel in enumerate(self.kernels):
            kernel.check(f"workload.kernels[{i}]")
            if kernel.name in names:
                raise InputError(f"{kernel.name!r} is named twice", f"workload.kernels[{i}].name", "Name each once.")
            names.add(kernel.name)
        for field in ("edges", "carries"):
            seen: set[tuple[str, str]] = set()
            for i, edge in enumerate(getattr(self, field)):
                here, words = f"workload.{field}[{i}]", " -> ".join(map(repr, edge))
                for name in edge:
                    if name not in names:
                        raise InputError(f"no kernel is called {name!r}", here, "Use its name.")
                if edge in seen:
                    raise InputError(f"{words} is named twice", here, "Name each tensor's reader once.")
                if (phase[edge[0]], phase[edge[1]]) == ("backward", "forward"):
                    raise InputError(f"{words} leads back to a forward kernel", here, "Backward kernels run last.")
                seen.add(edge)
        for name, low, high in (("layers", 1, MAX_LAYERS), ("word_bytes", 1, 64), ("tokens", 1, 10**9)):
            if not low <= (value := getattr(self, name)) <= high:
                raise InputError(f"is {value}", f"workload.{name}", f"Give {low} to {high:,}.")
        read = {*self.edges, *self.carries}
        for i, kernel in enumerate(self.kernels):
            if kernel.operand and (kernel.operand, kernel.name) not in read:
                what = f"{kernel.name!r} reads nothing that {kernel.operand!r} makes"
                raise InputError(
                    what, f"workload.kernels[{i}].operand", "Name a kernel that it reads, or leave it out."
                )
        self._check_exchanges()
        order = TopologicalSorter[str]()
        for producer, consumer in self.edges:
            order.add(consumer, producer)
        try:
            order.prepare()
        except CycleError as error:
            _, *cycle = error.args[1]
            what = f"the kernels {' -> '.join([*cycle, cycle[0]])} form a cycle"
            raise InputError(what, "workload.edges", "Leave out one of these edges.") from None

    def _check_exchanges(self) -> None:
        """Raise :class:`InputError` where kernels name others that can't be what they say."""
        kernels = {kernel.name: kernel for kernel in self.kernels}
        readers: dict[str, list[str]] = {name: [] for name in kernels}
        for maker, reader in (*self.edges, *self.carries):
            readers[maker].append(reader)
        for i, kernel in enumerate(self.kernels):
            here, of = f"workload.kernels[{i}]", kernels.get(kernel.parameters_of)
            if kernel.parameters_of and (of is None or of.phase == "backward" or not of.has_parameters):
                what = f"{kernel.parameters_of!r}, whose parameters {kernel.name!r} uses, is no forward kernel with any"
                raise InputError(what, f"{here}.parameters_of", "Name a forward kernel with weights, or leave it out.")
            for name in kernel.adds:
                if name in kernels and kernels[name].update:
                    what = f"{name!r}, which {kernel.name!r} adds up, is a weight update"
                    raise InputError(what, f"{here}.adds", "Leave it out: updates are summed over replicas.")
                if readers.get(name) != [kernel.name] or (name, kernel.name) in self.carries:
                    what = f"{name!r}, which {kernel.name!r} adds up, isn't read by it alone in its layer"
                    raise InputError(what, f"{here}.adds", "Name makers with this one reader, or leave them out.")
