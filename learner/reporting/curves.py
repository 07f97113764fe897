"""Draw a run as one picture, `curves.png`, from `metrics.jsonl`.

In: the records of `metrics.jsonl`. Out: the picture, next to that file. Rank 0 draws it when the run ends, however it
ends. A failure is logged and ends nothing.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

from learner.reporting.metrics_file import read_metrics

Records = list[dict[str, Any]]

INK, MUTED = "#1f2933", "#9aa5b1"
BLUE, ORANGE, GREEN, PURPLE, PINK, GREY = "#3b82f6", "#f97316", "#10b981", "#a855f7", "#ec4899", "#94a3b8"
TIMES = {  # every phase of a step: label and colour
    "wait": ("waiting", GREY),
    "train": ("training", BLUE),
    "publish": ("publishing", GREEN),
    "journal": ("journal", PURPLE),
    "evaluate": ("evaluating", PINK),
    "other": ("other", ORANGE),
}
SMOOTH_STEPS = 10  # the bold reward curve is a mean over this many steps
STYLE: Any = {
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 10,
    "axes.axisbelow": True,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    # Fixed, since fitting them to the labels draws all twice.
    "figure.subplot.left": 0.06,
    "figure.subplot.right": 0.99,
    "figure.subplot.bottom": 0.065,
    "figure.subplot.top": 0.885,
    "figure.subplot.wspace": 0.09,
    "figure.subplot.hspace": 0.34,
}


def load_ahead() -> None:
    """Import in the background what `draw` needs, while the learner waits for the run's last round."""

    def load() -> None:
        with contextlib.suppress(ImportError):  # `draw` reports it
            _pyplot()

    threading.Thread(target=load, name="load-curves", daemon=True).start()


def draw(folder: Path) -> Path | None:
    """Draw the steps of `folder/metrics.jsonl`; returns the picture's path, or None before the first step."""
    records = read_metrics(folder)
    if not records:
        return None
    plt = _pyplot()
    with plt.rc_context(STYLE):
        figure, ((reward, lag), (queues, time)) = plt.subplots(2, 2, figsize=(12, 7))
        last = records[-1]["step"]
        figure.suptitle(
            f"{folder.name}: {last} {'step' if last == 1 else 'steps'}",
            x=0.012,
            ha="left",
            weight="bold",
            fontsize=12,
        )
        _reward(reward, records)
        _lag(lag, records)
        _stack(
            queues,
            records,
            "Groups in flight",
            {
                "to be sampled": (BLUE, _depths(records, "prompts", "episodes")),
                "to be scored": (ORANGE, _depths(records, "rollouts")),
                "to be trained": (GREEN, _depths(records, "scored")),
            },
        )
        _stack(
            time,
            records,
            "Seconds a step",
            {label: (colour, _seconds(records, part)) for part, (label, colour) in TIMES.items()},
        )
        for axes in (reward, lag, queues, time):
            axes.set_xlabel("optimizer step")
            axes.set_xlim(records[0]["step"] - 1, last + 0.03 * len(records))
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.grid(axis="y", color=MUTED, alpha=0.3, linewidth=0.6)
            handles, labels = axes.get_legend_handles_labels()
            axes.legend(
                handles,
                labels,
                loc="lower right",
                bbox_to_anchor=(1.01, 0.985),
                ncols=len(labels),
                columnspacing=0.9,
                handlelength=0.9,
                handletextpad=0.4,
            )
        path = folder / "curves.png"
        figure.savefig(path, dpi=130)
        plt.close(figure)
    return path


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def _reward(axes: Any, records: Records) -> None:
    steps = [record["step"] for record in records]
    rewards = [record["reward_mean"] for record in records]
    recent = [rewards[max(0, i + 1 - SMOOTH_STEPS) : i + 1] for i in range(len(rewards))]
    axes.plot(steps, rewards, color=BLUE, linewidth=0.8, alpha=0.45, marker="." if len(steps) == 1 else None)
    axes.plot(
        steps,
        [sum(some) / len(some) for some in recent],
        color=BLUE,
        linewidth=1.8,
        label=f"training, mean of {SMOOTH_STEPS} steps",
    )
    rounds = sorted(
        (result["version"], result["pass_rate"])
        for record in records
        for result in record.get("evaluations", ())
        if result["pass_rate"] is not None
    )
    if rounds:
        axes.plot(
            *zip(*rounds, strict=True),
            "o-",
            color=ORANGE,
            linewidth=1.5,
            markersize=4,
            label="held-out pass rate",
            clip_on=False,
        )
        for version, rate in {rounds[0], rounds[-1]}:
            axes.annotate(
                f"{rate:.2f}",
                (version, rate),
                textcoords="offset points",
                xytext=(7, -11),
                color=ORANGE,
                weight="bold",
            )
    axes.set_title("Reward")


def _lag(axes: Any, records: Records) -> None:
    steps = [record["step"] for record in records]
    marker = "." if len(steps) == 1 else None
    axes.plot(
        steps,
        [record["lag_max"] for record in records],
        color=ORANGE,
        linewidth=1.2,
        marker=marker,
        label="oldest token",
    )
    axes.plot(
        steps,
        [record["lag_mean"] for record in records],
        color=BLUE,
        linewidth=1.8,
        marker=marker,
        label="mean over tokens",
    )
    axes.set_title("Lag, in policy versions")
    axes.set_ylim(0, max(1, *(record["lag_max"] for record in records)) * 1.08)
    axes.yaxis.get_major_locator().set_params(integer=True)


def _stack(axes: Any, records: Records, title: str, parts: dict[str, tuple[str, list[float]]]) -> None:
    """Stack the parts on top of each other; step s covers s - 1 to s, so that a single step is visible too."""
    edges = [records[0]["step"] - 1, *(record["step"] for record in records)]
    axes.stackplot(
        edges,
        [[values[0], *values] for _, values in parts.values()],
        step="pre",
        labels=list(parts),
        colors=[colour for colour, _ in parts.values()],
        alpha=0.85,
        linewidth=0,
    )
    axes.set_title(title)


def _seconds(records: Records, part: str) -> list[float]:
    return [record.get(f"seconds_{part}", 0.0) for record in records]


def _depths(records: list[dict[str, Any]], *streams: str) -> list[float]:
    """Return the depth of streams at each step; 0 for a step that was replayed, when nothing was counted."""
    return [sum(record.get("queues", {}).get(stream, 0) for stream in streams) for record in records]
