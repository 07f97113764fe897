"""Count the optimizer steps done, and those announced to the generators: the learner's policy version.

Only `learner.trainer` changes it. Intake compares groups with it, and the feeder reads it from its own thread.
"""

from __future__ import annotations


class PolicyVersion:
    """The learner's version and the announced one.

    Args:
        trained: optimizer steps done.
    Attributes:
        trained: the version of the weights that the learner holds.
        announced: the newest announced version; behind `trained` between a step and its announcement.
        taken: steps that have their groups; ahead of `trained` during a step.
    """

    def __init__(self, trained: int = 0) -> None:
        self.trained = trained
        self.announced = trained
        self.taken = trained
