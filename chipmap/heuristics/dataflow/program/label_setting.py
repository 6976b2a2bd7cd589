"""The label-setting search inside a partition, compiled: labels grow kernel by kernel.

A label is a choice of schemes for the kernels that are in the partition so far, with what they take.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.dataflow.program.exchanges import Exchanges
from chipmap.heuristics.dataflow.program.signature import Fields
from chipmap.heuristics.dataflow.program.tile_sharing import Tiles, least_time
from chipmap.heuristics.engines.ideals import Words
from chipmap.instances.dataflow.problem import IntArray
from chipmap.kernels import njit

#: Options of a kernel.
OPTIONS = 8
#: Columns of ``outside``: bytes of parameters beside those at rest while a partition runs, picoseconds per batch.
HELD, AFTER = 1, 3
#: No limit on picoseconds or bytes.
NO_LIMIT = 2**62
#: Labels held at once inside one partition, and signatures per ideal.
POOL = 1 << 17


class Graph(NamedTuple):
    """A kernel graph and its ideals as arrays (n kernels in topological order, m edges, CSR where two are named).

    Options of kernel v are ``first[v]`` … ``first[v+1]-1`` of the columns ``compute``, ``network``, ``memory`` (DRAM
    time that the kernel always takes), ``held`` (SRAM), ``dram`` (one write or read of its output), ``buffer``.
    ``enter``/``entering`` list the edges into a kernel, ``leave``/``leaving`` those out; ``source``, ``target``,
    ``waits`` [m]; ``converts`` [m, 8, 8] picoseconds of a layout change. ``fields`` says what the bits of a signature
    stand for, ``exchanges`` what is paid beside it for what ran before. ``sets`` are the ideals. Ideal j grows by the
    kernels ``by`` into the ideals ``into``, both at ``grow[j]`` … ``grow[j+1]-1``; ``open`` lists the kernels with
    readers outside. ``grouped`` [ideals, groups] counts kernels of groups, ``sizes`` the groups (below 0:
    its kernels lie apart).
    ``rest`` [ideals, 3 or more] is the compute, memory and network that kernels outside take at least, and what whole
    partitions of them do. ``gate`` is the position of the ideal that ends the first phase (0: one phase). ``tiles`` are
    the options' shares of tiles; where these count, ``compute`` is what an option takes at least of all tiles.
    ``runs`` [n] says how often a kernel runs per micro-batch; those of a partition run alike.
    """

    first: IntArray
    compute: IntArray
    network: IntArray
    memory: IntArray
    held: IntArray
    dram: IntArray
    buffer: IntArray
    enter: IntArray
    entering: IntArray
    leave: IntArray
    leaving: IntArray
    source: IntArray
    target: IntArray
    waits: IntArray
    converts: IntArray
    fields: Fields
    exchanges: Exchanges
    sets: Words
    grow: IntArray
    by: IntArray
    into: IntArray
    open_first: IntArray
    open: IntArray
    grouped: IntArray
    sizes: IntArray
    rest: IntArray
    gate: int
    tiles: Tiles
    waits_dram: IntArray
    outside: IntArray
    runs: IntArray


class Rules(NamedTuple):
    """What partitions obey: ``sram`` bytes, at most ``most`` partitions per phase, several kernels where ``fused``.

    ``multicast``: a tensor is read once per partition. ``overlap``: compute, memory and network overlap, else all is
    summed up as compute. ``shared``: kernels share tiles, else their compute adds up. ``room``: bytes of DRAM left for
    tensors that wait and for schemes that keep more. ``launch``: picoseconds before each partition.
    """

    sram: int
    most: int
    fused: bool
    multicast: bool
    overlap: bool
    shared: bool
    room: int
    launch: int


class Labels(NamedTuple):
    """The labels of the search inside a partition, as a stack [POOL].

    ``compute``, ``memory``, ``network`` are picoseconds, ``held`` bytes of SRAM. ``signature`` is what counts later on:
    the schemes of the open kernels, where parameters rest, the layouts that are present. ``parent`` is the label that
    it grew from (-1: none), ``option`` the column of the option that it grew by. ``outside`` [POOL, columns] are sums
    of the graph's.
    """

    compute: IntArray
    memory: IntArray
    network: IntArray
    held: IntArray
    signature: IntArray
    parent: IntArray
    option: IntArray
    outside: IntArray


class Step(NamedTuple):
    """One step of a search: ``kernel`` is added to the labels from ``first`` to ``end`` - 1, under each of its options
    from ``option`` to ``options`` - 1. New labels are written from ``end`` on."""

    kernel: int
    option: int
    options: int
    first: int
    end: int


def empty_labels(columns: int) -> Labels:
    """An empty stack for ``columns`` of ``outside``."""
    one = [np.zeros(POOL, np.int64) for _ in range(7)]
    return Labels(one[0], one[1], one[2], one[3], one[4], one[5], one[6], np.zeros((POOL, columns), np.int64))


@njit(part=True)
def has(words: Words, v: int) -> bool:
    """Whether element v is in a bit set."""
    return (words[v >> 6] >> np.uint64(v & 63)) & np.uint64(1) != 0


@njit(part=True)
def option_of(g: Graph, signature: int, v: int) -> int:
    """The column of the option that a signature gives an open kernel."""
    return g.first[v] + ((signature >> g.fields.slot[v]) & g.fields.mask[v])


@njit(part=True)
def ended(g: Graph, field: int, ideal: Words) -> bool:
    """Whether all kernels that need a field of the signature are in an ``ideal``."""
    for e in range(g.fields.leave[field], g.fields.leave[field + 1]):  # noqa: SIM110 - numba knows no generators
        if not has(ideal, g.fields.leaving[e]):
            return False
    return True


@njit(part=True)
def still_known(g: Graph, v: int, ideal: Words) -> int:
    """The bits of a signature that still count once kernel v has joined an ``ideal``, which includes it."""
    f, known = g.fields, -1
    for k in range(f.enter[v], f.enter[v + 1]):
        if ended(g, f.entering[k], ideal):
            known &= ~f.bits[f.entering[k]]
    return known


@njit(part=True)
def still_needed(g: Graph, v: int, ideal: Words) -> int:
    """The bits for layouts that kernel v may make present which some kernel outside the ``ideal`` can use."""
    f, needed = g.fields, 0
    for k in range(f.begin[v], f.begin[v + 1]):
        if not ended(g, f.beginning[k], ideal):
            needed |= f.bits[f.beginning[k]]
    return needed


@njit(part=True)
def read_before(g: Graph, u: int, v: int, ideal: Words, root: Words) -> bool:
    """Whether a kernel of the partition ``ideal`` \\ ``root`` other than v reads the output of u."""
    for e in range(g.leave[u], g.leave[u + 1]):
        w = g.target[g.leaving[e]]
        if w != v and has(ideal, w) and not has(root, w):
            return True
    return False


@njit(cache=True, nogil=True)
def extend(
    g: Graph,
    rules: Rules,
    pool: Labels,
    step: Step,
    ideal: Words,
    root: Words,
    limits: tuple[int, int, int],
) -> int:
    """Make the labels of a ``step`` in the partition ``ideal`` \\ ``root``; their end (-1: pool full).

    ``ideal`` includes the step's kernel already. A label with more bytes than the SRAM holds, or than DRAM has room
    for, or whose compute, memory or network reaches its limit, is left out.
    """
    v, end, x = step.kernel, step.end, g.exchanges
    known, needed = still_known(g, v, ideal), still_needed(g, v, ideal)
    group, using = completed(g, v, ideal), x.enter[v + 1] > x.enter[v]
    for option in range(step.option, step.options):
        taken = option - g.first[v]
        for i in range(step.first, step.end):
            compute = pool.compute[i] + g.compute[option]
            memory = pool.memory[i] + g.memory[option]
            network = pool.network[i] + g.network[option]
            held = pool.held[i] + g.held[option]
            signature, made_present = pool.signature[i], 0
            for k in range(g.enter[v], g.enter[v + 1]):
                e = g.entering[k]
                u = g.source[e]
                made = option_of(g, signature, u)
                change = g.converts[e, made - g.first[u], taken]
                if change > 0 and signature & x.covering[e, taken] == 0:
                    network += change
                    made_present |= x.present[e, made - g.first[u], taken]
                if not has(root, u):
                    held += g.buffer[made] * g.waits[e]
                elif not rules.multicast or not read_before(g, u, v, ideal, root):
                    memory += g.dram[made]
                    held += 2 * g.buffer[made]
            if using:
                network += used(g, signature, v, taken)
            if group >= 0:
                network += sums(g, signature, group, v, option)
            if x.adder[v] >= 0:
                network -= alike(g, signature, v, taken)
            if not rules.overlap:
                compute, memory, network = compute + memory + network, 0, 0
            if held > rules.sram or compute >= limits[0] or memory >= limits[1] or network >= limits[2]:
                continue
            if end >= len(pool.compute):
                return -1
            pool.compute[end], pool.memory[end], pool.network[end] = compute, memory, network
            pool.held[end], pool.parent[end], pool.option[end] = held, i, option
            pool.signature[end] = (signature & known) | (made_present & needed) | g.fields.code[option]
            for k in range(g.outside.shape[1]):
                pool.outside[end, k] = pool.outside[i, k] + g.outside[option, k]
            if using and g.outside.shape[1] > AFTER:
                use_outside(g, pool, end, v, taken)
            if g.outside.shape[1] > AFTER and pool.outside[end, 0] + pool.outside[end, HELD] > rules.room:
                continue
            end += keep(g, rules, pool, step.end, end)
    return end


@njit(part=True)
def used(g: Graph, signature: int, v: int, taken: int) -> int:
    """Picoseconds until kernel v has the parameters that it uses."""
    x, total = g.exchanges, 0
    for k in range(x.enter[v], x.enter[v + 1]):
        total += x.network[k, (signature >> x.slot[k]) & x.mask[k], taken]
    return total


@njit(part=True)
def use_outside(g: Graph, pool: Labels, end: int, v: int, taken: int) -> None:
    """Add what kernel v's uses of parameters take per batch, and in DRAM, to the sums of label ``end``."""
    x, signature = g.exchanges, pool.signature[pool.parent[end]]
    for k in range(x.enter[v], x.enter[v + 1]):
        at = (signature >> x.slot[k]) & x.mask[k]
        pool.outside[end, AFTER] += x.after[k, at, taken]
        pool.outside[end, HELD] += x.held[k, at, taken]


@njit(part=True)
def completed(g: Graph, v: int, ideal: Words) -> int:
    """The group of added products of which kernel v is the last one to join the ``ideal`` (-1: of none)."""
    group = g.exchanges.member[v]
    if group < 0:
        return -1
    for k in range(g.exchanges.group[group], g.exchanges.group[group + 1]):
        if not has(ideal, g.exchanges.members[k]):
            return -1
    return group


@njit(part=True)
def sums(g: Graph, signature: int, group: int, v: int, option: int) -> int:
    """Picoseconds of the sums of a ``group`` of added products whose last one is v under ``option``."""
    x, kinds = g.exchanges, g.exchanges.kind[option]
    for k in range(x.group[group], x.group[group + 1]):
        if x.members[k] != v:
            kinds |= x.kind[option_of(g, signature, x.members[k])]
    return x.sums[group, kinds]


@njit(part=True)
def alike(g: Graph, signature: int, v: int, taken: int) -> int:
    """Picoseconds of the changes that kernel v needn't make, of products that lie as one that it lists before."""
    x, spared = g.exchanges, 0
    for k in range(g.enter[v], g.enter[v + 1]):
        e = g.entering[k]
        u = g.source[e]
        made = option_of(g, signature, u)
        for i in range(x.group[x.adder[v]], x.group[x.adder[v] + 1]):
            w = x.members[i]
            if w == u:
                break
            if x.member[u] == x.adder[v] and x.layout[option_of(g, signature, w)] == x.layout[made]:
                spared += g.converts[e, made - g.first[u], taken]
                break
    return spared


@njit(part=True)
def keep(g: Graph, rules: Rules, pool: Labels, b: int, end: int) -> bool:
    """Whether none of the labels from b to end - 1 with label end's signature is as good in all."""
    for i in range(b, end):
        as_good = pool.compute[i] <= pool.compute[end] and pool.memory[i] <= pool.memory[end]
        as_good = as_good and pool.network[i] <= pool.network[end] and pool.held[i] <= pool.held[end]
        # more layouts that are present are as good
        worse = (pool.signature[i] ^ pool.signature[end]) & (g.fields.lasting | pool.signature[end])
        as_good = as_good and worse == 0 and below(pool.outside, i, end)
        if as_good and (not rules.shared or within(g, pool, i, end)):
            return False
    return True


@njit(part=True)
def within(g: Graph, pool: Labels, i: int, j: int) -> bool:
    """Whether at any time every kernel of label i needs no more tiles than in label j, of the same kernels."""
    while i != j:
        v = np.searchsorted(g.first, pool.option[j], side="right") - 1
        if not g.tiles.within[pool.option[i], pool.option[j] - g.first[v]]:
            return False
        i, j = pool.parent[i], pool.parent[j]
    return True


@njit(part=True)
def below(rows: IntArray, i: int, j: int) -> bool:
    """Whether no column of row i is above that of row j."""
    for k in range(rows.shape[1]):  # noqa: SIM110 - numba knows no generators
        if rows[i, k] > rows[j, k]:
            return False
    return True


@njit(cache=True, nogil=True)
def waiting(g: Graph, rules: Rules, signature: int, j: int, root: Words) -> int:
    """Bytes in DRAM of tensors that kernels of ideal j outside ``root`` made for kernels outside ideal j."""
    total = 0
    for k in range(g.open_first[j], g.open_first[j + 1]):
        u = g.open[k]
        size = 0 if has(root, u) else g.waits_dram[option_of(g, signature, u)]
        if size == 0:
            continue
        leaves = 0
        for e in range(g.leave[u], g.leave[u + 1]):
            leaves += not has(g.sets[j], g.target[g.leaving[e]])
        total += size * (1 if rules.multicast else leaves)
    return total


@njit(cache=True, nogil=True)
def chosen(pool: Labels, i: int) -> IntArray:
    """The columns of the options by which label i grew, the last kernel first."""
    count, k = 0, i
    while pool.parent[k] >= 0:
        count, k = count + 1, pool.parent[k]
    options = np.empty(count, np.int64)
    for place in range(count):
        options[place] = pool.option[i]
        i = pool.parent[i]
    return options


@njit(cache=True, nogil=True)
def finish(g: Graph, rules: Rules, pool: Labels, i: int, j: int, root: Words, limit: int) -> int:
    """max(compute, memory, network) of a partition that ends with ideal j, or their sum without overlap, and its
    launch; -1 where what leaves doesn't fit.

    Where tiles are shared, ``limit`` stands for all that isn't below it.
    """
    memory, held = pool.memory[i], pool.held[i]
    for k in range(g.open_first[j], g.open_first[j + 1]):
        u = g.open[k]
        if has(root, u):
            continue
        option = option_of(g, pool.signature[i], u)
        leaves = 0
        for e in range(g.leave[u], g.leave[u + 1]):
            leaves += not has(g.sets[j], g.target[g.leaving[e]])
        if rules.multicast:
            leaves = 1
        memory += leaves * g.dram[option]
        held += 2 * leaves * g.buffer[option]
    if held > rules.sram:
        return -1
    if not rules.overlap:
        return rules.launch + memory + pool.compute[i] + pool.network[i]
    longest = max(memory, pool.compute[i], pool.network[i])
    if rules.shared:
        longest = least_time(g.tiles, chosen(pool, i), longest, limit - rules.launch)
    return rules.launch + longest
