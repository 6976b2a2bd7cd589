"""Experts on meshes of two and three axes: dispatch, products and sums against what compiled programs of JAX move.

Programs follow the page's section on experts: a chip of a group takes the copies of its own experts from what the group
has, replicas that share experts swap them, and results go back the same way, one by one or as sums of a token's copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.dataflow.test_meshes_jax import P, _mapped, charged, jax, jnp
from tests.dataflow.test_meshes_jax import pytestmark as pytestmark

EXPERTS, WIDTH, EACH = 8, 8, 8  # experts, numbers of a token, a replica's tokens for each expert
SIZES = {"et": (2, 4), "te": (4, 2), "ee": (2, 4), "dt": (2, 4), "de": (4, 2), "det": (2, 2, 2), "eet": (2, 2, 2)}
SIZES |= {"dee": (2, 2, 2), "edt": (2, 2, 2), "tde": (2, 2, 2)}
SCHEME = {"RR": "NONE", "RS": "N", "SR": "M"}
#: Where tokens are (expert, token, number): the axis that a layout splits.
SPLIT = {"RS": 1, "SR": 2}


class Experts:
    """Programs of one mesh: ``used`` says d, e or t of each axis; ``before``, ``after``: how tokens lie in a group."""

    def __init__(self, used: str, before: str, after: str, copies: int) -> None:
        self.axes = {what: tuple(i for i, one in zip("ijk", used, strict=False) if one == what) for what in "det"}
        size = dict(zip("ijk", SIZES[used], strict=False))
        self.group = math.prod(size[i] for i in self.axes["t"])
        self.blocks, self.copies, self.before, self.after = EXPERTS // copies, copies, before, after
        replicas = 8 // self.group
        rng = np.random.default_rng(copies)
        shapes = (replicas, EXPERTS, EACH, WIDTH), (EXPERTS, WIDTH, WIDTH)
        self.given = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
        home = tuple(i for i, one in zip("ijk", used, strict=False) if one in "de") or None

        def lie(layout: str) -> Any:
            return P(home, None, *(self.axes["t"] if SPLIT.get(layout) == at else None for at in (1, 2)))

        self.specs, self.out = (lie(before), P((*self.axes["t"], *self.axes["e"]))), lie(after)

    def swapped(self, part: Any, what: str, cut: int, joined: int) -> Any:
        axes = self.axes[what] if cut == 0 else self.axes[what][::-1]
        for axis in axes:
            part = jax.lax.all_to_all(part, axis, cut, joined, tiled=True)
        return part

    def own(self) -> Any:
        """A chip's place in its group, one tensor axis at most."""
        return jax.lax.axis_index(self.axes["t"][0]) if self.axes["t"] else 0

    def experts(self, part: Any, weights: Any) -> Any:
        """What a chip's experts make of all replicas' copies, brought home to their replica."""
        few = EXPERTS // self.group
        if self.before == "RR":
            part = jax.lax.dynamic_slice_in_dim(part[0], few * self.own(), few)
        else:
            part = self.swapped(part[0], "t", 0, SPLIT[self.before])
        made = jnp.einsum("etw,ewv->etv", self.swapped(part, "e", 0, 1), weights)
        return self.swapped(made, "e", 1, 0)

    def one_by_one(self, part: Any, weights: Any) -> Any:
        """All copies are exchanged; then each chip adds up those of the tokens, or numbers, that it has."""
        made = self.experts(part, weights)
        if self.after in SPLIT:
            made = self.swapped(made, "t", SPLIT[self.after], 0)
        elif self.axes["t"]:
            made = jax.lax.all_gather(made, self.axes["t"], axis=0, tiled=True)
        return made.reshape(self.blocks, self.copies, *made.shape[1:]).sum(1)[None]

    def as_sums(self, part: Any, weights: Any) -> Any:
        """Each chip adds up the copies that its own experts made, and the group adds these sums."""
        made = self.experts(part, weights)
        places = (self.own() * len(made) + jnp.arange(len(made))) // self.copies
        sums = jnp.zeros((self.blocks, *made.shape[1:])).at[places].add(made)
        if self.after in SPLIT:
            at = SPLIT[self.after]
            sums = jax.lax.psum_scatter(sums, self.axes["t"], scatter_dimension=at, tiled=True)
        elif self.axes["t"]:
            sums = jax.lax.psum(sums, self.axes["t"])
        return sums[None]

    def moved(self, program: Callable[..., Any]) -> Any:
        """Bytes over links; the program computes what one device does."""
        ours, found = _mapped(program, SIZES[self.used()], self.specs, self.out, *self.given)
        copies = np.einsum("cetw,ewv->cetv", *self.given)
        wanted = copies.reshape(-1, self.blocks, self.copies, EACH, WIDTH).sum(2)
        assert np.abs(ours - wanted).max() < 1e-4
        return found

    def used(self) -> str:
        named = sorted((axis, what) for what, axes in self.axes.items() for axis in axes)
        return "".join(what for _, what in named)


#: Layouts by turns, so that each mesh has some and all meshes together have all.
LAYOUTS = [(before, after) for before in SCHEME for after in SCHEME]
CASES = [(used, *LAYOUTS[(4 * i + 2 * k) % 9], 2**k) for i, used in enumerate(SIZES) for k in range(3) if "t" in used]
CASES += [(used, "RR", "RR", copies) for used in SIZES if "t" not in used for copies in (1, 4)]


@pytest.mark.parametrize(("used", "before", "after", "copies"), CASES)
def test_copies_go_out_and_come_back(used: str, before: str, after: str, copies: int) -> None:
    """The shorter of both ways back."""
    mesh = Experts(used, before, after, copies)
    found = min(mesh.moved(way) for way in ((mesh.one_by_one, mesh.as_sums) if copies > 1 else (mesh.one_by_one,)))
    columns = EXPERTS * EACH
    flat = {"kind": "elementwise", "flop_per_element": 0, "M": WIDTH}
    routed = {"weights": True, "experts": EXPERTS, "active": copies}
    kernels = {
        "x": {**flat, "N": columns},
        "y": {"kind": "gemm", **routed, "M": WIDTH, "K": WIDTH, "N": columns},
        "z": {**flat, "N": columns // copies},
    }
    schemes = f"{SCHEME[before]} E {SCHEME[after]}"
    assert charged(kernels, "xy yz", schemes, SIZES[used], used) == (found, 0)
