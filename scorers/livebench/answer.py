r"""Where a response to a question of LiveBench says its answer.

In: the part of a completion that answers. Out: the text of its answer, or `Unanswered` with the reason. The prompts ask
for bold words, later ones for `<solution>`; models answer in a box as well. One place counts: a `<solution>` before
all, else whichever of box and bold comes last. A right answer elsewhere in the text counts for nothing. Every function
is linear in the length of its text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from scorers.text.extract import Unanswered, last_answer, last_block, last_box, within

MAX_SHORT_CHARS: Final = 2_000  # of an answer that is a word or a list of words
_BOX: Final = "\\boxed"
_ASTERISKS: Final = re.compile(r"\*\*+")
_EMPTY_LINE: Final = re.compile(r"\n[ \t]*\n")
_LIST_COMMA: Final = re.compile(r"[ \t]*,[ \t]*(?:and[ \t]+)?")
_LEAD: Final = re.compile(
    r"(?:the\s+|my\s+)?(?:final\s+|correct\s+|column(?:'?s)?\s+)?(?:answer|solution|class|output)"
    r"(?:\s+is\b\s*:?|\s*:)\s*",
    re.IGNORECASE,
)
_MARKUP: Final = re.compile(r"\\(?:text|textbf|textit|texttt|mathbf|mathrm)\b|[\\{}$*`]")
_HEADING_CHARS: Final = 40
# How a line begins that leads to a text or a table.
_LEADS: Final = (
    "here",
    "below",
    "sure",
    "certainly",
    "of course",
    "ok",
    "the corrected",
    "the converted",
    "the table",
    "corrected",
    "converted",
    "output",
    "table",
)
_AROUND: Final = " .;:!?'\""


class _Bold(NamedTuple):
    start: int
    end: int  # behind the closing asterisks
    text: str


def marked(response: str) -> str:
    """Return the words that the response marks as its answer, without markup and lead (`The answer is`).

    Raises:
        Unanswered: nothing is marked; the last mark is empty, never closed, or longer than an answer can be.
    """
    text = last_answer(response, "solution")
    if text is None:
        text = _box_or_bold(response)
    return _short(text)


def last_line(response: str) -> str:
    """Return what a response says that was to be nothing but its answer: a `<solution>`, a box, else its last line."""
    text = last_answer(response, "solution")
    if text is None and _BOX in response:
        text = _box(response)
    return _short(response.strip().rpartition("\n")[2] if text is None else text)


def whole(response: str, tags: tuple[str, ...]) -> str:
    """Return the text of a response that was to be nothing but a text, without a line that leads to it (`Here it is:`).

    Args:
        response: at most `scorers.text.extract.MAX_RESPONSE_CHARS`.
        tags: of fenced blocks that hold it, where there are any; one without a tag does as well.
    Raises:
        Unanswered: nothing is there.
    """
    text = last_answer(response, "solution")
    inner = response if text is None else text
    block = last_block(inner, tags)
    if block is not None:
        inner = block
    elif text is None:
        first, line_break, rest = inner.strip().partition("\n")
        if line_break and first.rstrip(" *").endswith(":") and first.lstrip(" *#").lower().startswith(_LEADS):
            inner = rest
    if not inner.strip():
        raise Unanswered("no answer: nothing in the response")
    return inner.strip(" \r\n")  # a tab parts cells, and the first of them may be empty


def words_of(text: str) -> str:
    """Return the text for a comparison: lower case, single spaces, no full stop at the end."""
    return " ".join(text.casefold().split()).strip(_AROUND)


def _short(text: str) -> str:
    text = " ".join(_MARKUP.sub("", within(text, MAX_SHORT_CHARS)).split()).strip(_AROUND)
    if (lead := _LEAD.match(text)) is not None and lead.end() < len(text):
        text = text[lead.end() :].strip(_AROUND)
    if not text:
        raise Unanswered("no answer: what is marked as one is empty")
    return text


def _box_or_bold(response: str) -> str:
    bold = _last_bold(response)
    if response.rfind(_BOX) > (-1 if bold is None else bold.start):
        return _box(response)
    if bold is None:
        raise Unanswered("no answer: neither bold words nor a <solution> or a box after the thinking")
    return bold.text


def _box(response: str) -> str:
    box = last_box(response)
    if box is None:
        raise Unanswered("no answer: the last box was never closed")
    return box


def _last_bold(response: str) -> _Bold | None:
    """Return the last bold words, those beside them that only commas part taken in; None where there are none.

    A heading (`**Step 2:**`) is no answer; that of an answer (`**Answer:** yes`) stands for the rest of its line.
    """
    found: _Bold | None = None
    is_heading = False
    for bold in _bolds(response):
        if bold.text.rstrip().endswith(":") or response.startswith(":", bold.end):
            if len(bold.text) <= _HEADING_CHARS and _LEAD.fullmatch(f"{bold.text.rstrip(' :')}:") is not None:
                found, is_heading = bold, True
        elif found is not None and not is_heading and _LIST_COMMA.fullmatch(response, found.end, bold.start):
            text = found.text if len(found.text) > MAX_SHORT_CHARS else f"{found.text}, {bold.text}"
            found = _Bold(found.start, bold.end, text)
        else:
            found, is_heading = bold, False
    if found is None or not is_heading:
        return found
    line_end = response.find("\n", found.end)
    return _Bold(found.start, found.end, response[found.end : line_end if line_end >= 0 else len(response)])


def _bolds(response: str) -> list[_Bold]:
    """Return what stands between two or more asterisks on each side, within one paragraph, as Markdown pairs them."""
    bolds = []
    opening: re.Match[str] | None = None
    for run in _ASTERISKS.finditer(response):
        if opening is not None and not response[run.start() - 1].isspace():
            text = response[opening.end() : run.start()]
            if _EMPTY_LINE.search(text) is None:
                bolds.append(_Bold(opening.start(), run.end(), text))
                opening = None
                continue
        opening = run if response[run.end() : run.end() + 1].strip() else None
    return bolds
