"""Binary heaps for the decoder: many small ones of single numbers in one array, and one of events.

All are parts of the decoder's loop: written into it, and without counting references to arrays, which would take most
of the time.
"""

from __future__ import annotations

from chipmap.instances.placement.problem import IntArray
from chipmap.kernels import njit

#: The columns of the table of heaps: where a heap begins, its size, its room. The last row says where the next begins.
LOW, SIZE, ROOM = 0, 1, 2
#: The room of each heap at the beginning.
FIRST = 8

part = njit(part=True, forceinline=True, _nrt=False)


@part
def empty(heap: IntArray) -> None:
    """Empty all heaps."""
    for h in range(len(heap)):
        heap[h, LOW], heap[h, SIZE], heap[h, ROOM] = FIRST * h, 0, FIRST


@part
def push(pool: IntArray, heap: IntArray, h: int, entry: int) -> None:
    """Add ``entry`` to heap ``h``. A full one moves to the end of ``pool``, with twice the room."""
    low, i = heap[h, LOW], heap[h, SIZE]
    if i == heap[h, ROOM]:
        top = heap[len(heap) - 1, LOW]
        for k in range(i):
            pool[top + k] = pool[low + k]
        low = top
        heap[h, LOW], heap[h, ROOM], heap[len(heap) - 1, LOW] = low, 2 * i, top + 2 * i
    heap[h, SIZE] = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if pool[low + parent] <= entry:
            break
        pool[low + i] = pool[low + parent]
        i = parent
    pool[low + i] = entry


@part
def pop(pool: IntArray, heap: IntArray, h: int) -> int:
    """Remove and return the least entry of heap ``h``."""
    low, last = heap[h, LOW], heap[h, SIZE] - 1
    heap[h, SIZE] = last
    least, entry = pool[low], pool[low + last]
    i, child = 0, 1
    while child < last:
        child += child + 1 < last and pool[low + child + 1] < pool[low + child]
        if pool[low + child] >= entry:
            break
        pool[low + i] = pool[low + child]
        i, child = child, 2 * child + 1
    pool[low + i] = entry
    return least


@part
def happen(when: IntArray, what: IntArray, count: int, time: int, code: int) -> int:
    """Add an event to the heap of ``count`` events; their new number. Those at one time come in any order."""
    i = count
    while i > 0:
        parent = (i - 1) >> 1
        if when[parent] <= time:
            break
        when[i], what[i] = when[parent], what[parent]
        i = parent
    when[i], what[i] = time, code
    return count + 1


@part
def following(when: IntArray, what: IntArray, count: int) -> int:
    """Remove the first of ``count`` events and return its code."""
    last = count - 1
    first, time, code = what[0], when[last], what[last]
    i, child = 0, 1
    while child < last:
        child += child + 1 < last and when[child + 1] < when[child]
        if when[child] >= time:
            break
        when[i], what[i] = when[child], what[child]
        i, child = child, 2 * child + 1
    when[i], what[i] = time, code
    return first
