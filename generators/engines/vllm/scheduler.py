"""Make vLLM's schedulers pass sampled tokens on in batches (helpings), since single tokens are useless here.

In: the outputs of each step, in vLLM's engine core. Out: the same tokens with their log-probabilities: the first one of
a request, then `HELPING` of its tokens at once, and the rest with its end. A batch costs about as much as a token: to
encode, to send, to wake the generator's event loop and to read. The engine core gives one version of the weights with
everything it sends, and changes it only while generation is paused: a pause ends after all held tokens are sent. vLLM
does not promise a stable interface of its schedulers; `in_helpings` leaves unknown ones alone.
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

HELPING = 64  # tokens; reading that many takes the event loop a tenth of a millisecond
MERGED = frozenset({"request_id", "new_token_ids", "new_logprobs", "num_nans_in_logits"})
URGENT = tuple(  # fields that usually only the first and the last output of a request have
    name for name in EngineCoreOutput.__struct_fields__ if name not in MERGED
)


@dataclass(slots=True)
class _Held:
    """Tokens sampled for a request and not passed on yet."""

    client: int  # the recipient
    last: EngineCoreOutput
    token_ids: list[int]
    logprobs: list[LogprobsLists]  # one per step

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
    """Hold tokens back, in either scheduler."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held: dict[str, _Held] = {}

    def update_from_output(self, *args: Any, **kwargs: Any) -> dict[int, EngineCoreOutputs]:
        """Return the outputs to pass on after a step; in a pause, all that are held."""
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
        """Return the batch that an output completes, or None: it is held."""
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
        """Discard the held tokens of requests that are ended from outside."""
        found = super().finish_requests(*args, **kwargs)
        for request in found:
            self._held.pop(request.request_id, None)
        return found

    def has_finished_requests(self) -> bool:
        """Return whether a paused engine must still make a step: it is not idle while tokens are held."""
        return super().has_finished_requests() or (
            bool(self._held) and self.pause_state == PauseState.PAUSED_ALL
        )


class HoldingScheduler(_Holding, Scheduler):
    """vLLM's scheduler, passing tokens on in batches."""


class HoldingAsyncScheduler(_Holding, AsyncScheduler):
    """vLLM's asynchronous scheduler, passing tokens on in batches."""


def in_helpings(base: type[Any]) -> type[Any]:
    """Return the class that replaces vLLM's `base`: `base` itself where it is unknown."""
    return {Scheduler: HoldingScheduler, AsyncScheduler: HoldingAsyncScheduler}.get(base, base)


def _joined(parts: Sequence[LogprobsLists]) -> LogprobsLists | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    ids, logprobs, ranks = (np.concatenate(one) for one in zip(*(part[:3] for part in parts), strict=True))
    return LogprobsLists(ids, logprobs, ranks)


def _is_news(record: logging.LogRecord) -> bool:
    """Drop vLLM's warning that the interface is unstable, which its readers can't act on."""
    return "custom scheduler class" not in str(record.msg)


logging.getLogger(SchedulerConfig.__module__).addFilter(_is_news)
