"""A script is read as bash would run it, without running a command."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from config.explanations import ConfigError
from tools.imports.reading import read
from tools.imports.script import read_script
from tools.imports.shell.expansion import Variables, arithmetic, expand, expand_one
from tools.imports.shell.interpreter import run_through
from tools.imports.shell.tokens import tokens_of
from tools.imports.theirs import UNKNOWN

VARIABLES = Variables(
    {
        "A": "one",
        "PATHS": "org/model-7b.v2",
        "EMPTY": "",
        "N": "3",
        "ITEMS": ["x=1", "y=2"],
        "OPTIONS": "a=1 --b",
        "@": ["first", "k=v"],
    }
)


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("plain", ["plain"]),
        ("$A", ["one"]),
        ("${A}two", ["onetwo"]),
        ("'$A'", ["$A"]),
        ('"$A b"', ["one b"]),
        ("a\\ b", ["a b"]),
        ("${EMPTY:-other}", ["other"]),
        ("${EMPTY-other}", []),
        ("${NONE-other}", ["other"]),
        ("${A:+set}", ["set"]),
        ("${PATHS##*/}", ["model-7b.v2"]),
        ("${PATHS%.*}", ["org/model-7b"]),
        ("${PATHS/org/us}", ["us/model-7b.v2"]),
        ("${A^^}", ["ONE"]),
        ("${#A}", ["3"]),
        ("$NONE", []),
        ('"$NONE"', [""]),
        ('"${ITEMS[@]}"', ["x=1", "y=2"]),
        ("${ITEMS[1]}", ["y=2"]),
        ("${#ITEMS[@]}", ["2"]),
        ("$OPTIONS", ["a=1", "--b"]),
        ('"$OPTIONS"', ["a=1 --b"]),
        ('"$@"', ["first", "k=v"]),
        ('"${@:2}"', ["k=v"]),
        ("$((N * 2 + 1))", ["7"]),
        ("$(( 2 * $(( $N + 1 )) ))", ["8"]),
        ("$(basename $PATHS)", ["model-7b.v2"]),
        ("$(dirname $PATHS)", ["org"]),
        ("`echo $A`", ["one"]),
        ("k=$OPTIONS", ["k=a=1 --b"]),
        ("k=['a','b']", ["k=[a,b]"]),
    ],
)
def test_words_are_expanded_as_bash_does(word: str, words: list[str]) -> None:
    assert expand(word, VARIABLES) == words


@pytest.mark.parametrize(
    "word", ["$(nvidia-smi | wc -l)", "$(curl http://h)", "$((1 / 0))", "$((N ** 99))", "$(cat $A)", "${A@Q}"]
)
def test_what_only_a_running_script_knows_is_unknown(word: str) -> None:
    assert UNKNOWN in expand_one(word, VARIABLES)


def test_no_number_takes_long() -> None:
    assert UNKNOWN in arithmetic("9" * 40 + " * 9", Variables())


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("X=1", "1"),
        ("export X=1", "1"),
        ("X=1\nif [ 1 -eq 1 ]; then X=2; else X=3; fi", "2"),
        ("X=1\nif [ 1 -eq 2 ]; then X=2; else X=3; fi", "3"),
        ('A=b\nif [[ "$A" == b* ]]\nthen\n  X=2\nfi', "2"),
        ('if [ -z "$NONE" ]; then\n  if [ "a" != "a" ]; then X=1; else X=2; fi\nelse X=3; fi', "2"),
        ("X=1\nif [ a = b ]; then X=2; elif [ a = a ]; then X=3; else X=4; fi", "3"),
        ('X=1\n[ -n "$X" ] && X=2', "2"),
        ("X=1\n[[ -z 1 ]] && X=2", "1"),
        ("X=1 # comment; X=2", "1"),
        ("f() {\n  X=9\n}\nX=1", "1"),
        ("X=1\nexit 0\nX=2", "1"),
        ("cat <<EOF\nX=9\nEOF\nX=1", "1"),
        ("X=a\nX+=b", "ab"),
        ("X=1; echo done > /dev/null 2>&1 &", "1"),
    ],
)
def test_what_a_script_assigns_is_followed(script: str, value: str) -> None:
    assert last_value(script) == value


@pytest.mark.parametrize(
    "script",
    [
        "X=1\nfor i in 1 2; do X=$i; done",
        "X=1\nwhile true; do\n  if a; then X=2; fi\ndone",
        "X=1\nif curl -s h; then X=2; else X=3; fi",
        "X=1\ncase a in a) X=2;; esac",
    ],
)
def test_what_a_loop_or_an_unknown_condition_assigns_is_unknown(script: str) -> None:
    assert UNKNOWN in last_value(script)


def last_value(script: str) -> str:
    """Return what `X` holds in the end."""
    ran = run_through(
        f'{script}\nprobe "$X"' if "exit" not in script else f"{script}", "s.sh", environment={}
    )
    if "exit" in script:
        return "1" if not ran.commands else "?"
    return ran.commands[-1].words[1][0]


def test_a_words_line_is_the_one_that_it_stands_in() -> None:
    tokens = tokens_of("a \\\n  b 'c\nd' \\\n  e\n")
    assert [(token.text, token.line) for token in tokens if token.is_word] == [
        ("a", 1),
        ("b", 2),
        ("'c\nd'", 2),
        ("e", 4),
    ]


@pytest.mark.parametrize("script", ["echo 'open", "if [ 1 = 1 ]; then X=1", "X=$((1", "cat <<EOF\n"])
def test_a_script_that_can_not_be_read_says_so(script: str) -> None:
    with pytest.raises(ConfigError, match="never closed|without fi"):  # noqa: RUF043 - either
        run_through(script, "s.sh", environment={})


def test_a_call_has_its_words_with_their_lines_what_was_exported_and_what_is_served(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(
        "export A=1\nKEY=value\nvllm serve some/judge --port 8123 &\n"
        "CUDA_VISIBLE_DEVICES=0 nohup python3 -m verl.trainer.main_ppo \\\n  a.b=$KEY \\\n  +c=$1 $2 2>&1 | tee log\n"
    )
    script = read_script(path, ["given", "d=4"])
    assert script.call is not None
    assert script.call.words == ("a.b=value", "+c=given", "d=4")
    assert script.call.places == ("train.sh:5", "train.sh:6", "train.sh:6")
    assert {name: one.value for name, one in script.exported.items()} == {
        "A": "1",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert {port: one.value for port, one in script.served.items()} == {8123: "some/judge"}


def test_two_calls_in_one_script_are_too_many(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text("python -m verl.trainer.main_ppo a=1\npython -m verl.trainer.main_ppo a=2\n")
    with pytest.raises(ConfigError, match=r"train\.sh:1 and train\.sh:2"):
        read_script(path)


CALL = "python -m verl.trainer.main_ppo trainer.experiment_name={}\n"
GROWS, DEEP = (
    "its variables grow to more than 8000000 characters",
    "in one another, (too deep|deeper than 40)",
)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("X=aaaa\n" + "X=$X$X\n" * 60 + CALL.format("$X"), GROWS),
        ('X="aaaa"\n' + 'X="${X} $X"\n' * 60 + CALL.format("$X"), GROWS),
        ("X=aaaa\n" + "X+=$X\n" * 60 + CALL.format("$X"), GROWS),
        ("X=aaaa\n" + 'X=$(echo "$X$X")\n' * 60 + CALL.format("$X"), GROWS),
        ("X=aaaa\n" + "X=`echo $X-$X`\n" * 60 + CALL.format("$X"), GROWS),
        ("X=aaaa\n" + "X=${X//a/aaaa}\n" * 60 + CALL.format("$X"), GROWS),
        ("X=aaaa\n" + "X=${Y:-$X$X}\n" * 60 + CALL.format("$X"), GROWS),
        (
            "X=(a=1 b=2)\n" + 'X=("${X[@]}" "${X[@]}")\n' * 60 + "python -m verl.trainer.main_ppo ${X[@]}\n",
            GROWS,
        ),
        ("X=(a b)\n" + 'X+=("${X[@]}")\n' * 60 + "python -m verl.trainer.main_ppo ${X[@]}\n", GROWS),
        ("X=aaaa\n" + "export X=$X$X\n" * 60 + CALL.format("$X"), GROWS),
        ("X=" + "a" * 50_000 + "\n" + "[[ ${X%%b*} == a ]] && echo\n" * 1000 + CALL.format("x"), GROWS),
        ("X=" + "a" * 50_000 + "\n" + "echo $X\n" * 1000 + CALL.format("x"), GROWS),
        ("X=" + "$(" * 3000 + "echo" + ")" * 3000 + "\n" + CALL.format("$X"), DEEP),
        ("X=" + '"$(echo ' * 3000 + "\n" + CALL.format("$X"), DEEP),
        ("X=" + "${Y:-" * 3000 + "a" + "}" * 3000 + "\n" + CALL.format("$X"), DEEP),
        ("if [ a = a ]; then\n" * 500 + CALL.format("x") + "fi\n" * 500, DEEP),
        ("#" * 300_000 + "\n" + CALL.format("x"), "longer than 256 KiB"),
        ("python -m verl.trainer.main_ppo --config " + "{a,b}" * 60 + "\n", "is not there"),
    ],
)
def test_a_script_that_grows_without_end_is_refused_at_once(tmp_path: Path, script: str, said: str) -> None:
    file = tmp_path / "run.sh"
    file.write_text(script, encoding="utf-8")
    started = time.process_time()
    with pytest.raises(ConfigError, match=said) as caught:
        read([str(file)])
    assert "run.sh" in str(caught.value)
    assert time.process_time() - started < 10.0, "what doubles sixty times has no end"
