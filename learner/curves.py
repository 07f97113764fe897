"""The run in one picture: `curves.png`, drawn at the end from `metrics.jsonl`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from learner.metrics import read_metrics

INK, MUTED = "#1f2933", "#9aa5b1"
COLOURS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#64748b")
PARTS = ("wait", "train", "publish", "journal", "other")


def draw(folder: Path) -> Path | None:
    """Draw what `folder/metrics.jsonl` holds. None where there is no step yet."""
    records = read_metrics(folder)
    if not records:
        return None
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style: Any = {"axes.edgecolor": MUTED, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
                  "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left",
                  "axes.titleweight": "bold", "axes.titlesize": 10}
    with plt.rc_context(style):
        figure, ((reward, lag), (queues, time)) = plt.subplots(2, 2, figsize=(10, 6.4), constrained_layout=True)
        figure.suptitle(f"{folder.name}: {records[-1]['step']} steps", color=INK, x=0.01, ha="left", weight="bold")
        _reward(reward, records)
        _lag(lag, records)
        _queues(queues, records)
        _time(time, records)
        for axes in (reward, lag, queues, time):
            axes.set_xlabel("optimizer step")
            axes.grid(axis="y", color=MUTED, alpha=0.25)
        path = folder / "curves.png"
        figure.savefig(path, dpi=130)
        plt.close(figure)
    return path


def _reward(axes: Any, records: list[dict[str, Any]]) -> None:
    steps = [record["step"] for record in records]
    axes.plot(steps, [record["reward_mean"] for record in records], color=COLOURS[0], linewidth=1.3,
              label="reward, mean")
    rounds = sorted((result["version"], result["pass_rate"]) for record in records
                    for result in record.get("evaluations", ()) if result["pass_rate"] is not None)
    if rounds:
        axes.plot(*zip(*rounds, strict=True), "o-", color=COLOURS[1], linewidth=1.3, markersize=4,
                  label="held-out pass rate")
        for version, rate in (rounds[0], rounds[-1]):
            axes.annotate(f"{rate:.2f}", (version, rate), textcoords="offset points", xytext=(4, 6), color=COLOURS[1])
    axes.set_title("Reward")
    axes.legend(frameon=False, loc="best")


def _lag(axes: Any, records: list[dict[str, Any]]) -> None:
    steps = [record["step"] for record in records]
    axes.plot(steps, [record["lag_max"] for record in records], color=COLOURS[1], linewidth=1, label="oldest token")
    axes.plot(steps, [record["lag_mean"] for record in records], color=COLOURS[0], linewidth=1.3,
              label="mean over tokens")
    axes.set_title("Lag, in policy versions")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="best")


def _queues(axes: Any, records: list[dict[str, Any]]) -> None:
    steps = [record["step"] for record in records]
    names = ("prompts", "rollouts", "scored")
    axes.stackplot(steps, [[record["queues"][name] for record in records] for name in names],
                   labels=["to be sampled", "to be scored", "to be trained"], colors=COLOURS[:3], alpha=0.75)
    axes.set_title("Groups in each stream, at the end of a step")
    axes.legend(frameon=False, loc="best")


def _time(axes: Any, records: list[dict[str, Any]]) -> None:
    steps = [record["step"] for record in records]
    axes.stackplot(steps, [[record.get(f"seconds_{part}", 0.0) for record in records] for part in PARTS],
                   labels=["waiting for groups", "training", "publishing weights", "journal", "other"], colors=COLOURS,
                   alpha=0.75)
    axes.set_title("Where the learner's time went, seconds a step")
    axes.legend(frameon=False, loc="best")
