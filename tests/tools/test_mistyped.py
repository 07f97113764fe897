"""A command that there is not: its neighbour is named. `list` and `ls` are the same everywhere."""

from __future__ import annotations

import pytest

from tests.support.told import Capsys
from tools.main import MEANT, VERBS, main, parse


def refusal(words: list[str], capsys: Capsys) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *((f"{verb}x", verb) for verb in VERBS if len(verb) > 2),
        ("topp", "top"),
        ("docter", "doctor"),
        ("jurnal", "journal"),
        ("redis", "redis-cli"),
        *MEANT.items(),
    ],
)
def test_a_mistyped_command_gets_its_neighbour(typed: str, meant: str, capsys: Capsys) -> None:
    assert meant in VERBS
    said = refusal([typed, "demo"], capsys)
    assert f"no command {typed!r}; did you mean {meant}?" in said
    assert "invalid choice" not in said


def test_a_command_that_is_near_nothing_gets_the_list(capsys: Capsys) -> None:
    said = refusal(["zzzzzz"], capsys)
    assert "no command 'zzzzzz'; there are " in said
    assert all(verb in said for verb in VERBS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dead", "lst", "demo"], "invalid choice: 'lst'; did you mean dead list?"),
        (["dead", "retyr", "demo"], "did you mean dead retry?"),
        (["journal", "exprt", "demo"], "did you mean journal export?"),
        (["journal", "zzzzzz", "demo"], "invalid choice: 'zzzzzz'; there are ls, show, export"),
    ],
)
def test_a_mistyped_word_after_a_command_does_too(words: list[str], said: str, capsys: Capsys) -> None:
    assert said in refusal(words, capsys)


@pytest.mark.parametrize(("verb", "name"), [("dead", "list"), ("journal", "ls")])
def test_list_and_ls_are_the_same(verb: str, name: str, capsys: Capsys) -> None:
    other = {"list": "ls", "ls": "list"}[name]
    assert vars(parse(verb, [other, "demo"])[1]) == vars(parse(verb, [name, "demo"])[1])
    codes = [main([verb, word, "no-such-run"]) for word in (name, other)]
    assert codes == [1, 1]
    first, second = capsys.readouterr().err.splitlines()
    assert first == second
