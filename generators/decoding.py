"""The journal's completions as text again: token ids back to the very text that the generator gave to the scorers.

In: a run, and its groups as the journal keeps them, without text. Out: text. Used by the tools that show, export and
rescore what was trained on. Whichever engine sampled, its own way of making text is used, so both agree to the letter.
A tokenizer that can't be loaded is a `RunFailed`. transformers imports torch with its tokenizers where torch is
installed, and does without it elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from broker.messages import Completion, FinishReason, Prompt, ScoredGroup
from config.generators import FakeEngine
from config.run import Run
from generators import fake_engine

TextOf = Callable[[Sequence[int], Sequence[int], FinishReason], str]


class Decoder:
    """Texts of one run's completions.

    Args:
        text_of: ids of a prompt, ids of a completion and why it ended to its text.
    """

    def __init__(self, text_of: TextOf) -> None:
        self._text_of = text_of

    def text(self, prompt: Prompt, completion: Completion) -> str:
        """One completion's text, as the generator gave it."""
        return self._text_of(prompt.token_ids.tolist(), completion.token_ids.tolist(), completion.finish_reason)

    def with_text(self, group: ScoredGroup) -> ScoredGroup:
        """The group with every completion's text."""
        prompt = group.rollout.prompt
        spoken = tuple(replace(completion, text=self.text(prompt, completion))
                       for completion in group.rollout.completions)
        return replace(group, rollout=replace(group.rollout, completions=spoken))


def open_decoder(run: Run) -> Decoder:
    """What decodes the completions of `run`.

    Raises:
        RunFailed: its model's tokenizer can't be loaded.
    """
    if isinstance(run.generators.engine, FakeEngine):
        return Decoder(lambda _prompt_ids, token_ids, finish_reason: fake_engine.text_of(token_ids, finish_reason))
    from generators.chat import load_chat

    return Decoder(load_chat(run.model).text)
