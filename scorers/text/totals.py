r"""The total out of ten that a grading ends with.

In: what a grader wrote: a rubric model about an answer, or the policy itself where grading is what it learns. Out: the
points, 0 to 10, or the reason why there are none. Of several totals the last counts. One counts only where a line
begins with it (`**Total Score: 7/10**`, `| Total Score | 7 |`, `The total score is 7 out of 10.`), its key or its value
in quotes or not (`"total_score": "7/10"`), or where a line is an object of JSON that has it. One that the grader quotes
from the answer, inside a sentence or behind a quotation mark, is none. What is no finite number from 0 to 10 is none
either, and no earlier total stands in for it. Linear in the length of the text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from scorers.text.extract import Unanswered, answering_part

OUT_OF: Final = 10.0
_SHOWN_CHARS: Final = 80  # of a line in a reason
_MOST_CHARS: Final = 400  # of a line that can be a total, after its label

# Only typography: what a text can lose without another meaning.
_TYPOGRAPHY: Final = re.compile(r"\\(?:boxed|text|textbf|mathbf|mathrm|bf|,|;|!|\(|\)|\[|\])|[*_`$\[\]{}]")
_WORD: Final = re.compile(r"total|final|overall", re.IGNORECASE)  # of every label
_LABEL: Final = re.compile(
    r"[\s#|\-\u2022]*(?:[0-9]{1,2}[.)]\s)?"  # heading, table, list
    r"(?:(?:so|thus|hence|therefore|and|the|my|your|student's)[\s,]+){0,4}"
    r"(?:(?P<sure>(?:final\s+|overall\s+)?total\s*score)|(?P<likely>(?:final|overall)(?:\s+(?:score|grade|total|mark))?"
    r"|total(?:\s+(?:points|grade|mark))?))\b"
    r"(?:\s+(?:awarded|given|earned|obtained|points))*"
    r"\s*(?P<of>\((?:\s*(?:out\s+of|of|max\.?|maximum|/|0\s*(?:-|\u2013|to))\s*10(?:\s*points?)?\s*)\))?",
    re.IGNORECASE,
)
_BARE_OF: Final = re.compile(r"\s*\(\s*out\s+of\s+10\s*\)\s*(?=:)", re.IGNORECASE)
_SEPARATOR: Final = re.compile(
    r"\s*(?:[:=|\uff1a]+|\b(?:is|was|of)\b|[-\u2013\u2014](?=\s))+[\s:=|]*", re.IGNORECASE
)
_SUM: Final = re.compile(r"[0-9.+/()\s\u2212-]*[0-9)]\s*=\s*")
_VALUE: Final = re.compile(
    r"(?P<points>[0-9]{1,9}(?:\.[0-9]{1,9})?)(?![0-9.,]?[0-9])"
    r"(?:\s*points?\b)?"
    r"(?:\s*(?:/|\||\bout\s+of\b)\s*(?P<out_of>[0-9]{1,9}(?:\.0{1,9})?)(?![0-9.,]?[0-9]))?"
    r"(?:\s*(?:points?|pts)\b\.?)?",
    re.IGNORECASE,
)
_OPENING: Final = {"(": ")", "'": "'", '"': '"'}
_TAIL: Final = re.compile(
    r"[^\w%\u2030]*$|[\s)]*(?:[.,;:!?](?:\s|$)|[(|\u2026]|[-\u2013\u2014]\s+(?![0-9])"
    r"|(?:because|since|as|for|due|with|based)\b)",
    re.IGNORECASE,
)
_ANOTHER: Final = re.compile(r"total\s+score|[0-9]\s*(?:/|out\s+of)\s*10(?![0-9])", re.IGNORECASE)
_BAD_NUMBER: Final = re.compile(
    r"(?:[-\u2212+]?\s*(?:nan|inf(?:inity)?)\b|[-\u2212]\s*[0-9.])", re.IGNORECASE
)
_KEY: Final = r"[A-Za-z _]{1,40}"
_QUOTED_KEY: Final = re.compile(  # "total_score": 7
    rf"[\s#|\-\u2022]*(?:([\"'])({_KEY})\1|[\u201c\u2018\u00ab]({_KEY})[\u201d\u2019\u00bb])"
    r"(?=\s*(?:[:=|\uff1a]|is\b))"
)
_NUMBER: Final = r"\s*[0-9.]{1,19}(?:\s*/\s*[0-9]{1,9})?(?:\s*points?)?\s*"
_QUOTED_NUMBER: Final = re.compile(
    rf"([\"'])({_NUMBER})\1|[\u201c\u2018\u00ab]({_NUMBER})[\u201d\u2019\u00bb]", re.IGNORECASE
)
_UNDERSCORE: Final = re.compile(r"(?<=[A-Za-z])_(?=[A-Za-z])")  # of a name, where others are emphasis
_QUOTES: Final = "\"'\u201c\u201d\u2018\u2019"


@dataclass(frozen=True, slots=True)
class Total:
    """What `total_of` found."""

    points: float | None  # 0 to 10; None where there is no total
    reason: str  # for people: the line that says it, or what is wrong


def total_of(text: str) -> Total:
    """Return the last total that a line of `text` begins with, of what follows its thinking.

    `Total Score`, in any case, is enough of a label; `Final`, `Overall` and `Total` need the ten as well (`7/10`): a
    part of the grading may have a total too. Without any label, the first line has to be a total and nothing else.
    """
    try:
        response = answering_part(text)
    except Unanswered as error:
        return Total(None, str(error))
    lines = [line for line in response.strip().splitlines() if line.strip()]
    if len(lines) == 1 and lines[0].lstrip().startswith(tuple(_QUOTES)) and not _QUOTED_KEY.match(lines[0]):
        lines = [lines[0].strip(_QUOTES + " ")]  # a reply that is one quotation quotes nobody
    candidates = [number for number, line in enumerate(lines) if _WORD.search(line)][::-1]
    for kind in ("sure", "likely"):
        for number in candidates:
            if (total := _labelled(lines, number, kind)) is not None:
                return total
    return _bare(lines)


def _labelled(lines: list[str], number: int, kind: str) -> Total | None:
    """Return what a line says after its label; None where it has none of that kind, or only mentions it."""
    if (pairs := _object(lines[number])) is not None:
        return _of_object(pairs, lines[number], kind)
    line = _TYPOGRAPHY.sub("", _UNDERSCORE.sub(" ", lines[number]))
    if key := _QUOTED_KEY.match(line):
        line = (key[2] or key[3]) + line[key.end() :]
    if line.lstrip().startswith((">", *_QUOTES)):
        return None
    label = _LABEL.match(line)
    if label is None or label[kind] is None:
        return None
    rest = line[label.end() :]
    separator = _SEPARATOR.match(rest)
    said = rest[separator.end() :] if separator else rest.strip()
    if not said and number + 1 < len(lines):  # a heading, the value below it
        said, separator = _TYPOGRAPHY.sub("", lines[number + 1]).strip(), separator or _SEPARATOR.match(":")
    if not separator and not said[:1].isdigit() and not _BAD_NUMBER.match(said):
        return None  # "The total score should ...": a mention
    return _valued(said, lines[number], needs_scale=kind == "likely" and label["of"] is None)


def _object(line: str) -> list[tuple[str, Any]] | None:
    """Return the keys and values of a line that is one object of JSON, a key as often as it stands there."""
    text = line.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        pairs: list[tuple[str, Any]] = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return None
    return pairs


def _of_object(pairs: list[tuple[str, Any]], line: str, kind: str) -> Total | None:
    """Return the total that an object has under its one key of that kind; None where it has no such key."""
    found = [
        (label, value)
        for key, value in pairs
        if (label := _LABEL.fullmatch(_UNDERSCORE.sub(" ", key).strip())) is not None
        and label[kind] is not None
    ]
    if not found:
        return None
    label, value = found[0]
    said = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return _valued(
        said if len(found) == 1 else "", line, needs_scale=kind == "likely" and label["of"] is None
    )


def _bare(lines: list[str]) -> Total:
    """Return the total of a text that has no label: its first line, where that is a total and nothing else."""
    nothing = Total(None, "no line begins with a total score")
    if not lines or any(_ANOTHER.search(line) for line in lines[1:]):
        return nothing
    line = _TYPOGRAPHY.sub("", lines[0]).strip()[:_MOST_CHARS]
    if scale := _BARE_OF.match(line):
        line = line[scale.end() :].lstrip(": ")
    sum_of = _SUM.match(line)
    value = _VALUE.fullmatch(line, sum_of.end() if sum_of else 0)
    if value is None and _BAD_NUMBER.match(line) is None:
        return nothing
    return _valued(line, lines[0], needs_scale=False)


def _valued(said: str, line: str, *, needs_scale: bool) -> Total:
    """Return the points that `said` begins with, where nothing after them takes them back."""
    value = tail = None
    if len(said) <= _MOST_CHARS:
        said = _QUOTED_NUMBER.sub(lambda quoted: quoted[2] or quoted[3], said)
        opening = said[:1] in _OPENING
        sum_of = _SUM.match(said, opening)
        value = _VALUE.match(said, sum_of.end() if sum_of else opening)
        tail = said[value.end() :].removeprefix(_OPENING[said[0]] if opening else "") if value else None
    if value is None or tail is None:
        problem = "no number from 0 to 10 in the total's line"
    elif value["out_of"] is not None and float(value["out_of"]) != OUT_OF:
        problem = f"a total out of {value['out_of']} where one out of 10 is wanted"
    elif needs_scale and value["out_of"] is None:
        problem = "a total that does not say out of how many"
    elif float(value["points"]) > OUT_OF:
        problem = "a total above 10"
    elif _TAIL.match(tail) is None or _ANOTHER.search(tail):
        problem = "more than one total, or another meaning, in the line"
    else:
        return Total(float(value["points"]), f"total {float(value['points']):g} of 10")
    shown = line.strip()
    shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}..."
    return Total(None, f"{problem}: {shown!r}")
