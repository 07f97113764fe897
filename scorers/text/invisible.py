"""Characters that take no place where a text is shown: a reader sees the text without them.

In: a text. Out: what of it is seen. A zero-width space within a word makes two words of it for a rule and one for a
reader, a Hangul filler is a letter that nobody sees, and a box with a soft hyphen in it is empty. The list is Unicode's
of code points that may be ignored where they can't be shown, the controls, and the blank pattern of Braille, which is
a space. Marks that combine with a letter to no letter that Unicode has (a stroke through it, five accents on it) leave
the letter that is read. Pure, linear in the length of the text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

_IGNORABLE: Final = (  # first and last
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
_CONTROLS: Final = ((0x00, 0x08), (0x0E, 0x1B), (0x7F, 0x84), (0x86, 0x9F))
_DIACRITICS: Final = (
    (0x300, 0x36F),
    (0x483, 0x489),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF),
    (0xFE20, 0xFE2F),
)


def _points(*blocks: tuple[tuple[int, int], ...]) -> Iterator[int]:
    for block in blocks:
        for first, last in block:
            yield from range(first, last + 1)


_INVISIBLE: Final[dict[int, str | None]] = {
    **dict.fromkeys(_points(_IGNORABLE, _CONTROLS)),
    0x2800: " ",
    0x2028: "\n",
    0x2029: "\n\n",
}
_UNSEEN: Final[dict[int, str | None]] = {**_INVISIBLE, **dict.fromkeys(_points(_DIACRITICS))}


def without_invisible(text: str) -> str:
    """Return the text without what has no width; separators of lines and paragraphs are line breaks."""
    return text.translate(_INVISIBLE)


def seen(text: str) -> str:
    """Return the text as it is read: composed, without what has no width and without marks that compose nothing."""
    return unicodedata.normalize("NFC", without_invisible(text)).translate(_UNSEEN)
