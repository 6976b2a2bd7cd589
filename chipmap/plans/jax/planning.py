"""A mapping as what a chip does: runs of kernels on its own parts of tensors, and exchanges between them.

A kernel's scheme says in which layout it needs each operand and makes its output ("Sharding", "Tokens" and "Experts" of
the family's pages). Parameters rest as the forward kernel's scheme has them; another kernel's other use of them, and a
gradient that doesn't lie as they rest, are exchanges. A policy says what else a runtime does:

| field | |
|---|---|
| ``keep`` | where a layout that a reader paid for serves others: in its partition (``none``), its phase, the step |
| ``adds`` | makers that one kernel alone reads and adds up are added on each chip before one exchange |
| ``experts`` | outputs of experts are combined where they are, and token sums exchanged, if that moves less |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, NamedTuple

from chipmap.instances.dataflow.instance import Keep
from chipmap.instances.dataflow.workload import Scheme
from chipmap.plans.jax.layouts import AXIS, PARTIAL, WHOLE, Change, Layout, change, covers, moved
from chipmap.plans.jax.steps import Layer, Step, routed_tokens, weights
from chipmap.records import InputError

#: Schemes that end in a sum over chips, and the layout that it leaves.
SUMS: dict[Scheme, str] = {"K": "RR", "K_RS": "SR", "K_N": "RS"}


class Policy(NamedTuple):
    """What a runtime does beside what schemes say."""

    keep: Keep = "step"
    adds: bool = True
    experts: bool = True


class Held(NamedTuple):
    """A tensor in a layout."""

    tensor: str
    layout: Layout


class Move(NamedTuple):
    """An exchange of a tensor, or a slice; ``payer`` is the kernel in whose T3, or T6, it counts.

    ``again``: how often the same exchange was made before.
    """

    tensor: str
    change: Change
    payer: str
    term: Literal["T3", "T6"]
    again: int = 0


class Add(NamedTuple):
    """The sum on each chip of tensors that lie alike."""

    tensors: tuple[Held, ...]
    made: Held


class Run(NamedTuple):
    """A kernel on a chip's parts; ``at_experts`` of a routed operand's own experts, which leaves sums over these."""

    step: Step
    scheme: Scheme
    inputs: tuple[Held, ...]
    parameters: Held | None
    made: Held
    at_experts: bool = False


Instruction = Move | Add | Run


@dataclass(frozen=True)
class Plan:
    """A chip's program: instructions in order, how inputs and parameters rest, and where outputs and gradients end."""

    layer: Layer
    chips: int
    instructions: tuple[Instruction, ...]
    rests: dict[str, Layout]
    results: tuple[Held, ...]

    def bytes_of(self, tensor: str) -> Fraction:
        """Those of the whole tensor."""
        name = tensor.partition("+")[0]
        rows, experts, columns = self.layer.sizes[name]
        return Fraction(rows * experts * columns * self.layer.workload.word_bytes)

    def made(self) -> dict[str, Layout]:
        """The layout in which each kernel leaves its output, after the sum that its scheme ends in."""
        found: dict[str, Layout] = {}
        for one in self.instructions:
            if isinstance(one, Run):
                found[one.step.name] = one.made.layout
            elif isinstance(one, Move) and one.change.before.kind == "sum":
                found[one.tensor] = one.change.after
        return found

    def moves(self) -> list[tuple[Move, Fraction]]:
        """The exchanges with their bytes over a chip's link."""
        found = [one for one in self.instructions if isinstance(one, Move) and one.change.collective]
        return [(one, moved(self.bytes_of(one.tensor), one.change, self.chips)) for one in found]


def plan(
    layer: Layer,
    schemes: Mapping[str, Scheme],
    chips: int,
    policy: Policy | None = None,
    partitions: Mapping[str, int] | None = None,
) -> Plan:
    """The plan of a layer under these schemes. Kernels run in the order of ``partitions`` (None: each is one of its
    own). Raises :class:`InputError` where ``chips`` doesn't divide what a scheme splits, or a kernel can't have its
    scheme."""
    if partitions is not None:
        late = {step.name: step.kernel.phase == "backward" for step in layer.steps}
        steps = sorted(layer.steps, key=lambda step: (late[step.name], partitions[step.name]))
        layer = replace(layer, steps=tuple(steps))
    alone = {step.name: i for i, step in enumerate(layer.steps)}
    return _Planner(layer, schemes, chips, policy or Policy(), partitions or alone).run()


class _Planner:
    def __init__(
        self, layer: Layer, schemes: Mapping[str, Scheme], chips: int, policy: Policy, partitions: Mapping[str, int]
    ) -> None:
        self.layer, self.schemes, self.chips, self.policy, self.partitions = layer, schemes, chips, policy, partitions
        self.instructions: list[Instruction] = []
        #: Of each tensor its layouts, each with the kernel that paid for it (None: it was made so).
        self.present: dict[str, list[tuple[Layout, Step | None]]] = defaultdict(list)
        self.sent: dict[tuple[str, Change], int] = defaultdict(int)
        self.rests: dict[str, Layout] = {}
        self.readers: dict[str, int] = defaultdict(int)
        for maker, _ in layer.workload.edges:
            self.readers[maker] += 1
        self.added_by = self._added()

    def run(self) -> Plan:
        """The exchanges of all kernels in the order in which they run, and the layouts of parameters and results."""
        for step in self.layer.steps:
            if step.parameters == step.name:
                self.rests[weights(step.name)] = self._parameters(step, self.schemes[step.name])
        for name, layout in self.rests.items():
            self.present[name].append((layout, None))
        for step in self.layer.steps:
            self._step(step)
        results = tuple(self._results())
        return Plan(self.layer, self.chips, tuple(self.instructions), self.rests, results)

    def _added(self) -> dict[str, str]:
        """For each product that one kernel alone reads and adds to others, that kernel."""
        found: dict[str, str] = {}
        for step in self.layer.steps:
            alone = [u for u in step.sources if self.readers[u] == 1 and self.layer.step(u).operator == "transposed"]
            if self.policy.adds and len(alone) > 1 and self.chips > 1:
                found |= dict.fromkeys(alone, step.name)
        return found

    def _results(self) -> list[Held]:
        """The layer's output, the gradient of its input, and gradients of parameters as these rest."""
        made = {step.name for step in self.layer.steps}
        read = {maker for maker, _ in self.layer.workload.edges}
        carried = {maker for maker, _ in self.layer.workload.carries}
        found = []
        for step in self.layer.steps:
            if step.operator == "update":
                rest = self.rests[weights(step.parameters)]
                found.append(self._have(step.name, rest, step, "T6"))
            elif step.name in made and (step.name in carried or step.name not in read):
                found.append(Held(step.name, self.present[step.name][0][0]))
        return found

    def _step(self, step: Step) -> None:
        scheme = self.schemes[step.name]
        needs, out = self._layouts(step, scheme)
        names, needs = self._sources(step, needs)
        routed = self._at_experts(step, scheme, names, needs, out)
        if routed is not None:
            needs, out = routed
        inputs = tuple(self._have(u, need, step) for u, need in zip(names, needs, strict=True))
        parameters = None
        if step.parameters and step.operator != "update":
            parameters = self._have(weights(step.parameters), self._parameters(step, scheme), step)
        made = Held(step.name, out)
        if out.kind != "sum":
            self._check(step.name, out)
        self.instructions.append(Run(step, scheme, inputs, parameters, made, routed is not None))
        self.present[step.name].append((out, None))
        if out.kind == "sum" and step.name not in self.added_by:
            self._summed(step.name, step, self._left(step, scheme))

    def _left(self, step: Step, scheme: Scheme) -> Layout:
        """The layout in which a kernel whose chips have terms of a sum leaves it."""
        if step.operator == "outer" and scheme == "OUTER":
            return Layout("SR", self.chips)
        if scheme in SUMS:
            return Layout(SUMS[scheme], self.chips) if SUMS[scheme] != "RR" else WHOLE  # type: ignore[arg-type]
        return self._split(step, scheme)

    def _summed(self, tensor: str, step: Step, left: Layout) -> None:
        """Add up the terms that chips have of a tensor, so that the sum lies as ``left`` says."""
        held = self.present[tensor].pop()[0]
        self._check(tensor, left)
        self.instructions.append(Move(tensor, change(held, left), step.name, "T3"))
        self.present[tensor].append((left, None))

    def _sources(self, step: Step, needs: list[Layout]) -> tuple[list[str], list[Layout]]:
        """The tensors that a kernel reads, after those that it adds up first are one for each way that they lie in."""
        groups: dict[tuple[Layout, str], list[str]] = defaultdict(list)
        names, kept = [], []
        for u, need in zip((*step.sources, *step.operands), needs, strict=True):
            if u in step.sources and self.added_by.get(u) == step.name:
                layout = self.present[u][0][0]
                groups[layout, self.schemes[u] if layout.kind == "sum" else ""].append(u)
            else:
                names.append(u)
                kept.append(need)
        alike: dict[Layout, list[str]] = defaultdict(list)
        for (layout, scheme), members in groups.items():
            total = self._add(members, layout)
            if layout.kind == "sum":
                self._summed(total, step, self._left(self.layer.step(members[0]), scheme))  # type: ignore[arg-type]
            alike[self.present[total][0][0]].append(total)
        first = [self._add(members, layout) for layout, members in alike.items()]
        needed = needs[:1] * len(first)
        return first + names, needed + kept

    def _add(self, members: list[str], layout: Layout) -> str:
        """The tensor that is the sum of ``members``, which all lie in ``layout``."""
        total = "+".join(members)
        if len(members) > 1:
            self.instructions.append(Add(tuple(Held(u, layout) for u in members), Held(total, layout)))
            self.present[total].append((layout, None))
        return total

    def _at_experts(
        self, step: Step, scheme: Scheme, names: list[str], needs: list[Layout], out: Layout
    ) -> tuple[list[Layout], Layout] | None:
        """Needs and output of a kernel that adds up columns of experts, run where these are; None if it moves more."""
        routed = {"combine": 0, "combine_b": len(step.sources), "dispatch_b": 0}.get(step.operator)
        if routed is None or (step.operator == "combine_b" and step.which == 1) or not self.policy.experts:
            return None
        ends = range(len(step.sources)) if step.operator == "dispatch_b" else [routed]
        ends = [i for i in ends if i < len(names)]
        if not ends or any(self.present[names[i]][0][0].kind != "EE" for i in ends):
            return None
        there = Layout("EE", self.chips)
        apart = sum((self._moved(names[i], there, needs[i]) for i in ends), Fraction(0))
        mine = [there if i in ends else WHOLE for i in range(len(needs))]
        if step.operator == "combine_b":  # a number for each copy of a token is gathered
            others = [i for i in range(len(needs)) if i not in ends]
            together = sum((self._moved(names[i], self.present[names[i]][0][0], WHOLE) for i in others), Fraction(0))
        else:
            together = self._moved(step.name, PARTIAL, out)
        return None if together >= apart else (mine, out if step.operator == "combine_b" else PARTIAL)

    def _moved(self, tensor: str, before: Layout, after: Layout) -> Fraction:
        rows, experts, columns = self.layer.sizes[tensor.partition("+")[0]]
        return moved(Fraction(rows * experts * columns), change(before, after), self.chips)

    def _have(self, tensor: str, need: Layout, step: Step, term: Literal["T3", "T6"] = "T3") -> Held:
        """See that a tensor is there in the layout that a kernel needs, by an exchange if none there covers it."""
        there = [layout for layout, payer in self.present[tensor] if payer is None or self._reaches(payer, step)]
        if need in there:
            return Held(tensor, need)
        self._check(tensor, need)
        source = next((one for one in there if covers(one, need)), None)
        if source is None:
            source = self.present[tensor][0][0]
            one = change(source, need)
            self.instructions.append(Move(tensor, one, step.name, term, self.sent[tensor, one]))
            self.sent[tensor, one] += 1
            if not tensor.startswith("W:"):
                self.present[tensor].append((one.after, step))
            source = one.after
        if source != need:
            self.instructions.append(Move(tensor, Change(None, source, need), step.name, term))
        return Held(tensor, need)

    def _reaches(self, payer: Step, reader: Step) -> bool:
        """Whether what ``payer`` was sent is still there for ``reader``."""
        if self.policy.keep == "none":
            return self.partitions[payer.name] == self.partitions[reader.name]
        return self.policy.keep == "step" or payer.kernel.phase == reader.kernel.phase

    def _check(self, tensor: str, layout: Layout) -> None:
        axis = AXIS.get(layout.kind)
        if axis is not None and self.layer.sizes[tensor.partition("+")[0]][axis] % layout.parts:
            what = f"{('rows', 'experts', 'columns')[axis]} of {tensor!r} aren't {layout.parts} equal parts"
            raise InputError(what, "chips", "Take sizes that the number of chips divides.")

    def _heads(self, heads: int) -> Layout:
        """Rows split by heads: fewer than chips are on several of them."""
        if heads % self.chips and self.chips % heads:
            raise InputError(
                f"{heads} heads on {self.chips} chips", "chips", "Take numbers of which one divides the other."
            )
        return Layout("SR", min(heads, self.chips))

    def _split(self, step: Step, scheme: Scheme) -> Layout:
        """The layout of an element-wise kernel's output, or a product's without sums."""
        n = self.chips
        if n == 1 or scheme == "NONE":
            return WHOLE
        if scheme == "OUTER":
            return self._heads(step.kernel.outer)
        if scheme == "M" or (scheme == "N" and step.operator == "update"):
            return Layout("SR" if scheme == "M" else "RS", n)
        if scheme in ("N", "E"):
            return Layout("RS" if scheme == "N" else "EE", n)
        return PARTIAL

    def _parameters(self, step: Step, scheme: Scheme) -> Layout:
        """The part of the parameters that a forward kernel or one that multiplies by their transpose uses."""
        n, forward = self.chips, step.operator == "linear"
        if n == 1 or scheme in ("N", "NONE"):
            return WHOLE
        if scheme == "E":
            return Layout("EE", n)
        if scheme == "OUTER" and forward:
            return self._heads(step.kernel.outer)
        by_rows = (scheme in ("OUTER", "M")) == forward
        return Layout("SR" if by_rows else "RS", n)

    def _layouts(self, step: Step, scheme: Scheme) -> tuple[list[Layout], Layout]:
        """What a kernel needs of each source and operand, and how it makes its output."""
        n, count = self.chips, len(step.sources) + len(step.operands)
        out = self._split(step, scheme)
        if step.operator.startswith("rotary") and out.kind == "SR" and self.layer.sizes[step.name][0] // out.parts % 2:
            what = f"rows of {step.name!r} are turned in pairs, and {out.parts} chips part some"
            raise InputError(what, "chips", "Take sizes of which each chip has an even number, or split by heads.")
        if step.operator.startswith(("dispatch", "combine")):
            self._share(step, out.parts if out.kind == "RS" else 1)
        if n == 1:
            return [WHOLE] * count, WHOLE
        rows, columns = Layout("SR", n), Layout("RS", n)
        if step.operator in ("linear", "transposed"):
            if scheme == "OUTER" and step.operator == "transposed":
                out = rows
            return [{"SR": WHOLE, "RR": WHOLE, "sum": rows}.get(out.kind, out)] * count, out
        if step.operator == "update":
            needs = {"M": [rows, WHOLE], "N": [WHOLE, rows], "NONE": [WHOLE, WHOLE]}.get(scheme)
            return needs or [columns if out.kind == "sum" else out] * 2, out
        if step.operator in ("product", "outer"):
            return self._products(step, scheme, out)
        needs = [out] * count
        if step.operator in ("combine", "combine_b"):
            needs = self._combined(step, scheme, out)
        return needs, out

    def _share(self, step: Step, parts: int) -> None:
        """Refuse tokens of which not all experts get as many."""
        tokens, experts = routed_tokens(self.layer, self.layer.sizes) // parts, self.layer.experts
        if tokens % experts:
            on = " on a chip" if parts > 1 else ""
            what = f"{tokens} tokens{on} aren't shared out evenly among {experts} experts in {step.name!r}"
            raise InputError(what, "chips", "Take a number of tokens that chips and experts divide.")

    def _products(self, step: Step, scheme: Scheme, out: Layout) -> tuple[list[Layout], Layout]:
        """Of two activations: by heads, of which several may share one; by tokens; or a sum over tokens."""
        if scheme not in ("OUTER", "N", "NONE", "K_N"):
            raise InputError(f"{step.name!r} can't run by {scheme} here", "schemes", "Take OUTER, N or K_N.")
        if step.operator == "outer":
            shared = scheme == "OUTER" and step.heads < min(self.chips, step.kernel.outer)
            made = Layout("sum", step.heads) if shared else out
            return [Layout("RS", self.chips) if scheme == "K_N" else out] * 2, made
        operand = (*step.sources, *step.operands)[1]
        if scheme == "N":
            return [out, WHOLE], out
        heads = self.layer.step(operand).heads
        return [out, self._heads(heads) if scheme == "OUTER" else WHOLE], out

    def _combined(self, step: Step, scheme: Scheme, out: Layout) -> list[Layout]:
        """Rows of outputs, but all of the weights of tokens, which aren't rows of these."""
        others = WHOLE if out.kind == "SR" else out
        if step.operator == "combine":
            return [out, others, *[out] * (len(step.operands) - 2)]
        if step.which == 1:
            return [*[out] * len(step.sources), others]
        return [out] * (len(step.sources) + 1)
