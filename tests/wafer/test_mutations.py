"""Mutated .kgraph and .paint files are read, or refused in words."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.records import InputError
from tests.instances.mutations import mutated_bytes, mutated_structure
from tests.wafer.samples import FORMATS

ROUNDS = 1000


@pytest.mark.parametrize("name", FORMATS)
def test_mutated_files_are_read_or_refused_in_words(name: str) -> None:
    """Whatever happens to a file, the reader returns what the writer can write, or raises an InputError."""
    data, reread = FORMATS[name]
    refused = 0
    for seed in range(ROUNDS):
        change = mutated_structure if seed % 2 else mutated_bytes
        try:
            reread(change(data, Random(f"{name} {seed}")))
        except InputError as error:
            refused += 1
            assert error.remedy, f"seed {seed}: {error}"
    # if nearly all were refused, or hardly any, the mutations would test little
    assert 0.3 * ROUNDS < refused < 0.97 * ROUNDS
