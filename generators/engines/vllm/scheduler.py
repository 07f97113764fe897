"""vLLM's schedulers, which pass on what steps sampled in helpings: a generator has no use for single tokens.

In: the outputs of each step, in vLLM's engine core. Out: the same tokens with their log-probabilities: the first one of
a request, then `HELPING` of its tokens at once, and the rest with its end. A helping costs about what a token does: to
encode, to send, to wake the generator's event loop and to read. The engine core names one version of the weights with
all that it sends, and changes it only while generation is paused: a pause ends when what was held back is on its way.
vLLM does not promise to keep the interface of its schedulers; `in_helpings` leaves those alone that it does not know.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from vllm.config import SchedulerConfig
from vllm.sampling_params import RequestOutputKind
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.outputs import LogprobsLists

HELPING = 64  # tokens; reading so many takes the event loop a tenth of a millisecond
MERGED = frozenset({"request_id", "new_token_ids", "new_logprobs", "num_nans_in_logits"})
URGENT = tuple(  # fields that only the first and the last output of a request have, as a rule
    name for name in EngineCoreOutput.__struct_fields__ if name not in MERGED
)


@dataclass(slots=True)
class _Held:
    """What was sampled for a request, and has not been passed on."""

    client: int  # whom it is for
    last: EngineCoreOutput
    token_ids: list[int]
    logprobs: list[LogprobsLists]  # one a step

    def add(self, output: EngineCoreOutput) -> None:
        self.last = output
        self.token_ids += output.new_token_ids
        if output.new_logprobs is not None:
            self.logprobs.append(output.new_logprobs)

    def whole(self) -> EngineCoreOutput:
        """Return all of it as one output, which ends as the last step's did."""
        found = self.last
        found.new_token_ids = self.token_ids
        found.new_logprobs = _joined(self.logprobs)
        return found


class _Holding(Scheduler):
    """Either scheduler, with what it holds back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held: dict[str, _Held] = {}

    def update_from_output(self, *args: Any, **kwargs: Any) -> dict[int, EngineCoreOutputs]:
        """Return what is to be passed on after a step; of a pause, all that is held."""
        found: dict[int, EngineCoreOutputs] = super().update_from_output(*args, **kwargs)
        for client, sent in found.items():
            sent.outputs = [one for output in sent.outputs if (one := self._passed_on(client, output))]
        if self.pause_state == PauseState.PAUSED_ALL:
            for held in self._held.values():
                found.setdefault(held.client, EngineCoreOutputs()).outputs.append(held.whole())
            self._held.clear()
        return {
            client: sent
            for client, sent in found.items()
            if sent.outputs or sent.scheduler_stats or sent.finished_requests
        }

    def _passed_on(self, client: int, output: EngineCoreOutput) -> EngineCoreOutput | None:
        """Return a helping that an output completes, or None: it is held back."""
        name = output.request_id
        held = self._held.get(name)
        is_due = any(getattr(output, field) is not None for field in URGENT)
        if held is None:
            if is_due or not self._is_final_only(name):
                return output
            held = self._held[name] = _Held(client, output, [], [])
        held.add(output)
        if not is_due and len(held.token_ids) < HELPING:
            return None
        return self._held.pop(name).whole()

    def _is_final_only(self, name: str) -> bool:
        params = self.requests[name].sampling_params
        return params is not None and params.output_kind == RequestOutputKind.FINAL_ONLY

    def finish_requests(self, *args: Any, **kwargs: Any) -> Any:
        """Forget what was held of requests that are ended from outside."""
        found = super().finish_requests(*args, **kwargs)
        for request in found:
            self._held.pop(request.request_id, None)
        return found

    def has_finished_requests(self) -> bool:
        """Return whether a paused engine has to make a step all the same: it is not idle while anything is held."""
        return super().has_finished_requests() or (
            bool(self._held) and self.pause_state == PauseState.PAUSED_ALL
        )


class HoldingScheduler(_Holding, Scheduler):
    """vLLM's scheduler, in helpings."""


class HoldingAsyncScheduler(_Holding, AsyncScheduler):
    """vLLM's scheduler that is a step ahead, in helpings."""


def in_helpings(base: type[Any]) -> type[Any]:
    """Return the class that takes the place of vLLM's `base`: itself where it is another."""
    return {Scheduler: HoldingScheduler, AsyncScheduler: HoldingAsyncScheduler}.get(base, base)


def _joined(parts: Sequence[LogprobsLists]) -> LogprobsLists | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    ids, logprobs, ranks = (np.concatenate(one) for one in zip(*(part[:3] for part in parts), strict=True))
    return LogprobsLists(ids, logprobs, ranks)


def _is_news(record: logging.LogRecord) -> bool:
    """Leave out vLLM's warning that it promises nothing about the interface, which nobody who reads it can act on."""
    return "custom scheduler class" not in str(record.msg)


logging.getLogger(SchedulerConfig.__module__).addFilter(_is_news)
