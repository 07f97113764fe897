"""The learner's policy version: optimizer steps done, and how many of them the generators were told of.

`learner.trainer` alone changes it. Intake compares groups with it, and the feeder issues by it from its own thread.
"""

from __future__ import annotations


class PolicyVersion:
    """Counts versions.

    Args:
        trained: optimizer steps done.
    Attributes:
        trained: the version of the weights that the learner holds.
        announced: the newest version that was announced; behind `trained` between a step and its announcement.
    """

    def __init__(self, trained: int = 0) -> None:
        self.trained = trained
        self.announced = trained
