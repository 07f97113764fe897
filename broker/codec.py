"""Encode messages as the fields of stream entries, and decode them.

The headers of an entry are text, for redis-cli; its field `payload` is msgpack with arrays as raw little-endian bytes.
A token's id and log-probability take 8 bytes; as lists they took 13, and decoding took a hundred times as long. msgspec
encodes, decodes and validates by the field types of `broker.messages` in one pass. Nothing is pickled. A message that
can't be read raises BadMessage with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace
from numpy.typing import NDArray

from broker.errors import BadMessage, NewerSchema
from broker.messages import (
    PLAIN_VERSION,
    READABLE_VERSIONS,
    SCHEMA_VERSION,
    Announcement,
    DeadLetter,
    Ids,
    JsonObject,
    Logprobs,
    Prompt,
    SampledGroup,
    ScoredGroup,
)

Fields = dict[str, str | bytes]
Raw = Mapping[bytes, bytes]  # the fields of an entry, as redis-py returns them
T = TypeVar("T")
Put = Callable[[NDArray[Any]], Any]  # encodes an array, little-endian, for a payload
Get = Callable[[Any, str], NDArray[Any]]  # decodes an array from its encoded form and its type

IDS, LOGPROBS = "<i4", "<f4"
LONGEST_SOURCE = 60  # characters of `data_source` in the header; a longer one is in the payload alone


def bytes_of(array: NDArray[Any]) -> bytes:
    """Return the encoded form of an array."""
    return array.tobytes()


def array_of(raw: Any, dtype: str) -> NDArray[Any]:
    """Return the decoded array."""
    if not isinstance(raw, bytes):
        raise TypeError(f"expected bytes, got {type(raw).__name__}")
    return np.frombuffer(raw, dtype)


def pack(message: Any, put: Put = bytes_of) -> bytes:
    """Return a message's payload: its fields by name in their order, each array encoded by `put`."""

    def stand_in(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return put(value.astype(LOGPROBS if value.dtype.kind == "f" else IDS, copy=False))
        if isinstance(value, JsonObject):
            return value.text
        raise TypeError(f"no message holds a {type(value).__name__}")

    return msgspec.msgpack.encode(message, enc_hook=stand_in)


def unpack(payload: bytes, kind: type[T], get: Get = array_of) -> T:
    """Decode the payload of a message, of any supported schema. Raises BadMessage.

    Args:
        get: decodes the arrays, called in the order of the fields.
    """
    read = _reader(get)

    def attempt() -> T:
        try:
            return msgspec.msgpack.decode(payload, type=kind, dec_hook=read)
        except msgspec.ValidationError:
            tree = msgspec.msgpack.decode(payload)
            if not _upgrade(tree):
                raise
            return msgspec.convert(tree, kind, dec_hook=read)

    return checked(attempt)


def built(tree: Any, kind: type[T]) -> T:
    """Build a message from its decoded payload of mappings and lists. Raises BadMessage."""
    return checked(lambda: msgspec.convert(tree, kind, dec_hook=_reader(array_of)))


def _reader(get: Get) -> Callable[[Any, Any], Any]:
    """Return the hook that decodes the field types msgspec does not know."""

    def read(kind: Any, raw: Any) -> Any:
        if kind == Ids:
            return _non_negative(get(raw, IDS))
        if kind == Logprobs:
            return _finite(get(raw, LOGPROBS))
        if not isinstance(raw, str):
            raise TypeError(f"expected JSON text, got {type(raw).__name__}")
        return JsonObject.of_text(raw)

    return read


def _non_negative(ids: NDArray[Any]) -> NDArray[Any]:
    if len(ids) and ids.min() < 0:
        raise ValueError(f"token id {ids.min()}")
    return ids


def _finite(values: NDArray[Any]) -> NDArray[Any]:
    if not np.isfinite(values).all():
        raise ValueError(
            f"{np.count_nonzero(~np.isfinite(values))} of {len(values)} log-probabilities are not finite"
        )
    return values


def _upgrade(tree: Any) -> bool:
    """Convert a group's payload from schema 1 to schema 3 in place; False where it is not schema 1.

    In schema 1 a completion had the fields of its one segment, of which every token trained.
    """
    rollout = tree.get("rollout", tree) if isinstance(tree, dict) else None
    completions = rollout.get("completions") if isinstance(rollout, dict) else None
    if not isinstance(completions, list) or any("token_ids" not in item for item in completions):
        return False
    for item in completions:
        tokens = len(item["token_ids"]) // np.dtype(IDS).itemsize
        item["segments"] = [{**item, "prompt_ids": b"", "loss_mask": [tokens]}]
    return True


def encode_prompt(prompt: Prompt) -> Fields:
    """Return the fields of an entry of `prompts`, without `floor` and `policy`, which the script `issue` sets."""
    return {**_header(prompt), "payload": pack(prompt)}


def encode_rollout(rollout: SampledGroup) -> Fields:
    """Return the fields of an entry of `rollouts`."""
    return {**_rollout_header(rollout), "payload": pack(rollout)}


def encode_scored(group: ScoredGroup) -> Fields:
    """Return the fields of an entry of `scored`."""
    rewards = [reward for reward in group.rewards if reward is not None]
    mean = f"{sum(rewards) / len(rewards):.3f}" if rewards else "unscorable"
    return {**_rollout_header(group.rollout), "reward": mean, "payload": pack(group)}


def encode_dead(dead_letter: DeadLetter, *, floor: int) -> Fields:
    """Return the fields of an entry of `dead`."""
    return {"v": str(PLAIN_VERSION), "floor": str(floor), **_texts(dead_letter)}


def encode_announcement(announcement: Announcement) -> Fields:
    """Return the fields of an entry of `weights`, which are all text."""
    return {"v": str(PLAIN_VERSION), **_texts(announcement)}


def _texts(message: Struct) -> Fields:
    """Return the fields of an entry that has only text and bytes; times in milliseconds."""
    fields: Fields = {}
    for name, value in zip(message.__struct_encode_fields__, astuple(message), strict=True):
        if isinstance(value, bytes):
            fields[name] = value
        else:
            fields[name] = f"{value:.3f}" if isinstance(value, float) else str(value)
    return fields


def decode_prompt(raw: Raw) -> Prompt:
    """Read a `Prompt` from the fields of an entry. Raises BadMessage."""
    prompt = _payload_in(raw, Prompt)
    prompt = checked(lambda: replace(prompt, floor=int(text(raw, "floor"))))
    _check_header(raw, prompt)
    return prompt


def decode_rollout(raw: Raw) -> SampledGroup:
    """Read a `SampledGroup` from the fields of an entry. Raises BadMessage."""
    rollout = _payload_in(raw, SampledGroup)
    _check_header(raw, rollout.prompt)
    return rollout


def decode_scored(raw: Raw) -> ScoredGroup:
    """Read a `ScoredGroup` from the fields of an entry. Raises BadMessage."""
    group = _payload_in(raw, ScoredGroup)
    _check_header(raw, group.rollout.prompt)
    return group


def decode_dead(raw: Raw) -> DeadLetter:
    """Read a `DeadLetter`. Never raises: an unreadable dead letter is still a dead letter."""
    said = {name: text(raw, name) for name in DeadLetter.__struct_encode_fields__ if name.encode() in raw}
    attempts = said.pop("attempts", "")
    if attempts.isdecimal() and len(attempts) < 10:
        said["attempts"] = attempts
    tree = {**said, "payload": raw.get(b"payload", b"")}
    return msgspec.convert(tree, DeadLetter, strict=False)


def decode_announcement(raw: Raw) -> Announcement:
    """Read an `Announcement` from the fields of an entry. Raises BadMessage."""
    check_version(raw)
    said = {name: text(raw, name) for name in Announcement.__struct_encode_fields__}
    return checked(lambda: msgspec.convert(said, Announcement, strict=False), "announcement")


def checked(build: Callable[[], T], what: str = "payload") -> T:
    """Return the result of `build`. Raises BadMessage with the reason where `build` fails."""
    try:
        return build()
    except (
        msgspec.MsgspecError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        kind = "" if isinstance(error, msgspec.MsgspecError) else f"{type(error).__name__}: "
        raise BadMessage(f"{what}: {kind}{error}") from error


def text(raw: Raw, field: str, default: str | None = None) -> str:
    """Return a header field as text. Raises BadMessage where the field is missing and has no default."""
    value = raw.get(field.encode())
    if value is None:
        if default is None:
            raise BadMessage(f"field {field!r} is missing")
        return default
    return value.decode("utf-8", "replace")


def check_version(raw: Raw) -> None:
    """Check that this program reads the entry's schema. Raises BadMessage, naming the numbers.

    Raises:
        NewerSchema: a newer version of this program wrote the entry and can read it.
    """
    found = text(raw, "v")
    if found in map(str, READABLE_VERSIONS):
        return
    is_newer = found.isdecimal() and len(found) < 10 and int(found) > SCHEMA_VERSION
    known = ", ".join(map(str, READABLE_VERSIONS))
    raise (NewerSchema if is_newer else BadMessage)(f"schema version {found}, this program reads {known}")


def _check_header(raw: Raw, prompt: Prompt) -> None:
    """Check that header and payload name the same group: scripts use the header, the learner the payload."""
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


def _payload_in(raw: Raw, kind: type[T]) -> T:
    check_version(raw)
    payload = raw.get(b"payload")
    if payload is None:
        raise BadMessage("field 'payload' is missing")
    return unpack(payload, kind)
