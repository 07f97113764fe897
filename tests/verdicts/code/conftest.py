"""The code scorer and its sandbox, by which tests of rows and comparisons judge answers."""

from __future__ import annotations

from tests.scorers.code.conftest import scorer
from tests.scorers.conftest import sandbox

__all__ = ["sandbox", "scorer"]
