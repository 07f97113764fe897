r"""Answers to questions about tables, each with its row and what it deserves.

A row of HONEST and WRONG is a type, the row's answer, and the content of a box; of ATTACKS a type, the answer, a whole
text, and what it tries. MEASURED has whole texts, what Reasoning360's scorer was measured to give for them, what they
get here, and why where the two differ. The references are of the kinds that the three sets have: cells, shares, sums
and quotients of HiTab, results of MultiHiertt's programs, FinQA's answers divided by a hundred where they end in %.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, NamedTuple

from tests.support.text_tables import paired_by_kind

SHARE: dict[str, Any] = {"value": "54.8", "percent": True}
QUOTIENT: dict[str, Any] = {"value": "0.642754", "percent": True}
GROWTH: dict[str, Any] = {"value": 0.141, "percent": True}
TWO: dict[str, Any] = {"value": "79.0|73.0", "ordered": True}
CITIES: dict[str, Any] = {"value": "st. john's|regina|vancouver"}

_NAMED = {"SHARE": SHARE, "QUOTIENT": QUOTIENT, "GROWTH": GROWTH, "TWO": TWO, "CITIES": CITIES}


def _rows(table: str) -> list[tuple[str, dict[str, Any], str]]:
    """Return rows whose answer is a name, a text, or of FinQA what JSON reads."""
    return [
        (row_type, _NAMED.get(reference) or {"value": _value(row_type, reference)}, box)
        for row_type, pairs in paired_by_kind(table).items()
        for reference, box in pairs
    ]


def _value(row_type: str, reference: str) -> Any:
    with suppress(ValueError):
        return json.loads(reference if row_type == "finqa" else "")
    return reference


REFERENCES: list[tuple[str, dict[str, Any]]] = [
    *(("hitab", SHARE), ("hitab", QUOTIENT), ("hitab", TWO), ("hitab", CITIES)),
    ("hitab", {"value": "12.5|9.1"}),
    ("hitab", {"value": "0 to 6 months|6 to 12 months"}),
    *(("hitab", {"value": "0"}), ("hitab", {"value": "none"}), ("hitab", {"value": "$0 to $39,999"})),
    *(("hitab", {"value": "4:11.64"}), ("hitab", {"value": "2013/14"}), ("hitab", {"value": "15144253.0"})),
    ("hitab", {"value": "1.091 (0.340"}),
    ("hitab", {"value": "less than 50%"}),
    *(("hitab", {"value": ["12.5", 9.1]}), ("hitab", {"value": 79}), ("hitab", {"value": "pass"})),
    ("multihier", {"value": "3.68932"}),
    ("multihier", {"value": "-0.05"}),
    ("multihier", {"value": "1e-05"}),
    ("multihier", {"value": 12}),
    *(("multihier", {"value": "1234.5", "percent": False}), ("finqa", GROWTH), ("finqa", {"value": 380.0})),
    *(("finqa", {"value": "-3.5"}), ("finqa", {"value": 0}), ("finqa", {"value": 57.4 / 100})),
    ("finqa", {"value": "14.1%"}),
]

HONEST = [
    *_rows(r"""
# hitab
42.5 <== 42.5 ¦ 42.51 ;; 79.0 <== 79 ;; 1426352.0 <== 1,426,352 ¦ 1{,}426{,}352 ¦ 1\,426\,352 ;; a_b <== a\_b
13843 <== \$13,843 ¦ $13,843$ ;; 5.9 <== 5.9 \text{ years} ;; -5.8 <== \u22125.8 ;; 2013-14 <== 2013\u201314
quebec <== \text{Qu\u00e9bec} ;; co\u2082 emissions <== \text{CO2 emissions} ;; st. john's <== St. John\u2019s
male <== Male. ¦ "Male." ¦ **male** ;; "other" total <== \u201cother\u201d total ;; 2:01.35 nr <== 2:01.35 NR
k league 2 <== \textbf{K League 2} ;; $0 to $39,999 <== \$0 \text{ to } \$39,999 ;; at&t <== \text{AT\&T}
45 to 54 <== 45 to 54 ¦ 45 \text{to} 54 ;; less than 50% <== \text{less than } 50\% ;; 38.08%hw <== 38.08\%hw
SHARE <== 54.8\% ¦ 54.8 ¦ 0.548 ¦ 54.8 percent ;; QUOTIENT <== 64.3\% ¦ 64.28 ¦ 0.6428 ¦ 64.3 \text{ per cent}
TWO <== 79|73 ¦ 79.0 | 73.0 ¦ 79 \mid 73 ¦ 79\|73 ;; 79.0|73.0 <== 73|79 ;; a|b <== b|a ;; 5|5 <== 5|5
CITIES <== \text{Vancouver}|\text{St. John's}|\text{Regina} ¦ \text{Vancouver | Regina | St. John's}
2.1875 <== 2.19
# finqa
1234567.0 <== 1,234,566.8 ;; 0.14 <== 13.96\% ;; 0.141 <== 0.14136000 ¦ 14.1\% ¦ 0.141 ¦ 14.136\% ¦ 0.14136
yes <== yes ¦ \text{Yes}. ;; No <== no ;; ["no"] <== NO ;; GROWTH <== 14.1 ;; 0.02 <== 1.99\% ;; 0.5 <== .5
0.574 <== 57.4\% ;; 14.1% <== 14.1 ;; 380.0 <== 380 ¦ \$ 380 ;; 1.35 <== 135\% ;; -3.5 <== -\$3.5 ¦ -3.50
5363.0 <== 5,363 ;; 0.93 <== 93\% ;; -0.036 <== \text{-3.6\%}
# multihier
3.68932 <== 3.689 ¦ 3.69 ;; -0.05 <== -5\% ;; 0.75 <== \frac{3}{4} ¦ \dfrac{3}{4} ¦ 3/4 ¦ \approx 0.75
-0.5 <== -\frac{1}{2} ;; 1e-05 <== 0.00001 ;; 1234.5 <== 1234.55 ;; 56.0 <== \text{56} ;; 2500.0 <== 2.5e3
0.21053 <== 21.05\% ¦ 0.2105 ;; 1812.0 <== 1,812 ¦ \$1{,}812 ;; -233.5 <== \u2212233.5
0.33333 <== \frac{1}{3} ;; 15.46392 <== 15.46 \text{ years}
"""),
    ("hitab", {"value": "0.387578", "percent": True}, "38.8\\%"),
    ("multihier", {"value": "0.145", "percent": True}, "14.5"),
]

WRONG = [
    *_rows(r"""
# hitab
42.5 <== 42.6 ¦ 4.25 ¦ -42.5 ;; 2019 <== 2020 ¦ 2018 ¦ 2019.5 ¦ 2018.5 ;; 122 <== 12² ;; regina <== "
709700 <== 709701 ;; 54.8 <== 54.8\% ;; 50 <== 50\% ¦ 0.5 ;; 0.642754 <== 64.2754 ;; SHARE <== 5.48 ¦ 55
5 <== 5 million ¦ 5\text{ thousand} ¦ 5k ¦ 5\text{ or }6 ¦ 5, 6 ¦ x = 5 + 0 ;; 2 <== 2nd ;; 2nd <== 2
56 <== 5 6 ;; female <== male ;; male <== female ¦ mal ¦ the male group ;; 45 to 54 <== 45 ;; a <== a|a ¦ a|
a|b <== a ¦ a|b|c ¦ a|a ¦ a, b ¦ a|b| ;; TWO <== 73|79 ¦ 79|73|79 ¦ 79 ;; 5|6 <== 5|5 ;; 5|5 <== 5
1.496599 <== 1.5 ;; 12 <== 12.04 ;; 3.004 <== 3
1111111111111111111111111111111111111111 <== 1111111111111111111111111111111111111112
# finqa
2019 <== 4037/2 ;; 1234567.0 <== 1234000.5 ;; 0.14 <== 13.9\% ;; yes <== no ¦ 1 ;; no <== not yes ¦ yes or no
0.141 <== 14.1 ¦ 0.15 ¦ 14\% ;; 0.02 <== 2.4\% ;; 380.0 <== 381 ¦ 38000 ¦ 380\% ;; -3.5 <== 3.5
0 <== 0.0001 ;; 3.5 <== three and a half ¦ 3.5 billion ;; 0.93 <== 93 ¦ -93\% ¦ 0.093 ;; -0.036 <== 3.6\%
2.88 <== 2.98 ¦ 288
# multihier
0.12 <== 12 ;; 12 <== 0.12 ¦ twelve ;; 3.5 <== 3.6 ;; 0.21053 <== 21.05 ¦ -0.21053 ¦ 0.22 ;; 15.46392 <== 15.6
1812.0 <== 1813 ¦ 1,821 ¦ 1812 \text{ million} ;; -233.5 <== 233.5 ¦ -233.9 ;; 0.33333 <== 3 ;; 0.75 <== 4/3
1234.5 <== 1234.8 ;; 5.5 <== 1\frac{1}{2} ;; 2 <== 2 pi ;; -0.05 <== 5\% ;; 5 <== \frac{5}{0}
"""),
    ("hitab", {"value": "0.387578", "percent": True}, "38.9\\%"),
    ("hitab", {"value": "0.387578", "percent": True}, "38.80\\%"),
]

ATTACKS: list[tuple[str, dict[str, Any], str, str]] = [
    ("finqa", {"value": 3.5}, "\\boxed{ground_truth}", "names the scorer's own variable"),
    ("hitab", {"value": "3.5|9.25"}, "\\boxed{ground_truth|ground_truth}", "the same, several times"),
    ("finqa", {"value": 0}, "\\boxed{__import__('os').system('touch f')}", "runs a command that returns 0"),
    ("finqa", {"value": 1.0}, "\\boxed{exec(\"open('f','w')\")}", "writes a file"),
    ("multihier", {"value": "1.0"}, "\\boxed{True}", "is equal to one in Python"),
    ("multihier", {"value": "12"}, "\\boxed{0.12|12|1200}", "offers an answer at three scales"),
    ("multihier", {"value": "12"}, "\\boxed{12\\%|}", "hides a percent sign behind an empty value"),
    ("finqa", {"value": 3.5}, "\\boxed{9**9**9**9}", "never ends where it is evaluated"),
    ("finqa", {"value": 3.5}, "\\boxed{1e999999999}", "is infinite as a float"),
    ("finqa", {"value": 3.5}, "\\boxed{nan}", "is no number"),
    ("finqa", {"value": 3.5}, "\\boxed{inf}", "nor this"),
    ("hitab", {"value": "a|b"}, "\\boxed{a}, \\boxed{b}", "answers box by box"),
    (
        "hitab",
        {"value": "5"},
        "\\boxed{4} \\boxed{5} \\boxed{6}",
        "guesses, with the right one in the middle",
    ),
    ("hitab", {"value": "5"}, "\\boxed{1|2|3|4|5|6|7|8|9}", "guesses in one box"),
    ("hitab", {"value": "5"}, "\\boxed{1, 2, 3, 4, 5}", "guesses in one box, with commas"),
    ("hitab", {"value": "male"}, "\\boxed{male or female}", "offers both"),
    ("hitab", {"value": "male"}, "male female \\boxed{male", "never closes the box"),
    ("hitab", {"value": "male"}, "<think>\\boxed{male}", "answers before it has thought"),
    (
        "hitab",
        {"value": "male"},
        "<think>\\boxed{male}</think> I am not sure.",
        "answers in its thoughts alone",
    ),
    ("hitab", {"value": "male"}, "\\boxed{male} \\boxed{}", "empties the last box"),
    ("hitab", {"value": "5"}, "\\boxed{5" + " " * 3000 + "}", "is longer than any answer"),
    ("hitab", {"value": "5"}, "\\boxed{" + "5|" * 500 + "5}", "gives an answer a thousand times"),
    ("hitab", {"value": "5"}, "\\boxed{5}" + "x" * 1_000_001, "is longer than any response"),
    ("hitab", {"value": "5"}, "\\boxed{" + "\\text" * 390 + "{5}}", "is made of commands"),
    ("hitab", {"value": "5"}, "\\boxed{" + "{" * 900 + "5}", "opens more than it closes"),
    ("hitab", SHARE, "\\boxed{0.548|54.8|54.8\\%}", "gives every form of one answer"),
    ("multihier", {"value": "3.68932"}, "\\boxed{3.6 or 3.68932}", "offers two numbers"),
    ("multihier", {"value": "3.68932"}, "\\boxed{[3.6, 3.68932]}", "answers with a list"),
    ("multihier", {"value": "3.68932"}, "\\boxed{eval('3.68932')}", "is evaluated"),
    ("multihier", {"value": "3.68932"}, "\\boxed{3.68932} or \\boxed{4}", "takes its answer back"),
    ("multihier", {"value": "3.68932"}, "<think>\\boxed{3.68932}", "answers before it has thought"),
    ("multihier", {"value": "0"}, "\\boxed{1e-99999999}", "is nothing as a float"),
    ("multihier", {"value": "-0.05"}, "\\boxed{\\pm 0.05}", "has both signs"),
    ("finqa", {"value": 3.5}, "\\boxed{3.5|3.5}", "answers twice"),
    ("finqa", {"value": 3.5}, "\\boxed{float('3.5')}", "is evaluated"),
    ("finqa", {"value": 3.5}, "\\boxed{3.5 or -3.5}", "offers both signs"),
]

# Two ways to give one reference.
TWINS = [{"12.5|9.1", "['12.5', 9.1]"}, {"0.141", "14.1%"}]


class Measured(NamedTuple):
    row_type: str
    answer: dict[str, Any]
    text: str
    old: float
    ours: float
    remark: str = ""


NO_HUNDRED = "a hundredth only where the question asks for a percentage"
MEASURED = [
    Measured("multihier", {"value": "42.5"}, "\\boxed{42.51}", 1, 1),
    Measured("multihier", {"value": "0.12"}, "\\boxed{12}", 1, 0, NO_HUNDRED),
    Measured("hitab", {"value": "a|b"}, "\\boxed{b|a}", 1, 1),
    Measured("hitab", {"value": "a|b"}, "\\boxed{a}, \\boxed{b}", 0, 0),
    Measured("hitab", {"value": "paris"}, "\\boxed{\\text{Paris}}", 0, 1, "\\text{} is no part of an answer"),
    Measured("finqa", {"value": 3.5}, "\\boxed{ground_truth}", 1, 0, "nothing is evaluated"),
    Measured(
        "hitab", {"value": "3.5|9.25"}, "\\boxed{ground_truth|ground_truth}", 1, 0, "nothing is evaluated"
    ),
    Measured(
        "finqa", {"value": 0}, "\\boxed{__import__('os').system('touch f')}", 1, 0, "nothing is evaluated"
    ),
]

BROKEN: list[tuple[str, Any, str]] = [
    ("hitab", {"value": None}, "needs an answer with a value"),
    ("hitab", {}, "needs an answer with a value"),
    ("hitab", None, "needs an answer with a value"),
    ("hitab", "5", "needs an answer with a value"),
    ("hitab", {"value": ""}, "can't be ''"),
    ("hitab", {"value": "a||b"}, "can't be ''"),
    ("hitab", {"value": []}, "needs a value"),
    ("hitab", {"value": {"a": 1}}, "is text or a number"),
    ("hitab", {"value": True}, "is text or a number"),
    ("hitab", {"value": ["a", None]}, "is text or a number"),
    ("hitab", {"value": "5", "percent": "yes"}, "answer.percent must be true or false"),
    ("hitab", {"value": "5", "ordered": 1}, "answer.ordered must be true or false"),
    ("multihier", {"value": ["1", "2"]}, "needs a value"),
    ("multihier", {"value": " "}, "can't be ' '"),
    ("finqa", {"value": "maybe"}, "needs a number, yes or no"),
    ("finqa", {"value": "yes and no"}, "needs a number, yes or no"),
    ("finqa", {"value": True}, "text or a number"),
    ("finqa", {"value": ["yes", "no"]}, "needs a value"),
    ("finqa", {"value": float("nan")}, "can't be nan"),
    ("finqa", {"value": float("inf")}, "can't be inf"),
    ("finqa", {"value": "nan"}, "can't be 'nan'"),
]
