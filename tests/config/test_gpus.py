"""GPUs from outside of torch: who sees which, and why a torch that is built for them sees none."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from broker.errors import RunFailed
from config.endpoint import ServeConfig
from config.explanations import ConfigError
from config.generators import GeneratorsConfig
from config.gpus import Card, SystemGpus, cards, system_gpus, visible, why_unseen
from config.learner import LearnerConfig
from learner.training.process_group import device_of
from tests.support.chain import make_run

pytestmark = pytest.mark.model

SMI = "#!/bin/sh\necho '535.161.08, NVIDIA H100'\necho '535.161.08, NVIDIA H100'\n"


def install_smi(folder: Path, program: str, patch: pytest.MonkeyPatch) -> Path:
    """Put a driver's tool first on the path, on a machine whose scheduler hands out nothing."""
    tool = folder / "nvidia-smi"
    tool.write_text(program)
    tool.chmod(0o700)
    patch.setenv("PATH", str(folder), prepend=os.pathsep)
    patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tool


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the driver's tool find two GPUs, and torch be a build for them that sees none."""
    install_smi(tmp_path, SMI, monkeypatch)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("given", "gpus", "seen"),
    [
        *(
            (None, (0, 2), "0,2"),
            ("4,5,6,7", (0, 2), "4,6"),
            ("GPU-aa, GPU-bb", (1,), "GPU-bb"),
            ("3", (0,), "3"),
        ),
        *(("6,7", (1, 4), 2), ("", (1, 4), 0), ("-1", (1, 4), 0)),  # how many are handed out: too few
    ],
)
def test_gpus_are_counted_among_those_that_a_scheduler_hands_out(
    monkeypatch: pytest.MonkeyPatch, given: str | None, gpus: tuple[int, ...], seen: str | int
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    if isinstance(seen, str):
        assert visible("learner.gpus", gpus) == seen
        return
    with pytest.raises(ConfigError, match=rf"learner\.gpus=\[1, 4\]: .*hands out {seen} GPUs.* 4 is not"):
        visible("learner.gpus", gpus)


def test_more_ranks_than_gpus_and_a_negative_gpu_are_refused_when_the_configuration_is_read() -> None:
    LearnerConfig(ranks=2, gpus=(0, 1))
    for gpus in ((0, 1), (0, 1, 1)):
        with pytest.raises(ValueError, match=rf"ranks=3 is more than gpus={re.escape(str(list(gpus)))} has"):
            LearnerConfig(ranks=3, gpus=gpus)
    section: Callable[..., object]
    for section in (LearnerConfig, GeneratorsConfig, partial(ServeConfig, model="judge")):
        with pytest.raises(ValueError, match=r"gpus\.1\n.*greater than or equal to 0"):
            section(gpus=(0, -1))


def test_no_gpu_without_the_drivers_tool_and_no_rank_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert system_gpus() == SystemGpus()
    assert why_unseen("2.13.0", "13.0") == ""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device_of(make_run(tmp_path)) == torch.device("cuda", 1)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(RunFailed, match=r"rank 2 of this machine has no GPU of its own: torch sees 2"):
        device_of(make_run(tmp_path))


@pytest.mark.usefixtures("two_gpus")
def test_an_old_driver_is_said_with_both_versions_and_nothing_trains_on_the_cpu(tmp_path: Path) -> None:
    assert system_gpus() == SystemGpus("535.161.08", ("NVIDIA H100", "NVIDIA H100"))
    with pytest.raises(RunFailed, match=r"driver 535\.161\.08 are here, and torch .*CUDA 13\.0, sees none"):
        device_of(make_run(tmp_path))
    assert device_of(make_run(tmp_path, learner={"device": "cpu"})).type == "cpu", "who asks for it gets it"


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("is_hidden", [True, False])
def test_gpus_that_are_hidden_or_of_no_use_to_this_torch_are_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_hidden: bool
) -> None:
    if is_hidden:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    else:
        monkeypatch.setattr(torch.version, "cuda", None)  # a build for the CPU, as the demo has
    assert device_of(make_run(tmp_path)).type == "cpu"
    with pytest.raises(RunFailed, match=r"learner\.gpus=\[0\], and torch .* sees no GPU"):
        device_of(make_run(tmp_path, learner={"gpus": [0]}))


MEMORY = """#!/bin/sh
echo '0, GPU-aa, 20480, 24564'
echo '1, GPU-bb, 1024, 24564'
echo '2, GPU-cc, [N/A], [N/A]'
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [("0", 20480), ("1", 1024)]),
        ("1,0", [("1", 1024), ("0", 20480)]),
        ("GPU-bb", [("1", 1024)]),
        ("", []),
        ("0,2", []),  # of a part of a GPU nothing is known, and so of none
    ],
)
def test_the_memory_of_the_gpus_that_a_process_sees_is_asked_of_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None, expected: list[tuple[str, int]]
) -> None:
    tool = install_smi(tmp_path, MEMORY, monkeypatch)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    total = 24564 << 20
    assert cards() == tuple(
        Card(name=name, free_bytes=free << 20, total_bytes=total) for name, free in expected
    )
    tool.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cards() == ()
