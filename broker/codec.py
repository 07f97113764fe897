"""Messages to stream fields and back.

The headers of an entry are text, for redis-cli; its field `payload` is msgpack with arrays as raw little-endian bytes.
So a token's id and log-probability take 8 bytes; as lists they took 13, and a hundred times as long to decode.
Nothing here is ever pickled. A message that can't be read raises BadMessage, which says why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgpack
import numpy as np
from numpy.typing import NDArray

from broker.errors import BadMessage
from broker.messages import (
    SCHEMA_VERSION,
    Announcement,
    Completion,
    DeadLetter,
    FinishReason,
    Prompt,
    Rollout,
    Score,
    ScoredGroup,
    ScoreStatus,
    Span,
    Split,
)

Fields = dict[str, str | bytes]
Raw = Mapping[bytes, bytes]          # as redis-py hands an entry's fields out
IDS, LOGPROBS = "<i4", "<f4"
Put = Callable[[NDArray[Any], str], Any]        # an array and its type to what stands for it in a tree
Get = Callable[[Any, str], bytes]               # and back
T = TypeVar("T")


def encode_prompt(prompt: Prompt) -> Fields:
    """Fields for `prompts`, without `floor` and `policy`: the script `issue` sets those."""
    return {**_header(prompt), "payload": _pack(_prompt_tree(prompt, _array))}


def encode_rollout(rollout: Rollout) -> Fields:
    """Fields for `rollouts`."""
    return {**_rollout_header(rollout), "payload": _pack(_rollout_tree(rollout, _array))}


def encode_scored(group: ScoredGroup) -> Fields:
    """Fields for `scored`."""
    rewards = [reward for reward in group.rewards if reward is not None]
    mean = f"{sum(rewards) / len(rewards):.3f}" if rewards else "unscorable"
    return {**_rollout_header(group.rollout), "reward": mean, "payload": encode_scored_payload(group)}


def encode_scored_payload(group: ScoredGroup) -> bytes:
    """The payload alone."""
    return _pack(_scored_tree(group, _array))


def silent_tree(group: ScoredGroup, put: Put) -> dict[str, Any]:
    """What msgpack can hold of a group whose arrays lie elsewhere, and whose text nobody needs: the journal's form.

    Args:
        put: stores an array of that type, and returns what stands for it here.
    """
    tree = _scored_tree(group, put)
    for completion in tree["rollout"]["completions"]:
        completion["text"] = ""
    return tree


def group_of(tree: Any, get: Get) -> ScoredGroup:
    """The inverse of `silent_tree`; its completions have no text. Raises BadMessage.

    Args:
        get: the bytes of the array of that type that something stands for; asked in the order in which `put` was.
    """
    def build() -> ScoredGroup:
        for completion in tree["rollout"]["completions"]:
            completion["token_ids"] = get(completion["token_ids"], IDS)
            completion["logprobs"] = get(completion["logprobs"], LOGPROBS)
        prompt = tree["rollout"]["prompt"]
        prompt["token_ids"] = get(prompt["token_ids"], IDS)
        return _scored(tree)
    return _checked(build)


def encode_dead(letter: DeadLetter, *, floor: int) -> Fields:
    """Fields for `dead`."""
    return {"v": str(SCHEMA_VERSION), "group": letter.group_id, "stage": letter.stage, "reason": letter.reason,
            "attempts": str(letter.attempts), "floor": str(floor), "traceback": letter.traceback,
            "payload": letter.original}


def encode_announcement(announcement: Announcement) -> Fields:
    """Fields for `weights`: all of it is text."""
    return {"v": str(SCHEMA_VERSION), "version": str(announcement.version), "path": announcement.path,
            "checksum": announcement.checksum, "size_bytes": str(announcement.size_bytes),
            "at": f"{announcement.announced_at:.3f}"}


def decode_prompt(raw: Raw) -> Prompt:
    """A `Prompt` from the fields of an entry."""
    prompt: Prompt = _decode(raw, lambda tree: _prompt(tree, floor=int(text(raw, "floor"))))
    _check_header(raw, prompt)
    return prompt


def decode_rollout(raw: Raw) -> Rollout:
    """A `Rollout` from the fields of an entry."""
    rollout: Rollout = _decode(raw, _rollout)
    _check_header(raw, rollout.prompt)
    return rollout


def decode_scored(raw: Raw) -> ScoredGroup:
    """A `ScoredGroup` from the fields of an entry."""
    group: ScoredGroup = _decode(raw, _scored)
    _check_header(raw, group.rollout.prompt)
    return group


def decode_rollout_payload(payload: bytes) -> Rollout:
    """A `Rollout` from a dead letter of the stage `rollouts`."""
    rollout: Rollout = _decode({b"v": str(SCHEMA_VERSION).encode(), b"payload": payload}, _rollout)
    return rollout


def decode_scored_payload(payload: bytes) -> ScoredGroup:
    """A `ScoredGroup` from its payload alone."""
    group: ScoredGroup = _decode({b"v": str(SCHEMA_VERSION).encode(), b"payload": payload}, _scored)
    return group


def decode_dead(raw: Raw) -> DeadLetter:
    """A `DeadLetter`. Never raises: a letter that can't be read is still a letter."""
    attempts = text(raw, "attempts", "0")
    return DeadLetter(group_id=text(raw, "group", "?"), stage=text(raw, "stage", "?"),
                      reason=text(raw, "reason", "no reason was written"),
                      attempts=int(attempts) if attempts.isdecimal() else 0,
                      traceback=text(raw, "traceback", ""), original=raw.get(b"payload", b""))


def decode_announcement(raw: Raw) -> Announcement:
    """An `Announcement` from the fields of an entry."""
    check_version(raw)
    try:
        return Announcement(version=int(text(raw, "version")), path=text(raw, "path"), checksum=text(raw, "checksum"),
                            size_bytes=int(text(raw, "size_bytes")), announced_at=float(text(raw, "at")))
    except ValueError as error:
        raise BadMessage(f"announcement: {error}") from error


def text(raw: Raw, field: str, default: str | None = None) -> str:
    """A header field as text. Raises BadMessage where it is missing and has no default."""
    value = raw.get(field.encode())
    if value is None:
        if default is None:
            raise BadMessage(f"field {field!r} is missing")
        return default
    return value.decode("utf-8", "replace")


def check_version(raw: Raw) -> None:
    """Raises BadMessage, naming both numbers, unless the entry is of this schema."""
    found = text(raw, "v")
    if found != str(SCHEMA_VERSION):
        raise BadMessage(f"schema version {found}, this program reads {SCHEMA_VERSION}")


def _check_header(raw: Raw, prompt: Prompt) -> None:
    """The scripts go by the header, and the learner by the payload: they must mean the same group."""
    for field, inside in (("group", prompt.group_id), ("floor", str(prompt.floor))):
        if (outside := text(raw, field)) != inside:
            raise BadMessage(f"the header says {field} {outside!r}, the payload {inside!r}")


def _header(prompt: Prompt) -> Fields:
    return {"v": str(SCHEMA_VERSION), "group": prompt.group_id, "task": prompt.task, "split": str(prompt.split),
            "n": str(prompt.n), "at": f"{prompt.issued_at:.3f}"}


def _rollout_header(rollout: Rollout) -> Fields:
    oldest, newest = rollout.min_version, rollout.max_version
    return {**_header(rollout.prompt), "floor": str(rollout.prompt.floor),
            "policy": str(oldest) if oldest == newest else f"{oldest}-{newest}", "tokens": str(rollout.num_tokens)}


def _pack(tree: Any) -> bytes:
    return bytes(msgpack.packb(tree, use_bin_type=True))


def _decode(raw: Raw, build: Any) -> Any:
    check_version(raw)
    payload = raw.get(b"payload")
    if payload is None:
        raise BadMessage("field 'payload' is missing")
    return _checked(lambda: build(msgpack.unpackb(payload, raw=False)))


def _checked(build: Callable[[], T]) -> T:
    """What `build` makes, or a BadMessage that says why it can't."""
    try:
        return build()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError,
            msgpack.exceptions.UnpackException) as error:
        raise BadMessage(f"payload: {type(error).__name__}: {error}") from error


def _prompt_tree(prompt: Prompt, put: Put) -> dict[str, Any]:
    return {"group_id": prompt.group_id, "split": str(prompt.split), "task": prompt.task, "n": prompt.n,
            "floor": prompt.floor, "issued_at": prompt.issued_at, "epoch": prompt.epoch, "row": prompt.row,
            "fingerprint": prompt.fingerprint, "seed": prompt.seed, "temperature": prompt.temperature,
            "max_tokens": prompt.max_tokens, "messages": [dict(turn) for turn in prompt.messages],
            "token_ids": put(prompt.token_ids, IDS), "verification_info": json.dumps(prompt.verification_info)}


def _prompt(tree: dict[str, Any], *, floor: int | None = None) -> Prompt:
    return Prompt(group_id=_is(tree["group_id"], str), split=Split(tree["split"]), task=_is(tree["task"], str),
                  n=_at_least_one(tree["n"]), floor=_is(tree["floor"], int) if floor is None else floor,
                  issued_at=_number(tree["issued_at"]), epoch=_is(tree["epoch"], int), row=_is(tree["row"], int),
                  fingerprint=_is(tree["fingerprint"], str), seed=_is(tree["seed"], int),
                  temperature=_number(tree["temperature"]),
                  max_tokens=_at_least_one(tree["max_tokens"]),
                  messages=tuple(_is(turn, dict) for turn in tree["messages"]),
                  token_ids=_token_ids(tree["token_ids"], at_least=1),
                  verification_info=_is(json.loads(tree["verification_info"]), dict))


def _rollout_tree(rollout: Rollout, put: Put) -> dict[str, Any]:
    completions = [{"token_ids": put(completion.token_ids, IDS), "logprobs": put(completion.logprobs, LOGPROBS),
                    "spans": [[span.version, span.first, span.count] for span in completion.policy_spans],
                    "finish_reason": str(completion.finish_reason), "text": completion.text}
                   for completion in rollout.completions]
    return {"prompt": _prompt_tree(rollout.prompt, put), "completions": completions, "generator": rollout.generator,
            "seconds": rollout.seconds}


def _rollout(tree: dict[str, Any]) -> Rollout:
    prompt = _prompt(tree["prompt"])
    completions = tuple(
        Completion(token_ids=_token_ids(item["token_ids"]),
                   logprobs=_finite(_from_bytes(item["logprobs"], LOGPROBS)),
                   policy_spans=tuple(Span(version=_is(version, int), first=_is(first, int), count=_is(count, int))
                                      for version, first, count in item["spans"]),
                   finish_reason=FinishReason(item["finish_reason"]), text=_is(item["text"], str))
        for item in tree["completions"])
    if len(completions) != prompt.n:
        raise ValueError(f"{len(completions)} completions of {prompt.n}")
    return Rollout(prompt=prompt, completions=completions, generator=_is(tree["generator"], str),
                   seconds=_number(tree["seconds"]))


def _scored_tree(group: ScoredGroup, put: Put) -> dict[str, Any]:
    return {"rollout": _rollout_tree(group.rollout, put), "scores": [_score_tree(score) for score in group.scores],
            "rewards": list(group.rewards), "worker": group.worker, "seconds": group.seconds}


def _score_tree(score: Score) -> dict[str, Any]:
    return {"status": str(score.status), "value": score.value, "reason": score.reason, "scorer": score.scorer,
            "version": score.version, "seconds": score.seconds, "components": dict(score.components)}


def _scored(tree: dict[str, Any]) -> ScoredGroup:
    scores = tuple(Score(status=ScoreStatus(item["status"]), value=_number_or_none(item["value"]),
                         reason=_is(item["reason"], str), scorer=_is(item["scorer"], str),
                         version=_is(item["version"], str), seconds=_number(item["seconds"]),
                         components={_is(name, str): _number(part) for name, part in item["components"].items()})
                   for item in tree["scores"])
    rewards = tuple(_number_or_none(reward) for reward in tree["rewards"])
    return ScoredGroup(rollout=_rollout(tree["rollout"]), scores=scores, rewards=rewards,
                       worker=_is(tree["worker"], str), seconds=_number(tree["seconds"]))


def _array(values: NDArray[Any], dtype: str) -> bytes:
    return np.ascontiguousarray(values, dtype=dtype).tobytes()


def _from_bytes(raw: Any, dtype: str) -> NDArray[Any]:
    return np.frombuffer(_is(raw, bytes), dtype=dtype)


def _token_ids(raw: Any, *, at_least: int = 0) -> NDArray[Any]:
    """What a step can train on: a negative id has no embedding, and nothing predicts the first token of all."""
    ids = _from_bytes(raw, IDS)
    if len(ids) < at_least:
        raise ValueError(f"{len(ids)} tokens, expected at least {at_least}")
    if len(ids) and ids.min() < 0:
        raise ValueError(f"token id {ids.min()}")
    return ids


def _finite(values: NDArray[Any]) -> NDArray[Any]:
    if not np.isfinite(values).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(values))} of {len(values)} log-probabilities are not finite")
    return values


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"expected a finite number, got {value!r:.40}")
    return float(value)


def _number_or_none(value: Any) -> float | None:
    return None if value is None else _number(value)


def _at_least_one(value: Any) -> int:
    if (count := _is(value, int)) < 1:
        raise ValueError(f"expected at least 1, got {count}")
    return int(count)


def _is(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value
