"""A tiny random model on disk."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tied embedding."""
    from tests.support.byte_model import (
        save_folder,  # transformers loads for seconds, and most tests need none of it
    )

    return save_folder(tmp_path_factory.mktemp("tiny_model"), tied=True)
