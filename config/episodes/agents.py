"""This section says how episodes of several turns are played."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from config.section import Section


class AgentsConfig(Section):
    """The pool of agents. `python -m agents` is one worker of it; a run without an environment needs none."""

    count: int = Field(1, ge=1)
    """Workers that `millrace up` starts where a task has an environment."""
    episodes: int = Field(64, ge=1)
    """Episodes that one worker plays at once; at least one group's."""
    episodes_per_child: int = Field(1, ge=1)
    """Episodes that one child process holds. More than one only for environments that never block: a child that is
    ended for one of them takes the others with it, which are then played again from their records."""
    max_attempts: int = Field(3, ge=1)
    """Attempts at a group until an episode that nobody could play to its end is unscorable. A worker's death uses one
    up only where nothing was recorded since the attempt before."""
    on_repeated_crash: Literal["score", "unscorable"] = "score"
    """What an episode is worth in which the same step of the environment crashed in every attempt: scored as it stands,
    since the policy brought it about, or nothing."""
