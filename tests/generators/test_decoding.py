"""Text that was left out of the journal comes back to the letter."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.rigs.groups import demo_engine, demo_prompts, demo_run, scored
from broker.errors import RunFailed
from broker.messages import NO_IDS, Completion, End, FinishReason, Prompt, SampledGroup, Segment, Span
from config.generators import ScriptedEngineConfig
from config.run import ModelConfig
from generators import chat, decoding
from generators.answers import answer
from generators.chat import Chat
from generators.decoding import CompletionDecoder, open_decoder
from generators.engines.scripted import ScriptedChat, ScriptedEngine
from tests.support.byte_model import make_prompt, make_run
from tests.support.in_loop import in_loop

pytestmark = pytest.mark.model


def sampled(prompt: Prompt, completions: tuple[Completion, ...]) -> SampledGroup:
    return SampledGroup(prompt=prompt, completions=completions, generator="g", seconds=0.0)


def silent(rollout: SampledGroup) -> SampledGroup:
    return replace(rollout, completions=tuple(replace(said, text="") for said in rollout.completions))


@pytest.mark.timeout(60)
def test_the_demo_models_answers_come_back_as_its_generator_gave_them(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    prompts = [replace(prompt, max_tokens=12) for prompt in demo_prompts(run, 2)]
    with demo_engine(run) as sample:
        rollouts = [sampled(*pair) for pair in zip(prompts, sample(prompts), strict=True)]
    decoder = open_decoder(run)
    for rollout in rollouts:
        given = [said.text for said in rollout.completions]
        read = decoder.with_text(scored(silent(rollout))).rollout
        assert [said.text for said in read.completions] == given
        assert any(given)
    reasons = {said.finish_reason for rollout in rollouts for said in rollout.completions}
    assert reasons == set(FinishReason)  # with a stop token to leave out, and without


@pytest.mark.parametrize("max_tokens", [1, 3, 4, 99])
@in_loop
async def test_the_fake_engines_answers_do_too_cut_or_whole(tmp_path: Path, max_tokens: int) -> None:
    config = ScriptedEngineConfig(answers=("né", ""))
    run, prompt = make_run(tmp_path, config), make_prompt("1", max_tokens=max_tokens)
    engine, decoder = ScriptedEngine(run, config), open_decoder(run)
    await engine.load_weights([tmp_path], 0)
    for said in await answer(prompt, engine, ScriptedChat()):
        assert decoder.text(prompt, replace(said, text="")) == said.text


@pytest.mark.parametrize(
    ("last", "ended_by", "text"),
    [
        (b"no\0", End.ENVIRONMENT, "no"),
        (b"no\0", End.TURNS, "no"),
        (b"no\0", End.CONTEXT, "no"),
        (b"no", End.CONTEXT, "no"),
        (b"no\0", End.FAILED, "no"),
    ],
)
def test_an_episodes_text_is_its_last_turns_when_cut_too(last: bytes, ended_by: End, text: str) -> None:
    ids = np.frombuffer(b"yes\0user\nmore\0" + last, np.uint8).astype(np.int32)
    first = len(ids) - len(last)
    is_sampled = np.arange(len(ids)) >= first
    is_sampled[:4] = True
    segment = Segment(
        prompt_ids=NO_IDS,
        token_ids=ids,
        logprobs=np.where(is_sampled, -1, 0).astype(np.float32),
        policy_spans=(Span(version=0, first=0, count=4), Span(version=0, first=first, count=len(last))),
        loss_mask=(4, first - 4, len(last)),
    )
    finish = FinishReason.LENGTH if ended_by.is_cut else FinishReason.STOP
    episode = Completion(segments=(segment,), finish_reason=finish, text="", ended_by=ended_by)
    decoder = CompletionDecoder(ScriptedChat())
    assert decoder.text(make_prompt("1"), episode) == text
    assert decoder.text(make_prompt("1"), replace(episode, segments=(), ended_by=End.FAILED)) == ""


def test_a_tokenizer_that_is_not_there_or_not_given_by_the_hub_in_time_is_named_with_how_to_bring_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closes = threading.Event()

    def load_chat(model: ModelConfig, *, is_offline: bool = False) -> Chat:
        """As transformers, where the cache is empty and the hub takes connections and says nothing."""
        if not is_offline:
            closes.wait(30)
        raise RunFailed(f"{model.path}: couldn't find it in the cached files")

    with pytest.raises(RunFailed, match=f"{tmp_path}/none.*tokenizer"):
        open_decoder(demo_run(tmp_path, model={"path": str(tmp_path / "none")}))
    for place in (chat, decoding):
        monkeypatch.setattr(place, "load_chat", load_chat)
    monkeypatch.setattr(decoding, "HUB_S", 0.05)
    run = demo_run(tmp_path, model={"path": "nobody/nothing"})
    told = r"model.path=nobody/nothing: .* in 0 s.*: hf download nobody/nothing "
    with pytest.raises(RunFailed, match=told):
        open_decoder(run)
    assert "for=the hub: the tokenizer of model.path=nobody/nothing is not on this machine" in caplog.text
    closes.set()
    monkeypatch.setattr(decoding, "HUB_S", 5.0)
    with pytest.raises(RunFailed, match="couldn't find it"):  # what the hub says in time is passed on
        open_decoder(run)
