"""A workshop for each file that trains policies in fresh processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.support.policy_workshop import Workshop, open_workshop

torch.set_num_threads(
    1
)  # the models are too small for two: the second would wait, and take a processor to do so


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with open_workshop(tmp_path_factory.mktemp("workshop")) as workshop:
        yield workshop
