"""Sample with transformers, on CUDA or anywhere else; load new weights between two batches.

In: requests of the worker's tasks, as many at once as it holds. Out: their samples. The event loop collects waiting
requests, and one worker thread samples them in a batch. `load_weights` runs in the same thread, so never during a
batch, and every sample has one span. An error of a batch reaches each of its callers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from broker.errors import Retryable, RunFailed
from broker.messages import FinishReason, Span
from config.generators import HfEngineConfig
from config.gpus import VARIABLE, why_unseen
from config.run import Run
from generators.engine import NO_VERSION, Sample, SamplingParams

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from generators.engines.hf.sampling import SampleRequest

log = logging.getLogger(__name__)

GATHER_S = 0.005  # groups lease their prompts one by one: a batch waits this long for each next group

Waiting = tuple["SampleRequest", "asyncio.Future[tuple[Sample, ...]]"]


class HfEngine:
    """An `Engine` with one transformers model."""

    def __init__(self, run: Run, config: HfEngineConfig) -> None:
        self._run = run
        self._config = config
        self._version = NO_VERSION
        self._model: PreTrainedModel | None = None
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
        """Groups of one batch: more would wait here while other generators are idle."""
        return self._config.batch_groups

    @property
    def counts(self) -> dict[str, int]:
        """Nothing: this engine keeps no cache between groups."""
        return {}

    async def start(self) -> None:
        """Build the architecture.

        Raises:
            RunFailed: the model's folder or name has no usable config.
        """
        await asyncio.get_running_loop().run_in_executor(self._thread, self._build)
        self._batches = asyncio.create_task(self._run_batches(), name="hf-batches")

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        """Sample in the next batch that has room.

        Raises:
            Retryable: the engine was closed meanwhile.
        """
        if self._version == NO_VERSION:
            raise RuntimeError("generate() before load_weights(): the model has no weights")
        if self._closing.is_set():
            raise Retryable("the engine is closed")
        from generators.engines.hf.sampling import SampleRequest

        future: asyncio.Future[tuple[Sample, ...]] = asyncio.get_running_loop().create_future()
        self._waiting.append((SampleRequest(token_ids, params, n), future))
        self._arrived.set()
        return await future

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        """Replace the weights after the running batch.

        Raises:
            RunFailed: names or shapes in the files differ from the model's; the old weights stay.
        """
        await asyncio.get_running_loop().run_in_executor(self._thread, self._replace_weights, files, version)

    async def close(self) -> None:
        """End the running batch at its next token; its callers and waiting ones get a Retryable."""
        self._closing.set()
        if self._batches is not None:
            self._batches.cancel()
            with suppress(asyncio.CancelledError):
                await self._batches
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(Retryable("the engine was closed before it sampled this"))
        self._waiting.clear()
        await asyncio.to_thread(self._thread.shutdown)
        self._model = None

    async def _run_batches(self) -> None:
        """Sample waiting requests, batch after batch."""
        loop = asyncio.get_running_loop()
        while True:
            batch = await self._next_batch()
            try:
                results = await loop.run_in_executor(
                    self._thread, self._sample, [request for request, _ in batch]
                )
            except asyncio.CancelledError:
                self._fail(batch, Retryable("the engine was closed while it sampled this"))
                raise
            except Exception as error:  # noqa: BLE001 - any: the requests of the batch raise it
                self._fail(batch, error)
            else:
                for (_, future), samples in zip(batch, results, strict=True):
                    if not future.done():  # its task may have been cancelled
                        future.set_result(samples)

    @staticmethod
    def _fail(batch: list[Waiting], error: Exception) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(error)

    async def _next_batch(self) -> list[Waiting]:
        """Wait for a first request, and for more while they arrive and there is room."""
        most = self._config.batch_groups * self._run.sampling.group_size
        while sum(self._places()) < most:
            self._arrived.clear()
            try:
                async with asyncio.timeout(GATHER_S if self._waiting else None):
                    await self._arrived.wait()
            except TimeoutError:
                break
        count = sum(taken <= most for taken in accumulate(self._places()))
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return [waiting for waiting in batch if not waiting[1].done()] or await self._next_batch()

    def _places(self) -> Iterator[int]:
        """Yield the room of each waiting request in a batch, in completions: at most a training group."""
        return (min(request.n, self._run.sampling.group_size) for request, _ in self._waiting)

    # The methods below run in the worker thread.

    def _built(self) -> PreTrainedModel:
        if self._model is None:
            raise RuntimeError("the engine has not been started")
        return self._model

    def _build(self) -> None:
        """Load the architecture; the parameters stay uninitialized until `_replace_weights`."""
        import torch

        from generators.engines.hf.attention import use_decoding_attention
        from generators.engines.hf.model import build_model

        use_decoding_attention()
        started = time.monotonic()
        if self._config.threads is not None:
            torch.set_num_threads(self._config.threads)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cpu" and (why := why_unseen(torch.__version__, torch.version.cuda)):
            raise RunFailed(f"{why}; or hide the GPUs: {VARIABLE}=")
        with torch.device(device):
            model = build_model(self._run.model)
        self._model = model
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
        replace_weights(self._built(), files)
        self._version = version
        took_s = time.monotonic() - started
        log.info("weights_loaded version=%d file=%s took_s=%.3f", version, shown(files), took_s)

    def _sample(self, requests: list[SampleRequest]) -> list[tuple[Sample, ...]]:
        from generators.engines.hf.sampling import SamplingStopped, sample_groups

        started = time.monotonic()
        try:
            groups = sample_groups(self._built(), requests, self._closing.is_set)
        except SamplingStopped:
            raise Retryable("the engine was closed while it sampled this") from None
        tokens = sum(len(sampled.token_ids) for group in groups for sampled in group)
        took_s = time.monotonic() - started
        log.debug(
            "batch_sampled groups=%d tokens=%d took_s=%.3f tokens_per_s=%.0f",
            len(requests),
            tokens,
            took_s,
            tokens / took_s,
        )
        return [
            tuple(
                Sample(
                    token_ids=sampled.token_ids,
                    logprobs=sampled.logprobs,
                    spans=(Span(version=self._version, first=0, count=len(sampled.token_ids)),),
                    finish_reason=FinishReason.STOP if sampled.stopped else FinishReason.LENGTH,
                )
                for sampled in group
            )
            for group in groups
        ]
