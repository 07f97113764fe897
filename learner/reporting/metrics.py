"""What people see of a run: one line a step, sample answers, and the files they are kept in.

In: what each step trained on and how long its parts took. Out: `metrics.jsonl` (one object a step; read by
`learner.reporting.metrics_file`), `samples.jsonl`, and a console line for each. Runs in rank 0. What a kill takes from
the file the next life writes: steps as they are trained again, rounds from the ledger.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from broker.messages import FinishReason, ScoredGroup
from config.run import Run
from learner.reporting.alarms import Alarms
from learner.reporting.metrics_file import add_rounds, read_metrics
from learner.training.batch import Batch

log = logging.getLogger(__name__)


class Clock:
    """Where one step's time went, by name, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        """Count the time since the last lap as `name`."""
        now = time.monotonic()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now

    def take(self) -> dict[str, float]:
        """The laps so far; the next step begins with none."""
        taken, self.seconds = self.seconds, {}
        return taken


class Metrics:
    """Writes the run's own record.

    The newest step's object is kept back until the next one or a checkpoint, so that an evaluation which ends in
    between, as that of the final weights does, is part of it. One that ends later goes with the next step, and has a
    line of its own where none follows.
    """

    def __init__(self, run: Run, advise: Callable[[str], None] = lambda _: None) -> None:
        """Open the files.

        Args:
            run: whose folder they are in.
            advise: told what an operator might change.
        """
        self._run = run
        self._advise = advise
        run.folder.mkdir(parents=True, exist_ok=True)
        self._metrics, self._samples = (
            _open(run.folder / name) for name in ("metrics.jsonl", "samples.jsonl")
        )
        self._last_step = max((line["step"] for line in read_metrics(run.folder)), default=0)
        self._pending: dict[str, Any] | None = None
        self._evaluations: list[dict[str, Any]] = []
        self._alarms = Alarms(run)

    def step(self, record: dict[str, Any]) -> None:
        """One step is done; `record` has at least the keys of the console line."""
        self.flush()
        self._pending = record
        self._attach_evaluations()
        log.info(
            "step %d/%d reward=%.3f lag=%.2f/%d groups=%d dropped=%d tokens=%d entropy=%.2f took_s=%.2f "
            "(wait %.2f, train %.2f)",
            record["step"],
            self._run.learner.steps,
            record["reward_mean"],
            record["lag_mean"],
            record["lag_max"],
            record["groups"],
            record["dropped"],
            record["tokens"],
            record.get("entropy", 0.0),
            record["seconds"],
            record["seconds_wait"],
            record["seconds_train"],
        )
        for alarm in self._alarms.of(record):
            log.warning("%s", alarm)
            self._advise(alarm)

    def replayed(
        self,
        record: Mapping[str, Any],
        groups: Sequence[ScoredGroup],
        batch: Batch,
        stepped: Mapping[str, float],
    ) -> None:
        """A step of the life before was trained again; it has a line already, unless that life was killed first."""
        step = record["step"] + 1
        if step <= self._last_step:
            return
        trained = reward_mean(groups)
        self.flush()
        self._pending = {
            "step": step,
            "reward_mean": trained,
            "reward_mean_trained": trained,
            **batch_facts(groups, batch),
            **stepped,
            "tokens": int(stepped["tokens"]),
            "dropped": 0,
            "dropped_by_reason": {},
            "is_replayed": True,
            "at": record["at"],
            "seconds_train": stepped["seconds"],
        }
        self._attach_evaluations()

    def recall(self, rounds: Mapping[int, Mapping[str, Any]]) -> None:
        """Rounds that the ledger has: those that no line has go with the next one, be it a line of their own."""
        lines = read_metrics(self._run.folder)
        known = {result["version"] for line in lines for result in line.get("evaluations", ())}
        self._evaluations += [
            _line_of(version, result) for version, result in sorted(rounds.items()) if version not in known
        ]

    def evaluation(self, version: int, result: dict[str, Any]) -> None:
        """A held-out round is done."""
        rate = result["pass_rate"]
        log.info(
            "evaluation version=%d pass_rate=%s prompts=%d samples=%d unscorable=%d missing=%d",
            version,
            "none" if rate is None else f"{rate:.3f}",
            result["prompts"],
            result["samples"],
            result["unscorable"],
            result["missing"] + result["dead"],
        )
        self._evaluations.append(_line_of(version, result))
        self._attach_evaluations()

    def sample(self, step: int, group: ScoredGroup) -> None:
        """Keep and show one answer of a group with its score."""
        prompt, completion, score = group.rollout.prompt, group.rollout.completions[0], group.scores[0]
        record = {
            "step": step,
            "group": group.group_id,
            "prompt": [dict(turn) for turn in prompt.messages],
            "answer": completion.text,
            "finish_reason": str(completion.finish_reason),
            "versions": [group.rollout.min_version, group.rollout.max_version],
            "reward": group.rewards[0],
            "score": score.value,
            "status": str(score.status),
            "reason": score.reason,
        }
        self._samples.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._samples.flush()
        log.info(
            "sample group=%s question=%r answer=%r reward=%s reason=%s",
            group.group_id,
            prompt.messages[-1]["content"][-200:],
            completion.text[-200:],
            group.rewards[0],
            score.reason,
        )

    def flush(self) -> None:
        """Write the step that is kept back. Before a checkpoint of it: a step behind one is never trained again."""
        if self._pending is not None:
            self._write(self._pending)
            self._last_step = self._pending["step"]
            self._pending = None

    def close(self) -> None:
        """Write what is kept back, and close the files."""
        self.flush()
        if self._evaluations and self._last_step:  # before the first step, they go with it in the next life
            late: dict[str, Any] = {"step": self._last_step}
            add_rounds(late, self._evaluations)
            self._write(late)
            self._evaluations.clear()
        self._metrics.close()
        self._samples.close()

    def _attach_evaluations(self) -> None:
        """Rounds that have ended go with the step that is kept back."""
        if self._pending is not None and self._evaluations:
            add_rounds(self._pending, self._evaluations)
            self._evaluations.clear()

    def _write(self, record: Mapping[str, Any]) -> None:
        self._metrics.write(json.dumps(record) + "\n")
        self._metrics.flush()


def _line_of(version: int, result: Mapping[str, Any]) -> dict[str, Any]:
    """What a line says of a round; of one that was lost, why it has no pass rate."""
    return {
        "version": version,
        **{key: result[key] for key in ("pass_rate", "samples", "reason") if key in result},
    }


def _open(file: Path) -> TextIO:
    """To go on behind the last line, which a power cut may have torn."""
    is_torn = file.exists() and not file.read_bytes().endswith(b"\n") and file.stat().st_size > 0
    stream = file.open("a", encoding="utf-8")
    if is_torn:
        stream.write("\n")
    return stream


def reward_mean(groups: Sequence[ScoredGroup]) -> float:
    """Mean reward of all completions that have one."""
    rewards = [reward for group in groups for reward in group.rewards if reward is not None]
    return sum(rewards) / len(rewards) if rewards else 0.0


def batch_facts(groups: Sequence[ScoredGroup], batch: Batch) -> dict[str, Any]:
    """What a batch says of the groups in it: lag in versions, lengths in tokens."""
    lengths = [len(completion.token_ids) for group in groups for completion in group.rollout.completions]
    lags = batch.lags[batch.loss_mask]
    cut = [
        completion.finish_reason is FinishReason.LENGTH
        for group in groups
        for completion in group.rollout.completions
    ]
    return {
        "groups": len(groups),
        "lag_mean": float(lags.mean()) if len(lags) else 0.0,
        "lag_max": int(lags.max()) if len(lags) else 0,
        "response_tokens_mean": sum(lengths) / len(lengths),
        "response_tokens_max": max(lengths),
        "truncated_share": sum(cut) / len(cut),
    }
