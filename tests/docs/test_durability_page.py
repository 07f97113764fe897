"""docs/durability.md, and README's part of it: the commands exist, links lead somewhere, sources are named."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.durability_page import PAGE, README, rows, section
from tools.main import main


def commands() -> list[str]:
    """Return every line of a block that calls the command, without its comment."""
    text = PAGE.read_text(encoding="utf-8") + section(README, "Nothing is lost")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    lines = [
        line.partition(" #")[0].strip().removeprefix(".venv/bin/")
        for kind, block in blocks
        if kind != "text"
        for line in block.splitlines()
    ]
    return list(dict.fromkeys(lines))


@pytest.mark.parametrize("command", commands())
def test_every_command_is_one_and_knows_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(command)
    assert program == "millrace"
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0, capsys.readouterr().err
    known = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("command", commands())
def test_every_command_is_written_as_it_wants_to_be(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no such run and no such file here: that is told, and no usage. A recipe would be found anywhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # another test may have left a run named demo
    words = [word.replace("demo_cpu.yaml", "not_here.yaml") for word in shlex.split(command)[1:]]
    assert main(words) in {1, 2}
    said = capsys.readouterr().err
    assert said
    assert "usage:" not in said


def test_every_operators_verb_is_on_the_page() -> None:
    verbs = {shlex.split(command)[1] for command in commands()}
    assert verbs == {"audit", "dead", "journal", "replay", "rescore", "drain", "pause", "resume", "chaos"}


def test_every_proof_is_a_target_of_the_makefile() -> None:
    targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    named = set(re.findall(r"`make ([\w-]+)`", PAGE.read_text(encoding="utf-8")))
    assert {"prove-protocol", "prove-chaos", "prove-resume", "prove-chaos-demo"} <= named
    assert named <= targets


def test_every_link_leads_to_a_file() -> None:
    for page in (PAGE, README):
        links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
        assert links
        assert [link for link in links if not (page.parent / link).exists()] == []


FILE = r"`[\w./-]+\.(py|md|mdx)` lines? \d"
THREAD = r"https://github\.com/[\w-]+/[\w-]+/(issues|pull)/\d"


def is_proven(claim: list[str]) -> bool:
    """Return whether a row names a commit with its date, a public file or thread, and the day on which that was read."""
    if len(claim) != 4:
        return False
    system, _, source, read = claim
    return (
        re.search(r"`[0-9a-f]{7,}`.*\d{4}-\d\d-\d\d$", system) is not None
        and re.search(f"{FILE}|{THREAD}", source) is not None
        and re.fullmatch(r"\d{4}-\d\d-\d\d", read) is not None
    )


def test_every_claim_about_another_system_names_its_version_its_source_and_a_date() -> None:
    found = rows(section(PAGE, "What others lose"))
    assert len(found) >= 8
    assert [claim for claim in found if not is_proven(claim)] == []


@pytest.mark.parametrize(
    "claim",
    [
        ["NeMo-RL", "loses", "pull request [#1](https://github.com/a/b/pull/1) of 2026-08-12", "2026-11-21"],
        ["NeMo-RL, 2026-08-12", "loses", "`a/b.py` lines 1-2", "2026-11-21"],
        ["NeMo-RL `1234567`", "loses", "`a/b.py` lines 1-2", "2026-11-21"],
        ["NeMo-RL `1234567`, 2026-08-12", "loses", "their talk", "2026-11-21"],
        ["NeMo-RL `1234567`, 2026-08-12", "loses", "`a/b.py` lines 1-2", "lately"],
        ["NeMo-RL `1234567`, 2026-08-12", "loses", "`a/b.py` lines 1-2"],
    ],
)
def test_a_claim_without_one_of_them_fails(claim: list[str]) -> None:
    assert not is_proven(claim)


def test_the_page_says_that_a_healthy_group_can_be_given_up_as_poison() -> None:
    """What is promised is an outcome, and no step: who counts on more is told here."""
    said = [
        line for line in section(PAGE, "What each kill costs").splitlines() if "`broker.max_attempts`" in line
    ]
    assert len(said) == 1
    assert "neither lost nor trained" in said[0]
    assert "`dead`" in said[0]


def test_readme_names_the_page() -> None:
    assert "(docs/durability.md)" in section(README, "Nothing is lost")
