"""Instructions about how a response begins and ends, its sentences too, and what stands next to what.

In: an instruction's arguments. Out: its check.
"""

from __future__ import annotations

import re
from itertools import pairwise
from string import ascii_lowercase
from typing import Final

from scorers.instructions.arguments import Arguments, Check
from scorers.instructions.texts import begins_with, ends_with, has_content, sentences, squeezed, words

_CLOSING: Final = {'"': '"', "\u201c": "\u201d", "\u201e": "\u201c"}
_AROUND: Final = '" \u201c\u201d'
_QUOTED: Final = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]+)[\"\u201d]")
_LEAST_PALINDROME: Final = 3  # letters: `a` and `I` read backwards too, and stand in every English text


def end_phrase(args: Arguments) -> Check:
    """Ask for `end_phrase` at the end, in any case, quotes around the response aside; something comes before it."""
    phrase = args.text("end_phrase")
    known = squeezed(phrase).strip(_AROUND)

    def check(response: str) -> str | None:
        text = squeezed(response).strip(_AROUND)
        if not text.endswith(known):
            return f"it does not end with {phrase!r:.80}"
        return None if has_content(text[: -len(known)]) else "nothing but the phrase to end with"

    return check


def quotation(_: Arguments) -> Check:
    """Double quotation marks around all of it."""

    def check(response: str) -> str | None:
        text = response.strip()
        is_wrapped = len(text) > 1 and text[-1] == _CLOSING.get(text[0]) and has_content(text)
        return None if is_wrapped else "no double quotation marks around all of it"

    return check


def postscript(args: Arguments) -> Check:
    """Text, and after it a postscript: `postscript_marker`, in any case, and something behind it."""
    marker = args.text("postscript_marker")
    spaced = "".join(r"\.[ ]?" if character == "." else re.escape(character) for character in marker)
    pattern = re.compile(rf"(?<![\w.]){spaced}", re.IGNORECASE)

    def check(response: str) -> str | None:
        start = None
        for start in pattern.finditer(response):  # noqa: B007 - the last one
            pass
        if start is None:
            return f"no postscript that begins with {marker}"
        if not has_content(response[: start.start()]) or not has_content(response[start.end() :]):
            return f"nothing before {marker}, or nothing after it"
        return None

    return check


def first_word(args: Arguments) -> Check:
    """Ask for the word `first_word` at the start."""
    word = args.text("first_word")
    return lambda response: None if begins_with(response, word) else f"it does not begin with {word!r}"


def last_word(args: Arguments) -> Check:
    """Ask for the word `last_word` at the end; marks may follow."""
    word = args.text("last_word")
    return lambda response: None if ends_with(response, word) else f"it does not end with {word!r}"


def first_word_of_sentences(args: Arguments) -> Check:
    """Ask for the word `first_word` at the start of each sentence."""
    word = args.text("first_word")

    def check(response: str) -> str | None:
        wrong = next((sentence for sentence in sentences(response) if not begins_with(sentence, word)), None)
        return None if wrong is None else f"a sentence does not begin with {word!r}: {wrong!r:.60}"

    return check


def last_word_of_sentences(args: Arguments) -> Check:
    """Ask for the word `last_word` at the end of each sentence; marks may follow."""
    word = args.text("last_word")

    def check(response: str) -> str | None:
        wrong = next((sentence for sentence in sentences(response) if not ends_with(sentence, word)), None)
        return None if wrong is None else f"a sentence does not end with {word!r}: {wrong[-60:]!r}"

    return check


def same_start_and_end(_: Arguments) -> Check:
    """Ask for a first word that is the last one too, in any case, with nothing after it."""

    def check(response: str) -> str | None:
        found = words(response)
        if len(found) < 2:
            return "fewer than two words"
        if not response.strip().endswith(found[-1]):
            return "something follows the last word"
        is_same = found[0].casefold() == found[-1].casefold()
        return None if is_same else f"it begins with {found[0]!r:.40} and ends with {found[-1]!r:.40}"

    return check


def no_consecutive_initials(_: Arguments) -> Check:
    """Forbid a word that begins with the letter after the first letter, a to z, of the word before."""

    def check(response: str) -> str | None:
        found = words(response)
        for word, following in pairwise(found):
            initials = (word[0] + following[0]).lower()
            if len(initials) == 2 and initials in ascii_lowercase:
                return f"{word!r:.40} and {following!r:.40} begin with consecutive letters"
        return None

    return check


def palindrome(_: Arguments) -> Check:
    """Ask for a word, quotation or sentence that reads the same backwards: three letters or more, two different."""

    def check(response: str) -> str | None:
        parts = [*words(response), *_QUOTED.findall(response), *sentences(response)]
        return None if any(map(_is_palindrome, parts)) else "no palindrome of three letters or more"

    return check


def _is_palindrome(text: str) -> bool:
    letters = [character for character in text.casefold() if character.isalpha()]
    return len(letters) >= _LEAST_PALINDROME and letters == letters[::-1] and len(set(letters)) > 1
