"""Files of systems, for ``convert --system``."""

from __future__ import annotations

from typing import Any

import msgspec

from chipmap.records import InputError, Source
from chipmap.records.repeats import refuse_repeats


def plain_system(path: str, family: str, part: str = "system") -> dict[str, Any]:
    """The ``part`` of an instance of the family in JSON, or that of an instance, as plain data."""
    remedy = f"Write the `{part}` of an instance: `chipmap info --schema {family}` prints the format."
    try:
        data = Source(path).content()
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}", path, remedy) from None
    refuse_repeats(data, path)
    if isinstance(plain, dict) and isinstance(plain.get(part), dict):
        plain = plain[part]
    if not isinstance(plain, dict):
        raise InputError("is no JSON object", path, remedy)
    return plain
