"""LiveBench's questions of reasoning, data analysis and language, by the rule of each task.

In: the text of a completion and `{"type": "livebench", "answer": {"value": "yes, no, yes", "task": "web_of_lies_v2"}}`,
with the `prompt` where a rule needs it. Out: a score in [0, 1]. Where an answer stands is `scorers.livebench.answer`'s
to say, what it is worth `scorers.livebench.rules`' and `scorers.livebench.data`'s. All of it is arithmetic on texts in
time linear in their length, so there is no child and no deadline; a reference that can't be read is unscorable.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from broker.errors import BadMessage
from broker.scores import Score
from config.scorer_kinds import LivebenchConfig
from scorers.custom import SimpleScorer
from scorers.livebench.data import format_asked, table_join, table_reformat
from scorers.livebench.rules import (
    MAX_SENTENCES,
    BrokenReference,
    LiveBenchQuestion,
    Rule,
    column_class,
    connections,
    house_traversal,
    plot_unscrambling,
    spatial,
    typos,
    web_of_lies,
    web_of_lies_v3,
    zebra_puzzle,
)
from scorers.scorer import SelfTestFailed
from scorers.text.extract import MAX_RESPONSE_CHARS, Unanswered, closed_part, within
from tasks.values import hint, listed, shown

RULE_SET: Final = (
    3  # raise it with any change in scorers/livebench or scorers.text.extract that moves a score
)
RULES: Final[Mapping[str, Rule]] = {
    "web_of_lies_v2": web_of_lies,
    "web_of_lies_v3": web_of_lies_v3,
    "house_traversal": house_traversal,
    "spatial": spatial,
    "zebra_puzzle": zebra_puzzle,
    "cta": column_class,
    "tablereformat": table_reformat,
    "tablejoin": table_join,
    "connections": connections,
    "plot_unscrambling": plot_unscrambling,
    "typos": typos,
}
_LISTS: Final = frozenset({"web_of_lies_v2", "web_of_lies_v3", "zebra_puzzle", "connections"})


class Livebench(SimpleScorer):
    """Scorer of LiveBench's questions. Holds nothing."""

    name = "livebench"
    version = str(RULE_SET)

    def __init__(self, config: LivebenchConfig) -> None:
        """Start nothing yet; `config` has no option but the queue."""
        self._config = config

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage that names what the row lacks, or its task where that has no rule."""
        _question(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Return what the task's rule says; 0 where there is no answer, or one that is too long.

        Raises:
            BadMessage: as `check_row`.
        """
        started = time.monotonic()
        task, question = _question(verification_info)
        return replace(self._judged(text, RULES[task], question), seconds=time.monotonic() - started)

    def self_test(self) -> None:
        """Raises SelfTestFailed unless right is 1, wrong is 0, and half right is half."""
        for answer, expected in (("**yes, no**", 1.0), ("**no, no**", 0.25), ("yes, no", 0.0)):
            info = {"type": "livebench", "answer": {"value": "yes, no", "task": "web_of_lies_v3"}}
            found = self.score(answer, info)
            if found.value != expected:
                raise SelfTestFailed(
                    f"the livebench scorer's self-test failed: {answer} gave {found.value} "
                    f"({found.reason}), expected {expected}"
                )

    def _judged(self, text: str, rule: Rule, question: LiveBenchQuestion) -> Score:
        try:
            return self.scored(*rule(closed_part(within(text, MAX_RESPONSE_CHARS, "a response")), question))
        except Unanswered as error:
            return self.scored(0.0, str(error))
        except BrokenReference as error:
            return self.unscorable(str(error))


def _question(verification_info: Mapping[str, Any]) -> tuple[str, LiveBenchQuestion]:
    """Return the task of a row and what its rule needs. Raises BadMessage that names what the row lacks."""
    answer = verification_info.get("answer")
    if verification_info.get("type") != "livebench" or not isinstance(answer, Mapping):
        raise BadMessage(
            'the livebench scorer needs verification_info {"type": "livebench", "answer": {"value": '
            f'"yes, no, yes", "task": "web_of_lies_v2"}}}}, got {shown(dict(verification_info))}'
        )
    task, value, prompt = answer.get("task"), answer.get("value"), answer.get("prompt")
    if not isinstance(task, str) or task not in RULES:
        near = hint(task, RULES) if isinstance(task, str) else ""
        raise BadMessage(f"no rule for LiveBench's task {shown(task)}{near}; known are {listed(RULES)}")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise BadMessage(f"a row without an answer: answer.value of LiveBench's {task} is {shown(value)}")
    if not all(any(map(str.isalnum, part)) for part in (value.split(",") if task in _LISTS else (value,))):
        raise BadMessage(
            f"answer.value of LiveBench's {task} has nothing in it, or an empty item: {shown(value)}"
        )
    if prompt is not None and not isinstance(prompt, str):
        raise BadMessage(f"answer.prompt of LiveBench's {task} must be text, got {shown(prompt)}")
    if task == "tablereformat" and format_asked(prompt or "") is None:
        raise BadMessage(
            "LiveBench's tablereformat needs answer.prompt, which names the format of the table; "
            f"got {shown(prompt)}"
        )
    if task == "plot_unscrambling" and value.count(".") > MAX_SENTENCES:
        raise BadMessage(f"a plot of {value.count('.')} sentences; {MAX_SENTENCES} is the limit")
    return task, LiveBenchQuestion(value, prompt)
