"""Play one episode with an agent that owns its loop: it calls the policy through the gateway, and decides its end.

In: a group's prompt, the number of the episode, and an attempt at the group. Out: a completion, with the records that
it is made of. The agent runs in a child process, within the section's deadline: it covers the seconds of sampling and
of the agent's own work, and no queue. An agent restarted after a crash that asks the same gets its records.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from agents.asking import Asker, EpisodeCounts, seed_by
from agents.environments.runner import Environments, Episode
from agents.environments.seam import Beginning, EnvironmentFailed, Finish
from agents.episode import EpisodeFailed, reward_of, section_of
from agents.gateway.remote import RemoteEpisode
from agents.gateway.server import Gateway
from agents.gateway.session import EpisodeLimits, PlaySession, UnfitEpisode
from agents.openings import Openings
from agents.rendering.rendering import Rendering
from agents.sequences import segments_of
from agents.turns import HasEnded, Superseded, TurnDesk, TurnFailed
from broker.errors import BadMessage
from broker.messages import NO_IDS, Completion, End, EpisodeEnd, FinishReason, Prompt
from broker.messages import Turn as Message
from broker.protocol.episodes import Attempt
from config.episodes.environment_section import EnvironmentSection
from config.episodes.own_loop import AgentFunctionConfig, AgentSection, PlacedAgentSection, RemoteAgentConfig
from config.run import Run
from tasks.seeds import seed_of
from tasks.turns import text_of

LOOK_EVERY_S: Final = 0.5  # at the clock of the episode
UNCALLED: Final = (
    "the policy was never called: a client takes the base_url and api_key that `{}` is called with; "
)


class AgentPlay:
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
        gateway: Gateway,
        counts: EpisodeCounts,
        openings: Openings,
        is_late: Callable[[], bool],
    ) -> None:
        self._prompt, self._k, self._attempt = prompt, k, attempt
        self._environments, self._gateway, self._counts = environments, gateway, counts
        self._section = section_of(run, prompt.task)
        self._asker = Asker(prompt, k, attempt, desk=desk, counts=counts, is_late=is_late)
        limits = EpisodeLimits(
            turns=self._section.max_turns,
            turn_tokens=self._section.turn_tokens,
            first_tokens=run.data.max_prompt_tokens,
            tokens=prompt.max_tokens,
        )
        self._session = PlaySession(
            self._asker,
            rendering,
            limits,
            counts,
            openings,
            model=run.model.path,
            created=int(prompt.issued_at),
            beside=self._section.auxiliary if isinstance(self._section, AgentSection) else (),
        )
        self._wall_s = run.deadline_of(prompt.task)
        self._reward: float | None = None
        self._answer: str | None = None
        self._overdue = ""  # the message for a play that the agent did not end
        self._is_late = False  # whether the agent's time ran out
        self._range: tuple[float, float] | None = None
        self._most_s = self._section.deadline_s  # of sampling and of the agent's own work
        self._by = f"environment.deadline_s={self._most_s:g}"

    @property
    def used(self) -> dict[str, bytes]:
        """Return the key of each record so far -> the stored record."""
        return self._asker.used

    async def play(self) -> EpisodeEnd:
        """Play the episode to its end.

        Raises:
            EpisodeFailed: the agent or the generators failed.
            Superseded, HasEnded: as `TurnDesk.turn`.
            Disturbed: its child was ended because of another episode.
        """
        playing: Episode | RemoteEpisode | None = None
        finish: Finish | None = None
        broken: EnvironmentFailed | None = None
        try:
            playing = await self._begin()
            finish = await self._ended(playing)
        except asyncio.CancelledError:
            self._session.abandon()  # after the worker's end no call waits for a generator
            raise
        except EnvironmentFailed as error:
            broken = error
        finally:
            if playing is not None:
                await playing.close()
            await self._session.close()
        # Only now is every call answered that belongs to the episode.
        self._raise_failure()
        if broken is not None:
            self._look_at(broken)
        elif finish is not None:
            self._reward, self._answer = finish.reward, finish.answer
        elif isinstance(playing, RemoteEpisode):
            self._reward = playing.reward
            self._overdue += "; no agent elsewhere finished the episode"
        if not self._asker.turns:
            refused = f"; the last was refused: {self._session.refusal}" if self._session.refusal else ""
            beside = f", but for {self._session.auxiliary} beside its task" if self._session.auxiliary else ""
            raise EpisodeFailed(f"the agent ended without a call that the policy answered{beside}{refused}")
        limit = self._session.ended_by or (End.DEADLINE if self._is_late else None)
        remarks = (self._overdue, finish.remark if finish else "")
        return self.as_it_stands(limit or End.MESSAGE, "; ".join(filter(None, remarks)))

    def _look_at(self, broken: EnvironmentFailed) -> None:
        """Ignore the failure of an agent that was told to stop. Raises EpisodeFailed for any other."""
        if broken.is_policys and self._session.ended_by is not None:
            self._overdue = str(broken)
            return
        turns = len(self._asker.turns)
        by = f"{turns} {broken.kind}" if broken.is_policys and turns else ""
        section, hint = self._section, ""
        if broken.is_policys and not turns and isinstance(section, AgentFunctionConfig):
            hint = UNCALLED.format(section.import_path)
        raise EpisodeFailed(f"{hint}{broken}", by=by) from broken

    async def _begin(self) -> Episode | RemoteEpisode:
        playing, beginning = await begun(
            self._section,
            self._prompt,
            self._k,
            token=f"{self._attempt.token}-{self._k}",
            environments=self._environments,
            gateway=self._gateway,
        )
        self._range = beginning.reward_range
        if beginning.deadline_s is not None and beginning.deadline_s < self._most_s:
            self._most_s, self._by = (
                beginning.deadline_s,
                f"its row gives the agent {beginning.deadline_s:g} s",
            )
        return playing

    async def _ended(self, playing: Episode | RemoteEpisode) -> Finish | None:
        """Let the agent run to its end, then have its result judged, where this environment does that."""
        if not isinstance(self._section, PlacedAgentSection) or not isinstance(playing, Episode):
            return await self._driven(playing)
        try:
            await self._driven(playing)
        except EnvironmentFailed as error:
            if not error.is_policys or self._session.ended_by is None:
                raise
            self._overdue = str(error)
        if self._session.failure is not None or not (self._asker.turns or self._is_late):
            return None
        return await playing.judge(self._section.judge_deadline_s)

    async def _driven(self, playing: Episode | RemoteEpisode) -> Finish | None:
        """Let the agent run to its end. None: its time ran out, or the play can't continue."""
        with self._gateway.opened(self._session) as access:
            running = asyncio.create_task(
                playing.run(access.base_url, access.key, self._wall_s, socket=access.socket)
            )
            failed = asyncio.create_task(self._session.failed.wait())
            worked_s, looked = 0.0, time.monotonic()
            try:
                while True:
                    waits = {running, failed}
                    await asyncio.wait(waits, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                    now = time.monotonic()
                    is_idle = self._session.is_at_work or playing.is_waiting
                    worked_s += 0.0 if is_idle else now - looked
                    looked = now
                    if running.done() and not failed.done():
                        self._counts.environment_s += worked_s
                        return running.result()
                    spent_s = self._asker.seconds + worked_s
                    if failed.done() or spent_s > self._most_s:
                        self._is_late = True
                        self._overdue = f"{spent_s:.0f} s at work, and {self._by}"
                        return None
            finally:
                if not running.done() and not isinstance(self._section, PlacedAgentSection):
                    playing.stop()
                for task in (running, failed):
                    task.cancel()
                await asyncio.gather(running, failed, return_exceptions=True)

    def _raise_failure(self) -> None:
        match self._session.failure:
            case None:
                return
            case Superseded() | HasEnded() as error:
                raise error
            case TurnFailed() as error:
                raise EpisodeFailed(str(error)) from error
            case UnfitEpisode() as error:
                raise EpisodeFailed(f"row {self._prompt.row}: {error}", again=False) from error
            case BadMessage() as error:  # no readable record
                raise EpisodeFailed(str(error), again=False) from error
            case error:
                raise error

    def as_it_stands(self, ended_by: End, remark: str = "") -> EpisodeEnd:
        """Return the result of the turns so far: all sampled turns train, and the longest conversation is shown."""
        end = self._session.conversations.longest
        history: tuple[Message, ...] = end.history if end else self._prompt.messages
        begun = end.begun if end else len(history)
        turns = self._asker.turns
        completion = Completion(
            segments=segments_of(turns, NO_IDS) if turns else (),
            finish_reason=FinishReason.LENGTH if ended_by.is_cut else FinishReason.STOP,
            text=self._answer if self._answer is not None else text_of(history[-1]) if end else "",
            messages=history[begun:],
            ended_by=ended_by,
            remark=remark,
            reward=None if ended_by is End.FAILED else reward_of(self._section, [self._reward], self._range),
            generators=tuple(sorted({turn.record.generator for turn in turns})),
        )
        return EpisodeEnd(opening=history[:begun], completion=completion)


async def begun(
    section: EnvironmentSection,
    prompt: Prompt,
    k: int,
    *,
    token: str,
    environments: Environments,
    gateway: Gateway,
) -> tuple[Episode | RemoteEpisode, Beginning]:
    """Begin episode k of a group, in a child process or on another machine.

    Args:
        token: of this attempt, for names of external resources.
    Raises:
        EnvironmentFailed, Disturbed: the episode could not begin.
    """
    own = seed_of(prompt.verification_info)
    seed = prompt.seed if own is None else own
    row = {**prompt.verification_info, **prompt.columns}
    # An agent makes its own first call, with the row's messages or others.
    if isinstance(section, AgentSection):
        row = {"messages": list(prompt.messages), **row}
    if isinstance(section, RemoteAgentConfig) and gateway.remote is not None:
        elsewhere = gateway.remote.episode(
            prompt.task, row, seed=seed, open_deadline_s=section.open_deadline_s
        )
        return elsewhere, Beginning(messages=prompt.messages, tools=(), reward_range=None)
    return await environments.begin(
        prompt.task, row, prompt.messages, seed=seed, own_seed=seed_by(prompt.seed, k), token=token
    )
