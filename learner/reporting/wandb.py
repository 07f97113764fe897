"""Log to Weights & Biases, or to the run's folder for `wandb sync`.

In: the records of steps. Out: a wandb run with the run's name. A continued run continues it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.learner.reporting import WandbConfig
from config.loading import run_tree
from config.run import Run
from learner.reporting.scalars import with_newest_round
from tasks.turns import asked, conversation_text


class Wandb:
    """A `Logger` of curves and sample answers."""

    def __init__(self, run: Run, config: WandbConfig) -> None:
        """Start the wandb run, or continue it; online this contacts the server.

        Args:
            run: the resolved run; its configuration is logged, without secrets.
            config: project, entity and mode.
        """
        import wandb

        self._wandb: Any = wandb
        self._run: Any = wandb.init(
            project=config.project,
            entity=config.entity,
            mode=config.mode,
            tags=list(config.tags),
            name=run.name,
            id=run.name,
            resume="allow",
            dir=str(run.folder),
            settings=wandb.Settings(silent=True),  # the console is the run's own
            config=run_tree(run),
        )
        self._run.define_metric("evaluation/*", step_metric="evaluation_version")

    def log(self, record: Mapping[str, Any]) -> None:
        """Send each number of a step, and of the newest ended round."""
        self._run.log(with_newest_round(record), step=record["step"])

    def sample(self, record: Mapping[str, Any]) -> None:
        """Send a sample answer with its question."""
        columns = ["step", "group", "question", "answer", "reward", "reason"]
        question = asked(record["prompt"])
        answer = conversation_text(record["messages"]) if "messages" in record else record["answer"]
        row = [record["step"], record["group"], question, answer, record["reward"], record["reason"]]
        self._run.log({"sample": self._wandb.Table(columns=columns, data=[row])}, step=record["step"])

    def close(self) -> None:
        """Send remaining records."""
        self._run.finish()
