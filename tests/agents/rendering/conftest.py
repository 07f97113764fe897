"""Renderings of families with tools, each loaded once."""

from __future__ import annotations

from functools import cache

import pytest

from agents.rendering.templated import load_rendering
from config.run import ModelConfig
from tests.support.renderings import Opened
from tests.support.tool_families import family_folder


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Return the rendering of a family by its name."""
    root = tmp_path_factory.mktemp("families")
    return cache(lambda name: load_rendering(ModelConfig(path=str(family_folder(name, root)))))
