"""Transformers on images: parameters and FLOP beside the published ones."""

from __future__ import annotations

import pytest

from chipmap.instances.dataflow.generators import dit, vit
from chipmap.instances.dataflow.presets import preset
from chipmap.instances.dataflow.sizes import flop, parameter_bytes
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve


@pytest.mark.parametrize(
    ("name", "parameters", "products"),
    [
        ("vit-b16", 86.6e6, 17.56e9),  # numbers of torchvision's vit_b_16 and its like
        ("vit-l16", 304.3e6, 61.55e9),
        ("vit-h14", 632.0e6, 167.3e9),
        ("dit-s2", 33e6, 6.06e9),  # Peebles and Xie, table 4
        ("dit-b2", 130e6, 23.01e9),
        ("dit-l2", 458e6, 80.71e9),
        ("dit-xl2", 675e6, 118.64e9),
    ],
)
def test_published_sizes(name: str, parameters: float, products: float) -> None:
    """Both papers count a product and its sum as one FLOP. DiT's embeddings of time and class aren't counted here."""
    instance = preset(name, ends=True, micro_batch=1)
    workload = instance.workload
    stored = sum(parameter_bytes(kernel, instance) for kernel in workload.kernels) / 2 * workload.layers
    assert float(stored) == pytest.approx(parameters, rel=0.04 if name == "dit-s2" else 0.02)
    work = sum(flop(kernel) for kernel in workload.kernels if kernel.kind == "gemm") * workload.layers
    assert work / 2 == pytest.approx(products, rel=2e-3)


def test_tokens_follow_from_image_and_patch() -> None:
    assert vit().workload.tokens == 14 * 14 + 1 and vit(model="vit-h14").workload.tokens == 16 * 16 + 1
    assert [dit(image=side).workload.tokens for side in (256, 512)] == [256, 1024]
    for generator, image in ((vit, 225), (dit, 260), (dit, 264)):
        with pytest.raises(InputError, match="multiple"):
            generator(image=image)
    with pytest.raises(InputError, match="no backward kernels"):
        vit(backward=True, step="prefill")


def test_what_a_condition_modulates() -> None:
    """One column makes six vectors, which both norms and both sums read."""
    workload = dit().workload
    kernels = {kernel.name: kernel for kernel in workload.kernels}
    assert (kernels["Modulation"].N, flop(kernels["Modulation"])) == (1, 2 * 6 * 1152 * 1152)
    readers = [reader for source, reader in workload.edges if source == "Modulation"]
    assert readers == ["Norm1", "Scale1", "Norm2", "Scale2"]
    assert flop(kernels["Norm1"]) == 3 * flop(kernels["Add1"])


def test_a_block_of_a_diffusion_transformer_is_mapped() -> None:
    """Both directions of one, on four chips."""
    instance = dit(
        **{"layers": 1, "step": "forward", "backward": True, "sizes": [4], "batch": 4, "micro_batch": 1},
        **{"degrees": {"tensor": 4, "dimensions": ["tensor"]}, "fused": False},
    )
    result = solve(instance, None, SolveOptions.make(warm_start="none", time_limit=60.0))
    assert result.status == "optimal"
