"""What is shown of a run, on a terminal and elsewhere."""

from __future__ import annotations

import io
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from broker.monitoring.counters import ScorerStats
from broker.monitoring.snapshot import Process, Snapshot, StreamState
from tests.support.told import Capsys, Patch
from tools.run_view.finding import BottleneckFinding
from tools.run_view.follower import RunView, completion_rates
from tools.up.console import LiveConsole, PlainConsole, StepRate, is_shown, panel, progress_line, sparkline

pytestmark = [pytest.mark.process, pytest.mark.prove(after=1)]

PLAIN: dict[str, Any] = {"pid": 7, "host": "here", "since": 0.0}
BEATS = (
    Process(role="generator", id="g", state="sampling", version="2", **PLAIN),
    Process(role="learner", id="l", state="12 s: 3 of 16 groups", version="", **PLAIN),
    Process(role="scorer", id="s", state="scoring", version="", **PLAIN),
)
DEPTHS = {"prompts": 10, "rollouts": 4, "scored": 2, "dead": 1}
STREAMS = {stream: StreamState(depth=depth) for stream, depth in DEPTHS.items()}
MIDWAY = Snapshot(
    status="running", reason="", version=3, steps=12, streams=STREAMS, slots=16, processes=BEATS
)


def midway(silent_s: float = 0.0) -> RunView:
    return RunView(
        name="demo", snapshot=MIDWAY, trouble="", heard_at=time.monotonic() - silent_s, rewards=(0.25, 0.5),
        pass_rates=((0, 0.1), (2, 0.6)),
        last_step={"step": 2, "reward_mean": 0.5, "lag_mean": 0.75, "lag_max": 2},
        finding=BottleneckFinding(text="bottleneck: generators (1), 97% busy"),
    )  # fmt: skip


def drawn(view: RunView, left_s: float | None = None) -> str:
    out = io.StringIO()
    Console(file=out, width=120).print(panel(view, 3, 72, left_s=left_s))
    return out.getvalue()


@pytest.mark.parametrize(
    ("role", "text", "shown"),
    [
        ("learner", "anything", True),
        ("generator-0", "12:00:01 generator INFO generators.worker: sampled group=1", False),
        ("generator-0", "12:00:01 generator WARNING broker.connection: waiting waited_s=5", True),
        ("scorers-0", "12:00:01 scorer ERROR scorers.pool.worker: ended reason=x", True),
        ("generator-0", "WARNING 11-21 12:00:01 [config.py:1] a library's own", False),
    ],
)
def test_the_console_shows_the_learner_and_every_alarm(role: str, text: str, shown: bool) -> None:
    assert is_shown(role, text) is shown


def test_the_progress_line_says_who_waits_for_whom() -> None:
    assert progress_line(midway(), 3) == (
        "step=3/12 reward=0.500 lag=0.75/2 pass_rate=0.600 prompts=10 rollouts=4 scored=2 dead=1 "
        "generators=1 scorers=1 verdict='bottleneck: generators (1), 97% busy'"
    )
    assert progress_line(midway(silent_s=20), 3).endswith("redis_silent_s=20")
    assert progress_line(RunView(name="demo"), 3) == "starting processes=3"
    assert progress_line(midway(), 3, left_s=130.0).startswith("step=3/12 left=2:10 reward=")


def test_the_table_shows_the_run() -> None:
    table = drawn(midway())
    for part in (
        *("demo", "step 3/12", "reward 0.500", "held-out 0.10 → 0.60", "lag 0.8 mean, 2 max", "1:12"),
        *("prompts  10", "bottleneck: generators (1), 97% busy", "12 s: 3 of 16 groups"),
    ):
        assert part in table, part
    assert "Redis has not answered" not in table
    assert "Redis has not answered for 20 s" in drawn(midway(silent_s=20))
    assert "the learner has not begun" in drawn(RunView(name="demo"))


FINE = ScorerStats(queue="math", scorer="math", groups=3, completions=24, seconds=1.2, failures={})
TROUBLES: dict[str, Any] = {
    "unscorable": 1,
    "over_limit": 2,
    "retries": 3,
    "failures": {"SandboxUnavailable": 4},
}
BROKEN = ScorerStats(queue="code", scorer="code", groups=2, completions=16, seconds=32.0, **TROUBLES)


@pytest.mark.parametrize(
    ("scorers", "rows"),
    [
        ((), []),
        ((FINE,), []),  # nothing to add to what is there
        ((FINE, replace(FINE, queue="light", scorer="mine")), ["math", "mine"]),
        ((BROKEN,), ["code"]),
    ],
)
def test_scorers_have_a_table_where_there_are_several_or_one_had_trouble(
    scorers: tuple[ScorerStats, ...], rows: list[str]
) -> None:
    table = drawn(replace(midway(), snapshot=replace(MIDWAY, scorers=scorers)))
    assert ("ms each" in table) is bool(rows)
    for row in rows:
        assert re.search(rf"^│ {row} .* {50 if row != 'code' else 2000}.0 ", table, re.MULTILINE), table


def test_the_troubles_of_a_scorer_are_named_with_their_numbers() -> None:
    now = replace(MIDWAY, scorers=(BROKEN,), queued_jobs={"code": 5})
    view = replace(midway(), completions_per_s={("code", "code"): 1.25}, snapshot=now)
    said = r"1 unscorable, 2 over their limits, 3 retries, 4 SandboxUnavailable"
    assert re.search(rf"code +code +5 +15 +1\.2 +2000\.0 +{said}", drawn(view))
    assert progress_line(view, 3).endswith(" unscorable=1 over_limit=2 retries=3")


def test_how_often_a_served_model_need_not_be_asked_again_is_shown() -> None:
    judge = replace(FINE, queue="judge", scorer="judge", cache_hits=1, cache_misses=3)
    view = replace(midway(), snapshot=replace(MIDWAY, scorers=(judge,)))
    assert re.search(r"ms each +cached +trouble", drawn(view))
    assert re.search(r"judge +judge +0 +24 +0\.0 +50\.0 +25% +-", drawn(view))
    assert progress_line(view, 3).endswith(" judge_cached=25%")


def test_a_rate_is_of_the_completions_between_two_looks() -> None:
    later = replace(MIDWAY, scorers=(BROKEN, replace(FINE, completions=64)))
    before = replace(MIDWAY, scorers=(FINE,), at=100.0)
    rates = {("math", "math"): 4.0, ("code", "code"): 1.6}
    assert completion_rates(before, replace(later, at=110.0)) == rates
    assert completion_rates(before, before) == {}


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([0.0, 0.5, 1.0], "▁▅█"),
        ([0.3, 0.3], "▁▁"),
        ([9.0, *[0.0] * 19, 1.0], "▁" * 19 + "█"),  # the last twenty
    ],
)
def test_a_sparkline_spans_what_it_shows(values: list[float], bars: str) -> None:
    assert sparkline(values) == bars


def test_lines_of_a_role_are_prefixed_and_never_read_as_markup(capsys: Capsys) -> None:
    with PlainConsole() as plain:
        plain.line("learner", "answer='[bold]7[/]'")
        plain.tick(midway(), 3)  # not due so soon
    assert capsys.readouterr().out == "learner     | answer='[bold]7[/]'\n"


def shown_live(*lines: tuple[str, str]) -> str:
    out = io.StringIO()
    with LiveConsole(Console(file=out, width=120, force_terminal=True, color_system=None)) as live:
        for role, text in lines:
            live.line(role, text)
        live.tick(midway(), 3)
    return out.getvalue()


STEP = ("learner", "12:00:01 learner INFO learner.reporting.metrics: step 1/2 reward=0.5")
SAMPLE = (
    "sample group=4 question='What is [bold]7[/]?' answer=\"it's \\\\boxed{7}\" reward=1.0 reason=7 equals 7"
)
SAMPLED = ("learner", f"12:00:01 learner INFO learner.reporting.metrics: {SAMPLE}")
FAILED = ("scorers-0", "12:00:02 scorer ERROR scorers.pool.worker: ended reason='[red]x[/]'")


def test_a_terminal_has_one_table_with_the_newest_sample_and_the_rest_is_in_the_logs() -> None:
    shown = shown_live(STEP, ("generator-0", "a library's own line"), SAMPLED)
    assert "step 3/12" in shown
    assert "reward=0.5" not in shown
    assert "a library's own" not in shown
    assert re.search(r"question What is \[bold\]7\[/\]\?", shown)
    assert re.search(r"answer   it's \\boxed\{7\}", shown)
    assert re.search(r"reward   1\.0", shown)


def test_an_alarm_stands_above_the_table_with_its_traceback() -> None:
    traceback = ("scorers-0", "Traceback (most recent call last):")
    shown = shown_live(FAILED, traceback, STEP, ("learner", "noise"))
    assert "scorers-0   │ 12:00:02 ERROR ended reason='[red]x[/]'" in shown
    assert "scorers-0   │ Traceback" in shown
    assert "noise" not in shown


def test_the_time_that_is_left_is_judged_by_the_last_minute() -> None:
    rate = StepRate()
    assert rate.seconds_to(10) is None
    for version, now in ((-1, -20.0), (0, 0.0), (1, 100.0), (1, 105.0), (2, 110.0), (3, 120.0), (4, 170.0)):
        rate.add(version, now)
    # The first step took long, and is no part of the last minute.
    assert rate.seconds_to(10) == (10 - 4) * (170 - 100) / (4 - 1)
    assert "1:12, about 1:02:05 left" in drawn(midway(), left_s=3725)


def test_a_progress_line_comes_every_minute_once_the_run_goes_on(capsys: Capsys, monkeypatch: Patch) -> None:
    now = 1000.0
    monkeypatch.setattr("tools.up.console.time.monotonic", lambda: now)
    plain = PlainConsole()
    lines = []
    for after, view in ((4, RunView(name="demo")), (6, RunView(name="demo")), (50, midway()), (61, midway())):
        now = 1000.0 + after
        plain.tick(view, 3)
        lines.append(capsys.readouterr().out)
    assert [bool(line) for line in lines] == [False, True, False, False]
    now = 1000.0 + 6 + 60
    plain.tick(midway(), 3)
    assert "step=3/12" in capsys.readouterr().out


def test_what_the_learner_advises_is_in_the_table_once() -> None:
    said = "every reward of a group is the same, for 20 groups in a row"
    view = replace(midway(), snapshot=replace(MIDWAY, advice=said))
    assert drawn(view).count(said) == 1
    named = replace(view, finding=BottleneckFinding(text=f"{said}; bottleneck: generators (1), 97% busy"))
    assert drawn(named).count(said) == 1
