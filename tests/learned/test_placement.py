"""The placement policy: shapes, masks, numbering, segments, gradients, seeds, and runs that were broken off."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import chipmap
from chipmap.heuristics.placement.published import metis
from chipmap.heuristics.placement.starts.human import allow
from chipmap.instances.placement.generators import random_instance
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import IntArray, placement_problem
from chipmap.kernels import plainly
from chipmap.learned.features import of_placement, table
from chipmap.methods.placement import neighbourhoods
from chipmap.records import InputError, SolverUnavailableError
from chipmap.run import SolveOptions

torch = pytest.importorskip("torch", reason="needs the extra learned")

from chipmap.learned.placement import network, ppo, scene, search  # noqa: E402

SIZES = network.Sizes(layers=2, blocks=2, width=8, heads=2, segment=4)
TINY = ppo.Recipe(sizes=SIZES, rollouts=6, epochs=2, rate=1e-2)


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Tiny instances on one thread: nothing is worth compiling."""
    torch.set_num_threads(1)
    with plainly(True, True):
        yield


def instance(devices: int = 3, **fields: Any) -> PlacementInstance:
    """A random graph of 11 operations."""
    return random_instance(operations=11, devices=devices, edges=0.3, seed=5, **fields)


def seen(devices: int = 3, **fields: Any) -> scene.Scene:
    """What a policy sees of it."""
    return scene.Scene(placement_problem(instance(devices, **fields)))


def policy(sizes: network.Sizes = SIZES, seed: int = 0) -> Any:
    """A tiny network whose last layers aren't zero."""
    torch.manual_seed(seed)
    made = network.PlacementPolicy(sizes)
    for name, values in made.named_parameters():
        if name.startswith(("last", "scale")):
            torch.nn.init.normal_(values)
    return made


def test_shapes_for_every_number_of_devices() -> None:
    made = policy()
    for devices in (1, 2, 3, 7):
        one = seen(devices)
        logits = made(network.arrays(one))
        assert one.features.shape == (11, len(scene.ALL_COLUMNS)) and np.isfinite(one.features).all()
        assert logits.shape == (one.units, devices) and torch.isfinite(logits).all()


def test_an_untrained_policy_is_the_prior_and_its_mode_the_best_human_split() -> None:
    one = seen()
    logits = network.PlacementPolicy(SIZES)(network.arrays(one))
    assert torch.equal(logits, torch.as_tensor(one.prior, dtype=torch.float32))
    assert (one.devices(logits.argmax(-1).numpy()) == one.split).all()


def test_groups_share_a_unit_and_what_is_not_allowed_is_never_drawn() -> None:
    given = instance(together=3)
    pin = {"operation": given.graph.operations[0].name, "device": "d1"}
    given = PlacementInstance.from_json(json.dumps({**json.loads(given.to_json()), "pins": [pin]}))
    problem = placement_problem(given)
    one, trainer = scene.Scene(problem), ppo.Trainer(TINY)
    for members in problem.groups:
        assert len(set(one.unit[members].tolist())) == 1
    with torch.no_grad():
        trainer.network.last.weight.normal_()
        chances = trainer.network(network.arrays(one)).log_softmax(-1)
    for drawn in trainer._draw(chances, 200):
        assert problem.allowed[np.arange(problem.operations), one.devices(drawn.numpy())].all()


def test_operations_of_a_segment_are_a_set_and_numbers_mean_nothing() -> None:
    made, graph = policy(), network.arrays(seen())
    n = len(graph.features)
    new = torch.randperm(n, generator=torch.Generator().manual_seed(1))  # new[v]: the operation that v was
    number = torch.argsort(new)
    renumbered = graph._replace(
        features=graph.features[new], edges=number[graph.edges], order=number[graph.order], unit=graph.unit[new]
    )
    assert torch.allclose(made.embed(renumbered), made.embed(graph)[new], atol=1e-6)
    assert torch.allclose(made(renumbered), made(graph), atol=1e-4)
    order = graph.order.clone()
    order[[4, 5, 6, 7]] = order[[7, 4, 6, 5]]  # the second segment, in another order
    assert torch.allclose(made(graph._replace(order=order)), made(graph), atol=1e-4)
    order[[3, 4]] = order[[4, 3]]
    assert not torch.allclose(made(graph._replace(order=order)), made(graph), atol=1e-4)


def test_a_segment_sees_the_one_before_and_sends_it_no_gradient() -> None:
    block, values = network.Block(SIZES), torch.randn(11, 8, requires_grad=True)
    found = block(values)
    changed = values.detach().clone()
    changed[:4] += torch.randn(4, 8)
    moved = (block(changed) - found).abs().sum(-1) > 1e-6
    assert moved[:8].all() and not moved[8:].any(), "one block sees one segment back"
    found[4:8].sum().backward()
    assert values.grad[4:8].abs().sum() > 0 and not values.grad[:4].any() and not values.grad[8:].any()


def test_the_embedding_is_the_maximum_over_neighbours() -> None:
    layer, values = network.Embedding(3), torch.randn(4, 3)
    edges = torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]])
    sent = torch.sigmoid(layer.message(values))
    most = torch.stack((sent[1], torch.maximum(sent[0], sent[2]), sent[1], torch.zeros(3)))
    assert torch.allclose(layer(values, edges), torch.relu(layer.join(torch.cat((values, most), -1))))


@pytest.mark.parametrize("without", [{}, {"attention": False}, {"superposition": False}])
def test_gradients_reach_every_parameter(without: dict[str, Any]) -> None:
    made = policy(network.Sizes(layers=2, blocks=2, width=8, heads=2, segment=4, **without))
    graph = network.arrays(seen())
    (made(graph) ** 2).sum().backward()
    for name, values in made.named_parameters():
        assert values.grad is not None and values.grad.abs().sum() > 0, name


def test_same_seed_same_curve_also_in_two_parts_and_on_two_graphs() -> None:
    def curve(parts: tuple[int, ...]) -> list[list[float]]:
        found, state = [], None
        for cycles in parts:
            trainer, tasks = ppo.Trainer(TINY, 3), [ppo.Task(seen()), ppo.Task(seen(2))]
            if state is not None:
                trainer.resume(torch.load(io.BytesIO(state), weights_only=True))
            found += [trainer.cycle(tasks) for _ in range(cycles)]
            buffer = io.BytesIO()
            torch.save(trainer.state(), buffer)
            state = buffer.getvalue()
        return found

    assert curve((4,)) == curve((1, 3)) != []


def test_invalid_placements_cost_ten() -> None:
    task = ppo.Task(seen())
    assert task.reward(scene.Worth(1, 5)) == ppo.INVALID == -10.0
    assert task.reward(task.best) == -1.0
    assert task.reward(task.best._replace(step=4 * task.best.step)) == -2.0


def test_learning_raises_the_reward() -> None:
    task, trainer = ppo.Task(seen()), ppo.Trainer(ppo.Recipe(sizes=SIZES, rollouts=40, epochs=4, rate=1e-2))
    means = [trainer.cycle([task])[0] for _ in range(25)]
    assert np.mean(means[-5:]) > np.mean(means[:5])


def test_the_method_is_never_worse_than_human_splits() -> None:
    given = instance()
    options = SolveOptions(native={"samples": 40})
    human, found = (
        chipmap.solve(given, method, options if method == "policy" else None) for method in ("human", "policy")
    )
    assert found.status == "feasible" or found.status == "optimal"
    assert found.objective is not None and human.objective is not None and found.objective <= human.objective
    again = chipmap.solve(given, "policy", options)
    assert again.objective == found.objective and again.solution == found.solution


def test_the_prior_is_made_of_the_best_split_whoever_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = placement_problem(instance())
    humans = scene.human_splits(problem)
    by_hand = scene.Scene(problem)
    random = np.random.default_rng(1)
    drawn = [allow(problem, random.integers(0, problem.devices, problem.operations)) for _ in range(200)]
    best = min(drawn, key=by_hand.worth)
    assert by_hand.worth(best) < by_hand.worth(by_hand.split)
    one = scene.Scene(problem, [*humans, best])
    assert (one.split == best).all() and ppo.Task(one).best == by_hand.worth(best)
    monkeypatch.setattr(search, "metis_partitions", lambda *_: [best])
    steps = [by_hand.worth(devices) for devices in search.search(problem, {"samples": 16}, 0)]
    assert steps[: len(humans)] == list(map(by_hand.worth, humans)) and steps[len(humans)] == by_hand.worth(best)


def test_partitions_that_metis_cannot_make_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = placement_problem(instance())

    def fails(_: Any, kind: str, *__: Any) -> IntArray:
        if kind == "time":
            raise metis.MetisError("no memory")
        raise SolverUnavailableError("METIS is not installed")

    monkeypatch.setattr(metis, "partition", fails)
    assert scene.metis_partitions(problem) == []


def test_windows_in_the_order_that_a_policy_proposes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy's placement is taken in as well, and nothing gets worse."""
    monkeypatch.setattr(neighbourhoods, "DRAWN", 32)
    given = instance()
    policy, found = (
        chipmap.solve(given, method, SolveOptions(time_limit=60.0, threads=1, native=native), isolate=False)
        for method, native in (("policy", {"samples": 32}), ("windows-learned", {}))
    )
    assert found.status in ("feasible", "optimal") and found.objective is not None and policy.objective is not None
    assert found.objective <= policy.objective
    assert any(note.kind == "search" and note.text.startswith("windows") for note in found.notes) or found.gap == 0


def test_what_the_policy_is_not_made_for() -> None:
    with pytest.raises(InputError, match="the policy is for step time"):
        seen(task={"objective": "throughput", "memory": "none"})
    with pytest.raises(InputError, match="samples"):
        chipmap.solve(instance(), "policy", SolveOptions(native={"samples": 0}))
    with pytest.raises(InputError, match="width"):
        ppo.Trainer(ppo.Recipe(sizes=network.Sizes(width=10, heads=4)))


def test_features_are_those_of_all_families() -> None:
    graph = of_placement(placement_problem(instance()))
    assert graph.n == 11 and sorted(graph.order.tolist()) == list(range(11))
    assert table(graph).shape == (11, len(scene.COLUMNS))
