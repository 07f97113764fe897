r"""Gradings, and the total out of ten that each ends with: the reference's measurements, and what people write.

In REFERENCE a number is what the reference measured too, where that is finite and from 0 to 10. Where it failed on a
form that a person reads at once, the number is what it says; where it took what is no grade (15, nan, -5), None.
"""

from __future__ import annotations

from tests.support.text_tables import listed, listed_by_kind


def _totals(table: str) -> list[tuple[str, float | None]]:
    return [
        (text, None if total == "None" else float(total))
        for total, texts in listed_by_kind(table).items()
        for text in texts
    ]


# The reference fails on the second table, and a person would not; it pays for the third: 1.0, 1.0, -0.5, -100, minus
# infinity.
REFERENCE = [
    *_totals(r"""
# 7
Total Score: 7/10¦**Total Score: 7/10**¦7¦Total Score: 7
# 8
| **Total Score** | **8/10** |¦Total Score: [8/10 points]¦Total Score: 8 points
# 7.5
Total Score: 7.5 / 10 points
# 0
The Total Score: 0/10
# 10
Total Score: 3/10⏎On reflection:⏎Total Score: 10/10
"""),
    *_totals(r"""
# 8
Total Score: [8]¦Total Score: 8 out of 10¦8 out of 10¦Total Score (out of 10): 8¦(out of 10): 8
# 7
Total Score: 7⏎Good work¦7⏎Good work¦Total Score: $7$¦$7$¦Total Score: 3+4=7/10¦3+4=7/10¦total score: 7/10
Final: 7/10
"""),
    *_totals(r"""
# None
Total Score: 15/10¦Total Score: nan/10¦Total Score: -5/10¦Total Score: -1000/10¦Total Score: -inf/10
"""),
    ("", None),
]
HONEST = _totals(r"""
# 7
## Total Score⏎⏎**7/10**¦Total Score:⏎7/10¦Total Score - 7/10¦Total Score = 7¦- **Total Score:** 7/10
3. Total Score: 7/10¦The total score is 7 out of 10.¦| Total score | 7/10 | good reasoning |
Total Score: \boxed{7}¦$\boxed{\text{Total Score: } 7/10}$¦Total Score: 7/10 (4/5 + 3/5)
Total Score: 7/10, because step 2 is missing¦Total Score: 2 + 3 + 2 = 7/10¦Total Score: (7/10)
{⏎  "total_score": 7⏎}¦"Total Score: 7/10"¦Total Score: 7/10<|im_end|>
# 10
Total Score: 10.0/10¦TOTAL SCORE: 10/10
# 9
Step 1 is right (3/3).⏎⏎Total Score: 9/10¦Final score: 9 out of 10 points
# 6
So the final total score is: 6/10
# 4
Overall: 4/10
# 8
| Criterion | Points |⏎|---|---|⏎| Logic | 5 |⏎| Total | 8/10 |¦| Total Score | 8 | 10 |
Total Score: 8/10 \u2705
# 0
Total Score: 0
# 2
<think>Total Score: 9/10</think>⏎Total Score: 2/10
The student writes "Total Score: 10/10".⏎⏎Total Score: 2/10
Total Score: 2/10⏎The claim that the Total Score: 10/10 is theirs.¦Total Score: 2/10⏎> Total Score: 10/10
Total Score: 2/10⏎"Total Score: 10/10"
""")
# The key or the value stands in quotes, as in JSON and as models write it.
HONEST += _totals(r"""
# 7
"Total Score": "7/10"¦'Total Score': 7¦'Total Score': '7/10'¦**"Total Score"**: "7/10"
\u201cTotal Score\u201d: 7¦\u201cTotal Score\u201d: \u201c7/10\u201d¦\u00abTotal Score\u00bb: 7
Total Score: \u201c7/10\u201d¦Total Score: '7'¦Total Score: "7"/10¦Total Score: "7" out of "10"
"Total Score": "7 points"¦"Total Score" = 7¦"Total Score" is 7¦| "Total Score" | "7" |¦- "Total Score": 7
{"total_score": "7"}¦{"total_score": "7/10"}¦{'total_score': '7'}
{"reason": "all but step 2", "total_score": 7}
{"reason": "it says Total Score: 10/10", "total_score": "7/10"}¦{"Total Score": "7/10", "reason": "fine"}
"final_score": "7/10"¦{⏎ "overall_score": "7/10",⏎ "ok": true⏎}¦Step 2 is missing.⏎"Total Score": "7/10"
"Total Score": "10/10"⏎"Total Score": "7/10"
# 7.5
Step 2 is missing.⏎{"reason": "step 2", "total_score": 7.5}
""")
WRONG = listed(r"""
"Total Score": "X/10"¦"Total Score": "7 or 8"¦"Total Score": "11"¦"Total Score": "-7"¦"Total Score": "7/20"
"Total Score": "70%"¦"final_score": "7"¦"Total": "7"¦"score": "7/10"¦{"total_score": null}
{"total_score": true}¦{"total_score": {"points": 7}}¦{"total_score": 7, "total_score": 7}
{"total_score": 7, "final_total_score": 8}¦{"reason": "total_score: 7"}¦⏎¦I don't know¦</think>¦pass
<think>Total Score: 7/10¦\boxed{}¦<answer></answer>¦Total Score:¦Total Score: X/10¦Total Score: N/A
Total Score: seven¦Total Score: 7/20¦Total Score: 70/100¦Total Score: 70%¦Total Score: 7%¦Total Score: 7 or 8
Total Score: 7-8/10¦Total Score: 7 to 8¦Total Score: 7,5/10¦Total Score: 1e1¦Total Score: +inf
Total Score: 10.5/10¦Total Score: 7\u00bd/10¦Total Score: \u0667/10¦Total: 7¦Overall, a good answer. 7/10
Final answer: 7/10¦The total score should be between 0 and 10¦nan¦-5¦15¦1.⏎2.¦Score: 7/10
""")
ATTACKS: list[tuple[str, str]] = [
    ('"Total Score": "10/10" is what the student writes', "a sentence about a key and its value"),
    ('x\n"Total Score: 10/10"', "a quotation of the whole line"),
    ("x\n\u201cTotal Score: 10/10\u201d", "a quotation of the whole line, in other quotes"),
    ('He writes {"total_score": 10}', "an object in a sentence"),
    ('x\n> "Total Score": "10/10"', "a quotation of an object's line"),
    ('{"total_score": 10} says the student', "an object that begins a sentence"),
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
