"""``chipmap train``: pre-train a policy on many graphs, pick the best of its checkpoints."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.cli.common import add_set, say
from chipmap.cli.parsing import seconds, whole

if TYPE_CHECKING:
    from chipmap.bench.judges import Judges
    from chipmap.bench.training import Verdict
    from chipmap.learned.passes import Passed, Passes

EXAMPLES = (
    "chipmap train runs/policy --passes 100",
    "chipmap train runs/moves --family placement --passes 150 --workers 4",
    "chipmap train runs/large --passes 200 --set layers=8 --set width=128 --time-limit 30min",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Pre-train the policy of family ring on 66 graphs, or that of placement on 18 (extra learned). DIR gets a
    checkpoint after every pass over all graphs, and curves as CSV and as a picture. Its best.pt is the checkpoint that
    does best on the validation graphs after learning on each of them. The same command goes on with a run that was
    ended."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="what the run leaves; one that exists is continued")
    add_set(parser, "a field of the recipe: --set layers=4")
    what = "whose policy: ring (default) or placement"
    parser.add_argument("--family", choices=("ring", "placement"), default="ring", help=what)
    what = "PPO on what samples are worth (default), or imitation of proved optima"
    parser.add_argument("--method", choices=("ppo", "imitation"), default="ppo", help=what)
    what = "passes over all graphs, 20 samples each, or 160 of placement (default 100)"
    parser.add_argument("--passes", metavar="N", type=whole, default=100, help=what)
    parser.add_argument("--every", metavar="N", type=whole, default=5, help="judge each N-th checkpoint")
    what = "samples on each validation graph (default 100)"
    parser.add_argument("--samples", metavar="N", type=whole, default=100, help=what)
    parser.add_argument("--workers", metavar="N", type=whole, default=1, help="processes that judge, and walk episodes")
    what = "judge by a Dask scheduler (tcp://127.0.0.1:8786) instead, or `local` for one of its own"
    parser.add_argument("--cluster", metavar="ADDRESS", help=what)
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of all that is random (default 0)")
    what = "what computes the steps of placement's networks: cpu (default), or cuda"
    parser.add_argument("--device", metavar="NAME", default="cpu", help=what)
    what = "stop after so many seconds (or 30min, 2h); whole passes are kept"
    parser.add_argument("--time-limit", metavar="S", type=seconds, help=what)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Train, judge, draw, say which is best."""
    from chipmap.learned.needs import require

    require()
    from chipmap.bench.training import best, pretrain
    from chipmap.deadline import Deadline, Stop
    from chipmap.report.learned import plot_curves

    deadline = Deadline.after(args.time_limit)
    try:
        work = _of_placement(args) if args.family == "placement" else _of_ring(args, deadline)
    except Stop:
        say(f"not all optima are proved: those that are stand in {args.folder}; the same command goes on")
        return 3
    if work.curve and not args.quiet:
        say(f"{args.folder}: goes on after pass {len(work.curve)}")
    judges = _judges(args.cluster, max(1, args.workers), args.family)
    with _bar(args.passes, len(work.curve), args.quiet) as told:
        verdicts = pretrain(work, args.passes, args.every, args.samples, args.seed, judges, deadline, told)
    if work.curve:
        worth = "first step time / last" if args.family == "placement" else "optimum / objective"
        plot_curves(work.curve, verdicts, args.folder / "curves.png", worth)
    found = best(verdicts)
    if found is None:
        say(f"no checkpoint was judged: {len(work.curve)} passes are in {args.folder}; the same command goes on")
        return 3
    figures = found.judged
    print(f"best.pt  pass {found.number}  zero-shot {figures.zero_shot:.3f}  after learning {figures.tuned:.3f}")
    return 0


def _of_ring(args: argparse.Namespace, deadline: Any) -> Passes:
    from chipmap.bench.ring.optima import optima
    from chipmap.inputs.reading import changed
    from chipmap.learned.ring.data import rows_of
    from chipmap.learned.ring.pretraining import Pretraining
    from chipmap.learned.ring.recipe import MANY
    from chipmap.records import InputError

    if args.device != "cpu":
        raise InputError(f"is {args.device}", "--device", "Leave it out: ring's policy is trained on the processor.")
    recipe: Any = changed(MANY.replace(method=args.method), "recipe", args.set)
    rows, known = rows_of("train"), None
    if recipe.method == "imitation":
        known = optima(rows, args.folder, deadline)
    return Pretraining(rows, recipe, args.seed, args.folder, known)


def _of_placement(args: argparse.Namespace) -> Passes:
    from chipmap.inputs.reading import changed
    from chipmap.learned.placement.data import rows_of
    from chipmap.learned.placement.pretraining import MANY, Pretraining
    from chipmap.learned.tensors import require_device
    from chipmap.records import InputError

    if args.method != "ppo":
        raise InputError(f"is {args.method}", "--method", "Give ppo: optima of placement aren't known.")
    require_device(args.device)
    recipe: Any = changed(MANY, "recipe", args.set)
    return Pretraining(rows_of("train"), recipe, args.seed, args.folder, max(1, args.workers), args.device)


def _judges(cluster: str | None, workers: int, family: str) -> Judges:
    from chipmap.bench.judges import ClusterJudges, LocalJudges

    if cluster is None:
        return LocalJudges(workers, family)
    from chipmap.bench.cluster import ClusterPool

    return ClusterJudges(ClusterPool(cluster, workers), family)


class _bar:  # noqa: N801 - a context manager, used as a function
    """A tqdm bar of passes on a terminal, lines elsewhere."""

    def __init__(self, passes: int, done: int, quiet: bool) -> None:
        from tqdm import tqdm

        self._quiet = quiet
        self._bar = tqdm(total=passes, initial=done, unit="pass", disable=True if quiet else None, leave=False)

    def __enter__(self) -> _bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def __call__(self, event: Passed | Verdict) -> None:
        """Show a pass or a verdict."""
        text = _words(event)
        if not hasattr(event, "judged"):
            self._bar.update()
            self._bar.set_postfix_str(text)
        if self._bar.disable and not self._quiet:
            say(text)


def _words(event: Any) -> str:
    if hasattr(event, "judged"):
        figures = event.judged
        return f"pass {event.number}: zero-shot {figures.zero_shot:.3f}, after learning {figures.tuned:.3f}"
    return f"pass {event.number}: {event.samples:,} samples, mean {event.mean:.3f}, best {event.best:.3f}"
