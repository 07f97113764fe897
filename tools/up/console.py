"""Show the roles' output and the state of the run: the console of `millrace up`.

In: lines by role, and a `RunView` at every tick. Out: on a terminal, one fixed table, with the newest sample and the
remaining time; only warnings and errors are printed above it. Elsewhere the learner's lines, warnings of other roles,
and a progress line every minute. Every line of every role is in `logs/ROLE.log`.
"""

from __future__ import annotations

import os
import re
import sys
import termios
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from broker.keys import DEAD, EPISODES, PROMPTS, ROLLOUTS, SCORED
from broker.monitoring.counters import ScorerStats
from broker.monitoring.snapshot import Snapshot
from tools.run_view.follower import RunView
from tools.run_view.screen import ROLE_COLOURS, RunScreen, clock, depth_bar, frame, policy_of, role_of, table

PLAIN_EVERY_S, STARTING_EVERY_S = 60.0, 5.0
RATE_WINDOW_S = 60.0  # over which the remaining time is estimated
SAMPLE_CHARS = 110  # of a question or an answer in the table
LIVE_EVERY_S = 0.25
STALE_S = 5.0
ROLE_WIDTH = 11
BAR_WIDTH = 24
STREAMS = (PROMPTS, ROLLOUTS, SCORED, DEAD)
HEADLINE_BAR, HEADLINE_REWARDS = (
    16,
    12,
)  # widths of the progress and of the newest rewards: the headline fits 105 columns
SHOW_CURSOR = b"\x1b[?25h\n"

# The format of config.logs.
LOG_LINE = re.compile(r"(?P<time>\d\d:\d\d:\d\d) \S+ (?P<level>[A-Z]+) (?P<module>[\w.]+): (?P<text>.*)")
SAMPLE = re.compile(
    r"sample group=\S+ question=(?P<question>'.*'|\".*\") answer=(?P<answer>'.*'|\".*\") reward=(?P<reward>\S+)"
)
LEVELS = {"WARNING": "yellow", "ERROR": "bold red", "CRITICAL": "bold red"}


class RunConsole(Protocol):
    """A display of a run."""

    def line(self, role: str, text: str) -> None:
        """Show a line of a role's output."""
        ...

    def tick(self, view: RunView, running: int) -> None:
        """Show the state of the run; called often."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class PlainConsole:
    """Show a run in a file, in a pipe or in CI.

    Args:
        stream: the output; None: standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._shown_at = time.monotonic()
        self._shown = ""
        self._rate = StepRate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def line(self, role: str, text: str) -> None:
        """Print a line after its role's name, if it is to be shown."""
        if is_shown(role, text):
            self._stream.write(f"{role:<{ROLE_WIDTH}} | {text}\n")
            self._stream.flush()

    def tick(self, view: RunView, running: int) -> None:
        """Print the progress line if it is due and has changed."""
        has_begun = view.snapshot is not None and view.snapshot.version > 0
        if view.snapshot is not None:
            self._rate.add(view.snapshot.version, time.monotonic())
        if time.monotonic() - self._shown_at < (PLAIN_EVERY_S if has_begun else STARTING_EVERY_S):
            return
        left_s = None if view.snapshot is None else self._rate.seconds_to(view.snapshot.steps)
        text = progress_line(view, running, left_s=left_s)
        if text != self._shown:
            self.line("up", text)
        self._shown, self._shown_at = text, time.monotonic()


class LiveConsole:
    """Shows a run on a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self._started = time.monotonic()
        self._drawn_at = 0.0
        self._console = console or Console(highlight=False)
        self._screen = RunScreen(self._console)
        self._rate = StepRate()
        self._sample: Mapping[str, str] = {}
        self._alarming = ""  # the role whose alarm was printed last, until its next line

    def __enter__(self) -> Self:
        _show_control_characters(False)
        self._screen.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.stop()
        _show_control_characters(True)

    def line(self, role: str, text: str) -> None:
        """Print an alarm above the table; a sample goes into it, and any other line only to its log."""
        if (found := LOG_LINE.match(text)) is not None:
            self._alarming = role if found["level"] in LEVELS else ""
            if role == "learner" and (sample := SAMPLE.match(found["text"])):
                self._sample = sample.groupdict()
        if self._alarming == role:  # a traceback's lines have no level of their own
            self._console.print(_pretty(role, text), soft_wrap=True)

    def tick(self, view: RunView, running: int) -> None:
        """Redraw the table, if due."""
        if time.monotonic() - self._drawn_at >= LIVE_EVERY_S:
            self._drawn_at = time.monotonic()
            if view.snapshot is not None:
                self._rate.add(view.snapshot.version, self._drawn_at)
            left_s = None if view.snapshot is None else self._rate.seconds_to(view.snapshot.steps)
            drawing = panel(view, running, self._drawn_at - self._started, left_s=left_s, sample=self._sample)
            self._screen.draw(drawing)


class StepRate:
    """Estimate the remaining time from the newest steps."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque()  # (version, when it was first seen), the newest last

    def add(self, version: int, now: float) -> None:
        """Add a snapshot of the run.

        Args:
            version: optimizer steps done; -1 before the run has begun.
            now: monotonic seconds.
        """
        if version >= 0 and (not self._seen or version != self._seen[-1][0]):
            self._seen.append((version, now))
        while len(self._seen) > 2 and now - self._seen[1][1] > RATE_WINDOW_S:
            self._seen.popleft()

    def seconds_to(self, steps: int) -> float | None:
        """Return the seconds until step `steps` at the rate of the last minute; None before the first step."""
        if len(self._seen) < 2:
            return None
        (first, began), (last, seen) = self._seen[0], self._seen[-1]
        return (steps - last) * (seen - began) / (last - first)


def _show_control_characters(shown: bool) -> None:
    """Set whether the terminal echoes Ctrl-C as ^C, which would shift the table by a line."""
    if sys.stdin.isatty():
        settings = termios.tcgetattr(sys.stdin)
        settings[3] = settings[3] | termios.ECHOCTL if shown else settings[3] & ~termios.ECHOCTL
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)


def restore_terminal() -> None:
    """Restore cursor and echo, as `LiveConsole` does at its end, for a process that ends without that."""
    if sys.stdout.isatty():
        os.write(sys.stdout.fileno(), SHOW_CURSOR)
        _show_control_characters(True)


def is_shown(role: str, text: str) -> bool:
    """Return whether a line goes to the console, or only to its log."""
    found = LOG_LINE.match(text)
    return role in {"learner", "up"} or (found is not None and found["level"] in LEVELS)


def _pretty(role: str, text: str) -> Text:
    """Format a line for a terminal, without repeating its prefix, and with coloured alarms."""
    prefix = ((f"{role:<{ROLE_WIDTH}} ", ROLE_COLOURS.get(role.partition("-")[0], "white")), ("│ ", "dim"))
    if (found := LOG_LINE.match(text)) is None:
        return Text.assemble(*prefix, text)
    event, _, rest = found["text"].partition(" ")
    level = LEVELS.get(found["level"])
    return Text.assemble(
        *prefix,
        (f"{found['time']} ", "dim"),
        (f"{found['level']} " if level else "", level or ""),
        (f"{event} ", level or "bold"),
        (rest, level or ""),
    )


def progress_line(view: RunView, running: int, *, left_s: float | None = None) -> str:
    """Format the state of the run as key=value; `left_s` seconds remain, None where unknown."""
    found = view.snapshot
    if found is None or not found.steps:
        return f"starting processes={running}"
    parts = [f"step={max(found.version, 0)}/{found.steps}"]
    if left_s is not None:
        parts.append(f"left={clock(left_s)}")
    if view.last_step:
        parts += [
            f"reward={view.rewards[-1]:.3f}",
            f"lag={view.last_step['lag_mean']:.2f}/{view.last_step['lag_max']}",
        ]
    if view.pass_rates:
        parts.append(f"pass_rate={view.pass_rates[-1][1]:.3f}")
    parts += [
        *(f"{stream}={found.depth(stream)}" for stream in STREAMS),
        f"generators={found.alive('generator')}",
        *(
            [f"episodes={found.depth(EPISODES)}", f"agents={found.alive('agent')}"]
            if found.has_agents
            else []
        ),
        f"scorers={found.alive('scorer')}",
        f"verdict={view.finding.text!r}",
    ]
    for counter in ("unscorable", "over_limit", "retries"):
        if number := sum(getattr(stats, counter) for stats in found.scorers):
            parts.append(f"{counter}={number}")
    parts += [
        f"{stats.scorer}_cached={stats.cache_hit_rate:.0%}"
        for stats in found.scorers
        if stats.cache_hit_rate is not None
    ]
    if view.silent_s > STALE_S:
        parts.append(f"redis_silent_s={view.silent_s:.0f}")
    return " ".join(parts)


def panel(
    view: RunView,
    running: int,
    seconds: float,
    *,
    left_s: float | None = None,
    sample: Mapping[str, str] | None = None,
) -> RenderableType:
    """Draw the table at the bottom of the terminal.

    Args:
        view: the run.
        running: number of living processes that `up` has started.
        seconds: since `up` began.
        left_s: until the last step; None where unknown.
        sample: `question`, `answer` and `reward` of the newest sample, from the log; empty for none.
    """
    found = view.snapshot
    times = clock(seconds) if left_s is None else f"{clock(seconds)}, about {clock(left_s)} left"
    if found is None or not found.steps:
        text = Text(f"starting: {running} processes are up, the learner has not begun", "dim")
        return frame(text, "millrace", view.name, times)
    parts: list[RenderableType] = [
        _headline(view, found),
        Text(),
        _streams(found),
        Text(view.finding.text, "yellow"),
        *([Text(found.advice, "yellow")] if found.advice and found.advice not in view.finding.text else []),
        Text(),
        _processes(found),
    ]
    if sample:
        parts += [Text(), _sample(sample)]
    if len(found.scorers) > 1 or any(
        _troubles(stats) or stats.cache_hit_rate is not None for stats in found.scorers
    ):
        parts += [Text(), _scorers(view, found)]
    if view.silent_s > STALE_S:
        parts.append(
            Text(f"Redis has not answered for {view.silent_s:.0f} s; this is what was seen last", "bold red")
        )
    return frame(Group(*parts), "millrace", view.name, times)


def _sample(sample: Mapping[str, str]) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    for name in ("question", "answer"):
        text = sample[name][1:-1].replace("\\\\", "\\")  # quoted in the log
        grid.add_row(Text(name, "dim"), Text(_shortened(text)))
    grid.add_row(Text("reward", "dim"), Text(sample["reward"], "bold"))
    return grid


def _shortened(text: str) -> str:
    return text if len(text) <= SAMPLE_CHARS else f"{text[:SAMPLE_CHARS]} ..."


def _headline(view: RunView, found: Snapshot) -> RenderableType:
    done = max(found.version, 0)
    filled = min(HEADLINE_BAR, HEADLINE_BAR * done // found.steps)
    grid = Table.grid(padding=(0, 3))
    rewards = (
        Text.assemble(
            "reward ",
            (f"{view.rewards[-1]:.3f} ", "bold"),
            (sparkline(view.rewards, HEADLINE_REWARDS), "cyan"),
        )
        if view.rewards
        else Text("reward -")
    )
    rates = Text("held-out -")
    if view.pass_rates:
        first, last = view.pass_rates[0][1], view.pass_rates[-1][1]
        before = f"{first:.2f} → " if len(view.pass_rates) > 1 else ""
        rates = Text.assemble("held-out ", before, (f"{last:.2f}", "bold"))
    lag = Text("lag -")
    if step := view.last_step:
        lag = Text.assemble("lag ", (f"{step['lag_mean']:.1f}", "bold"), f" mean, {step['lag_max']} max")
    grid.add_row(
        Text.assemble(
            "step ",
            (f"{done}/{found.steps} ", "bold"),
            ("━" * filled, "cyan"),
            ("━" * (HEADLINE_BAR - filled), "dim"),
        ),
        rewards,
        rates,
        lag,
    )
    return grid


def _streams(found: Snapshot) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    depths = {stream: found.depth(stream) for stream in STREAMS}
    largest = max(1, *depths.values())
    for stream, depth in depths.items():
        number = Text(str(depth), "bold", justify="right")
        grid.add_row(Text(stream), number, depth_bar(stream, depth, largest, BAR_WIDTH))
    return grid


def _processes(found: Snapshot) -> RenderableType:
    made = table("process", "pid", "policy", "does")
    for process in found.processes:
        made.add_row(role_of(process), str(process.pid), policy_of(process, found), Text(process.state))
    return made


def _scorers(view: RunView, found: Snapshot) -> RenderableType:
    is_asking = any(stats.cache_hit_rate is not None for stats in found.scorers)
    numbers = ("jobs", "scored", "/s", "ms each", *(["cached"] if is_asking else []))
    made = table("scorer", "queue", *numbers, "trouble", right=numbers)
    for stats in found.scorers:
        rate = view.completions_per_s.get((stats.queue, stats.scorer), 0.0)
        cached = ["-" if stats.cache_hit_rate is None else f"{stats.cache_hit_rate:.0%}"] if is_asking else []
        made.add_row(
            Text(stats.scorer, ROLE_COLOURS["scorer"]),
            stats.queue,
            str(found.queued_jobs.get(stats.queue, 0)),
            str(stats.scored),
            f"{rate:.1f}",
            f"{1000 * stats.seconds_a_completion:.1f}",
            *cached,
            Text(_troubles(stats) or "-", "yellow" if _troubles(stats) else ""),
        )
    return made


def _troubles(stats: ScorerStats) -> str:
    """Describe what went wrong; "" for nothing."""
    counts = {"unscorable": stats.unscorable, "over their limits": stats.over_limit, "retries": stats.retries}
    return ", ".join(f"{number} {what}" for what, number in {**counts, **stats.failures}.items() if number)


def sparkline(values: Sequence[float], width: int = 20) -> str:
    """Draw the last values as bars between their minimum and maximum."""
    shown = values[-width:]
    low, high = min(shown), max(shown)
    return "".join(
        "▁▂▃▄▅▆▇█"[round(7 * (value - low) / (high - low)) if high > low else 0] for value in shown
    )
