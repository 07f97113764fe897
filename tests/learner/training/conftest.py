"""A workshop for each file that trains policies in fresh processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.policy_workshop import Workshop, open_workshop


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with open_workshop(tmp_path_factory.mktemp("workshop")) as workshop:
        yield workshop
