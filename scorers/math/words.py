r"""Answers in words: the letters of a choice, prose, and times of day.

In: an answer and a reference in plain LaTeX (`scorers.math.notation.plain`). Out: whether they say the same; None
where one of them is no such answer. Nothing is computed. Pure functions on texts of at most a few hundred characters;
a longer one is none of these.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from scorers.math.doubts import doubts

_MOST_CHARS: Final = 300
_MACRO: Final = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|up|md|sl|sc|normal)?|math(?:rm|bf|it|sf)|mbox|emph|operatorname)\s*\{([^{}]*)\}"
)
_ONE: Final = r"(?:\([A-J]\)|[A-J])"
_NAMED: Final = r"(?i:(?:the\s+)?(?:correct\s+)?(?:answer|option|choice)s?\s*(?:is|are|:)?\s*)?"
_CHOICE: Final = re.compile(
    rf"{_NAMED}(?:\(([A-J])\)[.:]?(?=\s|\Z)|([A-J])(?:[).](?=\s|\Z)|\Z))\s*(.*)", re.DOTALL
)
_CHOICES: Final = re.compile(rf"{_NAMED}{_ONE}(?:(?:\s*[,;]\s*(?:and\s+)?|\s+and\s+|\s*\\?&\s*){_ONE})+\.?")
_RUN: Final = re.compile(r"[A-J]{2,6}")
_LETTER: Final = re.compile(r"(?<![A-Za-z])[A-J](?![A-Za-z])")
_SECOND_ANSWER: Final = re.compile(  # what no value beside a letter has: another letter, or a word that takes it back
    r"(?<![A-Za-z\\])[A-J]{1,5}(?![A-Za-z])|\(\s*[A-Za-z]\s*\)|\?"
    r"|(?i:\b(?:or|and|not|nor|either|both|all|any|every|other|another|maybe|perhaps|possibly|probably|but|else"
    r"|except|unless|if|vs|versus|wrong|incorrect|unsure)\b)"
)
_VERDICT: Final = re.compile(
    r"[\s,;:(-]*(?:which\s+|that\s+|it\s+)?(?:is|was|isn|can|cannot(?!\s+be\s+determined)|does|seems|looks|would|will)\b",
    re.IGNORECASE,
)
_ARTICLE: Final = re.compile(r"(?:an?|the)\s+")
_PROSE: Final = re.compile(r"[A-Za-z]+(?:[ '-]+[A-Za-z]+)*")
_FEWEST_LETTERS: Final = 3  # of a word whose case is no matter; `AB` and `ab` are two products
_SHORT_WORDS: Final = frozenset({"no"})
_TIME: Final = re.compile(
    r"(?:at\s+)?([0-9]{1,2})(?:\s*:\s*([0-9]{2}))?\s*(?:([ap])\.?\s*m\b\.?|(noon|midnight))", re.IGNORECASE
)
_CLOCK: Final = re.compile(r"([0-9]{2})\s*:\s*([0-9]{2})")
_HALVES: Final = {"noon": 12 * 60, "midnight": 0}
_EMPTY: Final = re.compile(r"\\emptyset|\\\{\s*\\\}|(?:the\s+|an\s+)?(?:empty|null)\s+set")
_NONE: Final = re.compile(  # `there are no real solutions`; any other adjective makes another statement
    r"(?:there\s+(?:is|are|exists?)\s+|(?:(?:it|(?:the|this)\s+(?:equation|system|inequality|problem))\s+)?(?:has|have)\s+)?"
    r"no((?:\s+[a-z]+){0,2}?)\s+(?:solutions?|roots?|answers?)(?:\s+exists?)?"
)
_LIMIT: Final = r"(?:(?:it|(?:the\s+|this\s+)?(?:limit|value|expression))\s+)?"
_MISSING: Final = re.compile(
    rf"d\.?\s?n\.?\s?e\.?|{_LIMIT}(?:does\s+not|do\s+not|doesn['\u2019]t|don['\u2019]t)\s+exist"
)
_UNDEFINED: Final = re.compile(rf"{_LIMIT}(?:is\s+)?(?:undefined|not\s+defined)")
_ENDLESS: Final = re.compile(
    r"(?:(?:there\s+(?:is|are)|(?:it|the\s+(?:equation|system))\s+has|has)\s+)?"
    r"(?:(?:infinitely\s+many|infinite|an\s+infinite\s+number\s+of)\s+solutions?|infinitely\s+many)"
)


class ChosenLetters(NamedTuple):
    """The letters that an answer chooses, and the value beside one of them, "" where there is none."""

    letters: frozenset[str]
    value: str


def same_words(answer: str, reference: str) -> bool | None:
    """Return whether two choices, two pieces of prose or two times are the same; None where words don't say it."""
    if len(answer) > _MOST_CHARS or len(reference) > _MOST_CHARS:
        return None
    if (absence := _absence(reference)) is not None and (said := _absence(answer)) is not None:
        return absence == said
    wanted, given = read_choice(reference), read_choice(answer)
    if wanted is not None and given is not None:
        if wanted.letters != given.letters:
            return False
        return None if wanted.value and given.value else True
    is_same = _same_runs(answer, reference)
    if is_same is None and (time := _time(reference)) is not None and (other := _time(answer)) is not None:
        is_same = time == other
    return is_same if is_same is not None else True if _are_same_prose(answer, reference) else None


@lru_cache(maxsize=256)
def _absence(text: str) -> str | None:
    """Return in one spelling that there is no solution, no limit, no end of solutions; None of any other text."""
    if text[:1].isdigit():
        return None
    flat = _flat(text).removesuffix(".").rstrip().lower()
    if _EMPTY.fullmatch(flat) is not None:
        return "no solution"
    if (none := _NONE.fullmatch(flat)) is not None:
        kinds = [kind for kind in none[1].split() if kind not in ("real", "such")]
        return " ".join(("no", *kinds, "solution"))
    for name, pattern in (("missing", _MISSING), ("endless", _ENDLESS), ("undefined", _UNDEFINED)):
        if pattern.fullmatch(flat) is not None:
            return name
    return None


def _same_runs(answer: str, reference: str) -> bool | None:
    """Return whether `ACD` and `D, C, A` choose the same letters; None where they are not a run and a list.

    A run is in the alphabet's order in a reference, so that it is no word and no name of a polygon turned round.
    """
    letters = []
    for text, is_wanted in ((_flat(reference), True), (_flat(answer), False)):
        if _RUN.fullmatch(text) is not None and len(set(text)) == len(text):
            if is_wanted and list(text) != sorted(text):
                return None
            letters.append(frozenset(text))
        elif _CHOICES.fullmatch(text) is not None and (several := read_choice(text)) is not None:
            letters.append(several.letters)
        else:
            return None
    is_list = any(_RUN.fullmatch(_flat(text)) is None for text in (answer, reference))
    return letters[0] == letters[1] if is_list else None


def is_prose(text: str) -> bool:
    """Return whether a text is words alone."""
    return len(text) <= _MOST_CHARS and _prose(text) is not None


@lru_cache(maxsize=256)
def read_choice(text: str) -> ChosenLetters | None:
    """Return the choice that a text states; None where it states none, or takes it back."""
    if len(text) > _MOST_CHARS:
        return None
    text = _flat(text)
    if (found := _CHOICE.fullmatch(text)) is not None and _takes_nothing_back(found[3]):
        return ChosenLetters(frozenset(found[1] or found[2]), found[3].strip())
    if (several := _CHOICES.fullmatch(text)) is not None:
        letters = _LETTER.findall(several[0])
        return ChosenLetters(frozenset(letters), "") if len(set(letters)) == len(letters) else None
    return None


def _takes_nothing_back(beside: str) -> bool:
    """Return whether what stands beside a letter is its option's text, as `impossible` may be, and no verdict on it."""
    is_verdict = _VERDICT.match(beside) is not None and bool(doubts(beside))
    return _SECOND_ANSWER.search(beside) is None and not is_verdict


def _flat(text: str) -> str:
    """Return the words of a text without the commands that only set them."""
    while "\\" in text and (inner := _MACRO.sub(r"\1 ", text)) != text:
        text = inner
    return " ".join(text.replace("{:}", ":").split())


def _are_same_prose(answer: str, reference: str) -> bool:
    wanted, given = _prose(reference), _prose(answer)
    if wanted is None or given is None:
        return False
    return any(wanted.replace("-", gap) == given.replace("-", gap) for gap in (" ", ""))


@lru_cache(maxsize=256)
def _prose(text: str) -> str | None:
    """Return prose without its case, its first article and its full stop; None of what may be mathematics.

    Letters without a command around them are words where each is in small letters or begins with a capital.
    """
    bare = _flat(text)
    bare = bare.removesuffix(".").rstrip()
    if _PROSE.fullmatch(bare) is None:
        return None
    if "\\" not in text:
        words = bare.replace("-", " ").split()
        if not all(len(word) >= 2 and (word.islower() or word.istitle()) for word in words):
            return None
    prose = _ARTICLE.sub("", bare.lower(), count=1) if _ARTICLE.match(bare.lower()) else bare.lower()
    return prose if len(prose) >= _FEWEST_LETTERS or prose in _SHORT_WORDS else None


def _time(text: str) -> int | None:
    """Return the minutes from midnight to a time that names its half of the day; None of any other text."""
    bare = _flat(text)
    if (named := _HALVES.get(bare.lower())) is not None:
        return named
    if (clock := _CLOCK.fullmatch(bare)) is not None:
        hour, minute = int(clock[1]), int(clock[2])
        return hour * 60 + minute if 13 <= hour < 24 and minute < 60 else None
    found = _TIME.fullmatch(bare)
    if found is None:
        return None
    hour, minute = int(found[1]), int(found[2] or 0)
    if not 1 <= hour <= 12 or minute >= 60:
        return None
    if found[4]:
        return _HALVES[found[4].lower()] if (hour, minute) == (12, 0) else None
    return hour % 12 * 60 + minute + (12 * 60 if found[3].lower() == "p" else 0)
