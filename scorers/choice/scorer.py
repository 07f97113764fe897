r"""Scorer of multiple choice: one letter, stated once, and never guessed.

In: the text of a completion, and `{"type": "choice", "answer": {"value": "C", "options": ["...", ...]}}`; `options` may
also be how many there are, or be left out. Out: 1.0 or 0.0 with a reason. After the thinking a letter may stand in the
last `\boxed{}`, in the last `<answer>`, or in the last line (`Answer: C`, `(C)`). Where it stands in two of these they
have to agree; a box that holds something else, such as a number, states none, and then only `Answer: C` does. Where
none of these is there, a line with an explanation behind it states one (`scorers.choice.hedges`). What names no letter,
or two, is wrong: no letter is picked out of a text, and none is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.errors import BadMessage
from config.scorer_kinds import ChoiceConfig
from scorers.choice.hedges import names_another, takes_back
from scorers.short_answer import MAX_ANSWER_CHARS, Decision, SelfTest, ShortAnswer, stated
from scorers.text.extract import Unanswered, last_answer, last_box, visible, within
from scorers.text.invisible import seen
from scorers.text.latex import words
from tasks.values import shown

RULES: Final = (
    3  # raise it with any change here, in short_answer, latex_text or extract that can change a score
)
_MOST_OPTIONS: Final = 26
_LETTER: Final = re.compile(r"[(\[]?([A-Za-z])[)\]]?[*_]*[.:]?")
# What introduces a letter within a box, or at any place of the last line: the last one does.
_LABEL: Final = re.compile(
    r"(?:(?<![\w<])answer|\b(?:correct|right|best|final)\s+(?:option|choice)"
    r"|\A(?:option|choice))\b(?:\s+is\b)?[\s*_]*[:=]?[\s*_]*",
    re.IGNORECASE,
)
# A letter with the text of its option: `C. Cat`, `(C) Cat`, `C: Cat`, `C.** Cat`.
_WITH_TEXT: Final = re.compile(r"(?:\(([A-Z])\)|([A-Z])[*_]*[.):])[*_]*\s*(\S.*)", re.DOTALL)
# A letter with a reason in the same line: `C, because ...`.
_WITH_REASON: Final = re.compile(
    r"[(\[]?([A-Z])[)\]]?[*_]*[,;:]?(?:\s*[-\u2013\u2014])?\s+((?:because|since|as|for|given|due)\b.*)",
    re.DOTALL,
)
_MOST_BEHIND: Final = 4_000  # characters of an explanation behind the letter
_MOST_STATING: Final = 50  # lines that say `answer`
_MARKS: Final = " \t*_`\"'"  # around a letter, in Markdown


@dataclass(frozen=True, slots=True)
class OfferedChoice:
    """What a row offers."""

    letter: str  # the right one
    count: int  # of options, or what is known of it
    texts: tuple[str, ...]  # of the options, in normal form; () where the row has none

    def letter_of(self, text: str) -> str | None:
        """Return the letter of the one option with this text; None where there is none, or there are several."""
        normal = _normal(text)
        return chr(ord("A") + self.texts.index(normal)) if self.texts.count(normal) == 1 else None


class ChoiceAnswer(ShortAnswer[OfferedChoice]):
    """Scorer of multiple choice."""

    name = "choice"
    version = str(RULES)
    types = ("choice",)
    self_tests = (
        SelfTest("choice", "D", "\\boxed{D. Cat}", 1.0),
        SelfTest("choice", "B", "so\n**Answer: B**", 1.0),
        SelfTest("choice", "A", "All of A, B, C and D.", 0.0),
        SelfTest("choice", "A", "\\boxed{A or B}", 0.0),
    )

    def __init__(self, config: ChoiceConfig) -> None:
        """Build the scorer, which has no options yet."""
        del config

    def reference(self, answer: Mapping[str, Any], row_type: str) -> OfferedChoice:
        """Return the right letter and the options. Raises BadMessage where the letter is none, or none of theirs."""
        value, options = answer["value"], answer.get("options")
        found = _LETTER.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None:
            raise BadMessage(f"no answer: a row of type {row_type!r} needs one letter; got {shown(value)}")
        texts = (
            tuple(_normal(text) for text in options if isinstance(text, str))
            if isinstance(options, list)
            else ()
        )
        if isinstance(options, list) and len(texts) != len(options):
            raise BadMessage(f"answer.options must be texts, or how many there are; got {shown(options)}")
        count = _MOST_OPTIONS if options is None else len(texts) if isinstance(options, list) else options
        if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= _MOST_OPTIONS:
            raise BadMessage(
                f"answer.options must be 2 to {_MOST_OPTIONS} texts, or their number; got {shown(options)}"
            )
        letter = found[1].upper()
        if ord(letter) - ord("A") >= count:
            raise BadMessage(f"no answer: {letter!r} is none of a row's {count} options")
        return OfferedChoice(letter, count, texts)

    def judge(self, response: str, reference: OfferedChoice) -> Decision:
        """Return whether the letter that the response states is the right one. Raises Unanswered for none."""
        letters = _letters(seen(visible(response)), reference)
        if len(set(letters.values())) > 1:
            raise Unanswered(
                "no answer: two of them, "
                + " and ".join(f"{letter} in the last {place}" for place, letter in letters.items())
            )
        letter = next(iter(letters.values()))
        if ord(letter) - ord("A") >= reference.count:
            return Decision(0.0, f"answer {letter}, which is none of the {reference.count} options")
        return (
            Decision(1.0, f"answer {letter}")
            if letter == reference.letter
            else Decision(0.0, f"answer {letter}, expected {reference.letter}")
        )


def states_letter(response: str, answer: object) -> bool:
    """Return whether a response states a letter, right or not; `answer` is the row's, of which the options count."""
    texts = answer.get("options") if isinstance(answer, Mapping) else None
    known = tuple(_normal(text) for text in texts if isinstance(text, str)) if isinstance(texts, list) else ()
    try:
        return bool(_letters(seen(visible(response)), OfferedChoice("", _MOST_OPTIONS, known)))
    except Unanswered:
        return False


def _letters(response: str, choice: OfferedChoice) -> dict[str, str]:
    """Return the letter at each place where a response states one. Raises Unanswered where it does so nowhere."""
    stating: dict[str, str | None] = {}
    if "\\boxed" in response:
        stating["box"] = last_box(response)
    if (tag := last_answer(response)) is not None and "\\boxed" not in tag:
        stating["<answer>"] = tag
    has_place = bool(stating)
    line = _plain_line(response.rstrip().rpartition("\n")[2])
    if len(line) <= MAX_ANSWER_CHARS and "\\boxed" not in line and "</answer>" not in line:
        says = _after_label(line)
        if says is not None or (not stating and _LETTER.fullmatch(words(line))):
            stating["line"] = says or line
    letters: dict[str, str] = {}
    problem = "no answer: no letter in a box, in <answer>, after `Answer:` in the last line, or alone in it"
    for place, text in stating.items():
        try:
            letters[place] = _letter(stated(text, place), choice)
        except Unanswered as error:
            problem = str(error)
    if not letters and not has_place and (letter := _explained(response, choice)) is not None:
        letters["line with an explanation behind it"] = letter
    if not letters:
        raise Unanswered(problem)
    return letters


def _explained(response: str, choice: OfferedChoice) -> str | None:
    """Return the letter that a line states with nothing but its explanation behind it; None where none does.

    The line is the first one, with the letter at its beginning, or a later one with `Answer:`. All such lines have to
    agree, and nothing behind the first of them may take the letter back or offer another one.
    """
    lines = [line for line in map(_plain_line, response.strip().split("\n")) if line]
    stating: dict[int, str] = {}
    unclear: list[str] = []
    for number, line in enumerate(lines):
        says = _after_label(line) if len(line) <= MAX_ANSWER_CHARS else None
        is_first = number == 0 and (_LETTER.fullmatch(words(line)) or _WITH_TEXT.fullmatch(words(line)))
        if says is None and not is_first:
            continue
        if len(stating) + len(unclear) > _MOST_STATING:
            return None
        try:
            stating[number] = _letter(within(says or line, MAX_ANSWER_CHARS), choice)
        except Unanswered:
            unclear.append(line)
    if len(set(stating.values())) != 1:
        return None
    letter, first = next(iter(stating.values())), min(stating)
    behind = "\n".join(
        [line for number, line in enumerate(lines) if number > first and number not in stating] + unclear
    )
    return None if len(behind) > _MOST_BEHIND or takes_back(behind, letter, choice.count) else letter


def _plain_line(line: str) -> str:
    return line.lstrip(_MARKS + "#>").rstrip(_MARKS)


def _after_label(text: str) -> str | None:
    """Return what follows the last `Answer:` or the like; None where there is none, or nothing follows it."""
    labels = list(_LABEL.finditer(text))
    return text[labels[-1].end() :].strip(_MARKS) or None if labels else None


def _letter(text: str, choice: OfferedChoice) -> str:
    """Return the one letter that a text states, by itself or by the text of its option. Raises Unanswered."""
    plain = words(text).strip(_MARKS)
    by_text = choice.letter_of(plain)
    plain = _after_label(plain) or plain
    by_text = by_text or choice.letter_of(plain)
    if alone := _LETTER.fullmatch(plain):
        return alone[1].upper()
    if by_text is not None:
        return by_text
    if (reason := _WITH_REASON.fullmatch(plain)) is not None:
        if not takes_back(reason[2], reason[1], choice.count, may_reject=False):
            return reason[1]
    elif (with_text := _WITH_TEXT.fullmatch(plain)) is not None and not names_another(
        with_text[3].strip(_MARKS), with_text[1] or with_text[2], choice.count
    ):
        letter = with_text[1] or with_text[2]
        if choice.texts and (named := choice.letter_of(with_text[3])) != letter:
            raise Unanswered(
                f"no answer: {shown(plain)} has the letter of one option and the text of "
                f"{'another' if named else 'none'}"
            )
        return letter
    raise Unanswered(f"no answer: {shown(text)} names no option, or more than one")


def _normal(text: str) -> str:
    return words(seen(visible(text))).casefold().strip(_MARKS + ".")
