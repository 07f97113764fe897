"""Which rewards that rise alone the watch names, when, and which honest rises it leaves alone."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from broker.protocol.run_state import DRAIN, PAUSE, ask, ask_unless_asked, asked
from config.loading import load_run
from config.run import Run
from config.scorers import TaskConfig
from learner.reporting.hacking import PERSISTS, HackingWatch, alarms_of, witnesses
from learner.reporting.metrics import Metrics, paid_most
from learner.reporting.metrics_file import read_metrics
from tests.support.chain import Chain, make_prompt, make_scored
from tests.support.made_up_step import made_up_step
from tests.support.paths import ROOT
from tests.support.tiny import completion, group

DEMO = ROOT / "config" / "recipes" / "demo_cpu.yaml"
TRUTH = {"scorer": {"type": "custom", "import_path": "my:Truth"}}
SHADOWED = {"scorer": {"type": "math"}, "extra_scorers": {"truth": TRUTH}}
STEPS = 40


def run_of(task: dict[str, Any] | None = None, *settings: str) -> Run:
    run = load_run(["--config", str(DEMO), *settings])
    if task is None:
        return run
    scorers = run.scorers.model_copy(update={"tasks": {"math": TaskConfig.model_validate(task)}})
    return run.model_copy(update={"scorers": scorers})


def ramp(first: float, last: float, begin: int = 10, end: int = 30) -> list[float]:
    """Return a value for each of STEPS steps: `first`, then a straight line, then `last`."""
    done = [min(1.0, max(0.0, (step - begin) / (end - begin))) for step in range(STEPS)]
    return [first + (last - first) * share for share in done]


def steps(
    reward: Sequence[float],
    components: Mapping[str, Sequence[float]] | None = None,
    signs: Mapping[str, Sequence[float]] | None = None,
) -> list[dict[str, Any]]:
    noise = random.Random(0)
    arrived = {"turn_tokens_mean": [20.0] * STEPS, "length_correlation": [0.0] * STEPS, **(signs or {})}
    return [
        {
            "step": index + 1,
            "reward_mean": reward[index] + noise.gauss(0, 0.01),
            "arrived": {
                **{name: values[index] for name, values in arrived.items()},
                "components": {name: values[index] for name, values in (components or {}).items()},
            },
        }
        for index in range(STEPS)
    ]


def length(tokens: list[float], correlation: float) -> dict[str, list[float]]:
    return {"turn_tokens_mean": tokens, "length_correlation": [correlation] * STEPS}


def named(run: Run, records: Iterable[dict[str, Any]]) -> list[tuple[int, str]]:
    """Return each kind with the step at which it was first an alarm."""
    watch, found = HackingWatch(run), dict[str, int]()
    for record in records:
        for alarm in watch.of_step(record):
            found.setdefault(alarm.kind, record["step"])
    return [(step, kind) for kind, step in found.items()]


@pytest.mark.parametrize(
    ("shadow", "why"),
    [
        (ramp(0.3, 0.9), "it rises with the reward"),
        (ramp(0.1, 0.4), "it rises by half as much"),
        ([0.95] * STEPS, "it has no room"),
    ],
)
def test_an_honest_rise_is_left_alone(shadow: list[float], why: str) -> None:
    assert named(run_of(SHADOWED), steps(ramp(0.3, 0.9), {"truth": shadow})) == [], why


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("seeds", [range(10), range(10, 50)], ids=str)
def test_a_reward_that_does_not_rise_or_rises_within_its_noise_is_left_alone(seeds: range) -> None:
    flat = {"truth": [0.3] * STEPS}
    assert named(run_of(SHADOWED), steps([0.4] * STEPS, flat)) == []
    for seed in seeds:
        noise = random.Random(seed)
        noisy = [0.4 + noise.gauss(0, 0.1) for _ in range(STEPS)]
        assert named(run_of(SHADOWED), steps(noisy, flat)) == []


def test_a_reward_whose_shadow_stays_behind_is_named_soon_late_too() -> None:
    reward = [(one + two) / 2 for one, two in zip(ramp(0.2, 0.8, 0, 10), ramp(0.2, 1.0, 25, 35), strict=True)]
    truth = ramp(0.2, 0.5, 0, 10)  # which rose with the first half, and not with the second
    [(step, kind)] = named(run_of(SHADOWED), steps(reward, {"truth": truth}))
    assert (kind, step > 25) == ("scorer truth", True)
    records = steps(ramp(0.3, 0.9), {"math": ramp(0.3, 0.9), "truth": [0.3] * STEPS})
    [(step, kind)] = named(run_of(SHADOWED), records)
    assert kind == "scorer truth"
    risen = 10 + 20 * 0.1 / 0.6  # where the line has risen by reward_rose
    assert risen < step <= risen + 5 + 2 * PERSISTS
    watch = HackingWatch(run_of(SHADOWED))
    [text, *_] = [alarm.text for record in records for alarm in watch.of_step(record)]
    assert "truth went from 0.30 to 0.30; what rose: math from 0.3" in text


@pytest.mark.parametrize(
    ("signs", "kind"),
    [
        (length(ramp(20, 40), 0.7), "length"),
        ({"truncated_share": ramp(0.0, 0.5)}, "truncated"),
        ({"repeated_share": ramp(0.1, 0.6)}, "repeated"),
        ({"shared_answer_share": ramp(0.0, 0.9)}, "shared_answers"),
        (length(ramp(20, 40), -0.2), None),  # longer, unpaid
        (length([20.0] * STEPS, 0.7), None),  # paid, no longer
        ({"repeated_share": [0.6] * STEPS}, None),  # as it was at the start
    ],
)
def test_a_sign_that_rises_with_the_reward_is_named(signs: dict[str, list[float]], kind: str | None) -> None:
    found = [name for _, name in named(run_of(), steps(ramp(0.3, 0.9), signs=signs))]
    assert found == ([] if kind is None else [kind])
    assert named(run_of(), steps([0.5] * STEPS, signs=signs)) == []  # without a rise of the reward


def with_rounds(
    by_version: Sequence[float], rounds: Mapping[int, float], *, lag: int = 0, behind: int = 0, **noise: float
) -> list[dict[str, Any]]:
    """Return the steps of a run whose versions sample with these rewards, `lag` versions before they are trained on.

    Args:
        by_version: the mean reward of what each version samples.
        rounds: version -> held-out score.
        lag: versions between sampling and training.
        behind: steps until a round has come back.
        noise: `error`, standard error of a round's score, and `std`, of the groups' mean rewards.
    """
    error, std = noise.get("error", 0.01), noise.get("std", 0.2)
    sampled = [by_version[max(0, step - lag)] for step in range(STEPS)]
    records = steps(sampled)
    for index, record in enumerate(records):
        facts = {"groups": 16, "reward_mean": sampled[index], "reward_std": std}
        record["arrived"]["by_version"] = {str(max(0, index - lag)): facts}
        if (version := record["step"] - behind) in rounds:
            found = {"version": version, "mean_score": rounds[version], "score_error": error, "samples": 256}
            record["evaluations"] = [{**found, "pass_rate": rounds[version]}]
    return records


def held_out_of(records: Iterable[dict[str, Any]]) -> list[int]:
    return [step for step, alarm in alarms_of(run_of(), records) if alarm.kind == "held_out"]


@pytest.mark.parametrize("lag", [0, 4, 8])
@pytest.mark.parametrize(
    ("scores", "alarms"),
    [
        ({10: 0.3, 20: 0.3, 30: 0.3}, [20, 30]),
        ({10: 0.3, 20: 0.6, 30: 0.85}, []),
        ({10: 0.3, 38: 0.2}, [38]),
        ({10: 0.3, 38: 0.91}, []),
        ({10: 0.91, 20: 0.91, 38: 0.93}, []),  # no room
    ],
)
def test_a_round_is_compared_with_earlier_ones(lag: int, scores: dict[int, float], alarms: list[int]) -> None:
    found = held_out_of(with_rounds(ramp(0.3, 0.9), scores, lag=lag, behind=lag))
    assert found == [step + lag for step in alarms if step + lag <= STEPS]


def test_a_rounds_own_versions_count_whoever_sampled_it() -> None:
    honest = with_rounds(ramp(0.30, 0.87, 4, 8), {10: 0.83, 20: 0.85, 30: 0.85}, lag=8, behind=3)
    assert [record["reward_mean"] for record in honest][19] - honest[9]["reward_mean"] > 0.4
    assert held_out_of(honest) == []
    hacked = with_rounds(ramp(0.30, 0.87, 12, 18), {10: 0.3, 20: 0.3, 30: 0.3}, lag=8, behind=9)
    assert held_out_of(hacked) == [29, 39]
    records = with_rounds(ramp(0.3, 0.9, 10, 11), {8: 0.9, 20: 0.9}, lag=0)
    [first], [last] = records[7]["evaluations"], records[19]["evaluations"]
    first |= {"mean_score": 0.85, "min_version": 14, "max_version": 16}  # issued early, sampled late
    last["mean_score"] = 0.85
    assert held_out_of(records) == []


@pytest.mark.parametrize(
    ("error", "std", "alarms"), [(0.01, 0.2, [30]), (0.06, 0.2, []), (0.01, 1.5, []), (0.0, 0.0, [30])]
)
def test_both_noises_count(error: float, std: float, alarms: list[int]) -> None:
    rounds = {10: 0.50, 30: 0.54}
    assert held_out_of(with_rounds(ramp(0.3, 0.9), rounds, error=error, std=std)) == alarms


def test_what_was_seen_is_not_said_again_and_nothing_where_it_is_off() -> None:
    records = steps(ramp(0.3, 0.9), {"truth": [0.3] * STEPS})
    watch = HackingWatch(run_of(SHADOWED))
    watch.recall(records[:15])
    assert next(alarm.kind for record in records[15:25] for alarm in watch.of_step(record)) == "scorer truth"
    new = HackingWatch(run_of(SHADOWED))
    assert [alarm for record in records[21:24] for alarm in new.of_step(record)] == []  # it saw no rise
    records = steps(ramp(0.3, 0.9), {"truth": [0.3] * STEPS})
    assert named(run_of(SHADOWED, "learner.hacking.action=none"), records) == []
    records = with_rounds(ramp(0.3, 0.9), {10: 0.3, 30: 0.3})
    for record in records:
        del record["arrived"]["by_version"]
    assert held_out_of(records) == []


def test_witnesses_are_shadows_and_answers_shown_those_paid_in_spite_of_them() -> None:
    def of(**task: Any) -> list[str]:
        return witnesses({"math": TaskConfig.model_validate({"scorer": {"type": "math"}, **task})})

    assert of() == []
    assert of(extra_scorers={"truth": TRUTH}) == ["truth"]
    assert of(extra_scorers={"form": {**TRUTH, "weight": 0.5}}) == ["math"]
    assert of(extra_scorers={"form": {**TRUTH, "gate": 0.5}}) == []
    assert of(format={"mode": "mix", "weight": 0.5}) == ["math"]
    assert of(format={"mode": "gate"}) == []
    honest = group([9], [completion([1]), completion([2])], [1.0, 0.0])
    hacked = group([9], [completion([3]), completion([4])], [0.0, 0.9])
    assert paid_most([honest, hacked], "math", most=1) == [(honest, 0)]  # no part of that name: paid most
    assert paid_most([], "math") == []


@pytest.mark.parametrize(
    ("action", "before", "after"), [("warn", "", ""), ("pause", "", PAUSE), ("pause", DRAIN, DRAIN)]
)
def test_a_hack_is_said_and_may_pause_the_run(chain: Chain, action: str, before: str, after: str) -> None:
    run = run_of(SHADOWED, f"learner.hacking.action={action}", f"runs_dir={chain.run.runs_dir}")
    link, keys, said = chain.run_owner.link, chain.run_owner.keys, list[str]()
    ask(link, keys, before)
    metrics = Metrics(run, advise=said.append, pause=lambda: ask_unless_asked(link, keys, PAUSE))
    groups = [make_scored(make_prompt("1"), [0.0, 0.9])]
    for record in steps(ramp(0.3, 0.9), {"truth": [0.3] * STEPS}):
        metrics.step({**made_up_step(record["step"]), **record}, groups)
    metrics.close()
    assert said[0].startswith("reward_hacking kind='scorer truth': since step ")
    assert asked(link, keys) == after
    assert [alarm for record in read_metrics(run.folder) for alarm in record.get("alarms", ())] == said
    samples = [json.loads(line) for line in (run.folder / "samples.jsonl").read_text().splitlines()]
    assert [sample["reward"] for sample in samples] == [0.9] * len(said)
