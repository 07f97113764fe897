"""The transformers engine samples from the weights it was given, and says with which probability; by numbers, too."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, Qwen2ForCausalLM

from broker.errors import Retryable, RunFailed
from broker.messages import Completion, FinishReason, Prompt, Span
from config.generators import HfEngineConfig
from generators.answers import params_of
from generators.engine import Sample
from generators.engines.hf.engine import HfEngine
from generators.engines.hf.sampling import SampleRequest, nucleus, sample_groups
from tests.support import byte_model
from tests.support.byte_model import STOP_ID, VOCABULARY, make_prompt, random_model, save_weights
from tests.support.sampled import sample

pytestmark = pytest.mark.model

Group = tuple[Completion, ...]


class Started:
    def __init__(self, model: Path, *, batch_groups: int = 16) -> None:
        config = HfEngineConfig(batch_groups=batch_groups, threads=1)
        self.engine = HfEngine(byte_model.make_run(model, config), config)
        self.loop = asyncio.Runner()
        self.loop.run(self.engine.start())

    def load(self, version: int, *files: Path) -> None:
        self.loop.run(self.engine.load_weights(list(files), version))

    def sample(self, *prompts: Prompt) -> list[Group]:
        async def together() -> list[Group]:
            return await asyncio.gather(*(sample(self.engine, prompt) for prompt in prompts))

        return self.loop.run(together())

    def close(self) -> None:
        self.loop.run(self.engine.close())
        self.loop.close()


@pytest.fixture
def unloaded(tiny_model: Path) -> Iterator[Started]:
    """Yield an engine that has no weights yet."""
    with closing(Started(tiny_model)) as engine:
        yield engine


@pytest.fixture
def started(unloaded: Started, tiny_model: Path) -> Started:
    """Return an engine with the folder's own weights (seed 0) as version 0."""
    unloaded.load(0, tiny_model / "model.safetensors")
    return unloaded


def assert_agrees(model: PreTrainedModel, prompt: Prompt, group: Group, *, version: int = 0) -> None:
    """Hold a group to the model's own log-probabilities, and to that version."""
    logprobs = byte_model.reference_logprobs(model, prompt, group)
    for completion, expected in zip(group, logprobs, strict=True):
        np.testing.assert_allclose(completion.segments[0].logprobs, expected, atol=1e-5, rtol=0)
        assert completion.segments[0].policy_spans == (
            Span(version=version, first=0, count=len(completion.segments[0].token_ids)),
        )


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_of_the_distribution_and_a_seed_repeats(started: Started, temperature: float) -> None:
    def sampled(seed: int) -> list[list[int]]:
        prompt = make_prompt("1+2=", seed=seed, temperature=temperature)
        [group] = started.sample(prompt)
        assert_agrees(random_model(seed=0), prompt, group)
        return [completion.segments[0].token_ids.tolist() for completion in group]

    first = sampled(1)
    assert first == sampled(1) != sampled(2)
    assert len({tuple(row) for row in first}) == len(first)  # the completions of a group differ


def test_tokens_come_as_often_as_the_model_says_side_by_side_too(started: Started) -> None:
    prompt = make_prompt("1+2=", n=4000, max_tokens=1, temperature=0.5)
    [group] = started.sample(prompt)
    counts = np.bincount(
        [int(completion.segments[0].token_ids[0]) for completion in group], minlength=len(VOCABULARY)
    )
    with torch.inference_mode():
        logits = random_model(seed=0)(torch.tensor([prompt.token_ids.tolist()])).logits[0, -1]
    expected = torch.softmax(logits / 0.5, -1).numpy()
    deviation = np.sqrt(4000 * expected * (1 - expected))
    assert expected.max() > 0.05  # there is something to get wrong
    assert (np.abs(counts - 4000 * expected) <= 4.5 * deviation + 1).all()
    prompts = [make_prompt("1" * length, seed=length, n=3, max_tokens=8 + length) for length in (1, 2, 7, 19)]
    for prompt, together in zip(prompts, started.sample(*prompts), strict=True):
        [alone] = started.sample(prompt)
        for one, other in zip(together, alone, strict=True):
            assert one.segments[0].token_ids.tolist() == other.segments[0].token_ids.tolist()
            np.testing.assert_allclose(
                one.segments[0].logprobs, other.segments[0].logprobs, atol=1e-5, rtol=0
            )
        assert_agrees(random_model(seed=0), prompt, together)


def test_a_row_ends_at_its_first_stop_token_or_at_the_limit(started: Started) -> None:
    """One token of 257 stops, so rows end at different places and the batch shrinks on its way."""
    prompt = make_prompt("1+2=", n=48, max_tokens=200)
    [group] = started.sample(prompt)
    stopped = [completion for completion in group if completion.finish_reason is FinishReason.STOP]
    assert 8 < len(stopped) < 48  # both ends are met, at many places
    for completion in group:
        *inside, last = completion.segments[0].token_ids.tolist()
        assert STOP_ID not in inside
        assert (last == STOP_ID) == (completion.finish_reason is FinishReason.STOP)
        assert last == STOP_ID or len(completion.segments[0].token_ids) == 200
        assert "<|endoftext|>" not in completion.text
    assert_agrees(random_model(seed=0), prompt, group)


@pytest.mark.parametrize(("prompt", "opened"), [("1+2=", ""), ("1+2=<think>", "<think>")])
def test_text_is_the_ids_bytes_behind_an_open_thought(started: Started, prompt: str, opened: str) -> None:
    # GPT-2's alphabet: these are themselves, and the others come from 256 on.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [code for code in range(256) if code not in printable]
    byte_of = {VOCABULARY[chr(code)]: code for code in printable}
    byte_of |= {VOCABULARY[chr(256 + i)]: code for i, code in enumerate(others)}
    [group] = started.sample(make_prompt(prompt, n=64, max_tokens=48))
    for completion in group:
        spoken = bytes(
            byte_of[token] for token in completion.segments[0].token_ids.tolist() if token != STOP_ID
        )
        assert completion.text == opened + spoken.decode(errors="replace")


@pytest.mark.parametrize("tied", [True, False])
def test_new_weights_are_really_used(tmp_path: Path, tied: bool) -> None:
    prompt = make_prompt("1+2=")
    with closing(Started(byte_model.save_folder(tmp_path, tied=tied))) as started:
        for seed, version in ((1, 4), (2, 5)):
            model = random_model(seed=seed, tied=tied)
            started.load(version, save_weights(model, tmp_path / f"{version}.safetensors"))
            [group] = started.sample(prompt)
            assert started.engine.version == version
            assert_agrees(model, prompt, group, version=version)


def test_weights_that_come_during_a_batch_wait_for_its_end(started: Started, tmp_path: Path) -> None:
    new = random_model(seed=1)
    file = save_weights(new, tmp_path / "new.safetensors")
    prompt = make_prompt("1+2=", n=16, max_tokens=100)

    async def body() -> tuple[Group, Group]:
        first = asyncio.create_task(sample(started.engine, prompt))
        await asyncio.sleep(0.05)  # the batch has begun: it waits 5 ms for company
        await started.engine.load_weights([file], 1)
        return await first, await sample(started.engine, prompt)

    old_group, new_group = started.loop.run(body())
    assert_agrees(random_model(seed=0), prompt, old_group)
    assert_agrees(new, prompt, new_group, version=1)


Change = Callable[[dict[str, torch.Tensor]], object]


def test_a_file_of_another_model_is_refused_and_changes_nothing(started: Started, tmp_path: Path) -> None:
    weights = load_file(save_weights(random_model(seed=1), tmp_path / "good.safetensors"))
    norm = "model.norm.weight"
    changes: list[tuple[Change, str]] = [
        (lambda some: some.pop(norm), f"missing {norm}; unexpected none"),
        (lambda some: some.update(extra=torch.zeros(1)), "missing none; unexpected extra"),
        (
            lambda some: some.update({norm: torch.zeros(63)}),
            rf"{norm} has shape \(63,\), the model's is \(64,\)",
        ),
    ]
    file = tmp_path / "bad.safetensors"
    for change, message in changes:
        changed = dict(weights)
        change(changed)
        save_file(changed, file)
        with pytest.raises(RunFailed, match=message):
            started.load(1, file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(RunFailed, match=r"bad\.safetensors can't be read"):
        started.load(1, file)
    with pytest.raises(FileNotFoundError):  # the announcement is then read again: a newer one has replaced it
        started.load(1, tmp_path / "gone.safetensors")
    prompt = make_prompt("1+2=")
    assert_agrees(random_model(seed=0), prompt, *started.sample(prompt))


def test_weights_of_several_files_are_loaded_together_or_not_at_all(started: Started, tmp_path: Path) -> None:
    new = random_model(seed=1)
    files = byte_model.in_parts(save_weights(new, tmp_path / "whole.safetensors"), tmp_path, 3)
    started.load(1, *files)
    prompt = make_prompt("1+2=")
    assert_agrees(new, prompt, *started.sample(prompt), version=1)
    for some, message in ((files[:2], "missing"), ([*files, files[0]], "in more than one file")):
        with pytest.raises(RunFailed, match=message):
            started.load(2, *some)
    assert started.engine.version == 1


def test_more_groups_than_a_batch_takes_are_all_sampled(tiny_model: Path) -> None:
    prompts = [make_prompt("1" * (1 + i % 3), seed=i) for i in range(7)]
    with closing(Started(tiny_model, batch_groups=2)) as started:
        started.load(0, tiny_model / "model.safetensors")
        groups = started.sample(*prompts)
    for prompt, group in zip(prompts, groups, strict=True):
        assert_agrees(random_model(seed=0), prompt, group)


def test_a_batch_has_room_for_completions_not_for_requests(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of an episode asks for one completion of a group's 8; a held-out prompt may ask for more than a group."""
    batches: list[list[int]] = []

    def noted(engine: HfEngine, requests: list[SampleRequest]) -> list[tuple[Sample, ...]]:
        batches.append([request.n for request in requests])
        return sample_batch(engine, requests)

    sample_batch = HfEngine._sample
    monkeypatch.setattr(HfEngine, "_sample", noted)
    asked = [*[1] * 12, 8, 20, 8, 1]
    prompts = [make_prompt("1", n=n, seed=i, max_tokens=2) for i, n in enumerate(asked)]
    with closing(Started(tiny_model, batch_groups=2)) as started:
        assert started.engine._run.sampling.group_size == 8
        started.load(0, tiny_model / "model.safetensors")
        groups = started.sample(*prompts)
    assert batches == [[1] * 12, [8, 20], [8, 1]]
    assert [len(group) for group in groups] == asked


def test_an_error_or_an_end_in_a_batch_reaches_its_callers(started: Started) -> None:
    beyond = make_prompt("1+2=")
    beyond.token_ids[0] = len(VOCABULARY)  # no such row of the embedding
    with pytest.raises(IndexError):
        started.sample(beyond)
    [group] = started.sample(make_prompt("1+2="))
    assert len(group) == 4

    async def body() -> None:
        endless = asyncio.create_task(sample(started.engine, make_prompt("1+2=", n=64, max_tokens=400)))
        await asyncio.sleep(0.05)
        await started.engine.close()
        for late in (endless, sample(started.engine, make_prompt("1+2="))):
            with pytest.raises(Retryable, match="closed"):
                await late

    started.loop.run(body())


def test_an_engine_without_weights_or_a_model_is_refused(unloaded: Started, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="load_weights"):
        unloaded.sample(make_prompt("1+2="))
    with pytest.raises(RunFailed, match=str(tmp_path)):
        Started(tmp_path)


ENDS: Any = SimpleNamespace(stop_token_ids=frozenset({STOP_ID}))  # what a chat knows of the sampling

SHARES = [0.1, 0.4, 0.3, 0.15, 0.05]  # by token id; by likelihood: 1, 2, 3, 0, 4


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    return random_model(seed=0)


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (1e-6, [1]),  # never empty
        (0.39, [1]),
        (0.5, [1, 2]),  # 0.4 is not enough
        (0.69, [1, 2]),
        (0.71, [1, 2, 3]),
        (0.9, [1, 2, 3, 0]),
        (1.0, [1, 2, 3, 0, 4]),
    ],
)
def test_a_nucleus_is_the_fewest_tokens_of_its_probability(top_p: float, kept: list[int]) -> None:
    logprobs = nucleus(torch.tensor([SHARES]).log(), torch.tensor([[top_p]], dtype=torch.float64))[0]
    together = sum(SHARES[token] for token in kept)
    for token, share in enumerate(SHARES):
        expected = math.log(share / together) if token in kept else -math.inf
        assert float(logprobs[token]) == pytest.approx(expected, abs=1e-6)


def test_among_equals_the_smaller_id_is_in_the_nucleus() -> None:
    logprobs = nucleus(torch.full((1, 4), 0.25).log(), torch.tensor([[0.49]], dtype=torch.float64))[0]
    assert logprobs.exp().tolist() == pytest.approx([0.5, 0.5, 0, 0])


def sampled(model: Qwen2ForCausalLM, *prompts: Prompt) -> list[list[list[tuple[int, float]]]]:
    """Return the tokens of each prompt's completions with their log-probabilities."""
    requests = [SampleRequest(prompt.token_ids, params_of(prompt, ENDS), prompt.n) for prompt in prompts]
    groups = sample_groups(model, requests, lambda: False)
    return [
        [list(zip(each.token_ids.tolist(), each.logprobs.tolist(), strict=True)) for each in group]
        for group in groups
    ]


@torch.inference_mode()
def next_token(model: Qwen2ForCausalLM, prompt: Prompt, before: list[int]) -> torch.Tensor:
    """Return the model's log-probabilities [V] behind a prompt and the tokens before, at the prompt's temperature."""
    ids = torch.tensor([[*prompt.token_ids.tolist(), *before]])
    logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits[0, -1]
    return torch.log_softmax(logits.float() / (prompt.temperature or 1.0), -1)


def test_greedy_is_argmax_and_only_a_nucleus_is_sampled(model: Qwen2ForCausalLM) -> None:
    prompt = make_prompt("1+2=", n=2, temperature=0.0, max_tokens=12)
    [[first, second]] = sampled(model, prompt)
    ids = [token for token, _ in first]
    assert [token for token, _ in second] == ids
    for position, rows in enumerate(zip(first, second, strict=True)):
        expected = next_token(model, prompt, ids[:position])
        for token, logprob in rows:
            assert token == int(expected.argmax())
            assert logprob == pytest.approx(float(expected.max()), abs=1e-5)
    trains = make_prompt("1+2=", seed=3)
    held_out = [make_prompt("3+4=", seed=4, temperature=0.0), make_prompt("5+6=", seed=5, top_p=0.6)]
    together, *others = sampled(model, trains, *held_out)
    assert [len(group) for group in others] == [4, 4]
    for one, alone in zip(together, sampled(model, trains)[0], strict=True):
        assert [token for token, _ in one] == [token for token, _ in alone]
        assert [value for _, value in one] == pytest.approx([value for _, value in alone], abs=1e-5)
    prompt = make_prompt("1+2=", n=2000, max_tokens=1, temperature=0.8, top_p=0.5)
    whole = next_token(model, prompt, [])
    within = nucleus(whole[None], torch.tensor([[0.5]], dtype=torch.float64))[0]
    assert 1 < int(torch.isfinite(within).sum()) < len(whole)
    counts = torch.zeros(len(whole))
    for [(token, logprob)] in sampled(model, prompt)[0]:
        counts[token] += 1
        assert logprob == pytest.approx(float(within[token]), abs=1e-5)
    expected = 2000 * within.exp()
    assert bool(((counts - expected).abs() <= 4.5 * expected.sqrt() + 1).all())
