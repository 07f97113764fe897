"""Assemble and run one incarnation of a collector, and record a reason however it ends.

In: a resolved run, and which rows to sample. Out: an exit code, `status.json`, and every row's completions and scores
in the journal. Runs in the learner's place, with the learner's protocol: generators and scorers see no difference. A
restarted run continues: rows in the journal are not sampled again, and groups in Redis are read again.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from broker.connection import RedisLink
from broker.errors import PipelineError, RunFailed
from broker.monitoring.heartbeat import Heartbeat
from config.loading import to_yaml
from config.run import Run
from learner.assembly import Claimed, Listeners, assemble, make_intake
from learner.base_model.own_head import settled
from learner.collect.admission import EveryGroup
from learner.collect.loop import CollectingLoop
from learner.collect.model_weights import ModelWeights, find_weights
from learner.collect.rows import Rows, open_row, open_rows
from learner.collect.settings import Of, collecting, of_rows, told_changes
from learner.data.prompts import load_tokenizer
from learner.groups.arrival_statistics import ArrivalCounter
from learner.incarnation import Incarnation
from learner.journal.disk import replace_text
from learner.journal.writer import Journal
from learner.policy_version import PolicyVersion
from learner.resume.history import COLLECTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)

OTHERS = ("generator", "agent", "dispatcher", "scorer")  # the roles that read the run's status
OTHERS_S = 10.0
POLL_S = 0.1


class CollectingSession(Incarnation):
    """Sample every row of a run's sets once.

    Args:
        run: as for training.
        of: which rows.
        row: the one row of `data.train` to sample; None: every row.
    """

    purpose = COLLECTS

    def __init__(self, run: Run, link: RedisLink, of: Of, row: int | None = None) -> None:
        super().__init__(collecting(run), link)
        self._of, self._row = of, row
        self._running: tuple[CollectingLoop, Journal] | None = None

    def collect(self, stop: threading.Event) -> int:
        """Collect until every row has an outcome, a signal or an error. Returns the exit code."""
        code = self._carry_out(lambda heartbeat: self._collect(stop, heartbeat), stop, end=self._free)
        if self.run.broker.url is None:
            self._let_the_others_end(stop)
        return code

    def _let_the_others_end(self, stop: threading.Event) -> None:
        """Wait for processes that have yet to read that the run has ended: the private Redis ends with this one."""
        deadline = time.monotonic() + OTHERS_S
        try:
            while others := [name for role in OTHERS for name in self.run_owner.processes(role)]:
                if time.monotonic() > deadline or stop.wait(POLL_S):
                    log.info("ending before %s: they are there after %.0f s", ", ".join(others), OTHERS_S)
                    return
        except PipelineError as error:
            log.warning("ending at once reason=%s", error)

    def _collect(self, stop: threading.Event, heartbeat: Heartbeat) -> None:
        heartbeat.set_state("reading the data")
        weights = find_weights(self.run.model)
        tokenizer = self._tokenizer()
        rows = (
            open_rows(self.run, self._of, tokenizer)
            if self._row is None
            else open_row(self.run, self._row, tokenizer)
        )
        log.info("data rows=%d sets=%d fingerprint=%s", len(rows), len(rows.sets), rows.fingerprint)
        self.run = of_rows(self.run, len(rows))
        self.status.run = settled(self.run)  # for the generators
        journal = self._journal = self._begin(rows)
        loop = self._assemble(journal, rows, weights, stop, heartbeat)
        self._running = loop, journal
        loop.publisher.start()
        self._end(loop.collect())

    def _tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self.run)

    def _changes(self, before: str) -> list[str]:
        return told_changes(before, self.run)

    def _begin(self, rows: Rows) -> Journal:
        """Claim the run and open the journal, whose first record names the collected sets."""
        first = self.history.first_incarnation
        if self.history.has_begun and first["fingerprint"] != rows.fingerprint:
            raise RunFailed(
                f"the rows of run {self.run.name} are not those it began with, or are sampled otherwise (fingerprint "
                f"{rows.fingerprint}, then {first['fingerprint']}). Set them back, or begin under another name: "
                f"name=..., or remove it: millrace rm {self.run.name}"
            )
        journal = self._claim(
            {
                "config": to_yaml(self.run),
                "fingerprint": rows.fingerprint,
                "first_row": 0,
                "start": None,
                "purpose": COLLECTS,
                "of": self._of,
                "sets": rows.facts(),
            }
        )
        replace_text(self.run.folder / "config.yaml", to_yaml(self.run))
        return journal

    def _assemble(
        self, journal: Journal, rows: Rows, weights: ModelWeights, stop: threading.Event, beat: Heartbeat
    ) -> CollectingLoop:
        claimed = Claimed(
            run=self.run,
            run_owner=self.run_owner,
            journal=journal,
            version=PolicyVersion(),
            stop=stop,
            beat=beat,
        )
        listeners = Listeners(
            publish_status=self.status.begin, tell_lost=self.status.tell_lost, tell_wanted=self._tell_wanted
        )
        intake = make_intake(claimed, None, EveryGroup(), ArrivalCounter())
        parts = assemble(claimed, rows, intake, weights, listeners, away_s=self.status.away_s)
        return CollectingLoop(parts, rows=len(rows), set_state=beat.set_state, count=self.status.count_rows)

    def _free(self) -> None:
        if self._running is not None:
            loop, journal = self._running
            loop.feeder.stop()
            loop.publisher.close()
            journal.close()
