r"""Words, sentences and paragraphs of a response, without a model and without a download.

In: text in any language. Out: its parts, as they stand there. Every function is linear in the length of the text. What
differs from the tokenisers of NLTK that others use: punctuation is never a word, so `end.` is one word, and so is an
abbreviation with dots; a number that
begins a list item ends no sentence; a sentence that follows without a space (`one.Then`) is one of its own.
"""

from __future__ import annotations

import re
from typing import Final

# What is no part of a word: space and punctuation, but for joiners. Combining marks are part of it, unlike in `\w`.
_WORD_CHAR: Final = (
    r"[^\s!-/:-@\[-`{-~\xa1\xa7\xab\xb6\xb7\xbb\xbf\u2012-\u2027\u2030-\u205e\u3000-\u303f"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\u060c\u061b\u061f\u06d4\u0964\u0965]"
)
# An abbreviation with dots: single letters (`U.S.A.`, `e.g.`, `5p.m.`), doubled ones (`EE.UU.`), a degree (`Ph.D`), or
# a single letter beside pieces of at most four before a dot (`v.Chr.`). The last dot is no part of the word.
_LETTER: Final = r"[^\W\d_]"
_LETTERED: Final = rf"(?:{_LETTER}\.)+{_LETTER}|[A-Z]{{2}}(?:\.[A-Z]{{2}})+(?=\.)"
_DEGREE: Final = (
    r"(?:Ph|Ed|Psy|Pharm|Sc|LL|Litt|Th|Mus)\.[DBM]|[BMD]\.(?:Sc|Eng|Ed|Tech|Phil|Com|Arch|Litt|Mus)"
)
_MIXED: Final = (
    rf"(?=(?:{_LETTER}{{2,4}}\.)?{_LETTER}\.){_LETTER}{{1,4}}\.(?:{_LETTER}{{1,4}}\.)?{_LETTER}{{1,4}}(?=\.)"
)
ABBREVIATION: Final = rf"(?<![\w.])[0-9]*(?:{_LETTERED}|{_DEGREE}|{_MIXED})(?!\w)"
_WORD: Final = re.compile(
    rf"(?:{ABBREVIATION}(?:\.(?=[-'\u2019\u2010\u2011]\w))?|{_WORD_CHAR}+)"
    rf"(?:(?:[-'_\u2019\u2010\u2011]|(?<=[0-9])[.,](?=[0-9])){_WORD_CHAR}+)*"
)
_BLANK_LINE: Final = re.compile(r"\n[^\S\n]*\n\s*")

# A mark, and the quotes, brackets and emphasis that close with it. Marks of other scripts need no space after them.
_END: Final = re.compile(
    r"(?P<mark>[.!?\u2026]+|[\u3002\uff01\uff1f\uff61\u06d4\u061f\u0964\u0965]+)"
    r"(?P<closing>[\"'\u201d\u2019\xbb)\]}*_`]*)"
)
_SPACED_MARKS: Final = ".!?\u2026"
_CLOSING_QUOTES: Final = frozenset("\"'\u201d\u2019\xbb")
_OPENING: Final = "(\"'\u201c\u2018[*_"
_LOOK_BACK: Final = 24  # characters; longer than every abbreviation
# Never the end of a sentence, and an end only before a word that begins one.
_TITLE: Final = re.compile(
    r"mrs?|ms|dr|prof|rev|hon|gen|gov|sen|rep|capt|col|lt|sgt|st|mt|messrs|vs|cf|e\.g|i\.e|figs?"
    r"|approx",
    re.IGNORECASE,
)
_ABBREVIATION: Final = re.compile(ABBREVIATION)
_SHORT: Final = re.compile(r"etc|inc|ltd|co|corp|jr|sr|al|dept|est", re.IGNORECASE)
_STARTER: Final = re.compile(
    r"The|An?|He|She|It|They|We|You|I|This|That|These|Those|There|But|However|If|When|In|On|At"
    r"|As|My|Our|Their"
)
_LIST_NUMBER: Final = re.compile(r"[(\[]?(?:\d{1,3}|[A-Za-z])")


def words(text: str) -> list[str]:
    """Return every word, as it is written; with hyphens and apostrophes in it, it is one."""
    return [word for word in _WORD.findall(text) if has_content(word)]


def has_content(text: str) -> bool:
    """Return whether a letter or a digit is in the text."""
    return any(character.isalnum() for character in text)


def squeezed(text: str) -> str:
    """Return the text for a comparison word for word: in one case, any space as one."""
    return " ".join(text.split()).casefold()


def paragraphs(text: str) -> list[str]:
    """Return what blank lines separate, without what is empty."""
    return [part.strip() for part in _BLANK_LINE.split(text) if part.strip()]


def begins_with(text: str, phrase: str) -> bool:
    """Return whether the text's first word, or its first words, are `phrase`, whatever marks stand around them."""
    start = next((place for place, character in enumerate(text) if character.isalnum()), len(text))
    return any(
        _is_word_at(found, phrase.casefold()) for found in (text[start:].casefold(), text.strip().casefold())
    )


def ends_with(text: str, phrase: str) -> bool:
    """Return whether the text's last word, or its last words, are `phrase`, whatever marks follow."""
    return begins_with(text.casefold()[::-1], phrase.casefold()[::-1])


def _is_word_at(text: str, phrase: str) -> bool:
    return text.startswith(phrase) and not (
        text[len(phrase) : len(phrase) + 1].isalnum() and phrase[-1:].isalnum()
    )


def sentences(text: str) -> list[str]:
    """Return every sentence, stripped. Marks end them, line breaks do not; what follows the last mark is one too."""
    found, start = [], 0
    short = [abbreviation.span() for abbreviation in _ABBREVIATION.finditer(text)]
    within = {place for first, last in short for place in range(first, last)}
    behind = {last for _, last in short}
    for end in _END.finditer(text):
        if end.start() not in within and _ends_sentence(text, end, is_short=end.start() in behind):
            found.append(text[start : end.end()].strip())
            start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if has_content(sentence)]


def _ends_sentence(text: str, end: re.Match[str], *, is_short: bool) -> bool:
    mark = end["mark"]
    if mark[0] not in _SPACED_MARKS:
        return True
    after = text[end.end() : end.end() + _LOOK_BACK]
    if after and not after[0].isspace():
        return (
            not end["closing"]
            and text[end.start() - 1 : end.start()].islower()
            and after[:1].isupper()
            and after[1:2].islower()
        )
    following = after.split(maxsplit=1)[0] if after.strip() else ""
    is_going_on = following[:1].islower()
    if end["closing"] and _CLOSING_QUOTES & set(end["closing"]) and is_going_on:
        return False  # "Stop!" he said
    if "..." in mark or "\u2026" in mark:
        return not is_going_on
    return mark != "." or not following or _is_full_stop(text, end.start(), following, is_short=is_short)


def _is_full_stop(text: str, place: int, following: str, *, is_short: bool) -> bool:
    """Return whether the period at `place`, before the word `following`, is no abbreviation's and no list item's.

    `is_short`: it stands right behind an abbreviation with dots.
    """
    before = text[max(0, place - _LOOK_BACK) : place]
    word = before.split()[-1] if before.strip() and not before[-1].isspace() else ""
    if _LIST_NUMBER.fullmatch(word) and _begins_line(text, place - len(word)):
        return False
    word = word.lstrip(_OPENING)
    if _TITLE.fullmatch(word) or (len(word) == 1 and word.isupper() and word != "I"):
        return False
    if is_short or _SHORT.fullmatch(word):
        return _STARTER.fullmatch(following.strip(_OPENING + ",.;:!?")) is not None
    return True


def _begins_line(text: str, place: int) -> bool:
    """Return whether only space and a few marks stand before `place` on its line."""
    before = text[max(0, place - _LOOK_BACK) : place]
    _, line_break, rest = before.rpartition("\n")
    return not rest.strip(" \t*_#>-+") and bool(line_break or place <= _LOOK_BACK)
