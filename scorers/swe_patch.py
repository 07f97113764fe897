"""Patches: how near an edit comes to the one that fixed the issue.

In: the text of a completion, and a row whose answer is one of
    {"input", "ground_truth"}                   the answer is the whole file, in the last fenced block with a language
    {"code_context", "oracle_new_content"}      SEARCH/REPLACE edits of several files, in <solution> after a thought
    {"oracle_patches"}                          unified diffs, in blocks tagged diff or bare
Out: the similarity of the two changes in [0, 1]: II-Thought's ratio for the first form, SWE-RL's for the others; no
change at all is 0. Run by the scorer's process. Extraction happens here and is linear in the text; the comparison
happens in a child (`scorers.child`) that is killed at the deadline.

An answer without an edit that can be read and made is 0, with the reason and the component `edit: 0`, of which
`scorers.combine` makes SWE-RL's -1 where `format_penalty` asks for it. So is one whose change is over
`swe_compare.MAX_DIFF_CHARS`, over `swe_edits.MAX_CHARS` or MAX_EDITS, and one that uses up half the deadline and again
the other half alone in a fresh child. A reference over those limits is unscorable: no answer could match it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from broker.messages import Score, ScoreStatus
from config.scorers import ScorersConfig, SweConfig
from scorers.child import Child, LimitExceeded, Reply, Request
from scorers.extract import THINK_CLOSE, THINK_OPEN, fenced_blocks, response_part
from scorers.scorer import SelfTestFailed
from scorers.swe_compare import MAX_DIFF_CHARS, compare
from scorers.swe_diff import BadPatch, changes_of
from scorers.swe_edits import MAX_CHARS, NoEdit, apply_edits, edits_of, solution_of
from scorers.swe_rows import Edits, Patches, Reference, WholeFile, read_row

VERSION: Final = "1"                    # raise it with any change that can change a score
DIFF_TAGS: Final = frozenset({"diff", "patch", "udiff"})


class SwePatch:
    """Scorer of edits by their similarity with the reference's. Holds one child process."""

    name = "swe"
    version = VERSION

    def __init__(self, config: SweConfig, scorers: ScorersConfig) -> None:
        """Nothing is started here: the child is forked by the first comparison."""
        self._config = config
        self._scorers = scorers
        self._child = Child(compare)

    @property
    def child_pid(self) -> int | None:
        """Process id of the scoring child; None before the first comparison and after a kill."""
        return self._child.pid

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage naming what the row lacks."""
        read_row(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """The similarity; see the module for what becomes of everything else.

        Raises:
            Retryable: the child was killed from outside.
            BadMessage: as `check_row`.
        """
        started = time.monotonic()
        score = self._verdict(text, read_row(verification_info))
        return replace(score, seconds=time.monotonic() - started)

    def self_test(self) -> None:
        """Raises SelfTestFailed unless the fix is 1, nothing done is 0, and no answer is 0."""
        row = {"type": "swe", "answer": {"input": "a = 1\nb = 2", "ground_truth": "a = 1\nb = 3"}}
        for text, expected in (("```python\na = 1\nb = 3\n```", 1.0), ("```python\na = 1\nb = 2\n```", 0.0), ("", 0.0)):
            score = self.score(text, row)
            if score.value != expected:
                raise SelfTestFailed(f"the swe scorer gives {score.value} for {text!r}, where {expected} is right: "
                                     f"{score.reason}")

    def close(self) -> None:
        """Kill the child."""
        self._child.close()

    def _verdict(self, text: str, reference: Reference) -> Score:
        try:
            request = self._request(text, reference)
        except NoEdit as error:
            return self._scored(0.0, f"no edit: {error}", edit=0.0)
        request |= {"floor": self._config.subtract_floor, "syntax": self._config.syntax_gate}
        reply = self._ask(request)
        if isinstance(reply, LimitExceeded):
            return self._scored(0.0, f"the edit exceeded its {reply}, and again alone in a fresh child")
        return self._judged(reply)

    def _judged(self, reply: Reply) -> Score:
        """The score that the child's reply makes."""
        if reply["reference_size"] > MAX_DIFF_CHARS:
            return Score(status=ScoreStatus.UNSCORABLE, value=None, scorer=self.name, version=self.version, reason=(
                f"the reference's change has {reply['reference_size']} characters; {MAX_DIFF_CHARS} is the limit"))
        if reply["size"] > MAX_DIFF_CHARS:
            return self._scored(0.0, f"a change of {reply['size']} characters; {MAX_DIFF_CHARS} is the limit")
        if not reply["size"] or reply["broken"] is not None:
            return self._scored(0.0, f"the edit breaks {reply['broken']}" if reply["size"] else
                                "the edit changes nothing")
        value = reply["value"]
        if not self._config.subtract_floor or reply["floor"] >= 1.0:
            return self._scored(value, f"similarity {value:.4f} with the reference's change")
        above = max(0.0, (value - reply["floor"]) / (1.0 - reply["floor"]))
        return self._scored(above, f"similarity {value:.4f} with the reference's change, of which {reply['floor']:.4f} "
                                   "goes to an edit that does nothing")

    def _request(self, text: str, reference: Reference) -> Request:
        """What the child is to compare. Raises NoEdit where the answer holds none."""
        response = response_part(text)
        if response is None:
            raise NoEdit("the thinking was never closed")
        match reference:
            case WholeFile():
                return {"files": [["", reference.before, whole_file(response), reference.after]]}
            case Edits():
                if self._config.think == "required" and not has_thought(text):
                    raise NoEdit("no closed and filled thinking span")
                written = apply_edits(reference.before, edits_of(solution_of(response)),
                                      compatible=self._config.compatible)
                return {"files": [[path, reference.before.get(path), written.get(path), reference.after.get(path)]
                                  for path in sorted(written.keys() | reference.after.keys())]}
            case Patches():
                changes = patch_of(response)
                return {"changes": [[changes.get(path, ""), reference.changes.get(path, "")]
                                    for path in sorted(changes.keys() | reference.changes.keys())]}

    def _ask(self, request: Request) -> Reply | LimitExceeded:
        """The child's reply, or the limit that the request exceeded twice: the second time alone, in a fresh child."""
        for _ in range(2):
            try:
                return self._child.ask(request, timeout_s=self._config.deadline_s / 2)
            except LimitExceeded as error:
                exceeded = error
        return exceeded

    def _scored(self, value: float, reason: str, *, edit: float = 1.0) -> Score:
        return Score(status=ScoreStatus.SCORED, value=value, reason=reason, scorer=self.name, version=self.version,
                     components={"edit": edit})


def has_thought(text: str) -> bool:
    """Whether something stands in a closed thinking span; its opening tag may be in the prompt."""
    thought, closing, _ = text.rpartition(THINK_CLOSE)
    return bool(closing) and bool(thought.replace(THINK_OPEN, "").replace(THINK_CLOSE, "").strip())


def whole_file(response: str) -> str:
    """The last fenced block with a language, stripped. Raises NoEdit."""
    blocks = [block for block in fenced_blocks(response) if block.tag]
    if not blocks:
        raise NoEdit("no closed fenced block with a language")
    if not (text := blocks[-1].text.strip()):
        raise NoEdit("the last fenced block with a language is empty")
    if len(text) > MAX_CHARS:
        raise NoEdit(f"a file of {len(text)} characters; {MAX_CHARS} is the limit")
    return text


def patch_of(response: str) -> dict[str, str]:
    """The change of each file in all blocks tagged as diffs; else in those without a tag; else in the text itself.

    Of two patches of one file the last counts. Raises NoEdit.
    """
    part = solution_of(response) if "<solution>" in response else response
    blocks = fenced_blocks(part)
    texts = [block.text for block in blocks if block.tag in DIFF_TAGS]
    if not texts:
        texts = [block.text for block in blocks if not block.tag and "@@" in block.text] or [part]
    if (size := sum(map(len, texts))) > MAX_CHARS:
        raise NoEdit(f"a patch of {size} characters; {MAX_CHARS} is the limit")
    changes: dict[str, str] = {}
    for text in texts:
        try:
            changes |= changes_of(text)
        except BadPatch as error:
            raise NoEdit(f"the patch can't be read: {error}") from error
    if not changes:
        raise NoEdit("no unified diff in the answer")
    return changes
