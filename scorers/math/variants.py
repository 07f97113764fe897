r"""The kinds of rows with one mathematical answer: where each looks for it, and what decides.

In: the part of a completion that answers, or a row's reference. Out: the text to compare, or a verdict where strings
decide. A row's `verification_info["type"]` names its kind. Called in the scorer's process, so nothing here may take
long: every function is linear in the length of its text, and what needs a computer algebra system is left to the child
(`scorers.math.equality`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from config.scorer_kinds import MathConfig
from scorers.math.answer_lines import answer_line
from scorers.math.doubts import doubts
from scorers.math.text import difference, names_number, normalised, plain_number, same_spelling, tidy
from scorers.text.extract import Unanswered, last_box

MAX_CHARS: Final = 10_000  # of an answer: math_verify's regular expressions are slow on long texts


@dataclass(frozen=True, slots=True)
class StatedAnswer:
    """What a completion states."""

    text: str
    boxed: bool = True  # the content of a box, and not a text to find something in


@dataclass(frozen=True, slots=True)
class Variant:
    """One kind of row."""

    answer: Callable[[str, MathConfig], StatedAnswer]
    """The answer in a response. Raises Unanswered."""
    rule: Literal["math", "prime"] | None
    """How the child compares; None: `same` does."""
    same: Callable[[str, str, bool], bool] | None = None
    """Answer and reference, and whether the compatible mode is on: are they equal?"""
    needs_number: bool = False
    """Whether a reference that is no number can't be right."""


def _of_math(response: str, config: MathConfig) -> StatedAnswer:
    box = last_box(response)
    if box is None and config.require_box:
        raise Unanswered("no answer: no closed \\boxed{} after the thinking")
    return StatedAnswer(tidy(response[-MAX_CHARS:] if box is None else box), box is not None)


_BEFORE_NUMBER: Final = (  # what sets it, words that only introduce it, and the ends of empty lines
    r"(?:[\s*_`\"'$(=:]|\\[(\[,;! ]|\\(?:boxed|fbox|text|textbf|mathbf|mathrm)\{|[A-Za-z] ?=(?!=)"
    r"|(?i:(?:the )?(?:final )?answer(?: is)?)){0,40}"
)
_GROUPS: Final = (
    r"[0-9]{1,3}(?:(?:[ \u00a0\u2009\u202f~]|\\[,;:! ]|\{,\}|,\\!)[0-9]{3})+(?![0-9])(?:\.[0-9]+)?"
)
_FINAL_NUMBER: Final = re.compile(
    rf"####{_BEFORE_NUMBER}([-+]?(?:\\?\$|[€£¥₹])?-?(?:{_GROUPS}|\.?[0-9][0-9.,]*)\s*(?:\\?%)?)([^\n#]*)"
)
_NO_FIGURE: Final = re.compile(r"[^-0-9.,]+|,(?=\\!)")
_CLOSERS: Final = "}*_$`\"')"
_MULTIPLE: Final = re.compile(
    r"[eE][-+]?[0-9]|[kK]\b|\s*(?:dozen|hundred|thousand|million|billion|trillion)s?\b"
)
_FIRST_NUMBER: Final = re.compile(r"#### (-?[0-9.,]+)")


# What makes another value of a number that it stands behind, at once or after a space.
_GOES_ON: Final = re.compile(
    r"\\(?:sqrt|pi|frac|dfrac|cdot|times|binom|[a-z]*frac)(?![A-Za-z])|[!^?\u00b2\u00b3\u00bd\u00bc\u00be\u03c0\u221a]"
    r"|(?:[xyi]|[MKBb]|bn|mn|mil)(?![A-Za-z])"
    r"|[-\s(]*(?:dozens?|gross|score|hundreds?|thousands?|m?illions?|[bt]rillions?|billions?|mil|halves|half|thirds?|quarters?"
    r"|fourths?|fifths?|sixths?|eighths?|tenths?|hundredths?|thousandths?|squared|cubed|factorial|point|minus|plus|times"
    r"|over|zero|one|two|three|four|five|six|seven|eight|nine|ten)(?![A-Za-z])"
)


def _of_gsm8k(response: str, config: MathConfig) -> StatedAnswer:
    """Return the number after the last `####`, alone in its line or in the next one.

    A percent sign is a unit there, as any other: the references of gsm8k are bare numbers. Compatibly it is the number
    after the first mark, whatever follows.
    """
    if config.compatible:
        found = _FIRST_NUMBER.search(response)
        if found is None:
            raise Unanswered("no answer: no number after `#### `")
        return StatedAnswer(found[1].replace(",", ""))
    numbers = list(_FINAL_NUMBER.finditer(response.replace("\N{MINUS SIGN}", "-")))
    if not numbers:
        raise Unanswered("no answer: no number after ####")
    if names_number(numbers[-1][2]):
        raise Unanswered("no answer: more than one number after the last ####")
    if multiple := _MULTIPLE.match(numbers[-1][2].lstrip(_CLOSERS)):
        raise Unanswered(f"no answer: {multiple[0].strip()!r} makes another number of the last after ####")
    tail = numbers[-1][2].lstrip(_CLOSERS)
    if goes_on := _GOES_ON.match(numbers[-1][2]) or _GOES_ON.match(tail):
        raise Unanswered(f"no answer: {goes_on[0].strip()!r} behind the number after the last ####")
    if taken_back := sorted(doubts(tail)):
        raise Unanswered(f"no answer: {taken_back[0]!r} behind the number after the last ####")
    return StatedAnswer(_NO_FIGURE.sub("", numbers[-1][1]).rstrip(".,"))


def _same_number(answer: str, reference: str, is_compatible: bool) -> bool:
    return answer == reference if is_compatible else plain_number(answer) == plain_number(reference)


_BARE_END: Final = re.compile(r"[$\n]")


def _of_hendrycks(response: str, config: MathConfig) -> StatedAnswer:
    r"""Return the last box, also in its form without braces, `$\boxed 5$`."""
    _, opening, bare = response.rpartition("\\boxed")
    if opening and bare[:1] == " " and not bare.lstrip().startswith("{"):
        return StatedAnswer(tidy(_BARE_END.split(bare, maxsplit=1)[0]))
    return _of_math(response, config)


def _same_spelling(answer: str, reference: str, is_compatible: bool) -> bool:
    if is_compatible:
        return normalised(answer) == normalised(reference) != ""
    return difference(answer, reference) is None and same_spelling(answer, reference)


_LEAD: Final = re.compile(r"answer:|answers? (?:is|are)", re.IGNORECASE)
_TRAIL: Final = re.compile(r"is (?:the |my )?answer", re.IGNORECASE)
_STATES: Final = re.compile(r"\b(?:be|is|are|get) |(?<![0-9]): |\n", re.IGNORECASE)
_NAMED_AT_LAST: Final = re.compile(
    r"[^=]*[A-Za-z]{2}[^=]*\s(\$?[A-Za-z](?:_\w)?\s*=[^=]*)"
)  # `therefore x = 42`
_STATES_COMPATIBLY: Final = re.compile(r"be |is |are |=|: |get |\n", re.IGNORECASE)  # `square units`, too


def _of_prime(response: str, config: MathConfig) -> StatedAnswer:
    """Return the last box, or, without any, what the last sentence says that the answer is."""
    if "\\boxed" in response or "\\fbox" in response:
        box = last_box(response)
        if box is not None:
            text = box
        elif not config.compatible:
            raise Unanswered("no answer: the box was never closed")
        else:
            text = response.rpartition("{")[2]
        return StatedAnswer(_last_clause(text, _STATES_COMPATIBLY) if config.compatible else tidy(text))
    text = response[-MAX_CHARS:]
    if not config.compatible and (stated := answer_line(text)) is not None:
        return StatedAnswer(tidy(_last_clause(stated, _STATES)))
    text = _after_last(_LEAD, text)
    if trails := list(_TRAIL.finditer(text)):
        text = text[: trails[-1].start()]
    return StatedAnswer(tidy(_last_clause(text, _STATES_COMPATIBLY if config.compatible else _STATES)))


def _last_clause(text: str, states: re.Pattern[str]) -> str:
    r"""Return what the last sentence says that something is; a period within a number ends none."""
    text = text.strip()
    clause = _after_last(states, text.rpartition(". ")[0] or text)
    named = None if states is _STATES_COMPATIBLY else _NAMED_AT_LAST.fullmatch(clause)
    return clause if named is None or "," in named[1] or " or " in named[1] else named[1]


def _after_last(mark: re.Pattern[str], text: str) -> str:
    found = list(mark.finditer(text))
    return text[found[-1].end() :] if found else text


VARIANTS: Final[Mapping[str, Variant]] = {
    "math": Variant(_of_math, "math"),
    "math_verifiable": Variant(_of_math, "math"),
    "gsm8k": Variant(_of_gsm8k, None, _same_number, needs_number=True),
    "hendrycks_math": Variant(_of_hendrycks, None, _same_spelling),
    "prime_math": Variant(_of_prime, "prime"),
}
