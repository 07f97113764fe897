"""The code scorer with its defaults, one for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from scorers.code.scorer import CodeTests


@pytest.fixture(scope="session")
def scorer() -> Iterator[CodeTests]:
    built = CodeTests(CodeConfig(), ScorersConfig())
    yield built
    built.close()
