"""Layers with experts of which each chip may have its own, and layers whose tokens may be split over chips: the schemes
that this takes."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.dataflow.sharding import schemes
from chipmap.instances.dataflow.workload import Kernel, Scheme

#: What the kernels between dispatch and combine are called, with those of their backward phase, and these two.
_ROUTED, _BORDERS = "Experts_", ("Dispatch", "Combine")
#: How the names of the gradients of keys and values end, which are sums over the tokens of queries.
_OVER_TOKENS = "_b2"


def divided(kernels: Sequence[Kernel], experts: int, active: int) -> tuple[Kernel, ...]:
    """The kernels of a layer (mode ``physical``) with scheme E for those that work on experts' columns, and N for those
    that hand out and add up columns of tokens, beside the schemes that they have."""
    found = []
    for kernel in kernels:
        own = schemes(kernel, "physical")
        if kernel.name.startswith(_ROUTED):
            kernel = kernel.replace(schemes=(*own, "E"), experts=experts, active=active)
        elif kernel.name.startswith(_BORDERS):
            kernel = kernel.replace(schemes=(*own, "N"))
        found.append(kernel)
    return tuple(found)


def by_samples(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """The forward kernels of a layer (mode ``physical``) with scheme B for attention: products of two activations, and
    what is done to each head."""
    found = []
    for kernel in kernels:
        attends = kernel.kind == "gemm" and not kernel.weights and not kernel.update
        heads = kernel.kind == "elementwise" and kernel.outer > 1
        if (attends or heads) and kernel.phase == "forward":
            kernel = kernel.replace(schemes=(*schemes(kernel, "physical"), "B"))
        found.append(kernel)
    return tuple(found)


def by_context(kernels: Sequence[Kernel], edges: Sequence[tuple[str, str]]) -> tuple[Kernel, ...]:
    """The forward kernels of a layer (mode ``physical``) with OUTER_M and OUTER_K for attention: the softmax, the
    products that it reads, what is done to each head behind it, and the products that read that. All share out the
    heads of the cache."""
    named = {kernel.name: kernel for kernel in kernels}
    of_heads = {name for name, one in named.items() if one.statistics and one.outer > 1 and one.phase == "forward"}
    found: dict[str, Scheme] = dict.fromkeys(of_heads, "OUTER_M")
    cached = {name: named[maker].fetch_outer for maker, name in edges if name in of_heads}
    for maker, reader in edges:  # makers stand before readers
        if reader in of_heads:
            found[maker] = "OUTER_M"
        if maker in cached and named[reader].phase == "forward":
            element = named[reader].kind == "elementwise"
            found[reader] = "OUTER_M" if element else "OUTER_K"
            cached |= {reader: cached[maker]} if element else {}
    return tuple(
        kernel.replace(
            schemes=(*schemes(kernel, "physical"), found[kernel.name]),
            fetch_outer=cached.get(kernel.name, kernel.fetch_outer),
        )
        if kernel.name in found
        else kernel
        for kernel in kernels
    )


def by_grid(kernels: Sequence[Kernel], edges: Sequence[tuple[str, str]]) -> tuple[Kernel, ...]:
    """The kernels of a layer (mode ``physical``) with M_K for the products to the rows of an FFN, M_T for what is done
    to these, and K_M for the product back."""
    named = {kernel.name: kernel for kernel in kernels}
    plain = {name for name, one in named.items() if one.kind == "gemm" and one.weights and one.outer == 1}
    back = {
        reader: maker
        for maker, reader in edges
        if reader in plain and named[maker].kind == "elementwise" and named[maker].M > named[reader].M
    }
    found: dict[str, Scheme] = dict.fromkeys(back, "K_M")
    for maker in back.values():
        found[maker] = "M_T"
    for maker, reader in edges:
        if reader in back.values() and maker in plain:
            found[maker] = "M_K"
    return tuple(
        kernel.replace(schemes=(*schemes(kernel, "physical"), found[kernel.name])) if kernel.name in found else kernel
        for kernel in kernels
    )


def by_tokens(kernels: Sequence[Kernel], edges: Sequence[tuple[str, str]]) -> tuple[Kernel, ...]:
    """The kernels of a layer (mode ``physical``) with the schemes that split tokens, beside those that they have.

    N for all that work on columns of tokens, K_N for products that sum over tokens (weight updates, gradients of keys
    and values) and for those whose sums may be scattered by tokens. Products of two activations read their K × N
    operand first, as the generators' do, and name the other one.
    """
    reads: dict[str, list[str]] = {}
    for maker, reader in edges:
        reads.setdefault(reader, []).append(maker)
    found = []
    for kernel in kernels:
        own, product = schemes(kernel, "physical"), kernel.kind == "gemm"
        of_two = product and not kernel.weights and not kernel.update
        sums = product and (kernel.update or (of_two and kernel.name.endswith(_OVER_TOKENS)))
        more: tuple[Scheme, ...] = ("K_N",) if sums else ("N", "K_N") if "K_RS" in own else ("N",)
        if kernel.kind != "opaque":
            operand = reads[kernel.name][-1] if of_two and not sums else kernel.operand
            kernel = kernel.replace(schemes=(*own, *more), operand=operand)
        found.append(kernel)
    return tuple(found)
