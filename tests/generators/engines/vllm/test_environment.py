"""What is set before vLLM is imported; needs no vLLM."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import msgpack._cmsgpack
import pytest

from config.generators import VllmEngineConfig
from generators.engines.vllm.environment import set_environment

NAMES = ("OMP_NUM_THREADS", "TORCHDYNAMO_DISABLE", "LD_LIBRARY_PATH")

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]


@pytest.fixture(autouse=True)
def _own_prefix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(os, "environ", {"OMP_NUM_THREADS": "3", "LD_LIBRARY_PATH": "/elsewhere"})


def test_what_the_operator_has_set_stays_and_a_libnuma_here_is_found(tmp_path: Path) -> None:
    set_environment(VllmEngineConfig(enforce_eager=True, threads=2), on_cpu=False)
    assert [os.environ.get(name) for name in NAMES] == ["3", None, "/elsewhere"]
    assert "VLLM_CPU_OMP_THREADS_BIND" not in os.environ, "of a GPU"
    set_environment(VllmEngineConfig(enforce_eager=True), on_cpu=True)
    assert [os.environ[name] for name in NAMES] == ["3", "1", "/elsewhere"]
    for threads in (2, None):
        set_environment(VllmEngineConfig(threads=threads), on_cpu=True)
        assert os.environ["OMP_NUM_THREADS"] == "2"
    del os.environ["OMP_NUM_THREADS"]
    set_environment(VllmEngineConfig(), on_cpu=True)
    assert os.environ["OMP_NUM_THREADS"] == "1", "where nobody says more"
    shutil.copy(msgpack._cmsgpack.__file__, tmp_path / "lib" / "libnuma.so.1")
    for _ in range(2):
        set_environment(VllmEngineConfig(), on_cpu=True)
    assert os.environ["LD_LIBRARY_PATH"].split(":")[0] == str(tmp_path / "lib")
    assert os.environ["LD_LIBRARY_PATH"].count(str(tmp_path)) == 1
