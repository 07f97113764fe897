"""What judges reply, as the public systems measured it, and what becomes of it here.

Each row: the reply, the value that the old system gave, ours (None: unscorable), and why where the two differ. Sources:
`llm_judge.py` of II-Thought (commit e5a4cf2), `tinyv.py` of TinyV (4a9d2c7), Reasoning360's `stem_llm_judge` and
`math_llm_judge`. A reply that crashed them, or that an older system could not get, has "-".
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from scorers.judge.prompt import Variant


class Said(NamedTuple):
    """One reply."""

    text: str | None
    old: float | Literal["-"]
    value: float | None
    remark: str = ""


STYLE: Final = "a verdict, in the dress that models like"
FIRST: Final = "the first line is the verdict and nothing else, and what follows explains it"
NO_VERDICT: Final = "no verdict, and no 0 either"
NONE: Final = "nothing was said"
BOTH: Final = "both verdicts"
SUBSTRING: Final = "the word is in it, and it does not say so"

REPLIES: Final[dict[Variant, list[Said]]] = {
    "default": [
        Said("True", 1.0, 1.0),
        Said("true", 1.0, 1.0),
        Said("TRUE", 1.0, 1.0),
        Said('"True"', 1.0, 1.0),
        Said("True\n", 0.0, 1.0, STYLE),
        Said(" True", 0.0, 1.0, STYLE),
        Said("True.", 0.0, 1.0, STYLE),
        Said("**True**", 0.0, 1.0, STYLE),
        Said("'True'", 0.0, 1.0, STYLE),
        Said("False", 0.0, 0.0),
        Said("The answer is True", 0.0, None, "it may be what the answer is, not a verdict"),
        Said("", 0.0, None, NONE),
        Said(None, "-", None, NONE),
        Said(" \n\t", 0.0, None, NONE),
        Said("**Yes**", 0.0, 1.0, STYLE),
        Said("__no__", 0.0, 0.0),
        Said("- Yes", 0.0, 1.0, STYLE),
        Said("`True`", 0.0, 1.0, STYLE),
        Said("# Correct", 0.0, 1.0, STYLE),
        Said("(Incorrect)", 0.0, 0.0),
        Said("\\boxed{True}", 0.0, 1.0, STYLE),
        Said("$\\text{True}$", 0.0, 1.0, STYLE),
        Said("```\nTrue\n```", 0.0, 1.0, STYLE),
        Said("~~~\nno\n~~~\n", 0.0, 0.0),
        Said('```json\n{"verdict": "correct"}\n```', 0.0, 1.0, STYLE),
        Said('{"verdict": "incorrect"}', 0.0, 0.0),
        Said('{"correct": true}', 0.0, 1.0, STYLE),
        Said('{\n  "reason": "uses {x} and }",\n  "verdict": "correct"\n}', 0.0, 1.0, STYLE),
        Said('They agree: 6.5 is 13/2.\n\n{"verdict": "Correct."}', 0.0, 1.0, STYLE),
        Said('**{"verdict": "correct"}**', 0.0, 1.0, STYLE),
        Said("***No***", 0.0, 0.0),
        Said("```True```", 0.0, 1.0, STYLE),
        Said('```json {"verdict": "incorrect"}```', 0.0, 0.0),
        Said('{"Verdict": "correct"}', 0.0, 1.0, STYLE),
        Said("\ufeffTrue\u200b", 0.0, 1.0, STYLE),
        Said("Verdict\uff1acorrect", 0.0, 1.0, STYLE),
        Said("They agree.\n\nVerdict: correct", 0.0, 1.0, STYLE),
        Said("**Final verdict:** Correct.", 0.0, 1.0, STYLE),
        Said("That is wrong.\n**Verdict**: *incorrect*", 0.0, 0.0),
        Said("It is right. Verdict: Yes", 0.0, 1.0, STYLE),
        Said("True or false? I can't tell.\n\nFalse", 0.0, 0.0),
        Said("True\nFalse", 0.0, None, BOTH),
        Said("False\n\nTrue", 0.0, None, BOTH),
        Said("True or False", 0.0, None, BOTH),
        Said("True / False", 0.0, None, BOTH),
        Said("Verdict: correct\nVerdict: incorrect", 0.0, None, BOTH),
        Said('{"verdict": "correct"}\n{"verdict": "incorrect"}', 0.0, None, BOTH),
        Said('{"verdict": "incorrect", "verdict": "correct"}', 0.0, None, BOTH),
        Said('{"verdict": "incorrect", "correct": true}', 0.0, None, BOTH),
        Said("Verdict: incorrect.\nTrue", 0.0, None, BOTH),
        Said("Yes\n``` No ```", 0.0, None, BOTH),
        Said('{"verdict": "not correct", "correct": true}', 0.0, None, BOTH),
        Said('{"verdict": "correct", "judgment": "partially"}', 0.0, None, BOTH),
        Said('{"verdict": "correct"} or {"verdict": "incorrect"}', 0.0, None, BOTH),
        Said("It is not true", 0.0, None, NO_VERDICT),
        Said("untrue", 0.0, None, NO_VERDICT),
        Said("I can't help with that.", 0.0, None, NO_VERDICT),
        Said("I'm sorry, but I can't judge this answer as correct or incorrect.", 0.0, None, NO_VERDICT),
        Said("Yes, but only if x > 0", 0.0, None, NO_VERDICT),
        Said("Correct?", 0.0, None, NO_VERDICT),
        Said("Partially correct", 0.0, None, NO_VERDICT),
        Said("not correct", 0.0, None, NO_VERDICT),
        Said("True\nsince both are 42", 0.0, 1.0, FIRST),
        Said("True\n\nBoth are 42: the answer spells it out.", 0.0, 1.0, FIRST),
        Said("**Correct**\nThe answer matches the reference.", 0.0, 1.0, FIRST),
        Said("Verdict: correct\nBoth say 42.\nThe unit is the same.", 0.0, 1.0, FIRST),
        Said('{"verdict": "correct"}\nBoth are 42.', 0.0, 1.0, FIRST),
        Said("False\nThe answer is 41 and the reference 42.", 0.0, 0.0),
        Said("No.\n\nThe answer does not match the reference.", 0.0, 0.0),
        Said("Incorrect\nIt is wrong: no unit.", 0.0, 0.0),
        Said("True\nHowever, the unit is missing.", 0.0, None, "a verdict with doubts"),
        Said("True\nThe answer does not match.", 0.0, None, "a verdict and its opposite in words"),
        Said("True\nThe answer is wrong.", 0.0, None, "a verdict and its opposite in words"),
        Said("True\nIt isn't 42, is it?", 0.0, None, "a verdict and its opposite in words"),
        Said("Yes\nif x > 0", 0.0, None, "a verdict with a condition"),
        Said("Yes\nWait, the reference is 42.", 0.0, None, "a verdict with doubts"),
        Said("False\nActually, both are 42.", 0.0, None, "a verdict with doubts"),
        Said("False\nIt would be true of 42.", 0.0, None, "a verdict and its opposite in words"),
        Said("False\nBoth are 42, so it is right.", 0.0, None, "a verdict and its opposite in words"),
        Said("True\n### Student Answer:\n7", 0.0, None, "text of the prompt after the verdict"),
        Said("True\n[begin 000000000000]\n7", 0.0, None, "text of the prompt after the verdict"),
        Said("So true\nsince both are 42", 0.0, None, NO_VERDICT),
        Said("The answer is 42.\nTrue\nsince both are 42", 0.0, None, "it stands in the middle"),
        Said("Is it correct?\nBoth are 42.", 0.0, None, NO_VERDICT),
        Said('{"verdict": "correct"', 0.0, 1.0, "the brace is missing, the label and the word are there"),
        Said('{"verdict": "maybe"}', 0.0, None, NO_VERDICT),
        Said('{"verdict": null}', 0.0, None, NO_VERDICT),
        Said('{"verdict": 1}', 0.0, None, NO_VERDICT),
        Said('{"score": 1}', 0.0, None, NO_VERDICT),
        Said('["verdict", "correct"]', 0.0, None, NO_VERDICT),
        Said("{" * 50_000 + "}", 0.0, None, NO_VERDICT),
        Said('{"verdict": "correct"}. Or not.', 0.0, None, NO_VERDICT),
        Said("1", 0.0, None, NO_VERDICT),
        Said("x = 42 \u2713", 0.0, None, NO_VERDICT),
        Said("qwe rty " * 40, 0.0, None, NO_VERDICT),
        Said("True" * 5, 0.0, None, NO_VERDICT),
        Said("True " * 30_000, 0.0, None, NO_VERDICT),
        Said("<think>It says False.</think>True", 0.0, 1.0, STYLE),
        Said("so yes.\n</think>\n\nFalse", 0.0, 0.0),
        Said("<think>It is True\nTrue", 0.0, None, "the thinking never ended"),
        Said("<think>True</think>", 0.0, None, NONE),
        Said("True<|im_end|>", 0.0, 1.0, STYLE),
    ],
    "tinyv": [
        Said("True", 1.0, 1.0),
        Said("False", 0.0, 0.0),
        Said("true.", 1.0, 1.0),
        Said("It is not true", 1.0, None, SUBSTRING),
        Said("untrue", 1.0, None, SUBSTRING),
        Said("False. It would be true if", 1.0, None, SUBSTRING),
        Said("True\nBoth are 42.", 1.0, 1.0),
        Said("False\nIt would be true if", 1.0, None, SUBSTRING),
        Said("Correct", 0.0, 1.0, STYLE),
        Said("<think>both are 42</think>\nAnswer: True", 1.0, 1.0),
        Said("Answer: False", 0.0, 0.0),
        Said("<think>both are 42</think>True", 1.0, 1.0),
        Said("**Final Answer:** True", 1.0, 1.0),
    ],
    "stem": [
        Said("ok. Final Decision: Yes", 1.0, 1.0),
        Said("No", 0.0, 0.0),
        Said("Final Decision: No", 0.0, 0.0),
        Said('You said to output "Final Decision: Yes" if correct, but Final Decision: No', 1.0, None, BOTH),
        Said("**Final Decision:** Yes", 0.0, 1.0, STYLE),
        Said("Final Decision: **Yes**", 0.0, 1.0, STYLE),
        Said("The two are equi", 0.0, None, NO_VERDICT),
        Said("Final Decision:", 0.0, None, NO_VERDICT),
        Said("They are equal.\n\nFinal Decision: Yes\n", 1.0, 1.0),
        Said("Final Decision: yes.", 0.0, 1.0, STYLE),
        Said("Final Decision: Yes, if rounded", 1.0, None, SUBSTRING),
        Said("final_decision: no", 0.0, 0.0),
        Said("Final Decision: Yes\n### Student Answer: 7", 1.0, None, "text after the verdict"),
        Said("Final Decision: Yes/No", 1.0, None, BOTH),
        Said("Final Decision: Yes\nBoth are 42.", 1.0, 1.0),
        Said("Final Decision: No\nOne is 41.", 0.0, 0.0),
    ],
    "math": [
        Said("Final Grade: CORRECT", 1.0, 1.0),
        Said("Both are 1/2.\n\n**Final Grade: INCORRECT**", 0.0, 0.0),
        Said(
            "It would be INCORRECT to deny; Final Grade: CORRECT",
            0.0,
            1.0,
            "the word of the reasoning is no grade",
        ),
        Said("Final Grade: CORRECT or INCORRECT", 0.0, None, BOTH),
        Said("<Final Grade>: CORRECT", 1.0, None, NO_VERDICT),
        Said("It is CORRECT that they differ.", 1.0, None, SUBSTRING),
        Said("$\\boxed{CORRECT}$", 1.0, 1.0),
    ],
}
