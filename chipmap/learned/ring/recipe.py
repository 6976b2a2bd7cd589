"""Recipes: the sizes of the networks and how they are trained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from chipmap.records import InputError, Record


class Recipe(Record, frozen=True, kw_only=True):
    """Sizes of the networks and how they are trained.

    :data:`REFINED` is the usual one of a single graph, :data:`MANY` that of many; :data:`OURS` and :data:`PAPER` are
    compared as the paper has it: every rollout is a fresh one.

    ``kl`` (0: never) ends the passes over a cycle's rollouts once the policy has moved so far from the one that drew
    them: the mean over operations and rounds of KL(old || new), in nats. ``keep`` (0: never) returns to the best
    weights so far, at half the rate, once the mean reward of :data:`WINDOW` cycles is by that share below theirs.

    Three fields keep the rollouts of a cycle apart. Rollout k divides its logits by ``temperatures[k modulo their
    number]``. Blocks of as many rollouts as there are temperatures are the prior's instead of the policy's, evenly,
    for the share ``mixed`` of the blocks. ``anchor`` weighs KL(policy || prior) in what is minimised.

    For a single graph: the share ``refined`` of the blocks starts from one of the best mappings so far, and of the
    prior's rollouts the share ``narrowed`` reaches over a part of the chips
    (:mod:`chipmap.learned.ring.proposal_priors`).

    ``behaviour`` says which probabilities PPO's ratio compares: those of the network at temperature 1 for whatever
    mapping came back, or the ``true`` ones: of the distribution that was drawn from, with its temperature and base,
    over the chips that propagation had left. What propagation decided alone isn't credited then.

    ``method`` says how one policy is trained on many graphs: PPO on what its samples are worth, or imitation of
    mappings that are proved optimal (:mod:`chipmap.learned.ring.imitation`). On a single graph it is always PPO.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        "temperatures",
        "mixed",
        "anchor",
        "method",
        "refined",
        "narrowed",
        "behaviour",
    )

    schema: Literal["ring-policy/1"] = "ring-policy/1"
    layers: int = 8
    width: int = 128
    prior: bool = True
    rounds: int = 2
    rollouts: int = 20
    batches: int = 4
    epochs: int = 10
    rate: float = 3e-4
    clip: float = 0.2
    entropy: float = 1e-3
    credit: Literal["repaired", "proposed"] = "repaired"
    advantage: Literal["rank", "reward"] = "rank"
    repair: Literal["sample", "fix"] = "sample"
    kl: float = 0.0
    keep: float = 0.0
    temperatures: tuple[float, ...] = (1.0,)
    mixed: float = 0.0
    anchor: float = 0.0
    refined: float = 0.0
    narrowed: float = 0.0
    method: Literal["ppo", "imitation"] = "ppo"
    behaviour: Literal["network", "true"] = "network"

    def check(self) -> None:
        """Raise :class:`InputError` for sizes that make no network or no cycle."""
        require_within(self, LIMITS)
        if not self.temperatures or not all(0.01 <= one <= 100.0 for one in self.temperatures):
            raise InputError(f"is {list(self.temperatures)}", "temperatures", "Give one or more, 0.01 to 100.")
        if self.batches > self.rollouts:
            raise InputError(
                f"is {self.batches} for {self.rollouts} rollouts", "batches", "Give no more than rollouts."
            )


def require_within(record: Record, limits: Iterable[tuple[str, float, float]]) -> None:
    """Raise :class:`InputError` unless each field lies between its least and its most."""
    for name, least, most in limits:
        if not least <= getattr(record, name) <= most:
            raise InputError(f"is {getattr(record, name)}", name, f"Give {least:,} to {most:,}.")


LIMITS = (
    ("layers", 0, 64),
    ("width", 1, 1024),
    ("rounds", 1, 64),
    ("rollouts", 2, 10_000),
    ("batches", 1, 10_000),
    ("epochs", 1, 1000),
    ("rate", 0.0, 1.0),
    ("clip", 0.0, 1.0),
    ("entropy", 0.0, 1.0),
    ("kl", 0.0, 100.0),
    ("keep", 0.0, 1.0),
    ("mixed", 0.0, 1.0),
    ("anchor", 0.0, 100.0),
    ("refined", 0.0, 1.0),
    ("narrowed", 0.0, 1.0),
)
#: Cycles whose mean reward judges the weights.
WINDOW = 3
#: ``kl`` and ``keep``: tuned on ring/resnet18-12 (``benchmarks/results/ring-policy.md``).
OURS = Recipe(kl=0.03, keep=0.08)
#: For many graphs: small steps, and back as soon as the mean over the graphs falls. Near the prior and at several
#: temperatures: what is best of many samples falls otherwise (``benchmarks/results/ring-learned-ablations.md``).
MANY = Recipe(
    layers=4,
    width=64,
    rounds=1,
    epochs=4,
    kl=0.03,
    keep=0.02,
    temperatures=(0.25, 0.5, 1.0, 2.0),
    anchor=1.0,
)
#: For a single graph and many samples: most of them refine the best mappings so far. What is learnt may move freely,
#: as half of the rollouts go without the network.
REFINED = MANY.replace(batches=2, epochs=2, keep=0.08, anchor=0.0, mixed=0.5, refined=0.6, narrowed=1.0)
#: The paper's recipe: no prior, and the proposed assignment is credited.
PAPER = Recipe(prior=False, credit="proposed", advantage="reward")
