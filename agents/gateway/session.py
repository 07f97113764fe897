"""Answer each call of an episode's agent with a turn of the policy, recorded before the answer.

In: a call in the form of `ApiRequest`. Out: a `PolicyAnswer`, or `CallRefused`. The prompt of a call that continues an
answer is exactly that one's tokens and the rendered rest, so an agent's whole conversation trains as one sequence. At a
limit the policy is not asked, and the agent's last message is not recorded. Belongs to one play of an episode, in the
worker's event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.asking import Asker, EpisodeCounts
from agents.gateway.calls import PlayCalls
from agents.gateway.conversations import PLAIN, BranchPoint, CallPlace, Conversations, cut_at
from agents.gateway.dialects.dialect import (
    ENDED,
    FAILED,
    ApiRequest,
    Begun,
    CallRefused,
    PolicyAnswer,
    TokenUsage,
)
from agents.openings import Openings
from agents.rendering.rendering import Rendering, Unrenderable
from agents.sequences import PolicyTurn
from agents.turns import HasEnded, Superseded, TurnFailed
from broker.messages import NO_IDS, End, FinishReason, Ids
from broker.messages import Turn as Message
from config.episodes.own_loop import AuxiliaryCall
from tasks.turns import POLICY, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLimits:
    """The limits of one episode."""

    turns: int
    turn_tokens: int | None
    first_tokens: int  # of the first prompt
    tokens: int  # of a conversation, after the first prompt


class UnfitEpisode(Exception):
    """The episode can't be played with this row, this model and these tools; the message says why."""


class PlaySession(PlayCalls):
    """The calls of one play of an episode, answered by the policy.

    Args:
        openings: of the group, whose agents usually begin alike.
    """

    def __init__(
        self,
        asker: Asker,
        rendering: Rendering,
        limits: EpisodeLimits,
        counts: EpisodeCounts,
        openings: Openings,
        *,
        model: str,
        created: int,
        beside: Sequence[AuxiliaryCall] = (),
    ) -> None:
        super().__init__(model=model, created=created, beside=beside)
        self._openings = openings
        self._asker, self._rendering, self._limits, self._counts = asker, rendering, limits, counts
        self.conversations = Conversations[PolicyTurn]()

    def count(self, asked: ApiRequest) -> int:
        """Count the tokens of a call's prompt, without requesting or recording anything. Raises CallRefused."""
        try:
            ids, _ = self._prompt(self._found(asked), asked)
        except (Unrenderable, RecursionError) as error:
            raise CallRefused(_reason(error)) from error
        return len(ids)

    async def _answered(self, asked: ApiRequest, begun: Begun) -> PolicyAnswer:
        try:
            return await self._by_the_policy(asked, begun)
        except CallRefused:
            raise
        except (TurnFailed, Superseded, HasEnded) as error:
            self._fail(error)
            reason = f"this episode has ended: {error}" if str(error) else "this episode has ended"
            raise CallRefused(reason, status=ENDED, code="episode_ended") from error
        except (Unrenderable, RecursionError) as error:
            raise CallRefused(_reason(error)) from error
        except Exception as error:
            self._fail(error)
            raise CallRefused("this episode failed", status=FAILED) from error

    async def _by_the_policy(self, asked: ApiRequest, begun: Begun) -> PolicyAnswer:
        found, is_beside = self._found(asked), self._is_beside(asked)
        if not found.since or found.since[-1]["role"] == POLICY:
            raise CallRefused(
                "the last message is the assistant's: the policy answers others", where="messages"
            )
        if (
            found.after is None
            and not found.is_rewritten
            and (why := self._openings.objection(self._rendering, asked.tools))
        ):
            raise self._unfit(why, is_beside=is_beside)
        ids, goes_on = self._prompt(found, asked)
        if not self._asker.asked and len(ids) > self._limits.first_tokens:
            raise self._unfit(
                f"the first prompt has {len(ids)} tokens, more than data.max_prompt_tokens="
                f"{self._limits.first_tokens}",
                is_beside=is_beside,
            )
        self._counts.overridden += bool(asked.overridden)
        self._counts.auxiliary += is_beside
        turn, limit = await self._sampled(asked, found, ids, is_beside=is_beside)
        if turn is None:
            answer = self._at_limit(limit, begun, given=len(ids), is_beside=is_beside)
        else:
            self._note(found, turn, goes_on=goes_on)
            answer = self._said(asked, found, turn, begun, is_beside=is_beside)
        self._keep(asked, answer)
        return answer

    async def _sampled(
        self, asked: ApiRequest, found: CallPlace[PolicyTurn], ids: Ids, *, is_beside: bool
    ) -> tuple[PolicyTurn | None, End]:
        """Return the turn that answers; None where the returned limit is reached."""
        before = self.auxiliary - 1 if is_beside else self._asker.asked
        if before >= self._limits.turns:
            return None, End.TURNS
        room = self._limits.first_tokens + self._limits.tokens - len(ids)
        if room < 1:
            return None, End.CONTEXT
        most = min(room, self._limits.turn_tokens or room, asked.most_tokens or room)
        after = found.after.turn if found.after else None
        turn = await self._asker.sample(ids, most, after=after, stop=asked.stop, trains=not is_beside)
        return turn, End.DEADLINE

    def _note(self, found: CallPlace[PolicyTurn], turn: PolicyTurn, *, goes_on: bool) -> None:
        if goes_on and found.after is not None:
            self._counts.observed += len(turn.prompt_ids) - found.after.turn.length
        elif found.after is not None or found.is_rewritten:
            self._counts.breaks += 1

    def _said(
        self,
        asked: ApiRequest,
        found: CallPlace[PolicyTurn],
        turn: PolicyTurn,
        begun: Begun,
        *,
        is_beside: bool,
    ) -> PolicyAnswer:
        """Keep a turn's message, and return it as shown to the agent."""
        ids, record = turn.prompt_ids, turn.record
        if asked.is_plain:
            text = self._rendering.text(NO_IDS, record.token_ids, record.finish_reason)
            message: Message = {"role": POLICY, "content": text}
        else:
            spoken = self._rendering.message(ids, record.token_ids, record.finish_reason, tools=asked.tools)
            message = spoken.message
        shown, stopped_at = cut_at(message, asked.stop)
        self._counts.calls += len(message.get("tool_calls") or ())
        self.conversations.add(found, turn, message, shown, is_auxiliary=is_beside)
        return _answer(begun, turn, found, shown, stopped_at)

    def _found(self, asked: ApiRequest) -> CallPlace[PolicyTurn]:
        """Return the place of a call. Raises CallRefused."""
        if asked.is_plain:
            return CallPlace(None, asked.messages, PLAIN)
        messages = (*asked.instructions, *self._said_before(asked), *asked.messages)
        return self.conversations.find(messages, asked.tools, asked.stop)

    def _prompt(self, found: CallPlace[PolicyTurn], asked: ApiRequest) -> tuple[Ids, bool]:
        """Return the prompt of a call, and whether it is the continued answer's tokens with a tail."""
        if asked.is_plain:
            return self._rendering.plain(text_of(asked.messages[-1])), False
        if (after := found.after) is None:
            return self._openings.ids(self._rendering, found.history, found.tools), False
        if found.since:
            turn = after.turn
            ids = self._rendering.following(
                turn.prompt_ids,
                turn.record.token_ids,
                turn.record.finish_reason,
                history=after.history,
                said=found.since,
                tools=found.tools,
            )
            if ids is not None:
                return ids, True
        return self._rendering.first(found.history, found.tools), False

    def _unfit(self, reason: str, *, is_beside: bool) -> CallRefused:
        """Return the refusal of an unplayable episode, or of a call outside its task."""
        if not is_beside:
            self._fail(UnfitEpisode(reason))
        return CallRefused(reason, where="messages")


def _answer(
    begun: Begun, turn: PolicyTurn, found: CallPlace[PolicyTurn], shown: Message, stopped_at: str | None
) -> PolicyAnswer:
    record = turn.record
    return PolicyAnswer(
        id=begun.id,
        model=begun.model,
        created=begun.created,
        message=shown,
        is_cut=record.finish_reason is FinishReason.LENGTH and stopped_at is None,
        stopped_at=stopped_at,
        usage=TokenUsage(
            given=len(turn.prompt_ids),
            cached=_common(found.after, turn),
            sampled=len(record.token_ids),
            thought=_thought_tokens(shown, len(record.token_ids)),
        ),
    )


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, Unrenderable) else "the request is nested too deeply"


def _common(after: BranchPoint[PolicyTurn] | None, turn: PolicyTurn) -> int:
    return after.turn.length if after is not None and turn.goes_on(after.turn) else 0


def _thought_tokens(said: Message, tokens: int) -> int:
    """Estimate how many of a message's tokens are its thought, by its share of the characters."""
    thought = len(said.get("reasoning_content") or "")
    calls = sum(len(call["function"]["arguments"]) for call in said.get("tool_calls") or ())
    whole = thought + len(text_of(said)) + calls
    return tokens * thought // whole if whole else 0
