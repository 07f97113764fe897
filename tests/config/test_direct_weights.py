"""`learner.weights.direct`: off by default, and refused by name where it makes no sense."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from config.learner import FilesystemTransportConfig, LearnerConfig, RelayTransportConfig


def test_nothing_goes_directly_unless_it_is_set() -> None:
    for section in (FilesystemTransportConfig(), RelayTransportConfig()):
        assert section.direct is None


@pytest.mark.parametrize("transport", ["filesystem", "relay"])
@pytest.mark.parametrize("kind", ["nccl", "ipc", "gloo"])
def test_it_goes_with_both_transports(transport: str, kind: str) -> None:
    weights = LearnerConfig.model_validate({"weights": {"type": transport, "direct": {"type": kind}}}).weights
    assert isinstance(weights, FilesystemTransportConfig | RelayTransportConfig)
    assert weights.direct is not None
    assert (weights.direct.type, weights.direct.timeout_s, weights.direct.bucket_mb) == (kind, 60.0, 64)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"weights": {"type": "custom", "import_path": "a:B", "direct": {"type": "gloo"}}},
            "filesystem and relay",
        ),
        ({"weights": {"direct": {"type": "gloo"}}, "lora": {"publish": "adapter"}}, "lora.publish=adapter"),
        ({"weights": {"direct": {"type": "mpi"}}}, "'nccl', 'ipc', 'gloo'"),
        ({"weights": {"direct": {}}}, "type"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        LearnerConfig.model_validate(given)
