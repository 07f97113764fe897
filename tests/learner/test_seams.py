"""A researcher's own objective, backend, transport with its receiver, and logger: each a class outside the packages, two steps with all.

DeepSpeed with the same objective is in `tests/learner/training/test_deepspeed.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker import codec
from broker.checksums import weights_checksum
from broker.errors import RunFailed
from broker.protocol.announcements import Announcements
from config.custom import CustomClassError
from config.learner import LearnerConfig
from generators.weight_sync.build import build_receiver
from generators.weight_sync.follower import WeightFollower
from learner.objective.build import build_objective
from learner.reporting.build import build_loggers
from learner.reporting.metrics_file import read_metrics
from learner.training.build import build_backend
from learner.weight_sync.build import build_transport
from tests.learner.conftest import MakeChain, Train
from tests.support.chain import Chain
from tests.support.loop import make_trainer
from tests.support.published_weights import RecordingEngine
from tests.support.toy_seams import ToyReceiver

pytestmark = pytest.mark.model

TOY = "tests.support.toy_seams"


def custom(name: str, **options: Any) -> dict[str, Any]:
    return {"type": "custom", "import_path": f"{TOY}:{name}", "options": options}


def test_two_steps_with_a_toy_of_each_seam(
    make_chain: MakeChain, train: Train, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    drop, file = tmp_path / "drop", tmp_path / "toy.jsonl"
    broken = custom("ToyLogger", file="nowhere", broken=True)
    receiver = custom("ToyReceiver", drop=str(drop))
    chain = make_chain(
        learner={
            "steps": 2,
            "objective": custom("ToyObjective", scale=2.0),
            "backend": custom("ToyBackend", rate=0.5),
            "weights": {**custom("ToyTransport", drop=str(drop)), "receiver": receiver},
            "loggers": [{"type": "metrics_file"}, custom("ToyLogger", file=str(file)), broken],
        }
    )
    transport = build_transport(chain.run, chain.link, chain.keys, fence=lambda: 1, mean_bytes=lambda: 0.0)
    backend = build_backend(chain.run, rank=0, world_size=1)
    train(chain, trainer=make_trainer(chain, policy=backend, transport=transport)).publisher.close()
    assert weights_followed(chain) == ([2], [drop / "version-2" / "model.safetensors"])
    assert (drop / "receiver closed").exists()

    newest = codec.decode_announcement(chain.client.xrevrange(chain.keys("weights"), count=1)[0][1])
    assert (newest.version, newest.path) == (2, str(drop / "version-2"))
    assert newest.checksum == weights_checksum([drop / "version-2" / "model.safetensors"])
    assert newest.checksum != weights_checksum([drop / "version-0" / "model.safetensors"])
    assert (drop / "closed").exists()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert lines == read_metrics(chain.run.folder)
    assert all(line["loss"] == pytest.approx(-2 * line["toy_gain"] / line["tokens"]) for line in lines)
    assert caplog.text.count("logger_failed") == 1  # said once, and the run went on


def weights_followed(chain: Chain) -> tuple[list[int], list[Path]]:
    """Follow the announcements as a generator does, by its own receiver: versions noted as loaded, and their files."""
    files: list[Path] = []
    engine = RecordingEngine(lambda file, _: files.append(file))
    receiver = build_receiver(chain.run, chain.link, chain.keys, "g")
    assert isinstance(receiver, ToyReceiver)

    async def body() -> None:
        follower = WeightFollower(Announcements(chain.link, chain.keys), engine, receiver)
        task = asyncio.create_task(follower.follow())
        await asyncio.wait_for(follower.at_least(2), 10)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(body())
    receiver.close()
    return receiver.received, files


@pytest.mark.parametrize(
    ("path", "options", "why"),
    [
        ("no_such_module:Thing", {}, "no_such_module:Thing: importing it failed"),
        (f"{TOY}:ToyObjectiv", {}, "has no ToyObjectiv; did you mean ToyObjective?"),
        (f"{TOY}:json", {}, "a class is wanted, got module"),
        (f"{TOY}:ToyObjective", {"scal": 1.0}, "can't be built from the arguments scal"),
        (f"{TOY}:ToyLogger", {"run": None, "file": "f"}, "ToyLogger is no objective: it lacks loss()"),
    ],
)
def test_a_missing_class_is_named_with_the_reason(path: str, options: dict[str, Any], why: str) -> None:
    section = {"type": "custom", "import_path": path, "options": options}
    with pytest.raises(CustomClassError, match=re.escape(why)):
        build_objective(LearnerConfig.model_validate({"objective": section}).objective)


def test_a_logger_or_transport_that_is_missing_ends_the_run_by_name(make_chain: MakeChain) -> None:
    link: Any = None
    run = make_chain(
        learner={
            "loggers": [custom("Nothing")],
            "weights": {**custom("Nothing"), "receiver": custom("Nothing")},
        }
    ).run
    alone = make_chain(learner={"weights": custom("ToyTransport", drop="nowhere")}).run
    missing = r"learner.weights.receiver is missing: .*toy_seams:ToyTransport .* receiver: {import_path: "
    with pytest.raises(RunFailed, match=r"learner.loggers: .*toy_seams has no Nothing"):
        build_loggers(run)
    for one, why in ((run, r"learner.weights: .*toy_seams has no Nothing"), (alone, missing)):
        with pytest.raises(RunFailed, match=why):
            build_transport(one, link, link, fence=lambda: 1, mean_bytes=lambda: 0.0)
    for one, why in ((run, r"learner.weights.receiver: .*toy_seams has no Nothing"), (alone, missing)):
        with pytest.raises(RunFailed, match=why):
            build_receiver(one, link, link, "g")


def test_a_section_without_its_type_is_of_the_type_that_there_was_before_the_seam() -> None:
    old = {"objective": {"clip_low": 0.1}, "weights": {"redis_max_bytes": 5}}
    settings = LearnerConfig.model_validate(old)
    kinds = (settings.objective.type, settings.weights.type, settings.backend.type)
    assert kinds == ("grpo", "filesystem", "deepspeed")
    assert [logger.type for logger in settings.loggers] == ["metrics_file", "tensorboard"]
    assert LearnerConfig.model_validate_json(settings.model_dump_json()) == settings
