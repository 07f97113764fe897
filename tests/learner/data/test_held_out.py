"""Held-out sets: which a round has, how each is sampled, and what is written down of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from config.data import DataConfig
from config.loading import to_yaml
from config.run import Run
from learner.data.held_out import HeldOut, open_held_out
from learner.groups.evaluation import Round, asked_for, result_of
from learner.journal.ledger import Ledger
from tests.support.chain import make_run
from tests.support.character_tokenizer import OneTokenACharacter
from tests.support.tiny import completion, group
from tests.support.verl_runs import write_jsonl


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two named sets of 3 and 2 rows, of which the second has a way of its own."""
    for name, count in (("a", 3), ("b", 2)):
        info = {"type": "math", "answer": {"value": "5"}}
        chats = [[{"role": "user", "content": f"{name} {number}"}] for number in range(count)]
        rows = [{"messages": chat, "verification_info": info} for chat in chats]
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    own = {"every": 4, "prompts": 9, "samples": 1, "temperature": 0.5, "top_p": 0.7, "max_tokens": 33}
    run = make_run(tmp_path)
    first = {"type": "dataset", "path": str(tmp_path / "a.jsonl"), "name": "first"}
    second = {"type": "dataset", "path": str(tmp_path / "b.jsonl"), "name": "second"} | own
    keys = {
        "train": {"type": "procedural"},
        "held_out": [first, second],
        "cache_dir": str(tmp_path / "cache"),
    }
    learner = run.learner.model_copy(update={"steps": 7})
    run = run.model_copy(update={"data": DataConfig.model_validate(keys), "learner": learner})
    return with_evaluation(run, every=2, samples=5, prompts=2)


def with_evaluation(run: Run, **changes: Any) -> Run:
    return run.model_copy(update={"evaluation": run.evaluation.model_copy(update=changes)})


def opened(run: Run) -> HeldOut:
    tokenizer: Any = OneTokenACharacter()
    found = open_held_out(run, tokenizer)
    assert found is not None
    return found


def test_a_round_has_the_sets_that_are_due_each_sampled_in_its_own_way(run: Run) -> None:
    held_out = opened(run)
    # The first set gives 2 of its 3 rows a round, the second both of its own: numbers 0 and 1, and 2 and 3.
    rounds = {version: held_out.indices(version) for version in (0, 2, 4, 7)}
    assert rounds == {0: [0, 1, 2, 3], 2: [0, 1], 4: [0, 1, 2, 3], 7: [0, 1, 2, 3]}
    assert [version for version in range(9) if held_out.is_due(version)] == [0, 2, 4, 6, 8]
    assert [held_out.set_name(index) for index in range(5)] == ["first", "first", "second", "second", ""]
    held_out = opened(run)
    ours, theirs = held_out.prompt("eval-4-1", 1), held_out.prompt("eval-4-2", 2)
    assert (ours.messages[0]["content"], theirs.messages[0]["content"]) == ("a 1", "b 0")
    usual = run.evaluation.temperature, run.sampling.max_tokens
    assert (ours.n, ours.temperature, ours.max_tokens, ours.top_p) == (5, *usual, 1.0)
    assert (theirs.n, theirs.temperature, theirs.max_tokens, theirs.top_p) == (1, 0.5, 33, 0.7)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"top_p": 0.9}, [(0.9, False, 5), (0.7, False, 1)]),  # for the sets that say nothing
        (
            {"temperature": 0.0},
            [(1.0, True, 1), (0.7, False, 1)],
        ),  # greedy answers are alike, so one is sampled
    ],
)
def test_what_evaluation_says_is_for_the_sets_that_say_nothing(
    run: Run, changes: dict[str, float], expected: list[tuple[float, bool, int]]
) -> None:
    held_out = opened(with_evaluation(run, **changes))
    prompts = [held_out.prompt(f"eval-4-{index}", index) for index in (1, 2)]
    assert [(prompt.top_p, prompt.is_greedy, prompt.n) for prompt in prompts] == expected


def test_a_rounds_result_says_how_each_set_did_and_each_set_was_asked_for_in_its_period(run: Run) -> None:
    held_out = opened(run)
    round_ = Round(version=4, missing=set(), since=0.0)
    for index, reward in enumerate((1.0, 0.0, 1.0, 1.0)):
        one = group([9], [completion([1, 2, 3])], [reward])
        scores = tuple(replace(score, value=reward) for score in one.scores)
        round_.groups[f"eval-4-{index}"] = replace(one, scores=scores)
    result = result_of(round_, lambda group_id: held_out.set_name(int(group_id.rpartition("-")[2])))
    assert (result["pass_rate"], result["prompts"]) == (0.75, 4)
    rates = {name: (each["prompts"], each["pass_rate"]) for name, each in result["sets"].items()}
    assert rates == {"first": (2, 0.5), "second": (2, 1.0)}
    assert "sets" not in result_of(round_)
    rarely = with_evaluation(run, every=0)
    for own, expected in ((run, {0, 2, 4}), (rarely, {0, 4})):  # the second set has a period of its own
        lives: list[Any] = [{"fence": 1, "config": to_yaml(own)}]
        steps: list[Any] = [{"step": step, "fence": 1} for step in range(6)]
        assert asked_for(Ledger(incarnations=lives, steps=steps), own) == expected
