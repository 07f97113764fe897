"""`python -m scorers.gold`: the process that examines the rows which the learner is about to train on.

In: on standard input one line with the section `scorers`, then a line of JSON for each row. Out: on standard output a
line of JSON for each row, in their order, as they come. Started by `learner.data.gold`, for roles don't import each
other; it ends with its input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from config.scorers import ScorersConfig
from scorers.gold.examiner import Candidate, examine


def main() -> int:
    """Examine each row of standard input."""
    config = ScorersConfig.model_validate_json(sys.stdin.buffer.readline())

    def rows() -> Iterator[Candidate]:
        for line in sys.stdin.buffer:
            yield Candidate(**json.loads(line))

    for found in examine(config, rows()):
        sys.stdout.write(json.dumps([found.verdict, found.reason]) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
