"""How an emitted program runs: copied into it behind the line below."""

from __future__ import annotations

import argparse
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

Array = Any
CHIPS = 1
SIZES: dict[str, tuple[int, int, int]] = {}
CUT: dict[str, tuple[int, int, int]] = {}
SPECS: dict[str, P] = {}
RESULTS: dict[str, P] = {}
GRADIENTS: dict[str, str] = {}
OUTPUT = ""


def on_a_chip(inputs: dict[str, Array]) -> dict[str, Array]:
    """Of the program."""
    return inputs


def unsharded(inputs: dict[str, Array]) -> dict[str, Array]:
    """Of the program."""
    return inputs


# copied from here on


def mesh() -> Any:
    """So many chips in a row. Raises :class:`RuntimeError` where JAX has fewer."""
    if len(jax.devices()) < CHIPS:
        flag = f"XLA_FLAGS=--xla_force_host_platform_device_count={CHIPS}"
        raise RuntimeError(f"JAX has {len(jax.devices())} devices; set {flag}, here {os.environ.get('XLA_FLAGS')!r}")
    kinds = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((CHIPS,), ("x",), axis_types=kinds, devices=jax.devices()[:CHIPS])


def sharded() -> Any:
    """The layer on the mesh: a function of its input and parameters."""
    return jax.shard_map(on_a_chip, mesh=mesh(), in_specs=(SPECS,), out_specs=RESULTS, check_vma=False)


def shardings() -> dict[str, Any]:
    """How inputs lie on the mesh."""
    devices = mesh()
    return {name: jax.sharding.NamedSharding(devices, spec) for name, spec in SPECS.items()}


def random_inputs(sizes: dict[str, tuple[int, int, int]], seed: int = 0) -> dict[str, Array]:
    """Numbers of which sums over inner dimensions stay near 1."""
    random = np.random.default_rng(seed)
    found = {}
    for name, size in sizes.items():
        scale = size[2] ** -0.5 if name.startswith("W:") else 1.0
        drawn = np.ones(size) if name == "again" else random.standard_normal(size) * scale
        found[name] = jnp.asarray(drawn, jnp.float32)
    return found


def expected(inputs: dict[str, Array]) -> dict[str, Array]:
    """Results of one device; gradients are JAX's own, of half the sum of the output's squares."""
    made = dict(jax.jit(unsharded)(inputs))
    if GRADIENTS:
        slopes = jax.jit(jax.grad(lambda given: (unsharded(given)[OUTPUT] ** 2).sum() / 2))(inputs)
        made |= {name: slopes[of] for name, of in GRADIENTS.items()}
    return made


def difference(found: Array, wanted: Array) -> float:
    """The largest difference of any number, over the largest number."""
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    return float(np.abs(a - b).max() / np.abs(b).max())


def main() -> int:
    """Run on random numbers and compare with one device; 1 where they differ by more than 2e-5."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--full", action="store_true", help="at full sizes, not at cut ones")
    arguments = parser.parse_args()
    flags = os.environ.get("XLA_FLAGS", "")
    if "device_count" not in flags:  # of a host without accelerators
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={CHIPS}".strip()
    inputs = random_inputs(SIZES if arguments.full else CUT)
    places, wanted = shardings(), expected(inputs)
    found = jax.jit(sharded())({name: jax.device_put(value, places[name]) for name, value in inputs.items()})
    worst = 0.0
    for name, value in found.items():
        far = difference(value, wanted[name])
        worst = max(worst, far)
        print(f"{name:24} {' x '.join(map(str, value.shape)):>20}  {far:.1e}")
    print(f"{CHIPS} chips and one differ by {worst:.1e} of the largest number")
    return int(worst > 2e-5)


if __name__ == "__main__":
    raise SystemExit(main())
