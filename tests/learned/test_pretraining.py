"""Pre-training: many graphs, one policy; runs that were killed; judges; the command; the start that is shipped. Needs
torch."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import numpy as np
import pytest

from chipmap.cli import main
from chipmap.deadline import Deadline, Stop
from chipmap.inputs.reading import read
from chipmap.kernels import plainly
from chipmap.learned.ring import data
from chipmap.learned.ring.data import Row
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve

torch = pytest.importorskip("torch", reason="needs the extra learned")

from chipmap.bench import judges  # noqa: E402
from chipmap.bench.training import Verdict, best, pretrain, read_verdicts  # noqa: E402
from chipmap.learned.ring.checkpoint import load  # noqa: E402
from chipmap.learned.ring.from_options import SHIPPED, shipped  # noqa: E402
from chipmap.learned.ring.judging import Judged, judge  # noqa: E402
from chipmap.learned.ring.ppo import Learner, Recipe, Trainer  # noqa: E402
from chipmap.learned.ring.pretraining import Pretraining  # noqa: E402

#: A tiny untrained network.
TINY = Recipe(layers=1, width=8, rounds=1, rollouts=4, batches=2, epochs=2, rate=1e-2)


def row(seed: int, chips: int = 3, operations: int = 7) -> Row:
    """A tiny chain."""
    parameters = {"operations": operations, "spread": 0.5, "seed": seed}
    return Row("train", "chain", "chain", parameters, chips, "", 0)


ROWS = [row(1), row(2, 2), row(3, 4, 9)]


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Tiny instances on one thread: nothing is worth compiling."""
    torch.set_num_threads(1)
    with plainly(True, True):
        yield


def weights(work: Pretraining) -> list[Any]:
    return [value.clone() for value in work.trainer.network.state_dict().values()]


def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Same curve, same weights, whether the run was whole, ended between passes, or amid one."""
    whole = Pretraining(ROWS, TINY, 3, tmp_path / "whole")
    for _ in range(4):
        whole.next_pass()
    first = Pretraining(ROWS, TINY, 3, tmp_path / "parts")
    first.next_pass()
    first.next_pass()
    with pytest.raises(Stop):
        first.next_pass(Deadline.after(0.0))
    second = Pretraining(ROWS, TINY, 3, tmp_path / "parts")
    assert second.curve == first.curve == whole.curve[:2]
    for _ in range(2):
        second.next_pass()
    assert second.curve == whole.curve
    assert all(torch.equal(a, b) for a, b in zip(weights(second), weights(whole), strict=True))
    for name in ("pass-0004.pt", "pass-0004.json", "training.csv"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_another_seed_or_recipe_is_another_run(tmp_path: Path) -> None:
    Pretraining(ROWS, TINY, 0, tmp_path).next_pass()
    for rows, recipe, seed in ((ROWS, TINY, 1), (ROWS, TINY.replace(epochs=3), 0), (ROWS[:2], TINY, 0)):
        with pytest.raises(InputError, match="another run"):
            Pretraining(rows, recipe, seed, tmp_path)


def test_graphs_are_trained_together() -> None:
    """One step has several graphs; without rewards that differ nothing is learnt but entropy."""
    trainer = Trainer(TINY.replace(entropy=0.0))
    learners = [Learner(one.problem(), trainer=trainer) for one in ROWS]
    before = [value.clone() for value in trainer.network.state_dict().values()]
    for learner in learners:
        learner.propose()
        for _ in range(TINY.rollouts):
            learner.observe(np.zeros(len(learner.graph.features), dtype=np.int64), 100.0)
        assert len(learner.cycles) == 1
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.network.state_dict().values(), strict=True))
    steps = trainer.train_together([cycle for learner in learners for cycle in learner.cycles])
    assert steps == TINY.epochs
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.network.state_dict().values(), strict=True))


def test_judges_are_processes_and_their_best_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The untrained policy, every second checkpoint and the last are judged; no verdict is asked for twice."""
    asked: list[str] = []

    def judged(module: str, checkpoint: Path, samples: int, seed: int, deadline: Deadline, closed: Event) -> Judged:
        asked.append(checkpoint.name)
        return Judged(samples=samples, zero_shot=0.5, tuned=round(1.0 / len(asked), 6))

    monkeypatch.setattr(judges, "_judged", judged)
    verdicts = pretrain(Pretraining(ROWS, TINY, 0, tmp_path), 3, every=2, samples=5)
    assert asked == ["pass-0000.pt", "pass-0002.pt", "pass-0003.pt"]
    assert [one.number for one in verdicts] == [0, 2, 3] and verdicts == read_verdicts(tmp_path)
    assert (tmp_path / "best.pt").read_bytes() == (tmp_path / "pass-0000.pt").read_bytes()
    assert load(tmp_path / "pass-0002.pt")[1].samples == 2 * 3 * TINY.rollouts
    pretrain(Pretraining(ROWS, TINY, 0, tmp_path), 4, every=2, samples=5)
    assert asked[3:] == ["pass-0004.pt"]
    (tmp_path / "validation.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="isn't a table of verdicts"):
        read_verdicts(tmp_path)


def test_of_equal_checkpoints_the_first_is_best() -> None:
    figures = Judged(samples=1, zero_shot=0.1, tuned=0.5)
    assert best([]) is None
    assert best([Verdict(2, figures), Verdict(3, figures)]) == Verdict(2, figures)


def test_a_judge_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "pass-0001.pt").write_bytes(b"poison")
    (tmp_path / "pass-0001.json").write_bytes(b"{}")
    with pytest.raises(judges.JudgeFailedError, match=r"pass-0001\.pt failed"):
        judges._judged("chipmap.learned.ring.judging", tmp_path / "pass-0001.pt", 1, 0, Deadline(), Event())


def test_judges_that_are_closed_end_their_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C nobody waits for a verdict: a child that has long to go is ended, whatever the deadline."""
    looks, begun, killed = list[float](), Event(), Event()

    class Child:
        def __init__(self, *_: Any) -> None:
            begun.set()

        def wait(self, seconds: float) -> int | None:
            sleep(0.01)
            looks.append(seconds)
            return 0 if len(looks) == 3000 else None

        def kill(self) -> None:
            killed.set()

    monkeypatch.setattr(judges, "Child", Child)
    local = judges.LocalJudges(1)
    future = local.submit(tmp_path / "pass-0000.pt", 1, 0, Deadline())
    assert begun.wait(60)
    local.close()
    assert killed.is_set() and len(looks) < 3000 and isinstance(future.exception(), Stop)


def test_a_cluster_gets_the_bytes_and_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that has the two files' bytes alone gives the verdict of one that reads them; what isn't judged when the
    time is up is dropped."""

    class Cluster:
        closed = False

        def executor(self) -> Any:
            return ThreadPoolExecutor(1)

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(data, "ROWS", tuple(one._replace(split="validation") for one in ROWS))
    work, cluster = Pretraining(ROWS, TINY, 0, tmp_path), Cluster()
    verdicts = pretrain(work, 1, every=1, samples=12, judges=judges.ClusterJudges(cluster))  # type: ignore[arg-type]
    assert [one.judged for one in verdicts] == [judge(work.path(number), "validation", 12) for number in (0, 1)]
    assert cluster.closed


def test_a_verdict_is_a_mean_over_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best so far only rises, so that its average is at least that of single samples of the same policy."""
    monkeypatch.setattr(data, "ROWS", tuple(one._replace(split="validation") for one in ROWS))
    Pretraining(ROWS, TINY.replace(rate=0.0), 0, tmp_path).next_pass()
    found = judge(tmp_path / "pass-0001.pt", "validation", 12)
    assert 0.0 < found.zero_shot <= found.tuned <= 1.0
    assert judge(tmp_path / "pass-0001.pt", "validation", 12) == found


def test_the_command_trains_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(data, "ROWS", tuple(ROWS))
    monkeypatch.setattr(judges, "_judged", lambda *_: Judged(samples=5, zero_shot=0.5, tuned=0.75))
    settings = [f"--set={name}={getattr(TINY, name)}" for name in ("layers", "width", "rollouts", "batches", "epochs")]
    command = ["train", str(tmp_path / "run"), *settings, "--every", "1"]
    assert main([*command, "--passes", "1"]) == 0
    told = capsys.readouterr()
    assert told.out == "best.pt  pass 0  zero-shot 0.500  after learning 0.750\n"
    assert "pass 1: 12 samples" in told.err
    assert main([*command, "--passes", "2", "--quiet"]) == 0
    assert (tmp_path / "run" / "pass-0002.pt").exists() and (tmp_path / "run" / "curves.png").stat().st_size > 1000
    assert main([*command, "--passes", "3", "--time-limit", "0.001", "--quiet"]) == 0
    assert main(["train", str(tmp_path / "run"), "--passes", "3"]) == 1
    assert "another run" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "new"), "--set", "layer=3"]) == 1
    assert "layers" in capsys.readouterr().err


def test_the_shipped_policy_starts_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its best sample is the incumbent before the method begins, if no first mapping is as good; the sum in its card
    holds.
    """
    monkeypatch.setattr("chipmap.process.conduct.first", lambda *_: None)
    assert SHIPPED.stat().st_size <= 5 * 2**20
    assert load(SHIPPED)[1].samples > 0
    instance: Any = read("ring/tiny-skip")
    assert shipped(row(1).problem(), 0).network is not None
    result = solve(
        instance, "ring/mip", options=SolveOptions.make(warm_start="learned", time_limit=60.0), isolate=False
    )
    assert result.status == "optimal"
    assert "learned start" in {event.source for event in result.trace}
