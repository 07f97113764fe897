"""vLLM itself: it samples as transformers would, and takes new weights while it samples. One engine for the session."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, Qwen2Tokenizer

from broker.errors import BadMessage, RunFailed
from broker.messages import Completion, FinishReason, Prompt, Span
from config.endpoint import EndpointConfig
from config.generators import VllmEngineConfig
from config.scorer_kinds import JudgeConfig, RubricConfig
from generators.engine import NO_VERSION
from generators.engines.hf import model as hf_model
from generators.engines.vllm import engine as vllm_engine
from generators.engines.vllm import settings as vllm_settings
from generators.engines.vllm.engine import VllmEngine
from generators.engines.vllm.environment import BINDING
from generators.engines.vllm.liveness import EngineDied, Lifeline
from generators.engines.vllm.memory import memory_arguments
from scorers import api
from scorers.served_model.client import Endpoint, EndpointMisused
from tests.generators.engines.vllm import judging
from tests.generators.engines.vllm.judging import GRADED, JUDGED, Judging, answers
from tests.support.byte_model import (
    STOP,
    STOP_ID,
    VOCABULARY,
    assert_agrees,
    in_parts,
    make_prompt,
    make_run,
    random_model,
    save_weights,
)
from tests.support.descendants import descendants
from tests.support.sampled import sample
from tests.support.vllm_server import KEY, MODEL, ModelServer, parrot, serving
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from vllm.v1.engine import EngineCoreOutput
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.engine.output_processor import OutputProcessorOutput

pytestmark = [
    pytest.mark.model,
    pytest.mark.together("vllm"),
    pytest.mark.prove(after=2),
    pytest.mark.filterwarnings("ignore:Unclosed context:ResourceWarning"),  # vLLM leaves its own open
    pytest.mark.filterwarnings("ignore:max_tokens is deprecated:DeprecationWarning"),
]

CONFIG = VllmEngineConfig(kv_cache_mb=64, max_num_seqs=64, enforce_eager=True, start_timeout_s=280)
MAX_TOKENS = 300
CONTEXT = 4096  # tokens of prompt and completion: room for what a judge is asked

Group = tuple[Completion, ...]


class Served:
    """The session's engine on its own event loop, and where the next version comes from."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.engine = VllmEngine(make_run(model, CONFIG, max_tokens=MAX_TOKENS, context=CONTEXT), CONFIG)
        self.loop = asyncio.Runner()
        self.folder = folder
        self.version = NO_VERSION
        self.loop.run(self.engine.start())

    @property
    def vllm(self) -> AsyncLLM:
        assert self.engine._parts is not None
        return self.engine._parts.engine

    def file(self, model: PreTrainedModel) -> Path:
        self.version += 1
        return save_weights(model, self.folder / f"{self.version}.safetensors")

    def load(self, model: PreTrainedModel) -> None:
        self.loop.run(self.engine.load_weights([self.file(model)], self.version))

    async def put(self, model: PreTrainedModel) -> int:
        """Give the engine a new version while the loop runs, and return its number."""
        await self.engine.load_weights([self.file(model)], self.version)
        return self.version

    def sample(self, *prompts: Prompt) -> list[Group]:
        return self.loop.run(self.sampled(*prompts))

    async def sampled(self, *prompts: Prompt) -> list[Group]:
        return await asyncio.gather(*(sample(self.engine, prompt) for prompt in prompts))

    def assert_samples(self, model: PreTrainedModel) -> None:
        """Hold a group to the model, which has to be the newest version."""
        prompt = make_prompt("1+2=")
        assert_agrees({self.version: model}, prompt, *self.sample(prompt))

    def close(self) -> None:
        self.loop.run(self.engine.close())
        self.loop.close()


@pytest.fixture(scope="session")
def served(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """vLLM on the tiny model, whose embedding is tied: the case in which a stale output layer goes unnoticed."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OMP_NUM_THREADS", "1")
        environment.setenv("LD_PRELOAD", "")  # vLLM sets it, and later children of pytest would inherit that
        served = Served(tiny_model, tmp_path_factory.mktemp("weights"))
    yield served
    served.close()


def test_a_lone_worker_is_part_of_the_engine_core(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its room follows from the cache that vLLM has found, and an end that was asked for is no error."""
    from generators.engines.vllm.worker import CoreProcessExecutor

    config = served.vllm.vllm_config
    assert config.parallel_config.distributed_executor_backend is CoreProcessExecutor
    assert vllm_settings.executor_of(VllmEngineConfig(tensor_parallel=2)) is None
    monkeypatch.setenv(BINDING, "auto")
    assert vllm_settings.executor_of(VllmEngineConfig()) is None
    # 64 MiB in fp32: 2 layers x 2 x 32 x 4 bytes a token make 131,072; 64 of 4,096 would not fit.
    assert config.cache_config.kv_cache_size_tokens == 64 * 2**20 // (2 * 2 * 32 * 4)
    assert served.engine.room == 2 * 32 // 8
    for name in vllm_engine.REPORTS_OF_THE_END:
        assert name in sys.modules  # a module of vLLM's, whose logger has its name
        logger = logging.getLogger(name)
        before = logger.level
        with vllm_engine._without_reports_of_the_end():
            assert not logger.isEnabledFor(logging.ERROR)
        assert logger.level == before


def test_the_engine_core_is_a_fork_that_holds_no_connection_of_its_parent(served: Served) -> None:
    """And it is shown by vLLM's name."""
    [core] = served.vllm.engine_core.resources.engine_manager.processes
    assert isinstance(core, ForkProcess)
    assert core.pid is not None
    ours, theirs = _sockets("self"), _sockets(core.pid)
    assert ours
    assert theirs
    assert not ours & theirs
    assert descendants(os.getpid())[core.pid] == "VLLM::EngineCore"


def _sockets(process: int | str) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile, as that of the listing itself
            found.add(str(entry.readlink()))
    return {name for name in found if name.startswith("socket:")}


def test_logprobs_agree_with_transformers(served: Served) -> None:
    model = random_model(seed=1)
    served.load(model)
    prompts = [
        make_prompt("1+2=", seed=1),
        make_prompt("1" * 19, seed=2, temperature=0.7),
        make_prompt("7", seed=3, n=1, max_tokens=1),
    ]
    for prompt, group in zip(prompts, served.sample(*prompts), strict=True):
        assert_agrees({served.version: model}, prompt, group)
        for completion in group:
            assert completion.segments[0].policy_spans == (
                Span(version=served.version, first=0, count=len(completion.segments[0].token_ids)),
            )


def test_what_is_sampled_comes_in_helpings(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it: the tests around this one hold the tokens, their log-probabilities and versions to the model's."""
    from generators.engines.vllm.scheduler import HELPING

    model = random_model(seed=6)
    served.load(model)
    came: list[int] = []
    take = served.vllm.output_processor.process_outputs

    def counted(outputs: list[EngineCoreOutput], *args: Any, **named: Any) -> OutputProcessorOutput:
        came.extend(len(output.new_token_ids) for output in outputs)
        return take(outputs, *args, **named)

    monkeypatch.setattr(served.vllm.output_processor, "process_outputs", counted)
    prompt = make_prompt("1+2=", seed=6, n=4, max_tokens=MAX_TOKENS // 2)
    [group] = served.sample(prompt)
    assert_agrees({served.version: model}, prompt, group)
    lengths = [len(completion.segments[0].token_ids) for completion in group]
    assert sum(came) == sum(lengths)
    assert len(came) == sum(1 + -(-(length - 1) // HELPING) for length in lengths)


def test_greedy_and_nucleus_samples_have_the_log_probabilities_of_segments(served: Served) -> None:
    """Beside a group that trains, in one batch of vLLM's."""
    model = random_model(seed=1)
    served.load(model)
    greedy = make_prompt("1+2=", seed=1, n=3, temperature=0.0)
    nucleus = make_prompt("3+4=", seed=2, n=8, temperature=0.8, top_p=0.5)
    trains = make_prompt("5+6=", seed=3)
    prompts = (greedy, nucleus, trains)
    found = served.sample(*prompts)
    for prompt, group in zip(prompts, found, strict=True):
        assert_agrees({served.version: model}, prompt, group)
    first, *others = found[0]
    assert all(one.segments[0].token_ids.tolist() == first.segments[0].token_ids.tolist() for one in others)
    ids = torch.tensor([[*greedy.token_ids.tolist(), *first.segments[0].token_ids.tolist()]])
    with torch.inference_mode():
        likeliest = model(input_ids=ids, use_cache=False).logits[0, len(greedy.token_ids) - 1 : -1].argmax(-1)
    assert first.segments[0].token_ids.tolist() == likeliest.tolist()


def test_new_weights_come_while_requests_are_in_flight(served: Served) -> None:
    old, new = random_model(seed=2), random_model(seed=3)
    served.load(old)
    before, file = served.version, served.file(new)
    models = {before: old, served.version: new}
    in_flight = [make_prompt("1+2=", seed=i, max_tokens=MAX_TOKENS) for i in range(4)]
    fresh = make_prompt("1+2=" * 10, seed=9)  # longer than a block: shorter ones are never found in the cache
    assert len(fresh.token_ids) > vllm_settings.CPU_BLOCK_SIZE
    [group] = served.sample(fresh)
    assert_agrees(models, fresh, group)

    async def body() -> tuple[list[Group], Group]:
        tasks = [asyncio.create_task(sample(served.engine, prompt)) for prompt in in_flight]
        await asyncio.sleep(0.3)
        await served.engine.load_weights([file], served.version)
        return await asyncio.gather(*tasks), await sample(served.engine, fresh)

    groups, group = served.loop.run(body())
    assert_agrees({served.version: new}, fresh, group)  # no span of the old version, and no cache of it
    spans = [completion.segments[0].policy_spans for group in groups for completion in group]
    crossed = [[span.version for span in of_one] == [before, served.version] for of_one in spans]
    assert sum(crossed) >= len(crossed) / 2  # the others had stopped before, or had not begun
    for prompt, old_group in zip(in_flight, groups, strict=True):
        assert_agrees(models, prompt, old_group)


@pytest.mark.prove
@pytest.mark.parametrize(("finish_s", "crossing"), [(60.0, False), (0.2, True)])
def test_completions_under_way_may_end_before_new_weights_come(
    served: Served, monkeypatch: pytest.MonkeyPatch, *, finish_s: float, crossing: bool
) -> None:
    """Those that vLLM has begun end under the old version, unless they take too long; no other begins meanwhile."""
    config = CONFIG.model_copy(update={"new_weights": "finish_first", "finish_s": finish_s})
    monkeypatch.setattr(served.engine, "_config", config)
    old, new = random_model(seed=20), random_model(seed=21)
    served.load(old)
    before, file = served.version, served.file(new)
    models = {before: old, served.version: new}
    in_flight = [make_prompt("1+2=", seed=i, max_tokens=MAX_TOKENS) for i in range(4)]
    later = make_prompt("7" * 40, seed=9)

    async def body() -> tuple[list[Group], Group]:
        tasks = [asyncio.create_task(sample(served.engine, prompt)) for prompt in in_flight]
        states = served.vllm.output_processor.request_states
        count = sum(prompt.n for prompt in in_flight)
        await asyncio.to_thread(
            wait_until,
            lambda: len(states) == count and not any(state.is_prefilling for state in [*states.values()]),
        )
        loading = asyncio.create_task(served.engine.load_weights([file], served.version))
        await asyncio.sleep(0.05)  # the pause has been asked for
        behind = asyncio.create_task(sample(served.engine, later))
        await loading
        return await asyncio.gather(*tasks), await behind

    groups, group = served.loop.run(body())
    assert_agrees({served.version: new}, later, group)
    spans = [completion.segments[0].policy_spans for group in groups for completion in group]
    assert any(len(of_one) > 1 for of_one in spans) == crossing
    assert {of_one[0].version for of_one in spans} == {before}
    for prompt, old_group in zip(in_flight, groups, strict=True):
        assert_agrees(models, prompt, old_group)


@pytest.mark.prove
def test_a_completion_ends_at_a_stop_token_or_at_the_limit(served: Served) -> None:
    served.load(random_model(seed=0))
    most = MAX_TOKENS // 2
    [group] = served.sample(make_prompt("1+2=", n=24, max_tokens=most))
    stopped = [completion for completion in group if completion.finish_reason is FinishReason.STOP]
    assert 0 < len(stopped) < len(group)
    for completion in group:
        *inside, last = completion.segments[0].token_ids.tolist()
        assert STOP_ID not in inside
        assert (last == STOP_ID) == (completion.finish_reason is FinishReason.STOP)
        assert last == STOP_ID or len(completion.segments[0].token_ids) == most
        assert "<|endoftext|>" not in completion.text
        assert "<think>" not in completion.text
    [thinking] = served.sample(make_prompt("1+2=<think>", n=2, max_tokens=4))
    assert all(completion.text.startswith("<think>") for completion in thinking)


@pytest.mark.prove
def test_requests_that_are_longer_than_a_batch_survive_one_update_after_the_other(served: Served) -> None:
    models = {}
    prompts = [make_prompt("1+2=" * 8, n=16, max_tokens=MAX_TOKENS) for _ in range(4)]

    async def body() -> list[Group]:
        tasks = [asyncio.create_task(sample(served.engine, prompt)) for prompt in prompts]
        for seed in range(10, 16):  # each makes vLLM compute all that is in flight again, in parts
            model = random_model(seed=seed)
            file = served.file(model)
            models[served.version] = model
            await served.engine.load_weights([file], served.version)
            await asyncio.sleep(0.1)
        return await asyncio.gather(*tasks)

    served.load(random_model(seed=9))
    models[served.version] = random_model(seed=9)
    groups = served.loop.run(body())
    assert max(len(completion.segments[0].policy_spans) for group in groups for completion in group) > 2
    for prompt, group in zip(prompts, groups, strict=True):
        assert_agrees(models, prompt, group)
        assert len({completion.text for completion in group}) == len(group), "they differ"


def test_a_file_that_can_not_be_loaded_leaves_the_old_weights(served: Served, tmp_path: Path) -> None:
    model = random_model(seed=4)
    served.load(model)
    weights = load_file(save_weights(random_model(seed=5), tmp_path / "good.safetensors"))
    weights["model.norm.weight"] = torch.zeros(63)
    save_file(weights, tmp_path / "bad.safetensors")
    errors = {"bad": (RunFailed, r"model\.norm\.weight has shape"), "gone": (FileNotFoundError, "gone")}
    for name, (error, said) in errors.items():
        file, version = tmp_path / f"{name}.safetensors", served.version + 1
        with pytest.raises(error, match=said):
            served.loop.run(served.engine.load_weights([file], version))
    assert served.engine.version == served.version
    served.assert_samples(model)


@pytest.mark.prove
def test_files_may_vanish_behind_the_check(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.load(random_model(seed=6))
    newer = random_model(seed=7)
    files = in_parts(save_weights(newer, tmp_path / "model.safetensors"), tmp_path, 3)

    def check(_skeleton: object, found: Sequence[Path]) -> None:
        for file in found:  # retention was faster
            file.unlink()

    monkeypatch.setattr(hf_model, "check_weights", check)
    served.version += 1
    served.loop.run(served.engine.load_weights(files, served.version))
    served.assert_samples(newer)


class Core:
    """An engine core without vLLM, which notes what it is asked.

    Args:
        ends_s: how long its completions under way take.
        said: what vLLM says of an update that fails; "": it succeeds.
        file: what retention removes once the first of two workers has read it.
    """

    def __init__(self, *, ends_s: float = 0, said: str = "", file: Path | None = None) -> None:
        self.ends_s, self.said, self.file = ends_s, said, file
        self.pauses: list[tuple[str, bool]] = []
        self.is_paused = False
        self.read: list[bytes] = []

    async def pause_generation(self, *, mode: str, clear_cache: bool) -> None:
        self.pauses.append((mode, clear_cache))
        if mode == "wait":
            await asyncio.sleep(self.ends_s)
        self.is_paused = True

    async def start_weight_update(self) -> None: ...

    async def update_weights(self, request: Any) -> None:
        if self.said:
            raise RuntimeError(self.said)
        assert self.is_paused
        (path,) = request.update_info["paths"]
        for _ in range(2):  # workers
            reader = await asyncio.create_subprocess_exec("cat", path, stdout=PIPE)
            self.read.append((await reader.communicate())[0])
            if self.file:
                self.file.unlink(missing_ok=True)

    async def finish_weight_update(self, *, weight_version: str) -> None:
        assert weight_version == "3"

    async def resume_generation(self) -> None:
        self.is_paused = False


KEPT = ("keep", True)


@pytest.mark.parametrize(
    ("new_weights", "ends_s", "pauses"),
    [
        ("recompute", 0, [KEPT]),
        ("keep_cache", 0, [("keep", False)]),
        ("finish_first", 0, [("wait", False), KEPT]),
        ("finish_first", 60, [("wait", False), KEPT]),  # too long: they are kept, and go on afterwards
    ],
)
def test_new_weights_find_completions_under_way_as_the_run_says(
    *,
    new_weights: str,
    ends_s: float,
    pauses: list[tuple[str, bool]],
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their file may vanish between two workers that read it."""
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    settings = {"new_weights": new_weights, "finish_s": 0.05, "tensor_parallel": 2}
    config = CONFIG.model_copy(update=settings)
    core = Core(ends_s=ends_s, file=file)

    async def body() -> None:
        engine = VllmEngine(make_run(tiny_model, config), config)
        parts = SimpleNamespace(engine=core, line=Lifeline(OSError), skeleton=None)
        engine._parts = parts  # type: ignore[assignment]
        await engine.load_weights([file], 3)
        assert (engine.version, parts.line.is_cut) == (3, False)

    monkeypatch.setattr(hf_model, "check_weights", lambda _skeleton, _file: None)
    asyncio.run(body())
    assert (core.pauses, core.is_paused, core.read) == (pauses, False, [b"weights"] * 2)


@pytest.mark.parametrize(
    ("workers", "exists", "said", "error", "is_cut"),
    [
        (1, False, "No such file or directory", FileNotFoundError, False),
        (2, False, "No such file or directory", EngineDied, True),  # the other may have found it
        (1, False, "out of memory", EngineDied, True),  # half-way, and retention came then
        (1, True, "out of memory", EngineDied, True),
    ],
)
def test_an_update_that_fails_is_harmless_only_if_no_worker_can_have_begun(
    tmp_path: Path, *, workers: int, exists: bool, said: str, error: type[Exception], is_cut: bool
) -> None:
    file = tmp_path / "model.safetensors"
    if exists:
        file.touch()

    async def body() -> None:
        parts = SimpleNamespace(engine=Core(said=said), line=Lifeline(OSError))
        with pytest.raises(error):
            await vllm_engine._replace_weights(parts, [file], 3, workers=workers)  # type: ignore[arg-type]
        assert parts.line.is_cut == is_cut

    asyncio.run(body())


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([16] * 3797, "3797 tokens of prompt and max_tokens=300 are more than 4096"),  # it would be cut short
        ([16, 257], "the prompt has token ids outside the model's 257"),  # vLLM would sample on
        ([], "a prompt has at least one token"),
    ],
)
def test_what_can_not_be_sampled_is_refused_alone(served: Served, tokens: list[int], message: str) -> None:
    served.load(random_model(seed=0))
    prompt = make_prompt("1", seed=5, max_tokens=MAX_TOKENS)
    with pytest.raises(BadMessage, match=message):
        served.sample(replace(prompt, token_ids=np.array(tokens, dtype=np.int32)))
    [group] = served.sample(make_prompt("1+2="))
    assert len(group) == 4


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has memory of its own to fill")
def test_sampling_without_weights_and_a_cpu_without_a_size_of_the_cache_are_refused(tiny_model: Path) -> None:
    engine = VllmEngine(make_run(tiny_model, CONFIG), CONFIG)
    with pytest.raises(RuntimeError, match="load_weights"):
        asyncio.run(sample(engine, make_prompt("1+2=")))
    engine = VllmEngine(make_run(tiny_model, VllmEngineConfig()), VllmEngineConfig())
    with pytest.raises(RunFailed, match=r"kv_cache_mb is needed .* or set generators\.engine\.type=hf"):
        asyncio.run(engine.start())


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Yield what those who ask a judge set, and the process that asks it."""
    monkeypatch.setenv("LLM_JUDGE_API_KEY", KEY)
    monkeypatch.setenv("LLM_JUDGE_MAX_TOKENS", str(judging.MAX_TOKENS))
    yield
    while api._judging:
        api._judging.popitem()[1].close()


# What a judge says, and what each of ten answers is worth then; why its configuration is refused.
JUDGE_SAYS: dict[str, list[float | None]] = {
    "": [None],
    "True": [1.0] * 5 + [None] * 2 + [0.0] * 3,
    "False": [0.0] * 6 + [None] + [0.0] * 3,
    "</think>No": [0.0],
    "No idea": [None],
    "\u00ff": [None],
}
JUDGE_REFUSED = {
    None: "'four' against 4 gave None (the judge's reply was cut off",
    "No idea": "does not end with a verdict: 'No idea'",
    "True": "'five' against 4 gave 1.0",
    "False": "'four' against 4 gave 0.0",
}
RUBRIC_SAYS: dict[str, list[float | None]] = {"7/10": [0.7] * 5 + [None] * 2 + [0.0] * 3}
RUBRIC_SAYS |= {said: [None] for said in ("No idea", "", "\u00ff", "True")}
RUBRIC_REFUSED = {
    None: "2 + 2 = 4 gave None (the rubric model's reply was cut off",
    "7/10": "(the rubric model says: total 7 of 10), 2 + 2 = 5 gave 0.7",
}


@pytest.mark.prove
@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize(
    ("row", "config", "says", "refused"),
    [(JUDGED, JudgeConfig, JUDGE_SAYS, JUDGE_REFUSED), (GRADED, RubricConfig, RUBRIC_SAYS, RUBRIC_REFUSED)],
    ids=["judge", "rubric"],
)
def test_whatever_a_model_on_vllm_babbles_no_score_is_invented(
    *, row: Any, config: Any, says: Any, refused: Any, served: Served, tiny_model: Path
) -> None:
    texts = answers(row, CONTEXT)

    async def body() -> None:
        async with serving(served.vllm, tiny_model) as server:
            asked = Judging(server, served.put)
            for seed in (0, 1):
                assert await asked.values(random_model(seed=seed), row, texts) == [None] * 7 + [0.0] * 3
            for said, values in says.items():
                assert await asked.values(parrot(said), row, texts[: len(values)]) == values
            for said, reason in refused.items():  # None: a random model
                model = random_model(seed=0) if said is None else parrot(said)
                assert reason in await asked.refusal(model, config)
            if config is JudgeConfig:
                too_many = await asked.refusal(parrot("True"), config, max_tokens=CONTEXT + 1)
                assert "HTTP 400 max_tokens=4097 cannot be greater than max_model_len=4096" in too_many

    served.loop.run(body())


@pytest.mark.prove
@pytest.mark.usefixtures("asking")
def test_thoughts_told_from_the_reply_are_none(served: Served, tiny_model: Path, tmp_path: Path) -> None:
    thinking = {name: len(VOCABULARY) + i for i, name in enumerate(("<think>", "</think>"))}
    ends = dict.fromkeys(("eos_token", "pad_token", "unk_token"), STOP)
    tokens: dict[str, Any] = {"merges": [], "additional_special_tokens": [*thinking]}
    Qwen2Tokenizer(vocab=VOCABULARY | thinking, **ends, **tokens).save_pretrained(tmp_path)
    shutil.copy(tiny_model / "config.json", tmp_path)

    async def body() -> None:
        async with serving(served.vllm, tmp_path, reasoning_parser="deepseek_r1") as server:
            judge = Judging(server, served.put)
            texts = ["It is as everybody knows."]
            assert await judge.values(parrot("</think>No"), JUDGED, texts) == [0.0]
            assert await judge.values(parrot("True"), JUDGED, texts) == [None]
            assert "thinking never ended" in await judge.refusal(parrot("True"), JudgeConfig)

    served.loop.run(body())


@pytest.mark.prove
def test_many_questions_at_once_are_answered_and_a_wrong_name_or_key_is_told(
    served: Served, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.load(parrot("False"))

    def ask(server: ModelServer, key: str, **options: Any) -> list[Any]:
        monkeypatch.setenv("LLM_JUDGE_API_KEY", key)
        endpoint = Endpoint(EndpointConfig(urls=(server.url,), **options))
        with closing(endpoint):
            asked = [endpoint.ask([{"role": "user", "content": f"Is {i} prime?"}]) for i in range(64)]
            return [one.exception() or one.result().text for one in asked]

    async def body() -> None:
        async with serving(served.vllm, tiny_model) as server:
            assert await asyncio.to_thread(ask, server, KEY) == ["False"] * 64
            for key, options, reason in (
                (KEY, {"model": "gpt"}, r"HTTP 404 The model `gpt` does not exist"),
                ("wrong", {"model": MODEL}, "HTTP 401 Unauthorized"),
                ("wrong", {}, "/models: HTTP 401 Unauthorized"),
            ):
                errors = await asyncio.to_thread(ask, server, key, **options)
                assert {type(error) for error in errors} == {EndpointMisused}
                assert all(re.search(reason, str(error)) for error in errors)

    served.loop.run(body())


@pytest.mark.parametrize(("free_gib", "is_refused"), [(24.0, False), (9.5, False), (6.0, False), (5.5, True)])
def test_vllms_own_check_of_a_card_asks_for_what_we_say_it_will(free_gib: float, *, is_refused: bool) -> None:
    from vllm.config import CacheConfig
    from vllm.v1.worker.utils import request_memory

    config = CacheConfig(**memory_arguments(VllmEngineConfig(kv_cache_mb=4096, gpu_memory_utilization=0.25)))
    assert config.kv_cache_memory_bytes == 4 << 30
    seen: Any = SimpleNamespace(free_memory=int(free_gib * 2**30), total_memory=24 << 30, device_="cuda:0")
    if is_refused:
        with pytest.raises(ValueError, match=r"5\.5/24\.0 GiB\) on startup is less"):
            request_memory(seen, config)
    else:
        assert request_memory(seen, config) == 6 << 30
