"""Mutated instances and solutions are solved and checked, or refused in words."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.records import InputError
from tests.instances.mutations import mutated_bytes, mutated_structure
from tests.placement.samples import FORMATS

#: Mutants of each format (``python -m benchmarks.fuzz_importers`` takes more of them, with limits on time and memory).
ROUNDS = {"placement": 120, "placement-loads": 120}
MANY = 500


@pytest.mark.parametrize("name", FORMATS)
def test_mutated_files_are_taken_or_refused_in_words(name: str) -> None:
    """Instances are solved, and what comes out is valid; solutions get a certificate. All else has a remedy."""
    data, reread = FORMATS[name]()
    rounds, refused = ROUNDS.get(name, MANY), 0
    for seed in range(rounds):
        change = mutated_structure if seed % 2 else mutated_bytes
        try:
            reread(change(data, Random(f"{name} {seed}")))
        except InputError as error:
            refused += 1
            assert error.remedy, f"seed {seed}: {error}"
    # if nearly all were refused, or hardly any, the mutations would test little
    assert 0.3 * rounds < refused < 0.97 * rounds
