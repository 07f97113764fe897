r"""Scorer of questions about tables: HiTab, MultiHiertt, FinQA.

In: the text of a completion, and `{"type": "hitab", "answer": {"value": "12.5|9.1"}}`; the type says whose rows they
are. Out: 1.0 or 0.0 with a reason. The answer is the last box after the thinking, several answers in it parted by `|`,
and is read as numbers and words by `scorers.table.values`, never as a program.

A number equals another within 0.1% of it, two whole numbers only where they are the same (years, counts), so 2019 is
not 2020. A percentage is its hundredth; it is also what stands before its sign where the question asks for one, which
`answer.percent` says. Several answers may come in any order: a row's are in the order of its table, which a question
may not ask for. Where one does, `answer.ordered` says so, and they are compared one by one, as by HiTab's own metric.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from broker.errors import BadMessage
from config.scorer_kinds import TableConfig
from scorers.short_answer import Decision, SelfTest, ShortAnswer, flag, stated
from scorers.table.values import Value, read, same
from scorers.text.extract import last_box
from tasks.values import shown

RULES: Final = (
    4  # raise it with any change in scorers/table, short_answer, text.latex or text.extract that can show
)
_BETWEEN: Final = re.compile(r"\\?\||\\mid\b")
_YES_NO: Final = ("yes", "no")  # FinQA's comparisons end so
_MOST_APART: Final = Decimal("0.1")  # of two numbers, by MultiHiertt's own metric


@dataclass(frozen=True, slots=True)
class Cells:
    """The values that answer a question."""

    text: str
    values: tuple[Value, ...]
    percent: bool  # the question asks for a percentage
    ordered: bool  # the values belong in this order
    most_apart: Decimal | None  # of two numbers


class TableAnswer(ShortAnswer[Cells]):
    """Scorer of values out of tables."""

    name = "table"
    version = str(RULES)
    types = ("hitab", "multihier", "finqa")
    self_tests = (
        SelfTest("hitab", "12.5|9.1", "\\boxed{9.1|12.5}", 1.0),
        SelfTest("hitab", "12.5|9.1", "\\boxed{12.5}", 0.0),
        SelfTest("multihier", "Rome", "\\boxed{\\text{Rome}}", 1.0),
        SelfTest("multihier", "0.12", "\\boxed{12}", 0.0),
        SelfTest("finqa", 0.141, "\\boxed{14.1\\%}", 1.0),
        SelfTest("finqa", 0.141, "\\boxed{ground_truth}", 0.0),
        SelfTest("finqa", "yes", "\\boxed{\\text{Yes}}", 1.0),
        SelfTest("finqa", "yes", "\\boxed{no}", 0.0),
    )

    def __init__(self, config: TableConfig) -> None:
        """Build the scorer, which has no options yet."""
        del config

    def reference(self, answer: Mapping[str, Any], row_type: str) -> Cells:
        """Return the values of a row. Raises BadMessage where there are none, or one is empty."""
        value = answer["value"]
        several = value if isinstance(value, list) else [value]
        if row_type == "hitab" and isinstance(value, str):
            several = value.split("|")
        values = tuple(_reference(one) for one in several)
        if not values or (row_type != "hitab" and len(values) > 1):
            raise BadMessage(f"no answer: a row of type {row_type!r} needs a value; got {shown(value)}")
        if row_type == "finqa" and values[0].number is None and values[0].text not in _YES_NO:
            raise BadMessage(
                f"a row of type 'finqa' needs a number, yes or no for an answer; got {shown(value)}"
            )
        return Cells(
            "|".join(map(str, several)),
            values,
            flag(answer, "percent"),
            flag(answer, "ordered"),
            _MOST_APART if row_type == "multihier" else None,
        )

    def judge(self, response: str, reference: Cells) -> Decision:
        """Return whether the last box holds the reference's values, each once, and no other."""
        box = stated(last_box(response), "\\boxed{}")
        parts = [read(part) for part in _BETWEEN.split(box)]
        if len(parts) != len(reference.values):
            return Decision(
                0.0,
                f"answer {shown(box)}, expected {shown(reference.text)}: {len(parts)} value"
                f"{'s' if len(parts) > 1 else ''} for {len(reference.values)}",
            )
        is_same = _in_order(parts, reference) if reference.ordered else _in_any_order(parts, reference)
        return (
            Decision(1.0, f"answer {shown(box)} is {shown(reference.text)}")
            if is_same
            else Decision(0.0, f"answer {shown(box)}, expected {shown(reference.text)}")
        )


def _reference(value: Any) -> Value:
    """Return one value of a row."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadMessage(f"no answer: a value of a table is text or a number; got {shown(value)}")
    text = value if isinstance(value, str) else f"{Decimal(repr(round(value, 10))):f}"
    found = read(text, is_reference=True)
    if not found.text or found.text in {"nan", "infinity", "-infinity"}:
        raise BadMessage(f"no answer: a value of a table can't be {shown(value)}")
    return found


def _in_order(parts: list[Value], reference: Cells) -> bool:
    return all(_same(part, value, reference) for part, value in zip(parts, reference.values, strict=True))


def _in_any_order(parts: list[Value], reference: Cells) -> bool:
    """Match each value of the reference with the first part that equals it and that no other value has taken."""
    left = list(parts)
    for value in reference.values:
        found = next((number for number, part in enumerate(left) if _same(part, value, reference)), None)
        if found is None:
            return False
        del left[found]
    return True


def _same(part: Value, value: Value, reference: Cells) -> bool:
    return same(part, value, percent=reference.percent, most=reference.most_apart)
