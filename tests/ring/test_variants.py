"""Changed instances: constraints left out, another package."""

from __future__ import annotations

import pytest

from chipmap.instances.ring import Pin
from chipmap.instances.ring.variants import packaged, without
from chipmap.records import InputError
from tests.ring.test_splitting import head


def test_package_and_constraints() -> None:
    instance = head(pins=(Pin(operation="layer", chip=2),))
    assert without(instance, "C3", "C4").constraints == ("C1", "C2")
    assert packaged(instance, chips=5).package.chips == 5
    with pytest.raises(InputError, match="chip 2 does not exist"):
        packaged(instance, chips=2)
