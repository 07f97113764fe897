"""The loggers beside the metrics file: what reaches them, what is named before a run begins, and TensorBoard on a full disk."""

from __future__ import annotations

import importlib.util
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event

from broker.errors import RunFailed
from config.explanations import ConfigError
from config.learner import LearnerConfig
from config.run import Run
from learner.launch.preflight import check_places
from learner.reporting.build import build_loggers
from learner.reporting.scalars import rounds, scalars, with_newest_round
from tests.support.chain import make_run
from tests.support.episodes import MESSAGES
from tests.support.full_volume import mounted
from tests.support.paths import ROOT

pytestmark = pytest.mark.process

RECORD = {
    "step": 3,
    "at": 1e9,
    "reward_mean": 0.5,
    "is_replayed": True,
    "queues": {"prompts": 4},
    "curve": [1, 2],
}
RECORD |= {"dropped_by_source": {"gsm8k": {"zero_variance": 2}}, "generators": {"g0": {"mismatch_kl": 0.001}}}
RECORD |= {"name": "text", "nothing": None, "evaluations": [{"version": 2, "pass_rate": 0.25, "prompts": 64}]}
SAMPLE = {"step": 3, "group": "17", "prompt": [{"role": "user", "content": "1 + 1?"}], "answer": "2"}
SAMPLE |= {"reward": 1.0, "reason": "equal"}


def with_loggers(folder: Path, *sections: dict[str, Any]) -> Run:
    run = make_run(folder)
    learner = LearnerConfig.model_validate(run.learner.model_dump() | {"loggers": list(sections)})
    return run.model_copy(update={"learner": learner})


def events(folder: Path) -> Iterator[Event]:
    """Yield the events of a folder's files: each is length, its checksum, the event and its checksum."""
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            yield Event.FromString(data[12 : 12 + length])
            data = data[12 + length + 4 :]


def test_numbers_are_named_by_their_path_and_nothing_else_is_a_curve() -> None:
    assert scalars(RECORD) == {
        "reward_mean": 0.5,
        "is_replayed": 1.0,
        "dropped_by_source/gsm8k/zero_variance": 2.0,
        "generators/g0/mismatch_kl": 0.001,
        "queues/prompts": 4.0,
    }
    assert list(rounds(RECORD)) == [(2, {"evaluation/pass_rate": 0.25, "evaluation/prompts": 64.0})]
    two = {"step": 9, "evaluations": [{"version": 2, "pass_rate": 0.25}, {"version": 4, "pass_rate": 0.5}]}
    assert with_newest_round(two) == {"evaluation_version": 4.0, "evaluation/pass_rate": 0.5}


def values_of(run: Run) -> list[tuple[int, Any]]:
    return [
        (event.step, value) for event in events(run.folder / "tensorboard") for value in event.summary.value
    ]


def test_tensorboard_gets_every_number_at_its_step_and_rounds_at_their_version(tmp_path: Path) -> None:
    run = with_loggers(tmp_path, {"type": "tensorboard"})
    for _ in range(2):  # a run that goes on writes a second file
        [logger] = build_loggers(run)
        logger.log(RECORD)
        logger.sample(SAMPLE)
        logger.close()
    numbers = [each for each in values_of(run) if each[1].WhichOneof("value") == "simple_value"]
    found = [(step, value.tag, value.simple_value) for step, value in numbers]
    expected = [(3, name, value) for name, value in scalars(RECORD).items()]
    expected += [(2, "evaluation/pass_rate", 0.25), (2, "evaluation/prompts", 64.0)]
    assert [one[:2] for one in found] == [one[:2] for one in expected * 2]
    assert [one[2] for one in found] == pytest.approx([one[2] for one in expected * 2])
    texts = [value.tensor.string_val for _, value in values_of(run) if value.tensor.string_val]
    assert texts[0][0] == b"**1 + 1?**\n\n2\n\nreward 1.0: equal"


def test_tensorboard_shows_an_episode_as_a_conversation(tmp_path: Path) -> None:
    run = with_loggers(tmp_path, {"type": "tensorboard"})
    [logger] = build_loggers(run)
    logger.sample({**SAMPLE, "messages": list(MESSAGES)})
    logger.close()
    ((text,),) = [value.tensor.string_val for _, value in values_of(run)]
    assert b"I look.\ncalls search(" in text
    assert b"tool search: five\n\nassistant: <b>5</b>\n\nreward 1.0: equal" in text


@pytest.mark.parametrize("library", ["wandb", "trackio"])
def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    find = importlib.util.find_spec
    without = "importlib.util.find_spec"
    monkeypatch.setattr(without, lambda name, *a: None if name == library else find(name, *a))
    told = rf"learner\.loggers: {library} needs {library}: pip install {library}"
    with pytest.raises(ConfigError, match=told):
        check_places(with_loggers(tmp_path, {"type": library, "project": "p"}))


def test_weights_and_biases_without_a_key_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: object())
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    online = with_loggers(tmp_path, {"type": "wandb"})
    with pytest.raises(ConfigError, match="wandb has no key: set WANDB_API_KEY"):
        check_places(online)
    offline = with_loggers(tmp_path, {"type": "wandb", "mode": "offline"})
    assert not [line for line in _lines(offline) if "wandb" in line]
    (tmp_path / "netrc").write_text("machine api.wandb.ai login user password secret\n")
    assert not [line for line in _lines(online) if "wandb" in line]


def _lines(run: Run) -> list[str]:
    try:
        check_places(run)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def test_a_logger_that_can_not_begin_is_named_and_one_that_fails_later_costs_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = with_loggers(tmp_path, {"type": "tensorboard"})
    [logger] = build_loggers(run)
    monkeypatch.setattr("tensorboardX.FileWriter.add_summary", lambda *_: 1 / 0)
    logger.log(RECORD)
    assert "logger_failed logger=tensorboard" in caplog.text
    logger.close()
    (tmp_path / "elsewhere").write_text("a file where a folder is wanted")
    broken = run.model_copy(update={"runs_dir": tmp_path / "elsewhere"})
    with pytest.raises(RunFailed, match=r"learner\.loggers: tensorboard can't begin"):
        build_loggers(broken)


# argv: the folder, on a volume of its own.
PROGRAM = """
import sys
from pathlib import Path
from learner.reporting.tensorboard import TensorBoard
folder = Path(sys.argv[1])
logger = TensorBoard(folder)
logger.log({"step": 1, "reward_mean": 0.5})
with open(folder / "ballast", "wb", buffering=0) as ballast:
    for size in (1 << 16, 1 << 12, 1):
        try:
            while True:
                ballast.write(bytes(size))
        except OSError:
            pass
said = ""
for step in range(2, 2000):
    try:
        logger.log({"step": step, **{f"number_{index}": 0.5 for index in range(20)},
                    "histograms": {"tokens": {"edges": list(range(1, 50)), "counts": [1] * 50}}})
    except OSError as error:
        said = str(error)
        break
try:
    logger.close()
except OSError as error:
    said += f" | {error}"
print(said)
"""


@pytest.mark.prove
def test_a_full_disk_is_said_by_the_next_step_and_the_process_ends(tmp_path: Path) -> None:
    with mounted(tmp_path / "full", size_mb=1) as volume:
        done = subprocess.run(
            [*volume.inside, f"--wd={ROOT}", sys.executable, "-c", PROGRAM, str(tmp_path / "full")],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stdout
    assert "Exception in thread" not in done.stderr
