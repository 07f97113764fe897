r"""The line that states the answer, as prompts ask for it: `Answer: 34`, in whatever dress, before a closing word.

In: a response without a box. Out: what its last such line states, without emphasis, back-ticks and dollars; None where
there is no such line, or something else is said behind it. Called by `scorers.math.variants`, in the scorer's process.
Pure functions, linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Final

from scorers.math.doubts import doubts
from scorers.math.figures import NUMBER_WORDS
from scorers.math.text import names_number

_LINE: Final = re.compile(
    r"^[ \t>#*_`-]*(?:(?:the|my|our|so|thus|hence|therefore)[ \t,]+)*(?:(?:final|correct)[ \t]+)?answer[ \t*_`]*"
    r"(?:(?:[:\uff1a]|is[ \t]*:)(?P<value>[^\n]*)|(?<=[A-Za-z*])[ \t]*$)",
    re.IGNORECASE | re.MULTILINE,
)
_STATES_ANOTHER: Final = re.compile(r"\banswers?\b\s*[*_`]*\s*(?::|is\b|are\b)", re.IGNORECASE)
_DISPLAYS: Final = {"\\[": "\\]", "$$": "$$", "```": "```"}
_MARKS: Final = re.compile(r"(?<!\\)\\[()\[\]]")
_STRONG: Final = re.compile(r"(?<![\w)*])(\*\*|__|\*)(?=\S)([^*\n]+?)(?<=\S)\1(?![\w(*])")
_DOLLAR: Final = re.compile(r"(?<!\\)\$+")
_AROUND: Final = ' \t*`"\u201c\u201d'
# Of a closing word these take nothing back: `let me know if you would like another method`.
_POLITE: Final = frozenset(
    {"if", "would", "should", "could", "whether", "another", "don't", "don\u2019t", "dont", "might"}
)
_WORD: Final = re.compile(r"[a-z]+")
_GOES_ON: Final = frozenset(  # somebody who thinks again
    {
        "wait",
        "hmm",
        "oops",
        "sorry",
        "correction",
        "recheck",
        "check",
        "verify",
        "reconsider",
        "mistake",
        "error",
    }
)
_MOST_CHARS: Final = 500  # of a value that is undressed
_FIGURES: Final = re.compile(r"[0-9]+")


def answer_line(response: str) -> str | None:
    """Return what the last line that begins with `Answer:` states; None where that is not what the response ends in."""
    lines = list(_LINE.finditer(response))
    if not lines:
        return None
    value, end = lines[-1]["value"] or "", lines[-1].end()
    if not _bare(value) or value.strip(_AROUND) in _DISPLAYS:
        value, end = _below(response, end - len(value) if _bare(value) else end)
    value = _bare(value)
    return value if value and _is_closing(response[end:], value) else None


def _below(response: str, start: int) -> tuple[str, int]:
    """Return the first line with anything in it from there on, or what is displayed there, and where it ends."""
    while start < len(response):
        stop = response.find("\n", start)
        stop = len(response) if stop < 0 else stop
        line = response[start:stop].strip(_AROUND)
        if (closing := _DISPLAYS.get(response[start:stop].strip())) is not None:
            last = response.find(closing, stop)
            return ("", len(response)) if last < 0 else (response[stop:last].strip(), last + len(closing))
        if line:
            return line, stop
        start = stop + 1
    return "", len(response)


def _bare(value: str) -> str:
    """Return a value without emphasis, back-ticks and the marks of mathematics; a long one as it is."""
    if len(value) > _MOST_CHARS:
        return value
    value = _STRONG.sub(r"\2", value.strip().lstrip("_").strip(_AROUND))
    value = _DOLLAR.sub("", _MARKS.sub("", value)).replace("`", "")
    return value.strip(_AROUND).rstrip("_").strip()


def _is_closing(text: str, value: str) -> bool:
    """Return whether what follows an answer only ends the response: it states nothing else, and takes nothing back."""
    if not text.strip(_AROUND + "\r\n$_"):
        return True
    if _STATES_ANOTHER.search(text) or "\\" in text or doubts(text) - _POLITE:
        return False
    if (NUMBER_WORDS | _GOES_ON).intersection(_WORD.findall(text.lower())):
        return False
    return set(_FIGURES.findall(text)) <= set(_FIGURES.findall(value)) and not (
        names_number(_FIGURES.sub("", text))
    )
