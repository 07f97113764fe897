"""The report: what it says of a run, what stands out, and what a hostile text can't do."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.messages import JsonObject, ScoredGroup
from learner.groups.facts.episodes import episode_metrics, facts_of
from learner.reporting.report import page as page_module
from learner.reporting.report.chart import POINTS, bar, line_chart, number_text
from learner.reporting.report.facts import RunFacts, Series, read_facts
from learner.reporting.report.findings import findings_of
from learner.reporting.report.page import write_report
from tests.support import journaled
from tests.support.chain import make_run
from tests.support.episodes import MESSAGES, an_episode
from tests.support.growth import is_linear
from tests.support.hash_policy import HashPolicy
from tests.support.journaled import JournaledRun
from tests.support.played import TASKS
from tests.support.tiny import random_groups

HOSTILE = "</pre><script>alert(1)</script><img src=http://example.org/x onerror=alert(1)>"


G0 = {"lag_mean": 0.5, "lag_max": 1, "tokens": 40, "mismatch_kl": 1e-6, "mismatch_max": 1e-3}
KEY_ERROR = {"episodes": 2, "scored": 2, "said": "KeyError: 'tea'"}
USUAL: dict[str, Any] = {"reward_mean": 0.5, "reward_mean_trained": 0.5, "groups": 2, "dropped": 2}
USUAL |= {"dropped_by_reason": {"zero_variance": 2}, "lag_mean": 0.5, "lag_max": 1, "truncated_share": 0.0}
USUAL |= {"response_tokens_mean": 10.0, "response_tokens_max": 20, "loss": 0.1, "tokens": 40, "entropy": 1.0}
USUAL |= {"grad_norm": 0.3, "lr": 1e-6, "skipped": 0.0, "generators": {"g0": G0}, "seconds": 2.0}
USUAL |= {"queues": {"prompts": 1, "rollouts": 0, "scored": 2}, "seconds_wait": 0.5, "seconds_train": 1.5}


def record(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, **USUAL, **more}


def written(folder: Path, *records: dict[str, Any], **status: Any) -> RunFacts:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
    (folder / "status.json").write_text(json.dumps({"status": "finished", "steps": len(records)} | status))
    return read_facts(folder)


def texts(facts: RunFacts) -> list[str]:
    return [f"{finding.level}: {finding.text}" for finding in findings_of(facts)]


@pytest.mark.parametrize(("tasks", "who"), [({}, "generators"), (TASKS, "agents")])
def test_what_would_shorten_a_sampling_wait(tmp_path: Path, tasks: dict[str, Any], who: str) -> None:
    records = [{"step": 1, "age_prompts_s": 9.0, "age_sampling_s": 2.0}]
    nothing: dict[str, Any] = {"status": {}, "outcomes": {}, "reasons": {}, "incarnations": 1}
    run = make_run(tmp_path, scorers={"tasks": tasks})
    seconds = {"wait": 9.0, "train": 1.0}
    facts = RunFacts(name="test", folder=tmp_path, run=run, records=records, seconds=seconds, **nothing)
    assert any(f"More {who} would shorten it." in text for text in texts(facts))


@pytest.mark.parametrize(
    ("queues", "lines"),
    [
        ({"prompts": 1, "rollouts": 0, "scored": 2}, ["prompts", "rollouts", "scored"]),  # of an older run
        ({"prompts": 0, "episodes": 3, "rollouts": 0, "scored": 2}, ["episodes", "rollouts", "scored"]),
        ({"prompts": 1, "episodes": 0, "rollouts": 1, "scored": 2}, ["prompts", "rollouts", "scored"]),
        (
            {"prompts": 1, "episodes": 3, "rollouts": 1, "scored": 2},
            ["prompts", "episodes", "rollouts", "scored"],
        ),
    ],
)
def test_the_queues_are_those_issued_to(tmp_path: Path, queues: dict[str, int], lines: list[str]) -> None:
    facts = written(tmp_path / "run", record(1, queues=queues), record(2, queues=queues))
    (chart,) = [one for one in page_module._sections([facts])["Time"] if one.title == "Queues"]
    assert [name for name, _ in chart.legend] == lines


class Asks(HTMLParser):
    """What a page would ask for or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "img", "iframe", "object", "embed", "link", "a", "base", "form"}:
            self.found.append(tag)
        names = [name for name, _ in attrs]
        self.found += [name for name in names if name in {"src", "href", "action"} or name.startswith("on")]


def asked_for(page: str) -> list[str]:
    parser = Asks()
    parser.feed(page)
    return parser.found


def test_a_page_asks_nobody_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = JournaledRun(make_run(tmp_path), HashPolicy())
    made.live(2)
    folder = made.run.folder
    evaluations = [{"version": 2, "pass_rate": 0.625, "samples": 8}]
    written(folder, record(1), record(2, evaluations=evaluations))
    monkeypatch.setattr(page_module, "_decoder", lambda facts: lambda token_ids: HOSTILE)
    file = write_report(folder)
    text = file.read_text()
    assert file == folder / "report.html"
    assert asked_for(text) == []
    assert "&lt;script&gt;alert(1)" in text  # the answer is there, as text
    assert "default-src 'none'" in text
    assert "http://" not in text.replace("http://example.org/x", "")
    for words in ("0.625", "Held-out pass rate", "g0", "Where the time went", "75.0 %", "Nothing stands out"):
        assert words in text


def test_examples_say_where_their_row_is_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def from_a_row(group: ScoredGroup) -> ScoredGroup:
        row = {"data_source": "math__made", "columns": JsonObject({"ability": "<sums>"})}
        prompt = replace(group.rollout.prompt, **row)
        return replace(group, rollout=replace(group.rollout, prompt=prompt))

    def groups(*args: Any, **more: Any) -> list[ScoredGroup]:
        return list(map(from_a_row, random_groups(*args, **more)))

    monkeypatch.setattr(journaled, "random_groups", groups)
    made = JournaledRun(make_run(tmp_path), HashPolicy())
    made.live(1)
    written(made.run.folder, record(1))
    monkeypatch.setattr(page_module, "_decoder", lambda facts: lambda token_ids: "an answer")
    assert "[math__made, ability &lt;sums&gt;] " in write_report(made.run.folder).read_text()


def test_an_episode_is_read_as_a_conversation_and_no_word_of_it_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = {"role": "tool", "name": HOSTILE, "content": HOSTILE}
    many = tuple({"role": "user", "content": f"say {number}"} for number in range(20))

    def groups(*args: Any, **more: Any) -> list[ScoredGroup]:
        group = random_groups(*args, **more)[1]
        played = an_episode((*MESSAGES[:-1], *many, hostile, {"role": "assistant", "content": HOSTILE}))
        rollout = replace(group.rollout, completions=(played,) * 4)
        return [replace(group, rollout=rollout)]

    monkeypatch.setattr(journaled, "random_groups", groups)
    made = JournaledRun(make_run(tmp_path), HashPolicy(), version=5)
    made.live(1)
    monkeypatch.setattr(page_module, "_decoder", lambda facts: lambda token_ids: "not asked for")
    metrics = episode_metrics([facts_of(an_episode())])
    written(made.run.folder, record(1, **metrics))
    text = write_report(made.run.folder).read_text()
    assert asked_for(text) == []
    for words in (
        "3 turns, 2 tool calls, 1 error; 8 tokens sampled and 3 observed in 2 segments; ended by environment: solved",
        "the environment gave 7.5 of 0 to 10; turn by turn none, -0.5, 8",
        "<b>assistant (version 3: 1 token, version 4: 3 tokens)</b>",
        "calls search({&#34;query&#34;: &#34;2 + 3&#34;})",
        '<div class="turn error"><b>tool search, an error</b>',
        "say 3",
        "... 10 messages between are left out ...",
        "say 14",
        "&lt;script&gt;alert(1)",
        "<h2>Episodes</h2>",
        "<h3>Turns</h3>",
    ):
        assert words in text, words
    assert "say 4" not in text
    assert ".turn" not in page_module.page([written(tmp_path / "plain", record(1))])


def test_two_runs_lie_side_by_side_and_a_failed_one_has_its_reason(tmp_path: Path) -> None:
    written(tmp_path / "first", record(1), record(2))
    written(tmp_path / "second", record(1), record(2, reward_mean=0.9))
    text = write_report(tmp_path / "first", tmp_path / "both.html", other=tmp_path / "second").read_text()
    reward = text[text.index("<h3>Reward</h3>") :]
    reward = reward[: reward.index("<h3>", 5)]
    assert reward.count("<polyline") == 2
    assert re.findall(r"</i>(\w+) <b>([\d.]+)</b>", reward) == [("first", "0.5"), ("second", "0.9")]
    written(tmp_path / "run", status="failed", reason="no <model> here")
    text = write_report(tmp_path / "run").read_text()
    assert "The run failed: no &lt;model&gt; here" in text


@pytest.mark.prove(after=1)
@pytest.mark.parametrize("steps", [2_000, 10_000])
def test_many_steps_make_a_small_page_and_lose_no_spike(tmp_path: Path, steps: int) -> None:
    def of_so_many(steps: int) -> str:
        norms = (7000.0 if 5 * step == 2 * steps else 0.5 for step in range(1, steps + 1))
        written(tmp_path / str(steps), *(record(step, grad_norm=norm) for step, norm in enumerate(norms, 1)))
        return str(tmp_path / str(steps))

    assert is_linear(lambda folder: write_report(Path(folder)), of_so_many, steps)
    (file,) = (tmp_path / str(steps)).glob("*.html")
    assert file.stat().st_size < 500_000
    norms = file.read_text().split("<h3>Gradient norm</h3>")[1].split("</svg>")[0]
    assert ">8,000<" in norms or ">7,000<" in norms  # the scale has room for the spike, which the band shows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"skipped": 1.0}, "problem: 30 steps had a gradient that is not finite"),
        ({"lag_breaches": 1}, "problem: Groups were trained beyond learner.max_lag"),
        ({"truncated_share": 0.3}, "note: 30% of the latest completions were cut"),
        (
            {"arrived": {"episodes": {"count": 8}, "crashes": {"KeyError at a.py:3": KEY_ERROR}}},
            "problem: 60 of 240 episodes so far (25.0%) were ended by what their own agent, tool or environment raised",
        ),
        ({"dropped": 18}, "note: 90% of the latest groups were dropped"),
        ({"seconds_wait": 9.0, "age_scoring_s": 4.0, "age_sampling_s": 1.0}, "note: The learner waited"),
        ({"generators": {"g7": {"mismatch_kl": 0.5, "mismatch_max": 3.0}}}, "problem: Generator g7 and the "),
    ],
)
def test_what_stands_out_is_said_alone(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    found = texts(written(tmp_path / "run", *(record(step, **change) for step in range(1, 31))))
    assert [text[: len(said)] for text in found] == [said] * bool(said)


def test_trends_are_said(tmp_path: Path) -> None:
    rounds = {
        step: [{"version": step, "pass_rate": rate, "samples": 8}]
        for step, rate in ((10, 0.5), (20, 0.8), (30, 0.4))
    }

    def falling(step: int) -> dict[str, Any]:
        more = {"evaluations": rounds[step]} if step in rounds else {}
        return record(step, entropy=1.0 / step**2, reward_mean=step / 100, **more)

    found = texts(written(tmp_path / "run", *map(falling, range(1, 31))))
    assert [text[:50] for text in found] == [
        "problem: The held-out pass rate fell by 0.400 sinc",
        "note: The entropy fell from 0.454 to 0.00119 nats ",
    ]


def test_alarms_are_said_once_a_kind_and_parts_of_scores_have_a_line(tmp_path: Path) -> None:
    alarms = {
        7: ["reward_hacking kind='length': answers grew <b>"],
        27: ["reward_hacking kind='length': again", "50% of the time was spent waiting"],
    }
    records = [record(step, alarms=alarms.get(step, [])) for step in range(1, 31)]
    found = texts(written(tmp_path / "run", *records))
    assert found == ["problem: Step 7: the reward rose alone. Answers grew <b>."]
    arrived = {"components": {"math": 0.5, "truth": 0.25}, "same_answer_share": 0.125}
    facts = written(tmp_path / "run", *(record(step, arrived=arrived) for step in (1, 2)))
    assert facts.names_in("arrived.components") == ["math", "truth"]
    part = facts.series("arrived.components.truth")
    assert part is not None
    assert (list(part.steps), list(part.values)) == ([1, 2], [0.25, 0.25])
    assert facts.series("arrived.components.format") is facts.series("groups.of") is None
    drawn = page_module.page([facts])
    assert all(word in drawn for word in ("Parts of the scores", "truth", "Answers alike", "0.125"))
    assert "Parts of the scores" not in page_module.page([written(tmp_path / "old", record(1))])


@pytest.mark.parametrize("values", [[0.0], [1e-9, 2e-9], [-3.0, -3.0], [float("nan"), 1.0, 2e9]])
def test_every_series_can_be_drawn(values: list[float]) -> None:
    picture = str(line_chart([Series("x", list(range(len(values))), values)], label="x"))
    assert picture.count("<polyline") == 1
    assert "nan" not in picture
    points = re.search(r'<polyline class="line c0" points="([^"]*)"', picture)
    assert points is not None
    assert all(0 <= float(part) <= 560 for pair in points[1].split() for part in pair.split(","))


def test_numbers_are_short_and_lines_and_bars_drawn() -> None:
    series = Series("x", list(range(100_000)), [float(step % 7) for step in range(100_000)])
    picture = str(line_chart([series], label="x"))
    line = picture.split('class="line c0" points="')[1].split('"', maxsplit=1)[0]
    assert len(line.split()) <= POINTS
    drawn = str(bar([("a", 3), ("b", 1)], label="x"))
    assert list(map(float, re.findall(r'width="([\d.]+)"', drawn))) == [419.0, 139.0]
    texts = {0: "0", 0.25: "0.25", 1234.5: "1,234", 2_500_000: "2.5e6", 3e-7: "3.0e-7", -0.125: "-0.125"}
    assert {value: number_text(value) for value in texts} == texts
    assert asked_for(HOSTILE) == ["script", "img", "src", "onerror"], "what a page must not have is seen"
