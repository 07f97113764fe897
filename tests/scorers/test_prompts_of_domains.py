r"""Every domain's prompt asks for a form of its own: an answer in that very form is read, and its near miss is not.

A row of FORMS is a data source as its users name it, the ground truth, `extra_info`, and pairs of texts in the form
that the prompts of that source ask for: the right one, and the same with another content. Domains whose answers run in
the sandbox have such a test beside their scorer (`tests/scorers/code`, `tests/scorers/simulation`).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from scorers.api import all_tasks
from scorers.child.row_worker import RowScorer

pytestmark = pytest.mark.process

TABLE = {"header": ["Position", "Food"], "rows": [["1", "apple"], ["2", "bread"]]}
SWAPPED = {"header": ["Position", "Food"], "rows": [["1", "bread"], ["2", "apple"]]}
Pairs = tuple[tuple[str, str], ...]

FORMS: list[tuple[str, Any, dict[str, Any], Pairs]] = [
    ("math__merged_deduped", "37", {}, ((r"So it is \boxed{37}.", r"So it is \boxed{36}."),)),
    ("math_dapo", "34", {}, (("so\nAnswer: 34", "so\nAnswer: 43"), ("so\nAnswer: $34$", "so\nAnswer: $43$"))),
    ("openai/gsm8k", "72", {}, (("so\n#### 72", "so\n#### 27"),)),
    ("hiyouga/geometry3k", "5", {}, ((r"<think>a</think>\boxed{5}", r"<think>a</think>\boxed{6}"),)),
    (
        "stem__gpqa",
        "C",
        {},
        (
            ("so\nAnswer: C", "so\nAnswer: B"),
            ("so\nAnswer: $C", "so\nAnswer: $B"),
            ("so\nAnswer: $C$", "so\nAnswer: $B$"),
        ),
    ),
    ("stem__gpqa_diamond_no_box", "C", {}, ((r"so \boxed{C}", r"so \boxed{B}"),)),
    ("stem__supergpqa", "J", {}, ((r"so \boxed{J}", r"so \boxed{A}"),)),
    (
        "simulation__arcagi1",
        [[1, 1], [0, 0]],
        {},
        (
            ("<answer>[[1, 1], [0, 0]]</answer>", "<answer>[[1, 1], [0, 1]]</answer>"),
            ("<answer>\nOutput: [[1, 1], [0, 0]]\n</answer>", "<answer>Output: [[1, 1], [0, 1]]</answer>"),
            ("<answer>Output:\n[[1, 1],\n [0, 0]]</answer>", "<answer>Input: [[1, 1], [0, 0]]</answer>"),
        ),
    ),
    ("simulation__barc", [[2, 3]], {}, (("<answer> [[2, 3]] </answer>", "<answer> [[3, 2]] </answer>"),)),
    (
        "logic__zebra_puzzle_dataset",
        TABLE,
        {},
        (
            (f"<answer>{json.dumps(TABLE)}</answer>", f"<answer>{json.dumps(SWAPPED)}</answer>"),
            (f"<answer>\n{TABLE}\n</answer>", f"<answer>\n{SWAPPED}\n</answer>"),
        ),
    ),
    (
        "ordering_puzzle_dataset",
        ["Emma", "Wei"],
        {},
        (("<answer>['Emma', 'Wei']</answer>", "<answer>['Wei', 'Emma']</answer>"),),
    ),
    ("graph_logical_dataset", "fdebme", {}, (("<answer> fdebme </answer>", "<answer> fdebma </answer>"),)),
    (
        "simulation__codeio",
        '"output": {"count": 4}',
        {},
        (
            (r'\boxed{"output": {"count": 4}}', r'\boxed{"output": {"count": 5}}'),
            ('```json\n{"output": {"count": 4}}\n```', '```json\n{"output": {"count": 5}}\n```'),
            ('It is {"output": {"count": 4}}.', 'It is {"output": {"count": 5}}.'),
            ('```json {"output": {"count": 4}}```', '```json {"output": {"count": 5}}```'),
            ('```json```\n{"output": {"count": 4}}', '```json```\n{"output": {"count": 5}}'),
            (
                '\\boxed{```json\n{"output": {"count": 4}}\n```}',
                '\\boxed{```json\n{"output": {"count": 5}}\n```}',
            ),
        ),
    ),
    (
        "simulation__codeio_12.1k",
        '"input": {"n": 3}',
        {},
        (('so\n{"input": {"n": 3}}', 'so\n{"input": {"n": 4}}'), ('so {"n": 3}', 'so {"m": 3}')),
    ),
    ("table__hitab", "12.5|9.1", {}, ((r"\boxed{12.5|9.1}", r"\boxed{12.5|9.2}"),)),
    ("table__multihier", "12.5", {}, ((r"\boxed{12.5}", r"\boxed{12.8}"),)),
    (
        "table__finqa",
        0.141,
        {},
        ((r"\boxed{0.141}", r"\boxed{0.151}"), (r"\boxed{14.1\%}", r"\boxed{15.1\%}")),
    ),
    ("searchR1_nq", {"target": ["Paris"]}, {}, (("<answer> Paris </answer>", "<answer> Rome </answer>"),)),
    ("grade", 1.0, {}, (("Total Score: 10/10", "Total Score: 0/10"),)),
    (
        "ood__ifeval",
        [{"num_words": None}],
        {"instruction_id_list": ["punctuation:no_comma"]},
        (("One two three.", "One, two, three."),),
    ),
    (
        "ood__livebench",
        "yes, no, yes",
        {"task": "web_of_lies_v2"},
        (("**yes, no, yes**", "**yes, no, no**"),),
    ),
    (
        "ood__livebench",
        "yes, no, yes",
        {"task": "house_traversal"},
        (("<solution>yes, no, yes</solution>", "<solution>yes, yes, no</solution>"),),
    ),
    ("ood__livebench", "cat", {"task": "zebra_puzzle"}, (("***cat***", "***dog***"),)),
    ("ood__livebench", "3", {"task": "spatial"}, (("It is **3**.", "It is **4**."),)),
    ("ood__livebench", "city", {"task": "cta"}, (("city", "country"),)),
    ("ood__livebench", "a, b, c, d", {"task": "connections"}, (("**a, b, c, d**", "**a, b, c, e**"),)),
    (
        "ood__livebench",
        '{"a": "b"}',
        {"task": "tablejoin"},
        (('```python\n{"a": "b"}\n```', '```python\n{"a": "c"}\n```'), ('{"a": "b"}', '{"b": "a"}')),
    ),
]


@pytest.fixture(scope="module")
def rows() -> RowScorer:
    return RowScorer(all_tasks())


@pytest.mark.parametrize(
    ("source", "truth", "extra", "pairs"),
    FORMS,
    ids=[f"{source} {extra.get('task', '')}".strip() for source, _, extra, _ in FORMS],
)
def test_the_form_that_a_prompt_asks_for_is_read_and_its_content_decides(
    rows: RowScorer, source: str, truth: Any, extra: dict[str, Any], pairs: Pairs
) -> None:
    row = {"data_source": source, "reward_model": {"ground_truth": truth}, "extra_info": extra}
    for texts in pairs:
        results = [rows.result(json.dumps({"llm_output": text, **row}).encode()) for text in texts]
        values = [result["value"] for result in results]
        assert values == [1.0, 0.0], [
            (text, found["reason"]) for text, found in zip(texts, results, strict=True)
        ]
