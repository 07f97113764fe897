r"""Mathematical equality of a completion's answer with the row's reference.

In: the text of a completion and `{"type": "math", "answer": {"value": "72"}}`. Out: 1.0 or 0.0 with a reason. The
answer is taken out of the text here, as the row's type asks for it (`scorers.math.variants`); what math_verify and
sympy then do with it happens in a child process only (`scorers.child.process`, `scorers.math.equality`), since an
expression such as `9^{9^{9}}` hangs them.

An answer gets half of the deadline in the long-lived child and, if that was not enough, the other half alone in a fresh
one; then it is wrong, with that reason. A reference that does not parse, or does not equal itself, is unscorable. A
child that is killed from outside raises `Retryable`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from typing import Any, Final

from broker.errors import BadMessage
from broker.scores import Score
from config.scorer_kinds import MathConfig
from scorers.child.process import KillableChild, LimitExceeded, Reply, Request
from scorers.math.figures import with_one_value
from scorers.math.notation import layout_key, plain, respelled
from scorers.math.symbols import left_to_do
from scorers.math.text import difference, is_integer, plain_number, same_numbers, tidy
from scorers.math.variants import MAX_CHARS, VARIANTS, StatedAnswer, Variant
from scorers.math.words import same_words
from scorers.scorer import OVER_LIMIT, OwnTime, SelfTestFailed, make_score
from scorers.text.extract import Unanswered, closed_part, within

RULES: Final = 9  # raise it with any change in scorers/math or scorers.text.extract that can change a score
LIBRARIES: Final = " ".join(
    f"{library}={metadata.version(library)}" for library in ("math-verify", "latex2sympy2_extended", "sympy")
)
VERSION: Final = f"{RULES} {LIBRARIES}"
HANGING: Final = "9^{9^{9}}"  # an integer of 370 million digits, computed inside one C call
HANG_S: Final = 0.4  # its deadline in the self-test, half of it twice
MEMORY_BYTES: Final = 192 << 20  # of the child, beyond what it inherits; honest answers need a tenth
_SHOWN_CHARS: Final = 80  # of an answer or a reference in a reason


class _OverLimit(Exception):
    """The answer used up its time or memory, twice; the message is the reason."""


class MathAnswer:
    """Scorer of answers with one mathematical value. Holds one child process."""

    name = "math"
    version = VERSION

    def __init__(self, config: MathConfig) -> None:
        """Start nothing yet: the first comparison forks the child."""
        self._config = config
        self.own_time = OwnTime(deadline_s=config.deadline_s)
        self._child = KillableChild(
            _judge, memory_bytes=MEMORY_BYTES, give_way_s=config.give_way_s, before_others=_warm_up
        )
        self._checked: tuple[tuple[str, str], str | None] | None = (
            None  # the last reference, what is wrong with it
        )

    @property
    def child_pid(self) -> int | None:
        """Process id of the scoring child; None before the first comparison and after a kill."""
        return self._child.pid

    def check_row(self, verification_info: Mapping[str, Any]) -> None:
        """Raises BadMessage where the row is of no known type or has no usable `answer.value`."""
        reference_of(verification_info)

    def score(self, text: str, verification_info: Mapping[str, Any]) -> Score:
        """Score 1.0 where the answer equals the reference; see the module for what becomes of everything else.

        Raises:
            Retryable: the child was killed from outside.
            BadMessage: the row has no answer.
        """
        return self.score_text(text, reference_of(verification_info), verification_info["type"])

    def score_text(self, text: str, reference: str, row_type: str = "math") -> Score:
        """Return the same from a completion's text, the reference's value and the row's type."""
        started = time.monotonic()
        components: dict[str, float] = {}
        value: float | None
        try:
            value, reason = self._verdict(
                text, reference if self._config.compatible else respelled(tidy(reference)), VARIANTS[row_type]
            )
        except _OverLimit as error:
            value, reason, components[OVER_LIMIT] = 0.0, str(error), 1.0
        return make_score(self, value, reason, started=started, components=components)

    def self_test(self) -> None:
        """Raises SelfTestFailed unless right is 1, wrong is 0, and a hang is 0 for its deadline.

        The hang alone has so little time: its reference is an integer, which needs no look at itself. No machine is too
        slow for it, since a child that is late is a child that hangs.
        """
        _warm_up()  # a process that has many rows before it: its first child is as quick as any other
        hanging = MathAnswer(self._config.model_copy(update={"deadline_s": HANG_S}))
        try:
            for scorer, answer, reference, expected, because in (
                (self, "0.75", "\\frac{3}{4}", 1.0, "equals"),
                (self, "\\frac{4\\pi}{3}", "\\frac{3\\pi}{4}", 0.0, "expected"),  # the child has to say so
                (hanging, HANGING, "5", 0.0, "deadline"),
            ):
                score = scorer.score_text(f"\\boxed{{{answer}}}", reference)
                if score.value != expected or because not in score.reason:
                    raise SelfTestFailed(
                        f"the math scorer's self-test failed: {answer} against {reference} gave {score.value} "
                        f"({score.reason}), expected {expected}; versions: {self.version}"
                    )
        finally:
            hanging.close()

    def close(self) -> None:
        """End the child."""
        self._child.close()

    def _verdict(self, text: str, reference: str, variant: Variant) -> tuple[float | None, str]:
        """Return value, None where unscorable, and reason. A broken reference comes first: no answer is wrong there."""
        try:
            answer = self._answer(text, variant)
        except Unanswered as error:
            problem = self._reference_problem(reference, variant)
            return (0.0, str(error)) if problem is None else (None, problem)
        is_equal = self._seen(answer, reference, variant)
        because = ""
        if is_equal is None:
            if (problem := self._reference_problem(reference, variant)) is not None:
                return None, problem
            is_equal, because = self._compare(answer, reference, variant)
        if is_equal:
            return 1.0, f"answer {_shown(answer.text)} equals {_shown(reference)}"
        return 0.0, because or f"answer {_shown(answer.text)}, expected {_shown(reference)}"

    def _answer(self, text: str, variant: Variant) -> StatedAnswer:
        """Return what the completion states. Raises Unanswered."""
        answer = variant.answer(closed_part(text), self._config)
        within(answer.text, MAX_CHARS)
        if answer.boxed and not self._config.compatible:
            answer = replace(answer, text=respelled(answer.text))
        if not answer.text:
            raise Unanswered(
                "no answer: the box is empty" if answer.boxed else "no answer: nothing in the text"
            )
        return answer

    def _seen(self, answer: StatedAnswer, reference: str, variant: Variant) -> bool | None:
        """Return what their texts alone say, before anything is parsed; None where they don't say it."""
        if (
            self._config.compatible
            or variant.rule != "math"
            or not answer.boxed
            or len(reference) > MAX_CHARS
        ):
            return None
        if (key := layout_key(reference)) and key == layout_key(answer.text):
            return True
        texts = plain(answer.text), plain(reference)
        is_same = same_numbers(*texts)
        return same_words(*texts) if is_same is None else is_same

    def _compare(self, answer: StatedAnswer, reference: str, variant: Variant) -> tuple[bool, str]:
        """Return whether they are equal, and why not where there is more to say than that they are not."""
        is_compatible = self._config.compatible
        if variant.same is not None:
            return variant.same(answer.text, reference, is_compatible), ""
        if variant.rule == "math" and answer.boxed:
            if is_compatible and answer.text == reference:  # which has been found to equal itself
                return True, ""
            if is_compatible and is_integer(answer.text) and is_integer(reference):
                return False, ""  # what the child would say, without the way to it and back
            texts = with_one_value(answer.text), with_one_value(reference)
            if not is_compatible and (because := difference(*texts, is_whole=False)) is not None:
                return False, f"answer {_shown(answer.text)}, expected {_shown(reference)}: {because}"
        is_plain = variant.rule == "math" and not is_compatible
        request: Request = {
            "reference": plain(reference) if is_plain else reference,
            "answer": plain(answer.text) if is_plain and answer.boxed else answer.text,
            "boxed": answer.boxed,
            "rule": variant.rule,
            "compatible": is_compatible,
        }
        is_equal = self._equal(request, answer)
        if not is_equal and is_plain and (left := left_to_do(request["answer"], request["reference"])):
            return (
                False,
                f"answer {_shown(answer.text)}, expected {_shown(reference)}: {left!r} is left to be done",
            )
        return is_equal, ""

    def _equal(self, request: Request, answer: StatedAnswer) -> bool:
        try:
            return bool(self._ask(request, self.own_time)["equal"])
        except LimitExceeded as limit:
            raise _OverLimit(
                f"answer {_shown(answer.text)} exceeded its {limit}, and again alone in a fresh child"
            ) from limit

    def _reference_problem(self, reference: str, variant: Variant) -> str | None:
        """Return why no answer could ever equal this reference; None where one could. The child says so once."""
        if len(reference) > MAX_CHARS:
            return f"the reference has {len(reference)} characters; {MAX_CHARS} is the limit"
        if variant.rule is None or is_integer(reference):
            return None
        if self._checked is None or self._checked[0] != (reference, variant.rule):
            self._checked = ((reference, variant.rule), self._examine(reference, variant))
        return self._checked[1]

    def _examine(self, reference: str, variant: Variant) -> str | None:
        try:
            is_compatible = self._config.compatible
            examined = reference if is_compatible or variant.rule != "math" else plain(reference)
            reply = self._ask({"reference": examined, "answer": None, "compatible": is_compatible})
        except LimitExceeded as limit:
            return f"the reference {_shown(reference)} itself exceeded the {limit}"
        if variant.rule == "prime":
            return None  # equal spellings are enough there
        if not reply["parsed"]:
            return f"the reference {_shown(reference)} can't be parsed as mathematics"
        return None if reply["equal"] else f"the reference {_shown(reference)} does not equal itself"

    def _ask(self, request: Request, own_time: OwnTime | None = None) -> Reply:
        """Return the child's reply. Raises LimitExceeded where a fresh child, asked after the first, did no better.

        Args:
            request: what the child is asked.
            own_time: the answer's, where the request is about one.
        """
        _load()  # before the deadline's clock runs; what texts alone decide does without
        if own_time is None:
            return self._child.ask_with_fresh_child_retry(request, self._config.deadline_s)
        return self._child.ask_with_fresh_child_retry(request, own_time.most_s, measured=own_time.measured)


def _load() -> None:
    import scorers.math.equality  # noqa: F401 - for the children, which are forked with it


def _judge(request: Request) -> Reply:
    from scorers.math.equality import judge

    return judge(request)


def _warm_up() -> None:
    from scorers.math.equality import warm_up

    warm_up()


def reference_of(verification_info: Mapping[str, Any]) -> str:
    """Return the reference's value as text. Raises BadMessage that names what the row lacks."""
    row_type = verification_info.get("type")
    if not isinstance(row_type, str) or row_type not in VARIANTS:
        raise BadMessage(
            f"the math scorer needs verification_info of type {', '.join(map(repr, VARIANTS))}, "
            f"got {row_type!r}"
        )
    answer = verification_info.get("answer")
    value = answer.get("value") if isinstance(answer, Mapping) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise BadMessage(
            f'a row without an answer: the math scorer needs verification_info {{"type": "{row_type}", '
            f'"answer": {{"value": "72"}}}}, got the answer {_shown(repr(answer))}'
        )
    if VARIANTS[row_type].needs_number and plain_number(value) is None:
        raise BadMessage(
            f"the math scorer needs verification_info of type {row_type!r} with a number for an answer, "
            f"got {_shown(repr(value))}"
        )
    return value


def _shown(text: str) -> str:
    """Return one line of the text, for people."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}..."
