"""FLOP of Fourier transforms and of linear algebra."""

from __future__ import annotations

from math import log2, prod

from chipmap.networks.importers.operators.calls import Call, Count, ranked


def fourier(real: bool = False, dims: int | None = 1) -> Count:
    """5 · n · log₂ n per transform of n points; half of that between ``real`` numbers and complex ones.

    n is the product of the transformed dimensions: argument ``dim``, else the last ``dims`` (None: all). They are those
    of the larger of operand and result: the spectrum of real numbers is half as long.
    """

    def count(call: Call) -> int:
        whole = max(call.operand(0), call.result, key=lambda value: value.elements)
        said = call.arguments.get("dim")
        last = whole.shape[-dims:] if dims else whole.shape
        sizes = [whole.shape[d] for d in ([said] if isinstance(said, int) else said)] if said is not None else last
        return transforms(whole.elements, prod(sizes), real)

    return count


def fourier_pairs(call: Call) -> int:
    """ONNX's DFT: transforms along ``axis`` of numbers that are pairs in the last dimension (one alone: real)."""
    read = ranked(call.operand(0), 2)
    axis = call.arguments.get("axis", -2)
    places, points = read.elements // max(1, read.shape[-1]), read.shape[axis]
    longer = call.arguments.get("dft_length")
    n = longer if isinstance(longer, int) else points
    return transforms(places // max(1, points) * n, n, read.shape[-1] == 1)


def fourier_frames(call: Call) -> int:
    """ONNX's STFT: a transform of real numbers per frame, [batch, frames, …] of the result."""
    said = call.arguments.get("frame_length")
    n = said if isinstance(said, int) else call.operand(2).shape[-1]
    return transforms(prod(ranked(call.result, 3).shape[:2]) * n, n, real=True)


def spectrogram(inverse: bool = False) -> Count:
    """PyTorch's STFT and its inverse: a transform of ``n_fft`` real numbers per frame of the spectra [batch, n, frames]
    (pairs in a last dimension where they are no complex numbers).
    """

    def count(call: Call) -> int:
        spectra = ranked(call.operand(0) if inverse else call.result, 2)
        n = call.arguments["n_fft"]
        pairs = not inverse and call.arguments.get("return_complex") is False
        shape = spectra.shape[:-1] if pairs else spectra.shape
        return transforms(prod(shape[:-2]) * shape[-1] * n, n, real=True)

    return count


def transforms(elements: int, points: int, real: bool) -> int:
    """5 · log₂ n for each of ``elements`` in transforms of n ``points``, half of it for ``real`` ones."""
    return round(5 * elements * log2(max(1, points))) // (2 if real else 1)


def cubic(share: int, of: int = 1) -> Count:
    """(share / of) · n³ per square matrix [n, n] of the first operand."""

    def count(call: Call) -> int:
        read = ranked(call.operand(0), 2)
        return share * read.elements * read.shape[-1] // of

    return count


def tall(call: Call) -> int:
    """2 · m · n² - 2/3 · n³ per [m, n] matrix (m >= n), a QR decomposition by Householder's reflections."""
    read = ranked(call.operand(0), 2)
    n = min(read.shape[-2:])
    return max(0, 2 * read.elements * n - 2 * read.elements * n * n // (3 * max(1, max(read.shape[-2:]))))


def solved(triangles: int, factor: int) -> Count:
    """``factor`` · n³ / 3 to factorise each [n, n] matrix, and n² per triangle and column of the solution."""

    def count(call: Call) -> int:
        matrix = max((v for v in call.operands[:2]), key=lambda v: len(v.shape) > 1 and v.shape[-1] == v.shape[-2])
        n = ranked(matrix, 2).shape[-1]
        return factor * matrix.elements * n // 3 + triangles * call.result.elements * n

    return count
