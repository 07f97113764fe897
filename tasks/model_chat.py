"""A model's tokenizer, the text of its tokens, and the tokens that end a completion.

In: the run's model section, a prompt's ids and sampled ids. Out: text for scorers and people. Generators and agents
load it, each in its own process; nothing here imports torch. If a tokenizer can't be loaded, the error names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.errors import RunFailed
from broker.messages import FinishReason
from config.run import ModelConfig
from tasks.chat_template import with_template
from tasks.thoughts import Marks, marks_of, opened_by, told

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_TAIL_TOKENS: Final = (
    48  # of a prompt's end, searched for an opening mark: one per byte of the mark, and white space
)


class ModelChat:
    """Hold a model's tokenizer and stop tokens, and its thinking marks.

    Args:
        tokenizer: the model's.
        stop_token_ids: the tokens that end a completion.
        marks: as `tasks.thoughts.marks_of` reads them from the model's template and tokens.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, stop_token_ids: frozenset[int], marks: Sequence[Marks] = ()
    ) -> None:
        self.stop_token_ids = stop_token_ids
        self._tokenizer = tokenizer
        self.marks = marks

    def said(self, prompt_ids: Sequence[int], token_ids: Sequence[int], finish_reason: FinishReason) -> str:
        """Decode one completion unchanged, after the opening mark that its prompt ends with.

        The stop token at its end is left out. Special tokens inside are kept: a scorer of formats has to see them. If
        the chat template ends the prompt with a mark that opens a thought, the text begins with that mark. Otherwise a
        thought that was cut off would look like an answer.
        """
        spoken = token_ids[:-1] if finish_reason is FinishReason.STOP else token_ids
        return opened_by(self._decode(prompt_ids[-_TAIL_TOKENS:]), self.marks) + self._decode(spoken)

    def text(self, prompt_ids: Sequence[int], token_ids: Sequence[int], finish_reason: FinishReason) -> str:
        """Decode one completion for readers that do not know its model.

        Marks of another model, which a reader could mistake for this one's, are resolved here: later processes do not
        know the model.
        """
        return told(self.said(prompt_ids, token_ids, finish_reason), self.marks)

    def _decode(self, token_ids: Sequence[int]) -> str:
        return str(
            self._tokenizer.decode(
                list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )


def load_tokenizer(model: ModelConfig, *, is_offline: bool = False) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer.

    Args:
        model: the model's section.
        is_offline: use only folders and the cache, not the hub.
    Raises:
        RunFailed: it can't be loaded.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            model.path,
            revision=model.revision,
            token=_token(model),
            trust_remote_code=model.trust_remote_code,
            local_files_only=is_offline,
        )
    except (OSError, ValueError) as error:
        raise RunFailed(f"model.path={model.path}: its tokenizer can't be loaded: {error}") from error
    return tokenizer


def load_templated_tokenizer(model: ModelConfig, *, is_offline: bool = False) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer with its own chat template, or with `model.chat_template`.

    Raises:
        RunFailed: it can't be loaded, there is no template, or the template is not valid jinja.
    """
    tokenizer = with_template(load_tokenizer(model, is_offline=is_offline), model)
    if not tokenizer.chat_template:
        raise RunFailed(
            f"model.path={model.path}: its tokenizer has no chat template: name one, model.chat_template=FILE.jinja"
        )
    return tokenizer


def load_chat(model: ModelConfig, *, is_offline: bool = False) -> ModelChat:
    """Load tokenizer and stop tokens: those of `generation_config.json` and the tokenizer's end of sequence.

    Args:
        is_offline: use only folders and the cache, not the hub.
    Raises:
        RunFailed: there is no tokenizer, no token that could end a completion, or the file with the stop tokens is
            invalid.
    """
    tokenizer = load_tokenizer(model, is_offline=is_offline)
    stop_token_ids = _generation_stops(model, is_offline=is_offline)
    if isinstance(tokenizer.eos_token_id, int):
        stop_token_ids |= {tokenizer.eos_token_id}
    if not stop_token_ids:
        raise RunFailed(
            f"model.path={model.path} names no end-of-sequence token, so no completion would ever stop: "
            "set eos_token in its tokenizer or eos_token_id in its generation_config.json"
        )
    return ModelChat(tokenizer, stop_token_ids, own_marks(tokenizer, model))


def own_marks(tokenizer: PreTrainedTokenizerBase, model: ModelConfig) -> Sequence[Marks]:
    """Return the marks between which a model thinks, according to its template and tokens."""
    return marks_of(template_of(tokenizer, model), tokenizer.get_added_vocab())


def template_of(tokenizer: PreTrainedTokenizerBase, model: ModelConfig) -> str:
    """Return the text of the template that renders the prompts; if there are several, all of them."""
    if model.chat_template is not None:
        return model.chat_template.text
    found = tokenizer.chat_template
    return "\n".join(map(str, found.values())) if isinstance(found, dict) else str(found or "")


def _token(model: ModelConfig) -> str | None:
    return model.hf_token.get_secret_value() if model.hf_token else None


def _generation_stops(model: ModelConfig, *, is_offline: bool) -> frozenset[int]:
    """Read the ids under `eos_token_id` in the model's generation_config.json: none, one or several.

    Raises:
        RunFailed: transformers refuses the file, or a value is not an id.
    """
    from transformers import GenerationConfig

    try:
        generation = GenerationConfig.from_pretrained(
            model.path, revision=model.revision or "main", token=_token(model), local_files_only=is_offline
        )
    except OSError:  # the file is optional
        return frozenset()
    except (ValueError, TypeError) as error:
        raise RunFailed(
            f"model.path={model.path}: its generation_config.json can't be used: {error}. Take out what it names"
        ) from error
    found = generation.eos_token_id
    ids = [] if found is None else found if isinstance(found, list | tuple) else [found]
    if wrong := [each for each in ids if not isinstance(each, int) or isinstance(each, bool)]:
        raise RunFailed(
            f"model.path={model.path}: eos_token_id of its generation_config.json has {wrong[0]!r}, which is no "
            "token's id"
        )
    return frozenset(each for each in ids if each >= 0)  # -1 means none
