"""The shipped instances: what they are can't drift unnoticed, and each is said on the page."""

from __future__ import annotations

import re

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.multimodel.generators import SCENARIOS
from chipmap.instances.multimodel.shipped import SHIPPED
from tests.docs.pages import ROOT

#: The first 16 digits of content hashes. A change here changes what published results refer to.
HASHES: dict[str, str] = {
    "multimodel/scar-1-whole": "0adb315294f6a178",
    "multimodel/scar-1-pipelined": "f4c8193b2e7262b6",
    "multimodel/scar-2-whole": "70c46c511ee662da",
    "multimodel/scar-2-pipelined": "bcdf26e6da5e5ca0",
    "multimodel/scar-3-whole": "4967d82c8a096a58",
    "multimodel/scar-3-pipelined": "5c259ba9283a117c",
    "multimodel/scar-4-whole": "922e87ec4fc4de56",
    "multimodel/scar-4-pipelined": "0954d2c6754e8a2d",
    "multimodel/scar-5-whole": "4812e4ddf26c0067",
    "multimodel/scar-5-pipelined": "2fe27a106b3a3463",
    "multimodel/scar-6-whole": "54b01075b91aad21",
    "multimodel/scar-6-pipelined": "72df0b8d1d684068",
    "multimodel/scar-7-whole": "a1ea48db5912ee51",
    "multimodel/scar-7-pipelined": "20dd8d047a30f53a",
    "multimodel/scar-8-whole": "6efea1bfc2fb2c64",
    "multimodel/scar-8-pipelined": "9d878ee550703df4",
    "multimodel/scar-9-whole": "3ddadb23b9595939",
    "multimodel/scar-9-pipelined": "c4953418d34ae815",
    "multimodel/scar-10-whole": "095abfad90476fb7",
    "multimodel/scar-10-pipelined": "a0bc6293ae4333c5",
    "multimodel/scar-6-whole-cb": "9947aaf95b5efb5f",
    "multimodel/scar-7-whole-cb": "b8fe1e657801f2ba",
    "multimodel/scar-8-whole-cb": "0b8c6d32a0a9b343",
    "multimodel/scar-9-whole-cb": "a07945dbbfc0dd41",
    "multimodel/scar-10-whole-cb": "900d14623c8158d4",
    "multimodel/scar-4-whole-cross-6x6-3": "7750acb5d572ea47",
    "multimodel/scar-4-whole-cross-6x6-4": "8e623695fcafd503",
    "multimodel/scar-4-pipelined-cross-6x6-3": "8a4129d2ddbc0f94",
    "multimodel/scar-4-pipelined-cross-6x6-4": "24d544c41b5bf1dc",
    "multimodel/resnet50-unet": "a97ad68eab663433",
    "multimodel/four-models": "cd29c703c0853978",
    "multimodel/tiny-pipeline": "0166a10ae10ce0dd",
    "multimodel/tiny-two": "681340ce15a393cd",
    "multimodel/tiny-latency": "138324a914b610ef",
    "multimodel/tiny-energy": "164950a9cd50ca90",
    "multimodel/tiny-weighted": "f60b3dedd2793ad1",
    "multimodel/tiny-square": "30245e317c1d9cbf",
    "multimodel/tiny-triangular": "f1b526b7a753accc",
    "multimodel/tiny-three": "6a4fc9ce9df7d7af",
    "multimodel/tiny-whole-batch": "af1346031e4b1e4a",
    "multimodel/tiny-one-chiplet": "6a53a56c532b5a1a",
    "multimodel/tiny-memory": "bf81d041a374205b",
    "multimodel/tiny-both-ends": "536e231d4f5668de",
}


@pytest.mark.parametrize("name", SHIPPED)
def test_content_hash(name: str) -> None:
    assert read(name).content_hash[:16] == HASHES[name]


def test_the_page_lists_them() -> None:
    page = (ROOT / "docs" / "reference" / "instances-multimodel.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(multimodel/[\w-]+)`", page))
    ranges = {f"multimodel/scar-{number}-{how}" for number in SCENARIOS for how in ("whole", "pipelined")}
    assert listed | ranges == set(SHIPPED)
