"""A chat is read from whatever a file holds it as, and a text that only looks like one is not trained on."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
import pytest

from broker.errors import BadMessage
from tasks.chat import chat_of
from tasks.route import route

TURN = {"role": "user", "content": "2 + 3?"}
TWO = [{"role": "system", "content": 'Say "so".'}, {"role": "user", "content": "a\nb ∑ \\frac{1}{2}"}]
CALLS = [{"role": "assistant", "content": None, "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}]


@pytest.mark.parametrize(
    ("value", "chat"),
    [
        (json.dumps([TURN]), [TURN]),
        (json.dumps(TWO), TWO),
        (json.dumps(TWO, ensure_ascii=False, indent=2), TWO),
        (f"\n  {json.dumps([TURN])}\n", [TURN]),
        (json.dumps(TURN), [TURN]),
        (json.dumps(json.dumps([TURN])), [TURN]),  # written twice
        (json.dumps({"messages": [TURN]}), [TURN]),
        (json.dumps([json.dumps(TURN)]), [TURN]),
        ([json.dumps(turn) for turn in TWO], TWO),
        (str([TURN]), [TURN]),  # as pandas writes a list into CSV
        (str(CALLS), CALLS),
        (str([{"name": None, **TURN}]), [{"name": None, **TURN}]),
        (json.dumps(CALLS), CALLS),
        (TURN, [TURN]),
        ({"messages": [TURN]}, [TURN]),
        ([TURN], [TURN]),
        ((TURN,), [TURN]),
        (np.array([TURN], dtype=object), [TURN]),
        ('[{"role": "user", "content": "two\nlines"}]', [{"role": "user", "content": "two\nlines"}]),
        (base64.b64encode(gzip.compress(json.dumps([TURN]).encode(), mtime=0)).decode(), [TURN]),
        ("[]", []),
        (json.dumps([{"from": "human", "value": "2 + 3?"}]), [{"from": "human", "value": "2 + 3?"}]),
    ],
)
def test_a_chat_is_read_from_each_of_its_forms(value: Any, chat: list[Any]) -> None:
    assert chat_of(value) == chat


QUESTIONS = [
    "2 + 3?",
    "",
    " ",
    "[1, 2, 3]",
    "[1, 2, 3] sorted?",
    '{"a": 1}',
    '{"role": "king"}',
    "null",
    "17",
]
QUESTIONS += ['"so"']
QUESTIONS += ['[{"name": "Bob"}, {"name": "Eve"}]', '"So be it", who said that?', "{x | x > 2} is which set?"]
QUESTIONS += ["[{'a': 1}", "[{1, 2}, {3}]: which of these sets has the role of a generator?"]
QUESTIONS += ["What is the role of content here?", 'Continue: [{"role": "user", "content": "x"}]']


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_that_is_no_chat_stays_as_it_is(text: str) -> None:
    assert chat_of(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '[{"role": "user", "content": "2 + 3?"}',  # cut
        '[{"role": "user", "content": "2 + 3?"',
        '{"role": "user", "content": ',
        '[{"role": "user" "content": "x"}]',
        '[{""role"": ""user"", ""content"": ""x""}]',  # quoted once too often
        "[{'role': 'user', 'content': 'x'}\n {'role': 'user', 'content': array([1])}]",
        '[{\\"role\\": \\"user\\", \\"content\\": \\"x\\"}]',
        '[{"role": "user", "content": undefined}]',
        '[{"name": null, "role": "user", "content": "2 + 3?"}',
        "[{'weight': 1, 'role': 'user', 'content': array([1])}]",
    ],
)
def test_a_text_that_begins_as_a_chat_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadMessage, match="begins as a chat and is no JSON"):
        chat_of(text)


def test_a_question_for_a_judge_is_taken_out_of_a_chat_in_text() -> None:
    info = {"type": "judge", "answer": {"value": "5"}}
    _, found = route({"verification_info": info, "messages": json.dumps(TWO)})
    assert found["answer"]["question"] == TWO[1]["content"]
    row = {"data_source": "x_tinyv", "prompt": json.dumps(TWO), "reward_model": {"ground_truth": "5"}}
    assert route(row)[1]["answer"]["question"] == TWO[1]["content"]
