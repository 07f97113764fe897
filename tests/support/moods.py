"""A custom scorer that does what its row says: for tests of whoever passes its results on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from broker.errors import BadMessage, Permanent, Retryable
from broker.messages import Score
from scorers.custom import SimpleScorer


class Moods(SimpleScorer):
    """`answer.value` is a mood, or seconds to take."""

    name, version = "moods", "1"

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        if verification_info["answer"].get("value") == "bad row":
            raise BadMessage("a row without an answer")

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        match verification_info["answer"]["value"]:
            case "gone":
                raise Retryable("the sandbox at http://nowhere does not answer")
            case "refused":
                raise Permanent("the judge does not know this key")
            case "broken reference":
                return self.unscorable("the reference equals nothing")
            case seconds:
                time.sleep(float(seconds))
                return self.scored(float(text), "as it says")
