"""A chain for each odd base: train, export, load by transformers and by vLLM, and find the same log-probabilities."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support.odd_bases import BASES, make_base
from tests.support.paths import ROOT

pytestmark = pytest.mark.e2e

RUN = """
name: odd
model: {{path: {model}, dtype: float32}}
data: {{train: {{type: procedural, size: 64}}, max_prompt_tokens: 64}}
sampling: {{group_size: 8, max_tokens: 24}}
generators: {{engine: {engine}}}
learner:
  steps: 2
  groups_per_step: 4
  max_lag: 1
  threads: 1
  optimizer: {{lr: 3.0e-4}}
  checkpoint: {{every: 1, export: true}}
"""
ENGINES = {
    "hf": "{type: hf, threads: 1}",
    "vllm": "{type: vllm, kv_cache_mb: 64, max_num_seqs: 32, enforce_eager: true}",
}
TOLERANCE = 1e-3  # nats; sums of float32 in another order
# vLLM in a process of its own, as a user serves what was trained: nothing of this project is imported.
ASK_VLLM = """
import json, sys
from vllm import LLM, SamplingParams
from vllm.inputs import tokens_input
if __name__ == "__main__":
    rows = json.loads(sys.argv[2])
    llm = LLM(sys.argv[1], dtype="float32", enforce_eager=True, max_model_len=128, kv_cache_memory_bytes=64 << 20)
    asked = SamplingParams(max_tokens=1, temperature=1.0, prompt_logprobs=0)
    found = llm.generate([tokens_input(row) for row in rows], asked)
    said = [[at[token].logprob for at, token in zip(each.prompt_logprobs[1:], row[1:])] for each, row in zip(found, rows)]
    text = llm.get_tokenizer().apply_chat_template([{"role": "user", "content": "12"}], tokenize=False)
    print("SAID", json.dumps([said, text]))
"""


def command(folder: Path, *words: str, isolated: bool = True) -> str:
    """Return what a command says, in an environment without a GPU or a network."""
    done = subprocess.run(
        [sys.executable, *(["-P"] if isolated else []), *words],
        cwd=folder,
        env={
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "PYTHONPATH": str(ROOT),
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
        },
        text=True,
        capture_output=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def train(folder: Path, kind: str, engine: str) -> tuple[Path, str]:
    """Train two steps on an odd base. Returns the run's folder, and what was said."""
    base = make_base(folder / "base", BASES[kind])
    (folder / "run.yaml").write_text(RUN.format(model=base, engine=ENGINES[engine]))
    said = command(folder, "-m", "tools.main", "up", "run.yaml")
    assert "run odd: finished after 2 of 2 steps" in said
    logs = (folder / "runs" / "odd" / "logs").rglob("*")
    return folder / "runs" / "odd", said + "".join(log.read_text() for log in logs if log.is_file())


def by_transformers(model: Path, rows: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return the log-probability of each token but the first, nats."""
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    found = []
    for row in rows:
        ids = torch.tensor([row])
        with torch.no_grad():
            logprobs = loaded(input_ids=ids).logits[0, :-1].log_softmax(-1)
        found.append(logprobs.gather(-1, ids[0, 1:, None])[:, 0].tolist())
    return found


def sampled(run: Path) -> list[list[int]]:
    """Return some texts that the run's model knows, as tokens."""
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    texts = ["Reverse 12", "A sum: 3 + 4 = 7.", "\\boxed{21}"]
    return [list(tokenizer(text).input_ids) for text in texts]


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", BASES)
def test_what_was_trained_is_what_both_libraries_load_wherever_it_was_written(
    tmp_path: Path, kind: str, engine: str
) -> None:
    run, said = train(tmp_path, kind, engine)
    command(tmp_path, "-m", "tools.main", "export", "odd", "-o", "out")
    places = [run / "model", tmp_path / "out", run / "models" / "step-000002"]
    weights = [load_file(place / "model.safetensors") for place in places]
    for other in weights[1:]:
        assert other.keys() == weights[0].keys()
        assert all(torch.equal(other[name], weights[0][name]) for name in other)
    assert any(
        not torch.equal(tensor, load_file(tmp_path / "base" / "model.safetensors")[name])
        for name, tensor in weights[0].items()
    )
    word = {"generation config": "model_file", "own head": "own_head", "odd tokenizer": "model_file"}[kind]
    assert word in said, "the start says what is odd"
    assert "first_look generator=" in said
    rows = sampled(run)
    expected = by_transformers(places[0], rows)
    for place in places[1:]:
        assert {file.name: file.read_bytes() for file in place.iterdir() if file.is_file()} == {
            file.name: file.read_bytes() for file in places[0].iterdir() if file.is_file()
        }
    answer = command(tmp_path, "-c", ASK_VLLM, str(places[0]), json.dumps(rows))
    found, text = json.loads(answer.split("SAID ", 1)[1].splitlines()[0])
    assert text == AutoTokenizer.from_pretrained(tmp_path / "base").apply_chat_template(
        [{"role": "user", "content": "12"}], tokenize=False
    )
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, abs=TOLERANCE)
