"""Tokenizer folders of families of models, made here: templates of the published shape, over an alphabet of bytes.

A shape is what matters to somebody who changes a template: the marks, the system's turn, what a chat may have, where
the answer begins, in which file the template is, and what the folder says of its ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QWEN = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, made by a cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, made by a cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant") %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
QWEN3 = """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- if loop.last %}
            {{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' + message.content.split('</think>')[-1] }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + message.content.split('</think>')[-1].lstrip('\\n') }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
LLAMA = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' "
    "+ message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
LLAMA31 = """\
{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}"
    "{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token }}{% else %}"
    "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
MISTRAL3 = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- endif %}
{%- endfor %}
"""
_BAR, _LOW = "\uff5c", "\u2581"
BEGIN, END = f"<{_BAR}begin{_LOW}of{_LOW}sentence{_BAR}>", f"<{_BAR}end{_LOW}of{_LOW}sentence{_BAR}>"
USER, ASSISTANT = f"<{_BAR}User{_BAR}>", f"<{_BAR}Assistant{_BAR}>"
DEEPSEEK = (
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
    "{% set ns = namespace(system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}"
    "{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}"
    "{%- for message in messages %}{%- if message['role'] == 'user' %}"
    f"{{{{'{USER}' + message['content']}}}}{{%- endif %}}"
    "{%- if message['role'] == 'assistant' %}{% set content = message['content'] %}{% if '</think>' in content %}"
    "{% set content = content.split('</think>')[-1] %}{% endif %}"
    f"{{{{'{ASSISTANT}' + content + '{END}'}}}}{{%- endif %}}{{%- endfor %}}"
    f"{{% if add_generation_prompt %}}{{{{'{ASSISTANT}'}}}}{{% endif %}}"
)


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a family's folder says."""

    template: str
    end: str  # of a turn
    tokenizer_end: str  # what its tokenizer_config.json names
    marks: Sequence[str]  # other tokens
    model_type: str
    bos: str | None = None
    config_ends: Sequence[str] = ()  # of config.json; one is no list there
    generation_ends: Sequence[str] | None = None  # of generation_config.json; None: there is no such file
    in_file: bool = False  # the template is in chat_template.jinja


OF_LLAMA: Mapping[str, Any] = {"model_type": "llama", "bos": "<|begin_of_text|>", "end": "<|eot_id|>"}
HEADERS = ("<|start_header_id|>", "<|end_header_id|>")
LLAMA31_ENDS = ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
OF_MISTRAL: Mapping[str, Any] = {
    "model_type": "mistral",
    "bos": "<s>",
    "end": "</s>",
    "tokenizer_end": "</s>",
    "config_ends": ("</s>",),
}
FAMILIES = {
    "qwen": Family(  # a base model: its files name the end of a text, and not that of a turn
        template=QWEN,
        end="<|im_end|>",
        tokenizer_end="<|endoftext|>",
        marks=("<|endoftext|>", "<|im_start|>"),
        model_type="qwen2",
        config_ends=("<|endoftext|>",),
        generation_ends=("<|endoftext|>",),
    ),
    "llama": Family(
        template=LLAMA,
        tokenizer_end="<|end_of_text|>",
        marks=("<|begin_of_text|>", "<|end_of_text|>", *HEADERS),
        config_ends=("<|end_of_text|>",),
        generation_ends=("<|end_of_text|>", "<|eot_id|>"),
        **OF_LLAMA,
    ),
    "llama-3.1": Family(
        template=LLAMA31,
        tokenizer_end="<|eot_id|>",
        marks=("<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", *HEADERS),
        config_ends=LLAMA31_ENDS,
        generation_ends=LLAMA31_ENDS,
        in_file=True,
        **OF_LLAMA,
    ),
    "gemma": Family(
        template=GEMMA,
        end="<end_of_turn>",
        tokenizer_end="<eos>",
        marks=("<bos>", "<eos>", "<start_of_turn>"),
        model_type="gemma2",
        bos="<bos>",
        config_ends=("<eos>", "<end_of_turn>"),
        in_file=True,
    ),
    "mistral": Family(template=MISTRAL, marks=("<s>",), generation_ends=("</s>",), **OF_MISTRAL),
    "mistral-3": Family(template=MISTRAL3, marks=("<s>", "[INST]", "[/INST]"), in_file=True, **OF_MISTRAL),
    "deepseek": Family(  # the first distilled models, whose template left the thought to the model
        template=DEEPSEEK,
        end=END,
        tokenizer_end=END,
        marks=(BEGIN, USER, ASSISTANT),
        model_type="llama",
        bos=BEGIN,
        config_ends=(END,),
        generation_ends=(END,),
    ),
}


def write_family(folder: Path, family: Family, **changes: Any) -> Path:
    """Return a folder of such a model: a tokenizer, its template, what ends an answer, and a file in place of weights.

    Args:
        folder: to make.
        family: what is said.
        changes: other keys of tokenizer_config.json.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = {
        character: number for number, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))
    }
    backend = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=family.bos,
        eos_token=family.tokenizer_end,
        additional_special_tokens=[*family.marks, family.end],
    )
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    if family.in_file:
        (folder / "chat_template.jinja").write_text(family.template)
    else:
        settings["chat_template"] = family.template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | changes))

    def ids(tokens: Sequence[str]) -> Any:
        found = [tokenizer.convert_tokens_to_ids(token) for token in tokens]
        return found[0] if len(found) == 1 else found

    config = {"model_type": family.model_type, "eos_token_id": ids(family.config_ends)}
    (folder / "config.json").write_text(json.dumps(config))
    if family.generation_ends is not None:
        said = {"temperature": 0.7, "eos_token_id": ids(family.generation_ends)}
        (folder / "generation_config.json").write_text(json.dumps(said))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder
