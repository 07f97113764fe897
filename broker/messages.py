"""Define every message that travels between the roles: the contract.

`Prompt` (stream `prompts`) -> `SampledGroup` (stream `rollouts`) -> `ScoredGroup` (stream `scored`) -> the learner's
journal. `DeadLetter` (stream `dead`) from any role. `Announcement` (stream `weights`) from the learner to every
generator. Each message is frozen and keyword-only. Its shape is defined here alone, and in `broker.scores` for the
parts without tokens: field types are the schema that `broker.codec` encodes by and validates on reading.
SCHEMA_VERSION changes with the messages, except for a new field with a default: a writer omits the default, and a
reader of the same schema may not know the field.
"""

# T: tokens of one completion. P: tokens of its prompt.

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct, field
from numpy.typing import NDArray

from broker.scores import End as End
from broker.scores import EnvironmentReward as EnvironmentReward
from broker.scores import FinishReason as FinishReason
from broker.scores import Finite as Finite
from broker.scores import Score as Score
from broker.scores import ScoreStatus as ScoreStatus
from broker.scores import Turn as Turn

# 1 had neither `data_source` nor segments: a completion was its one segment. 2 had one segment a completion, sampled
# and trained whole. Messages that fit schema 2 are still written as 2, so that roles of that version read them.
SCHEMA_VERSION = 3
PLAIN_VERSION = 2
READABLE_VERSIONS = (1, 2, 3)


NO_IDS: NDArray[np.int32] = np.empty(0, np.int32)

# On the wire both are little-endian bytes. Decoded ids are not negative (they would have no embedding), and decoded
# log-probabilities, in nats, are finite.
Ids = NDArray[np.int32]
Logprobs = NDArray[np.float32]
Count = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(gt=0, le=1)]


class JsonObject(Mapping[str, Any]):
    """A mapping that travels as JSON text: msgpack has no integers beyond 64 bits, and some rows have."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)

    @classmethod
    def of_text(cls, text: str) -> JsonObject:
        """Parse JSON text. Raises TypeError, ValueError or RecursionError where it is no such mapping."""
        found = json.loads(text)
        if not isinstance(found, dict):
            raise TypeError(f"expected a JSON object, got {type(found).__name__}")
        return cls(found)

    @property
    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(self._items)


NOTHING = JsonObject({})


class Split(StrEnum):
    """What a group is for."""

    TRAIN = "train"
    EVAL = "eval"


class Span(Struct, frozen=True, kw_only=True, array_like=True):
    """Tokens of one completion that one policy version sampled."""

    version: int  # optimizer steps behind these weights
    first: int  # index of its first token
    count: Count  # number of tokens


class Prompt(Struct, frozen=True, kw_only=True, eq=False, omit_defaults=True):
    """One prompt to be sampled `n` times. Stream `prompts` or `episodes`, learner's feeder -> generators or agents."""

    group_id: str  # ordinal in the run's order of prompts, or eval-VERSION-I
    split: Split
    task: str  # key of `scorers.tasks`
    n: Count  # completions wanted
    floor: int  # lowest policy version that may sample it; set by the script `issue`
    issued_at: Finite  # Unix seconds
    epoch: int  # passes over the data before this one
    row: int  # index of the row in its source
    fingerprint: str  # of the data that the row comes from
    seed: int  # for the sampler
    temperature: Finite  # of the softmax; 0 in a held-out prompt alone: the likeliest token each time
    max_tokens: Count  # longest completion
    messages: tuple[Turn, ...]  # the chat, as people read it
    # [P], P >= 1, chat template applied; never tokenized again. Empty in the stream `episodes`: each episode builds its
    # prompt, and where all episodes begin alike, the agents' result has it here.
    token_ids: Ids
    verification_info: JsonObject  # what the scorer needs: {"type": ..., "answer": {"value": ...}}
    data_source: str = ""  # where the row comes from, as the row names it; "": not named
    columns: JsonObject = NOTHING  # those of `data.columns` that the row has
    top_p: Share = 1.0  # nucleus to sample from, in (0, 1]; below 1 in held-out prompts only

    @property
    def is_greedy(self) -> bool:
        """Whether each token is the likeliest one, so that all completions are equal."""
        return self.temperature == 0


class Segment(Struct, frozen=True, kw_only=True, eq=False):
    """One sequence of a completion: tokens after a prompt, of which the policy sampled some.

    An answer of one turn is one segment, all of it sampled. In a conversation the tokens of a tool's answer are between
    those of two turns: they were not sampled, so no span has them, they do not train, and their log-probability is 0.
    Where the history is rewritten, a new segment begins.
    """

    prompt_ids: Ids  # the model's input; empty: the group's prompt
    token_ids: Ids  # [T], T >= 1; sampled tokens are never tokenized again
    # [T], nats, under the distribution sampled from: at its temperature, and within the nucleus where there is one. For
    # a greedy completion, under the model at temperature 1, since greedy sampling gives each token probability 1.
    logprobs: Logprobs
    policy_spans: tuple[Span, ...] = field(name="spans")  # in order, at least one: the sampled tokens
    # Run lengths that cover all T: tokens that train, tokens that do not, and so on. Only sampled tokens train.
    loss_mask: tuple[int, ...]

    def __post_init__(self) -> None:
        tokens = len(self.token_ids)
        if tokens < 1 or len(self.logprobs) != tokens:
            raise ValueError(f"{tokens} tokens with {len(self.logprobs)} log-probabilities")
        end = 0
        for span in self.policy_spans:
            if span.first < end or span.count < 1:
                raise ValueError(f"spans must follow each other, got {self.policy_spans}")
            end = span.first + span.count
        if not 0 < end <= tokens:
            raise ValueError(f"spans up to token {end} of {tokens}")
        if self.loss_mask != (tokens,) and (
            sum(self.loss_mask) != tokens or min(self.loss_mask[1:], default=1) < 1 or self.loss_mask[0] < 0
        ):
            raise ValueError(f"the loss mask's runs {self.loss_mask} do not cover {tokens} tokens")
        if self.num_sampled < tokens:
            self._check_unsampled()

    def _check_unsampled(self) -> None:
        """Check that tokens nobody sampled have no log-probability and do not train."""
        unsampled = np.ones(len(self.token_ids), bool)
        for span in self.policy_spans:
            unsampled[span.first : span.first + span.count] = False
        if np.any(unsampled & self.trains):
            raise ValueError("tokens that no span has would train")
        if np.any(self.logprobs[unsampled]):
            raise ValueError("log-probabilities of tokens that no span has")

    @property
    def num_sampled(self) -> int:
        """Count the tokens that the policy sampled."""
        count = 0  # a loop, since a generator for one or two spans costs three times as much
        for span in self.policy_spans:
            count += span.count
        return count

    @property
    def last_turn(self) -> int:
        """Return the index of the first token of the last contiguous run of sampled tokens."""
        first = self.policy_spans[-1].first
        for span in reversed(self.policy_spans):
            if span.first + span.count < first:
                break
            first = span.first
        return first

    @property
    def sampled_ids(self) -> NDArray[np.int32]:
        """Return the ids of the tokens that the policy sampled, in order."""
        if self.num_sampled == len(self.token_ids):
            return self.token_ids
        runs = [self.token_ids[span.first : span.first + span.count] for span in self.policy_spans]
        return np.concatenate(runs)

    @property
    def trains(self) -> NDArray[np.bool_]:
        """Return [T], True where a token trains."""
        if len(self.loss_mask) == 1:
            return np.ones(self.loss_mask[0], bool)
        runs = np.arange(len(self.loss_mask)) % 2 == 0
        return np.repeat(runs, self.loss_mask)


class TurnPrompt(Struct, frozen=True, kw_only=True, eq=False, omit_defaults=True):
    """One turn that an episode requests from the policy. In `turns:GROUP`, agents -> generators."""

    token_ids: Ids  # [P], P >= 1: the whole history, in tokens
    max_tokens: Count
    temperature: Finite
    seed: int
    top_p: Share = 1.0
    stop: tuple[str, ...] = ()  # the turn ends with the token that completes one of these in its answer

    def __post_init__(self) -> None:
        if not len(self.token_ids):
            raise ValueError("a prompt has at least one token")


class TurnRecord(Struct, frozen=True, kw_only=True, eq=False):
    """A generator's answer to one `TurnPrompt`. In `turns:GROUP`, generators -> agents; written once."""

    token_ids: Ids  # [T], T >= 1
    logprobs: Logprobs  # [T], as of a `Segment`
    policy_spans: tuple[Span, ...] = field(name="spans")  # in order, covering all T
    finish_reason: FinishReason
    generator: str  # who sampled it
    seconds: Finite

    def __post_init__(self) -> None:
        tokens, end = len(self.token_ids), 0
        if tokens < 1 or len(self.logprobs) != tokens:
            raise ValueError(f"{tokens} tokens with {len(self.logprobs)} log-probabilities")
        for span in self.policy_spans:
            if span.first != end:
                raise ValueError(f"spans must follow each other, got {self.policy_spans}")
            end = span.first + span.count
        if end != tokens:
            raise ValueError(f"spans of {end} of {tokens} tokens")


class Completion(Struct, frozen=True, kw_only=True, eq=False, omit_defaults=True):
    """One sampled answer of a group. Stream `rollouts`, generators -> scorers."""

    segments: tuple[Segment, ...]  # in order, at least one unless it failed
    finish_reason: FinishReason
    text: str  # decoded, for scorers and people; without the final stop token
    # Of an episode:
    messages: tuple[Turn, ...] = ()  # everything after the prompt, tools' answers included
    ended_by: End | None = None
    remark: str = ""  # about its end, for people
    reward: EnvironmentReward | None = None  # of an environment that rewards
    generators: tuple[str, ...] = ()  # that sampled its turns; of an answer: the group's

    def __post_init__(self) -> None:
        if not self.segments and self.ended_by is not End.FAILED:
            raise ValueError("a completion has at least one segment")

    @classmethod
    def of_one_segment(
        cls,
        *,
        token_ids: NDArray[np.int32],
        logprobs: NDArray[np.float32],
        policy_spans: tuple[Span, ...],
        finish_reason: FinishReason,
        text: str,
    ) -> Completion:
        """Make an answer to the group's prompt of which every token trains. Arguments are those of `Segment`."""
        segment = Segment(
            prompt_ids=NO_IDS,
            token_ids=token_ids,
            logprobs=logprobs,
            policy_spans=policy_spans,
            loss_mask=(len(token_ids),),
        )
        return cls(segments=(segment,), finish_reason=finish_reason, text=text)

    @property
    def is_plain(self) -> bool:
        """Whether it is an answer to the group's prompt, sampled in one turn, of which every token trains."""
        is_of_one_turn = not self.messages and self.ended_by is None and self.reward is None
        if len(self.segments) != 1 or not is_of_one_turn:
            return False
        (only,) = self.segments
        tokens = len(only.token_ids)
        return not len(only.prompt_ids) and only.loss_mask == (tokens,) and only.num_sampled == tokens

    @property
    def num_sampled(self) -> int:
        """Count the tokens that the policy sampled, over all segments."""
        count = 0
        for segment in self.segments:
            count += segment.num_sampled
        return count

    @property
    def sampled_ids(self) -> NDArray[np.int32]:
        """Return the ids of the tokens that the policy sampled, segment after segment."""
        if len(self.segments) == 1:
            return self.segments[0].sampled_ids
        return np.concatenate([NO_IDS, *(segment.sampled_ids for segment in self.segments)])

    @property
    def versions(self) -> Iterator[int]:
        """Yield the policy version of each span."""
        return (span.version for segment in self.segments for span in segment.policy_spans)

    @property
    def spans(self) -> Iterator[Span]:
        """Yield the spans of all segments, with positions in the concatenation of their tokens."""
        before = 0
        for segment in self.segments:
            for span in segment.policy_spans:
                yield Span(version=span.version, first=before + span.first, count=span.count)
            before += len(segment.token_ids)


class EpisodeEnd(Struct, frozen=True, kw_only=True, eq=False):
    """How an episode ended. In `turns:GROUP`, after 16 bytes of id; agents write and read it."""

    opening: tuple[Turn, ...]  # the messages it began with, for people
    completion: Completion


class SampledGroup(Struct, frozen=True, kw_only=True, eq=False, omit_defaults=True):
    """A prompt with its completions: the group. Stream `rollouts`, generators -> scorers."""

    prompt: Prompt
    completions: tuple[Completion, ...]  # prompt.n of them
    generator: str  # who sampled it; for episodes the agents' worker that played it
    seconds: Finite  # from lease to result
    sampled_at: Finite = 0.0  # Unix seconds of the result; 0: unknown
    attempts: int = 0  # times that sampling began, the last one included; 0: unknown

    def __post_init__(self) -> None:
        if len(self.completions) != self.prompt.n:
            raise ValueError(f"{len(self.completions)} completions of {self.prompt.n}")
        segments = [segment for completion in self.completions for segment in completion.segments]
        if not segments:
            raise ValueError("no completion has a token")
        # A token before the first sampled one predicts it.
        if not len(self.prompt.token_ids) and not all(len(segment.prompt_ids) for segment in segments):
            raise ValueError("a prompt has at least one token")

    def sampler(self, completion: Completion) -> str:
        """Return the generator that sampled this completion; several names are joined by `+`."""
        return "+".join(completion.generators) or self.generator

    @property
    def min_version(self) -> int:
        """Return the oldest policy version that sampled any token of the group."""
        return min(version for completion in self.completions for version in completion.versions)

    @property
    def max_version(self) -> int:
        """Return the newest policy version that sampled any token of the group."""
        return max(version for completion in self.completions for version in completion.versions)

    @property
    def num_tokens(self) -> int:
        """Count the sampled tokens of all completions."""
        return sum(completion.num_sampled for completion in self.completions)


class ScoredGroup(Struct, frozen=True, kw_only=True, eq=False, omit_defaults=True):
    """A group with its scores. Stream `scored`, scorers -> learner."""

    rollout: SampledGroup
    scores: tuple[Score, ...]  # one a completion
    rewards: tuple[Finite | None, ...]  # the input of the advantage; None where unscorable
    worker: str  # who scored it
    seconds: Finite  # from the start of the work to the result
    scored_at: Finite = 0.0  # Unix seconds of the result; 0: unknown
    attempts: int = 0  # times that scoring began, the last one included; 0: unknown

    def __post_init__(self) -> None:
        if not len(self.rollout.completions) == len(self.scores) == len(self.rewards):
            raise ValueError(
                f"{len(self.rollout.completions)} completions, {len(self.scores)} scores, "
                f"{len(self.rewards)} rewards"
            )

    @property
    def group_id(self) -> str:
        """Return the group's id."""
        return self.rollout.prompt.group_id


class DeadLetter(Struct, frozen=True, kw_only=True, eq=False):
    """A group, or a foreign entry, that could not be processed. Stream `dead`, any role -> learner, operators.

    Its entry is text, except for the payload. A script or a person may have written it.
    """

    group_id: str = field(default="?", name="group")  # "?" for an entry that belongs to no group
    stage: str = "?"  # prompts | episodes | rollouts | scored: the stream it was in
    reason: str = "no reason was written"  # for people
    attempts: int = 0  # times that work on it began
    traceback: str = ""  # the end of it
    original: bytes = field(default=b"", name="payload")  # the payload that could not be processed, whole


class Announcement(Struct, frozen=True, kw_only=True):
    """New weights. Stream `weights`, learner -> every generator. Its entry is text."""

    version: int
    path: str  # folder with model.safetensors
    checksum: str  # of that file, hex, see `broker.checksums`
    size_bytes: int
    announced_at: Finite = field(name="at")  # Unix seconds
