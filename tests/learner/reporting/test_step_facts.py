"""What a step's groups were like, where their time went, and what of it should make somebody look; each key is explained."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.messages import End, FinishReason, ScoredGroup
from config.loading import load_run
from learner.groups.facts.crashes import MOST_KINDS, OTHERS, Crash, crash_metrics, crash_of
from learner.reporting.alarms import Alarms
from learner.reporting.crashes import MOST_KINDS as MOST_KINDS_OF_RUN
from learner.reporting.crashes import CrashSums
from learner.reporting.group_facts import MOST_VALUES, batch_facts
from learner.reporting.keys import KEYS
from learner.reporting.latency import ages_of, expected_lag, lag_outlook, latency_facts
from learner.reporting.metrics_file import read_metrics
from learner.reporting.scalars import scalars
from learner.training.batch import pack
from tests.learner.conftest import MakeChain, Train
from tests.support.chain import make_prompt, make_run, make_scored
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


def crash(kind: str, *, is_scored: bool = True) -> Crash:
    return Crash(kind=kind, said=f"{kind}: 'tea'", is_scored=is_scored)


def crashed(*crashes: Crash) -> dict[str, Any]:
    """Return a step to which 20 episodes came back."""
    arrived = {"episodes": {"count": 20}, "components": {}, **crash_metrics(crashes, 20)}
    return {"reward_mean": 0.5, "arrived": arrived}


def test_what_an_agents_own_code_raised_is_summed_up_and_said_by_growth_alone() -> None:
    key, kind = crash("KeyError"), crash("TypeError", is_scored=False)
    steps = [crashed(*found) for found in ([key], [], [key], [kind], [key], [key], [])]
    written = {path for path in paths(steps[0]) if path[0] == "arrived"}
    assert {path for path in written if not any(explains(key, path) for key in KEYS)} == set()
    watch = Alarms(load_run(["--config", str(DEMO)]))
    said = [watch.of(HEALTHY | step) for step in steps]
    assert [len(alarms) for alarms in said] == [1, 0, 1, 1, 0, 1, 0], "1, 2 and 4 of the one, 1 of the other"
    assert said[0][0].startswith(
        "1 of 20 episodes so far (5.0%) were ended by what their own agent, tool or environment raised, and are scored "
        "as they stood (agents.on_repeated_crash): 1 by KeyError (KeyError: 'tea'). Answer the policy's odd arguments"
    )
    assert "5 of 120 episodes" in said[5][0]
    assert (
        "4 of them scored as they stood (agents.on_repeated_crash), 1 without a score: 4 by Key" in said[5][0]
    )
    assert "5 of 140 episodes so far (3.6%)" in watch.at_end()
    assert watch.at_end() == "", "metrics are closed after training and once more with the session"
    after = Alarms(load_run(["--config", str(DEMO)]))
    after.recall([HEALTHY | step for step in steps])
    assert [len(after.of(HEALTHY | crashed(*[key] * many))) for many in (3, 1)] == [0, 1], "8 in all"
    rare = Alarms(load_run(["--config", str(DEMO)]))
    assert [rare.of(HEALTHY | step) for step in ([crashed()] * 5 + [crashed(key)])] == [[]] * 6, "1 of 120"
    assert (rare.at_end()[:8], Alarms(load_run(["--config", str(DEMO)])).at_end()) == ("1 of 120", "")


IN_STEP = "task lake: the environment failed in step: "


@pytest.mark.parametrize(
    ("remark", "kind"),
    [
        ("KeyError: 'tea' (shop.py:12 in price)", "KeyError at shop.py:12 in price"),
        ("KeyError: 'tea'", "KeyError"),
        ("my_tools.UnknownTool: frobnicate_17", "my_tools.UnknownTool"),
        ("unknown tool frobnicate_17", "unknown tool"),
        ("frobnicate_17 is unknown", "an error"),
        ("frobnicate_17: unknown", "an error"),
        ("its process ended with exit code 3", "its process ended with exit code 3"),
        (
            "its process ended by SIGKILL, from outside: by a person, or",
            "its process ended by SIGKILL, from outside",
        ),
        ("no answer within step_deadline_s=0.3, while at\nline 3", "no answer within step_deadline_s=0.3"),
        ("my_agent.AgentFailed: sh ended\nit printed last:\nOSError: x", "my_agent.AgentFailed: OSError"),
    ],
)
def test_a_crash_is_named_by_nothing_that_a_model_wrote(remark: str, kind: str) -> None:
    failed = replace(completion([1]), ended_by=End.CRASH, remark=IN_STEP + remark)
    found = crash_of(failed)
    assert found is not None
    assert found.kind == kind


def test_kinds_of_crashes_have_a_bound_in_a_step_and_in_a_run() -> None:
    step = crash_metrics(
        [crash("Often"), *(crash(f"E{number}") for number in range(99)), crash("Often")], 200
    )
    assert (len(step["crashes"]), step["crashes"]["Often"]["episodes"]) == (MOST_KINDS + 1, 2)
    assert sum(found["episodes"] for found in step["crashes"].values()) == 101
    assert OTHERS in step["crashes"]
    sums = CrashSums()
    for number in range(2 * MOST_KINDS_OF_RUN):
        sums.add({"arrived": {"episodes": {"count": 2}, **crash_metrics([crash(f"E{number}")], 2)}})
    assert (len(sums.counts), sums.crashed) == (MOST_KINDS_OF_RUN + 1, 2 * MOST_KINDS_OF_RUN)
    assert f"; {2 * MOST_KINDS_OF_RUN - 3} by many others. " in sums.text()


DEMO = ROOT / "config" / "recipes" / "demo_cpu.yaml"
HEALTHY = {"step": 30, "seconds": 1.0, "late_wait_seconds": 0.0, "truncated_share": 0.05, "mismatch_kl": 1e-6}


APART = {"generators": {"g0": {"mismatch_kl": 0.001}, "g1": {"mismatch_kl": 0.09}}}


def alarms(*records: dict[str, Any]) -> list[list[str]]:
    """Return what each of the records brings about, in a run with max_lag 4."""
    watch = Alarms(load_run(["--config", str(DEMO), "learner.max_lag=4"]))
    return [watch.of(HEALTHY | record) for record in records]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"mismatch_kl": 0.03}, "mismatch_kl=0.0300 is above 0.02"),
        (APART, "mismatch_kl=0.0900 of generator g1 is above 0.02"),
        ({"truncated_share": 0.25}, "25% of the completions were cut at sampling.max_tokens=24"),
    ],
)
def test_each_alarm_says_its_number_and_what_to_do(record: dict[str, Any], said: str) -> None:
    [nothing, [alarm]] = alarms({}, record)
    assert (nothing, said in alarm) == ([], True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "at sampling.max_tokens=24; what is cut is not trained on"),
        (("learner.filters.truncated=keep",), "what is cut is trained on as it is"),
        (
            ("scorers.tasks.lake={environment: {type: custom, import_path: 'lake:Lake'}}",),
            "or a limit of their episode; what is cut is not trained on, unless it is an episode",
        ),
    ],
    ids=["unset", "keep", "with an environment"],
)
def test_what_becomes_of_truncated_completions_is_said(words: tuple[str, ...], said: str) -> None:
    watch = Alarms(load_run(["--config", str(DEMO), *words]))
    (alarm,) = watch.of(HEALTHY | {"truncated_share": 0.25})
    assert alarm.endswith(said)


def test_limits_of_episodes_are_named_and_an_alarm_said_every_twenty_steps() -> None:
    lake = "scorers.tasks.lake={environment: {type: custom, import_path: 'lake:Lake'}}"
    ended_by = {"message": 0.5, "turns": 0.2, "context": 0.05, "tokens": 0.0, "crash": 0.25}
    watch = Alarms(load_run(["--config", str(DEMO), lake]))
    (alarm,) = watch.of(HEALTHY | {"truncated_share": 0.25, "episodes": {"ended_by": ended_by}})
    assert "or a limit of their episode (turns 20%, context 5%); what is cut" in alarm
    bad = {"mismatch_kl": 0.5}
    assert [len(said) for said in alarms(*({"step": step, **bad} for step in (1, 20, 21)))] == [1, 0, 1]


@pytest.mark.parametrize("first", [1, 300])  # of a run that begins, and of one that goes on
def test_lateness_is_an_alarm_from_the_twentieth_step_of_this_life_on(first: int) -> None:
    said = alarms(*({"step": first + done, "late_wait_seconds": 0.5 * (done + 1)} for done in range(20)))
    assert said[:19] == [[]] * 19
    [alarm] = said[19]
    assert "50% of the time was spent waiting for late groups" in alarm
    assert "learner.max_lag=8 instead of 4" in alarm


def timed(*, issued: float, sampled: float, sampling: float, scored: float, scoring: float) -> ScoredGroup:
    made = make_scored(make_prompt("17", issued_at=issued), [1.0, 0.0])
    rollout = replace(made.rollout, sampled_at=sampled, seconds=sampling)
    return replace(made, rollout=rollout, scored_at=scored, seconds=scoring)


# Issued at 100; sampled for 4 s until 107; scored for 1 s until 110; trained at 120.
PLAIN = timed(issued=100, sampled=107, sampling=4, scored=110, scoring=1)
CLOCKS_DISAGREE = timed(issued=100, sampled=99, sampling=4, scored=130, scoring=1)
PLACES = ("prompts", "sampling", "rollouts", "scoring", "scored")


@pytest.mark.parametrize(
    ("groups", "ages"),
    [
        ([], [0, 0, 0, 0, 0]),
        ([PLAIN], [3, 4, 2, 1, 10]),  # which are the 20 s from its issue
        ([PLAIN, PLAIN], [6, 8, 4, 2, 20]),
        ([replace(PLAIN, scored_at=0.0)], [0, 0, 0, 0, 0]),  # it does not say when
        ([CLOCKS_DISAGREE], [0, 4, 30, 1, 0]),
    ],
)
def test_a_groups_age_is_split_into_work_and_waits(groups: list[ScoredGroup], ages: list[float]) -> None:
    found = ages_of(groups, now=120.0)
    assert [found[f"age_{name}_s"] for name in PLACES] == ages


def test_the_lag_is_split_by_where_a_tokens_time_went() -> None:
    """Two groups of 3 s in prompts, 4 s sampling, 2 s in rollouts, 1 s scoring, 10 s in scored; a mean lag of 3.4."""
    found = latency_facts(ages_of([PLAIN, PLAIN], now=120.0), groups=2, lag_mean=3.4)
    assert found == {
        **{f"age_{name}_s": age for name, age in zip(PLACES, (3.0, 4.0, 2.0, 1.0, 10.0), strict=True)},
        "age_queue_s": 15.0,
        "lag_sampling": 0.8,  # 4 of the 17 s since the first token, of 3.4
        "lag_queue": 2.4,
        "lag_scoring": 0.2,
    }
    found = latency_facts(ages_of([], now=120.0), groups=0, lag_mean=1.0)
    assert set(found.values()) == {0.0}


@pytest.mark.parametrize(
    ("max_lag", "in_flight", "lag"),
    [
        (0, None, 0.0),  # on policy: all groups are of the step
        (4, None, 4.0),  # 5 x 16 groups are 5 steps long, and one of these is the step
        (4, 40, 1.5),
        (4, 16, 0.0),  # all of the step
    ],
)
def test_the_groups_in_flight_make_the_lag_to_expect(max_lag: int, in_flight: int | None, lag: float) -> None:
    learner = {"max_lag": max_lag, "groups_per_step": 16, "groups_in_flight": in_flight}
    run = make_run(Path("runs"), learner=learner)
    assert expected_lag(run) == lag
    budget = f"groups_in_flight={in_flight or 16 * (max_lag + 1)} groups_per_step=16"
    assert lag_outlook(run) == f"{budget} max_lag={max_lag} expected_lag_mean={lag:.1f}"
