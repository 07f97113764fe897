"""Calls that vLLM's own parsers read are read alike, so that a policy is served as it was trained."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.rendering.templated import TemplatedRendering
from agents.rendering.tool_calls.formats import said_in
from tests.support.renderings import Opened
from tests.support.tool_families import SAYS, TOOLS

pytestmark = [pytest.mark.model, pytest.mark.together("vllm"), pytest.mark.prove]

PARSERS = {
    "qwen-2.5": "hermes", "qwen-3": "hermes", "qwen-3-coder": "qwen3_coder", "llama-3.1": "llama3_json",
    "glm-4.5": "glm45", "deepseek-v3": "deepseek_v3", "mistral-v2": "mistral", "mistral-v3": "mistral",
    "mistral-v13": "mistral",
}  # fmt: skip
Calls = list[tuple[str, Any]]


def theirs(rendering: TemplatedRendering, parser: str, text: str) -> tuple[str, Calls]:
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionRequest,
        ChatCompletionToolsParam,
    )
    from vllm.tool_parsers import ToolParserManager

    tools: list[Any] = [ChatCompletionToolsParam.model_validate(tool) for tool in TOOLS]
    tokenizer: Any = rendering._tokenizer
    request = ChatCompletionRequest.model_validate({"messages": [], "tools": TOOLS, "model": "policy"})
    found = ToolParserManager.get_tool_parser(parser)(tokenizer, tools).extract_tool_calls(text, request)
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in found.tool_calls]
    return (found.content or "").strip(), calls


def ours(rendering: TemplatedRendering, text: str) -> tuple[str, Calls]:
    said = said_in(text, rendering._call_format, TOOLS)
    return said.content.strip(), [(call.name, dict(call.arguments)) for call in said.calls]


def called(rendering: TemplatedRendering, arguments: dict[str, Any]) -> str:
    """Return a call as the template writes it."""
    call = {"name": "search", "arguments": json.dumps(arguments, ensure_ascii=False)}
    calls = [{"id": "a1b2c3d4e", "type": "function", "function": call}]
    asked = {"role": "user", "content": "Zq7asked"}
    whole = rendering._rendered(
        [asked, {"role": "assistant", "content": "", "tool_calls": calls}], TOOLS, asks=False
    )
    before = rendering._rendered([asked], TOOLS)
    said = whole.removeprefix(before).removesuffix("\n")
    return said.replace("<think>\n\n</think>\n\n", "").replace(
        "\n<think></think>", ""
    )  # thoughts are read before


PLAIN = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="<>[]\uff5c"),
    max_size=12,
)
ARGUMENTS = st.fixed_dictionaries(
    {"query": PLAIN.filter(lambda text: text.strip() == text and text != "null")},
    optional={
        "most": st.integers(-(2**60), 2**60),
        "exact": st.booleans(),
        "within": st.lists(PLAIN, max_size=2),
    },
)


@pytest.mark.parametrize("name", PARSERS)
def test_a_call_as_the_template_writes_it_is_read_as_vllm_reads_it(name: str, opened: Opened) -> None:
    rendering, says = opened(name), SAYS[name]
    text = says.call.replace("\n<think></think>", "")
    assert ours(rendering, says.before + text) == theirs(rendering, PARSERS[name], says.before + text)
    assert ours(rendering, text)[1] == [("search", {"query": "2+2", "most": 3})]
    assert ours(rendering, "Four.") == theirs(rendering, PARSERS[name], "Four.") == ("Four.", [])


@pytest.mark.parametrize("name", PARSERS)
def test_any_arguments_are_read_as_vllm_reads_them(name: str, opened: Opened) -> None:
    rendering, says = opened(name), SAYS[name]

    @given(arguments=ARGUMENTS)
    @settings(max_examples=40, deadline=None)
    def read_alike(arguments: dict[str, Any]) -> None:
        text = called(rendering, arguments).removesuffix(says.end)
        assert (
            ours(rendering, text) == theirs(rendering, PARSERS[name], text) == ("", [("search", arguments)])
        )

    read_alike()
