"""A head that a checkpoint has and its config denies: one model for the learner, both engines, and what is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from broker.errors import RunFailed
from broker.weight_files import FILE, INDEX
from config.run import ModelConfig
from generators.engines.hf.model import build_model, build_skeleton, check_weights, replace_weights
from learner.base_model.own_head import has_own_head, settled
from learner.training.model_files import load_model, write_model
from tests.support.tiny import tiny_run, write_own_head, write_tiny_model

pytestmark = pytest.mark.model

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
IDS = torch.arange(3, 40)[None]


def source(folder: Path, **model: object) -> ModelConfig:
    return ModelConfig.model_validate({"path": str(folder), "dtype": "float32"} | model)


Weights = dict[str, torch.Tensor]
# What becomes of the weights of a tied model, and whether it has a head of its own then.
CHANGES: dict[str, tuple[Callable[[Weights], object], bool]] = {
    "as it was": (lambda _: None, False),
    "with a copy": (
        lambda some: some.update({HEAD: some[EMBEDDING].clone()}),
        False,
    ),  # as converted `.bin` files have
    "of a type that holds all of it": (
        lambda some: some.update({EMBEDDING: (one := some[EMBEDDING].bfloat16()), HEAD: one.float()}),
        False,
    ),
    "the head alone": (lambda some: some.update({HEAD: some.pop(EMBEDDING)}), False),  # transformers ties it
    "one other number": (lambda some: some.update({HEAD: add_to_the_last(some[EMBEDDING])}), True),
}


def add_to_the_last(weight: torch.Tensor) -> torch.Tensor:
    other = weight.clone()
    other[-1, -1] += 1
    return other


def in_two_files(folder: Path) -> Path:
    """A head of its own, in another file than the embedding."""
    weights = load_file(write_own_head(folder) / FILE)
    (folder / FILE).unlink()
    parts = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    save_file({n: t for n, t in weights.items() if n != HEAD}, folder / parts[0], metadata={"format": "pt"})
    save_file({HEAD: weights[HEAD]}, folder / parts[1], metadata={"format": "pt"})
    places = {name: parts[name == HEAD] for name in weights}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def untied(folder: Path, *, is_said: bool = True) -> Path:
    """Where the config may say nothing of it, since the class's default is untied."""
    write_tiny_model(folder, tied=False)
    described = json.loads((folder / "config.json").read_text())
    if not is_said:
        described.pop("tie_word_embeddings", None)
    (folder / "config.json").write_text(json.dumps(described))
    return folder


@pytest.mark.parametrize("name", [*CHANGES, "untied", "untied in silence", "its own", "in two files"])
def test_a_head_that_differs_is_the_checkpoints_own(tmp_path: Path, name: str) -> None:
    folder, is_own = tmp_path / "model", name in {"one other number", "its own", "in two files"}
    if name in CHANGES:
        weights = load_file(write_tiny_model(folder) / FILE)
        CHANGES[name][0](weights)
        save_file(weights, folder / FILE, metadata={"format": "pt"})
    elif name.startswith("untied"):
        untied(folder, is_said=name == "untied")
    else:
        (write_own_head if name == "its own" else in_two_files)(folder)
    assert has_own_head(source(folder)) is is_own
    run = settled(tiny_run(folder))
    assert run.model.tie_word_embeddings is (False if is_own else None)
    # One model on both sides, and in what is written.
    learner = load_model(run.model, attention="sdpa", gradient_checkpointing=False, own_head=is_own).eval()
    weights = {name: parameter.detach() for name, parameter in learner.named_parameters()}
    (tmp_path / "out").mkdir()
    write_model(weights, tmp_path / "out", source=source(folder), shard_bytes=10**9)
    generator = build_model(run.model)
    replace_weights(generator, [tmp_path / "out" / FILE])
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        expected = learner(input_ids=IDS).logits
        torch.testing.assert_close(generator(input_ids=IDS).logits, expected)
        torch.testing.assert_close(exported(input_ids=IDS).logits, expected)
    described = json.loads((tmp_path / "out" / "config.json").read_text())
    has_head = HEAD in load_file(tmp_path / "out" / FILE)
    assert bool(described.get("tie_word_embeddings", False)) is not has_head


def test_a_generator_that_does_not_know_of_the_head_would_sample_from_another_model(tmp_path: Path) -> None:
    folder = write_own_head(tmp_path / "model")
    learner = load_model(source(folder), attention="sdpa", gradient_checkpointing=False, own_head=True).eval()
    unaware = build_model(source(folder))
    replace_weights(unaware, [folder / FILE])
    with torch.no_grad():
        difference = (unaware(input_ids=IDS).logits - learner(input_ids=IDS).logits).abs().max()
    assert difference > 0.5  # what the first look ends a run for


def test_a_head_that_is_asked_for_and_not_there_is_refused(tmp_path: Path) -> None:
    asked = source(folder := write_tiny_model(tmp_path / "model"), tie_word_embeddings=False)
    told = r"tie_word_embeddings=false, and .* has no lm_head\.weight of its own"
    with pytest.raises(RunFailed, match=told):
        has_own_head(asked)
    with pytest.raises(RunFailed, match=r"missing lm_head\.weight"):
        check_weights(build_skeleton(asked), [folder / FILE])
    run = tiny_run(tmp_path / "nowhere")
    assert settled(run) is run, "without a usable config it is left to those who load it"
