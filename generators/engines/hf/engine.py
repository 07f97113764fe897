"""The engine on transformers runs anywhere, on CUDA where available; new weights go in between two batches.

In: prompts from the worker's tasks, as many at once as it holds. Out: their completions. The event loop collects the
groups that wait, and one worker thread samples them side by side. `load_weights` runs in the same thread, so never
during a batch, and every completion has one span. An error of a batch reaches each of its callers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from broker.errors import Retryable, RunFailed
from broker.messages import Completion, FinishReason, Prompt, Span
from config.generators import HfEngineConfig
from config.gpus import VARIABLE, why_unseen
from config.run import Run
from generators.chat import Chat, load_chat
from generators.engine import NO_VERSION

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from generators.engines.hf.sampling import SampledCompletion

log = logging.getLogger(__name__)

GATHER_S = 0.005  # groups lease their prompts one after the other: a batch waits so long for each next group

Waiting = tuple[Prompt, "asyncio.Future[tuple[Completion, ...]]"]


class HfEngine:
    """An `Engine` that holds one transformers model."""

    def __init__(self, run: Run, config: HfEngineConfig) -> None:
        self._run = run
        self._config = config
        self._version = NO_VERSION
        self._loaded: tuple[PreTrainedModel, Chat] | None = None
        self._waiting: list[Waiting] = []
        self._arrived = asyncio.Event()
        self._batches: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hf-engine")
        self._closing = threading.Event()

    @property
    def version(self) -> int:
        """Policy version of the weights in the model."""
        return self._version

    @property
    def room(self) -> int:
        """Groups of one batch: more would wait here while another generator has nothing to do."""
        return self._config.batch_groups

    async def start(self) -> None:
        """Build the architecture and load the tokenizer.

        Raises:
            RunFailed: the model's folder or name has no usable config or tokenizer.
        """
        await asyncio.get_running_loop().run_in_executor(self._thread, self._build)
        self._batches = asyncio.create_task(self._run_batches(), name="hf-batches")

    async def sample(self, prompt: Prompt) -> tuple[Completion, ...]:
        """Sample a group in the next batch that has room for it.

        Raises:
            Retryable: the engine was closed meanwhile.
        """
        if self._version == NO_VERSION:
            raise RuntimeError("sample() before load_weights(): the model has no weights")
        if self._closing.is_set():
            raise Retryable("the engine is closed")
        future: asyncio.Future[tuple[Completion, ...]] = asyncio.get_running_loop().create_future()
        self._waiting.append((prompt, future))
        self._arrived.set()
        return await future

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        """Replace the weights after the batch that runs now.

        Raises:
            RunFailed: the files' names or shapes are not the model's; the old weights stay.
        """
        await asyncio.get_running_loop().run_in_executor(self._thread, self._replace_weights, files, version)

    async def close(self) -> None:
        """End the running batch at its next token; its callers and those that wait get a Retryable."""
        self._closing.set()
        if self._batches is not None:
            self._batches.cancel()
            with suppress(asyncio.CancelledError):
                await self._batches
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(Retryable("the engine was closed before it sampled this group"))
        self._waiting.clear()
        await asyncio.to_thread(self._thread.shutdown)
        self._loaded = None

    async def _run_batches(self) -> None:
        """Sample what waits, batch after batch."""
        loop = asyncio.get_running_loop()
        while True:
            batch = await self._next_batch()
            try:
                results = await loop.run_in_executor(
                    self._thread, self._sample, [prompt for prompt, _ in batch]
                )
            except asyncio.CancelledError:
                self._fail(batch, Retryable("the engine was closed while it sampled this group"))
                raise
            except Exception as error:  # noqa: BLE001 - any: the groups of the batch raise it
                self._fail(batch, error)
            else:
                for (_, future), completions in zip(batch, results, strict=True):
                    if not future.done():  # its task may have been cancelled
                        future.set_result(completions)

    @staticmethod
    def _fail(batch: list[Waiting], error: Exception) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(error)

    async def _next_batch(self) -> list[Waiting]:
        """Wait for a first group, and for more while they keep coming and there is room."""
        most = self._config.batch_groups
        while len(self._waiting) < most:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), GATHER_S if self._waiting else None)
            except TimeoutError:
                break
        batch, self._waiting = self._waiting[:most], self._waiting[most:]
        return [(prompt, future) for prompt, future in batch if not future.done()] or await self._next_batch()

    # Below: the worker thread.

    def _model_and_chat(self) -> tuple[PreTrainedModel, Chat]:
        if self._loaded is None:
            raise RuntimeError("the engine has not been started")
        return self._loaded

    def _build(self) -> None:
        """Load tokenizer and architecture; the parameters stay uninitialized until `_replace_weights`."""
        import torch

        from generators.engines.hf.model import build_model

        started = time.monotonic()
        if self._config.threads is not None:
            torch.set_num_threads(self._config.threads)
        chat = load_chat(self._run.model)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cpu" and (why := why_unseen(torch.__version__, torch.version.cuda)):
            raise RunFailed(f"{why}; or hide the GPUs: {VARIABLE}=")
        with torch.device(device):
            model = build_model(self._run.model)
        self._loaded = model, chat
        log.info(
            "engine_started engine=hf model=%s parameters=%d device=%s took_s=%.1f",
            self._run.model.path,
            model.num_parameters(),
            device,
            time.monotonic() - started,
        )

    def _replace_weights(self, files: Sequence[Path], version: int) -> None:
        from generators.engines.hf.model import replace_weights, shown

        started = time.monotonic()
        model, _ = self._model_and_chat()
        replace_weights(model, files)
        self._version = version
        took_s = time.monotonic() - started
        log.info("weights_loaded version=%d file=%s took_s=%.3f", version, shown(files), took_s)

    def _sample(self, prompts: list[Prompt]) -> list[tuple[Completion, ...]]:
        from generators.engines.hf.sampling import SamplingStopped, sample_groups

        started = time.monotonic()
        model, chat = self._model_and_chat()
        try:
            groups = sample_groups(model, prompts, chat.stop_token_ids, self._closing.is_set)
        except SamplingStopped:
            raise Retryable("the engine was closed while it sampled this group") from None
        completions = [
            tuple(self._completion(prompt, sampled, chat) for sampled in group)
            for prompt, group in zip(prompts, groups, strict=True)
        ]
        tokens = sum(len(sampled.token_ids) for group in groups for sampled in group)
        took_s = time.monotonic() - started
        log.debug(
            "batch_sampled groups=%d tokens=%d took_s=%.3f tokens_per_s=%.0f",
            len(prompts),
            tokens,
            took_s,
            tokens / took_s,
        )
        return completions

    def _completion(self, prompt: Prompt, sampled: SampledCompletion, chat: Chat) -> Completion:
        reason = FinishReason.STOP if sampled.stopped else FinishReason.LENGTH
        return Completion.of_one_segment(
            token_ids=sampled.token_ids,
            logprobs=sampled.logprobs,
            policy_spans=(Span(version=self._version, first=0, count=len(sampled.token_ids)),),
            finish_reason=reason,
            text=chat.text(prompt.token_ids.tolist(), sampled.token_ids.tolist(), reason),
        )
