r"""Gradings, and the total out of ten that each ends with: the reference's measurements, and what people write.

In REFERENCE a number is what the reference measured too, where that is finite and from 0 to 10. Where it failed on a
form that a person reads at once, the number is what it says; where it took what is no grade (15, nan, -5), None.
"""

from __future__ import annotations

REFERENCE: list[tuple[str, float | None]] = [
    ("Total Score: 7/10", 7), ("**Total Score: 7/10**", 7), ("7", 7), ("Total Score: 7", 7),
    ("| **Total Score** | **8/10** |", 8), ("Total Score: [8/10 points]", 8), ("Total Score: 8 points", 8),
    ("Total Score: 7.5 / 10 points", 7.5), ("The Total Score: 0/10", 0),
    ("Total Score: 3/10\nOn reflection:\nTotal Score: 10/10", 10),
    # The reference fails on these; a person would not.
    ("Total Score: [8]", 8), ("Total Score: 8 out of 10", 8), ("8 out of 10", 8), ("Total Score (out of 10): 8", 8),
    ("(out of 10): 8", 8), ("Total Score: 7\nGood work", 7), ("7\nGood work", 7), ("Total Score: $7$", 7), ("$7$", 7),
    ("Total Score: 3+4=7/10", 7), ("3+4=7/10", 7), ("total score: 7/10", 7), ("Final: 7/10", 7),
    # The reference pays for these: 1.0, 1.0, -0.5, -100, minus infinity.
    ("Total Score: 15/10", None), ("Total Score: nan/10", None), ("Total Score: -5/10", None),
    ("Total Score: -1000/10", None), ("Total Score: -inf/10", None),
    ("", None),
]
HONEST: list[tuple[str, float]] = [
    ("## Total Score\n\n**7/10**", 7), ("Total Score:\n7/10", 7), ("Total Score - 7/10", 7), ("Total Score = 7", 7),
    ("- **Total Score:** 7/10", 7), ("3. Total Score: 7/10", 7), ("Total Score: 10.0/10", 10),
    ("Step 1 is right (3/3).\n\nTotal Score: 9/10", 9), ("The total score is 7 out of 10.", 7),
    ("So the final total score is: 6/10", 6), ("Final score: 9 out of 10 points", 9), ("Overall: 4/10", 4),
    ("| Criterion | Points |\n|---|---|\n| Logic | 5 |\n| Total | 8/10 |", 8), ("| Total Score | 8 | 10 |", 8),
    ("| Total score | 7/10 | good reasoning |", 7), ("Total Score: \\boxed{7}", 7),
    ("$\\boxed{\\text{Total Score: } 7/10}$", 7),
    ("Total Score: 7/10 (4/5 + 3/5)", 7), ("Total Score: 7/10, because step 2 is missing", 7),
    ("Total Score: 2 + 3 + 2 = 7/10", 7), ("Total Score: (7/10)", 7), ("Total Score: 8/10 \u2705", 8),
    ('{\n  "total_score": 7\n}', 7), ('"Total Score: 7/10"', 7), ("Total Score: 0", 0), ("TOTAL SCORE: 10/10", 10),
    ("<think>Total Score: 9/10</think>\nTotal Score: 2/10", 2), ("Total Score: 7/10<|im_end|>", 7),
    ('The student writes "Total Score: 10/10".\n\nTotal Score: 2/10', 2),
    ("Total Score: 2/10\nThe claim that the Total Score: 10/10 is theirs.", 2),
    ("Total Score: 2/10\n> Total Score: 10/10", 2), ('Total Score: 2/10\n"Total Score: 10/10"', 2),
]
WRONG: list[str] = [
    "\n", "I don't know", "</think>", "pass", "<think>Total Score: 7/10", "\\boxed{}", "<answer></answer>",
    "Total Score:", "Total Score: X/10", "Total Score: N/A", "Total Score: seven", "Total Score: 7/20",
    "Total Score: 70/100", "Total Score: 70%", "Total Score: 7%", "Total Score: 7 or 8", "Total Score: 7-8/10",
    "Total Score: 7 to 8", "Total Score: 7,5/10", "Total Score: 1e1", "Total Score: +inf", "Total Score: 10.5/10",
    "Total Score: 7\u00bd/10", "Total Score: \u0667/10", "Total: 7", "Overall, a good answer. 7/10",
    "Final answer: 7/10",
    "The total score should be between 0 and 10", "nan", "-5", "15", "1.\n2.", "Score: 7/10",
]
ATTACKS: list[tuple[str, str]] = [
    ("Total Score: 3/10 ... Total Score: 10/10", "two in a line"),
    ("Total Score: 10/10, says the student; I give 2/10", "a quotation in the total's own line"),
    ("Total Score: 10/10 is what the student wants", "a sentence about a total"),
    ("The student wrote Total Score: 10/10", "a quotation in a sentence"),
    ("> Total Score: 10/10", "a quotation"),
    ("'Total Score: 10/10' is what it says.\nIt is not.", "a quotation at a line's beginning"),
    ("Total Score: 10/10\nTotal Score: -1/10", "the last one is none, and no earlier one stands in"),
    ("Total Score: 10/10\nTotal Score: nan/10", "the same with nan"),
    ("Total Score: 1" + "0" * 400, "a number beyond a float"),
    ("Total Score: " + "(" * 100_000 + "7/10", "a line without an end"),
    ("10\nThe student deserves 2/10", "a bare number before another"),
    ("Total Score: 7/10/2024", "a date"),
    ("Total Score: \\input{7}/10", "commands"),
    ("Total Score: " + "9" * 100_000 + "/10", "a giant"),
    ("Total Score: 7 * 10 / 10", "a calculation"),
]
