"""What the learner sets for torch's allocator, before torch is imported."""

from __future__ import annotations

import os

import pytest

from learner.launch.environment import set_environment


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ({"PYTORCH_ALLOC_CONF": "backend:native"}, {"PYTORCH_ALLOC_CONF": "backend:native"}),
        ({"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}, {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}),
    ],
)
def test_blocks_of_memory_may_grow_unless_the_operator_has_set_the_allocator(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: dict[str, str]
) -> None:
    monkeypatch.setattr(os, "environ", dict(given))
    set_environment()
    assert os.environ == expected
