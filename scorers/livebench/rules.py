"""How LiveBench's tasks of reasoning and language, and its classes of columns, decide.

In: the part of a completion that answers, and what the row has. Out: a value in [0, 1] and the reason, or `Unanswered`.
The values are those of LiveBench's own graders (github.com/LiveBench/LiveBench, commit b0fb577) for an answer of the
form that the prompt asks for. Some of those can be fooled: by options in a row, by a text that contains the right one,
by sentences that resemble nothing. There the answer has to be the reference and nothing beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from scorers.livebench.answer import last_line, marked, whole, words_of
from scorers.text.extract import Unanswered

MAX_SENTENCES: Final = 200  # of a plot: the distance takes their square
_SHOWN_CHARS: Final = 80
_GROUP: Final = 4  # words of a group of `connections`
_ALIKE: Final = 0.8  # share of words in common from which a sentence is taken for the reference's
_PLOT: Final = "<PLOT_SUMMARY>"
_TEXT_TAGS: Final = ("text", "plaintext", "markdown")  # of a fence around a text
_PLOT_END: Final = "</PLOT_SUMMARY>"
_NUMBERS: Final = {
    word: str(number)
    for number, word in enumerate(
        (
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        )
    )
}
# What may stand before the name of a shape: of `two tetrahedra`, or of `an equilateral triangle`.
_OF_SHAPES: Final = frozenset(
    {
        "a",
        "an",
        "the",
        "one",
        "two",
        "three",
        "four",
        "equilateral",
        "regular",
        "right",
        "isosceles",
        "solid",
        "congruent",
        "identical",
    }
)
_WORD: Final = re.compile(r"\w+")
_NOT_A_WORD: Final = re.compile(r"\W|_")


class BrokenReference(Exception):
    """No answer could equal this reference; the message says why."""


class LiveBenchQuestion(NamedTuple):
    """What a row of LiveBench has."""

    reference: str
    prompt: str | None = None  # where the row has it


Rule = Callable[[str, LiveBenchQuestion], tuple[float, str]]


def web_of_lies(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Score `web_of_lies_v2`: the words yes, no and unknown, all of them right or none."""
    return _all(_verdicts(marked(response)), _verdicts(question.reference))


def web_of_lies_v3(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Return the same with half of the value for the share that is right, half for all."""
    return _partly(_verdicts(marked(response)), _verdicts(question.reference))


def zebra_puzzle(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Score one word, or a list of words: half of the value for the share that is right, half for all."""
    return _partly(
        [_attribute(word) for word in marked(response).split(",")],
        [_attribute(word) for word in question.reference.split(",")],
    )


def house_traversal(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Return the names in their order; the reference parts them by spaces, an answer by what it likes."""
    names = [name for name in _WORD.findall(marked(response).casefold()) if name not in {"and", "then"}]
    return _all(names, _WORD.findall(question.reference.casefold()))


def spatial(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Return a number, in figures or words, or a phrase; a shape may be described, `an equilateral triangle`."""
    answer, reference = _counted(marked(response)), _counted(question.reference)
    *before, last = answer.split()
    is_right = answer == reference or (last == reference and last.isalpha() and _OF_SHAPES.issuperset(before))
    return float(is_right), _compared(answer, reference, is_right=is_right)


def column_class(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Score `cta`: the name of the class and nothing else; neither case nor punctuation matters."""
    answer, reference = last_line(response), question.reference
    is_right = _letters(answer) == _letters(reference)
    return float(is_right), _compared(answer, reference, is_right=is_right)


def typos(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Return the text to the letter, but for line breaks and how many spaces part its words."""
    answer, reference = (" ".join(text.split()) for text in (whole(response, _TEXT_TAGS), question.reference))
    if answer == reference:
        return 1.0, f"the text of {len(reference)} characters is right"
    place = next(
        (
            number
            for number, (found, expected) in enumerate(zip(answer, reference, strict=False))
            if found != expected
        ),
        min(len(answer), len(reference)),
    )
    start = max(place - _SHOWN_CHARS // 4, 0)
    found, expected = (repr(text[start : place + _SHOWN_CHARS // 4]) for text in (answer, reference))
    return 0.0, f"the text differs at character {place}: {found}, expected {expected}"


def connections(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Return the share of the groups of four that are right, in any order; another number of words is no answer."""
    words, expected = (
        [words_of(word) for word in text.split(",")] for text in (marked(response), question.reference)
    )
    if len(words) != len(expected):
        raise Unanswered(f"no answer: {len(words)} items in the list, {len(expected)} asked for")
    groups = _groups(expected)
    right = sum(group in groups for group in set(_groups(words)))
    return right / len(groups), f"{right} of {len(groups)} groups are right"


def plot_unscrambling(response: str, question: LiveBenchQuestion) -> tuple[float, str]:
    """Score 1 - (edits between the two orders of sentences) / (sentences of the reference), at least 0.

    An edit inserts, leaves out or replaces a sentence. One that is in no reference is in no place, and the order that
    the prompt has is no answer.
    """
    _, opening, summary = response.rpartition(_PLOT)
    if not opening:
        raise Unanswered(f"no answer: no {_PLOT} after the thinking")
    expected = _sentences(question.reference)
    sentences = _sentences(summary.partition(_PLOT_END)[0].replace("**End of Plot Summary**", ""))
    if not sentences:
        raise Unanswered("no answer: the plot summary is empty")
    if len(sentences) >= 2 * len(expected):  # which is as many edits as the reference has sentences
        return 0.0, f"{len(sentences)} sentences, {len(expected)} asked for"
    order = _order(sentences, expected)
    right = _order(expected, expected)
    if question.prompt is not None and order != right:
        given = _order(_sentences(question.prompt.rpartition(":\n")[2]), expected)
        if order == [place for place in given if place is not None]:
            return 0.0, "the sentences stand in the order of the prompt"
    edits = _edits(order, right)
    return max(0.0, 1.0 - edits / len(expected)), f"{edits} edits from the order of {len(expected)} sentences"


def shown(text: str) -> str:
    """Return one line of the answer, for people."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}..."


def _compared(answer: str, reference: str, *, is_right: bool) -> str:
    return f"answer {shown(answer)}" + ("" if is_right else f", expected {shown(reference)}")


def _all(answer: Sequence[str], reference: Sequence[str]) -> tuple[float, str]:
    is_right = list(answer) == list(reference)
    return float(is_right), _compared(", ".join(answer), ", ".join(reference), is_right=is_right)


def _partly(answer: Sequence[str], reference: Sequence[str]) -> tuple[float, str]:
    if len(answer) != len(reference):
        raise Unanswered(f"no answer: {len(answer)} items in the list, {len(reference)} asked for")
    right = sum(found == expected for found, expected in zip(answer, reference, strict=True))
    is_right = right == len(reference)
    return (is_right + right / len(reference)) / 2, _compared(
        ", ".join(answer), ", ".join(reference), is_right=is_right
    )


def _verdicts(text: str) -> list[str]:
    return [words_of(word) for word in text.replace(",", " ").split()]


def _attribute(text: str) -> str:
    words = words_of(text).replace("-", " ").removeprefix("position ").removesuffix(" movies")
    return _NUMBERS.get(words, words)


def _counted(text: str) -> str:
    words = words_of(text)
    return _NUMBERS.get(words, words)


def _letters(text: str) -> str:
    return _NOT_A_WORD.sub("", text.casefold())


def _groups(words: list[str]) -> list[frozenset[str]]:
    return [frozenset(words[start : start + _GROUP]) for start in range(0, len(words), _GROUP)]


def _sentences(text: str) -> list[str]:
    """Return what full stops part, as LiveBench parts it, abbreviations too; for comparison."""
    return [words for part in text.split(".") if (words := words_of(part))]


def _order(sentences: list[str], expected: list[str]) -> list[int | None]:
    """Return for each sentence the place of the expected one like it, None where there is none.

    Equal ones first; else that with the most words in common. Sentences of very different length are not compared, so
    that the whole is linear in the length of the text for each expected one.
    """
    places: dict[str, int] = {}
    for place, sentence in enumerate(expected):
        places.setdefault(sentence, place)
    counted = [Counter(sentence.split()) for sentence in expected]
    return [places[sentence] if sentence in places else _nearest(sentence, counted) for sentence in sentences]


def _nearest(sentence: str, counted: list[Counter[str]]) -> int | None:
    words = Counter(sentence.split())
    alike = [
        (2 * (words & other).total() / (words.total() + other.total()), -place)
        for place, other in enumerate(counted)
        if 2 * words.total() <= 3 * other.total()
    ]
    if not alike or max(alike)[0] < _ALIKE:
        return None
    return -max(alike)[1]


def _edits(found: Sequence[int | None], expected: Sequence[int | None]) -> int:
    """Least number of insertions, deletions and replacements between the two."""
    row = list(range(len(expected) + 1))
    for number, place in enumerate(found, start=1):
        diagonal, row[0] = row[0], number
        for column, other in enumerate(expected, start=1):
            above = row[column]
            row[column] = diagonal if place == other else 1 + min(diagonal, above, row[column - 1])
            diagonal = above
    return row[-1]
