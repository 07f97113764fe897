"""Whether a text is written in the script of a language: by its letters, without a model and without word lists.

In: a text and a language. Out: what is wrong with the text, in words. One letter of a foreign script is wrong: a policy
that slips into another language for a word is to be found out. Greek letters and the letter-like signs of mathematics
belong to every language, and so do Latin ones: names, units and code are written in them. So a language of another
script also needs as many letters of its own as there are Latin words. Languages of one script can't be told apart.
Pure, linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from config.rewards import Language

# By the first words of the Unicode names of their letters.
_SCRIPTS: Final[Mapping[Language, frozenset[str]]] = {
    **dict.fromkeys(("en", "de", "fr", "es", "it", "pt", "vi"), frozenset({"LATIN"})),
    "zh": frozenset({"CJK", "IDEOGRAPHIC", "BOPOMOFO"}),
    "ja": frozenset({"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "CJK", "IDEOGRAPHIC"}),
    "ko": frozenset({"HANGUL", "CJK"}),
    "ru": frozenset({"CYRILLIC"}),
    "uk": frozenset({"CYRILLIC"}),
    "el": frozenset({"GREEK"}),
    "ar": frozenset({"ARABIC"}),
    "fa": frozenset({"ARABIC"}),
    "he": frozenset({"HEBREW"}),
    "hi": frozenset({"DEVANAGARI"}),
    "th": frozenset({"THAI"}),
}
_EVERYWHERE: Final = frozenset({"LATIN", "GREEK", "SIGN"})
_SIGNS: Final = re.compile(
    r"MATHEMATICAL|DOUBLE-STRUCK|SCRIPT|BLACK-LETTER|TURNED|MODIFIER|\w+ (?:SIGN|SYMBOL)$"
    r"|PLANCK|\w+ ORDINAL INDICATOR|SUPERSCRIPT|SUBSCRIPT"
)
_NO_WORDS: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\\[A-Za-z]+|</?[a-z]+>", re.DOTALL
)  # code, LaTeX, tags
_GREEK_WORD: Final = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]{4,}")  # shorter ones are products of variables
_LATIN_WORD: Final = re.compile(r"[A-Za-z\u00c0-\u024f]{2,}")


def foreign_script(text: str, language: Language) -> str | None:
    """Return what shows that `text` is written in the script of another language; None where nothing does."""
    scripts = _SCRIPTS[language]
    strange = {
        letter for letter in set(text) if letter.isalpha() and script_of(letter) not in scripts | _EVERYWHERE
    }
    if strange:
        place, first = next((place, letter) for place, letter in enumerate(text) if letter in strange)
        return (
            f"not written in {language!r} alone: {script_of(first).lower()} letter {first!r} at character "
            f"{place + 1}"
        )
    if language != "el" and (word := _GREEK_WORD.search(text)):
        return f"not written in {language!r} alone: a Greek word at character {word.start() + 1}"
    if "LATIN" in scripts:
        return None
    own = sum(1 for letter in text if letter.isalpha() and script_of(letter) in scripts)
    words = len(_LATIN_WORD.findall(_NO_WORDS.sub(" ", text)))
    if own < words:
        return f"not written in {language!r}: {own} letters of its script beside {words} words in Latin ones"
    return None


@lru_cache(maxsize=65536)
def script_of(letter: str) -> str:
    """Return the first word of the letter's Unicode name, in its ordinary form; SIGN for letter-like signs."""
    name = unicodedata.name(letter, "UNKNOWN")
    if _SIGNS.match(name):
        return "SIGN"
    plain = unicodedata.normalize("NFKC", letter)[:1]
    return unicodedata.name(plain, "UNKNOWN").partition(" ")[0]
