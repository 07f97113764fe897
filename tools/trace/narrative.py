"""Combine the data of one group in Redis and in the journal to its history, for `millrace trace`.

In: a `Sight` or why there is none, and an `Account`. Out: a `Story`, or the reason why there is none. The ledger
decides: a group has the outcome in the ledger, wherever its entry still is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker import codec, group_ids
from broker.errors import BadMessage, Permanent
from broker.keys import DEAD, EPISODES, PROMPTS, ROLLOUTS, SCORED
from broker.messages import SampledGroup, ScoredGroup
from broker.monitoring.group_view import Sight
from broker.protocol.streams import Entry
from learner.groups.discarded import Message, facts_of, message_in
from learner.groups.evaluation import version_of
from learner.groups.facts.episodes import as_tree
from learner.journal.ledger import COLLECTED, DROPPED, RECORDED, TRAINED, GroupOutcome
from learner.journal.records import step_number
from tools.trace.journal_view import Account, repeated
from tools.trace.stages import PLAYING, SAMPLING, SCORING, TRAINING, GroupStage, done, moment, under_way, wait

NOWHERE, DEAD_LETTER = "nowhere", "letter"  # states besides streams and those of the ledger


class NoStory(Permanent):
    """There is no such group, or no data about it here; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The history of a group. `millrace trace --json` prints these fields."""

    run: str
    group: str
    state: str  # prompts | episodes | rollouts | scored | letter (dead, and not recorded yet)
    # | trained | dropped | dead | recorded (with its evaluation) | nowhere
    says: str  # the state in a sentence
    step: int | None  # the step that trained on the group: the version that it made
    lag: tuple[int, int] | None  # of the group's tokens at that step: smallest, largest
    tokens: int | None  # sampled ones
    facts: Mapping[str, Any]  # task, row, epoch, floor, n, issued_at and the known facts of the work on it
    stages: tuple[GroupStage, ...]
    # None before the group was sampled, and after the journal removed it.
    completions: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]  # further information for people
    redis: str  # "" where Redis was read; else why not
    is_whole: bool  # False: data of the group are damaged, or the group is nowhere


def story_of(run: str, group_id: str, sight: Sight | None, no_redis: str, account: Account) -> Story:
    """Combine the known data of a group.

    Raises:
        NoStory: there are none.
    """
    if account.record is not None:
        return _ended(run, group_id, sight, no_redis, account)
    if sight is None and not account.is_there:
        raise NoStory(f"nothing is known here of run {run}: no journal in {account.folder}; {no_redis}")
    if sight is None:
        raise NoStory(
            f"group {group_id} has no outcome in the journal of run {run}: it was never issued, or is on its "
            f"way. That only Redis knows, which can't be asked: {no_redis}"
        )
    if sight.entry is not None:
        return _in_flight(run, group_id, sight, account)
    return _nowhere(run, group_id, sight, account)


def _in_flight(run: str, group_id: str, sight: Sight, account: Account) -> Story:
    entry = sight.entry
    assert entry is not None  # noqa: S101 - for mypy
    message, problem = _read(entry)
    facts = {"group_id": group_id, **(facts_of(message) if message else _of_header(entry))}
    if entry.stream == DEAD:
        dead_letter = codec.decode_dead(entry.raw)
        stages = [
            *done(facts),
            moment(
                DEAD,
                sight.arrived_at,
                f"in {dead_letter.stage}, after {dead_letter.attempts} attempts: {dead_letter.reason}",
            ),
        ]
        state, says = (
            DEAD_LETTER,
            (
                f"dead, and the learner has not recorded it yet: {dead_letter.reason}. `millrace dead show "
                f"{run} --group {group_id}` has its letter"
            ),
        )
    else:
        stages = list(under_way(facts, sight))
        state, says = entry.stream, _where_it_is(sight, stages[-1])
    return _story(
        run,
        group_id,
        state,
        says,
        facts=facts,
        stages=stages,
        completions=completions_of(message),
        notes=[*problem, *_notes(run, group_id, sight, account)],
    )


def _read(entry: Entry) -> tuple[Message | None, list[str]]:
    """Read the message of an entry, or return why it can't be read."""
    try:
        match entry.stream:
            case "prompts" | "episodes":
                return codec.decode_prompt(entry.raw), []
            case "rollouts":
                return codec.decode_rollout(entry.raw), []
            case "scored":
                return codec.decode_scored(entry.raw), []
    except BadMessage as error:
        return None, [f"its payload can't be read: {error}"]
    return message_in(entry.raw), []


def _where_it_is(sight: Sight, stage: GroupStage) -> str:
    doing = {
        PROMPTS: "waits in prompts to be sampled",
        SAMPLING: f"is being sampled by {stage.who}",
        EPISODES: "waits in episodes to be played",
        PLAYING: f"is being played by {stage.who}",
        ROLLOUTS: "is sampled, and waits in rollouts to be scored",
        SCORING: f"is being scored by {stage.who}",
        SCORED: "is scored, and waits for a step to train on it",
    }[stage.stage]
    ended = f"; the run is {sight.status}" if sight.status not in {"running", ""} else ""
    return f"{doing}{ended}"


def _ended(run: str, group_id: str, sight: Sight | None, no_redis: str, account: Account) -> Story:
    record, group = account.record, account.group
    assert record is not None  # noqa: S101 - for mypy
    facts: dict[str, Any] = {
        "group_id": group_id,
        **(facts_of(group) if group else record.get("facts") or {}),
    }
    notes = _notes(run, group_id, sight, account)
    step, lag, tokens = None, None, record.get("tokens")
    stages = list(done(facts))
    if record["kind"] == "evaluation":
        state, says = RECORDED, _of_round(record)
        stages = [moment(RECORDED, record.get("at"), "with its round")]
        tokens = None
    elif account.outcome is not None and account.outcome.kind == TRAINED:
        state, step, began = TRAINED, step_number(record), int(record["step"])
        versions = [version for version, _ in facts.get("versions", ())]
        lag = (began - max(versions), began - min(versions)) if versions else None
        tokens = group.rollout.num_tokens if group else None
        is_announced = sight is None or not sight.is_known or sight.version >= step
        says = f"trained at step {step}, which {'made' if is_announced else 'is making'} version {step}"
        stages += _trained(record, stages, account)
    elif record["kind"] == "collected":
        why = record["dead"].get(group_id)
        state, says = (
            (COLLECTED, "its completions and scores are kept") if why is None else (DEAD, f"dead: {why}")
        )
        stages += [moment(state, record.get("at"), says)]
        tokens = group.rollout.num_tokens if group else None
    else:
        state = str(record["outcome"])
        says = f"{state}: {record['reason']}"
        stages += _thrown_away(facts, record, stages)
    if account.missing:
        notes.insert(0, account.missing)
    return _story(
        run,
        group_id,
        state,
        says,
        facts=facts,
        stages=stages,
        notes=notes,
        step=step,
        lag=lag,
        tokens=tokens,
        completions=completions_of(group, account.advantages),
        redis=no_redis,
        is_whole=not account.is_damaged,
    )


def _trained(record: Mapping[str, Any], stages: Sequence[GroupStage], account: Account) -> list[GroupStage]:
    at, over = float(record["at"]), account.committed_at or None
    before = [wait(SCORED, stages[-1].ended, at, "waited for its step")] if stages else []
    seconds = max(0.0, over - at) if over else None
    return [
        *before,
        GroupStage(
            stage=TRAINING,
            began=at,
            ended=over,
            seconds=seconds,
            who="",
            says=f"step {step_number(record)}, by incarnation {record['fence']} of the learner",
        ),
    ]


def _thrown_away(
    facts: Mapping[str, Any], record: Mapping[str, Any], stages: Sequence[GroupStage]
) -> list[GroupStage]:
    issued = facts.get("issued_at")
    way = [] if stages or not issued else [moment(PROMPTS, issued, f"issued with floor {facts['floor']}")]
    if record["outcome"] == DROPPED:
        return [*way, moment(DROPPED, record.get("at"), record["reason"])]
    died = facts.get("died_at") or record.get("at")
    where = f"in {facts['stage']}, after {facts['attempts']} attempts: " if "stage" in facts else ""
    return [*way, moment(DEAD, died, where + record["reason"])]


def _of_round(record: Mapping[str, Any]) -> str:
    rate = record.get("pass_rate")
    result = f"pass rate {rate:.3f}" if rate is not None else record.get("reason", "no pass rate")
    return (
        f"held out: recorded with the evaluation of version {record['version']} ({result}); the journal keeps no "
        "answers of such groups"
    )


def _nowhere(run: str, group_id: str, sight: Sight, account: Account) -> Story:
    """Describe a group without entry and outcome: it is lost, or was never issued."""
    if not sight.is_known:
        raise NoStory(
            f"group {group_id} has no outcome in a journal here, and this Redis knows nothing of run {run}; "
            "`millrace runs` lists what is there, --runs-dir says where else"
        )
    ordinal, number = group_ids.order_of(group_id)
    is_issued = sight.cursor.names(group_id)
    if sight.floor is not None:
        says = (
            f"it has a slot, and no entry in any stream (where: {sight.where or 'nothing'}): the learner issues it "
            "again when it notices"
        )
    elif version_of(group_id) >= 0:
        raise NoStory(
            f"group {group_id} is in no stream and in no evaluation that run {run} has recorded: the round "
            "was never asked for, or the learner asks for it again"
        )
    elif is_issued and account.is_there:
        says = f"it was issued, and has no slot, no entry and no outcome: it is lost. `millrace audit {run}` names all"
    elif is_issued:
        raise NoStory(
            f"group {group_id} was issued and is in flight no more, and the journal of run {run} is not "
            "here: give --runs-dir, the folder that the run's own folder is in"
        )
    elif number:
        raise NoStory(
            f"group {group_id} has never been issued: {ordinal} was begun anew "
            f"{sight.cursor.retries_of(group_id)} times"
        )
    else:
        raise NoStory(
            f"group {group_id} has never been issued: run {run} ({sight.status or 'no status'}) has issued "
            f"the groups below {sight.cursor.position}"
        )
    return _story(
        run,
        group_id,
        NOWHERE,
        says,
        facts={"group_id": group_id},
        is_whole=False,
        notes=_notes(run, group_id, sight, account),
    )


def _notes(run: str, group_id: str, sight: Sight | None, account: Account) -> list[str]:
    """Return further information for people."""
    notes = []
    if account.born is not None:
        before, is_over = repeated(account.born), _is_over(account.before)
        notes.append(
            f"begun anew after {before} was over: the run was given more steps"
            if is_over
            else f"begun anew on an operator's word after {before} died"
        )
    if account.heir is not None:
        why = "as the run was given more steps" if _is_over(account.outcome) else "on an operator's word"
        notes.append(f"begun anew as {group_ids.retried(group_id, account.heir['number'])}, {why}")
    elif sight is not None and sight.is_asked_again:
        notes.append("an operator wants it again, and no learner has issued that yet")
    if account.purge is not None:
        notes.append(f"its letter was purged by {account.purge.get('by', '?')}")
    elif account.outcome is not None and account.outcome.kind == DEAD and account.heir is None:
        notes.append(f"its letter: millrace dead show {run} --group {group_id}")
    if not account.is_there:
        notes.append(
            "the journal is not on this machine: give --runs-dir, the folder that the run's own folder is in"
        )
    if account.problems:
        notes.append(f"the ledger is damaged: {account.problems[0]}")
    return notes


def _is_over(outcome: GroupOutcome | None) -> bool:
    """Return whether the last step had no need of the group; only such groups are dropped and begun anew."""
    return outcome is not None and outcome.kind == DROPPED


def _of_header(entry: Entry) -> dict[str, Any]:
    """Return the facts in an entry's header, where its payload has none."""
    return {"task": codec.text(entry.raw, "task", "?"), "floor": entry.floor, "issued_at": entry.issued_at}


def completions_of(
    message: Message | None, advantages: Sequence[float | None] = ()
) -> list[Mapping[str, Any]]:
    """Make an object per completion, with its scores if there are any."""
    group = message if isinstance(message, ScoredGroup) else None
    rollout = group.rollout if group else message
    if not isinstance(rollout, SampledGroup):
        return []
    rows: list[Mapping[str, Any]] = []
    for index, said in enumerate(rollout.completions):
        row: dict[str, Any] = {
            "completion": index,
            "tokens": said.num_sampled,
            "finish_reason": str(said.finish_reason),
            "versions": [
                {"version": span.version, "first": span.first, "count": span.count} for span in said.spans
            ],
            **as_tree(said),
        }
        if group:
            score = group.scores[index]
            row |= {
                "reward": group.rewards[index],
                "advantage": advantages[index] if advantages else None,
                "status": str(score.status),
                "score": score.value,
                "components": dict(score.components),
                "scorer": score.scorer,
                "scorer_version": score.version,
                "seconds": score.seconds,
                "reason": score.reason,
            }
        rows.append(row)
    return rows


def _story(
    run: str,
    group_id: str,
    state: str,
    says: str,
    *,
    facts: Mapping[str, Any],
    stages: Sequence[GroupStage] = (),
    completions: Sequence[Mapping[str, Any]] = (),
    notes: Sequence[str] = (),
    step: int | None = None,
    lag: tuple[int, int] | None = None,
    tokens: int | None = None,
    redis: str = "",
    is_whole: bool = True,
) -> Story:
    sampled = sum(count for _, count in facts.get("versions", ())) or None
    return Story(
        run=run,
        group=group_id,
        state=state,
        says=says,
        step=step,
        lag=lag,
        tokens=tokens or sampled,
        facts=facts,
        stages=tuple(stages),
        completions=tuple(completions),
        notes=tuple(notes),
        redis=redis,
        is_whole=is_whole,
    )
