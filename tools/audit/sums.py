"""Compute the audit's sums from issued groups, streams and ledger.

In: a snapshot of Redis (`broker.protocol.ledger_view`), the ledger, and the cursor read after both. Out: an `Audit`.
Works on values alone. A group without an outcome is lost if it was issued and has no slot, or has a slot and no entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker import group_ids
from broker.keys import DEAD as DEAD_STREAM
from broker.protocol.ledger_view import Cursor, LedgerView
from config.explanations import ConfigError
from config.loading import from_yaml
from learner.groups.evaluation import asked_for, version_of
from learner.journal.ledger import ADVICE, COLLECTED, DEAD, DROPPED, TRAINED, GroupOutcome, Ledger
from learner.journal.records import step_number
from tools.audit.payloads import Payloads

NOBODY = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The counts of held-out groups, which hold no slot and are outside the sums."""

    issued: int
    recorded: int  # with their round, in the ledger; this includes
    dead: int  # those that could not be processed, and
    given_up: int  # those that had not returned when their round was recorded
    in_flight: int
    missing: int  # issued, not recorded, in no stream: the learner requests them again


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The result of one read, where the audit took several."""

    lost: int
    twice: int
    went_back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Every issued group, by its state. The sums leave evaluation and foreign entries out.

    issued + ahead = trained + dropped + dead + collected + in_flight + lost.
    """

    issued: int  # the feeder's count
    trained: int
    dropped: int
    dead: int
    in_flight: int  # groups without an outcome yet
    lost: int  # issued groups that are nowhere
    twice: int  # groups in two steps, with two outcomes, or in two entries of one stream
    ahead: int  # groups known to ledger or slots, and not to the cursor: Redis lost their issue
    dropped_by_reason: Mapping[str, int]
    dead_by_reason: Mapping[str, int]
    in_flight_by_stream: Mapping[str, int]
    tokens_by_reason: Mapping[str, int]  # sampled tokens that were discarded with their group
    lost_ids: tuple[str, ...]
    lost_how: Mapping[str, str]  # id -> where it should have been
    twice_ids: tuple[str, ...]
    retried: int  # retries of dead groups and of those that were over; included in `issued`
    asked_again: int  # groups whose requested or recorded retry is not issued yet
    evaluation: Evaluation
    foreign: int  # entries of no group, in `dead` and elsewhere
    went_back: bool  # Redis lost data or was restarted during the last read
    is_empty: bool  # Redis does not know the run: issued groups and groups in flight are unknown
    remarks: tuple[str, ...]  # for an operator, without being a loss
    problems: tuple[str, ...]  # damage of the ledger
    collected: int = 0  # groups of a run without training
    payloads: Payloads | None = None  # None: not read
    notes: tuple[Mapping[str, Any], ...] = ()  # operators' notes: purges
    looks: tuple[Look, ...] = ()  # all reads, if there were several
    leftovers: tuple[str, ...] = ()  # turns and calls in Redis of groups that are no longer played

    @property
    def is_settled(self) -> bool:
        """Return whether another read would add nothing."""
        return not (self.lost or self.twice or self.went_back or self.evaluation.missing or self.leftovers)

    @property
    def is_clean(self) -> bool:
        """Return whether nothing is lost or doubled and the journal is as written; False without a Redis."""
        return not (
            self.lost
            or self.twice
            or self.problems
            or self.leftovers
            or self.is_empty
            or (self.payloads and self.payloads.damaged)
        )


def compare(
    view: LedgerView, ledger: Ledger, after: Cursor, *, went_back: bool, is_finished: bool = False
) -> Audit:
    """Account for every group.

    Args:
        view: read before the ledger.
        after: the cursor, read after it: groups issued in between are left out.
        is_finished: the run was finished before the ledger was read.
    """
    issued = view.cursor.ids()
    outcomes = _known_by_then(ledger, issued, after)
    in_flight = view.slots - ledger.outcomes.keys()
    places = {group_id: streams[0] for group_id in in_flight if (streams := view.streams_of(group_id))}
    lost = {
        group_id: _how(view, group_id)
        for group_id in _in_order((issued | view.slots) - ledger.outcomes.keys() - places.keys())
    }
    doubled = _doubled(view, ledger)
    kinds = Counter(outcome.kind for outcome in outcomes.values())
    is_empty = not view.cursor.is_there and bool(ledger.outcomes)
    ahead = (outcomes.keys() | view.slots) - issued
    return Audit(
        issued=view.cursor.issued,
        trained=kinds[TRAINED],
        dropped=kinds[DROPPED],
        dead=kinds[DEAD],
        collected=kinds[COLLECTED],
        in_flight=len(places),
        lost=len(lost),
        twice=len(doubled),
        ahead=len(ahead),
        dropped_by_reason=_reasons(outcomes, DROPPED),
        dead_by_reason=_reasons(outcomes, DEAD),
        in_flight_by_stream=dict(Counter(places.values())),
        tokens_by_reason=_tokens(outcomes),
        lost_ids=tuple(lost),
        lost_how=lost,
        twice_ids=tuple(_in_order(doubled)),
        retried=sum(view.cursor.retries.values()),
        asked_again=_asked_again(view, ledger),
        evaluation=_evaluation(view, ledger),
        foreign=_foreign(view, after),
        went_back=went_back,
        is_empty=is_empty,
        leftovers=view.leftovers,
        problems=(*ledger.problems, *_gone(view, ledger, is_finished=is_finished)),
        remarks=tuple(
            _remarks(
                view,
                ledger,
                len(issued),
                ahead=_in_order(ahead),
                is_empty=is_empty,
                astray=_in_order(places.keys() - view.where.keys()),
            )
        ),
    )


def _known_by_then(ledger: Ledger, issued: set[str], after: Cursor) -> dict[str, GroupOutcome]:
    """Return the outcomes of groups issued before the view was read."""
    return {
        group_id: outcome
        for group_id, outcome in ledger.outcomes.items()
        if group_id in issued or not after.names(group_id)
    }


def _doubled(view: LedgerView, ledger: Ledger) -> set[str]:
    """Return the ids with two outcomes, or with two entries in one stream."""
    return set(ledger.twice) | {
        group_id
        for groups in view.entries.values()
        for group_id, count in groups.items()
        if count > 1 and group_id != NOBODY
    }


def _how(view: LedgerView, group_id: str) -> str:
    """Explain for people why a group is lost."""
    streams = view.streams_of(group_id)
    if group_id in view.slots:
        return f"it has a slot, and no entry in any stream (where: {view.where.get(group_id, 'nothing')})"
    if streams:
        return f"it has an entry in {streams[0]}, and neither a slot nor an outcome"
    return "it was issued, and has no slot, no entry and no outcome"


def _reasons(outcomes: Mapping[str, GroupOutcome], kind: str) -> dict[str, int]:
    """Count the outcomes of a kind by the kind of their reason."""
    return dict(
        Counter(outcome.detail.split(":")[0] for outcome in outcomes.values() if outcome.kind == kind)
    )


def _tokens(outcomes: Mapping[str, GroupOutcome]) -> dict[str, int]:
    """Count the sampled tokens of groups that never trained, by the kind of reason."""
    tokens: Counter[str] = Counter()
    for outcome in outcomes.values():
        if outcome.kind != TRAINED and outcome.tokens:
            tokens[outcome.detail.split(":")[0]] += outcome.tokens
    return dict(tokens)


def _asked_again(view: LedgerView, ledger: Ledger) -> int:
    """Count the groups with a retry that the learner has not issued: recorded, or requested by an operator."""
    noted = {base for base, number in ledger.retries.items() if number > view.cursor.retries.get(base, 0)}
    return len(noted | {str(group_ids.ordinal_of(group_id)) for group_id in view.requests})


def _evaluation(view: LedgerView, ledger: Ledger) -> Evaluation:
    recorded = {group_id for record in ledger.evaluations.values() for group_id in record.get("ids", ())}
    in_flight = {group_id for group_id in view.where if version_of(group_id) >= 0} - recorded
    found = sum(bool(view.streams_of(group_id)) for group_id in in_flight)
    rounds = ledger.evaluations.values()
    return Evaluation(
        issued=len(recorded | in_flight),
        recorded=len(recorded),
        in_flight=found,
        missing=len(in_flight) - found,
        dead=sum(record.get("dead", 0) for record in rounds),
        given_up=sum(record.get("missing", 0) for record in rounds),
    )


def _gone(view: LedgerView, ledger: Ledger, *, is_finished: bool) -> Iterator[str]:
    """Yield records that must be missing although their incarnation's later records leave no gap."""
    for base, number in view.cursor.retries.items():
        if number > (noted := ledger.retries.get(base, 0)):
            yield (
                f"retry {number} of group {base} was issued, and the ledger knows of {noted}: its record "
                f"is gone: {ADVICE}"
            )
    if is_finished:
        for version in _unrecorded(ledger, is_finished=True):
            yield f"the evaluation of version {version} was written down, and its record is gone: {ADVICE}"


def _unrecorded(ledger: Ledger, *, is_finished: bool) -> list[int]:
    """Return the versions whose evaluation was requested and is not in the ledger."""
    configs = {incarnation["fence"]: incarnation.get("config", "") for incarnation in ledger.incarnations}
    writers = {step["fence"] for step in ledger.steps}
    if not writers or not all(configs.values()) or not writers <= configs.keys():  # damaged
        return []
    try:
        newest, last = (
            from_yaml(configs[ledger.incarnations[-1]["fence"]]),
            from_yaml(configs[ledger.steps[-1]["fence"]]),
        )
    except ConfigError:  # written by another version of this program
        return []
    if not newest.data.held_out_sources:
        return []
    wanted = asked_for(ledger, newest)
    if is_finished and last.evaluation.every and newest.evaluation.every:
        wanted.add(step_number(ledger.steps[-1]))  # the last weights have one, whatever their version
    return sorted(wanted - ledger.evaluations.keys())


def _foreign(view: LedgerView, after: Cursor) -> int:
    """Count the entries that belong to no group of this run."""
    return sum(
        count
        for stream, groups in view.entries.items()
        for group_id, count in groups.items()
        if version_of(group_id) < 0
        and not after.names(group_id)
        and not (group_id in view.slots or (stream == DEAD_STREAM and group_ids.is_training(group_id)))
    )


def _remarks(
    view: LedgerView, ledger: Ledger, issued: int, *, ahead: list[str], astray: list[str], is_empty: bool
) -> Iterator[str]:
    if is_empty:
        newest = max(group_ids.ordinal_of(group_id) for group_id in ledger.outcomes)
        begun = [str(ordinal) for ordinal in range(newest) if str(ordinal) not in ledger.outcomes]
        before = f"{named(begun)} and " if begun else ""
        yield (
            f"Redis knows nothing of this run, and the ledger has {len(ledger.outcomes)} outcomes: it was emptied, "
            "or is another one. Nothing that has an outcome is lost. A learner that starts rebuilds cursor and "
            f"slots from the ledger, and issues again what had none: {before}what came after {newest}"
        )
    elif ahead:
        yield (
            f"the cursor does not name {named(ahead)}: Redis forgot its last writes. The learner passes over what "
            "has an outcome"
        )
    if not is_empty and view.cursor.issued != issued:
        yield f"the cursor counts {view.cursor.issued} groups, and names {issued}"
    known = {version_of(group_id) for group_id in view.where}
    if not is_empty and (
        rounds := [version for version in _unrecorded(ledger, is_finished=False) if version not in known]
    ):
        yield (
            f"neither the ledger nor Redis knows the evaluation of version {named(list(map(str, rounds)))}: its "
            "record is gone, or the learner or Redis ended before it was issued. A learner that starts asks for it "
            "again, or writes down that it is lost"
        )
    if astray:
        yield f"`where` does not name {named(astray)}, which have a slot: the learner issues them again"


def _in_order(ids: Iterable[str]) -> list[str]:
    return sorted(ids, key=group_ids.order_of)


def named(ids: Sequence[str]) -> str:
    """Write the first ids of many, for people."""
    return " ".join(ids[:10]) + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")
