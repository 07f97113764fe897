r"""Where the answer of a completion is: pure functions on text.

In: the text of a completion, without its prompt, so that a box in the prompt never counts. Out: the part that answers,
and the content of its last box. Called in the scorer's process; every function is linear in the length of the text, so
that no text can make it slow.
"""

from __future__ import annotations

import re

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"
_BOX_OPEN = re.compile(r"\\boxed\s*\{")


def response_part(text: str) -> str | None:
    """What follows the last closed thinking span; the whole text where there is none.

    The opening tag may be missing: some chat templates put it at the end of the prompt. None where a span is opened and
    never closed: such a completion is still thinking and has not answered.
    """
    response = text.rpartition(THINK_CLOSE)[2]
    return None if THINK_OPEN in response else response


def last_box(text: str) -> str | None:
    r"""The content of the last `\boxed{...}`, braces balanced, over any number of lines; None where there is none.

    A last box that is never closed is no answer, and an earlier one does not stand in for it: the text was cut off
    while it stated its result. Escaped braces (`\{`) are content, not structure. Of boxes in boxes it is the innermost.
    """
    openings = [opening.end() for opening in _BOX_OPEN.finditer(text)]
    if not openings:
        return None
    start = position = openings[-1]
    depth = 1
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2           # an escaped character, brace or not, never opens or closes a group
            continue
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[start:position]
        position += 1
    return None
