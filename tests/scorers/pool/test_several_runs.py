"""`python -m scorers --run NAME,api`: a pool for each run, watched together. The pools are a shell script here."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from scorers.__main__ import main
from scorers.pool.several_runs import run_pools
from tests.support.waiting import wait_until, wait_until_gone

pytestmark = pytest.mark.process

POOL = """#!/bin/bash
echo "$@" >> {folder}/words
echo $$ >> {folder}/pids
case "$4" in first) {first};; esac
trap 'echo TERM >> {folder}/terms; exit 0' TERM
while :; do sleep 0.02; done
"""


def with_pools(folder: Path, monkeypatch: pytest.MonkeyPatch, first: str = ":") -> None:
    script = folder / "python"
    script.write_text(POOL.format(folder=folder, first=first))
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def stopped_after(condition: Callable[[], bool], *words: str) -> int:
    """Run both pools until the condition is true; return the exit code."""
    stop = threading.Event()

    def wait_and_stop() -> None:
        try:
            wait_until(condition)
        finally:
            stop.set()

    thread = threading.Thread(target=wait_and_stop)
    thread.start()
    code = run_pools(["first", "api"], list(words), stop)
    thread.join()
    return code


def test_each_run_has_a_pool_that_is_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_pools(tmp_path, monkeypatch)
    assert stopped_after(lambda: len(lines(tmp_path / "pids")) == 2, "--queues", "math") == 0
    assert sorted(lines(tmp_path / "words")) == [
        "-m scorers --run api --queues math",
        "-m scorers --run first --queues math",
    ]
    for pid in lines(tmp_path / "pids"):
        wait_until_gone(int(pid))


@pytest.mark.parametrize(("first", "code"), [("exit 2", 2), ("kill -9 $$", 1)])
def test_a_pool_that_fails_ends_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, code: int
) -> None:
    with_pools(
        tmp_path, monkeypatch, f"while [ $(wc -l < {tmp_path}/pids) -lt 2 ]; do sleep 0.02; done; {first}"
    )
    assert run_pools(["first", "api"], [], threading.Event()) == code
    for pid in lines(tmp_path / "pids"):
        wait_until_gone(int(pid))


def test_a_run_that_has_ended_leaves_the_others_their_pools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_pools(tmp_path, monkeypatch, "exit 0")
    caplog.set_level("INFO")
    early: list[str] = []

    def is_one_left() -> bool:
        early[:] = lines(tmp_path / "terms")
        return "pool_ended run=first code=0" in caplog.text

    assert stopped_after(is_one_left) == 0
    assert (early, lines(tmp_path / "terms")) == ([], ["TERM"])


@pytest.mark.parametrize(
    "words", [["--run", "first,api", "--part", "worker"], ["--run", "first,"], ["--run", "a b"]]
)
def test_what_makes_no_sense_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
