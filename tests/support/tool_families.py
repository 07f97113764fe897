"""Families of models whose templates have tools: of the published shape, over an alphabet of bytes.

Beside what `chat_families` says of a shape: how tools are listed, how a call and its answer are written, what is
dropped from the history, and which token ends a turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.chat_families import (
    ASSISTANT,
    BEGIN,
    END,
    HEADERS,
    LLAMA31_ENDS,
    OF_LLAMA,
    OF_MISTRAL,
    USER,
    Family,
    write_family,
)

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Looks things up.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "most": {"type": "integer"},
                    "exact": {"type": "boolean"},
                    "within": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["query"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
    },
]

_CHATML_TOOLS = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nCALLS<|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
"""
_CHATML_RESULTS = """\
    {%- elif message.role == "tool" %}
        {%- if loop.first or messages[loop.index0 - 1].role != "tool" %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != "tool" %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
_HERMES_CALL = (
    '<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call>'
)
QWEN25 = (
    _CHATML_TOOLS.replace("CALLS", _HERMES_CALL)
    + """\
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- set tool_call = tool_call.function %}
            {{- '\\n<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
"""
    + _CHATML_RESULTS
)
# Thoughts stay within the turns behind the last question, and are dropped before it.
QWEN3 = (
    _CHATML_TOOLS.replace("CALLS", _HERMES_CALL)
    + """\
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if not loop.first or content %}
                {{- '\\n' }}
            {%- endif %}
            {%- set tool_call = tool_call.function or tool_call %}
            {{- '<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {%- if tool_call.arguments is string %}
                {{- tool_call.arguments }}
            {%- else %}
                {{- tool_call.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
"""
    + _CHATML_RESULTS
)
# The published way of a call in tags, each value as text.
CODER = (
    _CHATML_TOOLS.replace(
        "CALLS",
        "<tool_call>\\n<function=NAME>\\n<parameter=KEY>\\nVALUE\\n</parameter>\\n</function>\\n</tool_call>",
    )
    + """\
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>assistant\\n' + message.content }}
        {%- for tool_call in message.tool_calls or [] %}
            {{- ('\\n' if message.content or not loop.first else '') + '<tool_call>\\n<function=' + tool_call.function.name + '>\\n' }}
            {%- for name, value in tool_call.function.arguments | items %}
                {{- '<parameter=' + name + '>\\n' + (value if value is string else value | tojson) + '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
"""
    + _CHATML_RESULTS
)
LLAMA31 = """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}
    {%- set system_message = messages[0].content | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' + system_message + '<|eot_id|>' }}
{%- if tools is not none %}
    {%- set first_user_message = messages[0].content | trim %}
    {%- set messages = messages[1:] %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\nRespond in the format {"name": function name, "parameters": dictionary of argument name and its value}.\\n\\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) + '\\n\\n' }}
    {%- endfor %}
    {{- first_user_message + '<|eot_id|>' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception('This model only supports single tool-calls at once!') }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- '}<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}
        {{- (message.content if message.content is string else message.content | tojson) + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
# No token ends a turn: the next turn's own begins, and the policy samples it.
GLM = """\
[gMASK]<sop>
{%- if tools %}
    {{- '<|system|>\\n# Tools\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools>\\n<tool_call>{function-name}\\n<arg_key>{arg-key-1}</arg_key>\\n<arg_value>{arg-value-1}</arg_value>\\n</tool_call>' }}
{%- endif %}
{%- for m in messages %}
    {%- if m.role == 'user' %}
        {{- '<|user|>\\n' + m.content }}
    {%- elif m.role == 'system' %}
        {{- '<|system|>\\n' + m.content }}
    {%- elif m.role == 'assistant' %}
        {{- '<|assistant|>' }}
        {%- if m.reasoning_content is string and loop.last %}
            {{- '\\n<think>' + m.reasoning_content.strip() + '</think>' }}
        {%- else %}
            {{- '\\n<think></think>' }}
        {%- endif %}
        {%- if m.content.strip() %}
            {{- '\\n' + m.content.strip() }}
        {%- endif %}
        {%- for tc in m.tool_calls or [] %}
            {{- '\\n<tool_call>' + tc.function.name }}
            {%- for k, v in tc.function.arguments | items %}
                {{- '\\n<arg_key>' + k + '</arg_key>\\n<arg_value>' + (v if v is string else v | tojson) + '</arg_value>' }}
            {%- endfor %}
            {{- '\\n</tool_call>' }}
        {%- endfor %}
    {%- elif m.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|observation|>' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' }}
{%- endif %}
"""
DEEPSEEK_TOKENS = {
    name: USER[:2] + f"tool\u2581{name}" + USER[-2:]
    for name in (
        *("calls\u2581begin", "calls\u2581end", "call\u2581begin", "call\u2581end", "sep"),
        *("outputs\u2581begin", "outputs\u2581end", "output\u2581begin", "output\u2581end"),
    )
}
# Arguments are taken as text, and nothing says that the policy speaks after a tool's answer.
DEEPSEEK = f"""\
{{{{- bos_token }}}}
{{%- set ns = namespace(is_tool=false) %}}
{{%- for tool in tools or [] %}}
    {{{{- '## ' + tool.function.name + '\\n' }}}}
{{%- endfor %}}
{{%- for message in messages %}}
    {{%- if message.role == 'system' %}}
        {{{{- message.content }}}}
    {{%- elif message.role == 'user' %}}
        {{%- set ns.is_tool = false %}}
        {{{{- '{USER}' + message.content }}}}
    {{%- elif message.role == 'assistant' %}}
        {{%- set content = message.content.split('</think>')[-1] %}}
        {{{{- ('{DEEPSEEK_TOKENS["outputs▁end"]}' if ns.is_tool else '{ASSISTANT}') + content }}}}
        {{%- set ns.is_tool = false %}}
        {{%- for tool in message.tool_calls or [] %}}
            {{{{- '{DEEPSEEK_TOKENS["calls▁begin"]}' if loop.first else '\\n' }}}}
            {{{{- '{DEEPSEEK_TOKENS["call▁begin"]}' + tool.type + '{DEEPSEEK_TOKENS["sep"]}' + tool.function.name + '\\n```json\\n' + tool.function.arguments + '\\n```{DEEPSEEK_TOKENS["call▁end"]}' }}}}
            {{{{- '{DEEPSEEK_TOKENS["calls▁end"]}' if loop.last }}}}
        {{%- endfor %}}
        {{{{- '{END}' }}}}
    {{%- elif message.role == 'tool' %}}
        {{{{- '\\n' if ns.is_tool else '{DEEPSEEK_TOKENS["outputs▁begin"]}' }}}}
        {{{{- '{DEEPSEEK_TOKENS["output▁begin"]}' + message.content + '{DEEPSEEK_TOKENS["output▁end"]}' }}}}
        {{%- set ns.is_tool = true %}}
    {{%- endif %}}
{{%- endfor %}}
{{%- if ns.is_tool %}}
    {{{{- '{DEEPSEEK_TOKENS["outputs▁end"]}' }}}}
{{%- elif add_generation_prompt %}}
    {{{{- '{ASSISTANT}' }}}}
{{%- endif %}}
"""
# Three tokens end a turn: in the history an answer ends with another one than the policy ends it with.
HARMONY = """\
{{- '<|start|>system<|message|>You are a model.<|end|>' }}
{%- if tools %}
    {{- '<|start|>developer<|message|># Tools\\n' }}
    {%- for tool in tools %}
        {{- 'type ' + tool.function.name + '\\n' }}
    {%- endfor %}
    {{- 'Calls to these tools must go to the commentary channel: to=functions.NAME<|end|>' }}
{%- endif %}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- if message.tool_calls %}
            {%- if message.tool_calls | length > 1 %}
                {{- raise_exception('Only one call at a time') }}
            {%- endif %}
            {%- if message.thinking %}
                {{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}
            {%- endif %}
            {%- set tool_call = message.tool_calls[0].function %}
            {{- '<|start|>assistant to=functions.' + tool_call.name + '<|channel|>commentary json<|message|>' }}
            {{- tool_call.arguments | tojson }}
            {{- '<|call|>' }}
            {%- set last_tool_call.name = tool_call.name %}
        {%- else %}
            {%- set end = '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' %}
            {{- '<|start|>assistant<|channel|>final<|message|>' + message.content + end }}
            {%- set last_tool_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' %}
        {%- if last_tool_call.name is none %}
            {{- raise_exception('Message has tool role, but there was no previous assistant message with a tool call!') }}
        {%- endif %}
        {{- '<|start|>functions.' + last_tool_call.name + ' to=assistant<|channel|>commentary<|message|>' + message.content | tojson + '<|end|>' }}
    {%- else %}
        {{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant' }}
{%- endif %}
"""
OF_QWEN: dict[str, Any] = {
    "end": "<|im_end|>",
    "tokenizer_end": "<|im_end|>",
    "model_type": "qwen2",
    "config_ends": ("<|im_end|>",),
    "generation_ends": ("<|im_end|>", "<|endoftext|>"),
}
_QWEN_MARKS = ("<|endoftext|>", "<|im_start|>", "<tool_call>", "</tool_call>")
TOOL_FAMILIES = {
    "qwen-2.5": Family(template=QWEN25, marks=_QWEN_MARKS, **OF_QWEN),
    "qwen-3": Family(template=QWEN3, marks=(*_QWEN_MARKS, "<think>", "</think>"), **OF_QWEN),
    "qwen-3-coder": Family(template=CODER, marks=_QWEN_MARKS, **OF_QWEN),
    "llama-3.1": Family(
        template=LLAMA31,
        tokenizer_end="<|eot_id|>",
        marks=("<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|python_tag|>", *HEADERS),
        config_ends=LLAMA31_ENDS,
        generation_ends=LLAMA31_ENDS,
        **OF_LLAMA,
    ),
    "glm-4.5": Family(
        template=GLM,
        end="<|user|>",
        tokenizer_end="<|endoftext|>",
        marks=(
            *("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|assistant|>", "<|observation|>"),
            *("<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>"),
            *("<arg_value>", "</arg_value>"),
        ),
        model_type="glm4_moe",
        config_ends=("<|endoftext|>", "<|user|>", "<|observation|>"),
    ),
    "deepseek-v3": Family(
        template=DEEPSEEK,
        end=END,
        tokenizer_end=END,
        marks=(BEGIN, USER, ASSISTANT, *DEEPSEEK_TOKENS.values()),
        model_type="deepseek_v3",
        bos=BEGIN,
        config_ends=(END,),
    ),
    "gpt-oss": Family(
        template=HARMONY,
        end="<|return|>",
        tokenizer_end="<|return|>",
        marks=("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>"),
        model_type="gpt_oss",
        config_ends=("<|return|>", "<|call|>"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Says:
    """What a policy of a family samples: a turn that calls `search`, and the token that ends it."""

    call: str
    end: str
    id: str | None = None  # of the call, where the model writes one
    before: str = ""  # of the call, that is content


ARGUMENTS = '{"query": "2+2", "most": 3}'
_HERMES = f'<tool_call>\n{{"name": "search", "arguments": {ARGUMENTS}}}\n</tool_call>'
_TAGS = "<parameter=query>\n2+2\n</parameter>\n<parameter=most>\n3\n</parameter>"
_GLM = (
    "<arg_key>query</arg_key>\n<arg_value>2+2</arg_value>\n<arg_key>most</arg_key>\n<arg_value>3</arg_value>"
)
_ID = "a1b2c3d4e"
SAYS = {
    "qwen-2.5": Says(before="I look.", call=f"\n{_HERMES}", end="<|im_end|>"),
    "qwen-3": Says(before="I look.", call=f"\n{_HERMES}", end="<|im_end|>"),
    "qwen-3-coder": Says(
        before="I look.",
        call=f"\n<tool_call>\n<function=search>\n{_TAGS}\n</function>\n</tool_call>",
        end="<|im_end|>",
    ),
    "llama-3.1": Says(call=f'{{"name": "search", "parameters": {ARGUMENTS}}}', end="<|eot_id|>"),
    "glm-4.5": Says(
        call=f"\n<think></think>\n<tool_call>search\n{_GLM}\n</tool_call>", end="<|observation|>"
    ),
    "deepseek-v3": Says(
        before="I look.",
        call=DEEPSEEK_TOKENS["calls▁begin"]
        + DEEPSEEK_TOKENS["call▁begin"]
        + f"function{DEEPSEEK_TOKENS['sep']}search\n```json\n{ARGUMENTS}\n```"
        + DEEPSEEK_TOKENS["call▁end"]
        + DEEPSEEK_TOKENS["calls▁end"],
        end=END,
    ),
    "gpt-oss": Says(
        call=f" to=functions.search<|channel|>commentary json<|message|>{ARGUMENTS}", end="<|call|>"
    ),
    "mistral-v2": Says(call=f'[TOOL_CALLS] [{{"name": "search", "arguments": {ARGUMENTS}}}]', end="</s>"),
    "mistral-v3": Says(
        call=f'[TOOL_CALLS] [{{"name": "search", "arguments": {ARGUMENTS}, "id": "{_ID}"}}]',
        end="</s>",
        id=_ID,
    ),
    "mistral-v7": Says(
        call=f'[TOOL_CALLS] [{{"name": "search", "arguments": {ARGUMENTS}, "id": "{_ID}"}}]',
        end="</s>",
        id=_ID,
    ),
    "mistral-v11": Says(call=f"[TOOL_CALLS]search[CALL_ID]{_ID}[ARGS]{ARGUMENTS}", end="</s>", id=_ID),
    "mistral-v13": Says(call=f"[TOOL_CALLS]search[ARGS]{ARGUMENTS}", end="</s>"),
}


@cache
def mistral_family(version: str) -> Family:
    """Return a family with the template that Mistral's own package writes for a version of its tokenizers."""
    from mistral_common.integrations.chat_templates.chat_templates import generate_chat_template
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    template = generate_chat_template(
        spm=version in {"v1", "v2", "v3", "v7"},
        tokenizer_version=TokenizerVersion(version),
        image_support=False,
        audio_support=False,
        thinking_support=version == "v13",
        default_system_prompt=None,
        plain_thinking_support=False,
        use_special_token_variables=True,
        model_settings_fields=None,
        reasoning_effort_values=None,
        reasoning_effort_default=None,
    )
    names = ("INST", "AVAILABLE_TOOLS", "TOOL_RESULTS", "SYSTEM_PROMPT")
    marks = ["<s>", "[TOOL_CALLS]", *(f"[{slash}{name}]" for name in names for slash in ("", "/"))]
    marks += {"v7": ["[TOOL_CONTENT]"], "v11": ["[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]"]}.get(version, [])
    marks += ["[ARGS]", "[THINK]", "[/THINK]"] if version == "v13" else []
    return Family(template=template, marks=marks, **OF_MISTRAL)


def family_folder(name: str, root: Path) -> Path:
    """Return the folder of a family of tools, made where it is not there yet."""
    _, is_mistral, version = name.partition("mistral-")
    folder = root / name
    if folder.exists():
        return folder
    return write_family(folder, mistral_family(version) if is_mistral else TOOL_FAMILIES[name])
