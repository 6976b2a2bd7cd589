"""Device maps of ring mappings whose instance knows its modules: keys are modules and parameters."""

from __future__ import annotations

import json
from itertools import product

from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.instance import Package, RingInstance, RingSolution
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.transforms import clone
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.plans.device_map.format import FILE, adopt, emit, suits
from chipmap.plans.plan import EmitOptions

#: Name, module, role: an embedding, two blocks of a product with a residual sum, and a head that shares a table.
_OPERATIONS = (
    *(("table", "", "constant"), ("w0", "", "constant"), ("w1", "", "constant")),
    *(("embed", "embed", "compute"), ("mm0", "layers.0.mlp", "compute"), ("add0", "layers.0", "compute")),
    *(("mm1", "layers.1.mlp", "compute"), ("add1", "layers.1", "compute"), ("head", "head", "compute")),
)
_TENSORS = (*((0, (3, 8)), (1, (4,)), (2, (6,)), (3, (4, 5)), (4, (5,)), (5, (6, 7)), (6, (7,)), (7, (8,)), (8, ())),)
_STATES = {"embed.weight": "table", "layers.0.mlp.weight": "w0", "layers.1.mlp.weight": "w1", "head.weight": "table"}
_STATES |= {"head.unused": ""}


def instance() -> RingInstance:
    """The network on three chips, without memory or order of chips as constraints."""
    graph = OperationGraph(
        name="net",
        operations=tuple(Operation.make(name=name, role=role, kind="op", flop=8) for name, _, role in _OPERATIONS),
        tensors=tuple(
            Tensor(producer=producer, readers=readers, bytes=4, output=not readers) for producer, readers in _TENSORS
        ),
    )
    scopes = tuple(scope for _, scope, _ in _OPERATIONS)
    made = RingInstance(
        name="net", graph=graph, package=Package(chips=3), constraints=(), scopes=scopes, states=_STATES
    )
    made.check()
    return made


def told(made: RingInstance, solution: RingSolution) -> dict[str, int]:
    """The map of a mapping."""
    data = emit(made, solution, EmitOptions())[FILE]
    assert isinstance(data, bytes)
    found: dict[str, int] = json.loads(data)
    return found


def test_every_mapping_comes_back_or_is_refused_for_what_a_library_cannot_do() -> None:
    """By hand: a sum runs where its first operand is, and its two operands must share a chip if its module is split."""
    made, counts = instance(), {"suits": 0, "between": 0, "mixed": 0}
    computing = [v for v, computes in enumerate(ring_problem(made).computing) if computes]
    for chips in product(range(3), repeat=len(computing)):
        solution = lift(made, dict(zip(computing, chips, strict=True)))
        embed, mm0, add0, mm1, add1, _ = chips
        why, devices = suits(made, solution), told(made, solution)
        for state in _STATES:
            assert any(key == "" or f"{state}.".startswith(f"{key}.") for key in devices), (state, devices)
        alone = [len({mm0, add0}) == 1, len({mm1, add1}) == 1]
        first = [alone[0] or add0 == embed, alone[1] or add1 == add0]
        if not all(first):
            counts["between"] += 1
            assert why is not None and "can't be split so" in why, (chips, why)
        elif (not alone[0] and len({mm0, embed}) > 1) or (not alone[1] and len({mm1, add0}) > 1):
            counts["mixed"] += 1
            assert why is not None and "reads what is made on" in why, (chips, why)
        elif why is None:
            counts["suits"] += 1
            plan = adopt(made, json.dumps(devices).encode(), FILE)
            assert plan.solution == solution
        else:
            raise AssertionError((chips, why))
    assert all(counts.values()), counts


def test_parameters_have_keys_and_copies_keep_them() -> None:
    made = instance()
    computing = [v for v, computes in enumerate(ring_problem(made).computing) if computes]
    devices = told(made, lift(made, dict(zip(computing, (0, 0, 0, 1, 1, 1), strict=True))))
    assert devices == {"embed": 0, "layers.0": 0, "layers.1": 1, "head": 1}
    copied = clone(made, ["mm1"]).instance
    assert copied.states == made.states and len(copied.scopes) == len(copied.graph.operations)


def _skipping(modules: tuple[str, ...]) -> RingInstance:
    """Two modules in turn, what both make joined between modules, and a head."""
    names = (*((f"op{i}", scope) for i, scope in enumerate(modules)), ("joined", ""), ("head", "head"))
    edges = ((0, (1, 2)), (1, (2,)), (2, (3,)), (3, ()))
    graph = OperationGraph(
        name="skipping",
        operations=tuple(Operation(name=name, kind="op", flop=8) for name, _ in names),
        tensors=tuple(Tensor(producer=v, readers=to, bytes=4, output=not to) for v, to in edges),
    )
    scopes = tuple(scope for _, scope in names)
    return RingInstance(name="skipping", graph=graph, package=Package(chips=2), constraints=(), scopes=scopes)


def test_the_command_in_a_refusal_finds_mappings_that_suit() -> None:
    """What is between modules stays with what it reads; where no module is in a list, children are kept."""
    command = 'chipmap solve INSTANCE --cut blocks --set \'together=[["op0", "op1", "joined"]]\''
    for modules, said in (
        (("down.0", "down.1"), command),
        (("down", "up"), command.replace("--cut blocks", "--no-split '*'")),
    ):
        made = _skipping(modules)
        refused = suits(made, RingSolution(chips=(0, 1, 1, 1)))
        assert refused is not None and refused.endswith(f". This finds one that it can: {said}"), refused
        for chips in product(range(2), repeat=2):
            assert suits(made, RingSolution(chips=(*(chips[0],) * 3, chips[1]))) is None
