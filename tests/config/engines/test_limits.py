"""Values that an engine refuses or changes, beside what the installed engines say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.engines.limits import MOST_COMPLETIONS
from config.explanations import ConfigError
from config.loading import from_yaml, load_run

RUN = """
name: limits
model: {path: model}
data:
  train: {type: procedural}
  held_out: [{type: procedural, split: eval, name: h, temperature: 0.5}]
"""


def loaded(folder: Path, *words: str) -> str:
    """Return what is said of a configuration; "" where it is taken."""
    (folder / "run.yaml").write_text(RUN)
    try:
        load_run(["--config", str(folder / "run.yaml"), *words])
    except ConfigError as error:
        return str(error)
    return ""


ENGINES = {
    "vllm": ("generators.engine.type=vllm",),
    "hf": ("generators.engine.type=hf",),
    "fake": ("generators.engine.type=fake",),
}

# Engine, words, what is said (an empty text: taken).
CASES = [
    ("vllm", "sampling.temperature=2.5", "sampling.temperature=2.5: vLLM 0.32 takes 0 to 2. At most 2"),
    ("vllm", "sampling.temperature=2.0001", "At most 2"),
    ("vllm", "sampling.temperature=2", ""),
    ("vllm", "sampling.temperature=0.001", "vLLM 0.32 would sample at 0.01 in its place"),
    ("vllm", "sampling.temperature=0.009", "At least 0.01"),
    ("vllm", "sampling.temperature=1e-6", "At least 0.01"),  # which vLLM would lift, not take as greedy
    ("vllm", "sampling.temperature=0.01", ""),
    ("vllm", "sampling.temperature=.inf", "sampling.temperature"),
    ("vllm", "sampling.temperature=.nan", "sampling.temperature"),
    ("vllm", "sampling.temperature=0", "sampling.temperature"),
    ("vllm", "sampling.temperature=-1", "sampling.temperature"),
    ("vllm", "evaluation.temperature=3", "evaluation.temperature=3: vLLM 0.32 takes 0 to 2"),
    ("vllm", "evaluation.temperature=0.005", "At least 0.01, or 0: greedy"),
    ("vllm", "evaluation.temperature=0", ""),
    ("vllm", "data.held_out.0.temperature=0.001", "data.held_out.0.temperature=0.001: "),
    ("vllm", "data.held_out.0.temperature=2.1", "data.held_out.0.temperature=2.1: "),
    ("vllm", "data.held_out.0.temperature=0", ""),
    ("vllm", "evaluation.top_p=0", "evaluation.top_p"),
    ("vllm", "evaluation.top_p=1.1", "evaluation.top_p"),
    ("vllm", "sampling.top_p=0.9", "top_p must be 1"),
    ("vllm", "sampling.top_k=20", "top_k -1"),
    ("vllm", "sampling.min_p=0.1", "unknown key sampling.min_p"),
    ("vllm", "sampling.repetition_penalty=1.1", "unknown key sampling.repetition_penalty"),
    ("vllm", "sampling.max_tokens=0", "sampling.max_tokens"),
    ("vllm", f"sampling.group_size={MOST_COMPLETIONS + 1}", "at most 16384 completions of a prompt"),
    ("vllm", f"sampling.group_size={MOST_COMPLETIONS}", ""),
    ("vllm", f"evaluation.samples={MOST_COMPLETIONS + 1}", "evaluation.samples=16385: "),
    ("vllm", f"data.held_out.0.samples={MOST_COMPLETIONS + 1}", "data.held_out.0.samples=16385: "),
    ("vllm", "generators.engine.max_num_batched_tokens=128", "at least a token for each of"),
    ("vllm", "generators.engine.max_num_batched_tokens=256", ""),
    ("vllm", "seed=18446744073709551616", "torch takes up to"),
    ("vllm", "seed=18446744073709551615", ""),
    ("hf", "sampling.temperature=2.5", ""),
    ("hf", "sampling.temperature=0.001", ""),
    ("hf", "sampling.temperature=1e-40", "in float32, where that is infinite. At least 1e-30"),
    ("hf", "sampling.temperature=1e40", "At most 1e+30"),
    ("hf", "evaluation.temperature=1e-40", "or 0: greedy"),
    ("hf", f"sampling.group_size={MOST_COMPLETIONS + 1}", ""),
    ("fake", "sampling.temperature=2.5", ""),
]


@pytest.mark.parametrize(("engine", "word", "says"), CASES, ids=[f"{e}-{w}" for e, w, _ in CASES])
def test_values_beyond_an_engine_are_told(tmp_path: Path, engine: str, word: str, says: str) -> None:
    said = loaded(tmp_path, *ENGINES[engine], word)
    assert says in said
    assert bool(says) == bool(said)


def test_vllms_variable_changes_its_limit_and_a_run_of_before_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_MAX_N_SEQUENCES", "4")
    assert "at most 4 completions" in loaded(tmp_path, "sampling.group_size=8")
    assert from_yaml(RUN + "sampling: {temperature: 2.5}\n").sampling.temperature == 2.5
