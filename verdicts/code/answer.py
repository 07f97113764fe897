"""Find the program in a completion, and its language.

In: the completion's text, and the language of its row. Out: the text of a code block, or `Unanswered` with the reason.
Called in the scorer's process; takes time linear in the length of the text, and runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sandbox.program import Language
from verdicts.extract import Unanswered, answering_part, last_block

# Names of languages in rows, and tags of code blocks.
ALIASES: Final[Mapping[str, Language]] = {
    "python": Language.PYTHON,
    "py": Language.PYTHON,
    "python3": Language.PYTHON,
    "cpp": Language.CPP,
    "c++": Language.CPP,
    "cc": Language.CPP,
    "cxx": Language.CPP,
    "javascript": Language.JAVASCRIPT,
    "js": Language.JAVASCRIPT,
    "node": Language.JAVASCRIPT,
    "nodejs": Language.JAVASCRIPT,
}


def language_of(verification_info: Mapping[str, Any]) -> str:
    """Return the name of a row's language: its answer's, else the row's own, else Python."""
    answer = verification_info.get("answer")
    own = answer.get("language") if isinstance(answer, Mapping) else None
    return str(own or verification_info.get("language") or "python")


def tags_of(language: Language) -> set[str]:
    """Return the tags of a code block in that language."""
    return {alias for alias, named in ALIASES.items() if named is language}


def program_of(text: str, language: Language) -> str:
    """Return the last closed code block in that language, else the last one without a tag. Raises Unanswered."""
    block = last_block(answering_part(text), tags_of(language))
    if block is None:
        raise Unanswered("no closed code block after the thinking")
    if not block.strip():
        raise Unanswered("the code block is empty")
    return block
