"""The graphs that the ring policy is trained, chosen and judged on: 66, 5 and 16, as in the paper's section 5.1.

Every graph is made from its architecture. No two of the 87 are the same after contraction (their hashes stand here), no
architecture family has graphs in two splits, and none has attention: BERT and GPT-2 are held out entirely.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from chipmap.instances.ring.contraction import computing_only, contract
from chipmap.instances.ring.generators import Setting
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.networks import generators as networks

Split = Literal["train", "validation", "test"]
#: SRAM of a chip in MiB: VGG's largest layer fits.
SRAM_MIB = 256.0


class Row(NamedTuple):
    """A graph of :mod:`chipmap.networks.generators` on so many chips (package otherwise as by default, C1 to C4).

    ``hash``: the first 16 digits of the contracted graph's content hash. ``optimum``: the least period in ticks of
    10 ps, proved by ``ring/auto``; 0 where it wasn't proved in 60 s.
    """

    split: Split
    family: str
    network: str
    parameters: dict[str, Any]
    chips: int
    hash: str
    optimum: int

    @property
    def name(self) -> str:
        """A name of its own."""
        return "-".join([self.network, *(f"{key}{value:g}" for key, value in self.parameters.items()), str(self.chips)])

    def instance(self) -> RingInstance:
        """The ring instance."""
        setting = Setting(name=self.name, chips=self.chips, sram_mib=SRAM_MIB)
        return setting.instance(self.network, getattr(networks, self.network)(**self.parameters))

    def contracted(self) -> RingInstance:
        """The instance after its lossless contraction."""
        return contract(self.instance()).instance

    def problem(self) -> RingProblem:
        """The contracted problem, computing operations alone."""
        return computing_only(ring_problem(self.contracted()))


def rows_of(name: Split) -> Sequence[Row]:
    """The rows of a split."""
    return [row for row in ROWS if row.split == name]


#: (split, family, network) -> (parameters, chips, hash, optimum) of each graph, as :class:`Row` says.
TABLE: dict[tuple[Split, str, str], tuple[tuple[dict[str, Any], int, str, int], ...]] = {
    ("train", "resnet", "resnet"): (
        ({"depth": 18}, 12, "40cb34bd954ca462", 11912808),
        ({"depth": 34}, 16, "c2a35f215309fe05", 15004674),
        ({"depth": 50}, 36, "49bbd29308807a41", 10757992),
        ({"depth": 101}, 36, "ee84f84dfd864c85", 15299792),
        ({"depth": 152}, 36, "5633bc3277ef0add", 22285316),
        ({"depth": 18, "image": 128, "batch": 4}, 8, "20d64b01f9d63b1d", 19729410),
        ({"depth": 18, "image": 448, "batch": 1}, 20, "002a1034cfefeedd", 30346957),
        ({"depth": 34, "image": 96, "batch": 1}, 24, "4e68de75951e9e21", 2398208),
        ({"depth": 34, "image": 320, "batch": 2}, 10, "24e64dee03639921", 95027712),
        ({"depth": 50, "image": 96, "batch": 1}, 16, "b07fc45d1318b4aa", 4100815),
        ({"depth": 50, "image": 448, "batch": 1}, 24, "adcf78a260cfcbc5", 50100839),
        ({"depth": 101, "image": 128, "batch": 2}, 20, "f3f8df44ad0e6e01", 16632220),
    ),
    ("train", "vgg", "vgg"): (
        ({"depth": 11, "norm": False, "image": 224, "batch": 1}, 6, "3358466e5a04fbbd", 123701712),
        ({"depth": 11, "norm": True, "image": 224, "batch": 1}, 5, "39bb6d1cbc06ebe2", 140334286),
        ({"depth": 13, "norm": False, "image": 224, "batch": 1}, 8, "bc38058f80ab3541", 139529422),
        ({"depth": 13, "norm": True, "image": 96, "batch": 4}, 4, "f926a1f535835b28", 144436925),
        ({"depth": 16, "norm": False, "image": 224, "batch": 1}, 10, "9462027a64f32d9b", 139529422),
        ({"depth": 16, "norm": True, "image": 224, "batch": 1}, 12, "40f37f399c9abdce", 109664923),
        ({"depth": 19, "norm": False, "image": 160, "batch": 1}, 12, "403ed57b2ff88259", 71598080),
        ({"depth": 19, "norm": True, "image": 224, "batch": 1}, 7, "acfc4d74fd47b30b", 188181096),
        ({"depth": 16, "norm": False, "image": 64, "batch": 8}, 5, "93b0ae18e052038f", 136908791),
        ({"depth": 19, "norm": True, "image": 128, "batch": 2}, 6, "5a86e425ff9f69b5", 155323393),
    ),
    ("train", "mobilenet", "mobilenet"): (
        ({"version": 1, "percent": 100, "image": 224, "batch": 1}, 12, "6ec25d257e19d6b0", 5017600),
        ({"version": 1, "percent": 75, "image": 192, "batch": 1}, 16, "96a230e1727f4587", 2764800),
        ({"version": 1, "percent": 50, "image": 160, "batch": 4}, 8, "c9f58dff851a4834", 5501696),
        ({"version": 1, "percent": 25, "image": 128, "batch": 1}, 20, "2d0088be878b0be0", 409600),
        ({"version": 1, "percent": 100, "image": 320, "batch": 1}, 24, "9627822ed0086b5b", 10240000),
        ({"version": 2, "percent": 100, "image": 224, "batch": 1}, 36, "6b7688668594ffdd", 7526400),
        ({"version": 2, "percent": 75, "image": 192, "batch": 1}, 24, "c4ac7445ef697383", 5529600),
        ({"version": 2, "percent": 50, "image": 160, "batch": 2}, 16, "a65f54defdfe33b8", 3840000),
        ({"version": 2, "percent": 140, "image": 224, "batch": 1}, 36, "2aa9117f89b11262", 11289600),
        ({"version": 2, "percent": 35, "image": 96, "batch": 8}, 12, "4c71bcc419ed2cc9", 5529600),
        ({"version": 1, "percent": 200, "image": 224, "batch": 1}, 16, "8ef55651c2667dc3", 11899085),
    ),
    ("train", "lstm", "rnn"): (
        ({"layers": 1, "hidden": 256, "sequence": 4, "batch": 8, "vocabulary": 1000}, 6, "154b8b6085a404c1", 772096),
        ({"layers": 1, "hidden": 512, "sequence": 8, "batch": 8, "vocabulary": 1000}, 12, "2709ab43f4006443", 6117376),
        ({"layers": 1, "hidden": 1024, "sequence": 6, "batch": 1, "vocabulary": 5000}, 8, "fdf26abfc892963f", 12734464),
        ({"layers": 2, "hidden": 256, "sequence": 3, "batch": 8, "vocabulary": 1000}, 10, "0b9fbd6c59314105", 647168),
        ({"layers": 2, "hidden": 512, "sequence": 5, "batch": 8, "vocabulary": 1000}, 16, "32dd099aac4dd569", 3672064),
        (
            {"layers": 2, "hidden": 1024, "sequence": 4, "batch": 16, "vocabulary": 10000},
            2,
            "b981453dc0f12cae",
            47012506,
        ),
        ({"layers": 3, "hidden": 256, "sequence": 3, "batch": 4, "vocabulary": 1000}, 12, "b03ce41435adac2a", 581632),
        ({"layers": 3, "hidden": 512, "sequence": 2, "batch": 8, "vocabulary": 2000}, 16, "e19360331d1ec9fd", 1177600),
        ({"layers": 3, "hidden": 1024, "sequence": 4, "batch": 1, "vocabulary": 1000}, 20, "1fd1644d7f61500b", 8488960),
        ({"layers": 4, "hidden": 256, "sequence": 2, "batch": 16, "vocabulary": 1000}, 12, "9c5c0df900049df4", 472064),
        ({"layers": 4, "hidden": 512, "sequence": 3, "batch": 8, "vocabulary": 500}, 24, "4ab365c425670528", 2342912),
        (
            {"layers": 1, "hidden": 2048, "sequence": 10, "batch": 4, "vocabulary": 1000},
            16,
            "123c57a7bfbcb16e",
            101974016,
        ),
    ),
    ("train", "random", "random_dag"): (
        ({"operations": 30, "reach": 3, "density": 0.2, "seed": 11}, 6, "27f4cf131e48b8a3", 682959),
        ({"operations": 40, "reach": 6, "density": 0.3, "seed": 12}, 8, "5ceb8a2a10f13638", 1081624),
        ({"operations": 50, "reach": 4, "density": 0.1, "seed": 13}, 10, "dd36d06c89cb940f", 704609),
        ({"operations": 60, "reach": 6, "density": 0.3, "seed": 14}, 12, "cf23e5c553f1ab03", 1111495),
        ({"operations": 60, "reach": 7, "density": 0.1, "seed": 15}, 16, "698722e721d084e1", 0),
        ({"operations": 70, "reach": 3, "density": 0.5, "seed": 16}, 20, "25b03a539f4506e1", 693301),
        ({"operations": 80, "reach": 6, "density": 0.2, "seed": 17}, 12, "919fbf19fed2bff5", 1016289),
        ({"operations": 90, "reach": 5, "density": 0.1, "seed": 18}, 24, "3110209664f47dd2", 0),
        ({"operations": 100, "reach": 5, "density": 0.3, "seed": 19}, 36, "ad880032dfb5cb44", 1015086),
        ({"operations": 45, "reach": 6, "density": 0.05, "seed": 20}, 9, "071a0e342ecc2ae1", 709757),
    ),
    ("train", "layered", "layered"): (
        ({"operations": 40, "width": 2, "reads": 1, "seed": 21}, 8, "4967be6ea6609c0c", 600220),
        ({"operations": 60, "width": 3, "reads": 2, "seed": 22}, 12, "445307fa979cef1a", 809997),
        ({"operations": 80, "width": 3, "reads": 1, "seed": 23}, 16, "cf7e367f75edd626", 0),
        ({"operations": 60, "width": 5, "reads": 2, "seed": 24}, 10, "75e3034c6712155b", 1008136),
        ({"operations": 100, "width": 2, "reads": 2, "seed": 25}, 24, "ee59833b1c7415ba", 710834),
        ({"operations": 72, "width": 4, "reads": 2, "seed": 26}, 18, "c2adbdb5015c8611", 1010930),
    ),
    ("train", "chain", "chain"): (
        ({"operations": 40, "spread": 0.5, "seed": 31}, 8, "4766897eb3cba3e8", 539183),
        ({"operations": 60, "spread": 0.9, "seed": 32}, 16, "7dfdfdf43c5c92fb", 443465),
        ({"operations": 100, "spread": 0.7, "seed": 33}, 24, "08029601d33feede", 460706),
        ({"operations": 120, "spread": 0.5, "seed": 34}, 36, "9cdb7680622474d7", 392257),
        ({"operations": 80, "spread": 0.9, "seed": 35}, 12, "f15215ff3963010e", 797706),
    ),
    ("validation", "squeezenet", "squeezenet"): (
        ({"bypass": False}, 6, "ca786d26d32cb43c", 11299637),
        ({"bypass": True, "image": 320}, 4, "200aa8b2a02311e5", 36170320),
    ),
    ("validation", "unet", "unet"): (
        ({"levels": 3, "channels": 32}, 8, "699bfbb8f22a4433", 213490076),
        ({"levels": 4, "channels": 64}, 12, "7185fd6680a98813", 1037120313),
        ({"levels": 5, "channels": 32, "image": 512}, 16, "7452842a7a9ee6db", 1384198971),
    ),
    ("test", "densenet", "densenet"): (
        ({"depth": 121, "image": 224, "batch": 1}, 36, "8f20480838f2edeb", 41388497),
        ({"depth": 121, "image": 96, "batch": 2}, 12, "189feededcafd56e", 15206045),
        ({"depth": 161, "image": 224, "batch": 1}, 8, "0ca9d1d066e44293", 85807707),
        ({"depth": 169, "image": 128, "batch": 1}, 16, "3e0b92bb2012ed74", 13516853),
    ),
    ("test", "googlenet", "googlenet"): (
        ({"norm": False, "image": 224, "batch": 1}, 5, "df0c5e45f2a9d961", 22259088),
        ({"norm": True, "image": 224, "batch": 1}, 6, "cb45732da533347f", 18729436),
        ({"norm": False, "image": 128, "batch": 4}, 6, "a71cb52c529744af", 23334593),
        ({"norm": True, "image": 320, "batch": 1}, 5, "77fe558460e4704e", 47297728),
        ({"norm": False, "image": 448, "batch": 1}, 4, "501a527edf307a55", 110788610),
        ({"norm": True, "image": 192, "batch": 2}, 4, "cf0edbc4e69691ee", 43647489),
    ),
    ("test", "mixer", "mixer"): (
        ({"layers": 4, "hidden": 256, "patch": 16, "batch": 2}, 6, "ac58f565e4ffee43", 11942294),
        ({"layers": 8, "hidden": 512, "patch": 32, "batch": 1}, 12, "19d359d88af854c8", 6048561),
        ({"layers": 8, "hidden": 512, "patch": 16, "batch": 1}, 24, "b1bddc738cccb5c2", 12866543),
        ({"layers": 12, "hidden": 768, "patch": 16, "batch": 1}, 36, "301a118c769354a6", 27970031),
        ({"layers": 12, "hidden": 768, "patch": 32, "batch": 4}, 16, "ebe6797c1783b670", 54735838),
        ({"layers": 24, "hidden": 1024, "patch": 16, "batch": 1}, 36, "a17a70c1c02fde2b", 86048704),
    ),
}
ROWS: tuple[Row, ...] = tuple(
    Row(split, family, network, *rest) for (split, family, network), rows in TABLE.items() for rest in rows
)
