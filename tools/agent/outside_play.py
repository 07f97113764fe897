"""Play one row with an external model, using a run's environments, gateway and scorers.

In: a prompt, and the address of a model. Out: each episode's conversation with its score. Agents that own their loop
call the gateway, with an address and a key for their episode as in a run; environments with steps and tools are played
turn by turn. A failure ends its episode with the reason. There is no Redis, no generator and no second attempt.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec
from pydantic import SecretStr

from agents.agent_play import begun
from agents.environments.runner import Environments, Episode
from agents.environments.seam import Beginning, Disturbed, EnvironmentFailed, FailureKind, Finish
from agents.episode import reward_of, section_of
from agents.gateway.remote import RemoteEpisode
from agents.gateway.server import Gateway, gateway_of
from broker.errors import PipelineError
from broker.messages import End, Prompt, Turn
from config.episodes.environment_section import EnvironmentSection
from config.episodes.own_loop import AgentSection, PlacedAgentSection
from config.run import Run
from scorers.api import RowWorkerClient
from scorers.child.frames import EPISODE_KEY, TEXT_KEY, Result
from scorers.scorer import Conversation
from scorers.served_model.wire import RequestRefused
from tasks.turns import POLICY, text_of
from tools.agent.outside import OutsideCalls, OutsideModel

ATTEMPT: Final = "outside"  # replaces an attempt's token in names of external resources


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPlay:
    """One episode, with its score."""

    model: str
    opening: tuple[Turn, ...]  # the initial messages
    conversation: Conversation
    calls: int  # number of the model's answers
    given: int  # tokens, by the server's count; 0: not counted
    sampled: int
    printed: str  # the last output lines of agent or environment
    auxiliary: int = 0  # how many of the calls were outside the task
    away: PipelineError | None = None  # why the model was unreachable; None: it was not
    score: float | None = None  # None: no scorer could judge it
    scorer: str = ""
    reason: str = ""  # the scorer's

    @property
    def has_failed(self) -> bool:
        """Whether it could not be played to its end."""
        return self.conversation.ended_by is End.FAILED

    @property
    def tokens(self) -> str:
        """Return the server's token counts, for people."""
        if not self.sampled:
            return "no count of tokens"
        return f"{self.given} tokens given and {self.sampled} sampled, as the server counts"


def play(
    run: Run,
    prompt: Prompt,
    url: str,
    *,
    model: str | None,
    key: SecretStr | None,
    say: Callable[[str], None],
) -> list[ScoredPlay]:
    """Play the row, and score the results. Raises PipelineError.

    Args:
        say: receives the progress.
    """
    outside = OutsideModel(url, name=model, key=key, temperature=prompt.temperature)
    episodes = asyncio.run(_played(run, prompt, outside, say))
    say("played; starting a scorer")
    return _scored(run, prompt, episodes)


async def _played(
    run: Run, prompt: Prompt, model: OutsideModel, say: Callable[[str], None]
) -> list[ScoredPlay]:
    environments, gateway = Environments(run), gateway_of(run)
    try:
        await model.open()
        await gateway.start()
        say(f"the model {model.name} is ready, and the row is played")
        one = partial(play_one, run, prompt, environments=environments, gateway=gateway, model=model)
        return list(await asyncio.gather(*(one(k) for k in range(prompt.n))))
    finally:
        await gateway.close()
        await environments.close()
        await model.close()


async def play_one(
    run: Run, prompt: Prompt, k: int, *, environments: Environments, gateway: Gateway, model: OutsideModel
) -> ScoredPlay:
    """Play episode k of a prompt, or let the model answer one without an environment. Failures are in the result."""
    if not run.plays(prompt.task):
        return await _answered(prompt, model)
    section = section_of(run, prompt.task)
    playing: Episode | RemoteEpisode | None = None
    calls = OutsideCalls(
        model,
        turns=section.max_turns,
        turn_tokens=section.turn_tokens,
        beside=section.auxiliary if isinstance(section, AgentSection) else (),
    )
    steps = _Steps(run, prompt, model)
    away: PipelineError | None = None
    try:
        playing, beginning = await begun(
            section, prompt, k, token=f"{ATTEMPT}-{k}", environments=environments, gateway=gateway
        )
        if isinstance(section, AgentSection) or isinstance(playing, RemoteEpisode):
            found = await _driven(section, playing, beginning, gateway, calls)
            opening = calls.history[0] or prompt.messages
        else:
            found, opening = await steps.play(playing, beginning), beginning.messages
    except (EnvironmentFailed, Disturbed, PipelineError) as error:
        said = steps.said or calls.history[1]
        found = _conversation(said, End.FAILED, str(error))
        opening = steps.opening or calls.history[0] or prompt.messages
        away = _away(error)
    finally:
        if playing is not None:
            await playing.close()
        await calls.close()
    return ScoredPlay(
        model=model.name,
        opening=tuple(opening),
        conversation=found,
        calls=calls.asked + steps.asked,
        given=calls.given + steps.given,
        sampled=calls.sampled + steps.sampled,
        printed=playing.last_words if playing is not None else "",
        auxiliary=calls.auxiliary,
        away=away,
    )


async def _answered(prompt: Prompt, model: OutsideModel) -> ScoredPlay:
    """Let the model answer in one turn."""
    try:
        said = await model.said(prompt.messages, (), most=prompt.max_tokens)
    except PipelineError as error:
        failed = _conversation((), End.FAILED, str(error))
        return ScoredPlay(
            model=model.name,
            opening=prompt.messages,
            conversation=failed,
            calls=0,
            given=0,
            sampled=0,
            printed="",
            away=_away(error),
        )
    return ScoredPlay(
        model=model.name,
        opening=prompt.messages,
        conversation=_conversation([said.message], End.TOKENS if said.is_cut else End.MESSAGE, ""),
        calls=1,
        given=said.given,
        sampled=said.sampled,
        printed="",
    )


def _away(error: Exception) -> PipelineError | None:
    """Return an error that affects all of the model's answers; None for one of this episode alone."""
    if isinstance(error, RequestRefused) or not isinstance(error, PipelineError):
        return None
    return error


async def _driven(
    section: EnvironmentSection,
    playing: Episode | RemoteEpisode,
    beginning: Beginning,
    gateway: Gateway,
    calls: OutsideCalls,
) -> Conversation:
    """Let an agent that owns its loop run to its end. Raises as `Episode.run`."""
    finish: Finish | None = None
    remark, end = "", End.MESSAGE
    most_s = min(section.deadline_s, beginning.deadline_s or section.deadline_s)
    with gateway.opened(calls) as access:
        try:
            finish = await playing.run(access.base_url, access.key, most_s, socket=access.socket)
        except EnvironmentFailed as error:
            is_told = calls.ended_by is not None or calls.failure is not None  # to stop, and crashed
            if not is_told and error.kind is not FailureKind.DEADLINE:
                raise
            remark, end = str(error), End.DEADLINE
    if calls.failure is not None:
        raise calls.failure
    is_asked = calls.conversations.longest is not None
    if is_asked and isinstance(section, PlacedAgentSection) and isinstance(playing, Episode):
        finish = await playing.judge(section.judge_deadline_s)
    if not is_asked:
        refused = f"; the last was refused: {calls.refusal}" if calls.refusal else ""
        return _conversation((), End.FAILED, f"the agent ended without a call that was answered{refused}")
    _, said = calls.history
    rewards = [] if finish is None else [finish.reward]
    return Conversation(
        text=calls.text if finish is None or finish.answer is None else finish.answer,
        messages=said,
        ended_by=calls.ended_by or end,
        remark="; ".join(filter(None, (remark, finish.remark if finish else ""))),
        reward=reward_of(section, rewards, beginning.reward_range),
    )


class _Steps:
    """Play an environment with steps and tools turn by turn, as `agents.episode` does with tokens."""

    def __init__(self, run: Run, prompt: Prompt, model: OutsideModel) -> None:
        self._section, self._model = section_of(run, prompt.task), model
        self.opening: tuple[Turn, ...] = ()
        self.said: list[Turn] = []
        self.asked = self.given = self.sampled = 0

    async def play(self, playing: Episode, beginning: Beginning) -> Conversation:
        """Play to the end. Raises EnvironmentFailed, Disturbed, PipelineError."""
        section = self._section
        self.opening = beginning.messages
        rewards: list[float | None] = []
        began, end, remark = time.monotonic(), End.TURNS, ""
        while self.asked < section.max_turns:
            said = await self._model.said(
                [*self.opening, *self.said], beginning.tools, most=section.turn_tokens
            )
            self._note(said.message, given=said.given, sampled=said.sampled)
            if said.is_cut:
                end = End.TOKENS
                break
            step = await playing.step(said.message)
            self.said += step.messages
            rewards.append(step.reward)
            remark = step.remark
            if step.terminated or step.truncated:
                end = End.MESSAGE if section.type == "tools" else End.ENVIRONMENT
                break
            if time.monotonic() - began > section.deadline_s:
                end, remark = End.DEADLINE, f"environment.deadline_s={section.deadline_s:g}"
                break
        reward = reward_of(section, rewards, beginning.reward_range)
        last = next((text_of(one) for one in reversed(self.said) if one["role"] == POLICY), "")
        return Conversation(text=last, messages=tuple(self.said), ended_by=end, remark=remark, reward=reward)

    def _note(self, message: Turn, *, given: int, sampled: int) -> None:
        self.said.append(message)
        self.asked += 1
        self.given += given
        self.sampled += sampled


def _conversation(said: Sequence[Turn], ended_by: End, remark: str) -> Conversation:
    return Conversation(
        text=text_of(said[-1]) if said else "", messages=tuple(said), ended_by=ended_by, remark=remark
    )


def _scored(run: Run, prompt: Prompt, episodes: Sequence[ScoredPlay]) -> list[ScoredPlay]:
    """Score the episodes with the run's scorers. Raises ScoringFailed."""
    scorers = RowWorkerClient(run.scorers)
    try:
        results = [scorers.result(scoring_line(run, prompt, one.conversation)) for one in episodes]
    except BaseException:
        scorers.stop()
        raise
    finally:
        scorers.close()
    return [scored_as(one, found) for one, found in zip(episodes, results, strict=True)]


def scored_as(one: ScoredPlay, found: Result) -> ScoredPlay:
    """Return an episode with the result of a scorer's process."""
    scorer = f"{found['scorer'] or ''} {found['version'] or ''}".strip()
    return replace(one, score=found["value"], scorer=scorer, reason=found["reason"])


def scoring_line(run: Run, prompt: Prompt, found: Conversation) -> bytes:
    """Return the input line of a scorer's process for an episode, or an answer of one turn."""
    episode = (
        {EPISODE_KEY: msgspec.to_builtins(found)}
        if run.plays(prompt.task) or found.ended_by is End.FAILED
        else {}
    )
    return json.dumps(
        {
            TEXT_KEY: found.text,
            **episode,
            "task": prompt.task,
            "verification_info": dict(prompt.verification_info),
        }
    ).encode()
