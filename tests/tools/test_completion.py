"""Shell completion: what argcomplete answers for the words typed so far."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]


def completed(line: str, tmp_path: Path) -> set[str]:
    """Returns the completions of a line, as bash would be given them."""
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    asked |= {"_ARGCOMPLETE_SHELL": "bash", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    program = "import sys; from tools.main import main; sys.argv[0] = 'millrace'; main([])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {word.strip() for word in answer.read_text(encoding="utf-8").split("\n") if word.strip()}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("millrace au", {"audit"}),
        ("millrace audit --", {"--help", "--json", "--quick", "--runs-dir"}),
        ("millrace journal ", {"ls", "show", "export"}),
        ("millrace dead purge --y", {"--yes"}),
        ("millrace drain demo --w", {"--wait"}),
    ],
)
def test_a_verb_and_its_options_are_completed(line: str, wanted: set[str], tmp_path: Path) -> None:
    found = completed(line, tmp_path)
    assert wanted <= found
    assert not found & {"rm", "--force"}, "of another verb"
