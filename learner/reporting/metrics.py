"""Report the run: a record and a console line for each step, sample answers, alarms.

In: the groups and batch of each step and the time of its parts. Out: a record for each step and each sample, to the
configured loggers, answers to the files of `learner.dumps`, and a console line. Runs in rank 0. What the metrics file
loses to a kill, the learner's next incarnation writes: steps when they are replayed, evaluation rounds from the ledger.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.messages import ScoredGroup
from config.run import Run
from learner.groups.facts.episodes import as_tree
from learner.journal.records import step_number
from learner.reporting.alarms import Alarms
from learner.reporting.build import build_loggers
from learner.reporting.dumps.writer import Dumps
from learner.reporting.generators import merged
from learner.reporting.group_facts import batch_facts, reward_mean
from learner.reporting.hacking import HackingAlarm
from learner.reporting.metrics_file import add_rounds, read_metrics
from learner.training.batch import Batch
from tasks.turns import asked

log = logging.getLogger(__name__)

# The fields of a round's result in the console line.
_OF_ROUND = ("pass_rate", "mean_score", "score_error", "samples", "min_version", "max_version", "reason")
SUSPECTS = 2  # answers shown with an alarm of reward hacking


class Clock:
    """Measure the time of a step's parts, by name, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        """Add the time since the last lap to `name`."""
        now = time.monotonic()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now

    def take(self) -> dict[str, float]:
        """Return the laps so far, and reset them for the next step."""
        taken, self.seconds = self.seconds, {}
        return taken


class Metrics:
    """Make the records of steps and samples, and give them to the loggers.

    The newest step's record is held until the next step or a checkpoint. So an evaluation round that ends in between,
    as the round of the final weights does, is part of it. A round that ends later goes with the next step, or has its
    own record where no step follows.
    """

    def __init__(
        self,
        run: Run,
        advise: Callable[[str], None] = lambda _: None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """Build the loggers.

        Args:
            run: the run whose steps these are.
            advise: receives advice for the operator.
            pause: called where `learner.hacking.action` asks for a pause.
        """
        self._run = run
        self._advise = advise
        self._pause = pause
        self._newest_groups: Sequence[ScoredGroup] = ()
        self._loggers = build_loggers(run)
        self._dumps = Dumps(run)
        lines = read_metrics(run.folder)
        self._last_step = max((line["step"] for line in lines), default=0)
        self._pending: dict[str, Any] | None = None
        self._evaluations: list[dict[str, Any]] = []
        self._alarms = Alarms(run)
        self._alarms.recall(lines)

    def step(self, record: dict[str, Any], groups: Sequence[ScoredGroup] = ()) -> None:
        """Take the record of a finished step, with at least the keys of the console line, and its groups."""
        self._write_pending()
        self._dumps.step(record["step"], groups)
        self._newest_groups = groups
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
        for text in self._alarms.of(record):
            self._alarm(text)
        self._warn_of_hacking(self._alarms.of_rewards(record))

    def _alarm(self, text: str) -> None:
        log.warning("%s", text)
        self._advise(text)
        if self._pending is not None:
            self._pending.setdefault("alarms", []).append(text)

    def _warn_of_hacking(self, alarms: Sequence[HackingAlarm]) -> None:
        """Log the alarms, show answers that are rewarded nevertheless, and pause the run where configured."""
        for alarm in alarms:
            self._alarm(
                f"reward_hacking kind={alarm.kind!r}: {alarm.text}. The policy may have found what the scorer "
                "overlooks: read samples.jsonl"
            )
            for group, index in paid_most(self._newest_groups, alarm.component):
                self.sample(self._pending["step"] if self._pending else self._last_step, group, index)
        if alarms and self._run.learner.hacking.action == "pause":
            log.warning("pausing run=%s: to go on: millrace resume %s", self._run.name, self._run.name)
            self._pause()

    def replayed(
        self,
        record: Mapping[str, Any],
        groups: Sequence[ScoredGroup],
        batch: Batch,
        stepped: Mapping[str, Any],
    ) -> None:
        """Take a replayed step; the metrics file already has it, unless a kill came first."""
        step = step_number(record)
        self._dumps.step(step, groups, is_replayed=True)
        if step <= self._last_step:
            return
        trained = reward_mean(groups)
        self._write_pending()
        self._pending = {
            "step": step,
            "reward_mean": trained,
            "reward_mean_trained": trained,
            **merged(batch_facts(groups, batch), stepped),
            "tokens": int(stepped["tokens"]),
            "dropped": 0,
            "dropped_by_reason": {},
            "dropped_by_source": {},
            "is_replayed": True,
            "at": record["at"],
            "seconds_train": stepped["seconds"],
        }
        self._attach_evaluations()

    def recall(self, rounds: Mapping[int, Mapping[str, Any]]) -> None:
        """Take the ledger's evaluation rounds: those that the metrics file lacks go with the next record."""
        lines = read_metrics(self._run.folder)
        known = {result["version"] for line in lines for result in line.get("evaluations", ())}
        self._evaluations += [
            _line_of(version, result) for version, result in sorted(rounds.items()) if version not in known
        ]
        self._dumps.recall(rounds)

    def evaluation(self, version: int, result: dict[str, Any], groups: Sequence[ScoredGroup] = ()) -> None:
        """Take the result of an ended evaluation round, and its groups."""
        self._dumps.round(version, groups)
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
        self._warn_of_hacking(self._alarms.of_round(version, result))

    def sample(self, step: int, group: ScoredGroup, index: int = 0) -> None:
        """Log the answer `index` of a group with its score."""
        prompt, completion, score = (
            group.rollout.prompt,
            group.rollout.completions[index],
            group.scores[index],
        )
        record = {
            "step": step,
            "group": group.group_id,
            **({"data_source": prompt.data_source} if prompt.data_source else {}),
            **({"columns": dict(prompt.columns)} if prompt.columns else {}),
            "prompt": [dict(turn) for turn in prompt.messages],
            "answer": completion.text,
            **as_tree(completion),
            "finish_reason": str(completion.finish_reason),
            "versions": [group.rollout.min_version, group.rollout.max_version],
            "reward": group.rewards[index],
            "score": score.value,
            "status": str(score.status),
            "reason": score.reason,
            "components": dict(score.components),
        }
        for logger in self._loggers:
            logger.sample(record)
        log.info(
            "sample group=%s question=%r answer=%r reward=%s reason=%s",
            group.group_id,
            asked(prompt.messages)[-200:],
            completion.text[-200:],
            group.rewards[index],
            score.reason,
        )

    def flush(self) -> None:
        """Log and dump held records. Called before a checkpoint: a step before one is never replayed."""
        self._write_pending()
        self._dumps.settle()

    def _write_pending(self) -> None:
        """Log the held step."""
        if self._pending is not None:
            self._write(self._pending)
            self._last_step = self._pending["step"]
            self._pending = None

    def close(self) -> None:
        """Log held records, and close the loggers and the dumps."""
        self._dumps.close()
        if text := self._alarms.at_end():
            log.warning("%s", text)
        self._write_pending()
        if (
            self._evaluations and self._last_step
        ):  # before the first step, the rounds go with that step in the next incarnation
            late: dict[str, Any] = {"step": self._last_step}
            add_rounds(late, self._evaluations)
            self._write(late)
            self._evaluations.clear()
        for logger in self._loggers:
            logger.close()

    def _attach_evaluations(self) -> None:
        """Add ended rounds to the held record."""
        if self._pending is not None and self._evaluations:
            add_rounds(self._pending, self._evaluations)
            self._evaluations.clear()

    def _write(self, record: Mapping[str, Any]) -> None:
        for logger in self._loggers:
            logger.log(record)


def paid_most(
    groups: Sequence[ScoredGroup], component: str, most: int = SUSPECTS
) -> list[tuple[ScoredGroup, int]]:
    """Return the answers whose reward exceeds one part of their score most, as group and index.

    Args:
        groups: of one step.
        component: the part; where an answer lacks it, 0.
        most: answers to return, of different groups.
    """
    found = []
    for group in groups:
        gaps = [
            (reward - score.components.get(component, 0.0), index)
            for index, (reward, score) in enumerate(zip(group.rewards, group.scores, strict=True))
            if reward is not None
        ]
        if gaps:
            found.append((*max(gaps), group))
    found.sort(key=lambda item: -item[0])
    return [(group, index) for _, index, group in found[:most]]


def _line_of(version: int, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the console text of a round: its pass rate, or why a lost round has none."""
    return {"version": version, **{key: result[key] for key in _OF_ROUND if key in result}}
