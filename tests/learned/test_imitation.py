"""Imitation of proved optima, and rollouts that are kept apart. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chipmap.cli import main
from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.ring.sampling.evaluate import INVALID, Evaluator
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.kernels import plainly
from chipmap.learned.ring.data import Row
from chipmap.records import InputError
from chipmap.solve import solve
from tests.learned.test_features import diamond

torch = pytest.importorskip("torch", reason="needs the extra learned")

from chipmap.bench import judges  # noqa: E402
from chipmap.bench.ring.optima import FILE, optima  # noqa: E402
from chipmap.learned.ring import data, imitation, policy, ppo, proposal_priors  # noqa: E402
from chipmap.learned.ring.checkpoint import load  # noqa: E402
from chipmap.learned.ring.judging import Judged  # noqa: E402
from chipmap.learned.ring.pretraining import Pretraining  # noqa: E402
from chipmap.learned.ring.recipe import MANY  # noqa: E402
from tests.learned.test_pretraining import ROWS, TINY  # noqa: E402

IMITATES = TINY.replace(method="imitation")
#: Two temperatures, and every second pair of rollouts is the prior's.
APART = TINY.replace(rollouts=8, temperatures=(0.5, 2.0), mixed=0.5)


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Tiny instances on one thread: nothing is worth compiling."""
    torch.set_num_threads(1)
    with plainly(True, True):
        yield


@pytest.fixture(scope="module")
def proved() -> list[Row]:
    """The tiny rows with their optima."""
    return [row._replace(optimum=solve(row.contracted(), "ring/auto", isolate=False).objective or 0) for row in ROWS]


def test_optima_are_proved_once_and_kept(proved: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their objectives are the rows'; a row without a proved optimum is left out."""
    found = optima([*proved, ROWS[0]._replace(parameters={"operations": 5, "spread": 0.5, "seed": 9})], tmp_path)
    assert list(found) == [row.name for row in proved]
    for row in proved:
        assert int(Evaluator(row.problem())(np.array([found[row.name]]))[0]) == row.optimum
    monkeypatch.setattr("chipmap.bench.ring.optima.solve", lambda *_, **__: pytest.fail("solved again"))
    assert optima(proved, tmp_path) == found
    (tmp_path / FILE).write_bytes(b"[]")
    with pytest.raises(InputError, match="holds no optima"):
        optima(proved, tmp_path)
    with pytest.raises(Stop):
        optima(proved, tmp_path / "new", Deadline.after(0.0))


def test_a_walk_stays_near_the_optimum(proved: list[Row], tmp_path: Path) -> None:
    """Every mapping of it is valid and worth :data:`imitation.QUALITY`; the target's rows are distributions."""
    for row in proved:
        sampler, chips = Sampler(row.problem()), optima(proved, tmp_path)[row.name]
        found = imitation.walk(sampler, chips)
        values = Evaluator(sampler.problem)(found)
        assert found[0].tolist() == chips and (values < INVALID).all()
        assert (row.optimum >= imitation.QUALITY * values).all()
        prior = torch.zeros(len(chips), row.chips)
        target = imitation.target(sampler, chips, prior)
        assert torch.allclose(target.sum(-1), torch.ones(len(chips)))
        assert (target >= imitation.SHARE_OF_PRIOR / row.chips - 1e-6).all()
        assert torch.equal(target, imitation.target(sampler, chips, prior))


def test_imitation_makes_the_target_likelier() -> None:
    trainer, graph = ppo.Trainer(IMITATES.replace(epochs=40)), policy.arrays(diamond(), 3)
    target = torch.eye(3)[[2, 0, 1, 0]]

    def likely() -> float:
        chances = trainer.network.logits(graph, trainer.network.embed(graph), None)[0].softmax(-1)
        return float((target * chances).sum().detach())

    before = likely()
    assert trainer.imitate([(graph, target)]) == 40
    assert likely() > before + 1.0


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_killed_imitation_goes_on(proved: list[Row], tmp_path: Path, rounds: int) -> None:
    """Same weights, whether the run was whole or ended between passes; PPO's run is another one."""
    recipe, known = IMITATES.replace(rounds=rounds), optima(proved, tmp_path)
    whole = Pretraining(proved, recipe, 3, tmp_path / "whole", known)
    for _ in range(3):
        whole.next_pass()
    Pretraining(proved, recipe, 3, tmp_path / "parts", known).next_pass()
    second = Pretraining(proved, recipe, 3, tmp_path / "parts", known)
    for _ in range(2):
        second.next_pass()
    assert second.curve == whole.curve
    name = "pass-0003.pt"
    assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with pytest.raises(InputError, match="another run"):
        Pretraining(proved, TINY.replace(rounds=rounds), 3, tmp_path / "parts", known)
    with pytest.raises(InputError, match="no optimum to imitate"):
        Pretraining(proved, recipe, 3, tmp_path / "new")


def test_rollouts_are_kept_apart() -> None:
    """Temperatures in turn; for half of the blocks the prior's distribution; by default all are the policy's."""
    logits, prior = (
        torch.randn(8, 4, 3, generator=torch.Generator().manual_seed(0)),
        torch.tensor([[0.0, 1.0, 2.0]] * 4),
    )
    graph = policy.arrays(diamond(), 3)
    found = proposal_priors.bases(APART, graph, proposal_priors.Pool(), torch.Generator()).given(logits, prior)
    for k in range(8):
        own = k // 2 % 2 == 0
        assert torch.allclose(found[k], ((logits[k] if own else prior) / (0.5, 2.0)[k % 2]).softmax(-1))
    alike = proposal_priors.bases(TINY.replace(rollouts=8), graph, proposal_priors.Pool(), torch.Generator())
    assert alike.prior is None and torch.allclose(alike.given(logits, prior), logits.softmax(-1))


@pytest.mark.parametrize("repair", ["sample", "fix"])
def test_a_learner_with_rollouts_apart_is_reproducible(repair: str) -> None:
    """Each rollout is a proposal of its own; same seed, same weights."""
    weights = []
    for _ in range(2):
        learner = ppo.Learner(ROWS[0].problem(), APART.replace(repair=repair, rounds=1), seed=1)
        for k in range(APART.rollouts):
            assert learner.propose().count == 1
            learner.observe(np.zeros(len(learner.graph.features), dtype=np.int64), 100.0 + k)
        weights.append([value.clone() for value in learner.network.state_dict().values()])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
    assert any(value.abs().sum() > 0 for value in weights[0])


def test_the_anchor_pulls_towards_the_prior() -> None:
    """Without rewards that differ, KL(policy || prior) falls."""
    trainer, graph = ppo.Trainer(TINY.replace(anchor=1.0, entropy=0.0, epochs=20)), policy.arrays(diamond(), 3)
    torch.nn.init.normal_(trainer.network.last.weight, generator=torch.Generator().manual_seed(1))

    def away() -> float:
        own = trainer.network.logits(graph, trainer.network.embed(graph), None)[0].log_softmax(-1)
        return float((own.exp() * (own - graph.prior.log_softmax(-1))).sum(-1).mean().detach())

    drawn = torch.zeros(4, 1, 4, dtype=torch.int64)
    before = away()
    with torch.no_grad():
        old = trainer.network.logits(graph, trainer.network.embed(graph), None)[0].log_softmax(-1)
    trainer.train(graph, ppo.Cycle(drawn, drawn, old.expand(4, 1, -1, -1), torch.zeros(4, 1, 4), torch.zeros(4)))
    assert away() < 0.9 * before


@pytest.mark.parametrize("changes", [{"temperatures": ()}, {"temperatures": (0.0,)}, {"mixed": 1.5}, {"anchor": -1.0}])
def test_recipes_that_keep_nothing_apart_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(changes))):
        TINY.replace(**changes).check()


def test_a_recipe_of_before_keeps_its_hash() -> None:
    assert MANY.replace(temperatures=(1.0,), anchor=0.0).content_hash.startswith("26dbca2330ce2215")


def test_the_command_imitates(
    proved: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The card says how the policy was trained; without a proof there is nothing to imitate."""
    monkeypatch.setattr(data, "ROWS", tuple(proved))
    monkeypatch.setattr(judges, "_judged", lambda *_: Judged(samples=5, zero_shot=0.5, tuned=0.75))
    settings = [f"--set={name}={getattr(TINY, name)}" for name in ("layers", "width", "rollouts", "batches", "epochs")]
    command = ["train", str(tmp_path / "run"), "--method", "imitation", *settings, "--every", "1", "--quiet"]
    assert main([*command, "--passes", "1"]) == 0
    assert load(tmp_path / "run" / "pass-0001.pt")[1].recipe.method == "imitation"
    assert main([*command, "--passes", "2", "--time-limit", "0.001"]) == 0, "the optima stand in the folder"
    monkeypatch.setattr(data, "ROWS", tuple(ROWS))
    capsys.readouterr()
    command[1] = str(tmp_path / "new")
    assert main([*command, "--passes", "1"]) == 1
    assert "has no optimum to imitate" in capsys.readouterr().err
