"""What an answer edits: out of the completion's text.

In: the text, and what kind of edit the row asks for. Out: the files that it writes, or the changes of its patch. Called
in the scorer's process, linear in the text. What a policy gets wrong raises `NoEdit`, the reason of its zero.
"""

from __future__ import annotations

from typing import Final

from config.scorer_kinds import SweConfig
from scorers.swe.diff import BadPatch, changes_of
from scorers.swe.edits import NoEdit, apply_edits, edits_of, solution_of
from scorers.swe.patched import patched
from scorers.swe.rows import Edits, Patches, SweRow, WholeFile
from scorers.text.extract import answering_part, fenced_blocks, thought_part

DIFF_TAGS: Final = frozenset({"diff", "patch", "udiff"})
DIFF_STARTS: Final = ("diff --git ", "--- ")


def edited(text: str, row: SweRow, config: SweConfig) -> dict[str, str]:
    """Return, by path, the new content of each file that the answer writes; of a reference's patch the changes.

    The one file of a `WholeFile` without tests has the path "". Raises Unanswered; NoEdit where the answer is no edit.
    """
    reference = row.reference
    if config.answer == "diff" and not isinstance(reference, Patches):
        return _by_diff(text, row)
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


def _by_diff(text: str, row: SweRow) -> dict[str, str]:
    """Return the files that a unified diff changes: the text as it is, as an environment hands it on, or its blocks."""
    patch = text
    if not text.startswith(DIFF_STARTS):
        part = answering_part(text)
        patch = "".join(block.text for block in fenced_blocks(part) if block.tag in DIFF_TAGS) or part
    written = patched(row.files, patch)
    if not written:
        raise NoEdit("no unified diff in the answer")
    if isinstance(row.reference, WholeFile) and row.tests is None:
        return {
            "": next((written[path] for path in row.files if path in written), row.reference.before).strip()
        }
    return written


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
