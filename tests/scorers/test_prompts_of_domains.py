r"""Every domain's prompt asks for a form of its own: an answer in that very form is read, and its near miss is not.

A kind of FORMS is a data source as its users name it, the ground truth and `extra_info` in JSON; its pairs are texts in
the form that the prompts of that source ask for: the right one, and the same with another content. Domains whose
answers run in the sandbox have such a test beside their scorer (`tests/scorers/code`, `tests/scorers/simulation`).
"""

from __future__ import annotations

import json

import pytest

from scorers.api import all_tasks
from scorers.child.row_worker import RowScorer
from tests.support.text_tables import paired_by_kind

pytestmark = pytest.mark.process


FORMS = paired_by_kind(r"""
# math__merged_deduped "37"
So it is \boxed{37}. <== So it is \boxed{36}.
# math_dapo "34"
so⏎Answer: 34 <== so⏎Answer: 43 ;; so⏎Answer: $34$ <== so⏎Answer: $43$
# openai/gsm8k "72"
so⏎#### 72 <== so⏎#### 27
# hiyouga/geometry3k "5"
<think>a</think>\boxed{5} <== <think>a</think>\boxed{6}
# stem__gpqa "C"
so⏎Answer: C <== so⏎Answer: B ;; so⏎Answer: $C <== so⏎Answer: $B ;; so⏎Answer: $C$ <== so⏎Answer: $B$
# stem__gpqa_diamond_no_box "C"
so \boxed{C} <== so \boxed{B}
# stem__supergpqa "J"
so \boxed{J} <== so \boxed{A}
# simulation__arcagi1 [[1, 1], [0, 0]]
<answer>[[1, 1], [0, 0]]</answer> <== <answer>[[1, 1], [0, 1]]</answer>
<answer>⏎Output: [[1, 1], [0, 0]]⏎</answer> <== <answer>Output: [[1, 1], [0, 1]]</answer>
<answer>Output:⏎[[1, 1],⏎ [0, 0]]</answer> <== <answer>Input: [[1, 1], [0, 0]]</answer>
# simulation__barc [[2, 3]]
<answer> [[2, 3]] </answer> <== <answer> [[3, 2]] </answer>
# ordering_puzzle_dataset ["Emma", "Wei"]
<answer>['Emma', 'Wei']</answer> <== <answer>['Wei', 'Emma']</answer>
# graph_logical_dataset "fdebme"
<answer> fdebme </answer> <== <answer> fdebma </answer>
# simulation__codeio "\"output\": {\"count\": 4}"
\boxed{"output": {"count": 4}} <== \boxed{"output": {"count": 5}}
```json⏎{"output": {"count": 4}}⏎``` <== ```json⏎{"output": {"count": 5}}⏎```
It is {"output": {"count": 4}}. <== It is {"output": {"count": 5}}.
```json {"output": {"count": 4}}``` <== ```json {"output": {"count": 5}}```
```json```⏎{"output": {"count": 4}} <== ```json```⏎{"output": {"count": 5}}
\boxed{```json⏎{"output": {"count": 4}}⏎```} <== \boxed{```json⏎{"output": {"count": 5}}⏎```}
# simulation__codeio_12.1k "\"input\": {\"n\": 3}"
so⏎{"input": {"n": 3}} <== so⏎{"input": {"n": 4}} ;; so {"n": 3} <== so {"m": 3}
# table__hitab "12.5|9.1"
\boxed{12.5|9.1} <== \boxed{12.5|9.2}
# table__multihier "12.5"
\boxed{12.5} <== \boxed{12.8}
# table__finqa 0.141
\boxed{0.141} <== \boxed{0.151} ;; \boxed{14.1\%} <== \boxed{15.1\%}
# searchR1_nq {"target": ["Paris"]}
<answer> Paris </answer> <== <answer> Rome </answer>
# grade 1.0
Total Score: 10/10 <== Total Score: 0/10
# ood__ifeval [{"num_words": null}], {"instruction_id_list": ["punctuation:no_comma"]}
One two three. <== One, two, three.
# ood__livebench "yes, no, yes", {"task": "web_of_lies_v2"}
**yes, no, yes** <== **yes, no, no**
# ood__livebench "yes, no, yes", {"task": "house_traversal"}
<solution>yes, no, yes</solution> <== <solution>yes, yes, no</solution>
# ood__livebench "cat", {"task": "zebra_puzzle"}
***cat*** <== ***dog***
# ood__livebench "3", {"task": "spatial"}
It is **3**. <== It is **4**.
# ood__livebench "city", {"task": "cta"}
city <== country
# ood__livebench "a, b, c, d", {"task": "connections"}
**a, b, c, d** <== **a, b, c, e**
# ood__livebench "{\"a\": \"b\"}", {"task": "tablejoin"}
```python⏎{"a": "b"}⏎``` <== ```python⏎{"a": "c"}⏎``` ;; {"a": "b"} <== {"b": "a"}
""")
TABLE = {"header": ["Position", "Food"], "rows": [["1", "apple"], ["2", "bread"]]}
SWAPPED = {"header": ["Position", "Food"], "rows": [["1", "bread"], ["2", "apple"]]}
FORMS[f"logic__zebra_puzzle_dataset {json.dumps(TABLE)}"] = (
    (f"<answer>{json.dumps(TABLE)}</answer>", f"<answer>{json.dumps(SWAPPED)}</answer>"),
    (f"<answer>\n{TABLE}\n</answer>", f"<answer>\n{SWAPPED}\n</answer>"),
)


@pytest.fixture(scope="module")
def rows() -> RowScorer:
    return RowScorer(all_tasks())


@pytest.mark.parametrize("kind", FORMS)
def test_the_form_that_a_prompt_asks_for_is_read_and_its_content_decides(rows: RowScorer, kind: str) -> None:
    source, _, content = kind.partition(" ")
    truth, extra = [*json.loads(f"[{content}]"), {}][:2]
    row = {"data_source": source, "reward_model": {"ground_truth": truth}, "extra_info": extra}
    for texts in FORMS[kind]:
        results = [rows.result(json.dumps({"llm_output": text, **row}).encode()) for text in texts]
        assert [result["value"] for result in results] == [1.0, 0.0], [
            (texts, found["reason"]) for found in results
        ]
