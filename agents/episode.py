"""Play one episode: the policy's turns and its environment's answers, until one of them ends it.

In: a group's prompt, the number of the episode, and an attempt at the group. Out: a completion, with the records that
it is made of. The next prompt is the previous one, the sampled tokens, and the rendered rest. Where the template allows
no such rest, everything is rendered again, and a new sequence begins. Prompts depend on nothing random except the
samples of generators, so a replayed episode asks the same, and finds its records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from agents.asking import Asker, EpisodeCounts, seed_by
from agents.environments.runner import Environments, Episode
from agents.environments.seam import Beginning, EnvironmentFailed, EnvironmentStep
from agents.openings import Openings
from agents.rendering.rendering import Rendering, Spoken, Unrenderable
from agents.sequences import PolicyTurn, segments_of
from agents.turns import TurnDesk, TurnFailed
from broker.errors import BadMessage
from broker.messages import NO_IDS, Completion, End, EnvironmentReward, EpisodeEnd, FinishReason, Ids, Prompt
from broker.messages import Turn as Message
from broker.protocol.episodes import Attempt
from config.episodes.environment_section import EnvironmentSection, RewardingSection
from config.episodes.environments import EnvironmentConfig
from config.run import Run
from tasks.seeds import seed_of

log = logging.getLogger(__name__)


class EpisodeFailed(Exception):
    """The episode could not be played to its end; the message says why.

    Attributes:
        by: what broke, and at which turn, where the policy may have caused it; "" where it can't have.
        again: whether another attempt might succeed.
    """

    def __init__(self, reason: str, *, by: str = "", again: bool = True) -> None:
        super().__init__(reason)
        self.by, self.again = by, again


class EpisodePlay:
    """Play one episode.

    Args:
        run: the run.
        prompt: of the group.
        k: the number of the episode, below prompt.n.
        openings: of the group.
        is_late: returns whether the group's deadline is near.
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
        counts: EpisodeCounts,
        openings: Openings,
        is_late: Callable[[], bool],
    ) -> None:
        self._run, self._prompt, self._k, self._attempt = run, prompt, k, attempt
        self._environments, self._rendering = environments, rendering
        self._counts, self._openings = counts, openings
        self._asker = Asker(prompt, k, attempt, desk=desk, counts=counts, is_late=is_late)
        self._section = section_of(run, prompt.task)
        self._limit = 0  # tokens of the longest sequence
        self._opening: tuple[Message, ...] = prompt.messages
        self._tools: tuple[Message, ...] = ()
        self._said: list[Message] = []
        self._rewards: list[float | None] = []
        self._range: tuple[float, float] | None = None
        self._worked_s = 0.0  # by the environment

    @property
    def used(self) -> dict[str, bytes]:
        """Return the key of each record so far -> the stored record."""
        return self._asker.used

    @property
    def _turns(self) -> list[PolicyTurn]:
        return self._asker.turns

    @property
    def _seconds(self) -> float:
        return self._asker.seconds + self._worked_s

    async def play(self) -> EpisodeEnd:
        """Play the episode to its end.

        Raises:
            EpisodeFailed: the environment or the generators failed.
            Superseded, HasEnded: as `TurnDesk.turn`.
            Disturbed: its child was ended because of another episode.
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
        """Return the ids of the episode's first prompt."""
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
        """Let the policy and its environment take turns. Returns what ended the episode, with a remark."""
        turn: PolicyTurn | None = None
        while True:
            room = self._limit - len(ids)
            if room < 1:
                return End.CONTEXT, ""
            most = min(room, self._section.turn_tokens or room)
            turn = await self._asker.sample(ids, most, after=turn)
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

    def _note(self, said: Message, step: EnvironmentStep) -> None:
        self._said += step.messages
        self._rewards.append(step.reward)
        self._worked_s += step.seconds
        self._counts.environment_s += step.seconds
        self._counts.calls += len(said.get("tool_calls") or ())
        self._counts.tool_errors += sum(bool(one.get("is_error")) for one in step.messages)

    def _following(self, turn: PolicyTurn, step: EnvironmentStep) -> Ids:
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
        """Return the result of the turns so far."""
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
    section: EnvironmentSection, rewards: Sequence[float | None], stated: tuple[float, float] | None
) -> EnvironmentReward | None:
    """Return the environment's reward; None where it gives none, or none yet.

    Args:
        section: of the environment.
        rewards: by turn.
        stated: the range given by the environment itself.
    """
    given = [reward for reward in rewards if reward is not None]
    if not isinstance(section, RewardingSection) or not given:
        return None
    value = given[-1] if section.reward == "last" else sum(given)
    low, high = section.reward_range or stated or (0.0, 1.0)
    return EnvironmentReward(value=value, low=low, high=high, turns=tuple(rewards))


def _about(spoken: Spoken) -> EnvironmentStep | None:
    """Return a message about an unreadable tool call; None for none, or where other calls are readable."""
    if not spoken.unread or spoken.message.get("tool_calls"):
        return None
    told = {"role": "user", "content": f"The tool call can't be read: {spoken.unread}", "is_error": True}
    return EnvironmentStep(messages=(told,), reward=None, terminated=False, truncated=False, seconds=0.0)


def section_of(run: Run, task: str) -> EnvironmentConfig:
    """Return the environment of a task that has one."""
    section = run.scorers.tasks[task].environment
    if section is None:
        raise ValueError(f"scorers.tasks.{task} has no environment")
    return section
