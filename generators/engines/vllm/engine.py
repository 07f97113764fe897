"""Sample with vLLM, loading new weights in flight; each token has its version.

In: requests of the worker's tasks, as many at once as the worker holds; vLLM batches them itself. Out: their samples,
with spans. For new weights generation pauses, keeps its requests, loads, and continues; `generators.engine.new_weights`
decides what happens to the requests' cache. vLLM's engine core is another process. When it dies or stops answering,
every caller gets `EngineDied` and the generator ends with an error. When the generator dies, so does the engine core
(generators.engines.vllm.worker).

vLLM is imported in `start`, after its environment has been set. CPU and GPU builds use this same file.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from broker.errors import BadMessage, Retryable, RunFailed
from broker.messages import FinishReason, Span
from config.generators import VllmEngineConfig
from config.gpus import VARIABLE, why_unseen
from config.run import Run
from generators.engine import NO_VERSION, Sample, SamplingParams
from generators.engines.vllm.environment import GENERATOR_PID, set_environment
from generators.engines.vllm.features import check_features
from generators.engines.vllm.liveness import EngineDied, Keeper, Lifeline
from generators.engines.vllm.memory import wait_for_room
from generators.engines.vllm.settings import longest_sequence, resolve, room

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from vllm import CompletionOutput
    from vllm import SamplingParams as VllmParams
    from vllm.inputs import TokensInput
    from vllm.v1.engine.async_llm import AsyncLLM

log = logging.getLogger(__name__)

UPDATE_S = 300.0  # for each step of a weight update
STALL_S = 120.0  # for an answer of the engine core, which it gives between two tokens
PING_EVERY_S = 5.0
SHUTDOWN_S = 3.0  # for vLLM's processes to exit by themselves
REPORTS_OF_THE_END = ("vllm.v1.engine.async_llm", "vllm.v1.utils", "vllm.utils.system_utils")
NO_FILE = "No such file"  # in safetensors' message; vLLM passes a worker's error on as text alone


class VllmEngine:
    """An `Engine` with one AsyncLLM."""

    def __init__(self, run: Run, config: VllmEngineConfig) -> None:
        self._run = run
        self._config = config
        self._max_model_len = longest_sequence(run, config)
        self._version = NO_VERSION
        self._parts: _Parts | None = None
        self._control = asyncio.Lock()  # a weight update or a ping, not both
        self._request = itertools.count()
        self._prompt_tokens = self._prefix_hits = 0

    @property
    def version(self) -> int:
        """Policy version of the weights in the engine."""
        return self._version

    @property
    def room(self) -> int:
        """Groups that keep the engine busy, by the size of vLLM's KV cache."""
        if self._parts is None:
            raise RuntimeError("room before start(): vLLM has not measured its memory")
        cache_tokens = self._parts.engine.vllm_config.cache_config.kv_cache_size_tokens
        return room(
            cache_tokens=cache_tokens or 0,
            sequence_tokens=self._max_model_len,
            max_num_seqs=self._config.max_num_seqs,
            group_size=self._run.sampling.group_size,
        )

    @property
    def counts(self) -> dict[str, int]:
        """Tokens of prompts, and those of them found in vLLM's prefix cache."""
        return {"prompt_tokens": self._prompt_tokens, "prefix_hits": self._prefix_hits}

    async def start(self) -> None:
        """Start vLLM's processes for the model, without its weights, and wait until they answer.

        Raises:
            RunFailed: model, vLLM or its settings are unusable, a GPU has too little free memory, or `start_timeout_s`
                has passed.
        """
        from generators.engines.hf.model import build_skeleton

        started = time.monotonic()
        skeleton = await asyncio.to_thread(build_skeleton, self._run.model)
        if await asyncio.to_thread(import_vllm, self._config):
            weights_bytes = await asyncio.to_thread(_weights_bytes, skeleton, self._run)
            await asyncio.to_thread(wait_for_room, self._config, weights_bytes=weights_bytes)
        keeper = Keeper(
            lambda: _launch(self._run, self._config), lambda engine: engine.shutdown(timeout=SHUTDOWN_S)
        )
        keeper.start()
        try:
            async with asyncio.timeout(self._config.start_timeout_s):
                engine = await asyncio.wrap_future(keeper.engine)
        except TimeoutError:
            raise RunFailed(
                f"vLLM did not start in {self._config.start_timeout_s:.0f} s; its log is above. "
                "Raise generators.engine.start_timeout_s if it only needs longer"
            ) from None
        except (RuntimeError, ValueError, OSError) as error:
            raise RunFailed(f"vLLM can't start with model.path={self._run.model.path}: {error}") from error
        from vllm.v1.engine.exceptions import EngineDeadError

        line = Lifeline(EngineDeadError)
        watch = asyncio.create_task(self._watch(engine, line), name="vllm-watch")
        self._parts = _Parts(engine, line, skeleton, keeper, watch)
        log.info(
            "engine_started engine=vllm model=%s took_s=%.1f",
            self._run.model.path,
            time.monotonic() - started,
        )

    async def generate(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int
    ) -> tuple[Sample, ...]:
        """Sample; a request during a weight update starts after it.

        Raises:
            BadMessage: the ids do not fit, or vLLM refuses them for another reason.
            Retryable: vLLM ended a sample itself.
            EngineDied: the engine core died or stalled.
        """
        if self._parts is None or self._version == NO_VERSION:
            raise RuntimeError("generate() before start() and load_weights(): nothing to sample from")
        parts = self._parts
        vocabulary = parts.skeleton.config.get_text_config().vocab_size
        self._refuse_what_does_not_fit(token_ids, params.max_tokens, vocabulary=vocabulary)
        return await parts.line.get(self._ask(token_ids, params, n, parts), what="sampling")

    async def load_weights(self, files: Sequence[Path], version: int) -> None:
        """Replace the weights between two tokens of the groups in progress, or after them (`finish_first`).

        With `recompute` and `finish_first` the KV cache is computed again with the new weights, so that each
        log-probability belongs to the one version in its span. With `keep_cache` it belongs to that version, given keys
        and values of the spans before.

        Raises:
            RunFailed: names or shapes in the files differ from the model's; the old weights stay.
            FileNotFoundError: a file is missing; the old weights stay.
            EngineDied: the update failed halfway, or the engine core died or stalled.
        """
        from generators.engines.hf.model import check_weights, shown

        if self._parts is None:
            raise RuntimeError("load_weights() before start()")
        parts = self._parts
        started = time.monotonic()
        with ExitStack() as kept:
            opened = [kept.enter_context(file.open("rb")) for file in files]
            await asyncio.to_thread(check_weights, parts.skeleton, files)
            # The learner removes old versions at any time, and each worker opens the files in its turn. The path of an
            # open descriptor gives a worker the content even after the name is removed.
            held = [Path(f"/proc/{os.getpid()}/fd/{stream.fileno()}") for stream in opened]
            await self._update(parts, held, version)
        took_s = time.monotonic() - started
        log.info("weights_loaded version=%d file=%s took_s=%.3f", version, shown(files), took_s)

    async def _update(self, parts: _Parts, files: Sequence[Path], version: int) -> None:
        """Pause generation, let the workers load `files`, and continue."""
        async with self._control:
            if self._config.new_weights == "finish_first":
                await self._let_finish(parts)
            await parts.line.get(
                parts.engine.pause_generation(
                    mode="keep", clear_cache=self._config.new_weights != "keep_cache"
                ),
                limit_s=UPDATE_S,
                what="pausing for new weights",
            )
            try:
                await parts.line.get(
                    _replace_weights(parts, files, version, workers=self._config.tensor_parallel),
                    limit_s=UPDATE_S,
                    what="loading weights",
                )
                self._version = version
            finally:
                if not parts.line.is_cut:
                    await parts.line.get(parts.engine.resume_generation(), limit_s=UPDATE_S, what="resuming")

    async def _let_finish(self, parts: _Parts) -> None:
        """Start no more completions, and wait at most `finish_s` seconds for those that vLLM has begun."""
        limit_s = self._config.finish_s
        finishing = asyncio.create_task(parts.engine.pause_generation(mode="wait", clear_cache=False))
        try:
            await parts.line.get(
                asyncio.wait({finishing}, timeout=limit_s),
                limit_s=limit_s + UPDATE_S,
                what="waiting for completions under way",
            )
            if finishing.done():
                await parts.line.get(_result_of(finishing), what="waiting for completions under way")
            else:
                log.info("not_finished after_s=%.0f: the rest goes on under the new weights", limit_s)
        finally:
            finishing.cancel()  # replaced by the pause that follows

    async def close(self) -> None:
        """End vLLM's processes; groups in progress get an error."""
        if self._parts is None:
            return
        parts, self._parts = self._parts, None
        parts.watch.cancel()
        with suppress(asyncio.CancelledError):
            await parts.watch
        parts.line.cut("it was closed")
        with _without_reports_of_the_end():
            await asyncio.to_thread(parts.keeper.end)
        del parts
        gc.collect()  # AsyncLLM is part of a reference cycle

    def _refuse_what_does_not_fit(
        self, token_ids: NDArray[np.int32], max_tokens: int, *, vocabulary: int
    ) -> None:
        """Refuse ids for which vLLM would silently truncate the answer, or read beyond the embedding."""
        tokens = len(token_ids)
        if tokens + max_tokens > self._max_model_len:
            raise BadMessage(
                f"{tokens} tokens of prompt and max_tokens={max_tokens} are more than {self._max_model_len}, the "
                "limit of generators.engine.max_model_len"
            )
        if tokens and not 0 <= token_ids.min() <= token_ids.max() < vocabulary:
            raise BadMessage(f"the prompt has token ids outside the model's {vocabulary}")

    async def _watch(self, engine: AsyncLLM, line: Lifeline) -> None:
        """Ping the engine core periodically: a hanging engine raises nothing by itself."""
        while not line.is_cut:
            await asyncio.sleep(PING_EVERY_S)
            async with self._control:
                with suppress(EngineDied):  # waiting callers get the error from the lifeline
                    await line.get(engine.get_weight_version(), limit_s=STALL_S, what="a sign of life")

    async def _ask(
        self, token_ids: NDArray[np.int32], params: SamplingParams, n: int, parts: _Parts
    ) -> tuple[Sample, ...]:
        from vllm.exceptions import VLLMClientError

        asked, request_id = as_vllm_params(params, n), f"request-{next(self._request)}"
        final = None
        try:
            async for output in parts.engine.generate(tokens_of(token_ids), asked, request_id):
                final = output
        except VLLMClientError as error:
            raise BadMessage(f"vLLM refuses the prompt: {error}") from error
        if final is None or len(final.outputs) != asked.n:
            raise Retryable(f"vLLM ended a request without its {asked.n} samples")
        self._prompt_tokens += len(token_ids)
        self._prefix_hits += final.num_cached_tokens or 0
        found = await asyncio.to_thread(_samples, final.outputs)
        return found * (n // asked.n)


@dataclass
class _Parts:
    """The parts of a started engine."""

    engine: AsyncLLM
    line: Lifeline
    skeleton: PreTrainedModel  # names and shapes of the model, on the meta device
    keeper: Keeper[AsyncLLM]
    watch: asyncio.Task[None]


def tokens_of(token_ids: NDArray[np.int32]) -> TokensInput:
    """Return ids in vLLM's form."""
    from vllm.inputs import tokens_input

    return tokens_input(token_ids.tolist())


def as_vllm_params(params: SamplingParams, n: int) -> VllmParams:
    """Return sampling parameters in vLLM's form."""
    from vllm import SamplingParams as VllmParams
    from vllm.sampling_params import RequestOutputKind

    # The request has no seed: vLLM rewinds a seeded request's generator when it recomputes the request, as after new
    # weights. A CPU generator can't be rewound, and the engine dies; on a GPU seeds slow the sampler down.
    return VllmParams(
        n=1 if params.is_greedy else n,  # vLLM refuses several that would be equal
        temperature=params.temperature,
        top_p=params.top_p,
        max_tokens=params.max_tokens,
        stop_token_ids=sorted(params.stop_token_ids),
        logprobs=0,
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )  # logprobs=0: only of the sampled token


def import_vllm(config: VllmEngineConfig) -> bool:
    """Set the environment, then import vLLM, which is slow. Returns whether vLLM will run on GPUs.

    Must not run in the keeper's thread. vLLM keeps the traceback of a failed optional import, and with it every frame
    below. In that thread the frames hold the engine, which an exiting interpreter would finalize.
    """
    gc.disable()  # nothing that is imported becomes garbage, and looking for it takes a fifth of the time
    try:
        import torch

        on_cpu = not torch.cuda.is_available()
        if on_cpu and (why := why_unseen(torch.__version__, torch.version.cuda)):
            raise RunFailed(f"{why}; or hide the GPUs: {VARIABLE}=")
        if on_cpu and config.kv_cache_mb is None:
            raise RunFailed(
                "generators.engine.kv_cache_mb is needed on a CPU: vLLM would take most of the memory. Set it, "
                "or set generators.engine.type=hf, which needs none"
            )
        set_environment(config, on_cpu=on_cpu)
        check_features()
    finally:
        gc.freeze()  # vLLM collects several times at its start, and a forked engine core would copy all it looks at
        gc.enable()
    return not on_cpu


def _weights_bytes(skeleton: PreTrainedModel, run: Run) -> int:
    """Return the bytes of the model's weights in vLLM's type."""
    import torch

    dtype: torch.dtype = getattr(torch, run.model.dtype)
    return sum(parameter.numel() for parameter in skeleton.parameters()) * dtype.itemsize


def _launch(run: Run, config: VllmEngineConfig) -> AsyncLLM:
    """Start vLLM's processes; blocks until they have built the model.

    Raises:
        RunFailed: vLLM would compute the logits in another type than the learner.
    """
    os.environ[GENERATOR_PID] = str(os.getpid())  # read where `worker` is imported
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.executor import Executor

    from generators.engines.vllm import worker
    from generators.engines.vllm.scheduler import in_helpings

    vllm_config = resolve(run, config)
    vllm_config.scheduler_config.scheduler_cls = in_helpings(vllm_config.scheduler_config.get_scheduler_cls())
    executor = worker.executor_for(Executor.get_class(vllm_config))
    with worker.forked_if_safe(executor):
        return AsyncLLM(vllm_config, executor, log_stats=False, log_requests=False)


async def _replace_weights(parts: _Parts, files: Sequence[Path], version: int, *, workers: int) -> None:
    """Let every worker load `files`, while generation is paused.

    Raises:
        FileNotFoundError: a file is missing, and the only worker did not find it either; nothing has changed.
        EngineDied: any other error; the model may hold parts of two versions.
    """
    from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

    try:
        await parts.engine.start_weight_update()
        await parts.engine.update_weights(
            WeightTransferUpdateRequest(update_info={"paths": [str(file) for file in files]})
        )
        await parts.engine.finish_weight_update(weight_version=str(version))
    except Exception as error:
        # A worker opens the files before it changes a layer; with several workers, one may have found and loaded them.
        if workers == 1 and NO_FILE in str(error) and (gone := await asyncio.to_thread(_gone, files)):
            raise FileNotFoundError(f"{gone[0]} is gone") from error
        raise parts.line.cut(f"loading {files[0]} failed half-way: {error}") from error


@contextmanager
def _without_reports_of_the_end() -> Iterator[None]:
    """Suppress vLLM's error logs, with tracebacks, about processes that end because they are ended."""
    loggers = [logging.getLogger(name) for name in REPORTS_OF_THE_END]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _gone(files: Sequence[Path]) -> list[Path]:
    return [file for file in files if not file.exists()]


async def _result_of(task: asyncio.Task[None]) -> None:
    """Raise a task's error, as awaiting it would."""
    task.result()


def _samples(outputs: Sequence[CompletionOutput]) -> tuple[Sample, ...]:
    """Convert a finished request, in a thread: long samples take a while, and the event loop drives vLLM."""
    return tuple(map(_sample, sorted(outputs, key=lambda output: output.index)))


def _sample(output: CompletionOutput) -> Sample:
    """Convert one finished sample.

    Raises:
        Retryable: vLLM ended the sample itself.
    """
    from vllm.logprobs import FlatLogprobs

    if output.finish_reason not in ("stop", "length"):
        raise Retryable(f"vLLM ended a sample with finish_reason={output.finish_reason}")
    if not isinstance(output.logprobs, FlatLogprobs):
        raise TypeError(f"flat log-probabilities were asked for, vLLM gave {type(output.logprobs).__name__}")
    return Sample(
        token_ids=np.array(output.token_ids, dtype=np.int32),
        logprobs=np.array(output.logprobs.logprobs, dtype=np.float32),
        spans=tuple(
            Span(version=int(span.version), first=span.start, count=span.end - span.start)
            for span in output.weight_versions or ()
        ),
        finish_reason=FinishReason(output.finish_reason),
    )
