"""Proposals: a role takes its devices from another rule's plan. Their features, and searches that evaluate them.

A **proposal** is a role and a rule whose plan gives the role's operations other devices than the base. An evaluation is
one run of the decoder with the base's keys, as in :func:`chipmap.methods.placement.siblings.by_roles`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.carrying.pairs import Carried, led_by, work_of
from chipmap.heuristics.placement.siblings.smaller import RULES
from chipmap.instances.placement.problem import IntArray
from chipmap.methods.placement.chain_state import Placed

Features = NDArray[np.float64]
#: Names of the features of a proposal, in their order.
NAMES = (
    *(f"rule {one}" for one in RULES),
    "rule's step / best",
    "log N",
    "devices",
    "sibling's share",
    "members / steps",
    "repeats",
    "work",
    "rank by work",
    "bytes",
    "place",
    "spread of places",
    "on the critical chain",
    "of the role on the chain",
    "moved work of the role",
    "moved work / step",
    "change of the largest load",
    "largest load before",
    "change of bytes sent / all",
    "bytes sent before / role's",
    "bytes sent after / role's",
    "change of time sent / step",
    "agrees with neighbours, before",
    "agrees with neighbours, after",
    "rules that say the same",
)


@dataclass(frozen=True, eq=False)
class Proposal:
    """Role ``role`` of operations ``mine`` takes ``devices``, those of plan number ``rule``; ``same`` rules say so."""

    role: int
    rule: int
    mine: IntArray
    devices: IntArray
    same: int


class Searched:
    """A carried plan that proposals change: the best placement so far, and the evaluations made."""

    def __init__(self, found: Carried) -> None:
        self.found, self.best, self.evaluations = found, found.best, 0
        led, self.work = led_by(found), work_of(found)
        total = np.bincount(led, self.work)
        self.roles = [int(r) for r in np.argsort(-total, kind="stable") if (led == r).any()]
        self.mine = {r: np.flatnonzero(led == r) for r in self.roles}
        self.proposals = self._proposals()

    def _proposals(self) -> list[Proposal]:
        """All proposals, roles of the most work first, rules in their order."""
        found = list[Proposal]()
        for role in self.roles:
            mine = self.mine[role]
            known = {self.best[2][mine].tobytes(): -1}
            first = dict[bytes, Proposal]()
            for rule, plan in enumerate(self.found.plans):
                devices = plan[mine]
                code = devices.tobytes()
                if code not in known:
                    known[code] = rule
                    same = sum(other[mine].tobytes() == code for other in self.found.plans)
                    first[code] = Proposal(role, rule, mine, devices, same)
            found += first.values()
        return found

    def evaluate(self, devices: IntArray) -> Placed | None:
        """A placement by the keys of the best one; an evaluation."""
        self.evaluations += 1
        state = self.found.state
        return state.placed(devices, self.best[3], state.work)

    def with_(self, proposals: list[Proposal]) -> IntArray:
        """The devices of the best placement with some proposals."""
        devices = self.best[2].copy()
        for one in proposals:
            devices[one.mine] = one.devices
        return devices

    def tried(self, proposals: list[Proposal]) -> bool:
        """Take the proposals together if the step gets shorter."""
        placed = self.evaluate(self.with_(proposals))
        taken = placed is not None and placed[:2] < self.best[:2]
        if placed is not None and taken:
            self.best = placed
        return taken

    def in_order(self, proposals: list[Proposal], limit: int) -> None:
        """Try proposals one after the other, so many evaluations at most."""
        for one in proposals:
            if self.evaluations >= limit:
                return
            if (self.best[2][one.mine] != one.devices).any():
                self.tried([one])


class Sight:
    """What features need of a carried plan that doesn't change with the plan."""

    def __init__(self, searched: Searched) -> None:
        found = searched.found
        problem, self.searched = found.state.problem, searched
        storages, self.devices = problem.storages, problem.devices
        self.u, self.v = storages.sources, storages.readers
        self.bytes = storages.bytes[storages.read].astype(np.float64)
        self.sent = problem.storages.time.max(axis=1)[storages.read].astype(np.float64)
        led = led_by(found)
        self.edges: dict[int, IntArray] = {}
        for ends in (led[self.u], led[self.v]):
            order = np.argsort(ends, kind="stable")
            at = np.searchsorted(ends[order], np.arange(int(led.max()) + 2))
            for r in searched.roles:
                mine = order[at[r] : at[r + 1]]
                self.edges[r] = mine if r not in self.edges else np.union1d(self.edges[r], mine)
        place = np.empty(problem.operations)
        place[problem.order] = np.arange(problem.operations) / problem.operations
        part = found.made.part
        repeats, steps = np.bincount(led, part >= 0), np.array([*found.made.steps, 1])
        total = searched.work.sum()
        best = min(found.steps)
        self.rule = np.array([min(4.0, one / best) for one in found.steps])
        self.fixed: dict[int, list[float]] = {}
        for rank, r in enumerate(searched.roles):
            mine = searched.mine[r]
            own = self.edges[r]
            self.fixed[r] = [
                np.log(problem.operations),
                float(self.devices),
                found.sibling.problem.operations / problem.operations,
                len(mine) / steps[part[mine[0]]],
                repeats[r] / len(mine),
                searched.work[mine].sum() / total,
                rank / len(searched.roles),
                self.bytes[own].sum() / max(1.0, self.bytes.sum()),
                float(place[mine].mean()),
                float(place[mine].std()),
            ]

    def features(self, proposals: list[Proposal]) -> Features:
        """The features of proposals beside the best placement so far [P, F]."""
        searched, devices = self.searched, self.searched.best[2]
        work, step = searched.work, float(searched.best[1])
        load = np.bincount(devices, work, self.devices)
        chain = critical_chain(searched)
        weight, whole = np.zeros(len(devices)), max(1, len(chain))
        np.add.at(weight, chain, 1.0)
        rows = np.zeros((len(proposals), len(NAMES)))
        new = devices.copy()
        for row, one in zip(rows, proposals, strict=True):
            mine, edges = one.mine, self.edges[one.role]
            u, v, size = self.u[edges], self.v[edges], self.bytes[edges]
            cut = devices[u] != devices[v]
            new[mine] = one.devices
            cut_after = new[u] != new[v]
            moved = devices[mine] != one.devices
            change = np.bincount(one.devices, work[mine], self.devices) - np.bincount(
                devices[mine], work[mine], self.devices
            )
            new[mine] = devices[mine]
            own, all_, mean = max(1.0, size.sum()), max(1.0, self.bytes.sum()), max(1.0, load.mean())
            row[one.rule] = 1.0
            row[len(RULES)] = self.rule[one.rule]
            row[len(RULES) + 1 :] = [
                *self.fixed[one.role],
                weight[mine].sum() / whole,
                float((weight[mine] > 0).mean()),
                work[mine][moved].sum() / max(1.0, work[mine].sum()),
                work[mine][moved].sum() / step,
                ((load + change).max() - load.max()) / mean,
                load.max() / mean,
                (size[cut_after].sum() - size[cut].sum()) / all_,
                size[cut].sum() / own,
                size[cut_after].sum() / own,
                (self.sent[edges][cut_after].sum() - self.sent[edges][cut].sum()) / step,
                1.0 - cut.mean() if len(cut) else 1.0,
                1.0 - cut_after.mean() if len(cut) else 1.0,
                float(one.same),
            ]
        return rows


def critical_chain(searched: Searched) -> IntArray:
    """Operations from the one that ends last back to the first: always what an operation waited for longest."""
    state, (_, _, devices, key) = searched.found.state, searched.best
    state.placed(devices, key, state.work)
    t, w, problem = state.tables, state.work, state.problem
    time: Any = problem.time[np.arange(problem.operations), devices]
    v, found = int((w.start + time).argmax()), list[int]()
    count = problem.devices
    while v >= 0 and len(found) < problem.operations:
        found.append(v)
        if w.start[v] > w.ready[v] and w.before[v] >= 0:
            v = int(w.before[v])
            continue
        last, when, d = -1, -1, devices[v]
        for s in t.read[t.read_at[v] : t.read_at[v + 1]].tolist():
            u = int(t.producer[s])
            at = w.start[u] + time[u]
            if devices[u] != d:
                at = w.sent[s * count + d] + t.send[s, t.kind[devices[u] * count + d]]
            if at > when:
                last, when = u, at
        v = last
    return np.array(found, dtype=np.int64)
