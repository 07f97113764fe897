"""Verifiable instructions: does a response keep to each of them?

In: the text of a completion and `{"type": "ifeval", "answer": {"instruction_id_list": [...], "kwargs": [...]}}` or
`{"type": "ifbench", "answer": {"value": ...}}`. Out: 1.0 where all of the row's instructions hold, else 0.0; with
`scorers.credit: fraction` the share that holds. Each instruction is a component. The checks are in
`scorers.instructions`: rules on text, in this process, in time linear in its length.

What does not answer holds to nothing: an empty response, a thought that never ended, the prompt again, or the words
that one passes with score 0 whatever the instructions are, also where they only forbid.
"""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final

from broker.errors import BadMessage
from broker.scores import Score
from config.scorer_kinds import InstructionsConfig
from config.scorers import ScorersConfig
from scorers.instructions.arguments import Check
from scorers.instructions.catalogue import checks_of
from scorers.instructions.texts import squeezed
from scorers.scorer import SelfTestFailed, make_score
from scorers.text.contentless import is_contentless
from scorers.text.extract import Unanswered, answering_part
from scorers.text.invisible import seen
from tasks.values import shown

RULES: Final = 3  # raise it with any change here or in scorers.instructions that can change a score
_MAX_LITERAL_CHARS: Final = 4_000_000  # of a row; prompts to repeat make some of them long
_SELF_TEST: Final[tuple[tuple[str, dict[str, Any], str, str], ...]] = (
    ("punctuation:no_comma", {}, "one and two", "one, and two"),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "a b c d", "a b"),
    (
        "language:response_language",
        {"language": "de"},
        "Das ist ein Satz in deutscher Sprache.",
        "This is a sentence in the English language.",
    ),
)


class InstructionFollowing:
    """Scorer of rows of IFEval and of IFBench's training set."""

    name = "instructions"

    def __init__(self, config: InstructionsConfig, scorers: ScorersConfig) -> None:
        """Read from `scorers.credit` whether a part of the instructions is worth a part of the score."""
        del config  # it has a queue, and that is the dispatcher's
        self._is_fraction = scorers.credit == "fraction"
        self.version = f"{RULES} langdetect {metadata.version('langdetect')}"

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage where the row has no instructions, an unknown one, or one that lacks an argument."""
        checks_of_row(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """See the module. Raises BadMessage as `check_row`."""
        started = time.monotonic()
        checks = checks_of_row(verification_info)
        prompt = None if any(map(_asks_for_a_copy, checks)) else verification_info["answer"].get("prompt")
        faults: dict[str, str | None]
        try:
            response = _response(text, prompt)
        except Unanswered as error:
            faults, reason = dict.fromkeys(checks, str(error)), f"no response: {error}"
        else:
            faults = {name: check(response) for name, check in checks.items()}
            reason = _reason(faults)
        held = {name: float(fault is None) for name, fault in faults.items()}
        share = sum(held.values()) / len(held)
        return make_score(
            self,
            share if self._is_fraction else float(share == 1.0),
            reason,
            started=started,
            components=held,
        )

    def self_test(self) -> None:
        """Score a right and a wrong answer to three instructions, one of which needs langdetect's profiles."""
        for name, kwargs, right, wrong in _SELF_TEST:
            row = {"answer": {"instruction_id_list": [name], "kwargs": [kwargs]}}
            for answer, value in ((right, 1.0), (wrong, 0.0), ("", 0.0)):
                try:
                    score = self.score(answer, row)
                except ImportError as error:
                    raise SelfTestFailed(
                        f"{self.name}: {error}; install this version's dependencies"
                    ) from error
                if score.value != value:
                    raise SelfTestFailed(
                        f"{self.name}: {answer!r} for {name} scored {score.value}, not {value}: "
                        f"{score.reason}"
                    )

    def close(self) -> None:
        """Close nothing: nothing is started here."""


def checks_of_row(verification_info: Mapping[str, Any]) -> dict[str, Check]:
    """Return the checks of a row by name. Raises BadMessage."""
    answer = verification_info.get("answer")
    if not isinstance(answer, Mapping):
        raise BadMessage(f"a row of instructions needs an object for answer, got {shown(answer)}")
    if "value" in answer:
        answer = _first_object(answer["value"])
    ids = answer.get("instruction_id_list", answer.get("instruction_id"))
    return checks_of(_listed("instruction_id_list", ids), _listed("kwargs", answer.get("kwargs")))


def _listed(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadMessage(f"a row of instructions needs a list for {name}, got {shown(value)}")
    return value


def _first_object(value: Any) -> Mapping[str, Any]:
    """IFBench's ground truth: a list of one object with `instruction_id` and `kwargs`, or its JSON or Python text."""
    value = _parsed(value)
    if isinstance(value, list):
        if len(value) != 1:
            raise BadMessage(f"a row of instructions needs a list of one object for value, got {len(value)}")
        value = _parsed(value[0])
    if not isinstance(value, Mapping):
        raise BadMessage(
            f"a row of instructions needs instruction_id and kwargs in its value, got {shown(value)}"
        )
    return value


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if len(value) > _MAX_LITERAL_CHARS:
        raise BadMessage(f"value has {len(value)} characters, more than {_MAX_LITERAL_CHARS}")
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(value)  # the row's text, never a model's; it evaluates nothing but literals
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise BadMessage(
            f"value is no JSON and no Python literal: {type(error).__name__}: {shown(value)}"
        ) from None


def _asks_for_a_copy(instruction: str) -> bool:
    return instruction.startswith(("copy:", "new:copy_"))


def _response(text: str, prompt: Any) -> str:
    """Return what a completion says. Raises Unanswered where that is nothing."""
    response = answering_part(text)
    if is_contentless(response):
        raise Unanswered("nothing is said in it")
    if isinstance(prompt, str) and prompt.strip() and squeezed(seen(response)) == squeezed(seen(prompt)):
        raise Unanswered("it is the prompt again")
    return response


def _reason(faults: Mapping[str, str | None]) -> str:
    wrong = [f"{name}: {fault}" for name, fault in faults.items() if fault is not None]
    held = len(faults) - len(wrong)
    return "; ".join([f"{held} of {len(faults)} instructions hold", *wrong])
