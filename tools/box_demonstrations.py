"""What the second demo's model is warm-started with: chats about boxes, in which a policy looks, follows, or guesses.

In: the train split of the boxes. Out: token ids and labels, as `tools.make_demo_model` trains on them; the words of
the tokenizer, and its chat template. Used by that module alone. GOES_ON of the demonstrations' turns do what leads to
the number: they look into the box, and into the next one where a box names it. The others make a number up, or answer
with the name of the next box. So the model knows how to call the tool, how to read what it answers, and how to answer
in a box, and leaves it to RL to find out what pays.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tasks.boxes import NEXT, NUMBER, QUESTION, boxes, inside, look, path

if TYPE_CHECKING:
    from transformers import Qwen2Tokenizer

NUM_BOXES = 4096  # of the train split, those that are demonstrated
GOES_ON = 0.4  # of the turns in which looking, or looking further, is right
ANSWER = "\\boxed{{{}}}"
TOOL_CALL, TOOL_CALL_END = "<tool_call>", "</tool_call>"
TOOL = {
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
    """Yield what the tokenizer's words are learnt from: all that is said, without a digit."""
    yield QUESTION.format(box="")
    yield from (each.format("") for each in (NUMBER, NEXT, ANSWER))
    yield call("")
    yield f"Tools: {look.__name__}(box)"
    yield from ("system\n", "user\n", "assistant\n", "tool\n")


def call(box: str) -> str:
    """Write a call of the tool."""
    said = json.dumps({"name": look.__name__, "arguments": {"box": box}})
    return f"{TOOL_CALL}{said}{TOOL_CALL_END}"


def demonstration(box: str, draw: random.Random) -> list[tuple[str, str]]:
    """Return what the policy says in each turn, with what the tool answers; "" behind the last."""
    turns: list[tuple[str, str]] = []
    found = box
    for each in path(box):
        if draw.random() >= GOES_ON:
            break
        turns.append((call(each), look(each)))
        found = inside(each)
    return [*turns, (ANSWER.format(found), "")]


def rows(tokenizer: Qwen2Tokenizer, draw: random.Random) -> Iterator[tuple[list[int], list[bool]]]:
    """Yield token ids, and whether the policy said each, without end."""
    pool = boxes("train", NUM_BOXES)
    tails: dict[str, list[int]] = {}

    def encoded(text: str) -> list[int]:
        found: Any = tokenizer(text)["input_ids"]
        return list(found)

    while True:
        box = draw.choice(pool)
        if box not in tails:
            chat = [{"role": "user", "content": QUESTION.format(box=box)}]
            tails[box] = list(
                tokenizer.apply_chat_template(
                    chat, tools=[TOOL], add_generation_prompt=True, return_dict=False
                )
            )
        ids = list(tails[box])
        is_said = [False] * len(ids)
        for said, told in demonstration(box, draw):
            spoken = encoded(f"{said}<|im_end|>")
            read = encoded(f"\n<|im_start|>tool\n{told}<|im_end|>\n<|im_start|>assistant\n") if told else []
            ids += spoken + read
            is_said += [True] * len(spoken) + [False] * len(read)
        yield ids, is_said
