"""`millrace keys`: what is found, and the pages of the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from broker.keys import POLICY_CALLS, TABLE, Keys
from config.run import Run
from config.section import Section
from tests.support.config_keys import is_key
from tests.support.paths import ROOT
from tools.keys.command import PAGES
from tools.keys.sections import parts_of, words_of
from tools.main import main

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_verb_writes(name: str) -> None:
    page = ROOT / "docs" / f"{name}.md"
    assert page.read_text(encoding="utf-8") == PAGES[name](), f"millrace keys --markdown {name} > {page}"


def test_every_key_is_listed_and_says_what_it_means() -> None:
    parts = parts_of(Run)
    keys = [(part.place, key) for part in parts for key in part.keys]
    assert [f"{place}.{key.name}" for place, key in keys if not key.says] == []
    named = {f"{place}.{key.name}".lstrip(".").replace("NAME", "*") for place, key in keys}
    assert {"seed", "learner.objective.clip_high", "scorers.tasks.*.scorer.endpoint.urls"} <= named
    assert [key for key in named if not is_key(key.split("."))] == []
    titles = {part.title for part in parts}
    assert [title for part in parts for title, _ in part.same if title not in titles] == []


def test_every_key_in_redis_is_in_the_table() -> None:
    listed = {name for row in TABLE for name in row.names.split(", ")}
    keys = Keys("demo")
    named = [
        *keys.scripts(),
        keys.scorers,
        keys.turns("GROUP"),
        keys.alive("ROLE", "ID"),
        keys.died("HOST-PID"),
    ]
    named += [
        keys.weights_chunks,
        keys.weights_wanted,
        keys.weights_chunk("BUNDLE", 0).replace(":0", ":CHUNK"),
    ]
    named += [*keys.served_calls("ENDPOINT"), keys.replies(0, "DIGIT").replace(":0:", ":PERIOD:")]
    assert {key.removeprefix(keys.prefix) for key in named} | {POLICY_CALLS} <= listed


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Annotated[int, Field(ge=1, le=9)] | None, "int ≥ 1, ≤ 9"),
        (float | None, "float"),
        (Literal["auto", "never"] | Path, "auto | never | path"),
        (tuple[Literal["a", "b"], ...], "list of (a | b)"),
        (tuple[float, float], "[float, float]"),
        (dict[str, tuple[str, ...]], "mapping of str to list of str"),
        (Section | None, "section"),
    ],
)
def test_types_are_said_as_yaml_has_them(annotation: object, words: str) -> None:
    assert words_of(annotation) == words


@pytest.mark.parametrize(
    ("text", "first", "others"),
    [
        ("max_lag", "learner.max_lag  (int ≥ 0, default 4)", ["Versions that the oldest token"]),
        (
            "kv_cache",
            "generators.engine.kv_cache_mb  (type vllm, int ≥ 1, default unset)",
            ["KV cache in MiB"],
        ),
        ("lag_mean", "lag_mean  (metrics.jsonl)", ["generators.NAME.lag_mean"]),
        ("IceP", "learner.objective.correction.token_k1", ["IcePop"]),  # in a description
    ],
)
def test_what_has_a_text_in_it_is_found(
    text: str, first: str, others: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", text]) == 0
    said = capsys.readouterr().out
    assert said.startswith(first)
    assert all(one in said for one in others)


def test_a_text_that_is_nowhere_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["keys", "max_lagg"])
    assert ended.value.code == 2
    assert "no key and no metric has 'max_lagg' in it" in capsys.readouterr().err
