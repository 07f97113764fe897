"""Check that configured files and folders exist: report a wrong path before anything starts.

In: a resolved run, in the `millrace up`, `chaos` or `python -m learner` that starts it on this machine. Out: nothing,
or a `ConfigError` with the key. Not part of loading: a process that joins from another machine, or reads an old run's
configuration, needs no such file.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

from config.data import DatasetSource
from config.explanations import ConfigError
from config.generators import VllmEngineConfig
from config.places import is_path, is_pattern, lacks_model
from config.run import Run
from learner.reporting.build import missing_loggers
from learner.reporting.dumps.places import in_the_way
from learner.status import read_status

FILES = frozenset({".jsonl", ".json", ".parquet", ".csv"})


def single_answers(run: Run) -> str:
    """Warn that a group of one answer trains nothing, since its baseline is the answer itself; "" for larger groups."""
    if run.sampling.group_size > 1:
        return ""
    return (
        "sampling.group_size=1: a group of one answer has an advantage of 0, whatever its reward, and nothing of it "
        "trains"
    )


def check_places(run: Run) -> None:
    """Check that the files and folders that `run` needs are on this machine's disk.

    Raises:
        ConfigError: a file or folder is missing; the message has a line for each key.
    """
    if missing := list(_missing(run)):
        raise ConfigError("\n".join(missing))


def _missing(run: Run) -> Iterator[str]:
    resume = run.learner.resume
    if lacks_model(run.model):
        yield f"model.path={run.model.path}: there is no such folder, and no name on the hub is so"
    yield from _beyond_positions(run)
    yield from _without_room(run)
    kl = run.learner.objective.kl
    if kl.coef and kl.reference is not None and is_path(kl.reference) and not Path(kl.reference).is_dir():
        yield f"learner.objective.kl.reference={kl.reference}: there is no such folder, and no name on the hub is so"
    serve = run.judge.serve
    if serve is not None and is_path(serve.model) and not Path(serve.model).is_dir():
        yield f"judge.serve.model={serve.model}: there is no such folder, and no name on the hub is so"
    yield from missing_loggers(run)
    yield from in_the_way(run)
    lora = run.learner.lora
    if lora is not None and importlib.util.find_spec("peft") is None:
        yield "learner.lora needs peft: pip install peft"
    if lora is not None and lora.adapter is not None and not lora.adapter.is_dir():
        yield f"learner.lora.adapter={lora.adapter}: there is no such folder"
    for key, source in run.data.keyed_sources().items():
        if not isinstance(source, DatasetSource) or is_pattern(source.path):
            continue
        is_file = Path(source.path).suffix in FILES
        if (is_file or is_path(source.path)) and not Path(source.path).exists():
            yield f"data.{key}.path={source.path}: there is no such file{'' if is_file else ' or folder'}"
    if isinstance(resume, Path) and not resume.is_dir() and not _has_begun(run):
        yield f"learner.resume={resume}: must be auto, never, or a checkpoint's folder that is there"


def _beyond_positions(run: Run) -> Iterator[str]:
    """Yield a line where the longest sequence exceeds the positions of a model in a folder.

    vLLM 0.32 then refuses to start (`_get_and_verify_max_len` in `vllm/config/model.py`); transformers fails at the
    first such token where positions are learned. A model with scaled rotary positions is left to the engine.
    """
    engine = run.generators.engine
    names = {"vllm": ("max_position_embeddings", "n_positions"), "hf": ("n_positions",)}.get(engine.type, ())
    try:
        described = json.loads((Path(run.model.path) / "config.json").read_text(encoding="utf-8"))
        text = described.get("text_config") or described
        limits = {name: int(text[name]) for name in names if text.get(name)}
        is_scaled = bool(text.get("rope_scaling")) or "factor" in json.dumps(text.get("rope_parameters"))
    except (OSError, ValueError, RecursionError, TypeError, AttributeError):
        return  # on a hub, or unusable, which the loader reports
    if is_scaled or described.get("model_max_length"):
        return
    length = longest(run)
    for name, limit in limits.items():
        if length > limit:
            yield (
                f"model.path={run.model.path} has {limit} positions ({name} of its config.json), and the longest "
                f"prompt and completion are {length} tokens: lower data.max_prompt_tokens={run.data.max_prompt_tokens} "
                f"or sampling.max_tokens={run.sampling.max_tokens}"
            )


def _without_room(run: Run) -> Iterator[str]:
    """Yield a line for each completion length that leaves no room for a prompt in vLLM's context."""
    engine = run.generators.engine
    if not isinstance(engine, VllmEngineConfig) or engine.max_model_len is None:
        return
    lengths = {"sampling.max_tokens": run.sampling.max_tokens}
    for place, each in enumerate(run.data.held_out_sets):
        if each.max_tokens is not None:
            lengths[f"data.held_out.{place}.max_tokens"] = each.max_tokens
    for key, tokens in lengths.items():
        if tokens >= engine.max_model_len:
            yield (
                f"{key}={tokens} leaves no room for a prompt in generators.engine.max_model_len="
                f"{engine.max_model_len}: every group would die"
            )


def longest(run: Run) -> int:
    """Return the tokens of the longest prompt with its completion, held-out ones included."""
    engine = run.generators.engine
    if isinstance(engine, VllmEngineConfig) and engine.max_model_len is not None:
        return engine.max_model_len
    prompt, completion = run.data.max_prompt_tokens, run.sampling.max_tokens
    sets = run.data.held_out_sets
    return max(
        prompt + completion,
        *(0, *((each.max_prompt_tokens or prompt) + (each.max_tokens or completion) for each in sets)),
    )


def _has_begun(run: Run) -> bool:
    """Return whether this run continues, and so no longer needs the checkpoint that it began from."""
    found = read_status(run.folder)
    return found.get("begun") != "no" and found.get("status", "") not in {"", "finished"}
