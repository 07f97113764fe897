"""Play the episodes of one group, until all have ended and the group is handed over.

In: a leased entry of `episodes`. Out: one entry of `rollouts`, or of `dead`, by one hand-over. Each attempt has its own
token; actions of an older attempt change nothing. Ended episodes are kept between attempts, and recorded turns are
found again, so a worker's death costs no turn. What fails in every attempt is unscorable, unless the policy caused it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from agents.asking import EpisodeCounts
from agents.environments.runner import Environments
from agents.environments.seam import Disturbed
from agents.episode import EpisodeFailed, EpisodePlay, section_of
from agents.openings import Openings
from agents.rendering.rendering import Rendering
from agents.turns import HasEnded, Superseded, TurnDesk
from broker.codec import encode_rollout, pack, unpack
from broker.keys import ROLLOUTS
from broker.messages import NO_IDS, Completion, End, EpisodeEnd, FinishReason, Ids, Prompt, SampledGroup
from broker.protocol.episodes import Attempt, EndState, Episodes, content_of, id_of, with_id
from broker.protocol.leases import Consumer
from broker.protocol.streams import Entry, dead_letter_entry, hand_over
from config.episodes.own_loop import AgentSection
from config.run import PLAY_SHARE, Run

if TYPE_CHECKING:  # they bring an HTTP server, which runs without agents of their own loop need not
    from agents.agent_play import AgentPlay
    from agents.gateway.server import Gateway

    Play = EpisodePlay | AgentPlay

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5  # before an attempt after a failure; doubles each time
MOST_DOUBLINGS = 6
MOST_DISTURBED = (
    8  # plays of one attempt that other episodes disturbed, after which this episode counts as unplayable
)
CRASHES_ALIKE = 2  # equal crashes after which the policy is the cause; fewer where fewer attempts are allowed


class GroupPlay:
    """Play one group.

    Args:
        gateway: for agents that own their loop; None: the run has none.
        in_thread: runs a blocking call outside the event loop.
        counts: of the worker.
        lost_since: returns the seconds since a Unix time in which no process could work.
    """

    def __init__(
        self,
        run: Run,
        consumer: Consumer,
        entry: Entry,
        *,
        episodes: Episodes,
        desk: TurnDesk,
        environments: Environments,
        rendering: Rendering,
        gateway: Gateway | None,
        in_thread: Callable[..., Any],
        counts: EpisodeCounts,
        lost_since: Callable[[float], float],
    ) -> None:
        self._run, self._consumer, self._entry = run, consumer, entry
        self._episodes, self._desk, self._environments = episodes, desk, environments
        self._rendering, self._in_thread, self._counts = rendering, in_thread, counts
        self._gateway = gateway
        self._lost_since = lost_since
        self._most = run.agents.max_attempts
        self._crashes: defaultdict[int, list[str]] = defaultdict(list)  # `EpisodeFailed.by`, by episode
        self._last = ""  # message of the last failure
        self._openings = Openings()
        self._started = time.monotonic()

    async def play(self, prompt: Prompt) -> bool:
        """Play the group to its hand-over. Returns whether the result counted."""
        while True:
            attempt = await self._in_thread(self._episodes.open, self._entry, prompt.n)
            if attempt is None:
                await self._in_thread(self._consumer.let_go, self._entry)
                return False
            there = await self._in_thread(self._episodes.recorded, attempt) if attempt.number > 1 else 0
            try:
                ends = await self._attempt(prompt, attempt)
            except Superseded:
                # Another worker had the group. If it returned to this one, the next lease takes it.
                await self._in_thread(self._consumer.give_up, self._entry)
                return False
            whole = [end for end in ends if end is not None]
            if len(whole) == prompt.n:
                if there:
                    self._say_what_was_kept(
                        attempt, there, await self._in_thread(self._episodes.recorded, attempt), whole
                    )
                if await self._in_thread(self._hand_over, prompt, attempt, whole):
                    return True
            else:
                await asyncio.sleep(FIRST_PAUSE_S * 2 ** min(attempt.number - 1, MOST_DOUBLINGS))

    def _say_what_was_kept(self, attempt: Attempt, there: int, recorded: int, ends: Sequence[bytes]) -> None:
        """Log how many turns of older attempts were used."""
        segments = [one for end in ends for one in unpack(content_of(end), EpisodeEnd).completion.segments]
        used = sum((len(segment.loss_mask) + 1) // 2 for segment in segments)  # runs that train
        log.info(
            "group_replayed group=%s attempts=%d turns=%d recorded=%d before=%d",
            attempt.group_id,
            attempt.number,
            used,
            recorded,
            there,
        )

    async def _attempt(self, prompt: Prompt, attempt: Attempt) -> list[bytes | None]:
        """Play the episodes that have not ended. Returns the stored ends, None where another attempt is needed."""
        tasks = [
            asyncio.create_task(self._one(prompt, attempt, k))
            for k, end in enumerate(attempt.ends)
            if end is None
        ]
        try:
            found = iter(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return [next(found) if end is None else end for end in attempt.ends]

    async def _one(self, prompt: Prompt, attempt: Attempt, k: int) -> bytes | None:
        while True:
            play, ended = await self._played(prompt, attempt, k)
            if ended is None:
                return None
            stored = with_id(pack(ended))
            used = {} if ended.completion.ended_by is End.FAILED else play.used
            match await self._in_thread(self._episodes.end, attempt, k, stored, used):
                case EndState.OK:
                    self._counts.ends[str(ended.completion.ended_by)] += 1
                    return stored
                case EndState.ENDED:
                    return None
                case EndState.GONE:
                    raise Superseded
                case EndState.UNDONE:
                    log.warning(
                        "undone group=%s episode=%d: a turn is not recorded any more", prompt.group_id, k
                    )

    async def _played(self, prompt: Prompt, attempt: Attempt, k: int) -> tuple[Play, EpisodeEnd | None]:
        """Return the last play of an episode, and its end; None: another attempt is needed."""
        failure = EpisodeFailed("it was not played")
        for number in range(1, MOST_DISTURBED + 1):
            play = self._play_of(prompt, attempt, k)
            try:
                return play, self._used_up(prompt, attempt) or await play.play()
            except HasEnded:
                return play, None
            except Disturbed as error:
                log.info("played_again group=%s episode=%d: %s", prompt.group_id, k, error)
                failure = EpisodeFailed(f"{error}; {number} plays in a row ended so")
            except EpisodeFailed as error:
                failure = error
                break
        return play, self._judge(play, attempt, k, failure)

    def _play_of(self, prompt: Prompt, attempt: Attempt, k: int) -> Play:
        if self._gateway is not None and isinstance(section_of(self._run, prompt.task), AgentSection):
            from agents.agent_play import AgentPlay

            return AgentPlay(
                self._run,
                prompt,
                k,
                attempt,
                desk=self._desk,
                environments=self._environments,
                rendering=self._rendering,
                gateway=self._gateway,
                counts=self._counts,
                openings=self._openings,
                is_late=lambda: self._is_late(prompt),
            )
        return EpisodePlay(
            self._run,
            prompt,
            k,
            attempt,
            desk=self._desk,
            environments=self._environments,
            rendering=self._rendering,
            counts=self._counts,
            openings=self._openings,
            is_late=lambda: self._is_late(prompt),
        )

    def _is_late(self, prompt: Prompt) -> bool:
        """Return whether the group's deadline has passed, in working time since its issue, as the learner counts it."""
        age = time.time() - prompt.issued_at
        return age - self._lost_since(prompt.issued_at) > PLAY_SHARE * self._run.deadline_of(prompt.task)

    def _used_up(self, prompt: Prompt, attempt: Attempt) -> EpisodeEnd | None:
        """Return a failure where too many earlier attempts recorded nothing.

        A worker's death does not count after attempts that made progress: those workers die of other causes.
        """
        if attempt.in_vain <= self._most:
            return None
        last = f"; the last failure: {self._last}" if self._last else ""
        remark = f"agents began this group {attempt.in_vain - 1} times in a row without a turn or an end more{last}"
        failed = Completion(
            segments=(), finish_reason=FinishReason.STOP, text="", ended_by=End.FAILED, remark=remark
        )
        return EpisodeEnd(opening=prompt.messages, completion=failed)

    def _judge(self, play: Play, attempt: Attempt, k: int, error: EpisodeFailed) -> EpisodeEnd | None:
        """Return the end of a failed episode; None: another attempt is made."""
        crashes = self._crashes[k]
        crashes.append(error.by)
        self._last = str(error)
        lines = str(error).splitlines()
        times = self._counts.add_failure(lines[0])
        is_power_of_two = not times & (times - 1)  # warn each time that it has doubled
        log.log(
            logging.WARNING if is_power_of_two else logging.INFO,
            "episode_failed group=%s episode=%d attempt=%d times=%d reason=%s%s",
            attempt.group_id,
            k,
            attempt.number,
            times,
            lines[0],
            f" ... {lines[-1]}" if lines[-1] not in lines[0] else "",
        )
        if error.again and len(crashes) < self._most:
            return None
        is_policys = error.by and len(set(crashes)) == 1 and len(crashes) >= min(CRASHES_ALIKE, self._most)
        if is_policys and self._run.agents.on_repeated_crash == "score":
            return play.as_it_stands(End.CRASH, str(error))
        return play.as_it_stands(End.FAILED, str(error))

    def _hand_over(self, prompt: Prompt, attempt: Attempt, ends: Sequence[bytes]) -> bool:
        """Build the group's completions and hand them over. False: the attempt is not the newest, or an end is lost."""
        found = [unpack(content_of(end), EpisodeEnd) for end in ends]
        if not any(end.completion.segments for end in found):
            reason = f"no episode could be played: {found[0].completion.remark}"
            counted = self._dead_letter_entry(reason, attempt)
        else:
            group = self._group(prompt, attempt, found)
            counted = hand_over(
                self._consumer.link,
                self._consumer.keys,
                self._entry,
                ROLLOUTS,
                encode_rollout(group),
                attempt=attempt.token,
                ends=list(map(id_of, ends)),
            )
        if counted:
            self._consumer.release(self._entry)
        return counted

    def _dead_letter_entry(self, reason: str, attempt: Attempt) -> bool:
        consumer = self._consumer
        return dead_letter_entry(
            consumer.link,
            consumer.keys,
            self._entry,
            reason=reason,
            attempts=attempt.number,
            attempt=attempt.token,
        )

    def _group(self, prompt: Prompt, attempt: Attempt, ends: Sequence[EpisodeEnd]) -> SampledGroup:
        """Return the group. Where all episodes begin alike, their common prompt is the group's prompt.

        Episodes that never began are ignored for that.
        """
        openings = [end.opening for end in ends if end.completion.segments]
        completions = [end.completion for end in ends]
        firsts = [one.segments[0].prompt_ids for one in completions if one.segments]
        if all(np.array_equal(firsts[0], other) for other in firsts):
            prompt = replace(prompt, token_ids=firsts[0])
            completions = [_behind(firsts[0], one) for one in completions]
        if all(opening == openings[0] for opening in openings):
            prompt = replace(prompt, messages=openings[0])
        return SampledGroup(
            prompt=prompt,
            completions=tuple(completions),
            generator=self._consumer.worker,
            seconds=time.monotonic() - self._started,
            sampled_at=time.time(),
            attempts=attempt.number,
        )


def _behind(prompt_ids: Ids, completion: Completion) -> Completion:
    """Return a completion whose segments do not repeat the group's prompt."""
    segments = tuple(
        replace(segment, prompt_ids=NO_IDS) if np.array_equal(segment.prompt_ids, prompt_ids) else segment
        for segment in completion.segments
    )
    return replace(completion, segments=segments)
