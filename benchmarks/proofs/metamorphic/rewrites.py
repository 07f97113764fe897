"""The tables of rewrites: a name, and what makes an answer of a reference's text."""

from __future__ import annotations

from benchmarks.proofs.metamorphic.right import RIGHT
from benchmarks.proofs.metamorphic.wrong import WRONG

__all__ = ["RIGHT", "WRONG"]
