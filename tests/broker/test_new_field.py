"""A field is added to a message where it is defined: wire and journal carry it without another line."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.process, pytest.mark.prove(after=2)]

ADDED = """\
    tint: str = ""
    weights: tuple[float, ...] = ()
"""
PROGRAM = """\
import sys
from pathlib import Path
from typing import Any
from msgspec.structs import replace
from broker import codec, messages
from learner.journal.payloads import StepEncoder, decode_step
from tests.support.groups import a_dead_letter, a_prompt, a_rollout, a_scored_group, an_announcement

assert str(Path(messages.__file__)).startswith(sys.argv[1])
new = {"tint": "red", "weights": (0.5, 2.0)}
segments = tuple(replace(one, **new) for one in a_rollout().completions[0].segments)
completion = replace(a_rollout().completions[0], segments=segments, **new)
rollout = replace(a_rollout(a_prompt(**new)), completions=(completion,) * 2, **new)
given = a_scored_group(rollout)
given = replace(given, scores=tuple(replace(one, **new) for one in given.scores), **new)
raw = {name.encode(): one.encode() if isinstance(one, str) else one for name, one in codec.encode_scored(given).items()}
(kept,), _ = decode_step(bytes(StepEncoder().encode(1, [given], [[1.0, None]])), "here")
for group in (codec.decode_scored(raw), kept):
    said = group.rollout.completions[0]
    for message in (group, group.rollout, group.rollout.prompt, said, said.segments[0], group.scores[1]):
        assert (message.tint, message.weights) == ("red", (0.5, 2.0)), message
for message, encode, decode in (
    (a_dead_letter(), lambda dead_letter: codec.encode_dead(dead_letter, floor=3), codec.decode_dead),
    (an_announcement(), codec.encode_announcement, codec.decode_announcement),
):
    fields = {name.encode(): str(one).encode() for name, one in encode(replace(message, tint="red")).items()}
    assert decode(fields).tint == "red"
print("carried")
"""


def test_a_field_that_is_added_to_a_message_is_carried_everywhere(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "broker", tmp_path / "broker", ignore=shutil.ignore_patterns("__pycache__"))
    changed = []
    for name in ("messages.py", "scores.py"):
        contract = tmp_path / "broker" / name
        text, count = re.subn(
            r'(class (?:Prompt|Segment|Completion|SampledGroup|Score|ScoredGroup)\(Struct.*\n    """(?:.|\n)*?"""\n)',
            rf"\1{ADDED}",
            contract.read_text(),
        )
        text, texts = re.subn(
            r'(class (?:DeadLetter|Announcement)\(Struct.*\n    """(?:.|\n)*?"""\n)',
            r'\1    tint: str = ""\n',
            text,
        )
        contract.write_text(text)
        changed.append((count, texts))
    assert changed == [(5, 2), (1, 0)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("carried\n", 0), done.stderr
