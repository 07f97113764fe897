"""The object of a step of a run that never was, with all that the console line and the picture want."""

from __future__ import annotations

from typing import Any


def made_up_step(step: int) -> dict[str, Any]:
    """Return the object of one of eighty steps."""
    progress = step / 80
    return {
        "step": step,
        "reward_mean": 0.2 + 0.7 * progress + 0.05 * (-1) ** step,
        "lag_mean": 1 + progress,
        "lag_max": min(4, step),
        "dropped": step % 4,
        "groups": 16,
        "tokens": 1400,
        "seconds": 1.5,
        "late_wait_seconds": 0.0,
        "truncated_share": 0.0,
        "queues": {"prompts": 20 + step % 7, "rollouts": 5 + step % 3, "scored": 12 + step % 5, "dead": 0},
        "seconds_wait": 0.3 + 0.1 * (step % 5),
        "seconds_train": 1.0,
        "seconds_publish": 0.05,
        "seconds_journal": 0.02,
        "seconds_other": 0.1,
    }
