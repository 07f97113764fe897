"""Instructions about numbers: of words, sentences, paragraphs, letters.

In: an instruction's arguments. Out: its check.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from scorers.instructions.arguments import Arguments, Check
from scorers.instructions.texts import ABBREVIATION, begins_with, has_content, paragraphs, sentences, words

# What IFEval counts, so that its numbers of words mean the same here: `don't` is two of them. Other than there, an
# abbreviation with dots is one, and so is a word of a script whose vowels are marks.
_RUN: Final = re.compile(rf"{ABBREVIATION}|\w+")
# A hyphen or an apostrophe glues no words together for these.
_LETTERS: Final = re.compile(rf"{ABBREVIATION}|[^\W\d_]+")
_DIVIDER: Final = re.compile(r"\*\*\*|\* \* \*")


def number_words(args: Arguments) -> Check:
    """Ask for at least, or less than, `num_words` words, by `relation`."""
    amount = args.amount("num_words", "relation")
    return lambda response: amount.fault(len(_RUN.findall(_unmarked(response))), "words")


def number_sentences(args: Arguments) -> Check:
    """Ask for at least, or less than, `num_sentences` sentences, by `relation`."""
    amount = args.amount("num_sentences", "relation")
    return lambda response: amount.fault(len(sentences(response)), "sentences")


def number_paragraphs(args: Arguments) -> Check:
    """Exactly `num_paragraphs` paragraphs, divided by `***`."""
    wanted = args.count("num_paragraphs", least=1)
    return lambda response: _divided(response, wanted)[1]


def two_divided_paragraphs(_: Arguments) -> Check:
    """Exactly two paragraphs, divided by `***`."""
    return lambda response: _divided(response, 2)[1]


def two_paragraphs(_: Arguments) -> Check:
    """Exactly two paragraphs, divided by a blank line."""

    def check(response: str) -> str | None:
        found = [part for part in paragraphs(response) if has_content(part)]
        return None if len(found) == 2 else f"{len(found)} paragraphs, not 2"

    return check


def nth_paragraph(args: Arguments) -> Check:
    """Ask for `num_paragraphs` divided by blank lines, of which the `nth_paragraph` begins with `first_word`."""
    wanted, place = args.count("num_paragraphs", least=1), args.count("nth_paragraph", least=1)
    first = args.text("first_word")
    if place > wanted:
        raise args.wrong("nth_paragraph", f"one of {wanted} paragraphs")

    def check(response: str) -> str | None:
        found = paragraphs(response)
        if len(found) != wanted:
            return f"{len(found)} paragraphs, not {wanted}"
        return (
            None
            if begins_with(found[place - 1], first)
            else f"paragraph {place} does not begin with {first!r}"
        )

    return check


def composition(args: Arguments) -> Check:
    """Ask for three paragraphs divided by `***`, each of `n_sent` sentences, each of `n_words` words."""
    wanted_sentences, wanted_words = args.count("n_sent", least=1), args.count("n_words", least=1)

    def check(response: str) -> str | None:
        parts, fault = _divided(response, 3)
        if fault is not None:
            return fault
        for number, part in enumerate(parts, 1):
            found = sentences(part)
            if len(found) != wanted_sentences:
                return f"paragraph {number} has {len(found)} sentences, not {wanted_sentences}"
            for sentence in found:
                if (count := len(words(sentence))) != wanted_words:
                    return f"a sentence of paragraph {number} has {count} words, not {wanted_words}"
        return None

    return check


def letter_frequency(args: Arguments) -> Check:
    """Ask for `letter`, in any case and any mark, at least or less than `let_frequency` times, by `let_relation`."""
    letter, amount = args.text("letter").lower(), args.amount("let_frequency", "let_relation")
    if len(letter) != 1:
        raise args.wrong("letter", "one letter")
    return lambda response: amount.fault(response.lower().count(letter), f"times {letter!r}")


def letter_count(args: Arguments) -> Check:
    """Ask for at least, or less than, `N` letters, by `relation`."""
    amount = args.amount("N", "relation")
    return lambda response: amount.fault(sum(map(str.isalpha, response)), "letters")


def lowercase_words(args: Arguments) -> Check:
    """Ask for at most `N` words in lower case."""
    most = args.count("N")

    def check(response: str) -> str | None:
        found = sum(map(str.islower, _LETTERS.findall(response)))
        return None if found <= most else f"{found} words in lower case, not at most {most}"

    return check


def capital_words(args: Arguments) -> Check:
    """Ask for at least, or less than, `capital_frequency` words all in capitals, by `capital_relation`."""
    amount = args.amount("capital_frequency", "capital_relation")
    return lambda response: amount.fault(sum(map(str.isupper, words(response))), "words in capitals")


def unique_words(_: Arguments) -> Check:
    """Forbid a word that stands there twice, in any case."""

    def check(response: str) -> str | None:
        seen: set[str] = set()
        for word in words(response):
            if (known := word.casefold()) in seen:
                return f"{word!r:.60} is there twice"
            seen.add(known)
        return None

    return check


def _unmarked(text: str) -> str:
    """Return the text without marks on letters, which end no word."""
    return text if text.isascii() else "".join(char for char in text if unicodedata.category(char)[0] != "M")


def _divided(response: str, wanted: int) -> tuple[list[str], str | None]:
    """Return the paragraphs between dividers, and what is wrong where they are not `wanted`, or one is empty."""
    parts = _DIVIDER.split(response)
    if not parts[-1].strip():
        parts.pop()
    if parts and not parts[0].strip():
        parts.pop(0)
    if not all(map(has_content, parts)):
        return parts, "a paragraph without a word between two dividers"
    return parts, None if len(parts) == wanted else f"{len(parts)} paragraphs divided by ***, not {wanted}"
