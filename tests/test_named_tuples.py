"""Named tuples that compiled functions get by address: the same values as plain Python, and no reference is lost."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.datamodel import default_manager

from chipmap.kernels import njit
from chipmap.kernels.records import is_record


class Inner(NamedTuple):
    """Arrays in a record."""

    a: Any
    b: Any
    c: Any
    d: Any


class Outer(NamedTuple):
    """A record with another one in it."""

    x: Any
    number: Any
    inner: Any
    y: Any


class Others(NamedTuple):
    """One that belongs to somebody else."""

    a: Any
    b: Any
    c: Any
    d: Any


for _own in (Inner, Outer):
    _own.__module__ = "chipmap.here"


@njit(part=True)
def member(t: Any, i: int) -> Any:
    """Members, and members of members."""
    return t.x[i] + t.number + t.inner.b[i]


@njit(part=True)
def write(r: Any, other: Any, i: int) -> Any:
    """Write to an array of one record, and read from another, which may be the same."""
    r.c[i] += other.d[i] + len(other.a)
    return r.c[i]


@njit(part=True)
def one_of(t: Any, i: int) -> Any:
    """A variable that is one of two records, of which one is made here."""
    r = Inner(t.x, t.y, t.y, t.x)
    if i > 2:
        r = t.inner
    return write(r, t.inner, i)


@njit(part=True)
def exchanged(t: Any, n: int) -> Any:
    """Two variables that change places, and one that was the first of them."""
    now, then = t.inner, Inner(t.x, t.y, t.y, t.x)
    total = 0.0
    for i in range(n):
        kept = now
        now, then = then, now
        total += write(now, kept, i) + write(kept, kept, i) - then.a[i]
    return total


@njit
def entry(t: Any, n: int) -> Any:
    """What Python calls: a number, and a record."""
    total = 0.0
    for i in range(n):
        u = t
        _, _, c, d = u.inner
        total += member(t, i) + write(t.inner, u.inner, i) + one_of(u, i) + c[i] - d[i]
    return total + exchanged(t, n), t.inner


def record() -> Outer:
    """Arrays that differ."""
    made = [np.arange(6) * float(k) + k for k in range(1, 7)]
    return Outer(made[0], 3.5, Inner(*made[1:5]), made[5])


def test_values_are_those_of_plain_python() -> None:
    ours, plain = record(), record()
    value, inner = entry(ours, 6)
    expected, _ = entry.py_func(plain, 6)
    assert value == expected and type(inner) is Inner and inner.c is not plain.inner.c
    for found, wanted in zip((*ours.inner, ours.x, ours.y), (*plain.inner, plain.x, plain.y), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_references_are_left_as_they_were() -> None:
    t = record()
    entry(t, 6)
    before = [sys.getrefcount(array) for array in (*t.inner, t.x, t.y)]
    for _ in range(100):
        entry(t, 6)
    assert [sys.getrefcount(array) for array in (*t.inner, t.x, t.y)] == before


@pytest.mark.parametrize(("made", "ours"), [(Inner, True), (Others, False)])
def test_named_tuples_of_others_are_handed_over_as_numba_does(made: Any, ours: bool) -> None:
    array = np.zeros(3)
    kind = numba.typeof(made(array, array, array, array))
    assert is_record(kind) is ours
    assert isinstance(default_manager.lookup(kind).get_argument_type(), tuple) is not ours
    assert not is_record(numba.typeof((array, array, array, array)))

    @numba.njit
    def first(t: Any) -> Any:
        return t.a[0] + t.d[1]

    assert first(made(array, array, array, array + 2.0)) == 2.0
