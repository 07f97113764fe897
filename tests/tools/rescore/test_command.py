"""`millrace rescore`: what a run trained on, through its own scorer again and through others."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.messages import Prompt, SampledGroup, Score, ScoredGroup, ScoreStatus
from config.generators import ScriptedEngineConfig
from config.loading import build_run, to_yaml
from config.run import Run
from generators.engines.scripted import ScriptedEngine
from learner.journal.writer import Journal
from learner.objective.advantages import group_advantages
from scorers.group import GroupScorer
from tests.conftest import ROOT
from tests.support.chain import make_prompt, make_scored
from tools.journal.rows import ranges
from tools.main import main
from tools.rescore.derived import as_rules_rows, recorded_rule

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

ANSWERS = ("<answer>B</answer>", "<answer>b</answer>", "no answer", "<answer>A</answer>")
LETTER = {"type": "custom", "import_path": "my_scorer:Letter"}
STEPS = 3
HELD_OUT = {0: "eval-0-0", 2: "eval-2-0"}  # a round of one problem by its version


def prompt_of(group_id: str) -> Prompt:
    prompt = make_prompt(group_id, n=len(ANSWERS))
    values = {field: getattr(prompt, field) for field in Prompt.__dataclass_fields__}
    return Prompt(
        **values
        | {
            "task": "letter",
            "max_tokens": 64,
            "verification_info": {"type": "letter", "answer": {"value": "B"}},
        }
    )


async def sample(run: Run, prompt: Prompt) -> SampledGroup:
    assert isinstance(run.generators.engine, ScriptedEngineConfig)
    engine = ScriptedEngine(run, run.generators.engine)
    await engine.load_weights([Path("none")], 0)
    return SampledGroup(prompt=prompt, completions=await engine.sample(prompt), generator="g", seconds=0.1)


def held_out_of(run: Run, scorer: GroupScorer, group_id: str) -> ScoredGroup:
    return scorer.score(asyncio.run(sample(run, prompt_of(group_id))), "w")


@pytest.fixture(scope="module")
def journaled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of runs with `first`, three steps of one group, each in a payload file of its own."""
    runs_dir = tmp_path_factory.mktemp("rescore") / "runs"
    run = build_run(
        [
            (
                "a test",
                {
                    "name": "first",
                    "runs_dir": str(runs_dir),
                    "model": {"path": "nowhere"},
                    "data": {"train": {"type": "procedural"}},
                    "generators": {"engine": {"type": "fake", "answers": list(ANSWERS)}},
                    "scorers": {"tasks": {"letter": {"scorer": LETTER}}},
                },
            )
        ]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples" / "scorer"))
        scorer = GroupScorer(run.scorers)
        for step in range(STEPS):
            group = scorer.score(asyncio.run(sample(run, prompt_of(str(step)))), "w")
            assert group.rewards == (1.0, 0.0, 0.0, 0.0)
            journal = Journal(run.folder / "journal", step + 1, run=run.name)
            journal.append(step, [group], [group_advantages(group.rewards, "none")])
            if step in HELD_OUT:
                journal.evaluation(
                    step, {"ids": [HELD_OUT[step]]}, [held_out_of(run, scorer, HELD_OUT[step])]
                )
            journal.close()
    (run.folder / "config.yaml").write_text(to_yaml(run), encoding="utf-8")
    return runs_dir


@pytest.fixture
def runs(journaled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of it, in the working folder of whoever wrote the scorer."""
    shutil.copytree(journaled, tmp_path / "runs")
    shutil.copy(ROOT / "examples" / "scorer" / "my_scorer.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def rescore(*words: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert main(["rescore", "first", "--workers", "1", "--json", *words]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.usefixtures("runs")
def test_the_same_text_and_the_same_scorer_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found = rescore("--scorer", "letter", "--out", "out.jsonl", capsys=capsys)
    assert (found["steps"], found["completions"], found["same"], found["changed"]) == ([1, 2, 3], 12, 12, 0)
    assert (found["groups"], found["advantages_flipped"], found["not_scored"]) == (3, 0, {})
    lines = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["step"], line["group"], line["completion"]) for line in lines] == [
        (number + 1, str(number), place) for number in range(STEPS) for place in range(4)
    ]
    assert all(line["old"] == line["new"] for line in lines)
    assert lines[1]["new"]["reason"] == "answered 'b', expected 'B'"


@pytest.mark.prove
@pytest.mark.usefixtures("runs")
def test_another_scorer_is_compared_with_the_runs_own(capsys: pytest.CaptureFixture[str]) -> None:
    option = "scorers.tasks.letter.scorer.options={ignore_case: true}"
    found = rescore("--scorer", "letter", "--steps", "2-3", "--samples", "1", option, capsys=capsys)
    assert found["confusion"] == {
        "right": {"right": 2, "wrong": 0, "unscorable": 0},
        "wrong": {"right": 2, "wrong": 4, "unscorable": 0},
        "unscorable": {"right": 0, "wrong": 0, "unscorable": 0},
    }
    assert (found["changed_at_same_version"], found["flipped_groups"]) == (2, ["1", "2"])
    (sample,) = found["samples"]
    assert (sample["step"], sample["completion"], sample["prompt"], sample["answer"]) == (
        2,
        1,
        "2 + 3?",
        ANSWERS[1],
    )
    assert (sample["old"]["value"], sample["new"]["value"]) == (0.0, 1.0)
    assert main(["rescore", "first", "--scorer", "letter", "--workers", "1", option]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "run first, 3 steps (1-3), through letter\n  12 completions: 9 with the same score, 3 with"
    )
    assert "advantages would flip in 3 of 3 groups (0 lose their variance, 0 gain one)" in said


def test_a_format_counts_for_the_reward_alone(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing here has a box, so under this gate every reward is 0 and no group has a variance."""
    del runs
    found = rescore("--scorer", "letter", "scorers.tasks.letter.format={box: true}", capsys=capsys)
    assert (found["changed"], found["advantages_flipped"], found["variance_lost"]) == (0, 3, 3)


def test_what_retention_removed_and_what_is_damaged_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = runs / "first" / "journal"
    first, second, third = sorted(journal.glob("payload-*.bin"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1] + b"?")
    found = rescore("--scorer", "letter", capsys=capsys)
    assert (found["steps"], found["gone"], list(found["damaged"])) == ([3], [1], ["2"])
    assert second.name in found["damaged"]["2"]
    third.unlink()
    assert main(["rescore", "first", "--scorer", "letter"]) == 1
    said = capsys.readouterr().err
    assert "no payload of these steps can be read" in said
    assert "steps 1, 3: retention has removed what they trained on" in said
    assert f"{second.name}: the payload of step 2 is damaged" in said


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--scorer", "code"], 1, "code scored none of 12 completions: task 'code' takes rows of type code"),
        (
            ["--scorer", "leter"],
            2,
            "--scorer 'leter': the tasks of `scorers` are letter, and the types of scorers choice",
        ),
        (["--scorer", "letter", "--steps", "7-9"], 1, "--steps: first has the steps 1-3"),
        (["--scorer", "letter", "--config", "none.yaml"], 2, "none.yaml: No such file"),
        (["--scorer", "letter", "--out", "none/out"], 2, "--out none/out: no folder"),
    ],
)
def test_what_can_not_be_rescored_is_told(
    words: Sequence[str], code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rescore", "first", "--workers", "1", *words]) == code
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("steps", "text"), [([], ""), ([4], "4"), ([0, 1, 2], "0-2"), ([0, 2, 3, 7], "0, 2-3, 7")]
)
def test_steps_are_written_as_people_write_them(steps: list[int], text: str) -> None:
    assert ranges(steps) == text


LOOSE = "scorers.tasks.loose={scorer: {type: custom, import_path: 'my_scorer:Letter', options: {ignore_case: true}}}"


@pytest.mark.usefixtures("runs")
def test_right_answers_that_another_scorer_does_not_verify_are_counted_by_round(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of B, b, none and A, `loose` calls two right, and `letter` accepts one of these."""
    words = ("--scorer", "letter", "--rule", "loose", LOOSE)
    found = rescore(*words, "--derivations", "2", capsys=capsys)
    assert [(one["version"], one["problems"], one["samples"]) for one in found["rounds"]] == [
        (0, 1, 4),
        (2, 1, 4),
    ]
    first = found["rounds"][0]
    assert (first["right"], first["without_derivation"], first["miracle_rate"]) == (2, 1, 0.5)
    assert first["pass@2"]["value"] == pytest.approx(5 / 6)
    assert first["verified_pass@2"]["value"] == pytest.approx(1 / 2)
    assert (found["k"], found["not_scored"]) == (2, {})
    assert [list(found[name].values()) for name in ("right_by", "verified_by")] == [[8], [8]]
    only = rescore(*words, "--derivations", "1", "--steps", "2", capsys=capsys)
    assert [(one["version"], one["pass@1"]["value"]) for one in only["rounds"]] == [(2, 0.5)]


@pytest.mark.usefixtures("runs")
def test_without_a_rule_the_recorded_score_says_what_is_right_and_who_verified_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rescore", "first", "--scorer", "loose", LOOSE, "--derivations", "1", "--workers", "1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "run first, 2 held-out problems"
    assert said[1].startswith("  right by the recorded score (letter ")
    assert "; verified by letter " in said[1]
    assert said[3].split() == [
        "0",
        "1",
        "0.250",
        "(0.000-1.000)",
        "0.250",
        "(0.000-1.000)",
        "1",
        "of",
        "4",
        "0.0%",
    ]


@pytest.mark.parametrize(
    ("score", "is_right"),
    [
        ((0.4, {"rule": 1.0, "verifier": 0.4}), True),
        ((1.0, {"rule": 0.0, "verifier": 1.0}), False),
        ((1.0, {}), True),
        ((0.9, {}), False),
        ((None, {}), None),
    ],
)
def test_what_is_right_is_the_rules_to_say_where_a_score_has_one(
    score: tuple[float | None, dict[str, float]], is_right: bool | None
) -> None:
    value, components = score
    status = ScoreStatus.UNSCORABLE if value is None else ScoreStatus.SCORED
    found = Score(
        status=status,
        value=value,
        reason="",
        scorer="rubric",
        version="1",
        seconds=0.0,
        components=components,
    )
    assert recorded_rule(found) is is_right


def test_a_rubrics_row_is_shown_to_a_rule_by_its_reference() -> None:
    info = {"type": "rubric", "answer": {"value": "5", "criteria": "c"}}
    group = make_scored(replace(prompt_of("eval-0-0"), verification_info=info), [1.0] * len(ANSWERS))
    ((version, shown),) = as_rules_rows(iter([(3, group)]))
    assert (version, shown.rollout.prompt.verification_info["type"]) == (3, "prime_math")
    assert group.rollout.prompt.verification_info["type"] == "rubric"


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--derivations", "0"], 2, "at least 1"),
        (["--rule", "letter"], 2, "--rule and --accepts belong to --derivations K"),
        (["--derivations", "2", "--rule", "lettr"], 2, "--rule 'lettr'"),
        (["--derivations", "2", "--out", "f"], 2, "--out is of completions that were trained on"),
        (["--derivations", "2", "--steps", "1"], 1, "keeps no held-out samples of these versions"),
    ],
)
def test_what_can_not_be_verified_is_said(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = main(["rescore", "first", "--scorer", "letter", "--workers", "1", *words])
    except SystemExit as end:
        found = int(str(end.code))
    assert (found, message in capsys.readouterr().err) == (code, True)
