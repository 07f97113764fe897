"""Find values that an engine would refuse or change, before anything starts.

In: a resolved run. Out: a line with the key for each such value. The limits are those of the versions that
requirements/ locks, vLLM 0.32.0 (`vllm/sampling_params.py`, `vllm/config/scheduler.py`) and torch 2.13.0; a test
compares them with the installed versions. Called where a configuration is loaded to start something; the configurations
of earlier runs are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from config.generators import HfEngineConfig, ScriptedEngineConfig, VllmEngineConfig
from config.run import Run


class EngineLimits(NamedTuple):
    """Limits of an engine."""

    least_temperature: float
    most_temperature: float
    why_least: str
    why_most: str


VLLM: Final = EngineLimits(
    0.01,
    2.0,
    "vLLM 0.32 would sample at 0.01 in its place, and the learner would train at what is written",
    "vLLM 0.32 takes 0 to 2",
)
HF: Final = EngineLimits(
    1e-30,
    1e30,
    "the engine hf divides logits by it in float32, where that is infinite",
    "the engine hf divides logits by it in float32, where nothing is left of them",
)
MOST_COMPLETIONS_VARIABLE: Final = "VLLM_MAX_N_SEQUENCES"  # vLLM's own
MOST_COMPLETIONS: Final = 16384  # of one prompt, unless that variable sets another limit
MOST_SEED: Final = 2**64 - 1  # of torch.manual_seed


def beyond_limits(run: Run, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each value that the run's engine, or torch, refuses or changes.

    Args:
        environment: environment variables; vLLM's own may change a limit.
    """
    engine = run.generators.engine
    if run.seed > MOST_SEED:
        yield f"seed={run.seed}: torch takes up to {MOST_SEED}"
    if isinstance(engine, ScriptedEngineConfig):
        return
    limits = HF if isinstance(engine, HfEngineConfig) else VLLM
    for key, temperature in _of_each_sampling(run, "temperature", "temperature").items():
        if temperature and temperature < limits.least_temperature:
            greedy = "" if key == "sampling.temperature" else ", or 0: greedy"
            yield f"{key}={temperature:g}: {limits.why_least}. At least {limits.least_temperature:g}{greedy}"
        if temperature > limits.most_temperature:
            yield f"{key}={temperature:g}: {limits.why_most}. At most {limits.most_temperature:g}"
    if isinstance(engine, VllmEngineConfig):
        yield from _beyond_vllm(run, engine, most=_most_completions(environment))


def _of_each_sampling(run: Run, train: str, held_out: str) -> dict[str, float]:
    """Return one value for training and for each evaluation, by key.

    Args:
        train, held_out: name of the value in `sampling`, and in `evaluation` and its sets.
    """
    found = {f"sampling.{train}": getattr(run.sampling, train)}
    if run.data.held_out_sources:
        found[f"evaluation.{held_out}"] = getattr(run.evaluation, held_out)
    for place, each in enumerate(run.data.held_out_sets):
        if (own := getattr(each, held_out)) is not None:
            found[f"data.held_out.{place}.{held_out}"] = own
    return found


def _beyond_vllm(run: Run, engine: VllmEngineConfig, *, most: int) -> Iterator[str]:
    for key, count in _of_each_sampling(run, "group_size", "samples").items():
        if count > most:
            yield (
                f"{key}={count}: vLLM 0.32 takes at most {most} completions of a prompt, which the variable "
                f"{MOST_COMPLETIONS_VARIABLE} changes"
            )
    batched = engine.max_num_batched_tokens
    if batched is not None and batched < engine.max_num_seqs:
        yield (
            f"generators.engine.max_num_batched_tokens={batched}: vLLM 0.32 wants at least a token for each of "
            f"generators.engine.max_num_seqs={engine.max_num_seqs}"
        )


def _most_completions(environment: Mapping[str, str]) -> int:
    try:
        return int(environment.get(MOST_COMPLETIONS_VARIABLE, ""))
    except ValueError:
        return MOST_COMPLETIONS
