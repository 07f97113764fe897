"""A unified diff is put into a row's files as `git apply` would, and what we write of two states leads from one to the other."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from scorers.swe.edits import NoEdit
from scorers.swe.patched import patched
from verdicts.repository import diff_of, files_of

OLD = "one\ntwo\nthree\nfour\n"


def a_text(draw: random.Random) -> str:
    lines = [
        draw.choice(("a", "b", "", "--- c", "+++ d", "@@ -1 +1 @@", "\\", "e\r", "f\x0cg"))
        for _ in range(draw.randrange(9))
    ]
    return "\n".join(lines) + draw.choice(("", "\n"))


def test_a_diff_of_ours_leads_from_any_state_to_any_other(tmp_path: Path) -> None:
    draw = random.Random(17)
    for number in range(300):
        before = {name: a_text(draw) for name in ("a.py", "b/c.py", "d") if draw.random() < 0.7}
        after = {name: a_text(draw) for name in ("a.py", "b/c.py", "e") if draw.random() < 0.7}
        diff = diff_of(before, after)
        made: Mapping[str, str] = {**before, **patched(before, diff)}
        assert {name: text for name, text in made.items() if text} == {
            name: text for name, text in after.items() if text
        }
        if number < 10 and diff:  # and git reads it the same way
            folder = tmp_path / str(number)
            for name, text in before.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(text.encode())
            folder.mkdir(exist_ok=True)
            subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=folder, check=True)
            assert {name: (folder / name).read_bytes().decode() for name in after} == after


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ("--- a/f\n+++ b/f\n@@ -2 +2 @@\n-tree\n+2\n", "line 2 of the file is not 'tree'"),
        ("--- a/f\n+++ b/f\n@@ -2,2 +2 @@\n-two\n+2\n", "shorter than its header says"),
        ("--- a/f\n+++ b/f\n@@ -2 +2 @@\n-two\n-three\n+2\n", "longer than its header says"),
        ("--- a/f\n+++ b/f\n@@ -9 +9 @@\n-two\n+2\n", "in the file"),
        ("--- a/g\n+++ b/g\n@@ -1 +1 @@\n-two\n+2\n", "the row has no file 'g'"),
        ("+++ b/f\n@@ -1 +1 @@\n-one\n+2\n", "without a '---' line"),
        ("--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-one\n+2\n", "leads out"),
    ],
)
def test_a_diff_that_does_not_fit_is_no_edit(patch: str, says: str) -> None:
    with pytest.raises(NoEdit, match=says):
        patched({"f": OLD}, patch)


def test_a_row_has_its_files_whatever_its_shape(subtests: pytest.Subtests) -> None:
    for answer, files in (
        ({"input": "x", "ground_truth": "y"}, {"file": "x"}),
        ({"input": "x", "path": "a.py", "files": {"a.py": "x\n", "b.py": ""}}, {"a.py": "x\n", "b.py": ""}),
        ({"code_context": {"./a.py": "x"}, "files": {"t.py": "", "../b": ""}}, {"a.py": "x", "t.py": ""}),
        ({"oracle_patches": ["..."]}, {}),
    ):
        with subtests.test(answer=answer):
            assert files_of(answer) == files
