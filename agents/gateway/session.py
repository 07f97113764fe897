"""The calls of one episode's agent: each is answered by a turn of the policy, and recorded before it is answered.

In: a call in the form of `Asked`. Out: an `Answer`, or `Refused`. A call that goes on from an answer is given just that
one's tokens and the rendered rest, so an agent's whole conversation trains as one sequence. A client that tries again,
and says so, gets the answer that its call had. A call whose client went away is waited for all the same: what was asked
is part of the episode. At a limit the policy says no more: the agent is told so in its own API, which is not recorded,
and ends; one that goes on and on is refused. Belongs to one play of an episode, in the worker's event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agents.asking import Asker, Counts
from agents.gateway.conversations import PLAIN, Conversations, Found, Place
from agents.gateway.dialects.dialect import ENDED, FAILED, Answer, Asked, Begun, Refused, Usage
from agents.rendering.rendering import Rendering, Unrenderable
from agents.sequences import Turn
from agents.turns import HasEnded, Superseded, TurnFailed
from broker.messages import NO_IDS, End, FinishReason, Ids
from broker.messages import Turn as Message
from tasks.turns import POLICY, text_of

LIMITS: Final = {
    End.TURNS: "This episode's turns are used up. Stop here.",
    End.CONTEXT: "The context of this episode is full. Stop here.",
    End.DEADLINE: "The time of this episode is over. Stop here.",
}
MOST_BEHIND_END: Final = 16  # calls at a limit that are told so; further ones are refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one episode may use."""

    turns: int
    turn_tokens: int | None
    first_tokens: int  # of the first prompt
    tokens: int  # of a conversation, behind the first prompt


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of an agent."""

    begun: Begun
    answer: asyncio.Task[Answer]  # or `Refused`; whoever waits for it leaves it running


class Unfit(Exception):
    """The episode can't be played with this row, this model and these tools; the message says why."""


class Session:
    """The calls of one play of an episode.

    Args:
        model: the name that answers say.
        created: the Unix time that answers say; the same in each play.
    Attributes:
        failure: what ended the play, for whoever drives it; None: nothing has.
        refusal: why a call was refused last; "": none was.
        ended_by: the limit that the policy ran into; None: none yet.
    """

    def __init__(
        self, asker: Asker, rendering: Rendering, limits: Limits, counts: Counts, *, model: str, created: int
    ) -> None:
        self._asker, self._rendering, self._limits, self._counts = asker, rendering, limits, counts
        self._model, self._created = model, created
        self.conversations = Conversations()
        self._calls: dict[bytes, Call] = {}  # the last call of this digest
        self._begun: Counter[bytes] = Counter()  # calls, by digest
        self._out: set[asyncio.Task[Answer]] = set()
        self._kept: dict[str, tuple[Message, ...]] = {}  # by an answer's id: all messages up to it, as shown
        self._told = 0  # calls that were told of a limit
        self.refusal = ""
        self.failure: Exception | None = None
        self.failed = asyncio.Event()
        self.ended_by: End | None = None
        self._is_closed = False

    @property
    def is_at_work(self) -> bool:
        """Whether a call is out: the agent waits for the policy."""
        return bool(self._out)

    def call(self, asked: Asked, digest: bytes, *, is_retry: bool) -> Call:
        """Begin to answer a call, or find the one that a client tries again.

        Args:
            digest: of the request.
            is_retry: whether its client says that it tries again.
        Raises:
            Refused: the episode has ended.
        """
        if is_retry and digest in self._calls:
            return self._calls[digest]
        if self._is_closed or self.failure is not None:
            raise Refused("this episode has ended", status=ENDED, code="episode_ended")
        self._begun[digest] += 1
        name = hashlib.blake2b(digest + b"%d" % self._begun[digest], digest_size=16).hexdigest()
        begun = Begun(id=name, model=self._model, created=self._created)
        call = self._calls[digest] = Call(begun, asyncio.create_task(self._answered(asked, begun)))
        self._out.add(call.answer)
        call.answer.add_done_callback(self._is_done)
        return call

    def count(self, asked: Asked) -> int:
        """Count the tokens that a call would be given. Nothing is asked, or recorded. Raises Refused."""
        try:
            ids, _ = self._prompt(self._found(asked), asked)
        except (Unrenderable, RecursionError) as error:
            raise Refused(_reason(error)) from error
        return len(ids)

    async def close(self) -> None:
        """Take no more calls, and wait for those that are out; where the play failed nobody needs them."""
        self._is_closed = True
        if self.failure is not None:
            self.abandon()
        if self._out:
            await asyncio.wait(self._out)

    def abandon(self) -> None:
        """Take no more calls, and wait for none. What was asked is sampled, and found by the next play."""
        self._is_closed = True
        for task in self._out:
            task.cancel()

    def _is_done(self, task: asyncio.Task[Answer]) -> None:
        self._out.discard(task)
        error = None if task.cancelled() else task.exception()  # asked for, though no client may be left
        if error is not None:
            self.refusal = str(error)

    async def _answered(self, asked: Asked, begun: Begun) -> Answer:
        try:
            return await self._by_the_policy(asked, begun)
        except Refused:
            raise
        except (TurnFailed, Superseded, HasEnded) as error:
            self._fail(error)
            reason = f"this episode has ended: {error}" if str(error) else "this episode has ended"
            raise Refused(reason, status=ENDED, code="episode_ended") from error
        except (Unrenderable, RecursionError) as error:
            raise Refused(_reason(error)) from error
        except Exception as error:
            self._fail(error)
            raise Refused("this episode failed", status=FAILED) from error

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.failed.set()

    async def _by_the_policy(self, asked: Asked, begun: Begun) -> Answer:
        found = self._found(asked)
        if not found.since or found.since[-1]["role"] == POLICY:
            raise Refused("the last message is the assistant's: the policy answers others", where="messages")
        if found.after is None and not found.is_rewritten and (why := self._rendering.objection(asked.tools)):
            raise self._unfit(why)
        ids, goes_on = self._prompt(found, asked)
        if not self._asker.asked and len(ids) > self._limits.first_tokens:
            raise self._unfit(
                f"the first prompt has {len(ids)} tokens, more than data.max_prompt_tokens="
                f"{self._limits.first_tokens}"
            )
        turn, limit = await self._sampled(asked, found, ids)
        if turn is None:
            answer = self._at_limit(limit, ids, begun)
        else:
            self._note(found, turn, goes_on=goes_on)
            answer = self._said(asked, found, turn, begun)
        if asked.is_kept:
            self._kept[answer.id] = (*self._said_before(asked), *asked.messages, answer.message)
        return answer

    async def _sampled(self, asked: Asked, found: Found, ids: Ids) -> tuple[Turn | None, End]:
        """Return the turn that answers; None where the limit beside it is reached."""
        if self._asker.asked >= self._limits.turns:
            return None, End.TURNS
        room = self._limits.first_tokens + self._limits.tokens - len(ids)
        if room < 1:
            return None, End.CONTEXT
        most = min(room, self._limits.turn_tokens or room, asked.most_tokens or room)
        turn = await self._asker.sample(ids, most, after=found.after.turn if found.after else None)
        return turn, End.DEADLINE

    def _note(self, found: Found, turn: Turn, *, goes_on: bool) -> None:
        if goes_on and found.after is not None:
            self._counts.observed += len(turn.prompt_ids) - found.after.turn.length
        elif found.after is not None or found.is_rewritten:
            self._counts.breaks += 1

    def _said(self, asked: Asked, found: Found, turn: Turn, begun: Begun) -> Answer:
        """Keep what a turn says, and return it as the agent is shown it."""
        ids, record = turn.prompt_ids, turn.record
        if asked.is_plain:
            text = self._rendering.text(NO_IDS, record.token_ids, record.finish_reason)
            message: Message = {"role": POLICY, "content": text}
        else:
            spoken = self._rendering.message(ids, record.token_ids, record.finish_reason, tools=asked.tools)
            message = spoken.message
        shown, stopped_at = _cut(message, asked.stop)
        self._counts.calls += len(message.get("tool_calls") or ())
        self.conversations.add(found, turn, message, shown)
        return _answer(begun, turn, found, shown, stopped_at)

    def _found(self, asked: Asked) -> Found:
        """Return where a call stands. Raises Refused."""
        if asked.is_plain:
            return Found(None, asked.messages, PLAIN)
        messages = (*asked.instructions, *self._said_before(asked), *asked.messages)
        return self.conversations.find(messages, asked.tools)

    def _said_before(self, asked: Asked) -> tuple[Message, ...]:
        """Return what was said up to the answer that a call names. Raises Refused."""
        if not asked.previous:
            return ()
        if (found := self._kept.get(asked.previous)) is None:
            raise Refused(
                "previous_response_id names no response of this episode that was stored",
                code="previous_response_not_found",
                where="previous_response_id",
            )
        return found

    def _prompt(self, found: Found, asked: Asked) -> tuple[Ids, bool]:
        """Return the ids of a call, and whether they are those of the answer that it goes on from, and a tail."""
        if asked.is_plain:
            return self._rendering.plain(text_of(asked.messages[-1])), False
        if (after := found.after) is not None and found.since:
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

    def _unfit(self, reason: str) -> Refused:
        """Return the refusal of an episode that can't be played at all."""
        self._fail(Unfit(reason))
        return Refused(reason, where="messages")

    def _at_limit(self, limit: End, ids: Ids, begun: Begun) -> Answer:
        """Tell the agent of a limit, in a last message. Raises Refused for one that does not end by it."""
        self.ended_by = self.ended_by or limit
        self._told += 1
        if self._told > MOST_BEHIND_END:
            raise Refused(f"{LIMITS[limit]} This was said before.", status=ENDED, code="episode_ended")
        return Answer(
            id=begun.id,
            model=begun.model,
            created=begun.created,
            message={"role": "assistant", "content": LIMITS[limit]},
            is_cut=False,
            stopped_at=None,
            usage=Usage(given=len(ids), cached=0, sampled=0),
        )


def _answer(begun: Begun, turn: Turn, found: Found, shown: Message, stopped_at: str | None) -> Answer:
    record = turn.record
    return Answer(
        id=begun.id,
        model=begun.model,
        created=begun.created,
        message=shown,
        is_cut=record.finish_reason is FinishReason.LENGTH and stopped_at is None,
        stopped_at=stopped_at,
        usage=Usage(
            given=len(turn.prompt_ids),
            cached=_common(found.after, turn),
            sampled=len(record.token_ids),
            thought=_thought_tokens(shown, len(record.token_ids)),
        ),
    )


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, Unrenderable) else "the request is nested too deeply"


def _common(after: Place | None, turn: Turn) -> int:
    return after.turn.length if after is not None and turn.goes_on(after.turn) else 0


def _thought_tokens(said: Message, tokens: int) -> int:
    """Return about how many of a message's tokens are its thought: by its share of the characters."""
    thought = len(said.get("reasoning_content") or "")
    calls = sum(len(call["function"]["arguments"]) for call in said.get("tool_calls") or ())
    whole = thought + len(text_of(said)) + calls
    return tokens * thought // whole if whole else 0


def _cut(said: Message, stops: Sequence[str]) -> tuple[Message, str | None]:
    """Return a message up to the first stop sequence in its text, and that sequence; the record stays whole."""
    text = text_of(said)
    places = [(at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    if not places:
        return said, None
    at, stop = min(places)
    return {name: one for name, one in said.items() if name != "tool_calls"} | {"content": text[:at]}, stop
