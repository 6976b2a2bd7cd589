"""The ring policy: shapes, masks, permutations, gradients, PPO's parts, and runs that were killed. Needs torch."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chipmap
from chipmap.instances.ring import RingInstance, generators
from chipmap.instances.ring.contraction import computing_only, contract
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.kernels import plainly
from chipmap.records import InputError
from chipmap.run import SolveOptions
from tests.learned.test_features import diamond, permuted

torch = pytest.importorskip("torch", reason="needs the extra learned")

from benchmarks.ring_training import Training  # noqa: E402
from chipmap.learned.ring import checkpoint, policy, ppo  # noqa: E402
from chipmap.learned.trainer import surrogate  # noqa: E402

#: A tiny untrained network.
TINY = ppo.Recipe(layers=2, width=8, rollouts=6, batches=2, epochs=2, rate=1e-2)


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Tiny instances on one thread: nothing is worth compiling."""
    torch.set_num_threads(1)
    with plainly(True, True):
        yield


def problem(chips: int = 3) -> RingProblem:
    """A chain of 8 operations."""
    return computing_only(ring_problem(contract(generators.chain(operations=8, chips=chips)).instance))


def network(seed: int = 0) -> Any:
    """A tiny network whose last layer isn't zero."""
    torch.manual_seed(seed)
    made = policy.RingPolicy(layers=2, width=8)
    torch.nn.init.normal_(made.last.weight)
    return made


def test_shapes_and_every_number_of_chips() -> None:
    made = network()
    for chips in (1, 2, 5, policy.MOST_CHIPS):
        graph = policy.arrays(diamond(), chips)
        embedded = made.embed(graph)
        first = made.logits(graph, embedded, None, 3)
        before = torch.zeros(3, 4, dtype=torch.int64)
        assert embedded.shape == (4, 8) and first.shape == (3, 4, chips)
        assert made.logits(graph, embedded, before).shape == (3, 4, chips)
        assert torch.isfinite(first).all()
    for chips in (0, policy.MOST_CHIPS + 1):
        with pytest.raises(ValueError, match="is made for 1 to 64 chips"):
            policy.arrays(diamond(), chips)
    with pytest.raises(InputError, match="is made for 1 to 64 chips"):
        ppo.Learner(problem(chips=65), TINY)


def test_the_cosines_reach_every_distribution() -> None:
    for chips in (2, 7, policy.MOST_CHIPS):
        assert torch.linalg.matrix_rank(policy.arrays(diamond(), chips).basis) == chips


def test_an_untrained_policy_is_the_prior() -> None:
    graph = policy.arrays(diamond(), 4)
    made = policy.RingPolicy(layers=2, width=8)
    assert torch.equal(made.logits(graph, made.embed(graph), None)[0], graph.prior)
    assert graph.prior.argmax(-1).tolist() == [0, 2, 1, 3], "chips in the order of the work"
    assert not policy.arrays(diamond(), 4, prior=False).prior.any()


def test_a_permutation_of_the_operations_permutes_the_logits() -> None:
    made, places = network(), [2, 0, 3, 1]
    one, other = policy.arrays(diamond(), 3), policy.arrays(permuted(diamond(), places), 3)
    before = torch.tensor([[0, 1, 1, 2], [0, 0, 2, 2]])
    moved = torch.zeros_like(before)
    moved[:, places] = before
    found, also = made.logits(one, made.embed(one), before), made.logits(other, made.embed(other), moved)
    assert torch.allclose(also[:, places], found, atol=1e-5)


def test_sums_over_neighbours_are_means_and_so_are_their_gradients() -> None:
    """The sparse sums and their transpose, against the definition on a dense matrix."""
    given = diamond()
    graph, values = policy.arrays(given, 3), torch.randn(4, 5, requires_grad=True)
    link = torch.zeros(4, 4)
    link[given.edges[:, 1], given.edges[:, 0]] = 1.0
    dense = torch.stack([torch.eye(4)] + [one / one.sum(1, keepdim=True).clamp(min=1.0) for one in (link, link.T)], 1)
    found, wanted = policy.around(graph, values), dense @ values[None].expand(4, -1, -1)
    assert torch.allclose(found, wanted, atol=1e-6)
    weight = torch.randn(4, 3, 5)
    slopes = [torch.autograd.grad((made * weight).sum(), values)[0] for made in (found, wanted)]
    assert torch.allclose(*slopes, atol=1e-6)


def test_a_step_is_adam_down_the_gradient_cut_at_norm_one() -> None:
    """With all weights in one vector as with each by itself, and the network's own tensors are what moves."""
    trainer = ppo.Trainer(TINY, seed=1)
    plain = policy.RingPolicy(TINY.layers, TINY.width)
    plain.load_state_dict(trainer.network.state_dict())
    adam, graph = torch.optim.Adam(plain.parameters(), lr=TINY.rate), policy.arrays(diamond(), 3)
    before = torch.tensor([[0, 1, 1, 2]])
    for _ in range(3):
        losses = [(made.logits(graph, made.embed(graph), before) ** 3).sum() for made in (trainer.network, plain)]
        trainer.descend(trainer.gradient([losses[0]]))
        adam.zero_grad()
        losses[1].backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        adam.step()
    for name, value in plain.state_dict().items():
        assert torch.allclose(value, trainer.network.state_dict()[name], atol=1e-5), name


@pytest.mark.parametrize("shared", [True, False])
def test_the_gradient_that_is_written_down_is_the_objectives(shared: bool) -> None:
    """Clipped objective, entropy, anchor and distance, against PyTorch's own gradient; some ratios leave the clip."""
    trainer = ppo.Trainer(TINY.replace(rounds=1, entropy=0.2, anchor=0.3, kl=0.1), seed=1)
    graph, rollouts = policy.arrays(diamond(), 3), 5
    old = torch.randn(1 if shared else rollouts, 1, 4, 3).log_softmax(-1).expand(rollouts, -1, -1, -1)
    credited = torch.randint(3, (rollouts, 1, 4))
    was = old.gather(-1, credited[..., None])[..., 0]
    cycle = ppo.Cycle(credited, credited, old, was, torch.linspace(-1.0, 1.0, rollouts))
    logits = torch.randn(1 if shared else rollouts, 4, 3, requires_grad=True)
    chances = logits.log_softmax(-1)
    new = chances.expand(rollouts, -1, -1).gather(-1, credited[:, 0, :, None])[..., 0]
    assert ((new - was[:, 0]).abs() > 0.2).any()
    loss = 0.5 * (chances.exp() * chances).sum(-1).mean()
    loss = loss - 0.3 * (chances.exp() * graph.prior.log_softmax(-1)).sum(-1).mean()
    loss = loss - surrogate(new - was[:, 0], cycle.advantage[:, None], trainer.recipe.clip)
    (wanted,) = torch.autograd.grad(loss, logits)
    found, moved = trainer._slope(logits.detach(), graph, cycle, 0)
    assert torch.allclose(found, wanted, atol=1e-6)
    away = (old[:, 0].exp() * (old[:, 0] - chances)).sum(-1).mean()
    assert moved == pytest.approx(float(away.detach()), rel=1e-5)


def test_the_assignment_before_matters() -> None:
    made, graph = network(), policy.arrays(diamond(), 3)
    embedded = made.embed(graph)
    found = made.logits(graph, embedded, torch.tensor([[0, 1, 1, 2], [2, 1, 1, 0]]))
    assert not torch.allclose(found[0], found[1])


def test_gradients_reach_every_weight() -> None:
    made, graph = network(), policy.arrays(diamond(), 3)
    made.logits(graph, made.embed(graph), torch.tensor([[0, 1, 1, 2]])).log_softmax(-1)[..., 0].sum().backward()
    for name, value in made.named_parameters():
        assert value.grad is not None and value.grad.abs().sum() > 0.0, name


def test_advantages() -> None:
    rewards = np.array([0.2, 0.9, 0.2, 0.5])
    assert ppo.advantages(rewards, "rank") == pytest.approx([-2 / 3, 1.0, -2 / 3, 1 / 3])
    assert ppo.advantages(rewards, "reward").mean() == pytest.approx(0.0, abs=1e-12)
    for kind in ("rank", "reward"):
        assert not ppo.advantages(np.full(4, 0.3), kind).any()


@torch.no_grad()
def log_probability(learner: ppo.Learner, drawn: Any) -> float:
    """Logarithm of the probability of assignments [T, n], round by round, per operation and round."""
    embedded, found = learner.network.embed(learner.graph), 0.0
    for t, chips in enumerate(drawn):
        before = drawn[None, t - 1] if t else None
        chances = learner.network.logits(learner.graph, embedded, before).log_softmax(-1)[0]
        found += float(chances.gather(-1, chips[:, None]).mean()) / len(drawn)
    return found


@pytest.mark.parametrize("changes", [{}, {"repair": "fix"}, {"credit": "proposed", "prior": False}, {"rounds": 1}])
def test_a_step_makes_what_was_worth_more_likelier(changes: dict[str, Any]) -> None:
    """The rollout of the largest reward gains probability, in a policy that is trained on one cycle."""
    learner = ppo.Learner(problem(), TINY.replace(epochs=20, entropy=0.0, **changes), seed=3)
    mappings = [np.minimum(2, np.arange(8) // (k + 1)) for k in range(TINY.rollouts)]
    for k, chips in enumerate(mappings):
        learner.propose()
        if k == 2:
            credited = learner.planned[k].clone()
            if learner.recipe.credit == "repaired":
                credited[-1] = torch.tensor(chips)
            before = log_probability(learner, credited)
        learner.observe(chips, 1000.0 if k == 2 else 3000.0)
    assert log_probability(learner, credited) > before + 0.01


def test_same_seed_same_curve_and_another_seed_another() -> None:
    curves = [Training(problem(), TINY, seed).run(24) for seed in (1, 1, 2)]
    assert curves[0] == curves[1] != curves[2]
    assert [point.samples for point in curves[0]] == [6, 12, 18, 24]
    assert all(b.best <= a.best for a, b in zip(curves[0], curves[0][1:], strict=False))


def test_a_killed_run_goes_on_unchanged(tmp_path: Path) -> None:
    whole = Training(problem(), TINY, 4).run(36)
    Training(problem(), TINY, 4, tmp_path).run(12)
    resumed = Training(problem(), TINY, 4, tmp_path)
    assert resumed.samples == 12 and resumed.run(36) == whole
    with pytest.raises(InputError, match="belongs to another run"):
        Training(problem(), TINY, 5, tmp_path)
    (tmp_path / "resume-36.pt").write_bytes(b"damaged")
    with pytest.raises(InputError, match="holds no state"):
        Training(problem(), TINY, 4, tmp_path)


def test_zero_shot_changes_no_weight() -> None:
    training = Training(problem(), TINY, 0, learn=False)
    before = [value.clone() for value in training.learner.network.parameters()]
    training.run(12)
    assert all(torch.equal(a, b) for a, b in zip(before, training.learner.network.parameters(), strict=True))


class Evil:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (exec, ("raise SystemExit('executed')",))


def test_a_checkpoint_comes_back_and_a_poisoned_one_is_refused(tmp_path: Path) -> None:
    path, made = tmp_path / "policy.pt", network()
    card = checkpoint.save(path, made, TINY, samples=12, instances=("abc",))
    again, found = checkpoint.load(path)
    assert found == card and (found.samples, found.instances) == (12, ("abc",))
    for name, value in made.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)

    def refused(data: bytes, why: str) -> None:
        path.write_bytes(data)
        with pytest.raises(InputError, match=why) as error:
            checkpoint.load(path)
        assert str(path) in str(error.value)

    def sealed(data: bytes) -> bytes:
        text = json.loads(path.with_suffix(".json").read_text())
        text["sha256"] = hashlib.sha256(data).hexdigest()
        path.with_suffix(".json").write_text(json.dumps(text))
        return data

    good = path.read_bytes()
    refused(good[:-1], "SHA-256")
    refused(sealed(pickle.dumps(Evil())), "holds more than tensors")
    torch.save({"x": Evil()}, path)
    refused(sealed(path.read_bytes()), "holds more than tensors")
    torch.save({"x": torch.zeros(1)}, path)
    refused(sealed(path.read_bytes()), "aren't those of its recipe")
    weights = made.state_dict()
    one = weights["last.bias"].clone()
    one[3] = float("nan")
    for bad, why in ((weights["last.bias"][:3].clone(), "isn't the recipe's"), (one, "finite"), (one / 0, "finite")):
        torch.save({**weights, "last.bias": bad}, path)
        refused(sealed(path.read_bytes()), why)
    for bad in (weights["last.bias"].to("meta"), torch.zeros(4).to_sparse(), None, torch.zeros(0)):
        torch.save({**weights, "last.bias": bad}, path)
        refused(sealed(path.read_bytes()), "isn't the recipe's|no numbers of its own")
    whole = io.BytesIO()
    torch.save(weights, whole)
    packed = io.BytesIO()
    with zipfile.ZipFile(whole) as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in plain.infolist():
            archive.writestr(entry.filename, plain.read(entry))
    refused(sealed(packed.getvalue()), "packed")
    for broken in (b"", b"PK", whole.getvalue()[:-9], whole.getvalue().replace(b"data.pkl", b"data.pk1")):
        refused(sealed(broken), "damaged")
    path.unlink()
    with pytest.raises(InputError, match=r"policy\.pt"):
        checkpoint.load(path)


def test_recipes_that_make_no_network_are_refused() -> None:
    for name, value in (("width", 0), ("rollouts", 1), ("layers", 10**6), ("batches", 21)):
        with pytest.raises(InputError, match="Give"):
            ppo.Recipe.make(**{name: value}).check()


def test_the_method_finds_valid_mappings_and_takes_an_evaluator(tmp_path: Path) -> None:
    instance = chipmap.read("ring/tiny-diamond")
    assert isinstance(instance, RingInstance)
    checkpoint.save(tmp_path / "tiny.pt", network(), TINY)
    native = {"samples": 12, "checkpoint": str(tmp_path / "tiny.pt")}
    options = SolveOptions(deterministic=True, warm_start="none", native=native, seed=2)
    one, two = (chipmap.solve(instance, "ring/policy", options) for _ in range(2))
    assert one.status in ("feasible", "optimal") and one.certificate is not None and one.certificate.feasible
    assert one.solution == two.solution
    measured = chipmap.solve(
        instance,
        "ring/policy",
        evaluator=lambda instance, solution: float(max(solution.chips)),
        evaluations=3,
        native=native,
    )
    assert measured.evaluation is not None and 1 <= measured.evaluation.calls <= 3


@pytest.mark.parametrize(
    ("native", "what"),
    [
        ({"recipe": "theirs"}, "recipe"),
        ({"learn": 1}, "learn"),
        ({"checkpoint": 3}, "checkpoint"),
        ({"checkpoint": "no.pt"}, "no"),
    ],
)
def test_wrong_options_are_said(native: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        chipmap.solve("ring/tiny-chain", "ring/policy", warm_start="none", native=native)


def test_neighbourhoods_in_the_order_of_the_shipped_policy() -> None:
    """The search ends no worse than greedy's mapping and the policy's, and tells no bound but the plain ones."""
    instance = generators.chain(operations=12, chips=4)
    options = SolveOptions(time_limit=30.0, threads=1)
    found = chipmap.solve(instance, "ring/windows-learned", options, isolate=False)
    start = chipmap.solve(instance, "ring/greedy", options, isolate=False)
    assert found.objective is not None and start.objective is not None and found.objective <= start.objective
    assert any(note.text.startswith("neighbourhoods") for note in found.notes)
    assert not {bound.source for bound in found.bounds} & {"neighbourhoods", "learned start"}


@pytest.mark.parametrize("name", ["resume.json", "resume-12.pt"])
def test_a_damaged_state_is_refused_in_words(tmp_path: Path, name: str) -> None:
    """The seal or the state: cut, changed, of another shape, or sealed anew by another hand."""
    Training(problem(), TINY, 0, tmp_path).run(12)
    path, seal = tmp_path / name, tmp_path / "resume.json"
    good, text = path.read_bytes(), json.loads(seal.read_text())
    state = torch.load(tmp_path / "resume-12.pt", weights_only=True)
    others: list[bytes] = [b"", b"{}", b"\xff" * 100, good[: len(good) // 2], b"[" * 2_000]
    for made in ({}, {**state, "curve": [(1,)]}, {**state, "learner": None}, {"learner": {"network": state}}):
        other = io.BytesIO()
        torch.save(made, other)
        others.append(other.getvalue())
    for data in others:
        path.write_bytes(data)
        if path != seal:
            seal.write_text(json.dumps({**text, "sha256": hashlib.sha256(data).hexdigest()}))
        with pytest.raises(InputError) as error:
            Training(problem(), TINY, 0, tmp_path)
        assert str(tmp_path) in str(error.value) and error.value.remedy
