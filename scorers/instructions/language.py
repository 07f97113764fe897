"""Instructions about the language, the case and the punctuation of a response.

In: an instruction's arguments. Out: its check. langdetect tells the language, as it does in IFEval. Its
profiles are in its package. With a seed and the profiles in a fixed order it says the same on every machine. Here it
sees text in lower case, since capitals mislead it. It sees a long text piece by piece, so that the larger part does not
hide the rest. Of a few words it can't tell the language; `scorers.instructions.short_texts` says what counts there. A
response without letters has none.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path
from typing import Any, Final

from scorers.instructions.arguments import Arguments, Check
from scorers.instructions.short_texts import is_short, may_be

# The languages that langdetect knows, by ISO 639-1. Chinese has two profiles.
_CODES: Final = (
    "af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk ml mr ne nl no pa pl pt ro "
    "ru sk sl so sq sv sw ta te th tl tr uk ur vi zh zh-cn zh-tw"
)
LANGUAGES: Final = frozenset(_CODES.split())
_PIECE_CHARS: Final = 2_000
_MOST_CHARS: Final = 200_000  # told in about a second; no answer comes near it
_SEED: Final = 0
_COMMAS: Final = (
    ",\u055d\u060c\u07f8\u1363\u1802\u1808\u2e32\u2e34\u2e41"
    "\u2e4c\u3001\ua4fe\ufe10\ufe11\ufe50\ufe51\uff0c\uff64"
)
_DOTS: Final = ".\u2024\u2025\u2026\ufe19\ufe52\uff0e"
_EXCLAMATIONS: Final = "!\u203c\u2048\u2049\u2755\u2757\u2762\ufe15\ufe57\uff01"


def response_language(args: Arguments) -> Check:
    """Ask for a response that is all in `language`, a code of two letters."""
    language = args.text("language").lower()
    if language not in LANGUAGES:
        raise args.wrong("language", f"one of {', '.join(sorted(LANGUAGES))}")
    return lambda response: _not_in(language, response)


def english_capital(_: Arguments) -> Check:
    """English, all in capitals."""
    return lambda response: _not_in("en", response) if response.isupper() else "not all in capitals"


def english_lowercase(_: Arguments) -> Check:
    """English, all in lower case."""
    return lambda response: _not_in("en", response) if response.islower() else "not all in lower case"


def no_comma(_: Arguments) -> Check:
    """Forbid a comma of any script."""
    return _without(_COMMAS, "a comma")


def no_dot(_: Arguments) -> Check:
    """Forbid a dot, and three of them in one character."""
    return _without(_DOTS, "a dot")


def no_exclamation(_: Arguments) -> Check:
    """Forbid an exclamation mark."""
    return _without(_EXCLAMATIONS, "an exclamation mark")


def _without(characters: str, what: str) -> Check:
    return lambda response: (
        f"it has {what}" if any(character in response for character in characters) else None
    )


def _not_in(language: str, response: str) -> str | None:
    """Return what is wrong where a piece of the response is in another language."""
    if len(response) > _MOST_CHARS:
        return f"{len(response)} characters; the language of at most {_MOST_CHARS} is told"
    text = "".join(map(_plain, response.casefold())).strip()
    if is_short(text):
        profiles = _detectors()
        may = may_be(language, text, profiles.langlist, profiles.word_lang_prob_map)
        if may is not None:
            return None if may else f"its words are not of the language {language}"
    pieces = -(-len(text) // _PIECE_CHARS)
    size = -(-len(text) // max(pieces, 1))
    for start in range(0, len(text), size or 1):
        found = _language_of(text[start : start + size])
        if found.partition("-")[0] != language and found != language:
            return f"its language is {found or 'none'}, not {language}"
    return None if text else "empty"


def _plain(character: str) -> str:
    """Return a space for what is no writing: an emoji weighs as much as a letter of another script does."""
    is_writing = character.isascii() or character.isalpha() or unicodedata.category(character)[0] in "MP"
    return character if is_writing else " "


def _language_of(text: str) -> str:
    """Return a code of LANGUAGES; "" where there is nothing to tell it by."""
    from langdetect import LangDetectException

    detector = _detectors().create()
    detector.append(text)
    try:
        return str(detector.detect())
    except LangDetectException:
        return ""


@cache
def _detectors() -> Any:
    """Profiles in an order that is no file system's: half a second and 50 MB, for processes with such rows alone."""
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

    detectors = DetectorFactory()
    detectors.load_json_profile(
        [
            path.read_text(encoding="utf-8")
            for path in sorted(Path(PROFILES_DIRECTORY).iterdir())
            if path.name in LANGUAGES
        ]
    )
    detectors.set_seed(_SEED)
    return detectors
