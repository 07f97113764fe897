"""What vLLM's schedulers hold back, step by step; the tests of the engine have the tokens of real requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]

CLIENT = 3


class Steps:
    """A scheduler of either kind whose steps a test scripts; requests named `each...` want every step."""

    def __init__(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler

        from generators.engines.vllm import scheduler

        def stubbed(*_: Any, outputs: list[EngineCoreOutput] | None = None, **__: Any) -> Any:
            return {CLIENT: self.sent(outputs)} if outputs else {}

        monkeypatch.setattr(scheduler, "HELPING", 3)
        for base in (Scheduler, AsyncScheduler):
            monkeypatch.setattr(base, "__init__", lambda *_: None)
        monkeypatch.setattr(Scheduler, "update_from_output", stubbed)
        monkeypatch.setattr(Scheduler, "has_finished_requests", lambda _: False)
        monkeypatch.setattr(
            Scheduler,
            "finish_requests",
            lambda _, names, __: [SimpleNamespace(request_id=name) for name in names],
        )
        self.scheduler = getattr(scheduler, kind)()
        self.scheduler.requests = {
            name: SimpleNamespace(
                sampling_params=SamplingParams(
                    output_kind=RequestOutputKind.DELTA
                    if name.startswith("each")
                    else RequestOutputKind.FINAL_ONLY
                )
            )
            for name in ("a", "b", "each")
        }
        self.pause(False)

    def sent(self, outputs: list[EngineCoreOutput]) -> EngineCoreOutputs:
        from vllm.v1.engine import EngineCoreOutputs

        return EngineCoreOutputs(outputs=outputs)

    def pause(self, is_paused: bool) -> None:
        from vllm.v1.core.sched.interface import PauseState

        self.scheduler._pause_state = PauseState.PAUSED_ALL if is_paused else PauseState.UNPAUSED

    def step(self, *sampled: tuple[str, int], ends: str = "") -> list[tuple[str, list[int], bool]]:
        """Return what is passed on of a step that sampled these tokens: name, tokens, whether it ends."""
        from vllm.v1.engine import EngineCoreOutput, FinishReason
        from vllm.v1.outputs import LogprobsLists

        outputs = [
            EngineCoreOutput(
                name,
                [token],
                new_logprobs=LogprobsLists(np.array([[token]]), np.array([[-float(token)]]), np.array([1])),
                finish_reason=FinishReason.STOP if name == ends else None,
            )
            for name, token in sampled
        ]
        found = self.scheduler.update_from_output(outputs=outputs)
        passed = [output for sent in found.values() for output in sent.outputs]
        assert set(found) == ({CLIENT} if passed else set())
        for output in passed:
            assert output.new_logprobs.logprobs[:, 0].tolist() == [-token for token in output.new_token_ids]
            assert output.new_logprobs.logprob_token_ids[:, 0].tolist() == output.new_token_ids
            assert len(output.new_logprobs.sampled_token_ranks) == len(output.new_token_ids)
        return [(output.request_id, output.new_token_ids, output.finished) for output in passed]


@pytest.fixture(params=["HoldingScheduler", "HoldingAsyncScheduler"])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(request.param, monkeypatch)


def test_tokens_are_passed_on_in_helpings_and_with_an_end(steps: Steps) -> None:
    assert steps.step(("a", 1), ("each", 7)) == [("each", [7], False)]
    assert steps.step(("a", 2), ("b", 5)) == []
    assert steps.step(("a", 3), ("b", 6), ends="b") == [("a", [1, 2, 3], False), ("b", [5, 6], True)]
    assert steps.step(("a", 4), ends="a") == [("a", [4], True)]


def test_a_pause_is_over_when_nothing_is_held_back(steps: Steps) -> None:
    steps.step(("a", 1), ("b", 5))
    assert not steps.scheduler.has_finished_requests()
    steps.pause(True)
    assert steps.scheduler.has_finished_requests()
    assert steps.step() == [("a", [1], False), ("b", [5], False)]
    assert not steps.scheduler.has_finished_requests()
    steps.pause(False)
    assert steps.step(("a", 2), ends="a") == [("a", [2], True)]


def test_what_is_held_of_a_request_goes_with_it(steps: Steps) -> None:
    steps.step(("a", 1), ("b", 5))
    steps.scheduler.finish_requests(["a"], None)
    steps.pause(True)
    assert steps.step() == [("b", [5], False)]


def test_a_scheduler_of_ones_own_stays() -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    from generators.engines.vllm.scheduler import HoldingScheduler, in_helpings

    class Own(Scheduler):
        pass

    assert in_helpings(Own) is Own
    assert in_helpings(Scheduler) is HoldingScheduler
