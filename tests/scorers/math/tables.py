r"""What the systems in use give for an answer, what our compatible mode gives, and what our default gives instead.

A row is text, reference, the old score, the strict score, and why they differ where they do. The old scores were
measured by running the systems: II-Thought's verifier (`math`), the graders of prime, Reasoning360 and TinyV
(`prime_math`), verl's `gsm8k` and Hendrycks' `is_equiv` (`hendrycks_math`).
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    text: str
    reference: str
    old: float
    strict: float
    remark: str = ""


NO_PERCENT = "a percentage only where the reference has one"
EXACT = "an integer equals nothing but itself"
NO_HUNDRED = "neither a hundredth nor a hundredfold"
ROUNDED = "a decimal has to agree in six places"
BASE = "a base is a part of the number"

MATH = [
    Row("The answer is \\boxed{152}", "152", 1, 1),
    Row("\\boxed{7 + 8}", "15", 1, 1),
    Row("\\boxed{0.5}", "\\frac{1}{2}", 1, 1),
    Row("\\boxed{0.333333}", "\\frac13", 1, 1),
    Row("\\boxed{0.33}", "\\frac13", 0, 0),
    Row("\\boxed{50\\%}", "0.5", 1, 0, NO_PERCENT),
    Row("\\boxed{50\\%}", "50", 1, 0, NO_PERCENT),
    Row("\\boxed{1} then \\boxed{2}", "1", 0, 0),
    Row("\\boxed{15} and so \\boxed{1", "15", 0, 0),
    Row("The answer is 152", "152", 0, 0),
    Row("\\boxed{(1,2)}", "1<x<2", 0, 1, "math_verify asks for the reference first"),
    Row("\\boxed{1<x<2}", "(1,2)", 1, 1),
    Row(
        "\\boxed{None}", "None", 1, 1, "a JSON null, which was read as this word, is refused as no reference"
    ),
]

PRIME = [
    *(Row("The answer is 42", "42", 1, 1), Row("we get x = 42", "42", 1, 1), Row("42", "42", 1, 1)),
    Row("I think 41. Actually 42 is the answer", "42", 0, 0),
    Row("\\boxed{12346}", "12345", 1, 0, EXACT),
    Row("\\boxed{100001}", "100000", 1, 0, EXACT),
    Row("\\boxed{2024}", "2025", 0, 0),
    Row("\\boxed{50}", "0.5", 1, 0, NO_HUNDRED),
    Row("\\boxed{5000}", "50", 1, 0, NO_HUNDRED),
    Row("\\boxed{3.14}", "\\pi", 1, 0, ROUNDED),
    Row("\\boxed{2\\pi}", "6.28", 1, 0, ROUNDED),
    Row("\\boxed{6.28}", "2\\pi", 1, 0, ROUNDED),
    Row("\\boxed{10_2}", "10", 1, 0, BASE),
    Row("\\boxed{10}", "10_2", 1, 0, BASE),
    Row("\\boxed{5", "5", 1, 0, "cut off while it stated its result"),
    Row("\\boxed{3. 5}", "3", 1, 0, "the box is the answer, all of it"),
    Row("\\boxed{3,2,1}", "1,2,3", 0, 0),
    Row("\\boxed{(1,2)}", "[1,2]", 0, 0),
    Row("\\boxed{\\frac{2}{4}}", "\\frac12", 1, 1),  # 0 where antlr4 4.13 is installed, 1 where 4.11 is
    Row("\\boxed{\\frac{1}{2}}", "1/2", 1, 1),
    Row("\\boxed{1/2}", "\\frac{1}{2}", 1, 1),
    Row("The answer is \\boxed{3}", "3", 1, 1),
    Row("\\boxed{4}", "3", 0, 0),
    Row("<think>\\boxed{42}</think>", "42", 0, 0),
    Row("\\boxed{2,1}", "1,2", 0, 0),
    Row("\\boxed{9**9**9**9}", "x+1", 0, 0),
]

# What the compatible mode does not repeat, since one of the systems was broken there or would pay for nothing.
PRIME_NOT_REPEATED = [
    Row(
        "\\boxed{2/4}", "\\frac{1}{2}", 0, 1, "naive_dapo compares fractions as text; prime's graders do not"
    ),
    Row("\\boxed{1024}", "2^{10}", 0, 1, "their comparison of powers always fails"),
    Row(
        "The answer is 42.", "42", 0, 1, "naive_dapo grades the sentence; prime's graders take the number out"
    ),
    Row("<think>\\boxed{42}", "42", 1, 0, "an unfinished thought has no answer"),
]

GSM8K = [
    *(Row("so #### 72", "72", 1, 1), Row("#### 1,234", "1234", 1, 1), Row("#### -3", "-3", 1, 1)),
    Row("#### 72.", "72", 0, 1, "a full stop ends the sentence"),
    Row("#### 72.0", "72", 0, 1, "compared as numbers"),
    Row("#### 5 then #### 72", "72", 0, 1, "the last one counts"),
    Row("#### $72", "72", 0, 1, "a currency is no other number"),
    Row("####72", "72", 0, 1, "the space is optional"),
    Row("answer 72", "72", 0, 0),
    Row("#### 1234", "1,234", 0, 1, "compared as numbers"),
    Row("#### 72", "72 ", 0, 1, "space is none of the reference"),
    Row("#### +72", "72", 0, 1, "a sign that says nothing"),
    Row("#### +-72", "72", 0, 0),
    Row("#### 72 or 5", "72", 1, 0, "one answer"),
    Row("#### 72 or six", "72", 1, 0, "one answer"),
    Row("#### 72 and a half", "72", 1, 0, "one answer"),
    Row("#### 72 apples and pears", "72", 1, 1),
    Row("#### 25%", "25", 1, 1, "gsm8k's references are bare numbers"),
]

HENDRYCKS = [
    Row("\\boxed{1/2}", "\\frac{1}{2}", 1, 1),
    Row("\\boxed{0.5}", "\\frac12", 1, 1),
    Row("\\boxed{0.50}", "\\frac12", 0, 0),
    Row("so $\\boxed 5$.", "5", 1, 1),
    Row("\\boxed{5\\text{ cm}}", "5", 1, 1),
    Row("\\boxed{x=5}", "5", 1, 1),
    Row("\\boxed{\\dfrac{1}{2}}", "\\frac12", 1, 1),
    Row("\\boxed{\\frac{1}2}", "\\frac12", 1, 1),
    Row("\\boxed{90^\\circ}", "90", 1, 1),
    Row("\\boxed{\\sqrt3}", "\\sqrt{3}", 1, 1),
    Row("\\boxed{(1, 2)}", "(1,2)", 1, 1),
    Row("\\boxed{.5}", "0.5", 1, 1),
    Row("\\boxed 1 and \\boxed{2}", "2", 1, 1),
    Row("\\boxed{50\\%}", "50", 1, 0, NO_PERCENT),
    Row("\\boxed{5\\text{ / 6}}", "5", 1, 0, "one answer"),
    Row("\\boxed{5\\text{ / 6}\\quad}", "5", 1, 0, "one answer"),
    Row("\\boxed{x+1}", "1+x", 0, 0),
]

TABLES = {"math": MATH, "prime_math": PRIME, "gsm8k": GSM8K, "hendrycks_math": HENDRYCKS}
