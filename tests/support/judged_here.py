"""The math scorer without its child: for texts that are known to end, on a machine that may have other work.

In: answers and references of ours. Out: the verdicts of a worker's child, which run the same `judge`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scorers.child.process import Reply, Request
from scorers.math.equality import judge, warm_up
from scorers.math.scorer import MathAnswer
from scorers.scorer import OwnTime

Pair = tuple[str, str]
"""A reference and the content of a box."""


class JudgedHere(MathAnswer):
    """Judges in this process, without a deadline."""

    def _ask(self, request: Request, own_time: OwnTime | None = None) -> Reply:
        del own_time
        warm_up()
        return judge(request)


def misjudged(
    scorer: MathAnswer, pairs: Iterable[Pair], value: float, row_type: str = "math"
) -> Mapping[Pair, str]:
    """Return the pairs that do not get the value, each with the reason."""
    found = {}
    for reference, answer in pairs:
        score = scorer.score_text(f"So it is $\\boxed{{{answer}}}$.", reference, row_type)
        if score.value != value:
            found[reference, answer] = f"{score.value}: {score.reason}"
    return found
