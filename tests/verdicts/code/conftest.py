"""The code scorer, by which tests of rows and comparisons judge answers."""

from __future__ import annotations

from tests.scorers.code.conftest import scorer

__all__ = ["scorer"]
