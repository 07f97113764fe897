"""This module turns a completion's token ids into text, and knows which tokens end a completion.

In: the run's model section, a prompt's ids and sampled ids. Out: text for scorers and people. Used by the worker, in
the generator's process; prompts arrive as ids, so nothing here tokenizes. A tokenizer that can't be loaded stops the
generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from broker.errors import RunFailed
from broker.messages import FinishReason
from config.generators import ScriptedEngineConfig
from config.run import ModelConfig, Run
from generators.engines.scripted import ScriptedChat
from tasks.thoughts import Marks, marks_of, opened_by, told

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_TAIL_TOKENS: Final = (
    48  # of a prompt, searched for an opening mark: one for each byte of it, and some white space
)


class Chat(Protocol):
    """A chat knows what the tokens of a policy say."""

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """Return the tokens that end a completion."""
        ...

    def text(self, prompt_ids: Sequence[int], token_ids: Sequence[int], finish_reason: FinishReason) -> str:
        """Decode one completion of the prompt."""
        ...


class ModelChat:
    """Holds a model's tokenizer and stop tokens, and the marks by which it thinks.

    Args:
        tokenizer: of the model.
        stop_token_ids: those that end a completion.
        marks: as `tasks.thoughts.marks_of` reads them from the model's template and tokens.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, stop_token_ids: frozenset[int], marks: Sequence[Marks] = ()
    ) -> None:
        self.stop_token_ids = stop_token_ids
        self._tokenizer = tokenizer
        self._marks = marks

    def text(self, prompt_ids: Sequence[int], token_ids: Sequence[int], finish_reason: FinishReason) -> str:
        """Decode one completion.

        The stop token at its end is left out. Special tokens inside are kept: a scorer of formats has to see them.
        Where the chat template ends the prompt with a mark that opens a thought, the text begins with that mark.
        Otherwise a thought that was cut off would look like an answer. Marks of another model, which a reader of the
        text would take for this one's, are told apart here: nobody behind the generators knows the model.
        """
        spoken = token_ids[:-1] if finish_reason is FinishReason.STOP else token_ids
        opened = opened_by(self._decode(prompt_ids[-_TAIL_TOKENS:]), self._marks)
        return told(opened + self._decode(spoken), self._marks)

    def _decode(self, token_ids: Sequence[int]) -> str:
        return str(
            self._tokenizer.decode(
                list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )


def open_chat(run: Run, *, is_offline: bool = False) -> Chat:
    """Open the chat of a run's policy. Raises as `load_chat` does."""
    if isinstance(run.generators.engine, ScriptedEngineConfig):
        return ScriptedChat()
    return load_chat(run.model, is_offline=is_offline)


def load_chat(model: ModelConfig, *, is_offline: bool = False) -> ModelChat:
    """Load tokenizer and stop tokens: those of `generation_config.json` and the tokenizer's own end of sequence.

    Args:
        is_offline: look into a folder and the cache, and ask no hub.
    Raises:
        RunFailed: there is no tokenizer, or no token that could end a completion, or no use of the file that names it.
    """
    from transformers import AutoTokenizer

    token = model.hf_token.get_secret_value() if model.hf_token else None
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            model.path,
            revision=model.revision,
            token=token,
            trust_remote_code=model.trust_remote_code,
            local_files_only=is_offline,
        )
    except (OSError, ValueError) as error:
        raise RunFailed(f"model.path={model.path}: its tokenizer can't be loaded: {error}") from error
    stop_token_ids = _generation_stops(model, token, is_offline=is_offline)
    if isinstance(tokenizer.eos_token_id, int):
        stop_token_ids |= {tokenizer.eos_token_id}
    if not stop_token_ids:
        raise RunFailed(
            f"model.path={model.path} names no end-of-sequence token, so no completion would ever stop: "
            "set eos_token in its tokenizer or eos_token_id in its generation_config.json"
        )
    return ModelChat(
        tokenizer, stop_token_ids, marks_of(_template(tokenizer, model), tokenizer.get_added_vocab())
    )


def _template(tokenizer: PreTrainedTokenizerBase, model: ModelConfig) -> str:
    """Return the text of the template that renders the prompts; of several the tokenizer's all."""
    if model.chat_template is not None:
        return model.chat_template.text
    found = tokenizer.chat_template
    return "\n".join(map(str, found.values())) if isinstance(found, dict) else str(found or "")


def _generation_stops(model: ModelConfig, token: str | None, *, is_offline: bool) -> frozenset[int]:
    """Read the ids under `eos_token_id` in the model's generation_config.json: none, one or several.

    Raises:
        RunFailed: transformers refuses the file, or it names what is no id.
    """
    from transformers import GenerationConfig

    try:
        generation = GenerationConfig.from_pretrained(
            model.path, revision=model.revision or "main", token=token, local_files_only=is_offline
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
    return frozenset(each for each in ids if each >= 0)  # -1 stands for none
