"""The shared random numbers and temperatures: known values, ranges, and what a change of them does to the cache."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from chipmap.kernels import folders, uncompiled
from chipmap.kernels.annealing import next_bits, seeded, temperature, uniform

#: The first numbers of SplitMix64 for the state 1234567, as its author's C code gives them.
KNOWN = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]


@pytest.mark.parametrize("plain", [True, False])
def test_the_generator_gives_the_known_numbers(plain: bool) -> None:
    random = np.array([1234567], dtype=np.uint64)
    if plain:
        with uncompiled():
            assert [int(next_bits(random)) for _ in KNOWN] == KNOWN
    else:
        assert [int(next_bits(random)) for _ in KNOWN] == KNOWN


def test_numbers_lie_in_their_ranges_and_are_spread_evenly() -> None:
    with uncompiled():
        random = seeded(3)
        found = [uniform(random) for _ in range(4_000)]
        assert all(0 <= one < 1 for one in found) and abs(np.mean(found) - 0.5) < 0.02
        counts = np.bincount([int(5 * uniform(random)) for _ in range(4_000)], minlength=5)
    assert len(counts) == 5 and counts.min() > 700 and counts.max() < 900


def test_seeds_give_streams_of_their_own() -> None:
    with uncompiled():
        one, same, other = (seeded(seed) for seed in (1, 1, 2))
        first = [int(next_bits(one)) for _ in range(50)]
        assert first == [int(next_bits(same)) for _ in range(50)]
        assert not {*first} & {int(next_bits(other)) for _ in range(50)}


def test_temperatures_fall_by_equal_factors() -> None:
    with uncompiled():
        falls = [temperature(100.0, 0.01, part) for part in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert falls == pytest.approx([100.0, 10.0, 1.0, 0.1, 0.01])


def test_compiled_functions_of_a_family_are_old_once_shared_ones_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, rooms = folders.sources_hash.__wrapped__, (tmp_path,)
    before = sources("family", rooms)
    for name in folders.SHARED:
        shutil.copy(Path(folders.__file__).with_name(name), tmp_path)
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "folders.py"))
    assert sources("family", rooms) == before
    changed = tmp_path / folders.SHARED[0]
    changed.write_bytes(changed.read_bytes() + b"\n")
    assert sources("family", rooms) != before
