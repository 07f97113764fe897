"""Rows about patches: the shapes that users bring, as types.

In: a row's `verification_info`. Out: a `SweRow`. Called by `scorers.swe.scorer` for every completion; whatever no
answer could be scored against raises `BadMessage` naming it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from broker.errors import BadMessage
from scorers.swe.diff import BadPatch, changes_of
from scorers.swe.edits import MAX_CHARS
from scorers.swe.package_tests import RepoTests, tests_of
from verdicts.repository import files_of, is_inside

ROW_TYPES: Final = frozenset({"swe", "swe_verifiable"})
SHAPES: Final = '{"input", "ground_truth"}, {"code_context", "oracle_new_content"} or {"oracle_patches"}'


@dataclass(frozen=True, slots=True)
class WholeFile:
    """One file before and after; the answer is the file after (II-Thought)."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Edits:
    """Files before and after, by path; the answer is SEARCH/REPLACE edits (SWE-RL). A path of `after` alone is new."""

    before: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Patches:
    """What a patch changes in each file; the answer is a unified diff (SWE-RL)."""

    changes: Mapping[str, str]


Reference = WholeFile | Edits | Patches


@dataclass(frozen=True, slots=True)
class SweRow:
    """What an answer is compared with, and the tests that decide instead where the row has some."""

    reference: Reference
    tests: RepoTests | None
    path: str  # of the one file of a WholeFile with tests; "" elsewhere
    files: Mapping[str, str]  # by path: what an answer that is a diff changes


def read_row(verification_info: Mapping[str, Any]) -> SweRow:
    """Return the row. Raises BadMessage that names what it lacks."""
    row_type = verification_info.get("type")
    if row_type not in ROW_TYPES:
        raise BadMessage(
            f"the swe scorer needs verification_info of type 'swe' or 'swe_verifiable', got {row_type!r}"
        )
    answer = verification_info.get("answer")
    if not isinstance(answer, Mapping):
        raise BadMessage(
            f"a row without an answer: the swe scorer needs an object with {SHAPES}, got "
            f"{type(answer).__name__}"
        )
    reference = _reference(answer)
    if not answer.keys() & {"files", "test_command"}:
        return SweRow(reference, None, "", files_of(answer))
    if not answer.keys() >= {"files", "test_command"}:
        raise BadMessage("a swe row with one of `files` and `test_command`: tests need both")
    files = _texts(answer, "files")
    match reference:
        case WholeFile():
            path = _path_of(reference.before, files, answer.get("path"))
        case Edits():
            path, files = "", {**files, **reference.before}
        case Patches():
            raise BadMessage("a swe row with `oracle_patches` can't run tests: a diff is without its files")
    return SweRow(reference, tests_of(files, answer["test_command"]), path, files)


def _reference(answer: Mapping[str, Any]) -> Reference:
    if answer.keys() >= {"input", "ground_truth"}:
        return WholeFile(_text(answer, "input").strip(), _text(answer, "ground_truth").strip())
    if answer.keys() >= {"code_context", "oracle_new_content"}:
        return Edits(_texts(answer, "code_context"), _texts(answer, "oracle_new_content"))
    if "oracle_patches" in answer:
        return Patches(_changes(answer["oracle_patches"]))
    raise BadMessage(f"a swe row whose answer has neither of {SHAPES}; it has {sorted(map(str, answer))}")


def _path_of(before: str, files: Mapping[str, str], path: Any) -> str:
    """Return which of the files `input` is: the one that the row names, else the only one with its text."""
    if path is None:
        same = [name for name, text in files.items() if text.strip() == before]
        if len(same) == 1:
            return same[0]
    elif path in files:
        return str(path)
    raise BadMessage(
        "a swe row with `input` and `files` must name input's file as `path`, or hold its text once"
    )


def _text(answer: Mapping[str, Any], name: str) -> str:
    value = answer[name]
    if not isinstance(value, str):
        raise BadMessage(f"`{name}` of a swe row must be text, got {type(value).__name__}")
    if len(value) > MAX_CHARS:
        raise BadMessage(f"`{name}` of a swe row has {len(value)} characters; {MAX_CHARS} is the limit")
    return value


def _texts(answer: Mapping[str, Any], name: str) -> dict[str, str]:
    files = answer[name]
    if not isinstance(files, Mapping) or not all(isinstance(path, str) for path in files):
        raise BadMessage(
            f"`{name}` of a swe row must be an object of path and text, got {type(files).__name__}"
        )
    for path in files:
        if not is_inside(path):
            raise BadMessage(f"`{name}` of a swe row has the path {path!r}, which leads out of its folder")
    texts = {str(PurePosixPath(path)): _text(files, path) for path in files}
    if len(texts) < len(files):
        raise BadMessage(f"`{name}` of a swe row names one file twice: {sorted(files)}")
    return texts


def _changes(patches: Any) -> dict[str, str]:
    texts = list(patches.values()) if isinstance(patches, Mapping) else patches
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise BadMessage(
            "`oracle_patches` of a swe row must be a list of unified diffs, or an object of path and diff"
        )
    changes: dict[str, str] = {}
    for text in texts:
        try:
            changes |= changes_of(text)
        except BadPatch as error:
            raise BadMessage(
                f"`oracle_patches` of a swe row has a patch that can't be read: {error}"
            ) from error
    return changes
