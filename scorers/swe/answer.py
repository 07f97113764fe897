"""What an answer edits: out of the completion's text.

In: the text, and what kind of edit the row asks for. Out: the files that it writes, or the changes of its patch. Called
in the scorer's process, linear in the text. What a policy gets wrong raises `NoEdit`, the reason of its zero.
"""

from __future__ import annotations

from typing import Final

from config.scorer_kinds import SweConfig
from scorers.swe.diff import BadPatch, changes_of
from scorers.swe.edits import NoEdit, apply_edits, edits_of, solution_of
from scorers.swe.rows import Edits, Patches, Reference, WholeFile
from scorers.text.extract import answering_part, fenced_blocks, thought_part

DIFF_TAGS: Final = frozenset({"diff", "patch", "udiff"})


def edited(text: str, reference: Reference, config: SweConfig) -> dict[str, str]:
    """Return, by path, the new content of each file that the answer writes; of a unified diff the change of each file.

    The one file of a `WholeFile` has the path "". Raises Unanswered; NoEdit where the answer is no such edit.
    """
    response = answering_part(text)
    match reference:
        case WholeFile():
            return {"": whole_file(response)}
        case Edits():
            if config.think == "required" and not has_thought(text):
                raise NoEdit("no closed and filled thinking span")
            return apply_edits(
                reference.before, edits_of(solution_of(response)), compatible=config.compatible
            )
        case Patches():
            return patch_of(response)


def has_thought(text: str) -> bool:
    """Return whether something stands in a closed thinking span; its opening mark may be in the prompt."""
    return bool((thought_part(text) or "").strip())


def whole_file(response: str) -> str:
    """Return the last fenced block with a language, stripped. Raises NoEdit."""
    blocks = [block for block in fenced_blocks(response) if block.tag]
    if not blocks:
        raise NoEdit("no closed fenced block with a language")
    if not (text := blocks[-1].text.strip()):
        raise NoEdit("the last fenced block with a language is empty")
    return text


def patch_of(response: str) -> dict[str, str]:
    """Return the change of each file in all blocks tagged as diffs, else in those without a tag, else in the text.

    Of two patches of one file the last counts. Raises NoEdit.
    """
    part = solution_of(response) if "<solution>" in response else response
    blocks = fenced_blocks(part)
    texts = [block.text for block in blocks if block.tag in DIFF_TAGS]
    if not texts:
        texts = [block.text for block in blocks if not block.tag and "@@" in block.text] or [part]
    changes: dict[str, str] = {}
    for text in texts:
        try:
            changes |= changes_of(text)
        except BadPatch as error:
            raise NoEdit(f"the patch can't be read: {error}") from error
    if not changes:
        raise NoEdit("no unified diff in the answer")
    return changes
