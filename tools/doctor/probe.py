"""`python -m tools.doctor.probe QUESTION [WORDS]`: answer a question of the doctor that needs heavy imports.

In: a question. Out: one JSON object on standard output, with `trouble` where there is no answer; output of libraries
goes to standard error. Started by `tools.doctor.questions`, which ends it at a deadline.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

from config.gpus import system_gpus

if TYPE_CHECKING:
    from broker.messages import Turn
    from config.run import Run
    from config.scorers import TaskConfig

Facts = dict[str, Any]
BEGIN_S = 20.0  # for an episode to begin


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one question."""
    name, *words = sys.argv[1:] if argv is None else argv
    answer_to = os.dup(1)
    os.dup2(2, 1)  # libraries print
    facts = answer(name, words)
    with os.fdopen(answer_to, "w") as stream:
        json.dump(facts, stream)
    sys.stdout.flush()
    os._exit(0)  # some libraries' threads do not end by themselves


def answer(name: str, words: Sequence[str]) -> Facts:
    """Return the result, or the trouble, of any kind."""
    try:
        return QUESTIONS[name](words)
    except Exception as error:  # noqa: BLE001 - any: that it can't be used, and why, is the answer
        return {"trouble": f"{type(error).__name__}: {error}"}


def torch(_words: Sequence[str]) -> Facts:
    """Return version, devices, and whether bfloat16 works."""
    library = importlib.import_module("torch")
    cuda = library.cuda
    is_there = bool(cuda.is_available())
    gpus = [
        {
            "name": cuda.get_device_name(index),
            "memory": cuda.get_device_properties(index).total_memory,
            "capability": ".".join(map(str, cuda.get_device_capability(index))),
        }
        for index in range(cuda.device_count() if is_there else 0)
    ]
    device = "cuda" if is_there else "cpu"
    ones = library.ones(256, 256, dtype=library.bfloat16, device=device)
    found = system_gpus()
    before = time.perf_counter()
    product = float((ones @ ones)[0, 0])
    return {
        "version": library.__version__,
        "cuda_build": library.version.cuda,
        "cuda": is_there,
        "gpus": gpus,
        "bf16": product == 256.0,
        "bf16_s": time.perf_counter() - before,
        "bf16_native": bool(cuda.is_bf16_supported(including_emulation=False))
        if is_there
        else _has_cpu_bf16(),
        "driver": found.driver,
        "system_gpus": list(found.names),
    }


def _has_cpu_bf16() -> bool:
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as stream:  # noqa: PTH123 - nothing else is needed
        return any(
            line.startswith("flags") and (" avx512_bf16" in line or " amx_bf16" in line) for line in stream
        )


def plain(name: str) -> Callable[[Sequence[str]], Facts]:
    """Return whether a library can be imported, and its version."""

    def ask(_words: Sequence[str]) -> Facts:
        library = importlib.import_module(name)
        return {"version": str(getattr(library, "__version__", "unknown"))}

    return ask


def vllm(_words: Sequence[str]) -> Facts:
    """Import vLLM as a generator does, and return the device it was built for."""
    from config.generators import VllmEngineConfig
    from generators.engines.vllm.environment import set_environment

    on_cpu = not importlib.import_module("torch").cuda.is_available()
    set_environment(VllmEngineConfig(), on_cpu=on_cpu)
    try:
        ctypes.CDLL("libnuma.so.1")
        has_libnuma = True
    except OSError:
        has_libnuma = "libnuma" in _maps()
    platforms = importlib.import_module("vllm.platforms")
    importlib.import_module("vllm.v1.engine.async_llm")
    return {
        "version": importlib.import_module("vllm").__version__,
        "libnuma": has_libnuma,
        "platform": str(platforms.current_platform.device_type),
    }


def _maps() -> str:
    """Return the libraries loaded in this process."""
    with open("/proc/self/maps", encoding="utf-8") as stream:  # noqa: PTH123
        return stream.read()


def sandbox(words: Sequence[str]) -> Facts:
    """Return whether each kind of walls works here, and what runs inside; or whether these servers answer."""
    from broker.errors import PipelineError
    from sandbox.choice import obstacle, tried
    from sandbox.remote.fusion import FusionSandbox
    from sandbox.walls.landlock import abi_version
    from sandbox.walls.seccomp import Walls

    if words:
        servers = FusionSandbox(tuple(words))
        servers.self_test()
        return {"version": servers.version}
    facts: Facts = {"landlock_abi": abi_version()}
    for walls in (Walls.BUBBLEWRAP, Walls.LANDLOCK):
        reason = obstacle(walls)
        if not reason:
            try:
                found = tried(walls)
                facts[walls.value] = {
                    "version": found.version,
                    "languages": sorted(map(str, found.languages)),
                }
                found.close()
                continue
            except PipelineError as error:
                reason = str(error)
        facts[walls.value] = {"reason": reason}
    return facts


def data(words: Sequence[str]) -> Facts:
    """Read every row of the run's data, as the learner does."""
    from config.loading import load_run
    from learner.data.ingest import ingest
    from learner.data.row import RowError

    run = load_run(words)
    counts: Facts = {}
    bad: list[str] = []
    for name, source in run.data.keyed_sources().items():
        try:
            counts[name] = len(ingest(run, source).rows)
        except RowError as error:
            if not error.rows:
                raise
            bad += error.rows
    return {"bad_rows": bad} if bad else counts


def tokenizer(words: Sequence[str]) -> Facts:
    """Load the model's tokenizer and its chat template, as the learner does."""
    from config.loading import load_run
    from learner.data.prompts import load_tokenizer

    return {"size": len(load_tokenizer(load_run(words)))}


def model(words: Sequence[str]) -> Facts:
    """Return problems of the model's files, as the learner does at its start."""
    from config.loading import load_run
    from learner.base_model.base_files import check_generation, what_is_odd
    from learner.base_model.own_head import has_own_head

    source = load_run(words).model
    check_generation(source)
    return {"own_head": has_own_head(source), "odd": what_is_odd(source)}


def engine(words: Sequence[str]) -> Facts:
    """Complete the engine's settings here, as a generator does before it starts a process."""
    from config.generators import ScriptedEngineConfig, VllmEngineConfig
    from config.loading import load_run

    run = load_run(words)
    section = run.generators.engine
    is_vllm = isinstance(section, VllmEngineConfig)
    if isinstance(section, ScriptedEngineConfig) or (is_vllm and importlib.util.find_spec("vllm") is None):
        return {"is_here": False}
    if isinstance(section, VllmEngineConfig):
        from generators.engines.vllm.environment import set_environment

        set_environment(section, on_cpu=not importlib.import_module("torch").cuda.is_available())
        from generators.engines.vllm.settings import resolve

        resolve(run, section)
    from generators.engines.hf.model import build_skeleton

    build_skeleton(run.model)
    return {"is_here": True}


def scorers(words: Sequence[str]) -> Facts:
    """Import and build the run's own scorers, as a worker does, and return the keys of those that fail."""
    from config.loading import load_run
    from scorers.custom import CustomScorerError, load_scorer
    from tools.doctor.run import own_scorers

    failed = {}
    for key, section in own_scorers(load_run(words)).items():
        try:
            load_scorer(section).close()
        except CustomScorerError as error:
            failed[key] = str(error)
    return {"failed": failed}


def environments(words: Sequence[str]) -> Facts:
    """Begin an episode of each task in a child, as an agent does, with an empty row.

    Returns:
        By task what `failed`, which resets `refused` such a row, how many `tools` there are, and the `objections` of
        the model's chat template to them; `untold`: why the objections are unknown.
    """
    from config.loading import load_run

    run = load_run(words)
    failed, refused, tools = asyncio.run(_begun(run))
    counts = {task: len(found) for task, found in tools.items()}
    return {"failed": failed, "refused": refused, "tools": counts, **_objections(run, tools)}


def _objections(run: Run, tools: Mapping[str, Sequence[Turn]]) -> Facts:
    """Return which tasks' tools the model's chat template does not show; loads no tokenizer without tools."""
    from agents.rendering.build import open_rendering
    from broker.errors import PipelineError

    if not any(tools.values()):
        return {"objections": {}, "untold": ""}
    try:
        rendering = open_rendering(run, is_offline=True)
    except PipelineError as error:
        return {"objections": {}, "untold": str(error)}
    found = {task: rendering.objection(shown) for task, shown in tools.items()}
    return {"objections": {task: why for task, why in found.items() if why}, "untold": ""}


def _hurried(task: TaskConfig) -> TaskConfig:
    """Return a task whose environment has little time to begin, since an absent server is waited for."""
    if (section := task.environment) is None:
        return task
    seconds = min(section.reset_deadline_s, BEGIN_S)
    return task.model_copy(update={"environment": section.model_copy(update={"reset_deadline_s": seconds})})


async def _begun(run: Run) -> tuple[dict[str, str], dict[str, str], dict[str, Sequence[Turn]]]:
    """Begin an episode of each task. Returns by task why none could start, why its reset refused, and its tools."""
    from agents.environments.runner import Environments
    from agents.environments.seam import EnvironmentFailed, FailureStage

    failed: dict[str, str] = {}
    refused: dict[str, str] = {}
    tools: dict[str, Sequence[Turn]] = {}
    tasks = {name: _hurried(task) for name, task in run.scorers.tasks.items()}
    scorers = run.scorers.model_copy(update={"tasks": tasks})
    environments = Environments(run.model_copy(update={"scorers": scorers}))
    try:
        for task in filter(run.plays, run.scorers.tasks):
            asked = [{"role": "user", "content": "?"}]
            try:
                episode, beginning = await environments.begin(
                    task,
                    {},
                    asked,
                    seed=0,
                    own_seed=0,
                    token="doctor",  # noqa: S106 - no secret
                )
            except EnvironmentFailed as error:
                is_of_row = error.stage is FailureStage.RESET and not error.is_unreachable
                (refused if is_of_row else failed)[task] = str(error)
                continue
            tools[task] = beginning.tools
            await episode.close()
    finally:
        await environments.close()
    return failed, refused, tools


QUESTIONS: Mapping[str, Callable[[Sequence[str]], Facts]] = {
    "torch": torch,
    "transformers": plain("transformers"),
    "deepspeed": plain("deepspeed"),
    "flash_attn": plain("flash_attn"),
    "vllm": vllm,
    "sandbox": sandbox,
    "data": data,
    "engine": engine,
    "environments": environments,
    "model": model,
    "scorers": scorers,
    "tokenizer": tokenizer,
}


def installed(name: str) -> str:
    """Return the version of a distribution, without importing it; "" where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
