"""What a step's groups were like, and that every key of a step's object is explained on the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from broker.messages import FinishReason
from learner.reporting.group_facts import MOST_VALUES, batch_facts
from learner.reporting.keys import KEYS, as_table
from learner.reporting.metrics_file import read_metrics
from learner.reporting.scalars import scalars
from learner.training.batch import pack
from tests.learner.conftest import MakeChain, Train
from tests.support.episodes import episodes
from tests.support.paths import ROOT
from tests.support.tiny import completion, group

NAMED_BY_A_RUN = {"TASK", "SOURCE", "NAME", "VALUE", "REASON", "STREAM", "END"}


def test_rewards_have_the_values_of_the_columns_that_travel_where_those_are_few() -> None:
    groups = []
    for number in range(MOST_VALUES + 1):
        one = group([9], [completion([1, 2, 3])], [float(number % 2)])
        columns: dict[str, Any] = {"difficulty": f"{number % 2}/8", "index": number}
        columns |= {"hint": True} if number == 4 else {"extra_info": {"index": 5}} if number == 5 else {}
        prompt = replace(one.rollout.prompt, columns=columns)
        groups.append(replace(one, rollout=replace(one.rollout, prompt=prompt)))
    advantages: list[list[float | None]] = [[0.5] for _ in groups]
    batch = pack(groups, advantages, tokens_per_micro_batch=99, truncated="keep", policy_version=0)
    facts = batch_facts(groups, batch)
    # A number of its own for each row is no kind of row, and neither is an object.
    assert facts["reward_by_column"] == {"difficulty": {"0/8": 0.0, "1/8": 1.0}, "hint": {"True": 0.0}}
    assert "reward_by_column" not in batch_facts([group([9], [completion([1])], [1.0])], batch)


def test_rewards_have_names_and_truncation_and_length_are_of_the_step() -> None:
    cut = completion([1] * 20, finish_reason=FinishReason.LENGTH)
    maths = group([9], [completion([1, 2, 3]), cut], [1.0, None])
    prompt = replace(maths.rollout.prompt, task="code", data_source="mbpp")
    scores = tuple(replace(score, components={"format": at / 2}) for at, score in enumerate(maths.scores))
    code = replace(maths, rollout=replace(maths.rollout, prompt=prompt), rewards=(0.5, 0.0), scores=scores)
    options: dict[str, Any] = {"tokens_per_micro_batch": 99, "truncated": "keep", "policy_version": 0}
    batch = pack([maths, code], [[0.5, None], [0.5, -0.5]], **options)
    facts = batch_facts([maths, code], batch)
    assert facts["reward_by_task"] == {"code": 0.25, "math": 1.0}
    assert facts["reward_by_source"] == {"math": 1.0, "mbpp": 0.25}
    assert facts["components"] == {"format": 0.25}
    assert (facts["truncated_share"], facts["response_tokens_mean"]) == (0.5, 11.5)
    assert facts["response_tokens_max"] == 20
    lengths = facts["histograms"]["response_tokens"]
    assert (lengths["edges"][:3], lengths["counts"][:3]) == ([16, 32, 64], [2, 2, 0])
    assert facts["histograms"]["lag"] == {"edges": [0], "counts": [26, 0]}


def paths(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in tree.items():
        if isinstance(value, dict) and path[:1] != ("histograms",):
            yield from paths(value, (*path, name))
        else:
            yield (*path, name)


def explains(key: str, path: tuple[str, ...]) -> bool:
    parts = key.split(".")
    return len(parts) <= len(path) and all(
        part in NAMED_BY_A_RUN or part == name for part, name in zip(parts, path, strict=False)
    )


def test_every_key_that_a_run_writes_is_explained(make_chain: MakeChain, train: Train) -> None:
    chain = make_chain(learner={"steps": 3}, evaluation={"every": 1, "prompts": 2, "samples": 4})
    train(chain)
    lines = read_metrics(chain.run.folder)
    assert json.dumps(lines)
    written = {path for line in lines for path in paths(line)}
    assert {path for path in written if not any(explains(key, path) for key in KEYS)} == set()


def test_the_page_has_the_table() -> None:
    page = Path(ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert "\n".join(as_table()) in page


def test_episodes_have_their_keys_in_a_step_that_has_some_and_all_are_explained() -> None:
    groups = [episodes("0"), group([9], [completion([1])], [1.0])]
    advantages: list[list[float | None]] = [[0.5, -0.5], [0.5]]
    batch = pack(groups, advantages, tokens_per_micro_batch=99, truncated="keep", policy_version=5)
    facts = batch_facts(groups, batch)
    assert facts["episodes"]["turns_mean"] == 3.0  # the answers of one turn are not among them
    assert facts["episodes"]["ended_by"]["environment"] == 1.0
    written = set(paths({"episodes": facts["episodes"]}))
    assert {path for path in written if not any(explains(key, path) for key in KEYS)} == set()
    assert "episodes" not in batch_facts(groups[1:], batch)
    assert scalars(facts)["episodes/ended_by/environment"] == 1.0
