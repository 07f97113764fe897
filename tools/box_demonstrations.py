"""Generate demonstrations for the agents' demo model: chats in which a policy opens boxes, or answers too early.

In: the train split of the boxes. Out: questions, with the policy's message of each turn and the tool's answer; the
words of the tokenizer, and its chat template. Used by `tools.make_demo_model` alone. In a share GOES_ON of the turns in
which a box should be opened, the policy opens it. In the others it answers with the box's name, which is never right.
So the model knows how to call the tool, how to read its answers, and how to answer, and RL must find out what pays.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tasks.boxes import NEXT, NUMBER, QUESTION, boxes, inside, look, path

NUM_BOXES = 4096  # demonstrated, of the train split
GOES_ON = 0.3  # of the turns in which opening a (further) box is right
ANSWER = "\\boxed{{{}}}"
MARKS = ("<tool_call>", "</tool_call>")
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": look.__name__,
        "description": "Look into a box.",
        "parameters": {
            "type": "object",
            "properties": {"box": {"type": "string", "description": "name of the box, four digits"}},
            "required": ["box"],
        },
    },
}
CHAT_TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\nTools:' }}
    {%- for tool in tools %}
        {{- ' ' + tool.function.name + '(' + tool.function.parameters.properties | join(', ') + ')' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
        {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
        {{- '}</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def sentences() -> Iterator[str]:
    """Yield the texts from which the tokenizer's words are learnt: all messages, and a digit as a word of its own."""
    yield QUESTION.format(box=1)
    yield from (each.format(1) for each in (NUMBER, NEXT, ANSWER))
    yield _said("1")
    yield f"Tools: {look.__name__}(box)"
    yield from ("system\n", "user\n", "assistant\n", "tool\n")


def call(box: str) -> str:
    """Write a call of the tool."""
    return _said(box).join(MARKS)


def _said(box: str) -> str:
    return json.dumps({"name": look.__name__, "arguments": {"box": box}})


def demonstration(box: str, draw: random.Random) -> list[tuple[str, str]]:
    """Return the policy's message of each turn, with the tool's answer; "" after the last."""
    turns: list[tuple[str, str]] = []
    found = box
    for each in path(box):
        if draw.random() >= GOES_ON:
            break
        turns.append((call(each), look(each)))
        found = inside(each)
    return [*turns, (ANSWER.format(found), "")]


def chats(draw: random.Random, count: int) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Draw `count` questions, each with a demonstration."""
    for box in draw.choices(boxes("train", NUM_BOXES), k=count):
        yield QUESTION.format(box=box), demonstration(box, draw)
