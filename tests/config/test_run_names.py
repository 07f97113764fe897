"""A run's name on a command line: the name itself, or a refusal; never the name of other keys."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import pytest

from config.run_names import run_name
from generators.__main__ import main as generators
from scorers.__main__ import main as scorers
from tools.main import main as millrace

PATH = "/far/runs/demo"


@pytest.mark.parametrize(
    "text", ["demo-2", "demo-2/"]
)  # a shell's tab completes a folder's name with a slash
def test_a_name_is_taken(text: str) -> None:
    assert run_name(text) == "demo-2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("runs/demo", "is it demo with --runs-dir runs"),
        ("/far/runs/demo/", "is it demo with --runs-dir /far/runs"),
        ("/demo", "is it demo with --runs-dir /"),
        ("demo//", "letters, digits, _ and - alone"),
        ("*", "no run's name"),
        ("..", "no run's name"),
        ("", "no run's name"),
        ("/", "no run's name"),
        ("demo\n", "no run's name"),
    ],
)
def test_what_is_no_name_is_refused_and_says_what_may_be_meant(text: str, says: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=says):
        run_name(text)


@pytest.mark.parametrize(
    ("main", "words"),
    [
        *((millrace, [verb, PATH]) for verb in ("audit", "replay", "drain", "pause", "resume", "rm")),
        (millrace, ["dead", "list", PATH]),
        (millrace, ["journal", "ls", PATH]),
        (millrace, ["rescore", PATH, "--scorer", "math"]),
        (millrace, ["redis-cli", PATH, "ping"]),
        (generators, ["--run", PATH]),
        (scorers, ["--run", PATH]),
    ],
)
def test_every_command_that_takes_a_run_refuses_a_path(
    main: Callable[[Sequence[str] | None], int], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "is it demo with --runs-dir /far/runs" in capsys.readouterr().err
