"""The code scorer with its defaults, one for the session."""

from __future__ import annotations

import pytest

from config.scorer_kinds import CodeConfig
from config.scorers import ScorersConfig
from sandbox.program import Sandbox
from scorers.code.scorer import CodeTests


@pytest.fixture(scope="session")
def scorer(sandbox: Sandbox) -> CodeTests:
    return CodeTests(CodeConfig(), ScorersConfig(), sandbox)
