"""Calls of tools are read by the format that a template shows; what can't be read has a reason, and nothing crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.rendering.tool_calls.formats import FORMATS, HERMES, CallFormat, format_of, said_in
from agents.rendering.tool_calls.reading import text_of
from tests.support.tool_families import ARGUMENTS, SAYS, TOOL_FAMILIES, TOOLS, mistral_family
from tests.support.tool_families import DEEPSEEK_TOKENS as DEEPSEEK

pytestmark = pytest.mark.process

FAMILIES = {name: family.template for name, family in TOOL_FAMILIES.items()}
SHOWN = {
    "qwen-2.5": "Hermes", "qwen-3": "Hermes", "qwen-3-coder": "Qwen3-Coder", "llama-3.1": "Llama",
    "glm-4.5": "GLM", "deepseek-v3": "DeepSeek", "gpt-oss": "gpt-oss",
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_template_shows_its_format(name: str) -> None:
    assert SHOWN[name] in format_of(FAMILIES[name]).family


@pytest.mark.parametrize("version", ["v2", "v3", "v7", "v11", "v13"])
def test_mistrals_own_templates_show_theirs(version: str) -> None:
    assert format_of(mistral_family(version).template).family == "Mistral"


def test_a_template_without_tools_has_the_format_that_prompts_ask_any_model_for() -> None:
    assert format_of("{{ messages[0].content }}") is HERMES


def of(family: str) -> CallFormat:
    return next(each for each in FORMATS if family in each.family)


SEARCH = [("search", {"query": "2+2", "most": 3})]
TWICE = SEARCH * 2
HERMES_CALL = f'<tool_call>\n{{"name": "search", "arguments": {ARGUMENTS}}}\n</tool_call>'
KIMI = f"<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>"
TAGS = "<parameter=query>\n2+2\n</parameter>\n<parameter=most>\n3\n</parameter>\n</function>"
TYPED = (
    '<tool_call><function=search><parameter=query>\n\na\n\n</parameter><parameter=within>["b"]</parameter>'
    "<parameter=exact>True</parameter><parameter=most>many</parameter><parameter=other>1</parameter>"
    "</function></tool_call>"
)
INVOKE = '<invoke name="search">\n<parameter name="query">2+2</parameter>\n<parameter name="most">3</parameter>\n</invoke>'
V31 = (
    f"{DEEPSEEK['calls▁begin']}{DEEPSEEK['call▁begin']}search{DEEPSEEK['sep']}{ARGUMENTS}"
    f"{DEEPSEEK['call▁end']}{DEEPSEEK['calls▁end']}"
)
# By family: a text, and the content and the calls that it holds.
READ: list[tuple[str, str, str, list[tuple[str, dict[str, Any]]]]] = [
    ("Hermes", "Four.", "Four.", []),
    ("Hermes", HERMES_CALL, "", SEARCH),
    ("Hermes", f"I look.\n{HERMES_CALL}\n{HERMES_CALL}", "I look.", TWICE),
    ("Hermes", HERMES_CALL.removesuffix("\n</tool_call>"), "", SEARCH),  # cut behind the object
    ("Hermes", f"{HERMES_CALL}\nDone.", "Done.", SEARCH),
    (
        "Hermes",
        HERMES_CALL.replace("2+2", "</tool_call>"),
        "",
        [("search", {"query": "</tool_call>", "most": 3})],
    ),
    ("Hermes", '<tool_call>[{"name": "now", "arguments": {}}]</tool_call>', "", [("now", {})]),
    (
        "Hermes",
        HERMES_CALL.replace('"most": 3', '"query": "3"'),
        "",
        [("search", {"query": "3"})],
    ),  # as json.loads
    ("Qwen3-Coder", f"<tool_call>\n<function=search>\n{TAGS}\n</tool_call>", "", SEARCH),
    ("Qwen3-Coder", f"I look.\n<function=search>\n{TAGS}", "I look.", SEARCH),  # without the block's marks
    ("Qwen3-Coder", f"<tool_call>\n<function=search>\n{TAGS}\n</tool_call>\n" * 2, "", TWICE),
    ("Qwen3-Coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>", "", [("now", {})]),
    (
        "Qwen3-Coder",
        TYPED,
        "",
        [("search", {"query": "\na\n", "within": ["b"], "exact": True, "most": "many", "other": "1"})],
    ),
    ("Seed", f"<seed:tool_call>\n<function=search>\n{TAGS}\n</seed:tool_call>", "", SEARCH),
    ("GLM", SAYS["glm-4.5"].call.removeprefix("\n<think></think>\n"), "", SEARCH),
    ("GLM", "<tool_call>now</tool_call>", "", [("now", {})]),
    ("MiniMax", f"<minimax:tool_call>\n{INVOKE}\n{INVOKE}\n</minimax:tool_call>", "", TWICE),
    (
        "gpt-oss",
        f"<|channel|>commentary to=functions.search <|constrain|>json<|message|>{ARGUMENTS}",
        "",
        SEARCH,
    ),
    ("DeepSeek", V31, "", SEARCH),
    ("Kimi", f"I look.<|tool_calls_section_begin|>{KIMI}{KIMI}<|tool_calls_section_end|>", "I look.", TWICE),
    (
        "Command A",
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "search", "parameters": {}}]<|END_ACTION|>',
        "",
        [("search", {})],
    ),
    ("Granite", f'<|tool_call|>[{{"name": "search", "arguments": {ARGUMENTS}}}]', "", SEARCH),
    ("Phi", f'functools[{{"name": "search", "arguments": {ARGUMENTS}}}]', "", SEARCH),
    ("Llama 3", f'<|python_tag|>{{"name": "search", "parameters": {ARGUMENTS}}}', "", SEARCH),
    ("Llama 3", '{"answer": 4}', '{"answer": 4}', []),  # JSON, and no call
    ("Llama 3", "{4}", "{4}", []),
    (
        "Mistral",
        f"I look.[TOOL_CALLS]search[ARGS]{ARGUMENTS}[TOOL_CALLS]search[ARGS]{ARGUMENTS}",
        "I look.",
        TWICE,
    ),
    ("Mistral", f"[TOOL_CALLS]search{ARGUMENTS}", "", SEARCH),
]


@pytest.mark.parametrize(("family", "text", "content", "calls"), READ)
def test_calls_are_read(
    family: str, text: str, content: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    said = said_in(text, of(family), TOOLS)
    assert (said.content, said.unread) == (content, "")
    assert [(call.name, call.arguments) for call in said.calls] == calls


def hermes(arguments: str, name: str = '"search"') -> str:
    return f'<tool_call>{{"name": {name}, "arguments": {arguments}}}</tool_call>'


# By family: a text without a call that can be read, and a part of the reason.
UNREAD = [
    ("Hermes", hermes("{"), "no JSON"),
    ("Hermes", hermes("{'query': '2'}"), "no JSON"),
    ("Hermes", hermes('"{}"'), "the arguments of search are no JSON object"),
    ("Hermes", hermes("{}", name="4"), "the name of a tool is missing, or no name: 4"),
    ("Hermes", hermes("{}", name='"a<b"'), "no name: 'a<b'"),
    ("Hermes", '<tool_call>{"name": "search"}</tool_call>', "a call has no arguments"),
    ("Hermes", "<tool_call>search</tool_call>", "no JSON"),
    ("Hermes", f"<tool_call>{hermes('{}')}", "no JSON"),
    ("Hermes", '<tool_call>{"name": "search", "arguments": {}} and more</tool_call>',
        "</tool_call> is missing behind a call"),
    ("Hermes", hermes('{"most": NaN}'), "NaN is no number of JSON"),
    ("Hermes", hermes('{"most": 1e999}'), "the number 1e999 is too large"),
    ("Hermes", hermes(f'{{"most": {"9" * 5000}}}'), "no JSON: Exceeds the limit"),
    ("Hermes", hermes(f'{{"query": {"[" * 100_000}}}'), "nested too deeply"),
    ("Hermes", hermes(f'{{"query": {"[" * 70 + "]" * 70}}}'), "nested too deeply"),
    ("Hermes", hermes('{"query": "a\nb"}'), "Invalid control character"),
    ("Hermes", hermes("__import__('os').abort()"), "no JSON"),
    ("Qwen3-Coder", "<tool_call>search</tool_call>", "the tool's name is missing"),
    ("Qwen3-Coder", "<tool_call><function=search><parameter=query>2",
        "</parameter> is missing behind the value of query"),
    ("Qwen3-Coder", "<tool_call><function=search>2+2</function></tool_call>", "</function> is missing"),
    ("GLM", "<tool_call>search<arg_key>query</arg_key></tool_call>", "the value of query is missing"),
    ("GLM", "<tool_call>search<arg_key>query</arg_key><arg_value>2</arg_value>", "</tool_call> is missing"),
    ("MiniMax", '<minimax:tool_call><invoke name="search"></minimax:tool_call>', "</invoke> is missing"),
    ("gpt-oss", "<|channel|>commentary to=functions.search<|message|>2+2", "no JSON"),
    ("Kimi", "<|tool_calls_section_begin|><|tool_calls_section_end|>", "a call without a tool's name"),
    ("Llama 3", "<|python_tag|>search(2)", "no JSON"),
    ("Llama 3", '{"name": "search", "parameters": "2"}', "the arguments of search are no JSON object"),
    ("Llama 3", f'{{"name": "search", "parameters": {ARGUMENTS}}} Done.', "more behind a call"),
    ("Mistral", "[TOOL_CALLS]search[ARGS]2", "a call without a tool's name or its arguments"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "text", "reason"), UNREAD)
def test_what_is_no_call_stays_content_with_the_reason(family: str, text: str, reason: str) -> None:
    text = f"I look. {text}" if not family.startswith("Llama") else text
    said = said_in(text, of(family), TOOLS)
    assert (said.content, said.calls) == (text, ())
    assert reason in said.unread
    assert len(said.unread) < 250


def test_one_bad_call_leaves_none() -> None:
    text = f"{HERMES_CALL}\n{hermes('{')}"
    assert said_in(text, HERMES, TOOLS).content == text


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    (call,) = said_in(hermes(r'{"query": "\ud800\u00e9\ud83d\ude00"}'), HERMES, TOOLS).calls
    assert text_of(call.arguments) == '{"query": "?é😀"}'


FRAGMENTS = sorted(
    {
        *(case[1] for case in READ),
        *(sign for each in FORMATS for sign in each.shown_by),
        *(
            "</function>",
            "</parameter>",
            "<parameter=a>",
            "<arg_value>",
            "<invoke name=",
            "{",
            "}",
            "[",
            '"',
            ":",
            "\\ud800",
        ),
        *('{"name": "a", "arguments": {"b": ', "<|message|>", "[ARGS]", "[CALL_ID]", ";", "\n", "functools["),
    }
)


@given(
    call_format=st.sampled_from(FORMATS),
    pieces=st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=8), max_size=8),
    cut=st.integers(0, 400),
)
@settings(max_examples=400, deadline=None)
def test_no_text_breaks_a_reader(call_format: CallFormat, pieces: list[str], cut: int) -> None:
    text = "".join(pieces)[cut // 8 : 400 + cut]
    said = said_in(text, call_format, TOOLS)
    assert not (said.calls and said.unread)
    assert said.calls or said.content == text
    for call in said.calls:
        assert call.name
        assert isinstance(json.loads(text_of(call.arguments).encode()), dict)


@pytest.mark.parametrize(
    "family", ["Hermes", "Qwen3-Coder", "GLM", "MiniMax", "DeepSeek", "Kimi", "Mistral", "Llama 3", "gpt-oss"]
)
def test_a_long_text_takes_no_longer_than_its_length(family: str) -> None:
    call_format = of(family)
    for sign in (
        "<tool_call>",
        "<function=",
        "<arg_key>",
        "{",
        " ",
        "<|tool_call_begin|>",
        "[TOOL_CALLS]",
        "\uff5c",
    ):
        said_in(
            sign * 20_000, call_format, TOOLS
        )  # of the square of it, the test's time limit would not be kept
        said_in("<tool_call>" + sign * 20_000, call_format, TOOLS)
