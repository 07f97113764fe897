"""A tokenizer with a real vocabulary, from what is installed here.

In: a folder. Out: the tokenizer in it. The vocabulary is Mistral's tekken of 131,072 tokens, which the package
`mistral_common` has and vLLM brings, with a chat template of Qwen3's shape: tools, calls and thoughts as Qwen3's own
has them. Its marks are tokens, as there.
"""

from __future__ import annotations

import base64
import json
from importlib import resources
from pathlib import Path

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter

VOCABULARY = "tekken_240911.json"
END = "<|im_end|>"
MARKS = (
    "<|endoftext|>",
    "<|im_start|>",
    END,
    *("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
)
TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n\\nCall one or several of these functions where they help.\\n\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\n\\nA call is a JSON object between its marks:\\n<tool_call>\\n' }}
    {{- '{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(is_open=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- if ns.is_open and message.role == 'user' and not message.content.startswith('<tool_response>') %}
        {%- set ns.is_open = false %}
        {%- set ns.last = messages|length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set content = message.content %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}
            {{- content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if not loop.first or content %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {%- if call.function.arguments is string %}
                {{- call.function.arguments }}
            {%- else %}
                {{- call.function.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


class _Tekken(TikTokenConverter):
    """Mistral's file, in the place of tiktoken's."""

    @staticmethod
    def load_tiktoken_bpe(tiktoken_url: str) -> dict[bytes, int]:
        """Return each token's bytes -> its rank, as many as the vocabulary has beside its special tokens."""
        found = json.loads(Path(tiktoken_url).read_text(encoding="utf-8"))
        most = found["config"]["default_vocab_size"] - found["config"]["default_num_special_tokens"]
        return {base64.b64decode(one["token_bytes"]): one["rank"] for one in found["vocab"][:most]}


def save_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Write the tokenizer with its template into a folder, and return it. Takes some seconds."""
    file = Path(str(resources.files("mistral_common") / "data" / VOCABULARY))
    pattern = json.loads(file.read_text(encoding="utf-8"))["config"]["pattern"]
    backend = _Tekken(str(file), pattern=pattern).converted()  # type: ignore[no-untyped-call]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END)
    tokenizer.add_tokens(
        [AddedToken(mark, special=mark.startswith("<|"), normalized=False) for mark in MARKS]
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return tokenizer
