"""The heading that pictures of placements share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chipmap.certificate import Certificate
from chipmap.report.canvas import MUTED, RED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def heading(figure: Figure, name: str, parts: Sequence[str], certificate: Certificate) -> None:
    """The name of the instance, what the picture shows, and what the checker refuses."""
    height = figure.get_figheight()
    figure.text(0.085, 1 - 0.2 / height, name, fontsize=15, fontweight="bold", va="center")
    figure.text(0.085, 1 - 0.47 / height, "  ·  ".join(parts), fontsize=10, color=MUTED, va="center")
    if not certificate.feasible:
        first = certificate.violations[0]
        text = f"NOT VALID: {first.label} {first.message}"
        figure.text(0.985, 1 - 0.2 / height, text[:110], fontsize=9, color=RED, va="center", ha="right")
