"""What rollouts start from: the prior, a narrowed prior, or one of the best mappings so far. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chipmap.heuristics.ring.sampling.evaluate import INVALID
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import search
from chipmap.kernels import plainly
from chipmap.records import InputError
from tests.learned.test_features import diamond

torch = pytest.importorskip("torch", reason="needs the extra learned")

from benchmarks.ring_training import Training  # noqa: E402
from chipmap.learned.ring import from_options as given  # noqa: E402
from chipmap.learned.ring import policy, ppo, proposal_priors  # noqa: E402
from chipmap.learned.ring.recipe import REFINED  # noqa: E402
from chipmap.learned.trainer import surrogate  # noqa: E402
from tests.learned.test_policy import network, problem  # noqa: E402

#: Twenty rollouts in blocks of four: blocks 1, 3 and 4 refine, and half of each kind of block is without the network.
TINY = REFINED.replace(layers=2, width=8, rate=1e-2)
REFINES = [False] * 4 + [True] * 4 + [False] * 4 + [True] * 8


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Tiny instances on one thread: nothing is worth compiling."""
    torch.set_num_threads(1)
    with plainly(True, True):
        yield


def test_the_pool_holds_the_best_distinct_mappings() -> None:
    """Of equally good ones the newest come first, and stay."""
    pool, ways = proposal_priors.Pool(), [torch.tensor([k]) for k in range(8)]
    for reward, chips in zip((0.1, 0.5, 0.5, 0.2, 0.5, 0.9, 0.5, 0.05), ways, strict=True):
        pool.add(reward, chips)
        pool.add(reward, chips.clone())
    assert [(reward, int(chips)) for reward, chips in pool.best] == [(0.9, 5), (0.5, 6), (0.5, 4), (0.5, 2)]


def test_a_neighbourhood_stays_with_its_share() -> None:
    """Rows add up to 1; an operation stays with 1 - e and the share of e that falls on its own chip."""
    chips = torch.tensor([0, 2, 3])
    found = proposal_priors.neighbourhood(chips, 4, 0.2).exp()
    assert torch.allclose(found.sum(-1), torch.ones(3), atol=1e-5)
    other = np.exp(-((np.arange(4) - 2) ** 2) / 2)
    assert found[1].numpy() == pytest.approx(0.8 * np.eye(4)[2] + 0.2 * other / other.sum(), abs=1e-6)


def test_most_rollouts_refine_once_there_is_something_to_refine() -> None:
    """Without a mapping all have the prior; with one, blocks of both kinds are partly without the network."""
    graph, random, pool = policy.arrays(diamond(), 3), torch.Generator().manual_seed(0), proposal_priors.Pool()
    first = proposal_priors.bases(TINY, graph, pool, random)
    assert first.start is None and not first.refined.any()
    assert first.plain.tolist() == [False] * 4 + [True] * 4 + [False] * 4 + [True] * 4 + [False] * 4
    assert first.prior is not None and torch.equal(first.prior[~first.plain], graph.prior.expand(12, -1, -1))
    best = torch.tensor([0, 1, 1, 2])
    pool.add(0.5, best)
    later = proposal_priors.bases(TINY, graph, pool, random)
    assert later.refined.tolist() == REFINES and later.start is not None and later.prior is not None
    assert later.plain.tolist() == [False] * 8 + [True] * 8 + [False] * 4
    assert torch.equal(later.start[later.refined], best.expand(12, -1)) and bool(
        (later.start[~later.refined] == -1).all()
    )
    assert later.worth.tolist() == [0.5 * one for one in REFINES]
    assert later.temperature.tolist() == [0.25, 0.5, 1.0, 2.0] + [1.0] * 4 + [0.25, 0.5, 1.0, 2.0] + [1.0] * 8
    for k, leaving in zip(range(4, 8), proposal_priors.LEAVING, strict=True):
        assert torch.equal(later.prior[k], proposal_priors.neighbourhood(best, 3, leaving))
    logits = torch.randn(20, 4, 3)
    given = later.given(logits, graph.prior)
    assert torch.allclose(given[8], (later.prior[8] / 0.25).softmax(-1)) and torch.allclose(
        given[4], logits[4].softmax(-1)
    )


def test_a_narrowed_prior_reaches_fewer_chips() -> None:
    """Work stands on the first chips; only rollouts without the network are narrowed."""
    graph = policy.arrays(diamond(), 10)
    found = proposal_priors.bases(
        TINY.replace(narrowed=1.0), graph, proposal_priors.Pool(), torch.Generator().manual_seed(0)
    )
    assert found.prior is not None
    last = found.prior.argmax(-1).amax(-1)
    whole = int(graph.prior.argmax(-1).max())
    assert (last[~found.plain] == whole).all() and (last[found.plain] < whole).any()
    assert (last[found.plain] >= int(proposal_priors.LEAST_REACH * whole) - 1).all()


def test_an_untrained_policy_is_its_bases() -> None:
    """The network's share of the logits is 0 at first; what it sees of a mapping counts later, row by row."""
    graph, before = policy.arrays(diamond(), 3), torch.tensor([[-1, -1, -1, -1], [0, 1, 1, 2]])
    prior = torch.stack((graph.prior, proposal_priors.neighbourhood(before[1], 3, 0.1)))
    fresh, made = policy.RingPolicy(2, 8), network()
    assert torch.equal(fresh.logits(graph, fresh.embed(graph), before, prior=prior), prior)
    found = made.logits(graph, made.embed(graph), before, prior=prior) - prior
    alone = made.logits(graph, made.embed(graph), None)[0] - graph.prior
    refining = made.logits(graph, made.embed(graph), before[1:])[0] - graph.prior
    assert torch.allclose(found[0], alone, atol=1e-5) and torch.allclose(found[1], refining, atol=1e-5)
    assert not torch.allclose(found[0], found[1])


def test_only_operations_that_left_their_chip_are_credited() -> None:
    """By whether the mapping got better; fresh rollouts compete among themselves."""
    start = torch.tensor([[-1, -1]] * 2 + [[0, 1]] * 3)
    refined = start[:, 0] >= 0
    base = proposal_priors.Bases(None, start, torch.ones(5), ~refined, refined, 0.5 * refined.double())
    credited = torch.tensor([[0, 0], [1, 1], [0, 2], [1, 1], [0, 1]])
    rewards = torch.tensor([0.9, 0.1, 0.6, 0.4, 0.5], dtype=torch.float64)
    found = ppo.refined_advantages(rewards, base, credited, "rank")
    assert found.tolist() == [[1.0, 1.0], [-1.0, -1.0], [0.0, 1.0], [pytest.approx(-ppo.STAYED), 0.0], [0.0, 0.0]]


def test_the_gradient_of_advantages_by_operation() -> None:
    """Against PyTorch's own, with priors of the rollouts' own in the anchor."""
    trainer, graph = ppo.Trainer(TINY.replace(entropy=0.2, anchor=0.3), seed=1), policy.arrays(diamond(), 3)
    old = torch.randn(5, 1, 4, 3).log_softmax(-1)
    credited, gain, prior = torch.randint(3, (5, 1, 4)), torch.randn(5, 4), torch.randn(5, 4, 3)
    was = old.gather(-1, credited[..., None])[..., 0]
    logits = torch.randn(5, 4, 3, requires_grad=True)
    chances = logits.log_softmax(-1)
    new = chances.gather(-1, credited[:, 0, :, None])[..., 0]
    loss = 0.5 * (chances.exp() * chances).sum(-1).mean()
    loss = loss - 0.3 * (chances.exp() * prior.log_softmax(-1)).sum(-1).mean()
    loss = loss - surrogate(new - was[:, 0], gain, trainer.recipe.clip)
    (wanted,) = torch.autograd.grad(loss, logits)
    found, _ = trainer._slope(logits.detach(), graph, ppo.Cycle(credited, credited, old, was, gain, prior), 0)
    assert torch.allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"rounds": 2}, {"repair": "fix"}, {"credit": "proposed"}])
def test_a_killed_run_refines_the_same_mappings(changes: dict[str, object], tmp_path: Path) -> None:
    """The best mappings so far are part of the state, and the networks learn."""
    recipe = TINY.replace(**changes)
    whole = Training(problem(), recipe, 4)
    curve = whole.run(80)
    Training(problem(), recipe, 4, tmp_path).run(40)
    resumed = Training(problem(), recipe, 4, tmp_path)
    assert resumed.samples == 40 and resumed.run(80) == curve
    assert any(bool(value.any()) for name, value in whole.learner.network.named_parameters() if name.startswith("last"))


def test_policies_of_many_graphs_refine_nothing() -> None:
    """What a graph's best mappings were isn't kept between passes, so a run that was killed would differ."""
    learner = ppo.Learner(problem(), trainer=ppo.Trainer(TINY))
    for _ in search(Sampler(problem()), learner, 0, 40):
        pass
    assert len(learner.cycles) == 2 and all(cycle.start is None for _, cycle in learner.cycles)


def test_what_is_refined_is_among_the_best_so_far() -> None:
    """Its worth is the reward that its own sample got; the recipe is the usual one of the method."""
    sampler = Sampler(problem())
    learner = given.learner(sampler.problem, {"learn": False}, 0)
    assert learner.recipe == REFINED
    found = [
        (sampler.problem.least_ticks / value, mapping)
        for mapping, value in search(sampler, learner, 0, 45)
        if mapping is not None and value < INVALID
    ]
    base, best = learner._bases, sorted((reward for reward, _ in found[:40]), reverse=True)
    assert base.start is not None and base.refined.sum() == 12
    for k in np.flatnonzero(base.refined.numpy()).tolist():
        worth, start = float(base.worth[k]), base.start[k].numpy()
        assert worth >= best[len(best) // 2]
        assert any(worth == reward and np.array_equal(start, mapping) for reward, mapping in found)


@pytest.mark.parametrize("changes", [{"refined": 1.5}, {"narrowed": -0.1}])
def test_shares_beyond_all_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(changes))):
        TINY.replace(**changes).check()
