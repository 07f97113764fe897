"""What judges reply, as the public systems measured it, and what becomes of it here.

Each row: the reply, the value that the old system gave, ours (None: unscorable), and why where the two differ. Sources:
`llm_judge.py` of II-Thought (commit e5a4cf2), `tinyv.py` of TinyV (4a9d2c7), Reasoning360's `stem_llm_judge` and
`math_llm_judge`. A reply that crashed them, or that an older system could not get, has "-".
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from scorers.judge.prompt import Variant
from tests.support.text_tables import listed_by_kind


class Said(NamedTuple):
    text: str | None
    old: float | Literal["-"]
    value: float | None
    remark: str = ""


STYLE: Final = "a verdict, in the dress that models like"
NO_VERDICT: Final = "no verdict, and no 0 either"
NONE: Final = "nothing was said"


def _said(table: str) -> list[Said]:
    """Read replies by kind: the old value, ours, and the remark."""
    worth = {"-": "-", "None": None, "0.0": 0.0, "1.0": 1.0}
    found: list[Said] = []
    for kind, texts in listed_by_kind(table).items():
        old, value, *remark = kind.split(" ", 2)
        found += [Said(text, worth[old], worth[value], *remark) for text in texts]  # type: ignore[arg-type]
    return found


REPLIES: Final[dict[Variant, list[Said]]] = {
    "default": [
        *_said(r"""
# 1.0 1.0
True¦true¦TRUE¦"True"
# 0.0 1.0 a verdict, in the dress that models like
True⏎¦ True¦True.¦**True**¦'True'¦**Yes**¦- Yes¦`True`¦\boxed{True}¦$\text{True}$¦```⏎True⏎```
```json⏎{"verdict": "correct"}⏎```¦{"correct": true}¦{⏎  "reason": "uses {x} and }",⏎  "verdict": "correct"⏎}
They agree: 6.5 is 13/2.⏎⏎{"verdict": "Correct."}¦**{"verdict": "correct"}**¦```True```
{"Verdict": "correct"}¦\ufeffTrue\u200b¦Verdict\uff1acorrect¦They agree.⏎⏎Verdict: correct
**Final verdict:** Correct.¦It is right. Verdict: Yes¦<think>It says False.</think>True¦True<|im_end|>
# 0.0 0.0
False¦__no__¦(Incorrect)¦~~~⏎no⏎~~~⏎¦{"verdict": "incorrect"}¦***No***¦```json {"verdict": "incorrect"}```
That is wrong.⏎**Verdict**: *incorrect*¦True or false? I can't tell.⏎⏎False
False⏎The answer is 41 and the reference 42.¦No.⏎⏎The answer does not match the reference.
Incorrect⏎It is wrong: no unit.¦so yes.⏎</think>⏎⏎False
# 0.0 None it may be what the answer is, not a verdict
The answer is True
# 0.0 None nothing was said
 ⏎\u0009¦<think>True</think>
# 0.0 None both verdicts
True⏎False¦False⏎⏎True¦True or False¦True / False¦Verdict: correct⏎Verdict: incorrect
{"verdict": "correct"}⏎{"verdict": "incorrect"}¦{"verdict": "incorrect", "verdict": "correct"}
{"verdict": "incorrect", "correct": true}¦Verdict: incorrect.⏎True¦Yes⏎``` No ```
{"verdict": "not correct", "correct": true}¦{"verdict": "correct", "judgment": "partially"}
{"verdict": "correct"} or {"verdict": "incorrect"}
# 0.0 None no verdict, and no 0 either
It is not true¦untrue¦I can't help with that.
I'm sorry, but I can't judge this answer as correct or incorrect.¦Yes, but only if x > 0¦Correct?
Partially correct¦not correct¦So true⏎since both are 42¦Is it correct?⏎Both are 42.¦{"verdict": "maybe"}
{"verdict": null}¦{"verdict": 1}¦{"score": 1}¦["verdict", "correct"]¦{"verdict": "correct"}. Or not.¦1
x = 42 \u2713¦TrueTrueTrueTrueTrue
# 0.0 1.0 the first line is the verdict and nothing else, and what follows explains it
True⏎since both are 42¦True⏎⏎Both are 42: the answer spells it out.
**Correct**⏎The answer matches the reference.¦Verdict: correct⏎Both say 42.⏎The unit is the same.
{"verdict": "correct"}⏎Both are 42.
# 0.0 None a verdict with doubts
True⏎However, the unit is missing.¦Yes⏎Wait, the reference is 42.¦False⏎Actually, both are 42.
# 0.0 None a verdict and its opposite in words
True⏎The answer does not match.¦True⏎The answer is wrong.¦True⏎It isn't 42, is it?
False⏎It would be true of 42.¦False⏎Both are 42, so it is right.
# 0.0 None a verdict with a condition
Yes⏎if x > 0
# 0.0 None text of the prompt after the verdict
True⏎### Student Answer:⏎7¦True⏎[begin 000000000000]⏎7
# 0.0 None it stands in the middle
The answer is 42.⏎True⏎since both are 42
# 0.0 1.0 the brace is missing, the label and the word are there
{"verdict": "correct"
# 0.0 None the thinking never ended
<think>It is True⏎True
"""),
        *(Said("", 0.0, None, NONE), Said(None, "-", None, NONE), Said("# Correct", 0.0, 1.0, STYLE)),
        Said("{" * 50_000 + "}", 0.0, None, NO_VERDICT),
        Said("qwe rty " * 40, 0.0, None, NO_VERDICT),
        Said("True " * 30_000, 0.0, None, NO_VERDICT),
    ],
    "tinyv": [
        *_said(r"""
# 1.0 1.0
True¦true.¦True⏎Both are 42.¦<think>both are 42</think>⏎Answer: True¦<think>both are 42</think>True
**Final Answer:** True
# 0.0 0.0
False¦Answer: False
# 1.0 None the word is in it, and it does not say so
It is not true¦untrue¦False. It would be true if¦False⏎It would be true if
# 0.0 1.0 a verdict, in the dress that models like
Correct
""")
    ],
    "stem": [
        *_said(r"""
# 1.0 1.0
ok. Final Decision: Yes¦They are equal.⏎⏎Final Decision: Yes⏎¦Final Decision: Yes⏎Both are 42.
# 0.0 0.0
No¦Final Decision: No¦final_decision: no¦Final Decision: No⏎One is 41.
# 1.0 None both verdicts
You said to output "Final Decision: Yes" if correct, but Final Decision: No¦Final Decision: Yes/No
# 0.0 1.0 a verdict, in the dress that models like
**Final Decision:** Yes¦Final Decision: **Yes**¦Final Decision: yes.
# 0.0 None no verdict, and no 0 either
The two are equi¦Final Decision:
# 1.0 None the word is in it, and it does not say so
Final Decision: Yes, if rounded
# 1.0 None text after the verdict
Final Decision: Yes⏎### Student Answer: 7
""")
    ],
    "math": [
        *_said(r"""
# 1.0 1.0
Final Grade: CORRECT¦$\boxed{CORRECT}$
# 0.0 0.0
Both are 1/2.⏎⏎**Final Grade: INCORRECT**
# 0.0 1.0 the word of the reasoning is no grade
It would be INCORRECT to deny; Final Grade: CORRECT
# 0.0 None both verdicts
Final Grade: CORRECT or INCORRECT
# 1.0 None no verdict, and no 0 either
<Final Grade>: CORRECT
# 1.0 None the word is in it, and it does not say so
It is CORRECT that they differ.
""")
    ],
}
