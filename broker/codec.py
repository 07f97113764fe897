"""This module turns messages into the fields of stream entries, and back.

The headers of an entry are text, for redis-cli; its field `payload` is msgpack with arrays as raw little-endian bytes.
A token's id and log-probability take 8 bytes; as lists they took 13, and a hundred times as long to decode.
Nothing is ever pickled. A message that can't be read raises BadMessage with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgpack
import numpy as np
from numpy.typing import NDArray

from broker.errors import BadMessage
from broker.messages import (
    PLAIN_VERSION,
    READABLE_VERSIONS,
    SCHEMA_VERSION,
    Announcement,
    DeadLetter,
    Prompt,
    SampledGroup,
    ScoredGroup,
)
from broker.trees import prompt_of, prompt_tree, rollout_of, rollout_tree, scored_of, scored_tree

Fields = dict[str, str | bytes]
Raw = Mapping[bytes, bytes]  # as redis-py hands an entry's fields out
T = TypeVar("T")

LONGEST_SOURCE = (
    60  # characters of a `data_source` that the header shows; a longer one is in the payload alone
)


def encode_prompt(prompt: Prompt) -> Fields:
    """Return the fields of an entry of `prompts`, without `floor` and `policy`: the script `issue` sets those."""
    return {**_header(prompt), "payload": _pack(prompt_tree(prompt, _array))}


def encode_rollout(rollout: SampledGroup) -> Fields:
    """Return the fields of an entry of `rollouts`."""
    return {**_rollout_header(rollout), "payload": _pack(rollout_tree(rollout, _array))}


def encode_scored(group: ScoredGroup) -> Fields:
    """Return the fields of an entry of `scored`."""
    rewards = [reward for reward in group.rewards if reward is not None]
    mean = f"{sum(rewards) / len(rewards):.3f}" if rewards else "unscorable"
    return {**_rollout_header(group.rollout), "reward": mean, "payload": encode_scored_payload(group)}


def encode_scored_payload(group: ScoredGroup) -> bytes:
    """Return the payload of a scored group, without its header."""
    return _pack(scored_tree(group, _array))


def encode_dead(letter: DeadLetter, *, floor: int) -> Fields:
    """Return the fields of an entry of `dead`."""
    return {
        "v": str(PLAIN_VERSION),
        "group": letter.group_id,
        "stage": letter.stage,
        "reason": letter.reason,
        "attempts": str(letter.attempts),
        "floor": str(floor),
        "traceback": letter.traceback,
        "payload": letter.original,
    }


def encode_announcement(announcement: Announcement) -> Fields:
    """Return the fields of an entry of `weights`, which are all text."""
    return {
        "v": str(PLAIN_VERSION),
        "version": str(announcement.version),
        "path": announcement.path,
        "checksum": announcement.checksum,
        "size_bytes": str(announcement.size_bytes),
        "at": f"{announcement.announced_at:.3f}",
    }


def decode_prompt(raw: Raw) -> Prompt:
    """Read a `Prompt` from the fields of an entry. Raises BadMessage."""
    prompt: Prompt = _decode(raw, lambda tree: prompt_of(tree, floor=int(text(raw, "floor"))))
    _check_header(raw, prompt)
    return prompt


def decode_rollout(raw: Raw) -> SampledGroup:
    """Read a `SampledGroup` from the fields of an entry. Raises BadMessage."""
    rollout: SampledGroup = _decode(raw, rollout_of)
    _check_header(raw, rollout.prompt)
    return rollout


def decode_scored(raw: Raw) -> ScoredGroup:
    """Read a `ScoredGroup` from the fields of an entry. Raises BadMessage."""
    group: ScoredGroup = _decode(raw, scored_of)
    _check_header(raw, group.rollout.prompt)
    return group


def decode_rollout_payload(payload: bytes) -> SampledGroup:
    """Read a `SampledGroup` from a dead letter's payload, of any schema that is read. Raises BadMessage."""
    rollout: SampledGroup = _decode({b"v": str(SCHEMA_VERSION).encode(), b"payload": payload}, rollout_of)
    return rollout


def decode_scored_payload(payload: bytes) -> ScoredGroup:
    """Read a `ScoredGroup` from a payload of any schema that is read. Raises BadMessage."""
    group: ScoredGroup = _decode({b"v": str(SCHEMA_VERSION).encode(), b"payload": payload}, scored_of)
    return group


def decode_dead(raw: Raw) -> DeadLetter:
    """Read a `DeadLetter`. It never raises: a letter that can't be read is still a letter."""
    attempts = text(raw, "attempts", "0")
    return DeadLetter(
        group_id=text(raw, "group", "?"),
        stage=text(raw, "stage", "?"),
        reason=text(raw, "reason", "no reason was written"),
        attempts=int(attempts) if attempts.isdecimal() else 0,
        traceback=text(raw, "traceback", ""),
        original=raw.get(b"payload", b""),
    )


def decode_announcement(raw: Raw) -> Announcement:
    """Read an `Announcement` from the fields of an entry. Raises BadMessage."""
    check_version(raw)
    try:
        return Announcement(
            version=int(text(raw, "version")),
            path=text(raw, "path"),
            checksum=text(raw, "checksum"),
            size_bytes=int(text(raw, "size_bytes")),
            announced_at=float(text(raw, "at")),
        )
    except ValueError as error:
        raise BadMessage(f"announcement: {error}") from error


def checked(build: Callable[[], T]) -> T:
    """Return what `build` makes. Raises BadMessage with the reason where `build` fails."""
    try:
        return build()
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        RecursionError,
        msgpack.exceptions.UnpackException,
    ) as error:
        raise BadMessage(f"payload: {type(error).__name__}: {error}") from error


def text(raw: Raw, field: str, default: str | None = None) -> str:
    """Return a header field as text. Raises BadMessage where the field is missing and has no default."""
    value = raw.get(field.encode())
    if value is None:
        if default is None:
            raise BadMessage(f"field {field!r} is missing")
        return default
    return value.decode("utf-8", "replace")


def check_version(raw: Raw) -> None:
    """Check that this program reads the entry's schema. Raises BadMessage, naming all the numbers, else."""
    found = text(raw, "v")
    if found not in map(str, READABLE_VERSIONS):
        known = ", ".join(map(str, READABLE_VERSIONS))
        raise BadMessage(f"schema version {found}, this program reads {known}")


def _check_header(raw: Raw, prompt: Prompt) -> None:
    """Check that header and payload mean the same group: scripts go by the header, the learner by the payload."""
    for field, inside in (("group", prompt.group_id), ("floor", str(prompt.floor))):
        if (outside := text(raw, field)) != inside:
            raise BadMessage(f"the header says {field} {outside!r}, the payload {inside!r}")


def _header(prompt: Prompt) -> Fields:
    source = prompt.data_source
    is_short = 0 < len(source) <= LONGEST_SOURCE and source.isprintable()
    return {
        "v": str(PLAIN_VERSION),
        "group": prompt.group_id,
        "task": prompt.task,
        "split": str(prompt.split),
        "n": str(prompt.n),
        "at": f"{prompt.issued_at:.3f}",
        **({"source": source} if is_short else {}),
    }


def _rollout_header(rollout: SampledGroup) -> Fields:
    oldest, newest = rollout.min_version, rollout.max_version
    is_plain = all(completion.is_plain for completion in rollout.completions)
    return {
        **_header(rollout.prompt),
        "v": str(PLAIN_VERSION if is_plain else SCHEMA_VERSION),
        "floor": str(rollout.prompt.floor),
        "policy": str(oldest) if oldest == newest else f"{oldest}-{newest}",
        "tokens": str(rollout.num_tokens),
    }


def _pack(tree: Any) -> bytes:
    return bytes(msgpack.packb(tree, use_bin_type=True))


def _decode(raw: Raw, build: Any) -> Any:
    check_version(raw)
    payload = raw.get(b"payload")
    if payload is None:
        raise BadMessage("field 'payload' is missing")
    return checked(lambda: build(msgpack.unpackb(payload, raw=False)))


def _array(values: NDArray[Any], dtype: str) -> bytes:
    return np.ascontiguousarray(values, dtype=dtype).tobytes()
