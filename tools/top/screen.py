"""Draw the screen of `millrace top`, for 80 columns and more.

In: a `RunView`. Out: something that rich prints: the bottleneck, the roles, the streams with the budget, how trained
groups spent their time, and as many processes as there are lines for.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from broker.keys import DEAD, EPISODES
from broker.monitoring.snapshot import SHARED, Process, Snapshot
from broker.protocol.run_state import DRAIN, PAUSE
from config.logs import mask
from tools.run_view.flow import LEARNER, Flow, Works
from tools.run_view.follower import RunView
from tools.run_view.screen import clock, depth_bar, frame, policy_of, role_of, table
from tools.top.report import episodes, since_s, staleness

BAR_WIDTH = 16
FRAME = 2  # lines of the panel's border, and columns of its padding on each side
FEWEST = 3  # processes shown on any terminal
STAGES = {"generators": "magenta", "agents": "blue", "scorers": "green", "learner": "cyan"}
ORDER = ("learner", "generator", "agent", "dispatcher", "scorer")
NEARLY_ALL = 0.85  # utilisation from which a role is shown as busy


def screen(view: RunView, console: Console, *, is_cut: bool) -> RenderableType:
    """Draw the screen; if `is_cut`, as much of it as the console has lines for."""
    now, flow = view.snapshot, view.flow
    if now is None:
        text = f"redis has not answered for {view.silent_s:.0f} s: {mask(view.trouble)}"
        return frame(Text(text, "bold red"), "millrace top", view.name)
    parts: list[RenderableType] = []
    if view.trouble:
        parts.append(
            Text(
                f"redis has not answered for {view.silent_s:.0f} s ({mask(view.trouble)}); this is what "
                "was seen last",
                "bold red",
            )
        )
    parts += [
        Text(view.finding.text, "bold yellow"),
        Text(),
        _roles(flow),
        Text(),
        _streams(now),
        Text(),
        *_facts(now, flow),
        Text(),
    ]
    if is_cut:
        if _lines_left(parts, console) < FEWEST:
            parts = [part for part in parts if not isinstance(part, Text) or part.plain]
        parts.append(_processes(now, flow, max(FEWEST, _lines_left(parts, console))))
    else:
        parts.append(_processes(now, flow, len(now.processes)))
    return frame(Group(*parts), "millrace top", view.name, _subtitle(now, flow))


def _lines_left(parts: Sequence[RenderableType], console: Console) -> int:
    """Count the processes that fit below `parts`."""
    inside = console.options.update(width=max(1, console.width - 2 * FRAME), height=None)
    used = sum(len(console.render_lines(part, inside)) for part in parts)
    return console.height - FRAME - used - 2  # the table's heading, and the number left out


def _subtitle(now: Snapshot, flow: Flow) -> str:
    learner = flow.of(LEARNER)
    pace = ""
    if learner is not None and now.run is not None and learner.groups_a_second:
        rate = learner.groups_a_second / now.run.learner.groups_per_step  # steps a second
        left_s = (now.steps - max(0, now.version)) / rate
        pace = f" · {60 * rate:.3g} steps/min · about {clock(left_s)} left"
    asked = {PAUSE: " · paused", DRAIN: " · draining"}.get(now.wanted, "")
    return f"{now.status or 'not begun'}{asked} · step {max(0, now.version)}/{now.steps}{pace}"


def _roles(flow: Flow) -> RenderableType:
    """Draw the roles. `s each` is per group; for the learner per step."""
    numbers = ("n", "busy", "groups/s", "s each", "tokens/s")
    made = table("role", *numbers, "waits", right=numbers, is_wide=True)
    for works in flow.works:
        made.add_row(
            Text(works.name, STAGES[works.stage]),
            str(works.workers),
            _busy(works.utilisation),
            _short(works.groups_a_second) or "0",
            _short(works.seconds_each) or "-",
            _short(works.tokens_a_second) or "-",
            _waits(works),
        )
    if not flow.works:
        made.add_row(Text("no role has begun to work", "dim"))
    return made


def _waits(works: Works) -> str:
    """Say what a stage waits for, the largest share first."""
    return (
        ", ".join(
            f"{share:.0%} {what}"
            for what, share in sorted(works.waits.items(), key=lambda item: -item[1])
            if share >= 0.005
        )
        or "-"
    )


def _streams(now: Snapshot) -> RenderableType:
    numbers = ("depth", "waiting", "leased", "oldest")
    made = table("stream", *numbers, "", right=numbers, is_wide=True)
    largest = max([1, *(state.depth for state in now.streams.values())])
    for name, state in now.streams.items():
        if name == EPISODES and not state.depth:
            continue
        has_leases = name in SHARED
        made.add_row(
            name,
            Text(str(state.depth), "bold red" if name == DEAD and state.depth else "bold"),
            str(state.waiting) if has_leases else "-",
            str(state.leased) if has_leases else "-",
            _age(state.oldest_s) if state.depth else "-",
            depth_bar(name, state.depth, largest, BAR_WIDTH),
        )
    return made


def _facts(now: Snapshot, flow: Flow) -> list[RenderableType]:
    lag = f" (max_lag {now.run.learner.max_lag})" if now.run else ""
    floor = f", oldest floor {now.floor}" if now.floor >= 0 else ""
    facts = [
        _fact(
            "budget",
            f"{now.slots} of {now.bound or '?'} slots{floor}, version {now.version}{lag}, "
            f"{now.issued} groups issued",
        )
    ]
    if (found := staleness(flow.ages)) is not None:
        age = {name.removesuffix("_s"): _age(seconds) for name, seconds in found.items()}
        facts.append(
            _fact(
                "age",
                f"{age['total']}: sampling {age['sampling']}, scoring {age['scoring']}, queue "
                f"{age['queue']} (prompts {age['queue_prompts']}, rollouts {age['queue_rollouts']}, "
                f"scored {age['queue_scored']})",
            )
        )
    if (played := episodes(now)) is not None:
        ends = ", ".join(f"{count} by {end}" for end, count in played["ends"].items())
        facts.append(
            _fact(
                "played",
                f"{played['turns']} turns, {played['tool_calls']} calls of tools ({played['tool_errors']} errors), "
                f"{played['tokens_sampled']} tokens sampled, {played['tokens_observed']} read; ended: {ends or 'none'}",
            )
        )
    if now.advice:
        facts.append(_fact("advice", now.advice))
    return facts


def _fact(name: str, text: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=6)
    grid.add_column()
    # As markup a model's text could control this screen.
    grid.add_row(Text(name, "dim"), Text(text))
    return grid


def _processes(now: Snapshot, flow: Flow, most: int) -> RenderableType:
    found = sorted(now.processes, key=lambda process: (_place(process.role), process.id))
    shown = found if len(found) <= most else _some(found, most)
    numbers = ("pid", "policy", "busy", "for")
    made = table("process", "host", *numbers, "does", right=numbers, is_wide=True)
    for process in shown:
        share = flow.shares.get(f"{process.role}:{process.id}")
        made.add_row(
            role_of(process),
            Text(process.host),
            str(process.pid),
            policy_of(process, now),
            "-" if share is None else _busy(share),
            _age(since_s(process, now)),
            Text(process.state),
        )
    if len(shown) < len(found):
        made.add_row(Text(f"... and {len(found) - len(shown)} more", "dim"))
    return made


def _some(found: list[Process], most: int) -> list[Process]:
    """Choose processes of each role in turn, so that many scorers do not hide the learner."""
    by_role: dict[str, list[Process]] = {}
    for process in found:
        by_role.setdefault(process.role, []).append(process)
    shown: list[Process] = []
    while len(shown) < most:
        for some in by_role.values():
            if some and len(shown) < most:
                shown.append(some.pop(0))
    return sorted(shown, key=lambda process: (_place(process.role), process.id))


def _place(role: str) -> int:
    return ORDER.index(role) if role in ORDER else len(ORDER)


def _busy(share: float) -> Text:
    return Text(f"{share:.0%}", "bold yellow" if share >= NEARLY_ALL else "")


def _short(number: float) -> str:
    """Format a number with at most three digits; "" for 0."""
    if not number:
        return ""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _age(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 120:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}min" if seconds < 7200 else f"{seconds / 3600:.0f}h"
