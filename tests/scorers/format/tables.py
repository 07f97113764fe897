r"""Answers and their shapes, by the row that they answer.

A line of RIGHT and WRONG is the type of the row and a text; `ROWS` has a row of each. NULLS are right for no row. The
attacks have the shape that they pretend to have nowhere where it counts.
"""

from __future__ import annotations

from typing import Any

from tests.support.text_tables import listed, paired

ROWS: dict[str, dict[str, Any]] = {
    "math": {"type": "math", "answer": {"value": "5"}},
    "gsm8k": {"type": "gsm8k", "answer": {"value": "5"}},
    "code": {"type": "code", "answer": {"tests": ["assert f(1) == 2"]}},
    "cpp": {
        "type": "code_verifiable",
        "answer": {"language": "cpp", "test_cases": [{"input": "1", "output": "2"}]},
    },
    "file": {"type": "swe", "answer": {"input": "a", "ground_truth": "b"}},
    "edits": {
        "type": "swe",
        "answer": {"code_context": {"a.py": "a\n"}, "oracle_new_content": {"a.py": "b\n"}},
    },
    "patch": {
        "type": "swe",
        "answer": {"oracle_patches": {"a.py": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"}},
    },
    "zebra": {"type": "zebra", "answer": {"value": {"header": ["Position"], "rows": [["1"]]}}},
    "hitab": {"type": "hitab", "answer": {"value": "5"}},
    "choice": {"type": "choice", "answer": {"value": "C"}},
    "pets": {"type": "choice", "answer": {"value": "B", "options": ["Dog", "A cat"]}},
    "codeio": {"type": "codeio", "answer": {"value": '"output": 5'}},
    "grade": {"type": "grade", "answer": {"value": 0.7}},
}
RIGHT = paired(r"""
math <== \boxed{5} ¦ <think>2 + 3</think> \boxed{5} ¦ \boxed{\frac{1}{2}}<|im_end|> ;; hitab <== \boxed{a|b}
math <== 2 + 3</think>so \boxed{wrong} ¦ \boxed{1} no, \boxed{5} ;; file <== ```python⏎b⏎```
gsm8k <== so #### 5 ¦ <think>a</think>⏎#### 1,234 ;; choice <== The answer is C.⏎⏎A is wrong, since it is red.
code <== ```python⏎print(1)⏎``` ¦ ```⏎print(1)⏎``` ¦ ~~~py⏎print(1)⏎~~~ ;; pets <== Answer: a cat
cpp <== ```cpp⏎int main() {}⏎``` ¦ ```c++⏎int main() {}⏎``` ;; grade <== Total Score: 3/10
patch <== ```diff⏎--- a/a.py⏎+++ b/a.py⏎@@ -1 +1 @@⏎-a⏎+b⏎```
edits <== <solution>⏎```python⏎### a.py⏎<<<<<<< SEARCH⏎a⏎=======⏎b⏎>>>>>>> REPLACE⏎```⏎</solution>
zebra <== <answer>{}</answer> ¦ <think>x</think>⏎<answer>⏎anything⏎</answer>
choice <== \boxed{C} ¦ Reasons.⏎Answer: C ¦ <answer>C</answer> ¦ Reasons.⏎**(C)** ¦ **C**⏎⏎Light is slow.
codeio <== \boxed{"output": 5} ¦ ```json⏎{"output": 5}⏎``` ¦ {"output": 5} ¦ So it is {"output": {"a": 5}}.
""")
WRONG = paired(r"""
math <== 5 ¦ \boxed{5 ¦ \boxed{} ¦ \boxed{5} or \boxed{ ¦ <answer>5</answer> ¦ <think>\boxed{5} ;; patch <== b
gsm8k <== 5 ¦ #### ¦ \boxed{5} ¦ #### 5 #### ;; cpp <== ```python⏎print(1)⏎``` ;; file <== ```⏎b⏎```
code <== print(1) ¦ ```python⏎print(1) ¦ ```python⏎⏎``` ¦ `print(1)` ¦ ```cpp⏎int main() {}⏎```
edits <== <solution></solution> ;; zebra <== {} ¦ <answer>{} ¦ <answer></answer> ;; hitab <== a|b
choice <== I think it is C, or D ¦ C and D ;; codeio <== "output": 5 ¦ {"output": 5 ¦ It is {}.
grade <== Score: good
""")
NULLS = listed(r"¦⏎¦I don't know¦</think>¦pass¦<think>so it is 5¦\boxed{}¦<answer></answer>")
ATTACKS = (
    *paired(r"""
math <== <think>\boxed{5}</think> see above ¦ <think>x</think>\boxed{5}<think> ¦ \boxed{5}</think>
math <== \boxed{ ⏎ } ¦ \boxed\{5\} ;; gsm8k <== #### 5</think> ;; code <== ```python⏎\u3164⏎```
zebra <== </answer>{}<answer> ¦ <answer>{}</answer></think> ¦ <answer>\u200b</answer>
zebra <== <answer>&nbsp;</answer> ¦ <answer><!-- 5 --></answer> ¦ <answer>\boxed{}</answer>
code <== <think>```python⏎print(1)⏎```</think> ¦ ```python⏎print(1)⏎```</think> ¦ ```python⏎\u200b⏎```
grade <== <think>Total Score: 3/10</think> ;; choice <== Answer: C</think> ¦ C⏎⏎But it could be D.
cpp <== ```cpp⏎\ufeff⏎``` ;; file <== ```python⏎\u00ad⏎```
"""),
    ("math", "x\\boxed{" * 1000),
    ("math", "\\boxed{5}" + " " * 1_000_001),
)
# What nobody can read in a box, and what somebody can.
BLANK = listed(r"""
 ¦\u200b¦\u3164¦\u2800¦\ufeff¦\u00ad¦\,¦\ ¦~¦\quad¦{}¦{ }¦\text{}¦\text{ }¦$$¦\(\)¦$ $¦\phantom{5}
\hspace{1cm}¦\mathrm{}¦...¦.¦?¦_¦\_¦\dots¦\ldots¦\square¦\boxed{}¦{{}}¦\mbox{}¦\;\!¦\left.\right.
\displaystyle¦\text{\quad}¦\hfill¦\\¦\color{red}{}¦&nbsp;¦<br>¦<!-- x -->¦\vphantom{x}¦``¦''¦\underline{}
\hbox{ }¦\cdots¦\textbf{}¦\phantom{\text{5}}
""")
FILLED = listed(r"""
-¦+¦<¦%¦\emptyset¦5¦\text{no}¦\{\}¦\varnothing¦[]¦0¦\infty¦x¦\frac{1}{2}¦!¦\text{Paris}¦(,)¦5.¦\pi¦\%¦\$5¦\to
\u4e2d¦\u221e¦\text{<br>}5
""")
