"""`millrace rescore`: what a run trained on, through its own scorer again and through others."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker.messages import Completion, End, JsonObject, Prompt, SampledGroup, ScoredGroup
from config.generators import ScriptedEngineConfig
from config.loading import to_yaml
from config.run import Run
from config.scorers import ScorersConfig
from generators.answers import answer
from generators.engines.scripted import ScriptedChat, ScriptedEngine
from learner.journal.writer import Journal
from learner.objective.advantages import group_advantages
from scorers.group import GroupScorer
from tests.conftest import ROOT
from tests.support.chain import make_prompt, make_run, make_scored
from tests.support.scored_episodes import an_episode, reward_of
from tests.support.scores import a_score
from tests.support.told import Millrace, Patch, Told
from tools.journal.rows import ranges
from tools.rescore.command import Rescorer
from tools.rescore.derived import as_rules_rows, recorded_rule

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

ANSWERS = ("<answer>B</answer>", "<answer>b</answer>", "no answer", "<answer>A</answer>")
LETTER = {"type": "custom", "import_path": "my_scorer:Letter"}
STEPS = 3
HELD_OUT = {0: "eval-0-0", 2: "eval-2-0"}  # a round of one problem by its version


def prompt_of(group_id: str) -> Prompt:
    info = JsonObject({"type": "letter", "answer": {"value": "B"}})
    prompt = make_prompt(group_id, n=len(ANSWERS))
    return replace(prompt, task="letter", max_tokens=64, verification_info=info)


def scored(run: Run, scorer: GroupScorer, group_id: str) -> ScoredGroup:
    """Sample a prompt's group with the run's engine, and score it."""
    assert isinstance(run.generators.engine, ScriptedEngineConfig)
    engine, prompt = ScriptedEngine(run, run.generators.engine), prompt_of(group_id)

    async def sampled() -> tuple[Completion, ...]:
        await engine.load_weights([Path("none")], 0)
        return tuple(await answer(prompt, engine, ScriptedChat()))

    completions = asyncio.run(sampled())
    rollout = SampledGroup(prompt=prompt, completions=completions, generator="g", seconds=0.1)
    return scorer.score(rollout, "w")


@pytest.fixture(scope="module")
def journaled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of runs with `first`, three steps of one group, each in a payload file of its own."""
    runs_dir = tmp_path_factory.mktemp("rescore") / "runs"
    sections = {
        "generators": {"engine": {"type": "fake", "answers": ANSWERS}},
        "scorers": {"tasks": {"letter": {"scorer": LETTER}}},
    }
    run = make_run(runs_dir, name="first", **sections)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples" / "scorer"))
        scorer = GroupScorer(run.scorers)
        for step in range(STEPS):
            group = scored(run, scorer, str(step))
            assert group.rewards == (1.0, 0.0, 0.0, 0.0)
            journal = Journal(run.folder / "journal", step + 1, run=run.name)
            journal.append(step, [group], [group_advantages(group.rewards, "none")])
            if held_out := HELD_OUT.get(step):
                journal.evaluation(step, {"ids": [held_out]}, [scored(run, scorer, held_out)])
            journal.close()
    (run.folder / "config.yaml").write_text(to_yaml(run), encoding="utf-8")
    return runs_dir


@pytest.fixture
def runs(journaled: Path, tmp_path: Path, monkeypatch: Patch) -> Path:
    """Return a copy of it, in the working folder of whoever wrote the scorer."""
    shutil.copytree(journaled, tmp_path / "runs")
    shutil.copy(ROOT / "examples" / "scorer" / "my_scorer.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


Rescore = Callable[..., Told]


@pytest.fixture
def rescore(runs: Path, millrace: Millrace) -> Rescore:
    def call(*words: str) -> Told:
        return millrace("rescore", "first", "--workers", "1", *words)

    return call


def test_the_same_text_and_the_same_scorer_say_the_same(rescore: Rescore) -> None:
    found = rescore("--scorer", "letter", "--out", "out.jsonl", "--json").json
    assert (found["steps"], found["completions"], found["same"], found["changed"]) == ([1, 2, 3], 12, 12, 0)
    assert (found["groups"], found["advantages_flipped"], found["not_scored"]) == (3, 0, {})
    lines = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["step"], line["group"], line["completion"]) for line in lines] == [
        (number + 1, str(number), place) for number in range(STEPS) for place in range(4)
    ]
    assert all(line["old"] == line["new"] for line in lines)
    assert lines[1]["new"]["reason"] == "answered 'b', expected 'B'"


@pytest.mark.prove
def test_another_scorer_is_compared_with_the_runs_own(rescore: Rescore) -> None:
    option = "scorers.tasks.letter.scorer.options={ignore_case: true}"
    found = rescore("--scorer", "letter", "--steps", "2-3", "--samples", "1", option, "--json").json
    assert found["confusion"] == {
        "right": {"right": 2, "wrong": 0, "unscorable": 0},
        "wrong": {"right": 2, "wrong": 4, "unscorable": 0},
        "unscorable": {"right": 0, "wrong": 0, "unscorable": 0},
    }
    assert (found["changed_at_same_version"], found["flipped_groups"]) == (2, ["1", "2"])
    (sample,) = found["samples"]
    assert (sample["step"], sample["completion"], sample["prompt"]) == (2, 1, "2 + 3?")
    assert (sample["answer"], sample["old"]["value"], sample["new"]["value"]) == (ANSWERS[1], 0.0, 1.0)
    said = rescore("--scorer", "letter", option).out
    assert said.startswith(
        "run first, 3 steps (1-3), through letter\n  12 completions: 9 with the same score, 3 with"
    )
    assert "advantages would flip in 3 of 3 groups (0 lose their variance, 0 gain one)" in said


@pytest.mark.usefixtures("scored_here")
def test_a_format_counts_for_the_reward_alone(rescore: Rescore) -> None:
    """Nothing here has a box, so under this gate every reward is 0 and no group has a variance."""
    found = rescore("--scorer", "letter", "scorers.tasks.letter.format={box: true}", "--json").json
    assert (found["changed"], found["advantages_flipped"], found["variance_lost"]) == (0, 3, 3)


@pytest.mark.usefixtures("scored_here")
def test_what_retention_removed_and_what_is_damaged_is_named(runs: Path, rescore: Rescore) -> None:
    first, second, third = sorted((runs / "first" / "journal").glob("payload-*.bin"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1] + b"?")
    found = rescore("--scorer", "letter", "--json").json
    assert (found["steps"], found["gone"], list(found["damaged"])) == ([3], [1], ["2"])
    assert second.name in found["damaged"]["2"]
    third.unlink()
    told = rescore("--scorer", "letter")
    assert told.code == 1
    assert "no payload of these steps can be read" in told.err
    assert "steps 1, 3: retention has removed what they trained on" in told.err
    assert f"{second.name}: the payload of step 2 is damaged" in told.err


NO_TASK = "--scorer 'leter': the tasks of `scorers` are letter, and the types of scorers choice"


@pytest.mark.usefixtures("scored_here")
@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ("code", 1, "code scored none of 12 completions: task 'code' takes rows of type code"),
        ("leter", 2, NO_TASK),
        ("letter --steps 7-9", 1, "--steps: first has the steps 1-3"),
        ("letter --config none.yaml", 2, "none.yaml: No such file"),
        ("letter --out none/out", 2, "--out none/out: no folder"),
        ("letter --derivations 0", 2, "at least 1"),
        ("letter --rule letter", 2, "--rule and --accepts belong to --derivations K"),
        ("letter --derivations 2 --rule lettr", 2, "--rule 'lettr'"),
        ("letter --derivations 2 --out f", 2, "--out is of completions that were trained on"),
        ("letter --derivations 2 --steps 1", 1, "keeps no held-out samples of these versions"),
    ],
)
def test_what_can_not_be_rescored_is_told(words: str, code: int, reason: str, rescore: Rescore) -> None:
    told = rescore("--scorer", *words.split())
    assert (told.code, reason in told.err) == (code, True)


@pytest.mark.parametrize(
    ("steps", "text"), [([], ""), ([4], "4"), ([0, 1, 2], "0-2"), ([0, 2, 3, 7], "0, 2-3, 7")]
)
def test_steps_are_written_as_people_write_them(steps: list[int], text: str) -> None:
    assert ranges(steps) == text


LOOSE = "scorers.tasks.loose={scorer: {type: custom, import_path: 'my_scorer:Letter', options: {ignore_case: true}}}"


@pytest.mark.usefixtures("scored_here")
def test_right_answers_that_another_scorer_does_not_verify_are_counted_by_round(rescore: Rescore) -> None:
    """Of B, b, none and A, `loose` calls two right, and `letter` accepts one of these."""
    words = ("--scorer", "letter", "--rule", "loose", LOOSE, "--json")
    found = rescore(*words, "--derivations", "2").json
    rounds = [(one["version"], one["problems"], one["samples"]) for one in found["rounds"]]
    assert rounds == [(0, 1, 4), (2, 1, 4)]
    first = found["rounds"][0]
    assert (first["right"], first["without_derivation"], first["miracle_rate"]) == (2, 1, 0.5)
    assert first["pass@2"]["value"] == pytest.approx(5 / 6)
    assert first["verified_pass@2"]["value"] == pytest.approx(1 / 2)
    assert (found["k"], found["not_scored"]) == (2, {})
    assert [list(found[name].values()) for name in ("right_by", "verified_by")] == [[8], [8]]
    only = rescore(*words, "--derivations", "1", "--steps", "2").json
    assert [(one["version"], one["pass@1"]["value"]) for one in only["rounds"]] == [(2, 0.5)]


@pytest.mark.usefixtures("scored_here")
def test_without_a_rule_the_recorded_score_says_what_is_right_and_who_verified(rescore: Rescore) -> None:
    told = rescore("--scorer", "loose", LOOSE, "--derivations", "1")
    assert (told.code, told.lines[0]) == (0, "run first, 2 held-out problems")
    assert told.lines[1].startswith("  right by the recorded score (letter ")
    assert "; verified by letter " in told.lines[1]
    assert " ".join(told.lines[3].split()) == "0 1 0.250 (0.000-1.000) 0.250 (0.000-1.000) 1 of 4 0.0%"


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
    assert recorded_rule(a_score(value, scorer="rubric", components=components)) is is_right


@pytest.mark.usefixtures("scored_here")
def test_an_episode_is_rescored_by_all_that_a_scorer_reads_of_it() -> None:
    lake = {"environment": {"type": "custom", "import_path": "lake:Lake"}}
    tasks = {
        "lake": {**lake, "scorer": {"type": "environment"}},
        "said": {**lake, "scorer": {"type": "search"}},
    }
    episodes = (
        an_episode("<answer>B</answer>", reward=reward_of(0.5), said=["a tool's"]),
        an_episode("<answer>B</answer>", ended_by=End.TURNS),
        an_episode("<answer>B</answer>", ended_by=End.FAILED, remark="no route to the lake"),
        an_episode("no answer", reward=reward_of(-1.0)),
    )
    info = JsonObject({"type": "qa_em", "answer": {"value": ["B"]}})
    group = make_scored(replace(prompt_of("0"), verification_info=info), [0.0] * len(episodes))
    group = replace(group, rollout=replace(group.rollout, completions=episodes))
    config = ScorersConfig.model_validate({"tasks": tasks})
    found = {}
    for task in tasks:
        with Rescorer(config, lambda _, task=task: task, 1) as rescorer:  # type: ignore[misc]
            ((_, _, rescored),) = rescorer.rescored(iter([(1, group)]))
        found[task] = [one.reward for one in rescored]
        assert rescored[2].score is not None
        assert rescored[2].score.reason == "no route to the lake"
    assert found == {"lake": [0.75, 0.0, None, 0.0], "said": [1.0, 1.0, None, 0.0]}


def test_a_rubrics_row_is_shown_to_a_rule_by_its_reference() -> None:
    info = {"type": "rubric", "answer": {"value": "5", "criteria": "c"}}
    group = make_scored(replace(prompt_of("eval-0-0"), verification_info=info), [1.0] * len(ANSWERS))
    ((version, shown),) = as_rules_rows(iter([(3, group)]))
    assert (version, shown.rollout.prompt.verification_info["type"]) == (3, "prime_math")
    assert group.rollout.prompt.verification_info["type"] == "rubric"
