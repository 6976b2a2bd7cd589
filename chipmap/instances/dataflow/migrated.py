"""Files of an older version of the family's instances."""

from __future__ import annotations

import msgspec


def migrated(data: bytes | str) -> bytes | str:
    """An instance of ``dataflow/1`` as one of ``dataflow/2``, other data as they are.

    The older version had micro-batches of 1 where none were given; now these are to be chosen.
    """
    text = data.encode() if isinstance(data, str) else data
    if b"dataflow/1" not in text:
        return data
    try:
        plain = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data  # whoever reads it says what is wrong
    if not isinstance(plain, dict) or plain.get("schema") != "dataflow/1":
        return data
    task = plain.get("task", {})
    if isinstance(task, dict):
        plain["task"] = {"micro_batch": 1, **task}
    return msgspec.json.encode({**plain, "schema": "dataflow/2"})
