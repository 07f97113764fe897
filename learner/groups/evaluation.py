"""Run the held-out rounds: request them at a version, fill them as groups return, record them when complete.

In: scored groups of the split `eval`. Out: one result per round, which the journal records: that is the groups'
outcome. Training never waits for a round, except for version 0 (unless `evaluation.first_round` is `behind`) and the
final weights. A round is issued in pieces, `evaluation.groups_in_flight` at once, so that training prompts do not queue
behind all of it.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean, stdev
from typing import Any

from broker.codec import encode_prompt
from broker.keys import EPISODES, PROMPTS
from broker.messages import Prompt, ScoredGroup
from broker.protocol.run_owner import NewGroup, RunOwner
from config.loading import to_yaml
from config.run import Run
from config.yaml_text import EARLIER, read_yaml_text
from learner.data.held_out import HeldOut
from learner.journal.ledger import Ledger
from learner.journal.writer import Journal

log = logging.getLogger(__name__)

_EVALUATION = re.compile(r"eval-([0-9]+)-([0-9]+)")


def new_group(run: Run, prompt: Prompt) -> NewGroup:
    """Return a group to issue: to the generators, or to the agents where its task has an environment."""
    return NewGroup(prompt.group_id, encode_prompt(prompt), EPISODES if run.plays(prompt.task) else PROMPTS)


@dataclass(slots=True)
class Round:
    """An open round: which of its groups have returned, and the deadline for the others."""

    version: int
    missing: set[str]  # ids that have not returned
    since: float  # monotonic seconds; reset when part of the round is issued
    groups: dict[str, ScoredGroup] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    asked_again: bool = False
    is_given_up: bool = False  # the missing groups are no longer awaited
    lost: str = ""  # why the round can no longer be sampled; "": it can

    @property
    def ids(self) -> list[str]:
        """The ids of all groups of the round."""
        return [*self.groups, *self.dead, *self.missing]

    @property
    def has_ended(self) -> bool:
        """Return whether no more groups of the round will come."""
        return self.is_given_up or bool(self.lost) or not self.missing

    def excuse(self, seconds: float) -> None:
        """Extend the deadline by `seconds` in which no process could work."""
        self.since = min(self.since + seconds, time.monotonic())

    def extend(self) -> None:
        """Restart the round's whole time, since its missing groups are requested again."""
        self.asked_again = True
        self.since = time.monotonic()

    def give_up(self) -> None:
        """Stop waiting for missing groups."""
        self.is_given_up = True

    def lose(self, reason: str) -> None:
        """End the round: it can no longer be sampled."""
        self.lost = reason

    def begin_again(self) -> None:
        """Restart the round with no groups returned: its entries are read again, in its whole time."""
        self.missing = set(self.ids)
        self.groups, self.dead = {}, []
        self.asked_again = self.is_given_up = False
        self.since = time.monotonic()


class Rounds:
    """The open rounds, by version."""

    def __init__(self) -> None:
        self.open: dict[int, Round] = {}

    def begin(self, version: int, ids: Sequence[str]) -> None:
        """Open a requested round."""
        if ids and version not in self.open:
            self.open[version] = Round(version, set(ids), time.monotonic())

    def excuse(self, seconds: float) -> None:
        """Extend every deadline by `seconds` in which no process could work."""
        for current in self.open.values():
            current.excuse(seconds)

    def lose(self, version: int, ids: Sequence[str], reason: str) -> None:
        """End a requested round whose own weights are no longer available to sample it."""
        self.begin(version, ids)
        if version in self.open:
            self.open[version].lose(reason)

    def missing(self) -> int:
        """Return how many groups of the open rounds have not returned, issued or not."""
        return sum(len(current.missing) for current in list(self.open.values()) if not current.has_ended)

    def lacks(self, group_id: str) -> bool:
        """Return whether this group belongs to an open round and has not returned."""
        current = self.open.get(version_of(group_id))
        return current is not None and group_id in current.missing

    def restart_clock(self, version: int) -> None:
        """Restart the deadline of an open round: part of it has just been issued."""
        if version in self.open:
            self.open[version].since = time.monotonic()

    def wants(self, version: int) -> bool:
        """Return whether groups of this round are awaited."""
        current = self.open.get(version)
        return current is not None and not current.has_ended

    def add(self, group_id: str, group: ScoredGroup | None) -> bool:
        """Add a returned group, or one that died (None). False: the group belongs to no open round."""
        version = version_of(group_id)
        current = self.open.get(version)
        if current is None or group_id not in current.missing:
            return False
        current.missing.discard(group_id)
        if group is None:
            current.dead.append(group_id)
        else:
            current.groups[group_id] = group
        return True

    def ended(self) -> list[Round]:
        """Return the rounds that will get no more groups."""
        return [current for current in self.open.values() if current.has_ended]

    def close(self, version: int) -> None:
        """Remove a round that the journal has recorded."""
        self.open.pop(version, None)


class Evaluation:
    """The held-out rounds of a run: which are due, which are open and until when, and which are recorded.

    Args:
        held_out: the prompts of a round; None: the run has no evaluation.
    """

    def __init__(self, run: Run, run_owner: RunOwner, journal: Journal, held_out: HeldOut | None) -> None:
        self.rounds = Rounds()
        self._run = run
        self._run_owner = run_owner
        self._journal = journal
        self._held_out = held_out
        self._unissued: dict[int, list[str]] = {}  # ids by version: the first version's are issued next
        self._lock = threading.Lock()  # for state that both the loop and the feeder's thread change

    # ------------------------------------------------------------------------------------------------ for the feeder

    def ids(self, version: int) -> list[str]:
        """Return the ids of the round for `version`; an empty list where the run has no evaluation."""
        if self._held_out is None:
            return []
        return [f"eval-{version}-{index}" for index in self._held_out.indices(version)]

    def next_entries(self, most: int) -> tuple[int, list[NewGroup]] | None:
        """Return a version and the next groups of its round, at most `most`; None: there are none, or no room for one.

        There is room for `evaluation.groups_in_flight` held-out groups at once. Rounds that have ended meanwhile are
        skipped.
        """
        if self._held_out is None:
            return None
        with self._lock:
            for version in [version for version in self._unissued if not self.rounds.wants(version)]:
                del self._unissued[version]
            in_flight = self.rounds.missing() - sum(map(len, self._unissued.values()))
            room = min(most, self._run.held_out_budget - in_flight)
            version, ids = next(iter(self._unissued.items()), (0, []))
            ids = ids[: max(0, room)]
        groups = [
            new_group(self._run, self._held_out.prompt(group_id, index_of(group_id))) for group_id in ids
        ]
        return (version, groups) if groups else None

    def note_issued(self, version: int, ids: Sequence[str]) -> None:
        """Note that these groups are in Redis. The round gets its whole time for them."""
        with self._lock:
            left = [group_id for group_id in self._unissued.get(version, []) if group_id not in set(ids)]
            if left:
                self._unissued[version] = left
            else:
                self._unissued.pop(version, None)
        self.rounds.restart_clock(version)

    @property
    def requests(self) -> tuple[int, ...]:
        """Versions whose rounds the feeder has not fully issued."""
        return tuple(self._unissued)

    # ------------------------------------------------------------------------------------------- for the learner's loop

    def is_due(self, version: int) -> bool:
        """Return whether a round of `version` belongs to the run."""
        return self._held_out is not None and self._held_out.is_due(version)

    @property
    def has_rounds(self) -> bool:
        """Whether the run has held-out sets, and so a round of its last weights."""
        return self._held_out is not None and self._held_out.has_rounds

    def is_recorded(self, version: int) -> bool:
        """Return whether the journal has the round of `version`."""
        return version in self._journal.ledger.evaluations

    def request(self, version: int) -> None:
        """Open the round of `version` and let the feeder issue the groups missing in Redis."""
        ids = self.ids(version)
        self.rounds.begin(version, ids)
        with self._lock:
            self._unissued[version] = [group_id for group_id in ids if self.rounds.lacks(group_id)]

    def enforce_deadlines(self) -> None:
        """Request a round once more after its deadline, with a new deadline; give it up after the next one."""
        for current in self.rounds.open.values():
            self.enforce_deadline(current)

    def enforce_deadline(self, current: Round) -> None:
        """Apply `enforce_deadlines` to one round."""
        deadline_s = self._run.evaluation.deadline_s
        if current.has_ended or time.monotonic() - current.since <= deadline_s:
            return
        if current.asked_again:
            current.give_up()
            return
        log.warning(
            "evaluation_late version=%d missing=%d deadline_s=%.0f",
            current.version,
            len(current.missing),
            deadline_s,
        )
        current.extend()
        self.request(current.version)

    def give_up(self) -> None:
        """End every open round with the groups that have returned."""
        for current in self.rounds.open.values():
            current.give_up()

    def record_ended(self, report: Callable[[int, dict[str, Any], Sequence[ScoredGroup]], None]) -> None:
        """Record the rounds that have ended, then retire their groups: the record is the groups' outcome.

        Args:
            report: receives the version, the result and the groups of each recorded round.
        """
        for current in self.rounds.ended():
            if not self.is_recorded(current.version):
                result = result_of(current, self._set_name)
                if current.missing:
                    log.error(
                        "evaluation_incomplete version=%d missing=%d", current.version, len(current.missing)
                    )
                groups = list(current.groups.values())
                self._journal.evaluation(current.version, result, groups)
                report(current.version, result, groups)
            self._run_owner.retire(current.ids)
            self.rounds.close(current.version)

    def _set_name(self, group_id: str) -> str:
        return "" if self._held_out is None else self._held_out.set_name(index_of(group_id))

    # -------------------------------------------------------------------------------------------------- for recovery

    def reset(self) -> None:
        """Restart every open round, since Redis went back; close recorded rounds."""
        for current in list(self.rounds.open.values()):
            if self.is_recorded(current.version):
                self.rounds.close(current.version)
            else:
                current.begin_again()

    def is_over(self, group_id: str) -> bool:
        """Return whether an evaluation group's round is recorded, or no longer part of the run."""
        version = version_of(group_id)
        return self.is_recorded(version) or group_id not in self.ids(version)

    def reopen(self, in_redis: set[int], current: int) -> None:
        """Request again the missing groups of each round that was requested and not recorded.

        A round of an older version without groups in Redis is lost: only later weights could sample it.

        Args:
            in_redis: versions with a held-out group in Redis.
            current: the learner's policy version.
        """
        ledger = self._journal.ledger
        wanted = in_redis | self.rounds.open.keys() | asked_for(ledger, self._run)
        for version in sorted(wanted - ledger.evaluations.keys()):
            ids = self.ids(version)
            if ids and version not in in_redis and version < current:
                reason = (
                    f"Redis had nothing of this round when the learner recovered, and the weights of version "
                    f"{current} are not those of version {version}"
                )
                log.warning("evaluation_lost version=%d reason=%s", version, reason)
                self.rounds.lose(version, ids, reason)
            else:
                self.request(version)


def asked_for(ledger: Ledger, run: Run) -> set[int]:
    """Return the versions whose round was requested: each is requested before the step from its version trains.

    Args:
        run: the current one; used for an incarnation whose configuration was not recorded.
    """
    configs = {incarnation["fence"]: incarnation.get("config") for incarnation in ledger.incarnations}
    periods = {fence: _periods(config or to_yaml(run)) for fence, config in configs.items()}
    return {
        record["step"]
        for record in ledger.steps
        if any(record["step"] % every == 0 for every in periods[record["fence"]])
    }


@lru_cache(maxsize=8)
def _periods(config: str) -> frozenset[int]:
    """Return the periods of an incarnation's held-out sets, from its configuration in YAML."""
    tree = read_yaml_text(config, EARLIER)
    of_all = int(tree["evaluation"]["every"])
    held_out = tree.get("data", {}).get("held_out")
    sets = held_out if isinstance(held_out, list) else [{}]
    return frozenset(filter(None, (of_all if each.get("every") is None else each["every"] for each in sets)))


def version_of(group_id: str) -> int:
    """Return the version of an id such as `eval-40-7`; -1 for any other id."""
    found = _EVALUATION.fullmatch(group_id)
    return int(found[1]) if found else -1


def index_of(group_id: str) -> int:
    """Return the prompt number in an evaluation group's id, 7 of `eval-40-7`; -1 for any other id."""
    found = _EVALUATION.fullmatch(group_id)
    return int(found[2]) if found else -1


def result_of(current: Round, set_name: Callable[[str], str] = lambda _: "") -> dict[str, Any]:
    """Return the recorded facts of a round.

    `pass_rate` is the share of scored samples with the full score; None for no samples. `sets` has the same for each
    named set. `reason` is set only for a lost round.

    Args:
        current: the round.
        set_name: returns the name of the held-out set of a group's id; "": the set has none.
    """
    sets: dict[str, list[ScoredGroup]] = {}
    for group_id, group in current.groups.items():
        if name := set_name(group_id):
            sets.setdefault(name, []).append(group)
    versions = [
        version
        for group in current.groups.values()
        for version in (group.rollout.min_version, group.rollout.max_version)
    ]
    return {
        "ids": sorted(current.ids),
        **_rates(list(current.groups.values())),
        "dead": len(current.dead),
        "missing": len(current.missing),
        "min_version": min(versions, default=current.version),
        "max_version": max(versions, default=current.version),
        **({"sets": {name: _rates(groups) for name, groups in sorted(sets.items())}} if sets else {}),
        **({"reason": current.lost} if current.lost else {}),
    }


def _rates(groups: Sequence[ScoredGroup]) -> dict[str, Any]:
    """Return the number of prompts and samples in these groups, and their scores."""
    values = [score.value for group in groups for score in group.scores]
    scored = [value for value in values if value is not None]
    means = [
        fmean(found)
        for group in groups
        if (found := [score.value for score in group.scores if score.value is not None])
    ]
    return {
        "prompts": len(groups),
        "samples": len(values),
        "unscorable": len(values) - len(scored),
        "pass_rate": sum(value >= 1.0 for value in scored) / len(scored) if scored else None,
        "mean_score": sum(scored) / len(scored) if scored else None,
        "score_error": stdev(means) / math.sqrt(len(means)) if len(means) > 1 else None,
    }
