"""Texts of YAML within bounds: what is beyond them is refused at once, by its place."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from config.explanations import ConfigError
from config.loading import load_run
from config.yaml_text import MOST_BYTES, MOST_NODES, NotYaml, read_yaml_file, read_yaml_text, yaml_nodes
from tests.support.paths import PACKAGES, ROOT

TENFOLD = 12


def aliases(kind: str) -> str:
    """Return sections of which each is ten times the one before, as an alias."""
    first = {"list": "[x, x]", "section": "{x: 1, y: 2}", "merged": "{x: 1, y: 2}", "keys": "[x, x]"}[kind]
    form = {"list": "[{}]", "section": "{{{}}}", "merged": "{{<<: [{}]}}", "keys": "[{}]"}[kind]

    def ten(number: int) -> str:
        words = [f"*a{number}"] * 10
        return (
            ", ".join(f"k{place}: {word}" for place, word in enumerate(words))
            if kind == "section"
            else ", ".join(words)
        )

    lines = [f"a0: &a0 {first}", *(f"a{n}: &a{n} {form.format(ten(n - 1))}" for n in range(1, TENFOLD))]
    return "\n".join(lines) + "\n"


DEEP, LARGE, ITSELF = (
    "in one another, deeper than 64",
    "more than 20000 keys and values",
    "stands within itself",
)
WHOLE = "a whole number of"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: " + "[" * 100_000, f"run.yaml:1: lists and sections {DEEP}"),
        ("a: " + "[" * 1000 + "]" * 1000, DEEP),
        ("{a: " * 1000, DEEP),
        ("- " * 1000 + "x", DEEP),
        ("? " * 1000 + "x", DEEP),
        ("".join(" " * level + "a:\n" for level in range(500)), f"run.yaml:64: lists and sections {DEEP}"),
        ("a: " + "[{b: " * 500, DEEP),
        ("a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 3000)), DEEP),
        (aliases("list"), LARGE),
        (aliases("section"), LARGE),
        (aliases("merged"), LARGE),
        ("[" + "x," * (MOST_NODES + 1) + "]", LARGE),
        ("&a [*a]", f"run.yaml:1: *a {ITSELF}"),
        ("a: &a\n  b:\n    c: *a\n", f"run.yaml:3: *a {ITSELF}"),
        ("a: &a {<<: *a}", ITSELF),
        ("x" * (MOST_BYTES + 1), "run.yaml: longer than 1 MiB"),
        ("a: " + "9" * 5000, "run.yaml:1: a whole number of 5000 characters"),
        ("a: -" + "9" * 5000, "a whole number of 5001 characters"),
        ("a: 0x" + "f" * 5000, WHOLE),
        ("a: 0b" + "1" * 50_000, WHOLE),
        ("a: 0" + "7" * 5000, WHOLE),
        ("a: 1" + ":59" * 3000, WHOLE),
        ("a: !!int " + "9" * 5000, WHOLE),
        ("? " + "9" * 5000 + "\n: a", WHOLE),
        ("a: [1, {b: " + "9" * 5000 + "}]", WHOLE),
        ("a: 1\nb: 2\na: 3\n", "run.yaml:3: 'a' is written twice"),
        ("a: [{b: 1, b: 2}]", "'b' is written twice"),
        ("1: a\n1: b\n", "1 is written twice"),
        ("[a]: b", "can't be a key"),
        ("{{a: b}: c}", "can't be a key"),
    ],
)
def test_a_text_beyond_the_bounds_is_refused_at_once_by_its_place(text: str, said: str) -> None:
    started = time.process_time()
    with pytest.raises(ConfigError) as caught:
        read_yaml_text(text, "run.yaml")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500
    assert time.process_time() - started < 10.0, "an alias bomb of this size takes hours"


NO_YAML: list[str | bytes] = [
    "a: 2001-13-45",
    "a: 2001-01-01T00:00:00+99:99",
    "a: =",
    "<<: 3",
    "a: *b",
    "a: [",
]
NO_YAML += [f"a: !!{tag} x" for tag in ("float", "bool", "timestamp", "binary")]
NO_YAML += ["a: !!int abc", "a: !!int ''", "a: !!int [1]", "a: !!str {b: c}", "a: 'b", "a: b: c", "\ta: 1"]
NO_YAML += ["a: \x00", "a: \ud800", "--- a\n--- b", "%YAML 9.9\n---\na: 1", b"\xff\x00"]
NO_YAML += ["a: !!python/object:os.system {}", "a: !!python/name:os.system"]


@pytest.mark.parametrize("text", NO_YAML)
def test_what_is_no_yaml_or_no_value_of_its_tag_is_said_with_its_place(text: str | bytes) -> None:
    with pytest.raises(NotYaml, match=r"run\.yaml: not YAML: "):
        read_yaml_text(text, "run.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("---\n", None),
        ("a: 1e-6", {"a": "1e-6"}),  # YAML 1.1; pydantic makes a number of it
        ("a: 0x1F", {"a": 31}),
        (f"a: {'9' * 900}", {"a": int("9" * 900)}),
        (f"a: '{'9' * 5000}'", {"a": "9" * 5000}),
        (
            "a: &x {b: 1}\nc: {<<: *x, d: 2}\ne: [*x, *x]\n",
            {"a": {"b": 1}, "c": {"b": 1, "d": 2}, "e": [{"b": 1}] * 2},
        ),
        ("a: &x {b: 1}\nc: {<<: *x, b: 2}\n", {"a": {"b": 1}, "c": {"b": 2}}),
        ("a: " + "[" * 60 + "]" * 60, None),
        ("a: " + "x" * 500_000, None),
        ("a: [" + "x, " * 10_000 + "]", None),
        (b"\xef\xbb\xbfa: \xc3\xa4", {"a": "\xe4"}),
    ],
)
def test_what_is_within_the_bounds_is_read_as_ever(text: str | bytes, value: object) -> None:
    found = read_yaml_text(text, "run.yaml")
    assert value is None or found == value


BASE = ("name=a", "model.path=x", "data.train.type=procedural")


def test_words_and_variables_beyond_bounds_are_named_or_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    for word, said in (
        ("[" * 1000, f"lists and sections {DEEP}"),
        ("9" * 5000, "a whole number of 5000 characters"),
        ("{a: 1, a: 2}", "'a' is written twice"),
    ):
        with pytest.raises(ConfigError, match=f"seed on the command line:1: {said}"):
            load_run([*BASE, f"seed={word}"], below={})
    for text in ("2001-13-45", "a: b: c"):
        assert load_run([*BASE, f"model.revision={text}"], below={}).model.revision == text
    monkeypatch.setenv("MILLRACE_SCORERS__SANDBOX_URLS", "[" * 1000)
    with pytest.raises(ConfigError, match="MILLRACE_SCORERS__SANDBOX_URLS:1: lists and sections"):
        load_run(BASE, below={})


def test_nodes_have_lines_and_a_file_without_an_end_is_read_to_the_bound() -> None:
    with yaml_nodes("a: 1\nb: [2]\n", "run.yaml") as (loader, node):
        assert node is not None
        assert [key.start_mark.line for key, _ in node.value] == [0, 1]
        assert loader.construct_object(node.value[1][1], deep=True) == [2]
    assert len(read_yaml_file(Path("/dev/zero"))) == MOST_BYTES + 1
    with pytest.raises(ConfigError, match="/dev/zero: longer than 1 MiB"):
        load_run(["--config", "/dev/zero"])
    with pytest.raises(ConfigError, match="/nowhere: No such file"):
        read_yaml_file(Path("/nowhere"))


READS = re.compile(
    r"\byaml\.(?:(?:\w+_)?load(?:_all)?|compose(?:_all)?|parse|scan|\w*Loader)\b(?=[(])|\bLoader="
)


def test_yaml_is_read_in_one_place() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}"
        for package in (*PACKAGES, "benchmarks")
        for path in (ROOT / package).rglob("*.py")
        for hit in READS.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "config.yaml_text reads it within bounds"
