"""The limits of the engines beside what the installed engines say of them."""

from __future__ import annotations

import pytest

from config.engines.limits import HF, MOST_COMPLETIONS, MOST_SEED, VLLM

pytestmark = [pytest.mark.model, pytest.mark.together("vllm")]


def test_the_limits_are_those_of_the_installed_vllm() -> None:
    vllm = pytest.importorskip("vllm")
    from vllm import envs
    from vllm.exceptions import VLLMValidationError

    assert envs.VLLM_MAX_N_SEQUENCES == MOST_COMPLETIONS
    for temperature in (VLLM.least_temperature, 1.0, VLLM.most_temperature, 0.0):
        assert vllm.SamplingParams(temperature=temperature).temperature == temperature
    assert vllm.SamplingParams(temperature=0.001).temperature == VLLM.least_temperature  # lifted
    for refused in ({"temperature": 2.0001}, {"n": MOST_COMPLETIONS + 1}, {"top_p": 0.0}, {"max_tokens": 0}):
        with pytest.raises(VLLMValidationError):
            vllm.SamplingParams(**refused)


def test_the_limits_are_those_of_the_installed_torch() -> None:
    import torch

    assert torch.Generator().manual_seed(MOST_SEED)
    with pytest.raises((RuntimeError, ValueError, OverflowError)):
        torch.Generator().manual_seed(MOST_SEED + 1)
    logits = torch.tensor([30.0, -300.0])
    for temperature, is_fine in ((HF.least_temperature, True), (1e-40, False)):
        logprobs = torch.log_softmax(logits / torch.tensor(temperature), dim=-1)
        assert bool(torch.isfinite(logprobs[0])) is is_fine
