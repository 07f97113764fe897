"""Control an engine on all ranks from rank 0: a `TrainingBackend` over any engine.

In: rank 0's calls. Out: the same command on every rank, each with its shard of the batch; weights for the generators,
checkpoints. The other ranks are in `follow`. An exception in any rank ends that process with a non-zero code. The
launcher of the ranks then ends the others and names the rank; the journal's steps are replayed after a restart.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never

from torch import Tensor, distributed

from config.learner import LearnerConfig
from config.run import Run
from learner.training import process_group as commands
from learner.training import random_states
from learner.training.backend import Differences
from learner.training.batch import Batch
from learner.training.checkpoint import read_state, write_state
from learner.training.engines.engine import Engine
from learner.training.gathered_weights import GatheredWeights, HostBuffers
from learner.training.lora import ADAPTER, adapters_of, is_adapter, merged, write_adapter
from learner.training.model_files import names_on_disk, write_model, write_weights
from learner.training.passes import Passes
from learner.training.process_group import Command, CommandChannel
from learner.weight_sync.transport import SavedWeights

log = logging.getLogger(__name__)


class RankedBackend:
    """A `TrainingBackend` on an engine of all ranks.

    Args:
        passes: of a step, on the engine.
        channel: between the ranks.
    """

    def __init__(self, run: Run, engine: Engine, passes: Passes, channel: CommandChannel) -> None:
        self.run = run
        self._engine = engine
        self._passes = passes
        self._channel = channel
        self._has_failed = False
        self._published = HostBuffers()
        self._names_differ: bool | None = None  # from those on disk; None: unknown

    @property
    def vocabulary(self) -> int:
        """The number of tokens in the model's embedding."""
        return self._engine.vocabulary

    @property
    def pads(self) -> bool:
        """Whether the model may run on padded rows: without varlen kernels, and with whole rows on a rank."""
        return self._engine.pads

    def step(self, batch: Batch, learner: LearnerConfig | None = None) -> dict[str, float]:
        """Take one optimizer step on a batch, on rank 0; see `TrainingBackend.step`.

        Raises:
            RunFailed: the gradient is not finite, and the engine has applied it nevertheless. Then the weights are
                corrupt and must not be published.
        """
        command = commands.OptimizerStep(learner=None if learner is None else learner.model_dump_json())
        metrics: dict[str, float] = self._on_all_ranks(command, self._shards(batch))
        return metrics

    def divergences(self, batch: Batch) -> list[float]:
        """Measure each completion's divergence to the reference, on rank 0; see `TrainingBackend.divergences`."""
        found: list[float] = self._on_all_ranks(commands.Divergences(), self._shards(batch))
        return found

    def differences(self, batch: Batch) -> Differences:
        """Compare the sampler with the learner, on rank 0; see `TrainingBackend.differences`."""
        found: Differences = self._on_all_ranks(commands.Compare(), self._shards(batch))
        return found

    def _shards(self, batch: Batch) -> list[Batch]:
        """Return the shard of each rank; the ranks of a mesh share one."""
        size = self._engine.ranks_of_a_row
        return [shard for shard in batch.shards(self._engine.world_size // size) for _ in range(size)]

    def gather_weights(self) -> GatheredWeights:
        """Copy the weights into host memory, on rank 0; the copy is valid until the next call."""
        gathered: GatheredWeights = self._on_all_ranks(commands.GatherWeights())
        return gathered

    def save_model(self, folder: Path) -> None:
        """Write a folder that transformers and vLLM load, on rank 0."""
        self._on_all_ranks(commands.SaveModel(folder=str(folder)))

    def save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        """Write everything that training continues from, on rank 0; see `HoldsState.save_checkpoint`."""
        self._on_all_ranks(commands.SaveCheckpoint(folder=str(folder), state=json.dumps(state)))

    def load_checkpoint(self, folder: Path) -> dict[str, Any]:
        """Continue from a checkpoint, on rank 0. The engine may unpickle its part: load only this system's own.

        Raises:
            RunFailed: no complete checkpoint, or one of another ZeRO stage or type; or of another number of ranks where
                the optimizer's state is split among them.
        """
        state: dict[str, Any] = self._on_all_ranks(commands.LoadCheckpoint(folder=str(folder)))
        return state

    def keep_alive(self) -> None:
        """Send an empty command, on rank 0, so that the others' wait does not time out and a dead rank is noticed."""
        self._on_all_ranks(commands.KeepAlive())

    def close(self) -> None:
        """Free the engine on all ranks, and end the others' `follow`; on rank 0.

        After a failure no command can be sent: the other ranks may be waiting inside a step. They end when this process
        does, or their launcher ends them.
        """
        if not self._has_failed:
            self._on_all_ranks(commands.Close())

    def follow(self) -> None:
        """Execute rank 0's commands on another rank, until rank 0 closes."""
        command: Command | None = None
        while not isinstance(command, commands.Close):
            command = self._channel.receive()
            shard = None
            if isinstance(command, commands.OptimizerStep | commands.Divergences | commands.Compare):
                shard = Batch.from_bytes(self._channel.receive_part())
            self._act(command, shard)

    def _on_all_ranks(self, command: Command, shards: list[Batch] | None = None) -> Any:
        """Send the command, and each rank its shard, on rank 0; then do the same here."""
        self._has_failed = True  # until the command has finished
        self._channel.send(command)
        if shards is not None:
            self._channel.send_parts([shard.to_bytes() for shard in shards[1:]])
        result = self._act(command, shards[0] if shards else None)
        self._has_failed = False
        return result

    def _act(self, command: Command, shard: Batch | None) -> Any:
        try:
            return self._do(command, shard)
        except Exception:
            log.exception("rank failed rank=%d command=%s", self._engine.rank, command.name)
            raise

    # The methods below run on all ranks.

    def _do(self, command: Command, shard: Batch | None) -> Any:
        result: Any = None
        match command:
            case commands.OptimizerStep() | commands.Divergences() | commands.Compare():
                if shard is None:
                    raise ValueError(f"{command.name} needs a shard")
                result = self._pass_over(shard, command)
            case commands.GatherWeights():
                result = self._gather_weights()
            case commands.SaveModel(folder=folder):
                self._save_model(Path(folder))
            case commands.SaveCheckpoint(folder=folder, state=state):
                self._save_checkpoint(Path(folder), json.loads(state))
            case commands.LoadCheckpoint(folder=folder):
                result = self._load_checkpoint(Path(folder))
            case commands.KeepAlive():
                pass
            case commands.Close():
                self._engine.close()
            case _:
                assert_never(command)
        return result

    def _pass_over(
        self, shard: Batch, command: commands.OptimizerStep | commands.Divergences | commands.Compare
    ) -> Any:
        match command:
            case commands.OptimizerStep(learner=learner):
                return self._passes.step(shard, learner)
            case commands.Divergences():
                return self._passes.divergences(shard)
            case commands.Compare():
                return self._passes.compare(shard)
            case _:
                assert_never(command)

    def _gather_weights(self) -> GatheredWeights | None:
        lora = self.run.learner.lora
        is_alone = lora is not None and lora.publish == "adapter"
        weights = self._engine.gather(is_adapter if is_alone else lambda _: True, copies=self._published)
        if self._engine.rank > 0:
            return None

        def write(weights: Mapping[str, Tensor], folder: Path) -> SavedWeights:
            tensors: Mapping[str, Tensor]
            if is_alone:
                tensors = adapters_of(weights)
            else:
                tensors = self._names_on_disk(weights if lora is None else merged(weights, lora))
            return write_weights(tensors, folder, shard_bytes=self.run.learner.shard_bytes)

        return GatheredWeights(weights, write)

    def _names_on_disk(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return weights by their Hugging Face names; a model whose names it does not change is asked once."""
        if self._names_differ is False:
            return weights
        tensors = names_on_disk(self._engine.model, weights)
        self._names_differ = len(tensors) != len(weights) or any(
            tensors.get(name) is not tensor for name, tensor in weights.items()
        )
        return tensors

    def _save_model(self, folder: Path) -> None:
        weights, lora = self._engine.gather(), self.run.learner.lora
        if self._engine.rank > 0:
            return
        tensors = names_on_disk(self._engine.model, weights if lora is None else merged(weights, lora))
        write_model(tensors, folder, source=self.run.model, shard_bytes=self.run.learner.shard_bytes)
        if lora is not None:
            write_adapter(weights, folder / ADAPTER, lora=lora, source=self.run.model)

    def _shape(self) -> dict[str, Any]:
        """Return the settings that a checkpoint must match."""
        return {
            "ranks": self._engine.world_size,
            "zero_stage": self.run.learner.zero.stage,
            "dtype": self.run.model.dtype,
        }

    def _save_checkpoint(self, folder: Path, state: dict[str, Any]) -> None:
        engine = self._engine
        engine.save(folder)
        random_states.save(folder, engine.rank, engine.device)
        # NCCL would derive the GPU from the rank's number among all machines, and warns that this may hang.
        distributed.barrier(device_ids=[engine.device.index] if engine.device.type == "cuda" else None)
        if engine.rank == 0:
            write_state(folder, state, fits=self._shape())

    def _load_checkpoint(self, folder: Path) -> dict[str, Any]:
        state = read_state(folder, fits=self._shape())
        self._engine.load(folder)
        random_states.load(folder, self._engine.rank, self._engine.device)
        return state
