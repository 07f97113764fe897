r"""Mathematical equality of a completion's answer with the row's reference: the only home of math_verify.

In: the text of a completion and `{"type": "math", "answer": {"value": "72"}}`. Out: 1.0 or 0.0 with a reason. The
answer is taken out of the text here (`scorers.extract`); what math_verify and sympy then do with it happens in a child
process only (`scorers.child`), since an expression such as `9^{9^{9}}` hangs them. math_verify's own timeouts are off:
they use SIGALRM, which belongs to RQ, and turn a hang into a plain "not equal".

An answer gets half of the deadline in the long-lived child and, if that was not enough, the other half alone in a fresh
one; then it is wrong, with that reason. A reference that does not parse, or does not equal itself, is unscorable. A
child that is killed from outside raises `Retryable`.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Final

import sympy.core.random
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

from broker.errors import BadMessage
from broker.messages import Score, ScoreStatus
from config.scorers import MathConfig
from scorers.child import Child, LimitExceeded, Reply, Request
from scorers.extract import last_box, response_part
from scorers.scorer import SelfTestFailed

RULES: Final = 1                        # raise it with any change here or in scorers.extract that can change a score
VERSION: Final = f"{RULES} " + " ".join(
    f"{library}={metadata.version(library)}" for library in ("math-verify", "latex2sympy2_extended", "sympy"))
MAX_CHARS: Final = 10_000               # of an answer: math_verify's regular expressions are slow on long texts
ROW_TYPES: Final = frozenset({"math", "math_verifiable"})
HANGING: Final = "9^{9^{9}}"            # an integer of 370 million digits, computed inside one C call
_SHOWN_CHARS: Final = 80                # of an answer or a reference in a reason

# Inside a box: the content as LaTeX, whole or not at all, so that no number is scraped out of prose.
_BOXED: Final = (LatexExtractionConfig(boxed_match_priority=0, try_extract_without_anchor=False),)
_FREE: Final = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
_FULL_STOP: Final = re.compile(r"(?<=[\w})\]$%])(?<!\\right)\s*\.$")

logging.getLogger("math_verify").setLevel(logging.ERROR)      # it warns that its timeouts are off; they are, on purpose


class _NoAnswer(Exception):
    """The completion gives nothing to compare; the message is the reason of its zero."""


class MathAnswer:
    """Scorer of answers with one mathematical value. Holds one child process."""

    name = "math"
    version = VERSION

    def __init__(self, config: MathConfig) -> None:
        """Nothing is started here: the child is forked by the first comparison."""
        self._config = config
        self._child = Child(judge)
        self._checked: tuple[str, str | None] | None = None     # the last reference, and what is wrong with it
        judge({"reference": "1", "answer": None})       # ours, so harmless: children inherit the warm parser

    @property
    def child_pid(self) -> int | None:
        """Process id of the scoring child; None before the first comparison and after a kill."""
        return self._child.pid

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage where the row has no usable `answer.value`."""
        reference_of(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """1.0 where the answer equals the reference; see the module for what becomes of everything else.

        Raises:
            Retryable: the child was killed from outside.
            BadMessage: the row has no answer.
        """
        return self.score_text(text, reference_of(verification_info))

    def score_text(self, text: str, reference: str) -> Score:
        """The same from a completion's text and the reference's value."""
        started = time.monotonic()
        value, reason = self._verdict(text, tidy(reference))
        return Score(status=ScoreStatus.UNSCORABLE if value is None else ScoreStatus.SCORED, value=value, reason=reason,
                     scorer=self.name, version=self.version, seconds=time.monotonic() - started)

    def self_test(self) -> None:
        """Raises SelfTestFailed unless right is 1, wrong is 0, and a hang is 0 for its deadline of a second."""
        hanging = MathAnswer(self._config.model_copy(update={"deadline_s": 1.0}))
        try:
            for scorer, answer, expected, because in (
                (self, "0.75", 1.0, "equals"),
                (self, "\\frac{4}{3}", 0.0, "expected"),
                (hanging, HANGING, 0.0, "deadline"),
            ):
                score = scorer.score_text(f"\\boxed{{{answer}}}", "\\frac{3}{4}")
                if score.value != expected or because not in score.reason:
                    raise SelfTestFailed(f"the math scorer's self-test failed: {answer} against 3/4 gave {score.value} "
                                         f"({score.reason}), expected {expected}; versions: {self.version}")
        finally:
            hanging.close()

    def close(self) -> None:
        """End the child."""
        self._child.close()

    def _verdict(self, text: str, reference: str) -> tuple[float | None, str]:
        """Value, None where unscorable, and reason. The reference first: against a broken one no answer is wrong."""
        if (problem := self._reference_problem(reference)) is not None:
            return None, problem
        try:
            answer, is_boxed = self._answer(text)
        except _NoAnswer as error:
            return 0.0, str(error)
        reply = self._ask({"reference": reference, "answer": answer, "boxed": is_boxed})
        if isinstance(reply, LimitExceeded):
            return 0.0, f"answer {_shown(answer)} exceeded its {reply}, and again alone in a fresh child"
        if reply["equal"]:
            return 1.0, f"answer {_shown(answer)} equals {_shown(reference)}"
        return 0.0, f"answer {_shown(answer)}, expected {_shown(reference)}"

    def _answer(self, text: str) -> tuple[str, bool]:
        """The text to compare, and whether it stood in a box. Raises _NoAnswer."""
        response = response_part(text)
        if response is None:
            raise _NoAnswer("no answer: the thinking was never closed")
        box = last_box(response)
        if box is None and self._config.require_box:
            raise _NoAnswer("no answer: no closed \\boxed{} after the thinking")
        answer = tidy(response[-MAX_CHARS:] if box is None else box)
        if not answer:
            raise _NoAnswer("no answer: nothing in the text" if box is None else "no answer: the box is empty")
        if len(answer) > MAX_CHARS:
            raise _NoAnswer(f"an answer of {len(answer)} characters; {MAX_CHARS} is the limit")
        return answer, box is not None

    def _reference_problem(self, reference: str) -> str | None:
        """Why no answer could ever equal this reference; None where one could. Asked of the child once a group."""
        if self._checked is None or self._checked[0] != reference:
            self._checked = (reference, self._examine(reference))
        return self._checked[1]

    def _examine(self, reference: str) -> str | None:
        if len(reference) > MAX_CHARS:
            return f"the reference has {len(reference)} characters; {MAX_CHARS} is the limit"
        reply = self._ask({"reference": reference, "answer": None})
        if isinstance(reply, LimitExceeded):
            return f"the reference {_shown(reference)} itself exceeded the {reply}"
        if not reply["parsed"]:
            return f"the reference {_shown(reference)} can't be parsed as mathematics"
        return None if reply["equal"] else f"the reference {_shown(reference)} does not equal itself"

    def _ask(self, request: Request) -> Reply | LimitExceeded:
        """The child's reply, or the limit that the request exceeded twice: the second time alone, in a fresh child."""
        for _ in range(2):
            try:
                return self._child.ask(request, timeout_s=self._config.deadline_s / 2)
            except LimitExceeded as error:
                exceeded = error
        return exceeded


def reference_of(verification_info: Mapping[str, Any]) -> str:
    """The reference's value as text. Raises BadMessage that names what the row lacks."""
    row_type = verification_info.get("type")
    if row_type not in ROW_TYPES:
        raise BadMessage(f"the math scorer needs verification_info of type 'math', got {row_type!r}")
    answer = verification_info.get("answer")
    value = answer.get("value") if isinstance(answer, Mapping) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise BadMessage("a row without an answer: the math scorer needs verification_info "
                         f'{{"type": "math", "answer": {{"value": "72"}}}}, got the answer {_shown(repr(answer))}')
    return value


def tidy(answer: str) -> str:
    r"""The text without the space around it and the full stop of its sentence (`72.`, and not that of `\right.`)."""
    return _FULL_STOP.sub("", answer.strip())


def judge(request: Request) -> Reply:
    """Compare an answer with a reference. Runs in the child, since it may hang or die.

    Args:
        request: `reference`, text; `answer`, text, or None to examine the reference alone; `boxed`, whether the answer
            is the content of a box or a text to find something in.
    Returns: `equal`, whether the answer, or the reference itself, equals the reference; of a reference alone also
        `parsed`, whether it is mathematics.
    """
    sympy.core.random.seed(0)       # sympy tries random points: the same text must get the same verdict everywhere
    gold = _expressions(request["reference"], is_boxed=True)
    if request["answer"] is not None:
        target = _expressions(request["answer"], is_boxed=request["boxed"])
        return {"equal": bool(verify(gold=gold, target=target, timeout_seconds=None))}
    itself = _expressions(request["reference"], is_boxed=True)
    # Equal to itself is seen by the text. Against a number it has to be evaluated: one that hangs then is found out
    # here, before an honest answer is blamed for it.
    verify(gold=gold, target=_expressions("1", is_boxed=True), timeout_seconds=None)
    return {"equal": bool(verify(gold=gold, target=itself, timeout_seconds=None)),
            "parsed": any(not isinstance(expression, str) for expression in gold)}


def _expressions(text: str, *, is_boxed: bool) -> list[Any]:
    """What math_verify makes of it: sympy expressions, and the normalised text itself."""
    expressions: list[Any] = parse(f"\\boxed{{{text}}}" if is_boxed else text,
                                   extraction_config=_BOXED if is_boxed else _FREE, parsing_timeout=None)
    return expressions


def _shown(text: str) -> str:
    """One line of it, for people."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}..."
