"""Share the drawing, frames, tables and colours of the screens of `millrace up` and `millrace top`.

In: something that rich prints. Out: a terminal that shows the newest of it. The content of a screen is the verb's:
`tools.up.console` and `tools.top.screen`.
"""

from __future__ import annotations

from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from broker.monitoring.snapshot import Process, Snapshot

ROLE_COLOURS = {
    "learner": "cyan",
    "generator": "magenta",
    "agent": "blue",
    "scorer": "green",
    "scorers": "green",
    "dispatcher": "green",
    "up": "yellow",
}
STREAM_COLOURS = {
    "prompts": "magenta",
    "episodes": "blue",
    "rollouts": "green",
    "scored": "cyan",
    "dead": "red",
}


class RunScreen:
    """Show drawings on a terminal, each in place of the one before.

    Args:
        console: the terminal.
        is_whole: use the whole terminal, as a pager does, and cut the drawing at its height. Otherwise it stays below
            the lines printed meanwhile.
    """

    def __init__(self, console: Console, *, is_whole: bool = False) -> None:
        self._live = Live(
            console=console,
            auto_refresh=False,
            screen=is_whole and console.is_terminal,
            vertical_overflow="crop" if is_whole else "ellipsis",
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start showing drawings."""
        self._live.start()

    def stop(self) -> None:
        """Leave the newest drawing, or restore the terminal where all of it was used."""
        self._live.stop()

    def draw(self, drawing: RenderableType) -> None:
        """Show `drawing` in place of the current one."""
        self._live.update(drawing, refresh=True)


def frame(body: RenderableType, title: str, name: str, subtitle: str | None = None) -> Panel:
    """Put a frame round a drawing, with the verb's and the run's name as title."""
    heading = Text.assemble((f"{title} ", "dim"), (name, "bold"))
    return Panel(body, title=heading, subtitle=subtitle, border_style="dim", padding=(0, 1))


def table(*columns: str, right: tuple[str, ...] = (), is_wide: bool = False) -> Table:
    """Make a table without rules, whose cells are truncated where there is no room.

    Args:
        columns: their headings.
        right: the numeric columns.
        is_wide: the last column gets the remaining width.
    """
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, expand=is_wide)
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if is_wide and column == columns[-1] else None,
        )
    return made


def clock(seconds: float) -> str:
    """Format seconds as minutes and seconds, or with hours."""
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def role_of(process: Process) -> Text:
    """Return a process's role in its colour."""
    return Text(process.role, ROLE_COLOURS.get(process.role, "white"))


def policy_of(process: Process, now: Snapshot) -> str:
    """Return a process's policy version; "-" for none."""
    return str(max(0, now.version)) if process.role == "learner" else process.version or "-"


def depth_bar(stream: str, depth: int, largest: int, width: int) -> Text:
    """Make a bar for the depth of a stream, `width` characters for the deepest one."""
    return Text("■" * -(-width * depth // largest), STREAM_COLOURS[stream])
