"""One episode is played here: the policy's turns, and what its environment answers, until one of them ends it.

In: a group's prompt, the number of the episode, and an attempt at the group. Out: a completion, with the records that
it is made of. The next prompt is the one before, what was sampled, and the rendered rest. Where the rest can't be had
for this template, the whole is rendered, and a new sequence begins. No prompt depends on time or chance but what a
generator sampled, so an episode that is played again asks the same, and finds its records.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from agents.environments.environments import Environments, Episode
from agents.environments.seam import Beginning, EnvironmentFailed, Step
from agents.rendering.rendering import Rendering, Spoken, Unrenderable
from agents.sequences import Turn, segments_of
from agents.turns import TurnDesk, TurnFailed
from broker.codec import pack, unpack
from broker.errors import BadMessage
from broker.messages import (
    NO_IDS,
    Completion,
    End,
    EnvironmentReward,
    EpisodeEnd,
    FinishReason,
    Ids,
    Prompt,
    TurnPrompt,
    TurnRecord,
)
from broker.messages import Turn as Message
from broker.protocol.episodes import Attempt, Call, content_of, key_of
from config.episodes.environments import EnvironmentConfig, RewardingSection
from config.run import Run
from tasks.seeds import seed_of

log = logging.getLogger(__name__)

SEED_BYTES = 4


class EpisodeFailed(Exception):
    """Nobody could play the episode to its end; the message says why.

    Attributes:
        by: what broke, and at which turn, where the policy may have brought it about; "" where it can't have.
        again: whether another attempt might do better.
    """

    def __init__(self, reason: str, *, by: str = "", again: bool = True) -> None:
        super().__init__(reason)
        self.by, self.again = by, again


@dataclass(slots=True)
class Counts:
    """What the episodes of one worker have done so far."""

    turns: int = 0
    sampled: int = 0  # tokens
    observed: int = 0  # tokens
    calls: int = 0  # of tools
    tool_errors: int = 0
    breaks: int = 0  # sequences that began anew, since the rest of a prompt could not be had
    environment_s: float = 0.0
    sampling_s: float = 0.0
    ends: Counter[str] = field(default_factory=Counter)


class Openings:
    """The ids that the episodes of one group begin with: as a rule the same, so that they are rendered once."""

    def __init__(self) -> None:
        self._ids: dict[bytes, Ids] = {}

    def first(self, rendering: Rendering, messages: Sequence[Message], tools: Sequence[Message]) -> Ids:
        """Return the ids of the first prompt. Raises as `Rendering.first`."""
        key = msgspec.json.encode((messages, tools))
        if key not in self._ids:
            if why := rendering.objection(
                tools
            ):  # a policy that does not see its tools would learn to do without
                raise Unrenderable(why)
            self._ids[key] = rendering.first(messages, tools)
        return self._ids[key]


class EpisodePlay:
    """Plays one episode.

    Args:
        run: the run.
        prompt: of the group.
        k: the number of the episode, below prompt.n.
        openings: of the group.
        is_late: whether the group's deadline is near.
    Attributes:
        used: the key of each record so far, in order -> the stored record.
    """

    def __init__(
        self,
        run: Run,
        prompt: Prompt,
        k: int,
        attempt: Attempt,
        *,
        desk: TurnDesk,
        environments: Environments,
        rendering: Rendering,
        counts: Counts,
        openings: Openings,
        is_late: Callable[[], bool],
    ) -> None:
        self._run, self._prompt, self._k, self._attempt = run, prompt, k, attempt
        self._desk, self._environments, self._rendering = desk, environments, rendering
        self._counts, self._openings, self._is_late = counts, openings, is_late
        self._section = section_of(run, prompt.task)
        self._limit = 0  # tokens of the longest sequence
        self._asked: Counter[bytes] = Counter()  # digest of what was asked -> how many times
        self.used: dict[str, bytes] = {}
        self._turns: list[Turn] = []
        self._opening: tuple[Message, ...] = prompt.messages
        self._tools: tuple[Message, ...] = ()
        self._said: list[Message] = []
        self._rewards: list[float | None] = []
        self._range: tuple[float, float] | None = None
        self._seconds = 0.0

    async def play(self) -> EpisodeEnd:
        """Play it to its end.

        Raises:
            EpisodeFailed: environment or generators could not.
            Superseded, HasEnded: as `TurnDesk.turn`.
            Disturbed: its child was ended for another episode's sake.
        """
        playing: Episode | None = None
        try:
            playing, beginning = await self._begin()
            ids = self._first(beginning)
            ended_by, remark = await self._take_turns(playing, ids)
        except EnvironmentFailed as error:
            by = f"{len(self._turns)} {error.kind}" if error.is_policys else ""
            raise EpisodeFailed(str(error), by=by) from error
        except TurnFailed as error:
            raise EpisodeFailed(str(error)) from error
        except (Unrenderable, BadMessage) as error:
            raise EpisodeFailed(str(error), again=False) from error
        finally:
            if playing is not None:
                await playing.close()
        return self.as_it_stands(ended_by, remark)

    async def _begin(self) -> tuple[Episode, Beginning]:
        prompt = self._prompt
        row = {**prompt.verification_info, **prompt.columns}
        own = seed_of(prompt.verification_info)
        return await self._environments.begin(
            prompt.task,
            row,
            prompt.messages,
            seed=prompt.seed if own is None else own,
            own_seed=seed_by(prompt.seed, self._k),
            token=f"{self._attempt.token}-{self._k}",
        )

    def _first(self, beginning: Beginning) -> Ids:
        """Return the ids that the episode begins with."""
        self._opening, self._tools = beginning.messages, beginning.tools
        self._range = beginning.reward_range
        ids = self._openings.first(self._rendering, self._opening, self._tools)
        most = self._run.data.max_prompt_tokens
        if len(ids) > most:
            raise EpisodeFailed(
                f"the prompt of row {self._prompt.row} has {len(ids)} tokens with its tools, more than "
                f"data.max_prompt_tokens={most}",
                again=False,
            )
        self._limit = len(ids) + self._prompt.max_tokens
        return ids

    async def _take_turns(self, playing: Episode, ids: Ids) -> tuple[End, str]:
        """Let the policy and its environment speak in turn. Returns what ended it, with a remark."""
        while True:
            room = self._limit - len(ids)
            if room < 1:
                return End.CONTEXT, ""
            turn = await self._sample(ids, room)
            if turn is None:
                deadline_s = self._run.deadline_of(self._prompt.task)
                return (
                    End.DEADLINE,
                    f"the group, which has {deadline_s:g} s in all, had to go on to its scorers",
                )
            spoken = self._rendering.message(
                ids, turn.record.token_ids, turn.record.finish_reason, tools=self._tools
            )
            self._said.append(spoken.message)
            if turn.record.finish_reason is FinishReason.LENGTH:
                return (End.CONTEXT if len(turn.record.token_ids) >= room else End.TOKENS), ""
            if self._seconds > self._section.deadline_s:
                break
            step = _about(spoken) or await playing.step(spoken.message)
            self._note(spoken.message, step)
            if step.terminated or step.truncated:
                end = End.MESSAGE if self._section.type in ("tools", "verl_tools") else End.ENVIRONMENT
                return end, step.remark
            if len(self._turns) >= self._section.max_turns:
                return End.TURNS, step.remark
            if self._seconds > self._section.deadline_s:
                break
            ids = self._following(turn, step)
        return (
            End.DEADLINE,
            f"{self._seconds:.0f} s at work, and environment.deadline_s={self._section.deadline_s:g}",
        )

    async def _sample(self, ids: Ids, room: int) -> Turn | None:
        """Return the next turn; None where it is too late to ask for one that was not asked before."""
        prompt = self._prompt
        most = min(room, self._section.turn_tokens or room)
        shape = f"{most} {prompt.temperature} {prompt.top_p}".encode()
        digest = hashlib.blake2b(ids.tobytes() + shape, digest_size=16).digest()
        repeat = self._asked[digest]
        self._asked[digest] += 1
        packed = pack(
            TurnPrompt(
                token_ids=ids,
                max_tokens=most,
                temperature=prompt.temperature,
                seed=seed_by(prompt.seed, self._k, digest, repeat),
                top_p=prompt.top_p,
            )
        )
        key = key_of(packed, repeat)
        call = Call(self._k, key)
        if self._turns and self._is_late() and not await self._desk.is_asked(self._attempt, call):
            return None
        near = self._desk.queues.near(self._turns[-1].record.generator) if self._turns else ""
        started = time.monotonic()
        stored = await self._desk.turn(self._attempt, call, packed, near=near)
        self.used[key] = stored
        turn = Turn(ids, unpack(content_of(stored), TurnRecord))
        self._turns.append(turn)
        took_s = time.monotonic() - started
        self._desk.queues.note(turn.record.generator, took_s=took_s, sampled_s=turn.record.seconds)
        self._seconds += turn.record.seconds
        self._counts.turns += 1
        self._counts.sampled += len(turn.record.token_ids)
        self._counts.sampling_s += turn.record.seconds
        return turn

    def _note(self, said: Message, step: Step) -> None:
        self._said += step.messages
        self._rewards.append(step.reward)
        self._seconds += step.seconds
        self._counts.environment_s += step.seconds
        self._counts.calls += len(said.get("tool_calls") or ())
        self._counts.tool_errors += sum(bool(one.get("is_error")) for one in step.messages)

    def _following(self, turn: Turn, step: Step) -> Ids:
        """Return the ids of the next prompt."""
        history = [*self._opening, *self._said[: len(self._said) - len(step.messages)]]
        record = turn.record
        ids = self._rendering.following(
            turn.prompt_ids,
            record.token_ids,
            record.finish_reason,
            history=history,
            said=step.messages,
            tools=self._tools,
        )
        if ids is None:
            self._counts.breaks += 1
            if self._counts.breaks == 1:
                log.warning(
                    "sequence_broken group=%s: the template has no tail for what was said, so a turn begins a sequence "
                    "of its own; told once, counted as breaks",
                    self._prompt.group_id,
                )
            return self._rendering.first([*self._opening, *self._said], self._tools)
        self._counts.observed += len(ids) - turn.length
        return ids

    def as_it_stands(self, ended_by: End, remark: str = "") -> EpisodeEnd:
        """Return what the turns so far make."""
        text = ""
        if self._turns:
            last = self._turns[-1]
            text = self._rendering.text(last.prompt_ids, last.record.token_ids, last.record.finish_reason)
        completion = Completion(
            segments=segments_of(self._turns, NO_IDS) if self._turns else (),
            finish_reason=FinishReason.LENGTH if ended_by.is_cut else FinishReason.STOP,
            text=text,
            messages=tuple(self._said),
            ended_by=ended_by,
            remark=remark,
            reward=None if ended_by is End.FAILED else self._reward(),
            generators=tuple(sorted({turn.record.generator for turn in self._turns})),
        )
        return EpisodeEnd(opening=self._opening, completion=completion)

    def _reward(self) -> EnvironmentReward | None:
        return reward_of(self._section, self._rewards, self._range)


def reward_of(
    section: EnvironmentConfig, rewards: Sequence[float | None], stated: tuple[float, float] | None
) -> EnvironmentReward | None:
    """Return what an environment has given; None where it gives nothing, or has given nothing yet.

    Args:
        section: of the environment.
        rewards: turn by turn.
        stated: the range that the environment itself states.
    """
    given = [reward for reward in rewards if reward is not None]
    if not isinstance(section, RewardingSection) or not given:
        return None
    value = given[-1] if section.reward == "last" else sum(given)
    low, high = section.reward_range or stated or (0.0, 1.0)
    return EnvironmentReward(value=value, low=low, high=high, turns=tuple(rewards))


def _about(spoken: Spoken) -> Step | None:
    """Return what the policy is told of a tool call that can't be read; None where there is none, or others can."""
    if not spoken.unread or spoken.message.get("tool_calls"):
        return None
    told = {"role": "user", "content": f"The tool call can't be read: {spoken.unread}", "is_error": True}
    return Step(messages=(told,), reward=None, terminated=False, truncated=False, seconds=0.0)


def section_of(run: Run, task: str) -> EnvironmentConfig:
    """Return the environment of a task that has one."""
    section = run.scorers.tasks[task].environment
    if section is None:
        raise ValueError(f"scorers.tasks.{task} has no environment")
    return section


def seed_by(*parts: int | bytes) -> int:
    """Return a seed of 4 bytes that these numbers and bytes decide."""
    text = b" ".join(part if isinstance(part, bytes) else str(part).encode() for part in parts)
    return int.from_bytes(hashlib.blake2b(text, digest_size=SEED_BYTES).digest(), "little")
