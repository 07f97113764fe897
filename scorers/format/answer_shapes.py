"""The shapes that the answer alone, the part after the thinking, can have: a box, a block, a tag, a letter, an edit.

In: the part of a completion after its thinking, and the row's `verification_info`. Out: what is missing, in words; None
where nothing is. Which shape is asked for is the config's choice, or follows from the row's type. The same extractors
decide as where the content is scored, so that a right answer never fails here for its looks. Pure, linear in the length
of the text. `scorers.format.completion_shape` asks, and looks at the rest of a completion itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from sandbox.program import Language
from scorers.choice.scorer import states_letter
from scorers.format.blank import has_ink, is_blank
from scorers.simulation.answers import last_object
from scorers.swe.answer import patch_of, whole_file
from scorers.swe.edits import NoEdit, edits_of, solution_of
from scorers.text.extract import Unanswered, fenced_blocks, last_answer, last_box
from scorers.text.totals import total_of
from tasks.kinds import ROW_TYPES, Shape
from verdicts.code.answer import ALIASES, language_of, program_of

# The last line of an answer to a multiple choice: `Answer: C`, `**(C)**`.
_LETTER_LINE: Final = re.compile(r"(?:.*\banswer\b(?:\s+is\b)?)?[\W_]*[A-Za-z][\W_]*", re.IGNORECASE)
_FENCE: Final = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_LONGEST_LETTER_LINE: Final = 120  # characters: what the pattern may try in more than one way

Missing = Callable[[str, Mapping[str, Any]], str | None]


def _any(response: str, _: Mapping[str, Any]) -> str | None:
    return "nothing after the thinking" if is_blank(_FENCE.sub("", response)) else None


def _box(response: str, _: Mapping[str, Any]) -> str | None:
    return (
        "no closed and filled \\boxed{} after the thinking"
        if is_blank(last_box(response) or "", in_box=True)
        else None
    )


def _tag(response: str, _: Mapping[str, Any]) -> str | None:
    return (
        "no closed and filled <answer> after the thinking" if is_blank(last_answer(response) or "") else None
    )


def _block(response: str, _: Mapping[str, Any]) -> str | None:
    blocks = fenced_blocks(response)
    return (
        None if blocks and has_ink(blocks[-1].text) else "no closed and filled code block after the thinking"
    )


def _box_block_or_object(response: str, info: Mapping[str, Any]) -> str | None:
    has_one = (
        _box(response, info) is None or _block(response, info) is None or last_object(response) is not None
    )
    return None if has_one else "no closed and filled \\boxed{}, code block or object after the thinking"


def _letter(response: str, info: Mapping[str, Any]) -> str | None:
    """Ask for a box, a tag, a letter in the last line, or one with its explanation behind it.

    Whether the letter is one of the options is its content.
    """
    last = (response.strip().splitlines() or [""])[-1]
    stated = (
        _box(response, info) is None
        or _tag(response, info) is None
        or (len(last) <= _LONGEST_LETTER_LINE and _LETTER_LINE.fullmatch(last))
        or states_letter(response, info.get("answer"))
    )
    return None if stated else "no box, no <answer>, and no letter in the last line"


def _hash(response: str, _: Mapping[str, Any]) -> str | None:
    mark = response.rfind("####")
    is_filled = mark >= 0 and not is_blank(response[mark + 4 :], in_box=True)
    return None if is_filled else "no `####` with something after it"


def _total(response: str, _: Mapping[str, Any]) -> str | None:
    total = total_of(response)
    return None if total.points is not None else total.reason


def _program(response: str, info: Mapping[str, Any]) -> str | None:
    """Return a block in the row's own language; one that nobody knows is the scorer's to refuse."""
    language = ALIASES.get(language_of(info).strip().lower(), Language.PYTHON)
    try:
        program = program_of(response, language)
    except Unanswered as error:
        return str(error)
    return None if has_ink(program) else "an empty program"


def _edit(response: str, info: Mapping[str, Any]) -> str | None:
    """Return an edit that can be read; whether it can be made is its content."""
    answer = info.get("answer")
    keys = answer.keys() if isinstance(answer, Mapping) else ()
    try:
        if "code_context" in keys:
            edits_of(solution_of(response))
        elif "oracle_patches" in keys:
            patch_of(response)
        elif not has_ink(whole_file(response)):
            return "an empty file"
    except NoEdit as error:
        return str(error)
    return None


NAMED: Final[Mapping[Shape, Missing]] = {
    "any": _any,
    "box": _box,
    "block": _block,
    "tag": _tag,
    "box_block_or_object": _box_block_or_object,
    "letter": _letter,
    "hash": _hash,
    "total": _total,
    "program": _program,
    "edit": _edit,
}


def missing_part(
    response: str, shape: Shape | Literal["auto"], verification_info: Mapping[str, Any]
) -> str | None:
    """Say what an answer lacks of its shape; None: nothing.

    Args:
        response: the part after the thinking.
        shape: a key of NAMED, or `auto`: the row's type decides, as `tasks.kinds` declares it.
        verification_info: of the row.
    """
    if shape == "auto":
        row_type = ROW_TYPES.get(str(verification_info.get("type")))
        shape = row_type.shape if row_type else "any"
    return NAMED[shape](response, verification_info)
