"""Find examples of what a run learnt and unlearnt, and statistics of its scorers, in the journal's payloads.

In: the ledger's steps and the payload files. Out: pairs of an early and a late answer to the same prompt, whose mean
reward rose or fell most; and a line for each scorer. Reads a few steps from both ends, not the whole journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from broker.messages import Completion, ScoredGroup
from learner.groups.facts.episodes import as_tree
from learner.journal.ledger import JournalError, read_step
from learner.journal.records import step_number
from learner.reporting.conversations import cut_middle, summary, told
from learner.reporting.report.facts import RunFacts
from tasks.turns import POLICY, asked

ENDS = 40  # steps read from either end
SHOWN = 3  # examples of each kind
LENGTH = 1200  # characters shown of a text
TURNS = 8  # messages shown of an episode, from its beginning and from its end
TURN_LENGTH = 600  # characters shown of what a message says or calls

Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True)
class ExampleTurn:
    """One message of an episode."""

    who: str
    is_policy: bool
    is_error: bool
    parts: Sequence[str]  # its thoughts, text and calls


@dataclass(frozen=True, slots=True)
class Episode:
    """A completion of several turns, for display."""

    about: str  # how long it was, and why it ended
    turns: Sequence[ExampleTurn]  # the first and the last ones
    left_out: int  # number of messages between these


@dataclass(frozen=True, slots=True)
class ExampleAnswer:
    """One completion of a group."""

    step: int
    text: str
    reward: float
    reason: str  # the scorer's
    mean_reward: float  # of its group
    episode: Episode | None = None  # whose turns replace the text


@dataclass(frozen=True, slots=True)
class Example:
    """An early and a late answer to one prompt; or a single answer, where no prompt came twice."""

    prompt: str
    answers: tuple[ExampleAnswer, ...]
    rose_by: float


@dataclass(frozen=True, slots=True)
class ScorerFacts:
    """Statistics of one scorer in the payloads read."""

    name: str
    completions: int
    mean_seconds: float
    max_seconds: float
    mean_score: float
    unscorable: int


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples found."""

    rose: Sequence[Example]
    fell: Sequence[Example]
    single: Sequence[Example]  # where no prompt came twice: the best and the worst of the last steps
    scorers: Sequence[ScorerFacts]
    steps_read: int

    @property
    def has_episodes(self) -> bool:
        """Return whether one of the answers has turns."""
        shown = [*self.rose, *self.fell, *self.single]
        return any(answer.episode is not None for example in shown for answer in example.answers)


def find_examples(facts: RunFacts, decode: Decode) -> Examples:
    """Read the ends of the journal; skip payloads that are missing or damaged.

    Args:
        facts: the run's.
        decode: token ids to text.
    """
    steps = facts.ledger.steps
    ends = list(steps) if len(steps) <= 2 * ENDS else [*steps[:ENDS], *steps[-ENDS:]]
    read = [(step_number(record), group) for record, group in _groups(facts, ends)]
    pairs = list(_pairs(read, decode))
    rose = sorted((pair for pair in pairs if pair.rose_by > 0), key=lambda pair: -pair.rose_by)
    fell = sorted((pair for pair in pairs if pair.rose_by < 0), key=lambda pair: pair.rose_by)
    return Examples(
        rose=rose[:SHOWN],
        fell=fell[:SHOWN],
        single=[] if pairs else _single(read, decode),
        scorers=_scorers(group for _, group in read),
        steps_read=len({step for step, _ in read}),
    )


def _groups(
    facts: RunFacts, records: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], ScoredGroup]]:
    for record in records:
        try:
            groups, _ = read_step(facts.folder / "journal", record)
        except (JournalError, OSError):
            continue
        for group in groups:
            yield record, group


def _pairs(read: Sequence[tuple[int, ScoredGroup]], decode: Decode) -> Iterator[Example]:
    """Yield an example for each data row that was trained more than once."""
    by_row: dict[tuple[str, int], list[tuple[int, ScoredGroup]]] = {}
    for step, group in read:
        prompt = group.rollout.prompt
        by_row.setdefault((prompt.fingerprint, prompt.row), []).append((step, group))
    for same in by_row.values():
        if len(same) > 1:
            first, last = same[0], same[-1]
            rose_by = _mean(last[1]) - _mean(first[1])
            answers = _answer(*first, decode, best=rose_by < 0), _answer(*last, decode, best=rose_by > 0)
            yield Example(_asked(first[1]), answers, rose_by)


def _single(read: Sequence[tuple[int, ScoredGroup]], decode: Decode) -> list[Example]:
    late = sorted(read[-ENDS:], key=lambda item: _mean(item[1]))
    ends = [(item, False) for item in late[:SHOWN]] + [(item, True) for item in late[SHOWN:][-SHOWN:]]
    return [
        Example(_asked(group), (_answer(step, group, decode, best=best),), 0.0)
        for (step, group), best in ends
    ]


def _mean(group: ScoredGroup) -> float:
    rewards = [reward for reward in group.rewards if reward is not None]
    return fmean(rewards) if rewards else 0.0


def _asked(group: ScoredGroup) -> str:
    """Return the question, after the row's columns."""
    prompt = group.rollout.prompt
    said = [f"{name} {value}" for name, value in prompt.columns.items()]
    if said and prompt.data_source:
        said.insert(0, prompt.data_source)
    question = _cut(asked(prompt.messages))
    return f"[{', '.join(said)}] {question}" if said else question


def _answer(step: int, group: ScoredGroup, decode: Decode, *, best: bool) -> ExampleAnswer:
    """Return the group's completion with the highest or the lowest reward."""
    rewards = [(reward, index) for index, reward in enumerate(group.rewards) if reward is not None]
    reward, index = (max if best else min)(rewards, default=(0.0, 0))
    completion, reason = group.rollout.completions[index], _cut(group.scores[index].reason)
    if completion.messages:
        return ExampleAnswer(step, "", reward, reason, _mean(group), _episode(completion))
    text = "\n\n".join(decode(segment.token_ids.tolist()) for segment in completion.segments)
    return ExampleAnswer(step, _cut(text), reward, reason, _mean(group))


def _episode(completion: Completion) -> Episode:
    episode = as_tree(completion)
    turns = [
        ExampleTurn(
            who, one.role == POLICY, one.is_error, tuple(cut_middle(part, TURN_LENGTH) for part in one.parts)
        )
        for who, one in told(episode)
    ]
    left_out = max(0, len(turns) - 2 * TURNS)
    about = _cut("; ".join(summary(episode)))
    return Episode(about, [*turns[:TURNS], *turns[TURNS + left_out :]], left_out)


def _cut(text: str) -> str:
    return text if len(text) <= LENGTH else f"{text[:LENGTH]} ... ({len(text) - LENGTH:,} more characters)"


def _scorers(groups: Iterator[ScoredGroup]) -> list[ScorerFacts]:
    by_name: dict[str, list[Any]] = {}
    for group in groups:
        for score in group.scores:
            by_name.setdefault(score.scorer, []).append(score)
    found = []
    for name, scores in by_name.items():
        values = [score.value for score in scores if score.value is not None]
        seconds = [score.seconds for score in scores]
        found.append(
            ScorerFacts(
                name=name,
                completions=len(scores),
                mean_seconds=fmean(seconds),
                max_seconds=max(seconds),
                mean_score=fmean(values) if values else 0.0,
                unscorable=len(scores) - len(values),
            )
        )
    return sorted(found, key=lambda scorer: -scorer.mean_seconds)
