"""The chat template that renders a run's prompts: the tokenizer's own, or `model.chat_template`.

In: the policy's tokenizer and section. Out: the same tokenizer with the template, or the line at which a template
failed. Used by the learner and by agents where they load the tokenizer, and by the learner where it writes a model, so
that a model is exported with the template that it was trained with. All rendering is done by transformers in its
sandbox.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from broker.errors import RunFailed
from config.run import ModelConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

KEY: Final = "model.chat_template"
PROBE: Final = ({"role": "user", "content": "Hello"},)
_FRAMES: Final = frozenset(
    {"<template>", "<unknown>"}
)  # jinja's names for the code of a template without a file


def with_template(tokenizer: PreTrainedTokenizerBase, model: ModelConfig) -> PreTrainedTokenizerBase:
    """Return the tokenizer with the section's template, if it has one.

    Raises:
        RunFailed: the template is not valid jinja; the message names its file and the line.
    """
    if model.chat_template is not None:
        tokenizer.chat_template = model.chat_template.text
        if error := syntax_error(tokenizer):
            raise RunFailed(f"{template_name(model)}: {error}")
    return tokenizer


def template_name(model: ModelConfig) -> str:
    """Return a description of the source of the policy's template."""
    template = model.chat_template
    if template is None:
        return f"the chat template of {model.path}"
    return KEY if template.file is None else f"{KEY}={template.file}"


def syntax_error(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the line and the reason of a syntax error in a tokenizer's template; "" if there is none."""
    from jinja2 import TemplateSyntaxError

    try:
        render(tokenizer, PROBE)
    except TemplateSyntaxError as error:
        return reason_of(error)
    except Exception:  # noqa: BLE001 - a template may raise anything; it may need other turns
        return ""
    return ""


def render(
    tokenizer: PreTrainedTokenizerBase, chat: Any, *, add_generation_prompt: bool = True, **arguments: Any
) -> str:
    """Return the text that a chat is rendered to. Raises any exception of the template."""
    return str(
        tokenizer.apply_chat_template(
            [dict(turn) for turn in chat],
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            **arguments,
        )
    )


def reason_of(error: Exception) -> str:
    """Return why a template failed, after the line if that is known."""
    line = getattr(error, "lineno", None) or _line(error.__traceback__)
    where = "" if line is None else f"line {line}: "
    return f"{where}{type(error).__name__}: {error}"


def _line(trace: TracebackType | None) -> int | None:
    """Return the innermost line of a template in a traceback."""
    found = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in _FRAMES:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
