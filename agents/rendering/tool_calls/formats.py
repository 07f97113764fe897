"""Define the formats of tool calls in model families, and recognize a model's format by its template.

In: a template; the policy's text after its thought; its tools. Out: the text outside the calls, and the calls. A text
with an unreadable call has no calls at all: the policy gets the reason. The formats are those of published chat
templates. Pure; nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.rendering.tool_calls import named_calls, object_calls, tagged_calls
from agents.rendering.tool_calls.reading import ToolCall, Unreadable
from broker.messages import Turn

Schemas = Mapping[str, Mapping[str, Any]]  # tool -> parameter -> its JSON schema


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormat:
    """A family's format of tool calls."""

    family: str  # of models, for people
    shown_by: tuple[str, ...]  # texts that a template of the format contains, all of them
    begins: re.Pattern[str]  # the text before is content
    read: Callable[[str, Schemas], tuple[list[ToolCall], str]]  # returns the calls, and the other text

    def is_shown_by(self, template: str) -> bool:
        """Return whether a template writes calls like this."""
        return all(sign in template for sign in self.shown_by)


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The parsed text after a thought."""

    content: str
    calls: Sequence[ToolCall] = ()
    unread: str = ""  # why an apparent call is invalid


def schemas_of(tools: Sequence[Turn]) -> Schemas:
    """Return the parameters of tools in the format of OpenAI's API."""
    functions = [tool.get("function") or {} for tool in tools]
    return {
        str(function.get("name")): (function.get("parameters") or {}).get("properties") or {}
        for function in functions
    }


def said_in(
    text: str, call_format: CallFormat, tools: Sequence[Turn], most_calls: int | None = None
) -> ParsedText:
    """Return the content and the calls of a text; more than `most_calls` are invalid."""
    first = call_format.begins.search(text)
    if first is None:
        return ParsedText(text)
    try:
        calls, beside = call_format.read(text[first.start() :], schemas_of(tools))
    except Unreadable as error:
        return ParsedText(text, unread=str(error))
    if not calls:
        return ParsedText(text)
    if most_calls is not None and len(calls) > most_calls:
        return ParsedText(
            text, unread=f"{len(calls)} calls in one turn; this model takes {most_calls} at a time"
        )
    return ParsedText((text[: first.start()].rstrip() + beside.rstrip()).lstrip("\n"), calls)


_SEP: Final = "\uff5c"
_DEEPSEEK: Final = {
    name: f"<{_SEP}tool\u2581{name}{_SEP}>"
    for name in ("calls\u2581begin", "calls\u2581end", "call\u2581begin", "call\u2581end", "sep")
}


def _deepseek() -> CallFormat:
    begin, sep = _DEEPSEEK["call\u2581begin"], _DEEPSEEK["sep"]
    head = (
        rf"{re.escape(begin)}\s*(?:function{re.escape(sep)}(?P<name>[^\n<{_SEP}]+)\s*```json\s*"
        rf"|(?P<name2>[^\n<{_SEP}]+){re.escape(sep)}\s*)"
    )
    tail = rf"\s*(?:```)?\s*(?:{re.escape(_DEEPSEEK['call▁end'])})?"
    around = (_DEEPSEEK["calls\u2581begin"], _DEEPSEEK["calls\u2581end"])
    return CallFormat(
        family="DeepSeek V3, V3.1, R1-0528",
        shown_by=(_DEEPSEEK["calls\u2581begin"],),
        begins=re.compile(rf"{re.escape(around[0])}|{re.escape(begin)}"),
        read=named_calls.reader(head, tail, around),
    )


# In order: a template with the signs of several has the first.
FORMATS: Final = (
    CallFormat(
        family="Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5",
        shown_by=("<tool_call>", "<function=", "<parameter="),
        begins=re.compile(r"<tool_call>|<function="),
        read=tagged_calls.reader(tagged_calls.coder_tags("<tool_call>", "</tool_call>")),
    ),
    CallFormat(
        family="Seed-OSS",
        shown_by=("<seed:tool_call>",),
        begins=re.compile(r"<seed:tool_call>"),
        read=tagged_calls.reader(tagged_calls.coder_tags("<seed:tool_call>", "</seed:tool_call>")),
    ),
    CallFormat(
        family="GLM 4.5 and later",
        shown_by=("<tool_call>", "<arg_key>"),
        begins=re.compile(r"<tool_call>"),
        read=tagged_calls.reader(tagged_calls.GLM),
    ),
    CallFormat(
        family="MiniMax M2",
        shown_by=("<minimax:tool_call>",),
        begins=re.compile(r"<minimax:tool_call>"),
        read=tagged_calls.reader(tagged_calls.MINIMAX),
    ),
    CallFormat(
        family="gpt-oss (harmony)",
        shown_by=("<|channel|>", "to=functions."),
        begins=re.compile(
            r"(?:<\|end\|>)?(?:<\|start\|>assistant)?(?:<\|channel\|>commentary)?\s{0,9}to=functions\."
        ),
        read=named_calls.reader(
            r"(?:<\|start\|>assistant)?(?:<\|channel\|>commentary)?\s{0,9}to=functions\.(?P<name>[\w.:/-]+)\s*"
            r"(?:<\|channel\|>\w+\s*)?(?:<\|constrain\|>)?\s*(?:json)?\s*<\|message\|>",
            r"\s*(?:<\|call\|>|<\|end\|>)?",
        ),
    ),
    _deepseek(),
    CallFormat(
        family="Kimi K2",
        shown_by=("<|tool_calls_section_begin|>",),
        begins=re.compile(r"<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>"),
        read=named_calls.reader(
            r"<\|tool_call_begin\|>\s*(?P<id>(?:functions\.)?(?P<name>[\w./-]+):\d+)\s*"
            r"<\|tool_call_argument_begin\|>\s*",
            r"\s*(?:<\|tool_call_end\|>)?",
            ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        ),
    ),
    CallFormat(
        family="Mistral",
        shown_by=("[TOOL_CALLS]",),
        begins=re.compile(r"\[TOOL_CALLS\]"),
        read=named_calls.read_mistral,
    ),
    CallFormat(
        family="Command A, Command R7B",
        shown_by=("<|START_ACTION|>",),
        begins=re.compile(r"<\|START_ACTION\|>"),
        read=object_calls.reader("<|START_ACTION|>", "<|END_ACTION|>", keys=("tool_name", "parameters")),
    ),
    CallFormat(
        family="Qwen2.5, Qwen3, Hermes, EXAONE 4, SmolLM3",
        shown_by=("<tool_call>",),
        begins=re.compile(r"<tool_call>"),
        read=object_calls.reader("<tool_call>", "</tool_call>"),
    ),
    CallFormat(
        family="Granite 3",
        shown_by=("<|tool_call|>",),
        begins=re.compile(r"<\|tool_call\|>"),
        read=object_calls.reader("<|tool_call|>", ""),
    ),
    CallFormat(
        family="Phi-4-mini",
        shown_by=("functools",),
        begins=re.compile(r"functools(?=\s*\[)"),
        read=object_calls.reader("functools", ""),
    ),
    CallFormat(
        family="Llama 3",
        shown_by=("<|python_tag|>",),
        begins=re.compile(r"<\|python_tag\|>|\A\s*\{"),
        read=object_calls.read_llama,
    ),
    CallFormat(
        family="Llama 3.2",
        shown_by=("<|start_header_id|>", '"parameters"'),
        begins=re.compile(r"<\|python_tag\|>|\A\s*\{"),
        read=object_calls.read_llama,
    ),
)
HERMES: Final = next(each for each in FORMATS if each.shown_by == ("<tool_call>",))


def format_of(template: str) -> CallFormat:
    """Return a template's format; Hermes' for none, which prompts can ask of any model."""
    return next((each for each in FORMATS if each.is_shown_by(template)), HERMES)
