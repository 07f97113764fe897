"""The next prompt is what was given, what was sampled, and the template's own tail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agents.rendering.rendering import Rendering
from agents.rendering.templated import load_rendering
from broker.messages import FinishReason, Ids, Turn
from config.run import ModelConfig
from tests.support.chat_families import write_family
from tests.support.tool_families import TOOL_FAMILIES, TOOLS

pytestmark = pytest.mark.model

USER: Turn = {"role": "user", "content": "2+2?"}
RESULTS: list[Turn] = [
    {"role": "tool", "name": "search", "content": "four"},
    {"role": "tool", "name": "search", "content": "4"},
]
# Of each family: what ends a turn with a call, what ends one without, and the text of a call.
QWEN_CALL = '<tool_call>\n{"name": "search", "arguments": {"query": "2+2", "most": 3}}\n</tool_call>'


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {name: write_family(root / name, family) for name, family in TOOL_FAMILIES.items()}


def rendering_of(folder: Path) -> Rendering:
    return load_rendering(ModelConfig(path=str(folder)))


def test_what_a_tool_said_follows_what_was_sampled_as_the_template_renders_it(
    folders: dict[str, Path],
) -> None:
    rendering = rendering_of(folders["qwen-3"])
    given = rendering.first([USER], TOOLS)
    sampled = ids_of(folders["qwen-3"], f"<think>\nadd\n</think>\n\nI look.\n{QWEN_CALL}<|im_end|>")
    spoken = rendering.message(given, sampled, FinishReason.STOP, tools=TOOLS)
    assert spoken.unread == ""
    assert spoken.message["content"] == "I look."
    history = [USER, spoken.message]
    following = rendering.following(
        given, sampled, FinishReason.STOP, history=history, said=RESULTS, tools=TOOLS
    )
    assert following is not None
    np.testing.assert_array_equal(following, rendering.first([*history, *RESULTS], TOOLS))


def ids_of(folder: Path, text: str) -> Ids:
    from transformers import AutoTokenizer

    return np.array(AutoTokenizer.from_pretrained(folder).encode(text, add_special_tokens=False), np.int32)
