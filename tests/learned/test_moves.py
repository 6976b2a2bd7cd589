"""The policy of moves: credit by exact differences, ratios against enumeration, and pre-training that was killed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from chipmap.cli import main
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.instances.placement.generators import random_instance
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.kernels import plainly
from chipmap.learned.ring.data import Row

torch = pytest.importorskip("torch", reason="needs the extra learned")

from chipmap.learned.placement import data, judging, moves, pretraining, scene  # noqa: E402
from chipmap.learned.placement.checkpoint import load  # noqa: E402
from chipmap.learned.placement.search import SHIPPED  # noqa: E402
from chipmap.learned.ring import ppo as ring_ppo  # noqa: E402
from chipmap.learned.ring.slopes import drawn_from, true_slope  # noqa: E402
from chipmap.learned.trainer import surrogate  # noqa: E402

TINY = moves.MoveRecipe(width=8, rollouts=4, epochs=2)


class Small(NamedTuple):
    """A row of a random graph."""

    seed: int
    operations: int = 7

    def problem(self) -> PlacementProblem:
        return placement_problem(random_instance(operations=self.operations, devices=3, edges=0.4, seed=self.seed))


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Tiny instances on one thread: nothing is worth compiling."""
    torch.set_num_threads(1)
    with plainly(True, True):
        yield


def network(seed: int = 0) -> Any:
    """A tiny network whose last layer isn't zero."""
    torch.manual_seed(seed)
    made = moves.MovePolicy(TINY)
    torch.nn.init.normal_(made.last.weight)
    return made


@pytest.mark.parametrize("count", [1, 3])
def test_a_gain_is_what_returning_alone_would_lose(count: int) -> None:
    one = scene.Scene(Small(5).problem())
    walk = moves.Walk(one, TINY.replace(moves=count, differences=count), 1)
    for _ in range(6):
        base, worth, evaluations = walk.base.copy(), walk.worth, walk.evaluations
        walk.rollout(network())
        visit = walk.visits[-1]
        assert walk.evaluations - evaluations == (1 if count == 1 else 1 + count) and walk.worth <= worth
        pairs = [(u, d) for u in range(one.units) for d in range(3) if d != base[u]]
        there = base.copy()
        for k in visit.drawn[-1]:
            there[pairs[k][0]] = pairs[k][1]
        for k, gain in zip(visit.drawn[-1], visit.gain[-1], strict=True):
            without = there.copy()
            without[pairs[k][0]] = base[pairs[k][0]]
            steps = [one.worth(one.devices(each)).step for each in (without, there)]
            assert gain == pytest.approx(max(-1.0, min(1.0, (steps[0] - steps[1]) / worth.step)))


def test_without_a_difference_there_is_no_credit() -> None:
    walk = moves.Walk(scene.Scene(Small(5).problem()), TINY.replace(moves=3, differences=1), 1)
    walk.rollout(network())
    assert sum(gain == gain for gain in walk.visits[0].gain[0]) == 1 and walk.evaluations == 2
    assert int(moves.batch(walk.visits, [(0.0, 1.0)]).count.sum()) == 1


def test_ratios_against_enumeration_on_four_operations() -> None:
    """Over all pairs of moves: probabilities add up to 1, and worths weighted by ratios are the other policy's."""
    one = scene.Scene(Small(3, 4).problem())
    walk = moves.Walk(one, TINY.replace(moves=2, differences=0), 0)
    seen = walk.viewer.look(walk.base, np.zeros((one.units, 3)), np.zeros((one.units, 3)))
    unit, features = torch.as_tensor(seen.unit), torch.as_tensor(seen.features)
    pairs = [[a, b] for a, b in permutations(range(len(unit)), 2) if unit[a] != unit[b]]
    visit = moves.Visit(unit, features, pairs, [[0.0, 0.0]] * len(pairs), [[1.0, 1.0]] * len(pairs))
    given = moves.batch([visit], [(0.0, 1.0)])
    log = []
    for seed in (1, 2):
        logits = network(seed)(given.features)[:, None]
        now = moves.behaviour(logits, given.left, 0.1).gather(-1, given.drawn[..., None])[0, :, 0]
        log.append(now.view(-1, 2).sum(-1).double())
    worth = torch.rand(len(pairs), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    old, new = (each.detach().exp() for each in log)
    assert float(old.sum()) == pytest.approx(1.0, abs=1e-5) and float(new.sum()) == pytest.approx(1.0, abs=1e-5)
    assert float((new - old).abs().max()) > 1e-4
    assert float((old * (log[1] - log[0]).detach().exp() * worth).sum()) == pytest.approx(
        float((new * worth).sum()), abs=1e-6
    )


def test_what_was_drawn_before_is_not_left() -> None:
    walk = moves.Walk(scene.Scene(Small(5).problem()), TINY, 2)
    for _ in range(12):
        walk.rollout(network())
    for visit in walk.visits:
        left, drawn = visit.left()[:, 0], [row[0] for row in visit.drawn]
        assert len(set(drawn)) == len(drawn)
        for k, row in enumerate(left):
            assert set(torch.nonzero(~row)[:, 0].tolist()) == set(drawn[:k])
            logits = network()(visit.features).detach()
            assert visit.old[k][0] == pytest.approx(float(moves.behaviour(logits, row, 0.1)[drawn[k]]), abs=1e-5)


def test_untrained_draws_alike_and_learning_follows_gains() -> None:
    assert not bool(moves.MovePolicy(TINY)(torch.randn(5, len(moves.MOVE_COLUMNS))).any())
    trainer = moves.MoveTrainer(TINY.replace(rate=1e-2, entropy=0.0), 0)
    features = torch.eye(4, len(moves.MOVE_COLUMNS))
    even = float(np.log(0.25))
    for _ in range(30):
        drawn = [[0], [1], [2], [3]]
        rows = [moves.Visit(torch.arange(4), features, [one], [[even]], [[float(one[0] == 2)]]) for one in drawn]
        trainer.learn(rows)
    assert int(trainer.network(features).argmax()) == 2


def test_a_pre_training_killed_and_resumed_gives_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretraining, "EPISODE", 6)
    monkeypatch.setattr(pretraining, "BEFORE", (0, 5))
    rows: Any = (Small(1), Small(2))
    whole = pretraining.Pretraining(rows, TINY, 3, tmp_path / "whole")
    for _ in range(3):
        whole.next_pass()
    for passes in (1, 2):
        part = pretraining.Pretraining(rows, TINY, 3, tmp_path / "parts")
        for _ in range(passes):
            part.next_pass()
    for name in ("pass-0003.pt", "pass-0003.json", "training.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    made, card = load(tmp_path / "whole" / "pass-0003.pt")
    assert card.samples == 36 and any(bool(value.any()) for value in made.last.parameters())
    monkeypatch.setattr(data, "VALIDATION", rows)
    judged = judging.judge(tmp_path / "whole" / "pass-0003.pt", "validation", 8)
    assert judged.samples == 8 and judged.zero_shot >= 1.0 and judged.tuned >= 1.0


def test_the_shipped_policy_and_what_train_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, card = load(SHIPPED)
    assert len(card.instances) == len(data.TRAIN) and card.samples > 0
    assert main(["train", str(tmp_path / "x"), "--family", "placement", "--method", "imitation"]) == 1
    assert main(["train", str(tmp_path / "x"), "--family", "placement", "--device", "abacus"]) == 1
    assert "--device" in capsys.readouterr().err


def failing(chances: Any, left: Any, tried: list[int]) -> float:
    """The probability that exactly these chips are drawn, in any order, and fail before what is left."""
    total = 0.0
    for order in permutations(tried):
        rest, product_of = float(chances[left].sum() + chances[tried].sum()), 1.0
        for c in order:
            product_of *= float(chances[c]) / rest
            rest -= float(chances[c])
        total += product_of
    return total


def test_ring_draws_have_the_probabilities_that_the_ratio_takes() -> None:
    """A chain of 4 operations on 3 chips: those of all mappings and of what failed before add up to 1."""
    parameters = {"operations": 4, "spread": 0.5, "seed": 1}
    problem = Row("train", "chain", "chain", parameters, 3, "", 0).problem()
    sampler, generator = Sampler(problem, "path"), torch.Generator().manual_seed(4)
    logits = torch.randn(1, problem.n, problem.chips, generator=generator)
    free, found = torch.ones(1, problem.n, problem.chips, dtype=torch.bool), dict[float, dict[Any, float]]()
    for heat, k in product((0.5, 2.0), range(200)):
        drawn = sampler.sample(1, 1, None, order=[0, 1, 2, 3], first=k).chips[0]
        left, tried = sampler.left(), sampler._levels.tried[: problem.n, : problem.chips]
        log = drawn_from(logits, torch.tensor([heat]), torch.as_tensor(left)[None])[0]
        chance = float(log.gather(-1, torch.as_tensor(drawn)[:, None]).sum().exp())
        chances = drawn_from(logits, torch.tensor([heat]), free)[0].exp().double().numpy()
        for v in range(problem.n):
            chance *= failing(chances[v], left[v], np.flatnonzero(tried[v]).tolist())
        found.setdefault(heat, {})[(*drawn.tolist(), tried.tobytes())] = chance
    for chance_of in found.values():
        assert all(a <= b for key in chance_of for a, b in pairwise(key[:-1]))
        assert sum(chance_of.values()) == pytest.approx(1.0, abs=1e-4)


def test_the_slope_by_true_probabilities_is_autograds() -> None:
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(1, 5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    left = torch.rand(4, 5, 3, generator=generator) < 0.7
    credited = torch.randint(3, (4, 1, 5), generator=generator)
    left.scatter_(-1, credited[:, 0, :, None], True)
    heat, chosen = torch.tensor([0.25, 0.5, 1.0, 2.0]).double(), torch.rand(4, 5, generator=generator) < 0.8
    was = -torch.rand(4, 1, 5, generator=generator).double()
    gain = torch.linspace(-1, 1, 4)[:, None].double()
    cycle = ring_ppo.Cycle(credited, credited, torch.zeros(0), was, gain, None, None, heat, left, chosen)
    moved = drawn_from(logits, heat, left).gather(-1, credited[:, 0, :, None])[..., 0] - was[:, 0]
    wanted = torch.autograd.grad(surrogate(moved, gain * chosen, 0.2), logits)[0]
    assert torch.allclose(true_slope(logits.detach(), cycle, gain, 0.2), wanted, atol=1e-9)
