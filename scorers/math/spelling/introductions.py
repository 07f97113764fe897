r"""Words that only introduce a value, or say behind it that it is the answer, are taken away.

In: an answer or a reference. Out: its value: `\text{The vertex is } (3, 4)` is `(3, 4)`. Run by
`scorers.math.notation`. Pure functions on texts of at most MAX_CHARS characters, linear in their length.
"""

from __future__ import annotations

import re
from typing import Final

from scorers.math.doubts import doubts

_SAID: Final = re.compile(
    r"\\text\{\s*(?:(?:there|the|a|so|thus|hence|therefore|final|correct|total|value|solution|result|number|sum|area|volume|length|answer|it)\b\s*,?\s*)*"
    r"(?:is|are|equals|:)?:?\s*\}\s*(?=[^\s=])",
    re.IGNORECASE,
)
_SAID_PLAIN: Final = re.compile(
    r"there\s+(?:is|are)\s+(?=[0-9])|(?:the\s+)?(?:final\s+)?answers?\s*(?:is|are|:)\s*(?=\S)", re.IGNORECASE
)
_SAID_BEHIND: Final = re.compile(
    r"\s*\\text\{\s*,?\s*(?:is|are)\s+(?:the|our|my)\s+(?:final\s+)?(?:answers?|solutions?)\s*\.?\s*\}\Z",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(
    r"\\text\{\s*((?:(?:so|thus|hence|therefore|then)\s*,?\s+)?(?:the|its|our)(?:\s+[a-z]{2,}){1,6}?)\s+"
    r"(?:is|are|equals?|=)\s*:?\s*\}\s*(?=\S)",
    re.IGNORECASE,
)
_OTHER_SUBJECT: Final = re.compile(  # of a sentence that may be about something else than the answer
    r"\b(?:is|are|was|has|and|or|of\s+(?:the|this|that)\s+(?:answer|result|solution|value)|twice|half|third|quarter|double"
    r"|triple|square\s+root|bound|between|limit\s+of|than|plus|minus|times|next|previous|original|old|first|second|last"
    r"|given|wrong|other|both|any|some|option|choice|estimate|approximation|trap|negative|opposite|reciprocal|inverse"
    r"|zero|one|two|three|four|five|six|seven|eight|nine|ten)\b",
    re.IGNORECASE,
)
_COUNTED: Final = re.compile(r"\\text\{\s*(-?[0-9][0-9.,]*)(\s+[A-Za-z][A-Za-z ]*)\}")


def without_introduction(text: str) -> str:
    """Return the text without words that only introduce its value."""
    text = _COUNTED.sub(r"\1\\text{\2}", text) if text.startswith("\\text{") else text
    text = text[: found.start()] if "\\text" in text and (found := _SAID_BEHIND.search(text)) else text
    said = _SAID.match(text) or _SAID_PLAIN.match(text) or _sentence(text)
    return text if said is None else text[said.end() :]


def _sentence(text: str) -> re.Match[str] | None:
    r"""Return `\text{The vertex is }` before a value; None where it speaks of another value, or doubts this one."""
    said = _SENTENCE.match(text)
    if said is None or _OTHER_SUBJECT.search(said[1]) or doubts(said[0]):
        return None
    return said
