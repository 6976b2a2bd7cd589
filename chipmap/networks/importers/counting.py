"""What is counted for operators without a rule, and what a program comes to in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from chipmap.networks.importers.operators.calls import Call
from chipmap.networks.importers.steps import Program, Step, Value
from chipmap.records import InputError, listed

#: What an operator counts whose FLOP no rule gives. ``bytes``: one per element (the larger of what it makes and of its
#: largest operand), so that its time is that of its bytes. ``zero``: none. ``error``: the program is refused.
UNKNOWN = ("error", "zero", "bytes")
#: Which branch is read where the inputs decide; ``heavier`` is the one with more FLOP.
BRANCHES = ("true", "false", "heavier")
_PREFIXES = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_DECOMPOSE = "Save the program decomposed (`program.run_decompositions()`)"
_FORMULAS = "give formulas in Python (`import_graph(path, formulas={'library.operator': function})`)"


@dataclass(frozen=True)
class Counting:
    """How FLOP are counted that no rule gives.

    ``formulas`` by the kind of an operator (``mylib.blend``) go before rules: each takes the :class:`.calls.Call`, with
    the tensors that the operator reads (``call.operand(0).shape``) and makes (``call.result``) and its other arguments
    by name, and returns its FLOP. What has neither counts as ``unknown`` says. ``branch``: which branch is read where
    the inputs decide between two (one of :data:`BRANCHES`; None: the program is refused).
    """

    unknown: str = "bytes"
    formulas: Mapping[str, Callable[[Call], int]] = field(default_factory=dict)
    branch: str | None = None

    def __post_init__(self) -> None:
        if self.unknown not in UNKNOWN:
            remedy = f"Choose from: {', '.join(UNKNOWN)}."
            raise InputError(f"unknown operators can't count as {self.unknown!r}", "--unknown", remedy)
        if self.branch not in (None, *BRANCHES):
            raise InputError(f"no branch is called {self.branch!r}", "--branch", f"Choose from: {', '.join(BRANCHES)}.")

    def counted(self, program: Program, where: str) -> list[Step]:
        """The steps of ``program`` with what ``formulas`` say, and no FLOP of unknown ones where these count zero."""
        return [self._counted(step, program, where) for step in program.steps]

    def _counted(self, step: Step, program: Program, where: str) -> Step:
        if step.kind in self.formulas:
            flop = self.formulas[step.kind](call_of(step, program))
            if not isinstance(flop, int) or flop < 0:
                remedy = "FLOP are a whole number, 0 or more."
                raise InputError(f"the formula of {step.kind!r} gives {flop!r} for {step.name!r}", where, remedy)
            return replace(step, flop=flop, known=True)
        return replace(step, flop=0) if self.unknown == "zero" and not step.known else step

    def weight(self, program: Program, where: str) -> tuple[int, int]:
        """FLOP of all operators of ``program`` that aren't views, and the bytes that these move."""
        steps = [step for step in self.counted(program, where) if not step.view]
        return sum(step.flop for step in steps), sum(bytes_moved(step, program) for step in steps)

    def chosen(self, weigh: Callable[[bool], tuple[int, int]], branches: list[str], name: str) -> bool | None:
        """Which branch of the node ``name`` is read, added to ``branches`` in words; None where nothing says so.

        ``weigh`` gives the :meth:`weight` of a branch.
        """
        if self.branch != "heavier":
            if self.branch:
                branches.append(f"{name[:60]} ({self.branch})")
            return None if self.branch is None else self.branch == "true"
        yes, no = weigh(True), weigh(False)
        told = f"{amount(max(yes, no)[0])}, the other {amount(min(yes, no)[0])}"
        branches.append(f"{name[:60]} ({'true' if yes >= no else 'false'}: {told})")
        return yes >= no

    def notes(self, program: Program, computing: Iterable[Step], where: str) -> tuple[str, ...]:
        """A note that names the computing operators without a rule, if there are any, with their share of bytes moved.

        Raises :class:`InputError` where they are to be refused.
        """
        moved: Counter[str] = Counter()
        count: Counter[str] = Counter()
        total = 0
        for step in computing:
            size = bytes_moved(step, program)
            total += size
            if not step.known:
                moved[step.kind] += size
                count[step.kind] += 1
        if not count:
            return ()
        shares = [(kind, 100 * size / max(1, total)) for kind, size in moved.most_common(30)]
        listed = ", ".join(f"{kind[:60]} ({count[kind]}, {share:.2g}% of all bytes moved)" for kind, share in shares)
        what = f"FLOP of {count.total()} operator{'s' * (count.total() > 1)} not known: {listed}"
        if self.unknown == "error":
            remedy = f"{_DECOMPOSE}, {_FORMULAS}, or choose `--unknown bytes` or `--unknown zero`."
            raise InputError(what, where, remedy)
        taken = "one per element was counted" if self.unknown == "bytes" else "none were counted"
        return (f"{what}; {taken}",)


def branch_notes(branches: list[str]) -> tuple[str, ...]:
    """A note on the branches that were read because the command said so, if there are any."""
    if not branches:
        return ()
    return (f"inputs decide between branches; read were {listed(branches, 10)}",)


def complex_notes(program: Program, computing: Iterable[Step]) -> tuple[str, ...]:
    """A note on operators that count complex numbers as real ones, if there are any (Fourier transforms do not)."""
    found: Counter[str] = Counter()
    for step in computing:
        fourier = "fft" in step.kind or step.kind.endswith("stft")
        if not fourier and not program.complex.isdisjoint((*step.reads, *step.makes)):
            found[step.kind] += step.flop
    if not found.total():
        return ()
    listed = ", ".join(f"{kind[:60]} {amount(flop)}" for kind, flop in found.most_common(10))
    what = f"{amount(found.total())} on complex numbers count as on real ones ({listed})"
    return (f"{what}; in real numbers a multiply-add of complex ones is 8 FLOP, not 2",)


@dataclass(frozen=True)
class Totals:
    """What a program comes to: FLOP of computing operations, and numbers, bytes and tensors of the parameters that
    something reads, and of its ``buffers``. ``calls`` are its computing operators with their FLOP, ``beforehand`` those
    that compute on constants alone. ``stored``: bytes of parameters and buffers that are read.
    """

    flop: int
    numbers: int
    bytes: int
    tensors: int
    calls: tuple[tuple[Call, int], ...] = ()
    buffers: tuple[int, int, int] = (0, 0, 0)
    beforehand: tuple[Call, ...] = ()
    stored: int = 0


def totals(program: Program, computing: Iterable[Step], constant: Iterable[Step] = (), stored: int = 0) -> Totals:
    """The totals of ``program``, whose operators ``computing`` depend on an input and ``constant`` ones on none."""
    steps = list(computing)
    read = {name for step in program.steps for name in step.reads} | set(program.outputs)
    held = [name for name in program.parameters if name in read]
    parameters = [program.values[name] for name in held if name not in program.buffers]
    buffers = [program.values[name] for name in held if name in program.buffers]
    return Totals(
        flop=sum(step.flop for step in steps),
        numbers=sum(value.elements for value in parameters),
        bytes=sum(value.bytes for value in parameters),
        tensors=len(parameters),
        calls=tuple((call_of(step, program), step.flop) for step in steps),
        buffers=(sum(one.elements for one in buffers), sum(one.bytes for one in buffers), len(buffers)),
        beforehand=tuple(call_of(step, program) for step in constant),
        stored=stored,
    )


def call_of(step: Step, program: Program) -> Call:
    """The operator with its tensors."""
    read, made = _values(step.reads, program), _values(step.makes, program)
    return Call(step.kind, read, made, step.arguments)


def bytes_moved(step: Step, program: Program) -> int:
    """Bytes that an operator moves: those that its rule says, else its distinct operands and its results."""
    if step.moved is not None:
        return step.moved
    names = [*dict.fromkeys(step.reads), *step.makes]
    return sum(value.bytes for value in _values(names, program))


def _values(names: Iterable[str], program: Program) -> list[Value]:
    """The tensors among ``names`` (numbers have no bits)."""
    return [value for name in names if (value := program.values.get(name)) is not None and value.bits]


def amount(flop: int, sign: str = "") -> str:
    """``12.34 GFLOP``."""
    size, prefix = next(((s, p) for s, p in _PREFIXES if abs(flop) >= s), (1, ""))
    return f"{flop / size:{sign}.4g} {prefix}FLOP"
