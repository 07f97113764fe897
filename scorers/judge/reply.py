"""A judge's reply is read here: it says right, wrong, or nothing that counts.

In: the reply, and the case that the judge was asked about. Out: a `Ruling`; a ruling without a value leaves the answer
unscorable, and its reason says why. A verdict stands at the end of the reply: a JSON object, or a line with nothing but
one word in whatever dress (`**True**`, `'yes'`, a code block). A label may precede the word (`Final Decision: Yes`).
Where no verdict ends the reply, the first line counts if it is one and nothing else, and what follows only explains it:
no word of the other side in it, no doubt, no condition. Words in the judge's reasoning count for nothing, and two
verdicts that differ are none.

A judge may quote what it was given, or do as it is told there. So a verdict counts without question only where it
carries the call's nonce, which no answer holds. The reply is parsed first, every object of JSON in it too; then a
verdict without the nonce that calls the answer right does not count if the answer has such a word in it, in any way
that a reader may take it (`scorers.text.escapes`). A judge that was asked for the nonce and calls the answer wrong
always counts: else no such answer would ever be wrong. What it may have quoted before takes nothing from that.

TinyV and the verifiers of `stem` and `math` are never asked for the nonce, so both sides are treated alike there: a
labelled verdict counts, right or wrong, unless the answer has a label too; a bare word counts on neither side where the
answer has such a word. Everything here is linear in the length of the reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from scorers.judge.prompt import JudgeCase
from scorers.served_model.protocol import CUT_OFF, ENDED_BY, Ruling
from scorers.text.escapes import views
from scorers.text.extract import response_part, visible

MAX_REPLY_CHARS: Final = 100_000
_MAX_LINE_CHARS: Final = 200  # of a line that is a verdict
_SHOWN_CHARS: Final = 120

_RIGHT: Final = ("true", "yes", "correct")
_WRONG: Final = ("false", "no", "incorrect")
_NO_LETTER: Final = (r"(?<![^\W\d_])", r"(?![^\W\d_])")  # before and after a word: `_True_` is one too
_RIGHT_WORD: Final = re.compile(rf"{_NO_LETTER[0]}(?:{'|'.join(_RIGHT)}){_NO_LETTER[1]}")
_HEDGE: Final = re.compile(rf"\b(?:{'|'.join(_WRONG)}|not|partial(?:ly)?)\b", re.IGNORECASE)
_OPEN: Final = (
    r"\b(?:however|but|although|though|unless|except|wait|actually|if|when|assuming|provided|maybe)\b"
)
# What an explanation may not hold below a verdict: doubt, words of the other side, text of the prompt.
_AGAINST_RIGHT: Final = re.compile(
    rf"{_OPEN}|\b(?:{'|'.join(_WRONG)}|not|partial(?:ly)?|wrong|only)\b|n['\u2019]t\b", re.IGNORECASE
)
_AGAINST_WRONG: Final = re.compile(rf"{_OPEN}|\b(?:{'|'.join(_RIGHT)}|right)\b", re.IGNORECASE)
_OF_THE_PROMPT: Final = re.compile(r"^[ \t]*(?:#|\[(?:begin|end) )", re.MULTILINE)
_KEYS: Final = frozenset(
    {"verdict", "correct", "is_correct", "decision", "final_decision", "judgment", "judgement"}
)
_CODE: Final = "code"
_WORD: Final = rf"(?P<word>{'|'.join(_RIGHT + _WRONG)})"
_LABEL: Final = r"(?:final[ _])?(?:decision|grade|verdict|judge?ment)"
_ANSWER_LABEL: Final = (
    rf"(?:{_LABEL}|(?:final )?answer)"  # TinyV's, which for others would name the answer itself
)
_DRESS: Final = r"[\s*_`~\"'\u2018\u2019\u201c\u201d()\[\]{}$#-]"
_DRESS_CHARS: Final = " \t\r\n*_`~\"'\u2018\u2019\u201c\u201d()[]{}$#-.!"
_MACRO: Final = re.compile(r"\\(?:boxed|text|textbf|mathbf|mathrm)(?=\{)")
_FENCE: Final = re.compile(
    r"^[ \t]*(?:```|~~~)[ \t]*(?:\w{1,20}(?=[ \t]*(?:\{|$)))?", re.MULTILINE
)  # and its tag
_ENDS: Final = " \t\r\n*`~"  # around a reply
_FLAT: Final = re.compile(r"\{[^{}]*\}")
_Pairs = list[tuple[str, Any]]  # of an object of JSON


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reading is one place of a reply that says right or wrong."""

    is_right: bool
    word: str
    code: str | None = None  # the nonce that the verdict carries, as JSON alone can
    is_bare: bool = False  # a word without a label
    is_labelled: bool = False  # a word behind a label; neither: an object


class _Contradiction(Exception):
    """This is raised where one JSON object says both right and wrong."""


def verdict_of(text: str | None, finish_reason: str | None, case: JudgeCase) -> Ruling:
    """Read the verdict on `case` in a judge's reply.

    Args:
        text: the reply, a thinking judge's thoughts included; None where the endpoint gave no content.
        finish_reason: as the endpoint gave it.
        case: what the judge was asked about.
    """
    if finish_reason == CUT_OFF:
        return Ruling(None, f"the judge's reply was cut off {ENDED_BY}: {_shown(text or '')}")
    if not text or not text.strip():
        return Ruling(None, "the judge's reply is empty")
    if len(text) > MAX_REPLY_CHARS:
        return Ruling(None, f"the judge's reply has {len(text)} characters; {MAX_REPLY_CHARS} is the limit")
    said = response_part(text)
    if said is None:
        return Ruling(None, "the judge's thinking never ended")
    said = _MACRO.sub("", _FENCE.sub("", visible(said))).strip(_ENDS)
    label = _ANSWER_LABEL if case.variant == "tinyv" else _LABEL
    try:
        return _judged(said, label, case)
    except _Contradiction:
        return Ruling(None, f"the judge's reply holds both verdicts: {_shown(said)}")


def _judged(said: str, label: str, case: JudgeCase) -> Ruling:
    final = _final(said, label) or _first(said, label)
    if final is None:
        return Ruling(None, f"the judge's reply does not end with a verdict: {_shown(said)}")
    others = {reading for reading in _readings(said, label) if reading.is_right != final.is_right}
    if final.code is not None:
        if final.code != case.nonce:
            return Ruling(None, f"the judge's verdict carries another call's code: {_shown(said)}")
        others = {reading for reading in others if reading.code == case.nonce}  # the rest may be quotations
    is_doubtful = final.code is None and _is_doubtful(final, label, case)
    if final.is_right or is_doubtful:
        is_contradicted = bool(others)
    else:
        is_contradicted = not all(_is_doubtful(other, label, case) for other in others)
    if is_contradicted:
        raise _Contradiction
    if is_doubtful:
        return Ruling(None, f"the judge's {final.word!r} has no code, and may be a quotation: {_shown(said)}")
    called = "right" if final.is_right else "wrong"
    return Ruling(
        float(final.is_right),
        f"the judge calls {_shown(case.answer)} {called}; the reference is {_shown(case.reference)}",
    )


def _is_doubtful(final: _Reading, label: str, case: JudgeCase) -> bool:
    """Say whether a verdict without the nonce counts for nothing, since the answer may have put it into the reply."""
    if not final.is_right and (_asks_for_code(case) or final.is_labelled):
        return False
    quotable = views(f"{case.answer}\n{case.reference}" if final.is_bare else case.answer)
    if not any(_RIGHT_WORD.search(view) for view in quotable):
        return False
    is_own_form = final.is_labelled and not _asks_for_code(case)
    own_label = rf"{_NO_LETTER[0]}{label}{_NO_LETTER[1]}"
    return not is_own_form or any(re.search(own_label, view) for view in quotable)


def _asks_for_code(case: JudgeCase) -> bool:
    return case.variant == "default"


def _final(said: str, label: str) -> _Reading | None:
    """Find the verdict that the text ends with."""
    if said.endswith("}"):
        for start in dict.fromkeys((0, said.rfind("\n{") + 1, said.rfind("{"))):
            if said[start] == "{" and (reading := _of_object(said[start:])) is not None:
                return reading
    line = said.rpartition("\n")[2].strip()
    if (reading := _of_line(line, label)) is not None:
        return reading
    found = list(_labelled(line, label))
    if not found or line[found[-1].end() :].strip(_DRESS_CHARS):
        return None
    return _of_word(found[-1]["word"], is_labelled=True)


def _first(said: str, label: str) -> _Reading | None:
    """Find the verdict that the text begins with, where what follows explains it and can't be taken otherwise."""
    line, _, rest = (part.strip() for part in said.partition("\n"))
    reading = _of_object(line) if line.startswith("{") else _of_line(line, label)
    if reading is None or reading.code is not None:
        return reading
    against = _AGAINST_RIGHT if reading.is_right else _AGAINST_WRONG
    return None if against.search(rest) or _OF_THE_PROMPT.search(rest) else reading


def _readings(said: str, label: str) -> Iterator[_Reading]:
    """Find every place that reads as a verdict."""
    for pairs in _objects(said):
        if (reading := _of_pairs(pairs)) is not None:
            yield reading
    for line in said.split("\n"):
        if (of_line := _of_line(line.strip(), label)) is not None:
            yield of_line
    yield from (_of_word(found["word"], is_labelled=True) for found in _labelled(said, label))


def _labelled(text: str, label: str) -> Iterator[re.Match[str]]:
    return re.finditer(rf"\b{label}(?:{_DRESS}|[:=]){{1,12}}{_WORD}\b", text, re.IGNORECASE)


def _of_line(line: str, label: str) -> _Reading | None:
    """Read a line that is one word and its dress, after a label or not."""
    if len(line) > _MAX_LINE_CHARS:
        return None
    found = re.fullmatch(
        rf"{_DRESS}*(?P<label>{label}(?:{_DRESS}|[:=])+)?{_WORD}(?:{_DRESS}|[.!])*", line, re.IGNORECASE
    )
    if found is None:
        return None
    return _of_word(found["word"], is_bare=found["label"] is None, is_labelled=found["label"] is not None)


def _objects(text: str) -> Iterator[_Pairs]:
    """Parse every object of JSON that stands in the text, within others too.

    Text that is none costs time again at each of its braces; beyond that of four times the text, only objects without
    others in them are found.
    """
    found: list[_Pairs] = []

    def note(pairs: _Pairs) -> _Pairs:
        found.append(pairs)
        return pairs

    decoder = json.JSONDecoder(object_pairs_hook=note)
    start, room = text.find("{"), 4 * len(text)
    while start >= 0 and room >= 0:
        found.clear()
        try:
            _, end = decoder.raw_decode(text, start)
            yield from found
        except json.JSONDecodeError as error:
            end, room = start + 1, room - (error.pos - start)
        except (ValueError, RecursionError):
            end, room = start + 1, room - len(text)
        start = text.find("{", end)
    if start >= 0:
        for flat in _FLAT.finditer(text, start):
            yield from _objects_of_one(flat.group())


def _objects_of_one(text: str) -> list[_Pairs]:
    """Parse a text that is one object of JSON, with each key as often as it stands there; [] where it is none."""
    try:
        return [json.loads(text, object_pairs_hook=list)]
    except (ValueError, RecursionError):
        return []


def _of_object(text: str) -> _Reading | None:
    """Read a JSON object with one of the verdict's keys. Raises _Contradiction where two such keys differ."""
    return next((_of_pairs(pairs) for pairs in _objects_of_one(text)), None)


def _of_pairs(pairs: _Pairs) -> _Reading | None:
    values = [value for key, value in pairs if key.casefold() in _KEYS]
    verdicts = [word for value in values if (word := _word(value)) is not None]
    if not verdicts:
        return None
    reading = _of_word(verdicts[0])
    codes = [value for key, value in pairs if key.casefold() == _CODE]
    is_hedged = reading.is_right and any(isinstance(value, str) and _HEDGE.search(value) for value in values)
    if len({_of_word(word).is_right for word in verdicts}) > 1 or len(codes) > 1 or is_hedged:
        raise _Contradiction
    return _Reading(reading.is_right, reading.word, str(codes[0]).strip().lower() if codes else None)


def _word(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    word = value.strip(_DRESS_CHARS).casefold() if isinstance(value, str) else ""
    return word if word in _RIGHT + _WRONG else None


def _of_word(word: str, *, is_bare: bool = False, is_labelled: bool = False) -> _Reading:
    return _Reading(word.casefold() in _RIGHT, word.casefold(), is_bare=is_bare, is_labelled=is_labelled)


def _shown(text: str) -> str:
    """Show the beginning and the end of a text in one line, for people."""
    line = " ".join(text.split())
    return repr(
        line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS // 2]}...{line[-_SHOWN_CHARS // 2 :]}"
    )
