"""Draw line charts as SVG text, in the page's colours, for light and dark mode.

In: series of numbers. Out: an `svg` element. Ten thousand steps are drawn by a few hundred points: each is the mean of
a stretch, and a band shows its minimum and maximum, so that no spike is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from markupsafe import Markup, escape

from learner.reporting.report.facts import Series

WIDTH, HEIGHT = 560, 210  # of a chart, in the units of its drawing
LEFT, RIGHT, TOP, BOTTOM = 62, 10, 10, 26  # margins
POINTS = 240  # per line at most
TICKS = 4  # approximate number of horizontal lines


def line_chart(series: Sequence[Series], *, label: str, low: float | None = None) -> Markup:
    """Draw lines in one chart; the first series has the first colour of the page.

    Args:
        series: at least one, each with at least one value that is finite.
        label: the chart's name for screen readers.
        low: the value at the bottom; None: from the values.
    """
    stretches = [_stretches(one) for one in series]
    points = [point for some in stretches for point in some]
    bottom = min(point[2] for point in points) if low is None else low
    scale = _Scale(
        first=min(point[0] for point in points),
        last=max(point[0] for point in points),
        bottom=bottom,
        top=max(point[3] for point in points),
    )
    parts = [_grid(scale)]
    for number, some in enumerate(stretches):
        parts.append(_line(some, scale, number))
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, label, Markup("").join(parts)
    )


def bar(parts: Sequence[tuple[str, float]], *, label: str) -> Markup:
    """Draw a bar divided into shares of a whole.

    Args:
        parts: names with their amounts, at least one above 0.
        label: the bar's name for screen readers.
    """
    total = sum(amount for _, amount in parts)
    at, pieces = 0.0, []
    for number, (name, amount) in enumerate(parts):
        width = WIDTH * amount / total
        pieces.append(
            Markup(
                '<rect class="fill c{}" x="{:.1f}" y="0" width="{:.1f}" height="22"><title>{}</title></rect>'
            ).format(number % 6, at, max(0.0, width - 1), f"{name}: {amount / total:.1%}")
        )
        at += width
    return Markup('<svg viewBox="0 0 {} 22" role="img" aria-label="{}" class="bar">{}</svg>').format(
        WIDTH, label, Markup("").join(pieces)
    )


def number_text(value: float) -> str:
    """Write a number for people: three significant digits, or a power of ten."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class _Scale:
    """Map values to positions in the drawing."""

    def __init__(self, *, first: float, last: float, bottom: float, top: float) -> None:
        self.first, self.last = first, last if last > first else first + 1
        step = _nice((top - bottom or abs(top) or 1) / TICKS)
        self.ticks = [step * number for number in range(math.floor(bottom / step), math.ceil(top / step) + 1)]
        if len(self.ticks) < 2:
            self.ticks.append(self.ticks[0] + step)
        self.bottom, self.top = self.ticks[0], self.ticks[-1]

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.top - value) / (self.top - self.bottom)


def _nice(step: float) -> float:
    """Return the next of 1, 2, 5, 10, 20 ... at or above a step."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def _stretches(series: Series) -> list[tuple[float, float, float, float]]:
    """Return (step, mean, minimum, maximum) of at most POINTS stretches of a series."""
    pairs = [(s, v) for s, v in zip(series.steps, series.values, strict=True) if math.isfinite(v)]
    size = max(1, math.ceil(len(pairs) / POINTS))
    found = []
    for start in range(0, len(pairs), size):
        some = pairs[start : start + size]
        values = [value for _, value in some]
        found.append((fmean(step for step, _ in some), fmean(values), min(values), max(values)))
    return found


def _grid(scale: _Scale) -> Markup:
    line = Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>')
    text = Markup('<text x="{}" y="{:.1f}" class="tick y">{}</text>')
    parts = [
        line.format(LEFT, WIDTH - RIGHT, scale.y(tick), scale.y(tick))
        + text.format(LEFT - 6, scale.y(tick) + 5, number_text(tick))
        for tick in scale.ticks
    ]
    for share in (0.0, 0.5, 1.0):
        step = scale.first + share * (scale.last - scale.first)
        anchor = {0.0: "start", 0.5: "middle", 1.0: "end"}[share]
        parts.append(
            Markup('<text x="{:.1f}" y="{}" class="tick" text-anchor="{}">{}</text>').format(
                scale.x(step), HEIGHT - 6, anchor, f"{step:,.0f}"
            )
        )
    return Markup("").join(parts)


def _line(points: Sequence[tuple[float, float, float, float]], scale: _Scale, number: int) -> Markup:
    middle = [(scale.x(step), scale.y(mean)) for step, mean, _, _ in points]
    parts = []
    if any(low < high for _, _, low, high in points):
        upper = [(scale.x(step), scale.y(high)) for step, _, _, high in points]
        lower = [(scale.x(step), scale.y(low)) for step, _, low, _ in reversed(points)]
        parts.append(
            Markup('<polygon class="band c{}" points="{}"/>').format(number % 6, _path(upper + lower))
        )
    if len(middle) == 1:
        ((x, y),) = middle
        parts.append(
            Markup('<circle class="dot c{}" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(number % 6, x, y)
        )
    parts.append(Markup('<polyline class="line c{}" points="{}"/>').format(number % 6, _path(middle)))
    return Markup("").join(parts)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return str(escape(" ".join(f"{x:.1f},{y:.1f}" for x, y in points)))
