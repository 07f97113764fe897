"""The program that a completion answers with.

In: the completion's text, and the language of its row. Out: the text of a code block, or `Unanswered` with the reason.
Called in the scorer's process; linear in the length of the text, and nothing is run here.
"""

from __future__ import annotations

from scorers.code.rows import ALIASES
from scorers.sandbox.program import Language
from scorers.text.extract import Unanswered, answering_part, last_block


def program_of(text: str, language: Language) -> str:
    """The last closed code block in that language, else the last without one. Raises Unanswered."""
    tags = {alias for alias, named in ALIASES.items() if named is language}
    block = last_block(answering_part(text), tags)
    if block is None:
        raise Unanswered("no closed code block after the thinking")
    if not block.strip():
        raise Unanswered("the code block is empty")
    return block
