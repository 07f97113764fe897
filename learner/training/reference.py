"""Hold the reference model of the KL term, and compute its log-probabilities.

In: the micro-batches of a step, on the device. Out: each trained token's log-probability under a frozen model, nats.
Used by the backend in every rank, only where `learner.objective.kl.coef` is above 0. Under ZeRO-3 the reference's
weights are split among the ranks like the policy's, so its passes are collectives.
"""

# T tokens of a micro-batch.

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from broker.errors import RunFailed
from config.learner.objective import KlConfig
from config.run import ModelConfig, Run
from learner.base_model.own_head import has_own_head
from learner.training import sequence_parallel
from learner.training.attention import choose_attention
from learner.training.engines.engine_config import half_precision
from learner.training.head.chunks import logits_at_once
from learner.training.head.fused import choose_product, memory_of
from learner.training.logprobs import LogprobModel
from learner.training.lora import without_adapter
from learner.training.micro_batch import MicroBatch
from learner.training.model_files import elements, load_model
from learner.training.sequence_parallel import SequenceMesh

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)


class ReferenceModel:
    """A frozen causal language model next to the policy."""

    def __init__(
        self,
        run: Run,
        kl: KlConfig,
        *,
        deepspeed: Any,
        device: torch.device,
        world_size: int,
        vocabulary: int,
        mesh: SequenceMesh | None = None,
    ) -> None:
        """Load the model; under ZeRO-3 a collective.

        Args:
            run: the resolved run.
            kl: which model, and whether its weights stay in host memory between the passes.
            deepspeed: the library, imported for this device.
            device: where the passes run.
            world_size: number of ranks.
            vocabulary: number of tokens in the policy's embedding.
            mesh: the ranks that share a row, as for the policy.
        Raises:
            RunFailed: there is no such model, or its embedding has fewer tokens than the policy's.
        """
        self._device = device
        self._stays_on_host = kl.offload and device.type == "cuda" and run.learner.zero.stage != 3
        source = reference_source(run, kl)
        attention: str = sequence_parallel.NAME
        if mesh is None:
            attention = choose_attention(
                run.learner.attention, device=device, dtype=getattr(torch, run.model.dtype)
            ).name
        config = _zero_config(run, kl, world_size=world_size, device=device)
        model = _loaded(source, attention=attention, config=config, vocabulary=vocabulary)
        wrapped = LogprobModel(
            model,
            temperature=run.sampling.temperature,
            head_dtype=run.model.head_dtype,
            logits_at_once=logits_at_once(memory_of(device)),
            product=choose_product(device, getattr(torch, run.model.dtype)).product,
            mesh=mesh,
        )
        wrapped.requires_grad_(False).eval()
        self._model: Any = wrapped
        if config is not None:
            with contextlib.redirect_stdout(sys.stderr):
                self._model, *_ = deepspeed.initialize(model=wrapped, config=config)
        elif not self._stays_on_host:
            wrapped.to(device)
        log.info(
            "reference ready path=%s parameters=%d offload=%s",
            source.path,
            sum(elements(parameter) for parameter in model.parameters()),
            kl.offload,
        )

    @torch.no_grad()
    def logprobs(self, parts: Iterable[MicroBatch]) -> list[Tensor]:
        """Return [T] for each micro-batch: log-probabilities, nats, float32; 0 where no token trains."""
        if self._stays_on_host:
            self._model.to(self._device)
        found = [self._model(**part.model_inputs)[0] for part in parts]
        if self._stays_on_host:
            self._model.to("cpu")
        return found


def _loaded(
    source: ModelConfig, *, attention: str, config: dict[str, Any] | None, vocabulary: int
) -> PreTrainedModel:
    """Load the model, split among the ranks where a ZeRO-3 configuration is given. Raises as `ReferenceModel`."""
    splitting = None
    try:
        own_head = has_own_head(source)
        if config is not None:
            from transformers.integrations.deepspeed import HfDeepSpeedConfig

            splitting = HfDeepSpeedConfig(config)  # transformers splits the weights as it reads them
        model = load_model(source, attention=attention, gradient_checkpointing=False, own_head=own_head)
    except OSError as error:
        raise RunFailed(f"learner.objective.kl.reference={source.path} can't be loaded: {error}") from error
    del splitting
    found: int = model.get_input_embeddings().num_embeddings  # type: ignore[assignment]
    if found < vocabulary:
        raise RunFailed(
            f"learner.objective.kl.reference={source.path} has {found} tokens, and the policy {vocabulary}: its "
            "log-probabilities would be of other tokens. Take a reference of the same tokenizer"
        )
    return model


class PolicyWithoutAdapter:
    """The reference of a policy that trains adapters: its own model without them. It takes no memory."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    @torch.no_grad()
    def logprobs(self, parts: Iterable[MicroBatch]) -> list[Tensor]:
        """Return [T] for each micro-batch, as `ReferenceModel.logprobs`."""
        with without_adapter(self._policy):
            return [self._policy(**part.model_inputs)[0] for part in parts]


class References:
    """The reference models of steps: the run's, or an earlier incarnation's when its steps are replayed."""

    def __init__(
        self,
        run: Run,
        *,
        deepspeed: Any,
        device: torch.device,
        world_size: int,
        vocabulary: int,
        policy: Any,
        mesh: SequenceMesh | None,
    ) -> None:
        """Store the arguments for loading references; none is loaded yet.

        Args:
            run: the resolved run.
            deepspeed: the library, imported for this device.
            device: where the passes run.
            world_size: number of ranks.
            vocabulary: number of tokens in the policy's embedding.
            policy: the training engine.
            mesh: the ranks that share a row; None: each rank has its own rows.
        """
        self._run = run
        self._policy = policy
        self._arguments = {
            "deepspeed": deepspeed,
            "device": device,
            "world_size": world_size,
            "vocabulary": vocabulary,
            "mesh": mesh,
        }
        self._loaded: tuple[tuple[str, bool], ReferenceModel] | None = None

    def of(self, kl: KlConfig) -> ReferenceModel | PolicyWithoutAdapter:
        """Load the reference of a section, or return the one already loaded; a collective."""
        if kl.reference is None and self._run.learner.lora is not None:
            return PolicyWithoutAdapter(self._policy)
        wanted = (reference_source(self._run, kl).path, kl.offload)
        if self._loaded is None or self._loaded[0] != wanted:
            self._loaded = None  # frees the other one first
            self._loaded = wanted, ReferenceModel(self._run, kl, **self._arguments)
        return self._loaded[1]


def reference_source(run: Run, kl: KlConfig) -> ModelConfig:
    """Return where the reference comes from: the policy's own files, or those of the section."""
    if kl.reference is None:
        return run.model
    return run.model.model_copy(update={"path": kl.reference, "revision": None, "tie_word_embeddings": None})


def _zero_config(run: Run, kl: KlConfig, *, world_size: int, device: torch.device) -> dict[str, Any] | None:
    """Return DeepSpeed's configuration for an inference-only model; None where nothing is partitioned."""
    if run.learner.zero.stage != 3:
        return None
    config: dict[str, Any] = {
        "train_batch_size": world_size,
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3},
    }
    if run.model.dtype != "float32":
        config |= half_precision(run.model.dtype)
    if kl.offload and device.type == "cuda":
        config["zero_optimization"]["offload_param"] = {"device": "cpu", "pin_memory": True}
    return config
