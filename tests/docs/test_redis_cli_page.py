"""docs/redis-cli.md: every command on it is typed at a real run in flight, and answers as the page shows."""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.connection import RedisLink
from tests.conftest import ROOT
from tests.support.in_flight import InFlight
from tools.main import main

pytestmark = pytest.mark.process

PAGE = ROOT / "docs" / "redis-cli.md"
PROMPT = "$ millrace "
ID = re.compile(r"\d{13}-\d+|demo_\d+_\d{16}")  # of an entry or a job: a person copies it from an answer
TIME = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+Z)?|\d\d:\d\d:\d\d\.\d{3}")
NUMBER = re.compile(r"\d+\.\d+|\d{4,}")  # a time, or a number of bytes
ANY_NUMBER = re.compile(r"\d+(\.\d+)?")
TAKES_TIME = re.compile(r"XINFO CONSUMERS|XPENDING \S+ workers .|TTL")  # whose answers have milliseconds
EMPTY = {"", "(nil)", "(empty array)", "(empty list or set)", "(integer) 0"}


class Exchange(NamedTuple):
    """A command and what the page shows of its answer."""

    command: str
    shown: tuple[str, ...]


def exchanges(text: str) -> list[Exchange]:
    found: list[Exchange] = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith(PROMPT):
                found.append(Exchange(line.removeprefix(PROMPT), ()))
            else:
                found[-1] = Exchange(found[-1].command, (*found[-1].shown, line))
    return found


def shape(line: str, command: str) -> str:
    """Return a line without what is another at each run: ids, times, the machine's name, and the widths that follow."""
    line = line.replace(f'"{socket.gethostname()}"', '"gpu1"').replace(f'"{os.getpid()}"', '"N"')
    line = TIME.sub("TIME", ID.sub("ID", " ".join(line.split())))
    return ANY_NUMBER.sub("N", line) if TAKES_TIME.search(command) else NUMBER.sub("N", line)


def unnumbered(line: str) -> str:
    return re.sub(r"^ *\d+\) ", "", line)


def in_our_ids(command: str, copied: dict[str, str]) -> list[str]:
    """Return the words of a command of the page, with the ids that our answers had where the page's had its own."""
    return shlex.split(ID.sub(lambda found: copied.get(found[0], found[0]), command))


def differences(exchange: Exchange, answer: list[str]) -> Iterator[str]:
    """Yield what the page shows and a real answer has not. A line `…` stands for the rest, at a line's end for its end."""
    command, shown = exchange
    if re.search("--scan|HKEYS", command):  # in no order
        shown, answer = tuple(sorted(map(unnumbered, shown))), sorted(map(unnumbered, answer))
    if command.startswith("trace "):  # its table wraps where a time has a digit more
        shown, answer = tuple(map(" ".join, [shown] if shown else [])), [" ".join(answer)]
    if not shown:
        yield f"{command}: the page shows no answer"
        return
    for place, line in enumerate(shown):
        if line.strip() == "…":
            return
        real = shape(answer[place], command) if place < len(answer) else "nothing"
        wanted = shape(line, command)
        is_same = real.startswith(wanted.removesuffix("…")) if wanted.endswith("…") else real == wanted
        if not is_same:
            yield f"{command}: the page shows {wanted}, the answer is {real}"
    if len(answer) > len(shown):
        yield f"{command}: the page leaves out {answer[len(shown)]}"


@pytest.fixture
def in_flight(
    link: RedisLink, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InFlight]:
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.chdir(tmp_path)
    run = InFlight(link, tmp_path / "runs")
    yield run
    run.close()


def test_every_command_of_the_page_answers_as_the_page_shows(
    in_flight: InFlight, capfd: pytest.CaptureFixture[str]
) -> None:
    copied: dict[str, str] = {}  # id on the page -> the one that the real answer had in its place
    wrong: list[str] = []
    for exchange in exchanges(PAGE.read_text(encoding="utf-8")):
        program, name, *words = in_our_ids(exchange.command, copied)
        assert (program, name) in {("redis-cli", "demo"), ("trace", "demo")}
        as_on_a_terminal = ["--no-raw"] if program == "redis-cli" else []
        code = main([program, name, *as_on_a_terminal, *words])
        answer = capfd.readouterr().out.splitlines()
        assert code == 0, exchange.command
        assert answer, exchange.command
        assert answer[0] not in EMPTY, exchange.command
        assert not answer[0].startswith(("(error)", "ERR", "WRONGTYPE")), answer[0]
        copied |= dict(
            zip(ID.findall("\n".join(exchange.shown)), ID.findall("\n".join(answer)), strict=False)
        )
        wrong += differences(exchange, answer)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("shown", "answer", "said"),
    [
        (['1) "group"', '2) "17"'], ['1) "group"', '2) "17"'], None),
        (['1) "groups"', '2) "17"'], ['1) "group"', '2) "17"'],
            'shows 1) "groups", the answer is 1) "group"'),
        (['1) "group"', '2) "16"'], ['1) "group"', '2) "17"'], 'shows 2) "16", the answer is 2) "17"'),
        (['1) "1795347091048-0"', '2) "1795347088.923"'], ['1) "1800000000000-3"', '2) "1800000000.1"'],
            None),
        (['1) "group"'], ['1) "group"', '2) "17"'], 'leaves out 2) "17"'),
        (['1) "group"', "…"], ['1) "group"', '2) "17"'], None),
        (['1) "\\x85\\xa7roll…'], ['1) "\\x85\\xa7rollout"'], None),
        (['1) "group"', '2) "17"'], ['1) "group"'], "the answer is nothing"),
        ([], ["PONG"], "shows no answer"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_the_pages_is_seen(
    shown: list[str], answer: list[str], said: str | None
) -> None:
    found = list(differences(Exchange("HGETALL x", tuple(shown)), answer))
    assert len(found) == (said is not None)
    assert said is None or said in found[0]
