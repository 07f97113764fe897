"""What people see of a run: one object a step, and the picture."""

from __future__ import annotations

import json
from typing import Any

import pytest

from learner.reporting.curves import draw
from learner.reporting.metrics import Metrics
from learner.reporting.metrics_file import read_metrics
from learner.training.batch import pack
from tests.support.chain import Chain, make_prompt, make_scored
from tests.support.episodes import MESSAGES, episodes
from tests.support.made_up_step import made_up_step

pytestmark = pytest.mark.process


def evaluation_result(rate: float | None) -> dict[str, Any]:
    return {"pass_rate": rate, "prompts": 64, "samples": 256, "unscorable": 0, "missing": 0, "dead": 0}


def test_each_step_has_one_object_and_no_round_is_forgotten(chain: Chain) -> None:
    metrics = Metrics(chain.run)
    metrics.evaluation(0, evaluation_result(0.2))  # before the first step: goes with it
    for step in (1, 2, 3):
        metrics.step(made_up_step(step))
    metrics.evaluation(2, evaluation_result(0.3))  # both end after the last step
    metrics.evaluation(3, evaluation_result(0.4))
    metrics.close()
    metrics.close()  # harmless
    records = read_metrics(chain.run.folder)
    assert [
        [record.get(key) for key in ("step", "eval_version", "eval_pass_rate")] for record in records
    ] == [[1, 0, 0.2], [2, None, None], [3, 3, 0.4]]
    assert [result["version"] for result in records[2]["evaluations"]] == [2, 3]


def test_what_a_kill_took_from_the_record_is_written_when_the_step_is_trained_again(chain: Chain) -> None:
    metrics = Metrics(chain.run)
    metrics.step(made_up_step(1))
    metrics.step(made_up_step(2))  # kept back for its evaluation, and gone with the process
    metrics._pending = None
    metrics.close()
    with (chain.run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "rew')  # torn by a power cut
    groups = [make_scored(make_prompt("0"), [1.0, 0.0])]
    batch = pack(groups, [[0.5, -0.5]], tokens_per_micro_batch=64, truncated="mask", policy_version=1)
    again = Metrics(chain.run)
    again.recall({0: evaluation_result(0.2)})
    for step in (0, 1):
        again.replayed({"step": step, "at": 7.0}, groups, batch, {"loss": 0.5, "tokens": 4.0, "seconds": 0.1})
    again.step(made_up_step(3))
    again.close()
    first, second, third = read_metrics(chain.run.folder)
    assert (first["step"], second["step"], third["step"]) == (1, 2, 3)
    keys = ("is_replayed", "reward_mean", "tokens", "loss", "eval_version", "eval_pass_rate")
    assert [second[key] for key in keys] == [True, 0.5, 4, 0.5, 0, 0.2]
    assert draw(chain.run.folder)


def test_a_round_that_ends_after_its_steps_line_is_found_with_that_step(chain: Chain) -> None:
    folder = chain.run.folder
    metrics = Metrics(chain.run)
    metrics.evaluation(0, evaluation_result(0.2))
    metrics.close()  # before the first step there is no line to be with
    assert read_metrics(folder) == []
    metrics = Metrics(chain.run)
    metrics.recall({0: evaluation_result(0.2)})
    metrics.step(made_up_step(1))
    metrics.flush()  # a checkpoint
    assert [record["eval_version"] for record in read_metrics(folder)] == [0]
    metrics.evaluation(1, evaluation_result(None))
    metrics.close()
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2
    (first,) = read_metrics(folder)
    rates = {result["version"]: result["pass_rate"] for result in first["evaluations"]}
    assert rates == {0: 0.2, 1: None}
    assert first["reward_mean"] == made_up_step(1)["reward_mean"]
    assert (first["eval_version"], first["eval_pass_rate"], first["eval_samples"]) == (1, None, 256)
    again = Metrics(chain.run)  # no step follows what the ledger has, either
    again.recall({version: evaluation_result(0.2) for version in (0, 1, 2)})
    again.close()
    assert [result["version"] for result in read_metrics(folder)[0]["evaluations"]] == [0, 1, 2]


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("steps", [80, 1])
def test_the_picture_is_drawn(chain: Chain, steps: int) -> None:
    metrics = Metrics(chain.run)
    for step in range(1, steps + 1):
        metrics.step(made_up_step(step))
        if step % 10 == 0:
            metrics.evaluation(step, evaluation_result(0.2 + 0.7 * step / 80))
    metrics.evaluation(steps + 1, evaluation_result(None))  # nothing could be scored
    metrics.close()
    assert draw(chain.run.folder.parent) is None, "without a step there is none"
    path = draw(chain.run.folder)
    assert path == chain.run.folder / "curves.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 20_000


def test_a_sample_of_an_episode_has_its_conversation_and_one_of_one_turn_none(chain: Chain) -> None:
    metrics = Metrics(chain.run)
    for index in (0, 1):
        metrics.sample(4, episodes("0"), index)
    metrics.close()
    lines = (chain.run.folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    episode, answer = map(json.loads, lines)
    assert episode["messages"] == list(MESSAGES)
    assert (episode["answer"], episode["turns"], episode["ended_by"]) == ("<b>5</b>", 3, "environment")
    assert episode["environment_reward"] == {
        "value": 7.5,
        "low": 0.0,
        "high": 10.0,
        "turns": [None, -0.5, 8.0],
    }
    assert list(answer) == [
        "step", "group", "prompt", "answer", "finish_reason", "versions", "reward", "score", "status", "reason", "components",
    ]  # fmt: skip
