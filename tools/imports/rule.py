"""Define a rule, which translates one key of verl's; the tables of rules are `tools.imports.tables`.

In: the key's value, and all others. Out: a `KeyTranslation`: settings here with words for people, or the reason why
there are none. A rule whose key ends in `*` covers all keys below. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tools.imports.theirs import Theirs, VerlSetting, WrongValue, flag, number, text, whole

ANY: Final = "*"
UNSET: Final = object()  # verl's default does not matter: without the key the meaning here is the same


class KeyVerdict(StrEnum):
    """How a key was translated."""

    TAKEN = "taken as"
    MAPPED = "mapped to"
    NOTHING = "without meaning here"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTranslation:
    """The translation of one key with its value."""

    verdict: KeyVerdict
    settings: Mapping[str, Any] = field(default_factory=dict)  # our keys, with dots
    words: str = ""  # changes, or why there is no setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The translation of one key, option or variable in the sources."""

    said: VerlSetting
    outcome: KeyTranslation


Convert = Callable[[Any, Theirs], KeyTranslation]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRule:
    """The translation of one key of verl's."""

    key: str
    verdict: KeyVerdict  # as shown by `--keys`; a value may still be refused
    ours: str = ""  # keys here, for `--keys`
    about: str  # how the value is converted, or why it is not
    convert: Convert
    default: Any = UNSET  # verl's, where a missing key would mean something else here
    lead: str = ""  # the key whose rule also reads this one's value; "": its own rule sets all
    is_open: bool = False  # for a key that ends in `*`: any name may follow, not only verl's own

    def fits(self, key: str) -> bool:
        """Return whether the rule covers this key."""
        below = self.key.removesuffix(ANY)
        return key == self.key or (below != self.key and (key.startswith(below) or key == below.rstrip(".")))


def settings(words: str = "", **ours: Any) -> KeyTranslation:
    """Map to our keys, with `__` for their dots."""
    return KeyTranslation(
        verdict=KeyVerdict.MAPPED,
        settings={key.replace("__", "."): value for key, value in ours.items()},
        words=words,
    )


def nothing_here(words: str) -> KeyTranslation:
    """Find no meaning for a key here."""
    return KeyTranslation(verdict=KeyVerdict.NOTHING, words=words)


def refused(words: str) -> KeyTranslation:
    """Refuse a value."""
    return KeyTranslation(verdict=KeyVerdict.REFUSED, words=words)


def taken(
    key: str, ours: str, read: Callable[[Any], Any] = text, about: str = "as it is", *, default: Any = UNSET
) -> KeyRule:
    """Take a value unchanged; null leaves ours unset."""

    def convert(value: Any, _theirs: Theirs) -> KeyTranslation:
        if value is None:
            return nothing_here("null: unset here, too")
        return KeyTranslation(verdict=KeyVerdict.TAKEN, settings={ours: read(value)})

    return KeyRule(
        key=key, verdict=KeyVerdict.TAKEN, ours=ours, about=about, convert=convert, default=default
    )


def mapped(
    key: str, ours: str, about: str, convert: Convert, *, default: Any = UNSET, is_open: bool = False
) -> KeyRule:
    """Convert a value."""
    return KeyRule(
        key=key,
        verdict=KeyVerdict.MAPPED,
        ours=ours,
        about=about,
        convert=convert,
        default=default,
        is_open=is_open,
    )


def part_of(
    key: str, lead: str, ours: str, about: str, *, default: Any = UNSET, is_switch: bool = False
) -> KeyRule:
    """Leave a value to another key's rule, which also reads it; if that is a switch, only while it is on."""

    def convert(_value: Any, theirs: Theirs) -> KeyTranslation:
        is_read = not is_switch or theirs.flag(lead)
        return settings(f"with {lead}") if is_read else nothing_here(f"{lead} is off")

    return KeyRule(
        key=key,
        verdict=KeyVerdict.MAPPED,
        ours=ours,
        about=about,
        convert=convert,
        default=default,
        lead=lead,
    )


def nothing(key: str, why: str) -> KeyRule:
    """Find no meaning for a key here, whatever its value."""
    return KeyRule(
        key=key, verdict=KeyVerdict.NOTHING, about=why, convert=lambda _value, _theirs: nothing_here(why)
    )


def only(key: str, why: str, *values: Any, else_: str) -> KeyRule:
    """Find no meaning for some values, and refuse all others with what to do instead."""

    def convert(value: Any, _theirs: Theirs) -> KeyTranslation:
        return nothing_here(why) if value is None or _is_same(value, values) else refused(else_)

    return KeyRule(
        key=key, verdict=KeyVerdict.NOTHING, about=f"{why}; refused otherwise: {else_}", convert=convert
    )


def of_verl(key: str) -> KeyRule:
    """Take a class of verl's own; other classes are unknown here."""

    def convert(value: Any, _theirs: Theirs) -> KeyTranslation:
        if value is None or str(value).startswith("verl."):
            return nothing_here("a class of verl's")
        return refused("a class that is not verl's own: what it does is not here")

    return KeyRule(
        key=key,
        verdict=KeyVerdict.NOTHING,
        about="a class of verl's; refused where it is another one's",
        convert=convert,
    )


def _is_same(value: Any, values: tuple[Any, ...]) -> bool:
    """Compare a value with the possible ones, in any spelling of true, false and numbers."""
    for one in values:
        try:
            if isinstance(one, bool):
                same = flag(value) == one
            elif isinstance(one, int | float):
                same = number(value) == one
            else:
                same = value == one or text(value) == str(one)
        except WrongValue:
            continue
        if same:
            return True
    return False


__all__ = [
    "ANY",
    "UNSET",
    "Account",
    "KeyRule",
    "KeyTranslation",
    "KeyVerdict",
    "flag",
    "mapped",
    "nothing",
    "nothing_here",
    "number",
    "of_verl",
    "only",
    "part_of",
    "refused",
    "settings",
    "taken",
    "text",
    "whole",
]
