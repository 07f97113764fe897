"""Decode the journal's token ids to the exact text that the generator gave to the scorers.

In: a run, and its groups from the journal, without text. Out: text. Used by the tools that show, export and rescore
trained groups. The text is made as the sampling engine makes it, so both are identical. A tokenizer that can't be
loaded, or that a hub does not deliver in time, is a `RunFailed`. transformers imports torch with its tokenizers where
torch is installed, and works without torch elsewhere.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from pathlib import Path

from msgspec.structs import replace

from broker.errors import RunFailed
from broker.messages import Completion, FinishReason, Prompt, ScoredGroup
from config.run import ModelConfig, Run
from generators.chat import Chat, open_chat
from tasks.model_chat import load_chat

log = logging.getLogger(__name__)

HUB_S = 60.0  # for a tokenizer that is neither in a folder nor in the cache: a few megabytes


class CompletionDecoder:
    """Decode one run's completions.

    Args:
        chat: of the run's policy.
    """

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def text(self, prompt: Prompt, completion: Completion) -> str:
        """Return one completion's text, as its scorer got it.

        For an episode this is the text of the last contiguous sampled tokens, and "" for none. An episode may be cut
        after a complete turn, which then ends with a stop token.
        """
        if not completion.segments:
            return ""
        last = completion.segments[-1]
        begin = last.last_turn
        context = last.prompt_ids if len(last.prompt_ids) else prompt.token_ids
        said = last.token_ids[begin : last.policy_spans[-1].first + last.policy_spans[-1].count].tolist()
        finish = completion.finish_reason
        if completion.ended_by is not None:
            finish = FinishReason.STOP if said[-1] in self._chat.stop_token_ids else FinishReason.LENGTH
        return self._chat.text([*context.tolist(), *last.token_ids[:begin].tolist()], said, finish)

    def with_text(self, group: ScoredGroup) -> ScoredGroup:
        """Return the group with every completion's text."""
        prompt = group.rollout.prompt
        spoken = tuple(
            replace(completion, text=self.text(prompt, completion))
            for completion in group.rollout.completions
        )
        return replace(group, rollout=replace(group.rollout, completions=spoken))


def open_decoder(run: Run) -> CompletionDecoder:
    """Open the decoder of a run's completions.

    Raises:
        RunFailed: the model's tokenizer can't be loaded, or is not local and the hub does not deliver it in time.
    """
    try:
        return CompletionDecoder(open_chat(run, is_offline=True))
    except RunFailed:
        if Path(run.model.path).is_dir():
            raise
    log.warning(
        "waiting at_most_s=%.0f for=the hub: the tokenizer of model.path=%s is not on this machine",
        HUB_S,
        run.model.path,
    )
    return CompletionDecoder(_from_hub(run.model))


def _from_hub(model: ModelConfig) -> Chat:
    """Load from the hub, in a thread that may be abandoned: the library tries for minutes, and can't be stopped."""
    loaded: Future[Chat] = Future()

    def load() -> None:
        try:
            loaded.set_result(load_chat(model))
        except BaseException as error:  # noqa: BLE001 - any: the waiting thread raises it
            loaded.set_exception(error)

    threading.Thread(target=load, name="hub", daemon=True).start()
    try:
        return loaded.result(HUB_S)
    except TimeoutError:
        raise RunFailed(
            f"model.path={model.path}: its tokenizer is in no folder here and not in the cache, and the "
            f"hub has not given it in {HUB_S:.0f} s. Where there is a network: hf download {model.path} "
            "--exclude '*.safetensors' '*.bin'"
        ) from None
