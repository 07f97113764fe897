"""Templates that vLLM's package carries, as they are: what they hide is objected to, and a tail ends the whole, or is none."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from agents.rendering.rendering import Unrenderable
from agents.rendering.templated import TemplatedRendering, load_rendering
from broker.messages import FinishReason, Ids, Turn
from config.run import ModelConfig
from tests.support.chat_families import write_family
from tests.support.renderings import ids_of, text_of
from tests.support.tool_families import SAYS, TOOL_FAMILIES, TOOLS

pytestmark = pytest.mark.model

FOLDER = Path(str(find_spec("vllm").origin)).parent / "transformers_utils" / "chat_templates"  # type: ignore[union-attr]
HAS_TOOLS = "template_minicpmv45"
STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
ASKED: Turn = {"role": "user", "content": "2+2?"}
AGAIN: Turn = {"role": "user", "content": "and 3+3?"}


def opened(name: str, folder: Path) -> TemplatedRendering:
    template = (FOLDER / f"{name}.jinja").read_text()
    return load_rendering(
        ModelConfig(path=str(write_family(folder, TOOL_FAMILIES["qwen-3"], chat_template=template)))
    )


def followed(
    rendering: TemplatedRendering, text: str, said: list[Turn], finish: FinishReason = STOP
) -> tuple[Ids | None, Ids, int]:
    """Return the next prompt behind a text, the whole rendered anew, and where what was said begins."""
    prompt, sampled = rendering.first([ASKED], TOOLS), ids_of(rendering, text)
    whole = [ASKED, rendering.message(prompt, sampled, finish, tools=TOOLS).message]
    found = rendering.following(prompt, sampled, finish, history=whole, said=said, tools=TOOLS)
    if found is not None:
        np.testing.assert_array_equal(found[: len(prompt) + len(sampled)], np.concatenate([prompt, sampled]))
    return found, rendering.first([*whole, *said], TOOLS), len(prompt) + len(sampled)


def test_each_of_vllms_templates_is_objected_to_or_shows_tools(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    names = sorted(file.stem for file in FOLDER.glob("*.jinja"))
    assert HAS_TOOLS in names
    for name in names:
        with subtests.test(name):
            rendering = opened(name, tmp_path / name)
            assert bool(rendering.objection(TOOLS)) == (name != HAS_TOOLS)
            for finish, text in ((STOP, "Four.<|im_end|>"), (LENGTH, "Fou")):
                try:
                    found, whole, end = followed(rendering, text, [AGAIN], finish)
                except Unrenderable:
                    assert name != HAS_TOOLS
                    continue
                if found is not None:
                    tail = text_of(rendering, found[end:])
                    assert text_of(rendering, whole).endswith(tail.removeprefix("<|im_end|>")), tail


RESULT: Turn = {"role": "tool", "name": "search", "content": "four"}
CALL = f"I look.{SAYS['qwen-3'].call}<|im_end|>"
OPENED = "<|im_start|>assistant\n<think>\n\n</think>\n\n"  # a thought that the prompt has ended already
ANSWERED = "\n<tool_response>\nfour\n</tool_response>"
QUESTION = "<|im_start|>user\nand 3+3?<|im_end|>\n"
CASES: list[tuple[str, FinishReason, list[Turn], str]] = [
    (CALL, STOP, [RESULT], f"\n<|im_start|>user{ANSWERED}<|im_end|>\n{OPENED}"),
    (CALL, STOP, [RESULT, RESULT], f"\n<|im_start|>user{ANSWERED * 2}<|im_end|>\n{OPENED}"),
    (
        f"<think>\nadd\n</think>\n\n{CALL}",
        STOP,
        [RESULT],
        f"\n<|im_start|>user{ANSWERED}<|im_end|>\n{OPENED}",
    ),
    ("Four.<|im_end|>", STOP, [AGAIN], f"\n{QUESTION}{OPENED}"),
    ("Fou", LENGTH, [AGAIN], f"<|im_end|>\n{QUESTION}{OPENED}"),
]


def test_a_template_with_tools_and_thoughts_has_its_own_tail(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    rendering = opened(HAS_TOOLS, tmp_path / "model")
    for text, finish, said, tail in CASES:
        with subtests.test(text, said=len(said)):
            found, whole, end = followed(rendering, text, said, finish)
            assert found is not None
            assert text_of(rendering, found[end:]) == tail
            assert text_of(rendering, whole).endswith(tail)
            message = rendering.message(
                rendering.first([ASKED], TOOLS), ids_of(rendering, text), finish
            ).message
            assert len(message.get("tool_calls", ())) == ("<tool_call>" in text)
            assert message.get("reasoning_content", "") == ("add" if "add" in text else "")
